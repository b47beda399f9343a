r"""PURE. Characters and lines that belong in no finished text: conflict markers, NUL, and what makes code look like other code.

>>> [remark.rule for remark in marks("a\x00b\n", is_code=True)]
['nul-character']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from context_engine.review.validation.remark import Remark

OPENS = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
CLOSES = frozenset("\u202c\u2069")
"""Embeddings and isolates, and what ends them: a line that leaves one open shows its end somewhere else (CVE-2021-42574)."""

_HIDDEN = re.compile(
    "[\u202a-\u202e\u2066-\u2069\u200b\u2060\u2062-\u2064\u00ad\ufeff\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]"
)
_OURS = re.compile(r"^<{7} \S", re.MULTILINE)
_BETWEEN = re.compile(r"^={7}\r?$", re.MULTILINE)
_THEIRS = re.compile(r"^>{7} \S", re.MULTILINE)


def conflicts(text: str) -> list[int]:
    """The lines on which an unresolved conflict begins: all three marks in their order, each at the start of a line."""
    found, at = [], 0
    while (ours := _OURS.search(text, at)) and (between := _BETWEEN.search(text, ours.end())):
        theirs = _THEIRS.search(text, between.end())
        if theirs is None:
            break
        found.append(text.count("\n", 0, ours.start()) + 1)
        at = theirs.end()
    return found


def marks(text: str, *, is_code: bool) -> Iterator[Remark]:
    """What hides in a text, in its order."""
    for number, line in enumerate(text.split("\n"), 1):
        if not _HIDDEN.search(line):
            continue
        if number == 1:
            line = line.removeprefix("\ufeff")
        yield from _of_line(line, number, is_code)


def _of_line(line: str, number: int, is_code: bool) -> Iterator[Remark]:
    opened = [at for at, character in enumerate(line) if character in OPENS]
    is_open = len(opened) > sum(character in CLOSES for character in line)
    for found in _HIDDEN.finditer(line):
        character, column = found.group(), found.start() + 1
        if character in OPENS:
            yield _bidi(character, number, column, is_code and is_open)
        elif character not in CLOSES:
            yield _hidden(character, number, column)


def _bidi(character: str, line: int, column: int, is_error: bool) -> Remark:
    """Turning the direction of text is fine in prose and in a string that ends it; code that leaves it open lies."""
    return Remark(
        1,
        "error" if is_error else "warning",
        "security",
        "bidi-character",
        f"{_named(character)} changes the order in which this line is shown"
        + (" and is never ended" if is_error else ""),
        line,
        column,
        f"Delete it, or write it as an escape: \\u{ord(character):04x}.",
    )


def _hidden(character: str, line: int, column: int) -> Remark:
    if character == "\0":
        return Remark(
            1, "error", "encoding", "nul-character", "a NUL character: no text holds one", line, column, "Delete it."
        )
    if character == "\ufffd":
        why, rule = "a character that was lost when the text was decoded", "replacement-character"
    else:
        why, rule = f"{_named(character)} cannot be seen", "hidden-character"
    return Remark(1, "warning", "encoding", rule, why, line, column, "Delete it, or write it as an escape.")


def _named(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, 'a control character').lower()}"
