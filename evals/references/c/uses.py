"""Print the uses that libclang finds in C and C++ files: use and definition, as path, line and column.

    python evals/references/c/uses.py ROOT [DEFINES,DEFINES...]

Needs the wheel `libclang`. Each source file is parsed alone, with all folders of headers as include paths; nothing is
built. The declarations and the definition of one thing, and overloads of one scope, are one: each place is a use of the
others; each declaration is listed as a use of itself, so that those it does not know are left out. What libclang cannot resolve (bodies of macros, code that a condition leaves out) is not printed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from clang import cindex
from clang.cindex import CursorKind, LinkageKind, TranslationUnit

SOURCES = (".c", ".cc", ".cpp", ".cxx")
HEADERS = (".h", ".hpp", ".hh", ".hxx")
BUILT_IN = "/usr/lib/gcc/x86_64-linux-gnu/12/include"
"""The wheel has no headers of a compiler."""
ELSEWHERE = "-"
UNITS_MAX = 3
"""Units in which a header is looked at."""

Place = tuple[str, int, int]


class UseTable:
    """The uses of all translation units, with what is one thing joined."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.joined: dict[Place, Place] = {}
        self.uses: set[tuple[Place, Place]] = set()
        self.named: dict[object, set[Place]] = defaultdict(set)
        self.defining: dict[object, set[str]] = defaultdict(set)
        self.units: dict[str, int] = defaultdict(int)
        self.texts: dict[str, list[bytes]] = {}

    def find(self, place: Place) -> Place:
        """Return the representative of a place."""
        while self.joined.setdefault(place, place) != place:
            place = self.joined[place]
        return place

    def join(self, left: Place, right: Place) -> None:
        """Take two places for one thing."""
        self.joined[self.find(left)] = self.find(right)

    def place_of(self, location: Any, name: str) -> Place | None:
        """Return a location in the repository that has the name; None for others."""
        if location.file is None:
            return None
        relative = inside(location.file.name, self.root)
        if not relative:
            return None
        if relative not in self.texts:
            self.texts[relative] = (self.root / relative).read_bytes().split(b"\n")
        line = self.texts[relative][location.line - 1]
        start = location.column - 1
        if line[start : start + 1] == b"~":
            start += 1
        if not line[start:].startswith(name.encode()):
            return None
        return relative, location.line, len(line[:start].decode("utf-8", "replace")) + 1

    def read(self, path: Path, arguments: list[str]) -> int:
        """Add the uses of one source file; return the number of errors."""
        index = cindex.Index.create()
        options = TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
        unit = index.parse(str(path), args=arguments, options=options)
        for cursor in self.walk(unit.cursor):
            self.add(cursor)
        return sum(one.severity >= cindex.Diagnostic.Error for one in unit.diagnostics)

    def walk(self, top: Any) -> Iterator[Any]:
        """Yield the cursors of the files of the repository; those of a header in the first units that include it."""
        listed = [(child, child.location.file) for child in top.get_children()]
        waiting = [child for child, file in listed if file is not None and self.is_wanted(file.name)]
        for path in {file.name for _, file in listed if file is not None}:
            self.units[path] += 1
        while waiting:
            cursor = waiting.pop()
            yield cursor
            waiting += cursor.get_children()

    def is_wanted(self, name: str) -> bool:
        """Whether a file is in the repository, and was not in enough units."""
        return bool(inside(name, self.root)) and self.units[name] < UNITS_MAX

    def add(self, cursor: Any) -> None:
        """Add what one cursor says."""
        if cursor.kind == CursorKind.MACRO_DEFINITION:
            self.add_definition(cursor, cursor.spelling)
        elif cursor.kind == CursorKind.MACRO_INSTANTIATION:
            meant = cursor.referenced
            if meant is not None:
                self.add_use(cursor, meant)
        elif cursor.kind == CursorKind.FUNCTION_DECL and cursor.spelling.isupper():
            return  # a macro of a library that is not here
        elif cursor.kind.is_declaration():
            self.add_definition(cursor, plain_name(cursor))
        else:
            for meant in meant_by(cursor):
                self.add_use(cursor, meant)

    def add_definition(self, cursor: Any, name: str) -> None:
        """Join a definition with its other declarations, and with overloads."""
        place = self.place_of(cursor.location, name) if name else None
        if place is None:
            return
        self.find(place)
        if cursor.kind == CursorKind.MACRO_DEFINITION:
            key: object = ("macro", cursor.spelling, cursor.location.file.name)
        else:
            key = entity_key(cursor)
        self.named[key].add(place)
        if place[0].endswith(SOURCES) and cursor.is_definition():
            self.defining[key].add(place[0])
        for other in (cursor.canonical, cursor.get_definition(), template_of(cursor)):
            at = self.place_of(other.location, name) if other is not None else None
            if at is not None:
                self.join(place, at)

    def add_use(self, cursor: Any, meant: Any) -> None:
        """Add a use, if it is written with the name of what it means."""
        name = plain_name(meant)
        place = self.place_of(cursor.location, name) if name else None
        if place is None:
            return
        target = self.place_of(meant.location, name)
        if target is None:
            self.uses.add((place, (ELSEWHERE, 0, 0)))
            return
        self.find(target)
        if meant.kind != CursorKind.MACRO_DEFINITION:
            self.add_definition(meant, name)
        self.uses.add((place, target))

    def rows(self) -> Iterator[str]:
        """Yield the lines of the table."""
        for key, places in self.named.items():
            is_apart = len(self.defining[key]) > 1 and not any(place[0].endswith(HEADERS) for place in places)
            for place in places:  # functions of one name in several programs are several
                first = min(one for one in places if not is_apart or one[0] == place[0])
                self.join(place, first)
        groups: dict[Place, list[Place]] = defaultdict(list)
        for place in list(self.joined):
            groups[self.find(place)].append(place)
        for place, target in sorted(self.uses):
            for one in groups.get(self.find(target), [target]) if target[0] != ELSEWHERE else [target]:
                yield "\t".join(map(str, (*place, *one)))
        for group in groups.values():
            for place in group:
                for other in group:
                    yield "\t".join(map(str, (*place, *other)))


