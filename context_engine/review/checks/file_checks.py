"""Checks that compare the two versions of a file: its metadata, its syntax, its definitions, its longest functions."""

from __future__ import annotations

import ast
import builtins
import json
import posixpath
import re
import symtable
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from context_engine.model import Finding, syntax_finding
from context_engine.review.checks.check import SCRIPT, check, on_line
from context_engine.review.content_parsers import (
    COMMENTED_JSON,
    TEMPLATE,
    SyntaxErrors,
    find_toml_errors,
    find_yaml_errors,
)
from context_engine.text import LineSpan

if TYPE_CHECKING:
    from context_engine.languages import Capture, Symbol
    from context_engine.review.source_versions import FileVersion, ReviewedFile

# -- metadata ----------------------------------------------------------------------------------------------------------

LARGE_BYTES = 1_000_000
"""A binary of a megabyte stays in every clone forever."""


@check("path-escape")
def path_escape(file: ReviewedFile) -> Iterator[Finding]:
    """Report `../x`, `/etc/x`, `.git/x` as the path of a changed file."""
    for path in (file.path, file.old_path):
        parts = path.replace("\\", "/").lower().split("/")
        if {"..", ".git"} & {*parts} or re.match(r"/|[A-Za-z]:", path):
            yield on_line(
                1, f"{path!r}: to apply this change is to write outside of the work tree, or into git's own folder."
            )
            return


@check("symlink-escape")
def symlink_escape(file: ReviewedFile) -> Iterator[Finding]:
    """Report a new or changed symbolic link to an absolute path, or above the top folder."""
    if file.diff.new_mode != "120000" or not file.diff.added_lines:
        return
    target = file.diff.added_lines[0].text.strip()
    led_to = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target))
    if re.match(r"/|[A-Za-z]:", target) or led_to.startswith(".."):
        yield on_line(1, f"It points at {target!r}: another file on every machine, and perhaps a private one.")


@check("executable-text")
def executable_text(file: ReviewedFile) -> Iterator[Finding]:
    """Report the executable bit on a text without an interpreter."""
    new = file.new
    if file.diff.new_mode != "100755" or file.diff.old_mode == "100755" or new is None or new.is_binary:
        return
    if new.data and not new.text.startswith("#!") and not re.search(r"\.(?:bat|cmd|ps1|exe)$", file.path):
        yield on_line(1)


@check("large-binary")
def large_binary(file: ReviewedFile) -> Iterator[Finding]:
    """Report a new binary above a megabyte, or one that grew above it."""
    before = len(file.old.data) if file.old else 0
    if file.new and file.new.is_binary and len(file.new.data) > LARGE_BYTES >= before and not file.diff.is_lfs:
        megabytes = len(file.new.data) / 1_000_000
        yield on_line(1, f"{megabytes:.1f} MB that stay in every clone forever; Git LFS or a release asset does not.")


# -- functions that grow -----------------------------------------------------------------------------------------------

LONG_LINES = 80
"""More than a screen: readers must scroll to see the end."""
GREW_LINES = 5
"""A line or two are not a reason to split a function."""
PATHS_MAX, PATHS_GROWTH = 15, 3
"""McCabe's own limit is ten, most linters warn above ten to fifteen; three more paths are more than one condition."""
FORKS = frozenset("if elif elsif unless for foreach while until case when catch except rescue && || ?? and or".split())
"""The words of all languages at which a path divides, besides conditional expressions."""


@check("long-function")
def long_function(file: ReviewedFile) -> Iterator[Finding]:
    """Report a function above 80 lines that has more of them than before."""
    before = {name: function.last - function.first + 1 for name, function in _functions(file.old).items()}
    for name, function in _functions(file.new).items():
        span = LineSpan(function.first, function.last)
        lines = span.last - span.first + 1
        if lines > LONG_LINES and lines - before.get(name, 0) >= GREW_LINES and file.touches(span):
            was = f"had {before[name]} lines and " if name in before else ""
            yield on_line(function.line, f"{function.name} {was}has {lines} lines now, more than a screen.")


