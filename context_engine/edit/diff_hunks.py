r"""PURE.

A unified diff of one file as edits of it. Each hunk must stand in the file line by line, where it says or just once.

The numbers behind `@@` are counted wrong by most who write a diff by hand, so they only decide between places that fit.

>>> [hunk] = hunks("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
>>> edits(b"zero\none\ntwo\n", "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")[0].line_range
LineSpan(first=2, last=3)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from context_engine.edit import edit_errors
from context_engine.edit.file_content import FileContent, content_of
from context_engine.edit.model import Edit, Fuzzy
from context_engine.errors import CallError, InvalidEdit
from context_engine.text import LineSpan

_HEAD = re.compile(r"@@ -(?P<first>\d{1,9})(?:,\d+)? \+\d{1,9}(?:,\d+)? @@")
_BARE_HEAD = re.compile(r"@@(?: .*)?")
_NEXT_FILE = re.compile(r"^(?:diff --git |Index: )|^--- \S.*\n\+\+\+ \S.*\n@@", re.MULTILINE)
NO_BREAK = "\\"
"""A line that begins so says that the one above it ends without a line break."""


class EditHunk(NamedTuple):
    """What a hunk takes away and puts there, and the line at which it says that it begins; 0 when it does not say."""

    first: int
    old: str
    new: str


def hunks(diff: str) -> list[EditHunk]:
    """The hunks of a diff. Raises: InvalidEdit, for a text that is no unified diff of one file."""
    text = diff.replace("\r\n", "\n")
    start = text.find("@@") if text.startswith("@@") else text.find("\n@@") + 1
    if start <= 0 and not text.startswith("@@"):
        raise _no_diff("the diff has no hunk", "Begin each hunk with `@@ -1,3 +1,4 @@`, its lines with blank, - or +.")
    if _NEXT_FILE.search(text, start):
        raise _no_diff("the diff changes more than one file", "Send one change for each file.")
    return [_hunk(lines) for lines in _groups(text[start:].removesuffix("\n").split("\n"))]


def edits(data: bytes, diff: str) -> list[Edit]:
    """The edits that a diff makes of a file. Raises: InvalidEdit, NoMatch, MultipleMatches, and as `content_of`."""
    content = content_of(data)
    parts = hunks(diff)
    found: list[Edit] = []
    failed: list[tuple[int, CallError]] = []
    moved = 0
    for number, hunk in enumerate(parts):
        try:
            edit = _place_hunk(content, hunk, moved)
            moved = edit.line_range.first - hunk.first if edit.line_range and hunk.first else moved
            found.append(edit)
        except CallError as error:
            failed.append((number, error))
    if failed:
        raise failed[0][1] if len(parts) == 1 else edit_errors.together(failed, len(parts))
    return found


def _groups(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines of each hunk, its head first."""
    group: list[str] = []
    for line in lines:
        if _BARE_HEAD.fullmatch(line) and group:
            yield group
            group = []
        group.append(line)
    yield group


def _hunk(lines: Sequence[str]) -> EditHunk:
    head = _HEAD.match(lines[0])
    old, new = [], []
    for number, line in enumerate(lines[1:], 1):
        sign, rest = (line[0], line[1:]) if line else (" ", "")  # a blank line that lost its blank on the way
        if sign == NO_BREAK:
            for side, signs in ((old, " -"), (new, " +")):
                if side and lines[number - 1][:1] in signs:
                    side[-1] = side[-1].removesuffix("\n")
            continue
        if sign not in " -+":
            raise _no_diff(f"line {number} of a hunk begins with {sign!r}", "Begin its lines with blank, - or +.")
        if sign in " -":
            old.append(f"{rest}\n")
        if sign in " +":
            new.append(f"{rest}\n")
    return EditHunk(int(head["first"]) if head else 0, "".join(old), "".join(new))


def _place_hunk(content: FileContent, hunk: EditHunk, moved: int) -> Edit:
    """The edit of one hunk, held to its lines. `moved`: how far the hunk before it stood from where it said."""
    wanted = hunk.old.removesuffix("\n").split("\n")
    places = [at + 1 for at in range(len(content.lines) - len(wanted) + 1) if _stands(content, at, wanted)]
    said = [place for place in (hunk.first + moved, hunk.first) if place in places]
    edit = Edit(hunk.old, hunk.new, fuzzy=Fuzzy(enabled=False))
    if not hunk.old.strip():
        raise _no_diff("a hunk quotes no line of the file", "Give each hunk a line of context.")
    if not places:
        raise edit_errors.nothing(content, edit, "the lines of the hunk are not in the file")
    if not said and len(places) > 1:
        raise _no_diff(
            f"the lines of a hunk stand at {', '.join(map(str, places[:5]))}, and not where it says",
            "Correct the number behind `@@ -`, or give it more lines of context.",
        )
    first = (said or places)[0]
    return Edit(hunk.old, hunk.new, line_range=LineSpan(first, first + len(wanted) - 1), fuzzy=Fuzzy(enabled=False))


def _stands(content: FileContent, at: int, wanted: Sequence[str]) -> bool:
    return content.lines[at] == wanted[0] and content.lines[at : at + len(wanted)] == wanted


def _no_diff(why: str, suggestion: str) -> InvalidEdit:
    return InvalidEdit(f"{why}; nothing was written", suggestion=suggestion)
