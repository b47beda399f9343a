"""What content says of the workspace, held against it: files and symbols it names, files it imports, lines its hunks replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from context_engine.context.references import mentions
from context_engine.context.resolve_references import resolved
from context_engine.languages import Import, outline, resolve_import
from context_engine.review.validation.remark import Remark
from context_engine.review.validation.style_checks import python_module

if TYPE_CHECKING:
    from context_engine.context.workspace import Workspace
    from context_engine.languages import Grammars, Language, PathIndex
    from context_engine.text.diff import Diff, Hunk

NEAR_LINES = 200
"""A hunk that fits this near to where it says is taken for one whose file moved on; programs that apply it look as far."""
DOTTED = frozenset({"python"})
"""Languages in which an import that begins with a folder of the workspace means a file of it."""


def unknown_names(text: str, workspace: Workspace) -> Iterator[Remark]:
    """Files and symbols that a text names and nobody finds here, with what comes near."""
    for reference in resolved(mentions(text), workspace, ()):
        if not reference.is_missing:
            continue
        at = text.find(reference.text)
        line = text.count("\n", 0, at) + 1 if at >= 0 else 0
        column = at - text.rfind("\n", 0, at) if at >= 0 else 0
        near = (
            f"Did you mean {', '.join(reference.near)}?"
            if reference.near
            else "Name what is there, or say that it is new."
        )
        what = "file" if reference.kind == "path" else "symbol"
        says = f"no {what} here is called {reference.text[:80]}"
        yield Remark(2, "warning", "grounding", f"unknown-{what}", says, line, column, near)


def unresolved_imports(
    text: str, path: str, language: Language, grammars: Grammars, paths: PathIndex
) -> Iterator[Remark]:
    """Imports that must mean a file of the workspace and mean none; packages from elsewhere are nobody's business here."""
    for each in _imports(text, language, grammars):
        if not _is_local(each.target, path, language, paths):
            continue
        if not resolve_import(language, path, each.target, paths, each.names):
            says = f"{each.target[:80]} is no file of this workspace"
            yield Remark(
                2,
                "warning",
                "grounding",
                "unresolved-import",
                says,
                each.line,
                1,
                "Import what is there, or create it.",
            )


def _imports(text: str, language: Language, grammars: Grammars) -> Sequence[Import]:
    """What a text imports. Python tells by itself: its grammar needs time quadratic in a run of comments."""
    if language.name != "python":
        return outline(language, text.encode("utf-8", "replace"), grammars).imports
    module = python_module(text)
    found: list[Import] = []
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.Import):
            found += (Import(each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            target = "." * node.level + (node.module or "")
            found.append(Import(target, node.lineno, tuple(each.name for each in node.names)))
    return sorted(found, key=lambda each: each.line)


def _is_local(target: str, path: str, language: Language, paths: PathIndex) -> bool:
    if target.startswith("."):
        return bool(path) and not re.fullmatch(r"\.+", target)
    first, dot, _ = target.partition(".")
    return bool(dot) and language.name in DOTTED and bool(resolve_import(language, path, first, paths))


def misplaced_hunks(diff: Diff, read: Callable[[str], str | None]) -> Iterator[Remark]:
    """Hunks whose old lines do not stand in the file that they change."""
    for change in diff.files:
        if not change.old_path or change.is_binary or not change.hunks:
            continue
        text = read(change.old_path)
        if text is None:
            says = f"{change.old_path} is not in this workspace"
            yield Remark(2, "warning", "grounding", "unknown-file", says, suggestion="Name a file that is there.")
            continue
        lines = text.split("\n")
        for hunk in change.hunks:
            if not _stands(hunk, lines):
                says = f"{change.old_path}: the hunk at line {hunk.old.first if hunk.old else 0} does not fit the file as it is"
                yield Remark(
                    2,
                    "warning",
                    "grounding",
                    "hunk-does-not-apply",
                    says,
                    suggestion="Make the diff of the file as it is now.",
                )


def _stands(hunk: Hunk, lines: Sequence[str]) -> bool:
    """Whether the old lines of a hunk stand where it says, or not far from it."""
    wanted = [line.text for line in hunk.lines if line.old]
    if hunk.old is None:
        return True
    at = hunk.old.first - 1
    starts = sorted(range(max(0, at - NEAR_LINES), at + NEAR_LINES), key=lambda start: abs(start - at))
    return any(list(lines[start : start + len(wanted)]) == wanted for start in starts)
