r"""PURE. Reads a unified diff as edits, and writes edits as one.

A unified diff of one file as edits, and edits as a unified diff. Each hunk must be found in the file line by line,
where it says or exactly once.

The numbers behind `@@` are often wrong in diffs written by hand, so they only decide between places that fit.

>>> [hunk] = hunks("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
>>> edits_of_diff(b"zero\none\ntwo\n", "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")[0].line_range
LineSpan(first=2, last=3)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from context_engine.edit import edit_errors
from context_engine.edit.delta import CONTEXT_LINES, Turn, by_lines, turns
from context_engine.edit.file_content import FileContent, content_of
from context_engine.edit.model import Edit, Fuzzy
from context_engine.errors import CallError, InvalidEdit
from context_engine.secrets import redact_file
from context_engine.text import LineSpan, shorten_line

_HEAD = re.compile(r"@@ -(?P<first>\d{1,9})(?:,\d+)? \+\d{1,9}(?:,\d+)? @@")
_HUNK_STARTS = re.compile(r"^(?=@@(?: .*)?$)", re.MULTILINE)
_NEXT_FILE = re.compile(r"^(?:diff --git |Index: )|^--- \S.*\n\+\+\+ \S.*\n@@", re.MULTILINE)
NO_NEWLINE = "\\ No newline at end of file"
"""Says that the line above ends without a line break; any line that begins with its first character does."""


class EditHunk(NamedTuple):
    """What a hunk removes and adds, and the line at which it says that it begins; 0 when it does not say."""

    first: int
    old: str
    new: str


def hunks(diff: str) -> list[EditHunk]:
    """Return the hunks of a diff. Raises: InvalidEdit, for a text that is not a unified diff of one file."""
    text = diff.replace("\r\n", "\n")
    start = f"\n{text}".find("\n@@")
    if start < 0:
        raise _no_diff("the diff has no hunk", "Begin each hunk with `@@ -1,3 +1,4 @@`, its lines with blank, - or +.")
    if _NEXT_FILE.search(text, start):
        raise _no_diff("the diff changes more than one file", "Send one change for each file.")
    parts = filter(None, _HUNK_STARTS.split(text[start:].removesuffix("\n")))
    return [_hunk(part.removesuffix("\n").split("\n")) for part in parts]


def edits_of_diff(data: bytes, diff: str) -> list[Edit]:
    """Return the edits that a diff makes of a file.

    Raises: InvalidEdit, NoMatch, MultipleMatches, and as `content_of`.
    """
    content, moved = content_of(data), 0

    def place(_: int, hunk: EditHunk) -> Edit:
        nonlocal moved
        edit = _place_hunk(content, hunk, moved)
        if edit.line_range and hunk.first:
            moved = edit.line_range.first - hunk.first
        return edit

    return edit_errors.for_each_edit(hunks(diff), place)


def _hunk(lines: Sequence[str]) -> EditHunk:
    head = _HEAD.match(lines[0])
    old, new = [], []
    for number, line in enumerate(lines[1:], 1):
        sign, rest = (line[0], line[1:]) if line else (" ", "")  # a blank line that lost its blank on the way
        if sign == NO_NEWLINE[0]:
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
    """Return the edit of one hunk, restricted to its lines. `moved`: how far the hunk before it was from its number."""
    if not hunk.old.strip():
        raise _no_diff("a hunk quotes no line of the file", "Give each hunk a line of context.")
    edit = Edit(hunk.old, hunk.new, fuzzy=Fuzzy(enabled=False))
    wanted = hunk.old.removesuffix("\n").split("\n")
    places = [at + 1 for at in range(len(content.lines) - len(wanted) + 1) if _stands(content, at, wanted)]
    if not places:
        raise edit_errors.no_match_error(content, edit, "the lines of the hunk are not in the file")
    said = [place for place in (hunk.first + moved, hunk.first) if place in places]
    if not said and len(places) > 1:
        raise _no_diff(
            f"the lines of a hunk stand at {', '.join(map(str, places[:5]))}, and not where it says",
            "Correct the number behind `@@ -`, or give it more lines of context.",
        )
    first = (said or places)[0]
    return replace(edit, line_range=LineSpan(first, first + len(wanted) - 1))


def _stands(content: FileContent, at: int, wanted: Sequence[str]) -> bool:
    return content.lines[at] == wanted[0] and content.lines[at : at + len(wanted)] == wanted


def _no_diff(why: str, suggestion: str) -> InvalidEdit:
    return InvalidEdit(f"{why}; nothing was written", suggestion=suggestion)


# -- two versions as a diff --------------------------------------------------------------------------------------------

# Line ends are shown as line feeds whatever they are: an edit never changes those of lines it keeps.


DIFFED_BYTES_MAX = 500_000
"""Longer files are not written by hand."""
PREVIEW_LINES_MAX = 200
"""More of a difference is not read; the placements say where the rest is."""
LINE_CHARS_MAX = 1_000
"""Of a line that no person reads the beginning is enough."""


def diff_versions(path: str, before: bytes | None, after: bytes | None) -> str:
    r"""Return the unified diff of two versions of a file, None for no file; empty for one that is too long or not text.

    >>> print(diff_versions("a.py", None, b"x = 1\n"), end="")
    --- /dev/null
    +++ b/a.py
    @@ -0,0 +1,1 @@
    +x = 1
    """
    if max(len(before or b""), len(after or b"")) > DIFFED_BYTES_MAX:
        return ""
    try:
        old, new = (by_lines(content_of(data or b"").norm) for data in (before, after))
    except CallError:
        return ""
    heads = (
        "--- /dev/null" if before is None else f"--- a/{path}",
        "+++ /dev/null" if after is None else f"+++ b/{path}",
    )
    lines = list(_diff_lines(old, new))
    return "\n".join([*heads, *lines, ""]) if lines else ""


def format_redacted_diff(
    path: str, before: bytes | None, after: bytes | None, *, lines_max: int = PREVIEW_LINES_MAX
) -> str:
    """Return the unified diff of two versions of a file as replies show it, cut to some lines; what was cut is counted.

    Each version is redacted as a whole, since a difference may have only a part of a secret.
    """
    heads = f"--- a/{path}", f"+++ b/{path}"
    try:
        old, new = (by_lines(redact_file(content_of(data or b"").norm, path)) for data in (before, after))
    except CallError:
        return "\n".join([*heads, "(no text)"])
    shown = [*heads, *(shorten_line(line, 0, LINE_CHARS_MAX) for line in _diff_lines(old, new))]
    if len(shown) > lines_max:
        shown = [*shown[:lines_max], f"... {len(shown) - lines_max} more lines"]
    return "\n".join(shown) + "\n"


def _diff_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the hunks of a unified diff; changes whose contexts meet are in one."""
    hunk: list[Turn] = []
    for turn in turns(old, new):
        if hunk and turn.start - hunk[-1].stop > 2 * CONTEXT_LINES:
            yield from _format_hunk(old, new, hunk)
            hunk = []
        hunk.append(turn)
    if hunk:
        yield from _format_hunk(old, new, hunk)


def _format_hunk(old: Sequence[str], new: Sequence[str], hunk: Sequence[Turn]) -> Iterator[str]:
    start, stop = max(0, hunk[0].start - CONTEXT_LINES), min(len(old), hunk[-1].stop + CONTEXT_LINES)
    new_start, new_stop = hunk[0].new_start - (hunk[0].start - start), hunk[-1].new_stop + (stop - hunk[-1].stop)
    yield f"@@ -{_range(start, stop)} +{_range(new_start, new_stop)} @@"
    at = start
    for turn in hunk:
        yield from _sign_lines(" ", old[at : turn.start])
        yield from _sign_lines("-", old[turn.start : turn.stop])
        yield from _sign_lines("+", new[turn.new_start : turn.new_stop])
        at = turn.stop
    yield from _sign_lines(" ", old[at:stop])


def _range(start: int, stop: int) -> str:
    """Return where lines are, as a unified diff counts: from 1, and no lines after the one before them."""
    return f"{start + (stop > start)},{stop - start}"


def _sign_lines(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield NO_NEWLINE