@check("complexity")
def complexity(file: ReviewedFile) -> Iterator[Finding]:
    """Report a function with a cyclomatic complexity above 15 that is 3 more than before."""
    functions = _functions(file.new)
    touched = [name for name, one in functions.items() if file.touches(LineSpan(one.first, one.last))]
    complex_now = {name: count for name, count in _count_paths(file.new, touched).items() if count > PATHS_MAX}
    before = _count_paths(file.old, complex_now)
    for name, count in complex_now.items():
        if count - before.get(name, 1) >= PATHS_GROWTH:
            was = f"had {before[name]} paths through it and " if name in before else ""
            yield on_line(functions[name].line, f"{functions[name].name} {was}has {count} now; each path needs a test.")


def _functions(source: FileVersion | None) -> Mapping[str, Symbol]:
    return source.functions if source else {}


def _count_paths(source: FileVersion | None, names: Iterable[str]) -> Counter[str]:
    """Return the cyclomatic complexity of these functions that are long: one, and one more for each fork."""
    functions = _functions(source)
    known = [
        name for name in names if name in functions and functions[name].last - functions[name].first > PATHS_GROWTH
    ]
    counts = Counter(dict.fromkeys(known, 1))
    lines = {line for name in known for line in range(functions[name].first, functions[name].last + 1)}
    for line, tokens in source.leaf_tokens(lines).items() if source and lines else ():
        name = min((one.last - one.first, name) for name, one in functions.items() if one.first <= line <= one.last)[1]
        for token in tokens if name in counts else ():
            inside = token.around[0] if token.around else ""
            is_choice = token.text == "?" and ("conditional" in inside or "ternary" in inside)
            counts[name] += token.text in FORKS or is_choice or (token.text == "=>" and "match_arm" in inside)
    return counts


# -- syntax ------------------------------------------------------------------------------------------------------------

_PREPROCESSED = frozenset(
    "c cpp objc csharp bash perl powershell sql swift scala haskell html vue svelte css scss".split()
)
"""With macros, dialects and incomplete grammars, parsers report errors in healthy files."""
_TRUSTED = frozenset({"python", "typescript", "go", "java"})
"""Parsers without an error in the healthy files of large projects, so new files are checked as well. JavaScript
has too many dialects for that: Flow, and languages of test frameworks."""


@check("syntax-error")
def syntax_error(file: ReviewedFile) -> Iterator[Finding]:
    """Report the first error of a file that had none; one that had some is in a dialect unknown to the parser."""
    new, old = file.new, file.old
    if new is None or new.language_name in _PREPROCESSED or (old is None and new.language_name not in _TRUSTED):
        return
    if not new.errors or (old is not None and old.errors) or (new.language_name == "python" and new.python is not None):
        return
    first = new.errors[0]
    near = min(file.added, key=lambda line: abs(line - first.line), default=first.line)
    yield on_line(near, f"It does not parse any more: line {first.line}: {first.title}.")


@check("invalid-data")
def invalid_data(file: ReviewedFile) -> Iterator[Finding]:
    """Report JSON, TOML or YAML that its parser refuses and accepted before."""
    if file.new is None or not file.new.text.strip():
        return
    now = _find_data_error(file.new)
    if now is None or (file.old is not None and file.old.text.strip() and _find_data_error(file.old)):
        return
    near = min(file.added, key=lambda added: abs(added - now.line), default=now.line)
    yield on_line(near, f"It cannot be read any more: line {now.line}: {now.title}.")


def _find_data_error(source: FileVersion) -> Finding | None:
    """Return the first certain error of a data file; None for a sound one, and for other files."""
    errors: SyntaxErrors | str = ()
    match source.path.rpartition(".")[2].lower():
        case "json" if not TEMPLATE.search(source.text) and not COMMENTED_JSON.search(source.path):
            errors = _find_json_error(source.text)
        case "toml":
            errors = find_toml_errors(source.text)
        case "yml" | "yaml" if not TEMPLATE.search(source.text):
            errors = find_yaml_errors(source.text)
    certain = [error for error in errors if not isinstance(error, str) and error.confidence == 1]
    return next(iter(certain), None)


def _find_json_error(text: str) -> SyntaxErrors:
    """Return the first error of a JSON text; NaN and numbers of a million digits are up to its reader."""
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return (syntax_finding(error.lineno, error.colno, error.msg),)
    except (RecursionError, ValueError):
        pass
    return ()


# -- definitions -------------------------------------------------------------------------------------------------------

