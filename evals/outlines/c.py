"""Print the definitions of C and C++ files as libclang names them: path, first line, name (line 0: it refuses the file).

    python c.py [FOLDER OF HEADERS ...] < PATHS

Needs the wheel `libclang`. What a condition leaves out is not seen; only errors in the file itself count.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from clang import cindex
from clang.cindex import CursorKind, Diagnostic, TranslationUnit

BUILT_IN = "/usr/lib/gcc/x86_64-linux-gnu/12/include"
"""The wheel has no headers of a compiler."""
TYPES = {
    CursorKind.STRUCT_DECL,
    CursorKind.UNION_DECL,
    CursorKind.CLASS_DECL,
    CursorKind.CLASS_TEMPLATE,
    CursorKind.ENUM_DECL,
}
FUNCTIONS = {
    CursorKind.FUNCTION_DECL,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CONVERSION_FUNCTION,
}
OTHERS = {
    CursorKind.FIELD_DECL,
    CursorKind.ENUM_CONSTANT_DECL,
    CursorKind.TYPEDEF_DECL,
    CursorKind.TYPE_ALIAS_DECL,
    CursorKind.NAMESPACE,
    CursorKind.MACRO_DEFINITION,
    CursorKind.CONCEPT_DECL,
}
LOCAL = {*FUNCTIONS, CursorKind.LAMBDA_EXPR}


def main() -> None:
    """Print the definitions of the files on the standard input."""
    headers = [f"-I{folder}" for folder in (*sys.argv[1:], BUILT_IN)]
    index = cindex.Index.create()
    for path in sys.stdin.read().split("\n"):
        if path:
            kind = ["-xc"] if path.endswith(".c") else ["-xc++", "-std=c++20"]
            unit = index.parse(path, [*kind, *headers], options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
            if any(one.severity >= Diagnostic.Error and str(one.location.file) == path for one in unit.diagnostics):
                print(path, 0, "", sep="\t")
                continue
            for name, line in sorted(set(list_definitions(path, unit.cursor, is_local=False))):
                print(path, line, name, sep="\t")


def list_definitions(path: str, cursor: cindex.Cursor, *, is_local: bool) -> Iterator[tuple[str, int]]:
    """Yield what is defined below a cursor, a type once more where a typedef names it."""
    for child in cursor.get_children():
        if child.location.file is None or child.location.file.name != path:
            continue
        is_type = child.kind in TYPES and child.is_definition()
        is_variable = child.kind == CursorKind.VAR_DECL and not is_local
        if (
            (is_type or is_variable or child.kind in FUNCTIONS | OTHERS)
            and child.spelling
            and "(" not in child.spelling
        ):
            name = child.spelling if child.spelling.startswith("operator") else child.spelling.partition("<")[0]
            yield name, first_line(child)
        yield from list_definitions(path, child, is_local=is_local or child.kind in LOCAL)


def first_line(cursor: cindex.Cursor) -> int:
    """Return the first line of a definition, below its `template <...>`."""
    depth = 0
    is_template = cursor.kind in (CursorKind.CLASS_TEMPLATE, CursorKind.FUNCTION_TEMPLATE)
    for token in cursor.get_tokens() if is_template else ():
        text = token.spelling
        if depth == 0 and text not in ("template", "<"):
            return token.extent.start.line
        depth += text.count("<") - text.count(">") if text in ("<", ">", ">>") else 0
    return cursor.extent.start.line


main()
