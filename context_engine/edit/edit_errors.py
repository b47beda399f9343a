"""PURE. Errors of edits, phrased so that the next call can be right: what was found, and what to send instead."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from context_engine.edit.file_content import FileContent, keys_of
from context_engine.edit.model import Edit, TextMatch
from context_engine.errors import (
    AnchorFailed,
    ContextEngineError,
    FuzzyUnsafe,
    InvalidLineRange,
    MultipleMatches,
    NoChange,
    NoMatch,
    WrongEncoding,
)
from context_engine.text import LineSpan, shorten_line

# -- placeholder -------------------------------------------------------------------------------------------------------

# Placeholders for omitted code: `// ... existing code ...`, `# rest of the function`.
#
# Written into a file they would replace the code that they stand for.

_MARK = re.compile(r"(?:#+|//+|/\*+|<!--|--+|;+|%+|\{/\*|\"\"\"|\*+|\()?[ \t]*")
_DOTS = re.compile(r"\[?(?:\.\.\.|…)")
_DOTS_ALONE = re.compile(r"[\[(<]?(?:\.\.\.|…)[ \t]")
"""Outside of a comment dots may be a spread, `...rest`, and then nothing stands between."""
_LEFT_OUT = re.compile(
    r"\b(?:existing|remaining|unchanged|omitted|previous|truncated|elided)\b|\brest of\b"
    r"|\bother (?:code|methods|functions)\b"
    r"|\b(?:same as|as) before\b|\b(?:code|keep) (?:here|as is|the same)\b",
    re.IGNORECASE,
)
_REST = re.compile(
    r"(?:the )?(?:rest of|remaining|existing)(?: (?:the|your|this))? "
    r"(?:code|file|function|method|class|implementation|logic|module)\b"
    r"(?:\W+(?:is|are|remains?|stays?|goes))*"
    r"(?:\W+(?:unchanged|the same|here|as before|as is|omitted))*\W*",
    re.IGNORECASE,
)
_TELLING = (
    *("existing", "remaining", "unchanged", "omitted", "previous", "truncated", "elided", "rest of", "other "),
    *("same as", "as before", "code here", "code as", "code the", "keep "),
)
"""What every placeholder holds one of, in lower case."""
_CLOSING = ' */->)}]"'
_WORDS_MAX = 12
"""A placeholder is a short remark; a longer sentence says something."""


def placeholders(text: str) -> list[str]:
    r"""Return the lines of a text that are nothing but a placeholder, without what is around them.

    >>> placeholders("  // rest of the function unchanged\n  return ..."), placeholders("x[...] = existing")
    (['// rest of the function unchanged'], [])
    """
    folded = text.lower()
    if not any(word in folded for word in _TELLING):  # which is quick
        return []
    return [line.strip() for line in text.split("\n") if _is_placeholder(line.strip())]


def _is_placeholder(line: str) -> bool:
    if not line or len(line.split()) > _WORDS_MAX:
        return False
    mark = _MARK.match(line)
    said = line[mark.end() :] if mark else line
    if said == line:
        return bool(_DOTS_ALONE.match(said) and _LEFT_OUT.search(said))
    if _DOTS.match(said) or said.rstrip(_CLOSING).endswith(("...", "…")):
        return bool(_LEFT_OUT.search(said))
    return bool(_REST.fullmatch(said))


# -- edit errors -------------------------------------------------------------------------------------------------------

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

SHOWN_MAX = 10
"""More places than these cost more to read than a longer target costs to write."""
PREVIEW_CHARS = 120
TEXT_CHARS_MAX = 4_000
"""Text that has to be sent again is given in full up to here."""
SENT_AGAIN = "Copy the target from details.fileText and write the replacement with the file's own indentation."


def no_match_error(
    content: FileContent, edit: Edit, why: str = "the target is not in the file"
) -> NoMatch | FuzzyUnsafe:
    """Return the error that no place fits the target; a near one is shown."""
    said = list(hints(content, edit.target, edit.replacement))
    step = next(iter(said), "")
    details: dict[str, Any] = {"hints": said} if said else {}
    place = nearest(content, edit.target)
    if place is None:
        return NoMatch(why, suggestion=step or "Read the file again and copy the target from it.", details=details)
    details["nearest"] = place.details
    if not place.is_near_miss:
        step = step or f"Read the file again around line {place.line} and copy the target from it."
        return NoMatch(why, suggestion=step, details=details)
    details["fileText"] = _lines(content, place.line - 1, place.end_line - 1)
    where = f"lines {place.line}-{place.end_line} come near: {place.lines_equal} of {place.lines_old} lines are equal"
    if place.difference:
        where += f"; line {place.difference['fileLine']} is the first that differs"
    return FuzzyUnsafe(f"{why}; {where}", suggestion=step or SENT_AGAIN, details=details)


def multiple_matches_error(
    content: FileContent, spots: Sequence[TextMatch], *, is_all: bool = True, asked: int = 1
) -> MultipleMatches:
    """Return the error that there are more places than expected, and nothing chooses one."""
    count = f"{len(spots)}" if is_all else f"more than {len(spots) - 1}"
    if len(spots) <= asked:
        expected = " that overlap"
    else:
        expected = f", not {asked}" if asked > 1 else ""
    return MultipleMatches(
        f"found {count} occurrences of the target{expected}",
        suggestion="Add surrounding lines to the target, or an anchor: text before or after it, or a range of lines."
        f"{f' For all of them: an edit with expected_matches {len(spots)}.' if is_all and len(spots) > asked else ''}",
        details=_matches(content, spots),
    )


def ambiguous_error(why: str, step: str, matches: Sequence[object]) -> MultipleMatches:
    """Return the error that a name means several definitions; some of these matches are in its details."""
    return MultipleMatches(why, suggestion=step, details={"total": len(matches), "matches": matches[:SHOWN_MAX]})


def fewer_matches_error(content: FileContent, spots: Sequence[TextMatch], asked: int) -> NoMatch:
    """Return the error that there are fewer places than the caller expects."""
    return NoMatch(
        f"found {len(spots)} occurrence{'s' * (len(spots) > 1)} of the target, not {asked}",
        suggestion="Expect as many occurrences as there are, or read the file again.",
        details=_matches(content, spots),
    )


def anchor_error(content: FileContent, spots: Sequence[TextMatch], why: str) -> AnchorFailed:
    """Return the error that the target exists, but not where the anchor says."""
    first = content.line_of(spots[0].start) + 1
    where = f"line {first}" if len(spots) == 1 else f"{len(spots)} places, the first at line {first}"
    return AnchorFailed(
        f"{why}; the target stands at {where}",
        suggestion="Correct the anchor, or leave it out if the target is unique.",
        details=_matches(content, spots),
    )


def unsafe_error(content: FileContent, first: int, last: int, why: str, *, suggestion: str = SENT_AGAIN) -> FuzzyUnsafe:
    """Return the error that the text for lines `first` to `last` (from 0) is not certain."""
    return FuzzyUnsafe(
        f"{why} (lines {first + 1}-{last + 1})",
        suggestion=suggestion,
        details={"line": first + 1, "endLine": last + 1, "fileText": _lines(content, first, last)},
    )


def no_change_error(why: str) -> NoChange:
    """Return the error that nothing would change."""
    return NoChange(why, suggestion="Leave this edit out, or say what should be different.")


def line_range_error(content: FileContent, asked: LineSpan) -> InvalidLineRange:
    """Return the error that the anchor's range of lines is not in this file."""
    return InvalidLineRange(
        f"the file has {len(content.lines)} lines, and the anchor asks for {asked.first}-{asked.last}",
        suggestion="Lines count from 1; the first comes before the last.",
        details={"lines": len(content.lines)},
    )


