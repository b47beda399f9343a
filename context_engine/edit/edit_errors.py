"""PURE.

Why an edit is refused, said so that the next call can be right: what was found, where, and what to send instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from context_engine.edit.closest_match import hints, nearest
from context_engine.edit.file_content import FileContent
from context_engine.edit.model import Edit, TextMatch
from context_engine.errors import (
    AnchorFailed,
    CallError,
    FuzzyUnsafe,
    InvalidEdit,
    InvalidLineRange,
    MultipleMatches,
    NoChange,
    NoMatch,
    WrongEncoding,
)
from context_engine.text import shorten_line

SHOWN_MAX = 10
"""More places than these cost more to read than a longer target costs to write."""
PREVIEW_CHARS = 120
TEXT_CHARS_MAX = 4_000
"""What has to be sent again is given in full up to here."""
SENT_AGAIN = "Copy the target from details.fileText and write the replacement with the file's own indentation."


def nothing(content: FileContent, edit: Edit, why: str = "the target is not in the file") -> NoMatch | FuzzyUnsafe:
    """No place fits the target; one may come near."""
    place = nearest(content, edit.target)
    said = list(hints(content, edit.target, edit.replacement))
    details: dict[str, Any] = {"hints": said} if said else {}
    if place is None:
        step = said[0] if said else "Read the file again and copy the target from it."
        return NoMatch(why, suggestion=step, details=details)
    details["nearest"] = place.as_details()
    if not place.is_near_miss:
        step = said[0] if said else f"Read the file again around line {place.line} and copy the target from it."
        return NoMatch(why, suggestion=step, details=details)
    details["fileText"] = _lines(content, place.line - 1, place.end_line - 1)
    where = f"lines {place.line}-{place.end_line} come near: {place.lines_equal} of {place.lines_old} lines are equal"
    first = f"; line {place.file_line} is the first that differs" if place.file_line else ""
    return FuzzyUnsafe(f"{why}; {where}{first}", suggestion=said[0] if said else SENT_AGAIN, details=details)


def several(
    content: FileContent, spots: Sequence[TextMatch], *, is_all: bool = True, asked: int = 1
) -> MultipleMatches:
    """More places than asked for, and nothing that says which."""
    count = f"{len(spots)}" if is_all else f"more than {len(spots) - 1}"
    expected = " that overlap" if len(spots) <= asked else f", not {asked}" if asked > 1 else ""
    return MultipleMatches(
        f"found {count} occurrences{expected}",
        suggestion="Add surrounding lines to the target, or an anchor: text before or after it, or a range of lines.",
        details=_matches(content, spots),
    )


def fewer(content: FileContent, spots: Sequence[TextMatch], asked: int) -> NoMatch:
    """Fewer places than the caller expects."""
    return NoMatch(
        f"found {len(spots)} occurrence{'s' * (len(spots) > 1)}, not {asked}",
        suggestion="Say how many occurrences there are, or read the file again.",
        details=_matches(content, spots),
    )


def anchor_failed(content: FileContent, spots: Sequence[TextMatch], why: str) -> AnchorFailed:
    """The target is there, and not where the anchor says."""
    first = content.line_of(spots[0].start) + 1
    where = f"line {first}" if len(spots) == 1 else f"{len(spots)} places, the first at line {first}"
    return AnchorFailed(
        f"{why}; the target stands at {where}",
        suggestion="Correct the anchor, or leave it out if the target is unique.",
        details=_matches(content, spots),
    )


def unsafe(content: FileContent, first: int, last: int, why: str, *, suggestion: str = SENT_AGAIN) -> FuzzyUnsafe:
    """A place was found, lines `first` to `last` from 0, and what to write there is not certain."""
    return FuzzyUnsafe(
        f"{why} (lines {first + 1}-{last + 1})",
        suggestion=suggestion,
        details={"line": first + 1, "endLine": last + 1, "fileText": _lines(content, first, last)},
    )


def invalid(why: str, suggestion: str) -> InvalidEdit:
    """The edit cannot be meant as it is."""
    return InvalidEdit(why, suggestion=suggestion)


def no_change(why: str) -> NoChange:
    """Nothing would change."""
    return NoChange(why, suggestion="Leave this edit out, or say what should be different.")


def past_the_end(content: FileContent, edit: Edit) -> InvalidLineRange:
    """The anchor's range of lines is none of this file."""
    asked = f"{edit.line_range.first}-{edit.line_range.last}" if edit.line_range else "none"
    return InvalidLineRange(
        f"the file has {len(content.lines)} lines, and the anchor asks for {asked}",
        suggestion="Lines count from 1; the first comes before the last.",
        details={"lines": len(content.lines)},
    )


def unwritable(why: str) -> WrongEncoding:
    """The replacement holds what the file's encoding cannot."""
    return WrongEncoding(why, suggestion="Write the replacement in ASCII, or convert the file to UTF-8 first.")


def together(failed: Sequence[tuple[int, CallError]], count: int) -> CallError:
    """Several edits of one call, some of them refused: nothing is written, and each says why."""
    number, first = failed[0]
    rows = [{"edit": number + 1, **_error_fields(error)} for number, error in failed]
    return type(first)(
        f"edit {number + 1} of {count}: {first.message}; nothing was written",
        suggestion=first.suggestion,
        details={"failed": rows},
    )


def _error_fields(error: CallError) -> dict[str, Any]:
    return {name: value for name, value in error.as_dict().items() if name != "retryable"}


def _matches(content: FileContent, spots: Sequence[TextMatch]) -> dict[str, Any]:
    return {"total": len(spots), "matches": [_match(content, spot) for spot in spots[:SHOWN_MAX]]}


def _match(content: FileContent, spot: TextMatch) -> dict[str, Any]:
    number = content.line_of(spot.start)
    column = spot.start - content.starts[number]
    line = content.shown_lines[number]
    preview = line if len(line) <= PREVIEW_CHARS else shorten_line(line, column, PREVIEW_CHARS - 2)
    return {"line": number + 1, "column": column + 1, "preview": preview}


def _lines(content: FileContent, first: int, last: int) -> str:
    text = "\n".join(content.shown_lines[first : last + 1])
    return text if len(text) <= TEXT_CHARS_MAX else text[:TEXT_CHARS_MAX] + "…"
