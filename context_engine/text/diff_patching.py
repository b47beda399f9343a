r"""PURE. A file and its diff -> the file's other version; None when the diff was not made for that file.

>>> from context_engine.text.diff import parse_diff
>>> change = parse_diff("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n").files[0]
>>> apply_diff(change, "one\ntwo\n"), revert_diff(change, "one\nthree\n"), apply_diff(change, "other\n")
('one\nthree\n', 'one\ntwo\n', None)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from context_engine.text.diff import DiffHunk, FileDiff


def apply_diff(diff: FileDiff, old: str) -> str | None:
    """The new version of a file."""
    return _turned(diff, old, "-", "+", ends=diff.new_has_newline)


def revert_diff(diff: FileDiff, new: str) -> str | None:
    """The old version of a file."""
    return _turned(diff, new, "+", "-", ends=diff.old_has_newline)


def text_of_hunks(diff: FileDiff) -> str:
    """What the hunks know of the new version, each line in its place and blank ones between them."""
    known = {line.new: line.text for hunk in diff.hunks for line in hunk.lines if line.new}
    return "\n".join(known.get(number, "") for number in range(1, max(known, default=0) + 1))


def _turned(diff: FileDiff, text: str, gone: str, come: str, *, ends: bool) -> str | None:
    """The text with the lines marked `gone` replaced by those marked `come`; None where it does not fit."""
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    made: list[str] = []
    at = 0
    for hunk in diff.hunks:
        start = _start(hunk, gone, len(made), at)
        if start < at or start > len(lines):
            return None
        made += lines[at:start]
        at = start
        for line in hunk.lines:
            if line.mark == come:
                made.append(line.text)
                continue
            if at >= len(lines) or lines[at] != line.text:
                return None
            at += 1
            if line.mark != gone:
                made.append(line.text)
    made += lines[at:]
    return _ended(made, text, ends=ends, to_the_end=bool(diff.hunks) and at >= len(lines))


def _start(hunk: DiffHunk, gone: str, made: int, at: int) -> int:
    """How many lines of the given version stand before a hunk."""
    numbers = [line.old if gone == "-" else line.new for line in hunk.lines]
    first = next(filter(None, numbers), 0)
    if first:
        return first - 1
    others = [line.new if gone == "-" else line.old for line in hunk.lines]
    return at + next(filter(None, others), 1) - 1 - made  # only lines that come: their own numbers say where


def _ended(lines: Sequence[str], text: str, *, ends: bool, to_the_end: bool) -> str:
    """The lines with a line break at the end, or without: the diff says so where it reaches the end."""
    if not lines:
        return ""
    broken = ends if to_the_end else text.endswith("\n")
    return "\n".join(lines) + ("\n" if broken else "")