def encoding_error(why: str) -> WrongEncoding:
    """Return the error that the replacement has characters which the file's encoding lacks."""
    return WrongEncoding(why, suggestion="Write the replacement in ASCII, or convert the file to UTF-8 first.")


def for_each_edit(edits: Sequence[_Item], do: Callable[[int, _Item], _Result]) -> list[_Result]:
    """Return what `do` makes of the number and the value of each edit of a call; report all failures at once."""
    done, failed = try_each(edits, do)
    if not failed:
        return done
    number, first = failed[0]
    rows: list[dict[str, Any]] = [{"edit": number + 1, **error.as_dict()} for number, error in failed]
    for row in rows:
        row.pop("retryable", None)
    raise type(first)(
        f"edit {number + 1} of {len(edits)}: {first.message}; nothing was written",
        suggestion=first.suggestion,
        details={"failed": rows},
    )


def try_each(
    items: Sequence[_Item], do: Callable[[int, _Item], _Result]
) -> tuple[list[_Result], list[tuple[int, ContextEngineError]]]:
    """Return what `do` makes of the number and the value of each item, and the failures with their numbers.

    Raises: the failure of an item that is the only one.
    """
    done: list[_Result] = []
    failed: list[tuple[int, ContextEngineError]] = []
    for number, item in enumerate(items):
        try:
            done.append(do(number, item))
        except ContextEngineError as error:
            if len(items) == 1:
                raise
            failed.append((number, error))
    return done, failed


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


# -- the nearest place -------------------------------------------------------------------------------------------------

# The nearest place is found by votes: each line of the target that the file contains votes for where the target begins.


OFTEN = 40
"""A line that occurs more often says nothing about where the target is."""
LINES_MAX = 200
"""The first lines of a long target are enough to find it by."""
SHOWN_CHARS = 200
SIMILAR = 0.34
"""A line of which two thirds are the same is worth showing; less looks like chance."""
SIMILAR_LINES_MAX = 120_000
"""Comparing one line with so many takes a tenth of a second."""
APPLIED_CHARS_MIN = 8
"""Shorter replacements occur in a file by chance."""


