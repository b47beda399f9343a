"""Check what content says of the workspace: files and symbols it names, files it imports, lines its hunks replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from context_engine.context import parse_mentions, resolve_mentions
from context_engine.languages import Import, blank_comments_and_strings, outline_file, resolve_import
from context_engine.review.content_parsers import parse_python
from context_engine.review.validation.validation_request import make_finding

if TYPE_CHECKING:
    from context_engine.context import Workspace
    from context_engine.languages import Grammars, Language, PathIndex
    from context_engine.model import Finding
    from context_engine.text import DiffHunk, UnifiedDiff

NEAR_LINES = 200
"""A hunk that fits within this distance belongs to a file that has changed since; patch programs search as far."""
NAME_LANGUAGES = frozenset({"python", "javascript", "typescript", "tsx"})
"""Languages in which an import names what the other file has."""
NAME_SUFFIXES = (".py", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
GENERATED_MODULE = re.compile(
    r"(?i)(?:^|[./])_?version(?:\.py)?$|_pb2|generated|\bgen\b|(?:^|[./])dist\b|(?:^|[./])build\b|\?"
    r"|/[^/]{1,200}\.(?![cm]?[jt]sx?$)[a-z0-9]{1,8}$"
)
"""Modules that a program may write, so that no repository contains them."""
_NAMED_IMPORT = re.compile(
    r"^import\s{1,4}(?:type\s{1,4})?\{([^{}]{1,2000})\}\s{0,4}from\s{0,4}['\"]([^'\"\n]{1,300})['\"]", re.MULTILINE
)
_OPEN_MODULE = re.compile(
    r"^(?:def )?__getattr__|import\s+\*|export\s+(?:type\s+)?\*|module\.exports|globals\(\)|\bvars\(\)|sys\.modules"
    r"|\blazy_?(?:load|import|module|object)|\blazy\.|setattr\(",
    re.MULTILINE | re.IGNORECASE,
)
"""A file with one of these may have any name."""
DOTTED_LANGUAGES = frozenset({"python"})
"""Languages in which an import that begins with a folder of the workspace means a file of it."""


def find_unknown_names(text: str, workspace: Workspace) -> Iterator[Finding]:
    """Report files and symbols that a text names and the workspace does not have, with the nearest names."""
    for reference in resolve_mentions(parse_mentions(text), workspace, ()):
        if not reference.is_missing:
            continue
        start = text.find(reference.text)
        place = (0, 0) if start < 0 else (text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        advice = "Name what exists, or say that it is new."
        if reference.near:
            advice = f"Did you mean {', '.join(reference.near)}?"
        noun = "file" if reference.kind == "path" else "symbol"
        message = f"no {noun} here is called {reference.text[:80]}"
        yield make_finding(2, "warning", "grounding", f"unknown-{noun}", message, place, advice)


class ImportingSource(NamedTuple):
    """A text with its path and language, whose imports are compared with the workspace."""

    text: str
    path: str
    language: Language


def find_unresolved_imports(
    source: ImportingSource, grammars: Grammars, paths: PathIndex, read: Callable[[str], str | None]
) -> Iterator[Finding]:
    """Report imports that must mean a file of the workspace and mean none, and names that their file does not have.

    Other packages are not checked. An import that the code tries, or whose file a program may write, is a warning.
    """
    text, path, language = source
    tried = _tried_lines(text) if language.name == "python" else frozenset()
    reported: set[tuple[str, int]] = set()
    for imported in _read_imports(text, language, grammars):
        place = (imported.line, 1)
        is_unsure = imported.line in tried or bool(GENERATED_MODULE.search(imported.target))
        severity = "warning" if is_unsure else "error"
        found = resolve_import(language, path, imported.target, paths, imported.names)
        if not found and _is_local(imported.target, path, language, paths):
            if (imported.target, imported.line) in reported:
                continue
            reported.add((imported.target, imported.line))
            message = f"{imported.target[:80]} is not a file of this workspace"
            advice = "Import what exists, or create it."
            yield make_finding(2, severity, "grounding", "unresolved-import", message, place, advice)
        elif found and imported.names and _is_local(imported.target, path, language, paths):
            for name in _missing_names(imported.names, found[:1], language, read, paths):
                message = f"{found[0]} has no {name[:80]}"
                advice = "Import a name that the file has, or define it there."
                yield make_finding(2, severity, "grounding", "unknown-import-name", message, place, advice)


def _tried_lines(text: str) -> frozenset[int]:
    """Return the lines of Python code that run only under a condition: in `try`, or in `if`."""
    try:
        nodes = [node for node in ast.walk(parse_python(text)) if isinstance(node, ast.Try | ast.If)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _missing_names(
    names: Sequence[str], found: Sequence[str], language: Language, read: Callable[[str], str | None], paths: PathIndex
) -> Iterator[str]:
    """Yield the imported names that the file of an import does not contain, where that is certain."""
    (path,) = found
    has_types = path.endswith("js") and f"{path.rpartition('.')[0]}.d.ts" in paths
    if language.name not in NAME_LANGUAGES or not path.endswith(NAME_SUFFIXES) or has_types:
        return
    text = read(path)
    if text is None or _OPEN_MODULE.search(text):
        return
    words = frozenset(re.findall(r"\w+", text))
    folder = path.rpartition("/")[0]
    for name in names:
        is_module = path.endswith("__init__.py") and any(
            f"{folder}/{name}{suffix}" in paths for suffix in (".py", "/__init__.py", ".pyi", ".so", ".pyx")
        )
        if name.isidentifier() and name != "default" and name not in words and not is_module:
            yield name


def _read_imports(text: str, language: Language, grammars: Grammars) -> Sequence[Import]:
    """Return what a text imports. Python parses itself: its grammar needs quadratic time for a run of comments."""
    if language.name != "python":
        outlined = outline_file(language, text.encode("utf-8", "replace"), grammars).imports
        if language.name in NAME_LANGUAGES:
            return [*outlined, *_named_imports(text, language, grammars)]
        return outlined
    try:
        nodes = ast.walk(parse_python(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    imports: list[Import] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            imports += (Import(name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            target = "." * node.level + (node.module or "")
            imports.append(Import(target, node.lineno, tuple(name.name for name in node.names)))
    return sorted(imports, key=lambda imported: imported.line)


def _named_imports(text: str, language: Language, grammars: Grammars) -> Iterator[Import]:
    """Yield the imports of JavaScript with the names between their braces, which an outline does not have."""
    matches = list(_NAMED_IMPORT.finditer(text))
    if not matches:
        return
    code = blank_comments_and_strings(language, text.encode("utf-8", "replace"), grammars)
    if code is None:
        return
    lines = code.decode("utf-8", "replace").split("\n")
    for found in matches:
        number = text.count("\n", 0, found.start()) + 1
        if number > len(lines) or "import" not in lines[number - 1]:  # it is in a string or a comment
            continue
        parts = (part.split(" as ")[0].split() for part in found[1].split(","))
        yield Import(found[2], number, tuple(words[-1] for words in parts if words))


def _is_local(target: str, path: str, language: Language, paths: PathIndex) -> bool:
    if target.startswith("."):
        return bool(path) and not re.fullmatch(r"\.+", target)
    first, dot, _ = target.partition(".")
    return bool(dot) and language.name in DOTTED_LANGUAGES and bool(resolve_import(language, path, first, paths))


def find_misplaced_hunks(diff: UnifiedDiff, read: Callable[[str], str | None]) -> Iterator[Finding]:
    """Report hunks whose old lines are not in the file that they change."""
    for file in diff.files:
        if not file.old_path or file.is_binary or not file.hunks:
            continue
        text = read(file.old_path)
        if text is None:
            message = f"{file.old_path} is not in this workspace"
            advice = "Name a file that exists."
            yield make_finding(2, "warning", "grounding", "unknown-file", message, advice=advice)
            continue
        lines = text.split("\n")
        for hunk in file.hunks:
            if not _fits(hunk, lines):
                line = hunk.old.first if hunk.old else 0
                message = f"{file.old_path}: the hunk at line {line} does not fit the file as it is"
                advice = "Make the diff of the file as it is now."
                yield make_finding(2, "warning", "grounding", "hunk-does-not-apply", message, advice=advice)


def _fits(hunk: DiffHunk, lines: Sequence[str]) -> bool:
    """Whether the old lines of a hunk are where it says, or near."""
    if hunk.old is None:
        return True
    wanted = [line.text for line in hunk.lines if line.old]
    expected = hunk.old.first - 1
    starts = range(max(0, expected - NEAR_LINES), expected + NEAR_LINES)
    return any(list(lines[start : start + len(wanted)]) == wanted for start in starts)
