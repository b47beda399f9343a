"""PURE. Errors of edits, phrased so that the next call can be right: what was found, and what to send instead."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA, Levenshtein

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
)
from context_engine.text import LineSpan, shorten_line, unique

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

SHOWN_MAX = 5
"""More places than these cost more to read than a longer target costs to write."""
PREVIEW_CHARS = 120
TEXT_CHARS_MAX = 4_000
"""Text that has to be sent again is given in full up to here."""
SENT_AGAIN = "Copy the target from fileText and write the replacement with the file's own indentation."


def no_match_error(
    content: FileContent, edit: Edit, why: str = "the target is not in the file"
) -> NoMatch | FuzzyUnsafe:
    """Return the error that no place fits the target; a near one is shown."""
    places = find_nearest(content, edit.target)
    if is_same := is_same_place(places):
        places = places[:1]
    details: dict[str, Any] = {"nearest": [place.details for place in places]} if places else {}
    said = list(hints(content, edit.target, edit.replacement))
    if said or not is_same:
        where = f"; nearest to it: {', '.join(place.name for place in places)}" if places else ""
        details |= {"hints": said} if said else {}
        step = next(iter(said), "Read the file again and copy the target from it.")
        return NoMatch(why + where, suggestion=step, details=details)
    place = places[0]
    details["fileText"] = _lines(content, place.lines.first - 1, place.lines.last - 1)
    where = f"{place.percent}% of it is at {place.name}"
    if place.difference:
        where += f"; line {place.difference['fileLine']} is the first that differs"
    step = name_characters(content, edit.target, place.lines)
    return FuzzyUnsafe(f"{why}; {where}", suggestion=f"{step} {SENT_AGAIN}".strip(), details=details)


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
    """Return how many places there are, and the first lines that have one."""
    by_line = {content.line_of(spot.start): spot for spot in reversed(spots)}
    return {"total": len(spots), "matches": [_match(content, by_line[line]) for line in sorted(by_line)[:SHOWN_MAX]]}


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

# Where lines of the target are, or lines like them, the whole target is compared. Characters that look alike are equal.


OFTEN = 40
"""A line that occurs more often says nothing about where the target is."""
LINES_MAX = 200
"""The first lines of a long target are enough to find it by."""
COMPARED_PLACES = 40
COMPARED_LINES = 3
"""So many of the longest lines of a target are compared with all lines of the file."""
SHOWN_CHARS = 200
SAME_PLACE = 0.9
"""Share of the target that is the same. Below it, the place may be another one that is written alike."""
SIMILAR = 0.5
"""Less looks like chance."""
PLACES_MAX = 3
SIMILAR_LINES_MAX = 120_000
"""Comparing one line with so many takes a tenth of a second."""
APPLIED_CHARS_MIN = 8
"""Shorter replacements occur in a file by chance."""


class NearPlace(NamedTuple):
    """A place that is like a target: its lines, how similar it is, and the first line that differs, for the caller."""

    lines: LineSpan
    similarity: float
    difference: dict[str, Any] | None

    @property
    def name(self) -> str:
        """Its lines, as an error names them."""
        return f"line{'s' * (self.lines.lines > 1)} {self.lines}"

    @property
    def percent(self) -> int:
        """How much of the target is the same; 100 for all of it alone."""
        return int(100 * self.similarity)

    @property
    def details(self) -> dict[str, Any]:
        """The place for the details of an error."""
        found = {"line": self.lines.first, "endLine": self.lines.last, "similarity": self.percent / 100}
        return found | ({"firstDifference": self.difference} if self.difference else {})


def find_nearest(content: FileContent, target: str) -> list[NearPlace]:
    """Return the places of a file that are like the whole of a target, best first."""
    seen = content if content.norm.isascii() else FileContent(fold_lookalikes(content.norm))
    wanted = [(number, key) for number, key in enumerate(keys_of(fold_lookalikes(target))) if key][:LINES_MAX]
    keys = [key for _, key in wanted]
    is_part = "\n" not in target
    longest = sorted(range(len(keys)), key=lambda at: -len(keys[at]))[:COMPARED_LINES]
    alike = [(at, key) for at in longest for key in _similar(seen, keys[at], is_part=is_part)]
    votes = Counter(max(place - at, 0) for at, key in (*alike, *enumerate(keys)) for place in _places(seen, key))
    ranked: list[tuple[float, int]] = []
    for start, _ in votes.most_common(COMPARED_PLACES):
        whole, there = "\n".join(keys), "\n".join(seen.keys_at(start, len(keys)))
        share = OSA.normalized_similarity(whole, _find_part(whole, there) if is_part else there)
        ranked.append((share, start))
    best: list[tuple[float, int]] = []
    for share, start in sorted(ranked, key=lambda row: (-row[0], row[1])):
        if share >= SIMILAR and all(abs(start - other) >= len(keys) for _, other in best):
            best.append((share, start))
    return [_compare_at(content, seen, target, wanted, start, share) for share, start in best[:PLACES_MAX]]


def _find_part(text: str, there: str) -> str:
    """Return the part of a line that is most like a text."""
    found = fuzz.partial_ratio_alignment(text, there) if len(there) > len(text) else None
    return there[found.dest_start : found.dest_end] if found else there


def is_same_place(places: Sequence[NearPlace]) -> bool:
    """Return whether the first place is certainly the one that a target means."""
    alike = [place for place in places if place.similarity >= SAME_PLACE]
    return bool(alike) and (len(alike) == 1 or alike[0].similarity > alike[1].similarity)


def _places(content: FileContent, key: str) -> list[int]:
    """Return the places of a key among the solid lines; none when there are too many to be useful."""
    code = content.codes.get(key)
    if code is None or content.line_codes.count(code) > OFTEN:
        return []
    return list(content.runs([key]))


def _similar(content: FileContent, key: str, *, is_part: bool) -> list[str]:
    """Return the keys of the file that are most similar to one, or that have such a part."""
    if len(content.codes) > SIMILAR_LINES_MAX or len(key) > SHOWN_CHARS:
        return []
    scorer = fuzz.partial_ratio if is_part else fuzz.ratio
    found = process.extract(key, list(content.codes), scorer=scorer, score_cutoff=100 * SIMILAR)
    return [similar for similar, _, _ in found]


def _compare_at(
    content: FileContent, seen: FileContent, target: str, wanted: list[tuple[int, str]], start: int, similarity: float
) -> NearPlace:
    """Compare the target with the solid lines from one on."""
    there = seen.solid[start : start + len(wanted)]
    lines = LineSpan(there[0] + 1, there[-1] + 1)
    differing = ((number, line) for (number, key), line in zip(wanted, there, strict=False) if seen.keys[line] != key)
    number, line = next(differing, (0, -1))
    if line < 0:
        return NearPlace(lines, similarity, None)
    old, file = (shorten_line(text, 0, SHOWN_CHARS) for text in (target.split("\n")[number], content.shown_lines[line]))
    return NearPlace(lines, similarity, {"oldLine": number + 1, "fileLine": line + 1, "old": old, "file": file})


# -- characters that look alike ----------------------------------------------------------------------------------------

_QUOTES = str.maketrans("‘’‚′“”„″", "''''\"\"\"\"")
_CATEGORIES = {"Pd": "-", "Zs": " ", "Cf": ""}
"""Dashes, blanks, and what is not visible."""


def fold_lookalikes(text: str) -> str:
    r"""Return a text whose quotation marks, dashes and blanks are ASCII, and without what is not visible.

    >>> fold_lookalikes("a\u00a0\u2013 \u2018b\u2019\u200b"), fold_lookalikes("e\u0301") == "\u00e9"
    ("a - 'b'", True)
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text.translate(_QUOTES))
    kinds = {char: unicodedata.category(char) for char in set(text) if not char.isascii()}
    return text.translate({ord(char): _CATEGORIES[kind] for char, kind in kinds.items() if kind in _CATEGORIES})