class ClosestMatch(NamedTuple):
    """The place that is nearest to a target: its lines, counted from 1, and the first that differs, for the caller."""

    line: int
    end_line: int
    lines_equal: int
    lines_old: int
    difference: dict[str, Any] | None = None

    @property
    def is_near_miss(self) -> bool:
        """Whether at least half of the target is there."""
        return 2 * self.lines_equal >= self.lines_old

    @property
    def details(self) -> dict[str, Any]:
        """The place for the details of an error."""
        found = {"line": self.line, "endLine": self.end_line}
        found |= {"linesEqual": self.lines_equal, "linesOld": self.lines_old}
        return found | ({"firstDifference": self.difference} if self.difference else {})


def nearest(content: FileContent, target: str) -> ClosestMatch | None:
    """Return the place of a file nearest to a target; None when no line of it, or a similar one, is there."""
    lines = target.split("\n")
    wanted = [(number, key) for number, key in enumerate(keys_of(target)) if key][:LINES_MAX]
    votes = Counter(place - at for at, (_, key) in enumerate(wanted) for place in _places(content, key))
    if not votes:
        return _similar(content, lines, wanted)
    best = votes.most_common(1)[0][0]  # of equally many votes those of the target's first lines
    return _compare_at(content, lines, wanted, best)


def _places(content: FileContent, key: str) -> list[int]:
    """Return the places of a key among the solid lines; none when there are too many to be useful."""
    code = content.codes.get(key)
    if code is None or content.line_codes.count(code) > OFTEN:
        return []
    return list(content.runs([key]))


def _compare_at(content: FileContent, lines: list[str], wanted: list[tuple[int, str]], start: int) -> ClosestMatch:
    """Compare the target with the solid lines from one on."""
    solid = content.solid
    inside = [
        (number, key, solid[start + at]) for at, (number, key) in enumerate(wanted) if 0 <= start + at < len(solid)
    ]
    differing = [(number, line) for number, key, line in inside if content.keys[line] != key]
    found = ClosestMatch(inside[0][2] + 1, inside[-1][2] + 1, len(inside) - len(differing), len(wanted))
    if not differing:
        return found
    number, line = differing[0]
    old, file = (shorten_line(text, 0, SHOWN_CHARS) for text in (lines[number], content.shown_lines[line]))
    return found._replace(difference={"oldLine": number + 1, "fileLine": line + 1, "old": old, "file": file})


def _similar(content: FileContent, lines: list[str], wanted: list[tuple[int, str]]) -> ClosestMatch | None:
    """Return the place where the longest line of the target has a similar line."""
    at = max(range(len(wanted)), key=lambda at: len(wanted[at][1]))
    key = wanted[at][1]
    candidates = list(content.codes)
    if len(candidates) > SIMILAR_LINES_MAX or len(key) > SHOWN_CHARS:
        return None
    cutoff = int(SIMILAR * len(key))
    best = process.extractOne(key, candidates, scorer=Levenshtein.distance, score_cutoff=cutoff, processor=None)
    if best is None:
        return None
    place = next(content.runs([best[0]]))
    return _compare_at(content, lines, wanted, place - at)


# -- what else may have gone wrong -------------------------------------------------------------------------------

_NUMBERED = re.compile(r"\A[ \t]*+\d++(?:\t|[ ]*+[|:│→][ \t]?)")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\'": "'", "\\\\": "\\", "\\/": "/"}
_ESCAPE = re.compile("|".join(map(re.escape, _ESCAPES)))
_QUOTES = str.maketrans("‘’‚′“”„″", "''''\"\"\"\"")


def hints(content: FileContent, target: str, replacement: str) -> Iterator[str]:
    """Yield sentences about what seems to be wrong with a target that is not in the file."""
    applied = 0
    if len(replacement.strip()) >= APPLIED_CHARS_MIN:
        applied = _line_of(content, replacement)
    if applied:
        yield f"The replacement already stands at line {applied}: the edit seems to have been applied."
    bare = "\n".join(_NUMBERED.sub("", line, count=1) for line in target.split("\n"))
    if bare != target and _line_of(content, bare):
        yield "Leave out the line numbers: they are not part of the file."
    plain = _ESCAPE.sub(lambda found: _ESCAPES[found[0]], target)
    if plain != target and (plain in content.norm or _line_of(content, plain)):
        yield "The target is escaped twice: write line breaks, tabs and quotes as they are."
    if placeholders(target):
        yield "Quote every line: a placeholder for omitted code matches nothing."
    if target.translate(_QUOTES) in content.norm.translate(_QUOTES):
        yield "Only the quotation marks differ: copy them from the file, typographic or straight."
    if not content.is_clean and not target.isascii():
        yield "The file is not UTF-8: only its ASCII characters can be matched."


def _line_of(content: FileContent, text: str) -> int:
    """Return the first line that contains a text, whatever the whitespace; 0 when there is none."""
    place = next(content.runs([key for key in keys_of(text) if key]), None)
    return content.solid[place] + 1 if place is not None else 0
