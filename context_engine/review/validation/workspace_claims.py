"""Check what content says of the workspace: files and symbols it names, files it imports, lines its hunks replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from context_engine.context import parse_mentions, resolve_mentions
from context_engine.languages import Import, outline_file, resolve_import
from context_engine.review.content_parsers import parse_python
from context_engine.review.validation.validation_request import make_finding

if TYPE_CHECKING:
    from context_engine.context import Workspace
    from context_engine.languages import Grammars, Language, PathIndex
    from context_engine.model import Finding
    from context_engine.text import DiffHunk, UnifiedDiff

NEAR_LINES = 200
"""A hunk that fits within this distance belongs to a file that has changed since; patch programs search as far."""
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


def find_unresolved_imports(
    text: str, path: str, language: Language, grammars: Grammars, paths: PathIndex
) -> Iterator[Finding]:
    """Report imports that must mean a file of the workspace and mean none; other packages are not checked."""
    for imported in _read_imports(text, language, grammars):
        if not _is_local(imported.target, path, language, paths):
            continue
        if not resolve_import(language, path, imported.target, paths, imported.names):
            message = f"{imported.target[:80]} is not a file of this workspace"
            advice = "Import what exists, or create it."
            yield make_finding(2, "warning", "grounding", "unresolved-import", message, (imported.line, 1), advice)


def _read_imports(text: str, language: Language, grammars: Grammars) -> Sequence[Import]:
    """Return what a text imports. Python parses itself: its grammar needs quadratic time for a run of comments."""
    if language.name != "python":
        return outline_file(language, text.encode("utf-8", "replace"), grammars).imports
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