def name_characters(content: FileContent, target: str, lines: LineSpan) -> str:
    """Return a sentence about the characters of a place that only look like those of a target; empty without any."""
    sent, there = target.removesuffix("\n"), "\n".join(content.lines[lines.first - 1 : lines.last])
    if sent not in there and unicodedata.normalize("NFC", sent) in unicodedata.normalize("NFC", there):
        shown = json.dumps(_lines(content, lines.first - 1, lines.last - 1)[:SHOWN_CHARS])
        return f"The target differs only in Unicode form: the file has {shown}."
    there = there if "\n" in target else _find_part(sent, there)
    named = []
    for edit in Levenshtein.opcodes(sent, there):
        old, new = sent[edit.src_start : edit.src_end], there[edit.dest_start : edit.dest_end]
        if not f"{old}{new}".isascii() and ((old and new) or not fold_lookalikes(old + new).strip()):
            named.append(f"{_name(new)} for {_name(old)}")
    return f"The file has {', '.join(unique(named)[:SHOWN_MAX])}." if named else ""


def _name(text: str) -> str:
    """Return the characters of a text, those by number that may look like others."""
    return " ".join(char if "!" <= char <= "~" else f"U+{ord(char):04X}" for char in unique(text)) or "nothing"


# -- what else may have gone wrong -------------------------------------------------------------------------------

_NUMBERED = re.compile(r"\A[ \t]*+\d++(?:\t|[ ]*+[|:│→][ \t]?)")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\'": "'", "\\\\": "\\", "\\/": "/"}
_ESCAPE = re.compile("|".join(map(re.escape, _ESCAPES)))


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


def _line_of(content: FileContent, text: str) -> int:
    """Return the first line that contains a text, whatever the whitespace; 0 when there is none."""
    place = next(content.runs([key for key in keys_of(text) if key]), None)
    return content.solid[place] + 1 if place is not None else 0