_DEFINED_SCRIPT = """
(program (function_declaration name: (identifier) @name) @it) @block
(class_body (method_definition name: (property_identifier) @name) @it) @block
"""
_DEFINED = {
    "python": """
(module (function_definition name: (identifier) @name) @it) @block
(module (class_definition name: (identifier) @name) @it) @block
(block (function_definition name: (identifier) @name) @it) @block
""",
    **dict.fromkeys(SCRIPT, _DEFINED_SCRIPT),
}


@check("duplicate-definition")
def duplicate_definition(file: ReviewedFile) -> Iterator[Finding]:
    """Report functions, methods or classes with the name of another one in the same block, on the added one."""
    if file.new is None:
        return
    now = _find_doubles(file.new)
    before = {key[1:] for key in _find_doubles(file.old if now else None)}
    for key, found in now.items():
        added = [definition.first for definition in found if definition.first in file.added]
        if added and key[1:] not in before and not _is_rebound(file.new, key[2], found):
            others = ", ".join(str(one.first) for one in found if one.first != added[-1])
            yield on_line(added[-1], f"{key[2]} is defined on line {others}, too: the last one replaces the others.")


def _find_doubles(source: FileVersion | None) -> Mapping[tuple[int, str, str], list[Capture]]:
    """Return what is defined twice by block, kind (a getter is not a setter) and name."""
    by_place: dict[tuple[int, str, str], list[Capture]] = {}
    for found in source.matches(_DEFINED.get(source.language_name, "")) if source else ():
        definition, name = found["it"], found["name"].text
        how = definition.text.partition(name)[0] if definition.kind == "method_definition" else ""
        if name != "_":
            key = (found["block"].start, definition.kind + " ".join(how.split()), name)
            by_place.setdefault(key, []).append(definition)
    return {key: found for key, found in by_place.items() if len(found) > 1}


def _is_rebound(source: FileVersion, name: str, found: Sequence[Capture]) -> bool:
    """Whether the name is used between its definitions: then both definitions count."""
    between = "\n".join(source.lines[found[0].last : found[-1].first - 1])
    return bool(re.search(rf"\b{re.escape(name)}\b(?!\s*\(self)", between))


UNDEFINED_MAX = 5
DYNAMIC = re.compile(r"\bimport \*|\bglobals\(\)|\bexec\(|\bNameError\b")
"""A file with one of these may define names in other ways."""
KNOWN_NAMES = frozenset(
    {*dir(builtins), "__file__", "__path__", "__annotations__", "__builtins__", "WindowsError", "reveal_type"}
    | {*"basestring unicode unichr long xrange raw_input reduce file cmp reload".split()}
)
"""Names that need no definition; code for both versions of Python uses those of Python 2 behind a test."""


@check("undefined-name")
def undefined_name(file: ReviewedFile) -> Iterator[Finding]:
    """Report new uses of names, and old uses whose definition went, that no scope of Python around them defines.

    Compilers report them in other languages; there the names of removed imports were wrong in 12 of 12 cases.
    """
    if file.new is None or file.new.python is None or DYNAMIC.search(file.new.text):
        return
    missing = find_undefined(file.new)
    known = find_undefined(file.old) if missing and file.old is not None else frozenset()
    uses: dict[str, list[int]] = {}
    for node in ast.walk(file.new.python):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in missing - known:
            uses.setdefault(node.id, []).append(node.lineno)
    for name, lines in [*uses.items()][:UNDEFINED_MAX]:
        line = min(lines, key=lambda line: (line not in file.added, line))
        yield on_line(
            line, f"`{name}` is not defined in this file, nor is it a builtin. Using it fails with a NameError."
        )


def find_undefined(source: FileVersion) -> frozenset[str]:
    """Return the names that a file of Python uses and no scope of it defines; none where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = symtable.symtable(source.text, source.path, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    defined, used = {*KNOWN_NAMES}, set()
    pending = [module]
    while pending:
        scope = pending.pop()
        pending += scope.get_children()
        for symbol in scope.get_symbols():
            is_bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if is_bound and (scope is module or symbol.is_declared_global()):
                defined.add(symbol.get_name())
            elif symbol.is_referenced() and (symbol.is_global() or scope is module):
                used.add(symbol.get_name())
    return frozenset(name for name in used - defined if not name.startswith("__"))
