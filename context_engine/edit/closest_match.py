"""PURE. When a target is not in a file: where it nearly is, and what else may have gone wrong with it.

The nearest place is found by votes: each line of the target that the file has says where the target would begin.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from context_engine.edit.file_content import FileContent
from context_engine.edit.normalized_lines import keys_of
from context_engine.edit.placeholder import has_placeholder
from context_engine.text import shorten_line

OFTEN = 40
"""A line that stands in a file more often says nothing about where the target is."""
LINES_MAX = 200
"""The first lines of a long target are enough to find it by."""
SHOWN_CHARS = 200
SIMILAR = 0.34
"""A line of which two thirds are the same is worth showing; less looks like chance."""
SIMILAR_LINES_MAX = 120_000
"""Comparing one line with so many takes a tenth of a second."""
APPLIED_CHARS_MIN = 8
"""Shorter replacements stand in a file by chance."""


class ClosestMatch(NamedTuple):
    """The place that comes nearest: its lines, counted from 1, and the first that differs."""

    line: int
    end_line: int
    lines_equal: int
    lines_old: int
    old_line: int = 0
    file_line: int = 0
    old: str = ""
    file: str = ""

    @property
    def is_near_miss(self) -> bool:
        """Whether at least half of the target is there."""
        return 2 * self.lines_equal >= self.lines_old

    def as_details(self) -> dict[str, Any]:
        """As it stands in the details of an error."""
        difference = {"oldLine": self.old_line, "fileLine": self.file_line, "old": self.old, "file": self.file}
        found = {"line": self.line, "endLine": self.end_line}
        found |= {"linesEqual": self.lines_equal, "linesOld": self.lines_old}
        return found | ({"firstDifference": difference} if self.old_line else {})


def nearest(content: FileContent, target: str) -> ClosestMatch | None:
    """The place of a file that comes nearest to a target; None when no line of it is there, or like one that is."""
    lines = target.split("\n")
    wanted = [(number, key) for number, key in enumerate(keys_of(target)) if key][:LINES_MAX]
    votes = Counter(place - at for at, (_, key) in enumerate(wanted) for place in _places(content, key))
    if not votes:
        return _similar(content, lines, wanted)
    best = votes.most_common(1)[0][0]  # of equally many votes those of the target's first lines
    return _compare_at(content, lines, wanted, best)


def _places(content: FileContent, key: str) -> list[int]:
    """The places of a key among the solid lines; none when there are too many to tell anything."""
    code = content.codes.get(key)
    if code is None or content.line_codes.count(code) > OFTEN:
        return []
    return list(content.runs([key]))


def _compare_at(content: FileContent, lines: list[str], wanted: list[tuple[int, str]], start: int) -> ClosestMatch:
    """The target laid over the solid lines from one on."""
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
    return found._replace(old_line=number + 1, file_line=line + 1, old=old, file=file)


def _similar(content: FileContent, lines: list[str], wanted: list[tuple[int, str]]) -> ClosestMatch | None:
    """The place where the longest line of the target has one that is much like it."""
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
_QUOTES = {"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "′": "'", "″": '"'}


def hints(content: FileContent, target: str, replacement: str) -> Iterator[str]:
    """Sentences about what seems to be wrong with a target that is not in the file."""
    applied = _line_of(content, replacement) if len(replacement.strip()) >= APPLIED_CHARS_MIN else 0
    if applied:
        yield f"The replacement already stands at line {applied}: the edit seems to have been applied."
    bare = "\n".join(_NUMBERED.sub("", line, count=1) for line in target.split("\n"))
    if bare != target and _line_of(content, bare):
        yield "Leave out the line numbers: they are not part of the file."
    plain = _ESCAPE.sub(lambda found: _ESCAPES[found[0]], target)
    if plain != target and (plain in content.norm or _line_of(content, plain)):
        yield "The target is escaped twice: write line breaks, tabs and quotes as they are."
    if has_placeholder(target):
        yield "Quote every line: a placeholder for omitted code matches nothing."
    if (straight := _straight(target)) and _straight(content.norm).find(straight) >= 0:
        yield "Only the quotation marks differ: copy them from the file, typographic or straight."
    if not content.is_clean and not target.isascii():
        yield "The file is not UTF-8: only its ASCII characters can be matched."


def _line_of(content: FileContent, text: str) -> int:
    """The first line where a text stands, whatever the whitespace; 0 when it does not."""
    place = next(content.runs([key for key in keys_of(text) if key]), None)
    return content.solid[place] + 1 if place is not None else 0


def _straight(text: str) -> str:
    for typographic, straight in _QUOTES.items():
        text = text.replace(typographic, straight)
    return text