def entity_key(cursor: Any) -> object:
    """Return what overloads and declarations in several files share."""
    parent = cursor.semantic_parent
    scope = parent.get_usr() if parent is not None and parent.kind != CursorKind.TRANSLATION_UNIT else ""
    if cursor.kind in FUNCTIONS:
        is_local = cursor.linkage == LinkageKind.INTERNAL or cursor.spelling == "main"
        file = cursor.location.file.name if is_local and not scope else ""
        return ("function", scope, plain_name(cursor), file)
    if cursor.kind in TYPES and cursor.spelling.isidentifier():
        return ("type", scope, cursor.spelling)
    return cursor.get_usr() or (cursor.location.file.name, cursor.location.offset)


FUNCTIONS = (
    CursorKind.FUNCTION_DECL,
    CursorKind.CXX_METHOD,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
)


TYPES = (
    CursorKind.TYPEDEF_DECL,
    CursorKind.STRUCT_DECL,
    CursorKind.UNION_DECL,
    CursorKind.CLASS_DECL,
    CursorKind.CLASS_TEMPLATE,
)


def template_of(cursor: Any) -> Any:
    """Return the template that something is an instance of."""
    return cindex.conf.lib.clang_getSpecializedCursorTemplate(cursor)


def meant_by(cursor: Any) -> list[Any]:
    """Return what an expression or a reference means."""
    if cursor.kind == CursorKind.OVERLOADED_DECL_REF:
        library = cindex.conf.lib
        return [
            library.clang_getOverloadedDecl(cursor, at) for at in range(library.clang_getNumOverloadedDecls(cursor))
        ]
    meant = cursor.referenced
    if meant is None or meant == cursor or not meant.kind.is_declaration():
        return []
    return [meant]


def plain_name(cursor: Any) -> str:
    """Return the name without the arguments of a template."""
    name = (cursor.spelling or "").removeprefix("~")
    if not name.startswith("operator"):
        name = name.partition("<")[0]
    return name if name.replace("_", "a").isalnum() else ""


@lru_cache(maxsize=100_000)
def inside(name: str, root: Path) -> str:
    """Return the path of a file in the repository; empty for other files."""
    path = Path(name).resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else ""


def main() -> None:
    """Print the table of a checkout."""
    root = Path(sys.argv[1]).resolve()
    defines = [f"-D{one}" for one in (sys.argv[2] if len(sys.argv) > 2 else "").split(",") if one]
    files = [file for file in sorted(root.rglob("*")) if file.is_file() and not file.is_symlink()]
    folders = sorted({str(file.parent) for file in files if file.suffix in HEADERS})
    folders += sorted({str(Path(one).parent) for one in folders if Path(one) != root})
    includes = [f"-iquote{one}" for one in dict.fromkeys([str(root), *folders])]
    includes += [f"-I{one}" for one in folders if one.endswith(("/include", "/src"))]
    table = UseTable(root)
    headers_alone = [file for file in files if file.suffix in HEADERS]
    is_cpp = any(file.suffix in SOURCES[1:] for file in files)
    for file in [*(file for file in files if file.suffix in SOURCES), *headers_alone]:
        is_c = file.suffix == ".c" or (file.suffix == ".h" and not is_cpp)
        mode = ["-x", "c", "-std=gnu11"] if is_c else ["-x", "c++", "-std=c++17"]
        errors = table.read(file, [*mode, *defines, *includes, f"-isystem{BUILT_IN}"])
        print(f"{file.relative_to(root)}: {errors} errors", file=sys.stderr)
    sys.stdout.writelines(f"{row}\n" for row in sorted(set(table.rows())))


if __name__ == "__main__":
    main()
