"""Check what content says of the workspace: files and symbols it names, files it imports, lines its hunks replace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from context_engine.context import resolve_names
from context_engine.languages import resolve_import
from context_engine.review.checks.change_checks import list_named_imports
from context_engine.review.validation.validation_request import report
from context_engine.search import TaskText

if TYPE_CHECKING:
    from context_engine.context import Workspace
    from context_engine.languages import Language, PathIndex
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion
    from context_engine.text import DiffHunk, FileDiff

NEAR_LINES = 200
"""A hunk that fits within this distance belongs to a file that has changed since; patch programs search as far."""
NAME_SUFFIXES = (".py", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
"""Files from which an import takes names that they have."""
GENERATED_MODULE = re.compile(
    r"(?i)(?:^|[./])_?version(?:\.py)?$|_pb2|generated|\bgen\b|(?:^|[./])dist\b|(?:^|[./])build\b|\?"
    r"|/[^/]{1,200}\.(?![cm]?[jt]sx?$)[a-z0-9]{1,8}$"
)
"""Modules that a program may write, so that no repository contains them."""
_OPEN_MODULE = re.compile(
    r"^(?:def )?__getattr__|import\s+\*|export\s+(?:type\s+)?\*|module\.exports|globals\(\)|\bvars\(\)|sys\.modules"
    r"|\blazy_?(?:load|import|module|object)|\blazy\.|setattr\(",
    re.MULTILINE | re.IGNORECASE,
)
"""A file with one of these may have any name."""
ReadText = Callable[[str], str | None]


def find_unknown_names(text: str, workspace: Workspace) -> Iterator[Finding]:
    """Report files and symbols that a text names and the workspace does not have, with the nearest names."""
    for reference in resolve_names(TaskText(text).names, workspace):
        if not reference.is_missing:
            continue
        start = text.find(reference.text)
        place = (0, 0) if start < 0 else (text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        near = {"advice": f"Did you mean {', '.join(reference.near)}?"} if reference.near else {}
        noun = "file" if reference.kind == "path" else "symbol"
        yield report(f"unknown-{noun}", f"no {noun} here is called {reference.text[:80]}", place, **near)


# -- imports ----------------------------------------------------------------------------------------------------------


def find_unresolved_imports(source: FileVersion, paths: PathIndex, read: ReadText) -> Iterator[Finding]:
    """Report imports that must mean a file of the workspace and mean none, and names that their file does not have.

    Other packages are not checked. An import that the code tries, or whose file a program may write, is a warning.
    """
    if source.language is None:
        return
    reported: set[str] = set()
    for imported in list_named_imports(source):
        target, line = imported.target, imported.line
        may_fail = source.line(line)[:1].isspace()  # inside of `try`, `if` or a function
        severity = "warning" if may_fail or GENERATED_MODULE.search(target) else "error"
        if not _is_local(target, source.path, source.language, paths):
            continue
        found = resolve_import(source.language, source.path, target, paths, imported.names)
        if not found and target not in reported:
            reported.add(target)
            message = f"{target[:80]} is not a file of this workspace"
            yield report("unresolved-import", message, (line, 1), severity=severity)
        for name in _list_missing_names(imported.names, found[0], read, paths) if found else ():
            message = f"{found[0]} has no {name[:80]}"
            yield report("unknown-import-name", message, (line, 1), severity=severity)


def _list_missing_names(names: Sequence[str], path: str, read: ReadText, paths: PathIndex) -> Iterator[str]:
    """Yield the imported names that a file does not contain, where that is certain."""
    has_types = path.endswith("js") and f"{path.rpartition('.')[0]}.d.ts" in paths
    text = read(path) if names and path.endswith(NAME_SUFFIXES) and not has_types else None
    if text is None or _OPEN_MODULE.search(text):
        return
    words = frozenset(re.findall(r"\w+", text))
    folder = path.rpartition("/")[0]
    for name in names:
        modules = (f"{folder}/{name}{suffix}" for suffix in (".py", "/__init__.py", ".pyi", ".so", ".pyx"))
        is_module = path.endswith("__init__.py") and any(module in paths for module in modules)
        if name.isidentifier() and name != "default" and name not in words and not is_module:
            yield name


def _is_local(target: str, path: str, language: Language, paths: PathIndex) -> bool:
    """Whether an import must mean a file of the workspace: a relative one, or one of a module below a folder of it."""
    if target.startswith("."):
        return bool(path) and bool(target.strip("."))
    first, dot, _ = target.partition(".")
    return bool(dot) and language.renames.dotted_modules and bool(resolve_import(language, path, first, paths))


# -- diffs ------------------------------------------------------------------------------------------------------------


def find_misplaced_hunks(files: Iterable[FileDiff], read: ReadText) -> Iterator[Finding]:
    """Report hunks whose old lines are not in the file that they change."""
    for file in files:
        if not file.old_path or file.is_binary or not file.hunks:
            continue
        text = read(file.old_path)
        if text is None:
            message = f"{file.old_path} is not in this workspace"
            yield report("unknown-file", message, advice="Name a file that exists.")
            continue
        lines = text.split("\n")
        for hunk in file.hunks:
            if hunk.old and not _fits(hunk, hunk.old.first - 1, lines):
                message = f"{file.old_path}: the hunk at line {hunk.old.first} does not fit the file as it is"
                yield report("hunk-does-not-apply", message)


def _fits(hunk: DiffHunk, expected: int, lines: Sequence[str]) -> bool:
    wanted = [line.text for line in hunk.lines if line.old]
    starts = range(max(0, expected - NEAR_LINES), expected + NEAR_LINES)
    return any(list(lines[start : start + len(wanted)]) == wanted for start in starts)
