"""PURE. Find characters that hide in a text, and the marks of an unfinished merge, for reviews and for validation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

BIDI_OPENERS = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
BIDI_CLOSERS = frozenset("\u202c\u2069")
"""Embeddings and isolates, and their ends: a line that leaves one open is shown in another order (CVE-2021-42574)."""

_HIDDEN = re.compile(
    "[\u202a-\u202e\u2066-\u2069\u200b\u2060\u2062-\u2064\u00ad\ufeff\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]"
)
_MARKER = re.compile(r"(?:<{7} \S|\|{7} |={7}\r?$|>{7} \S)")


class HiddenCharacter(NamedTuple):
    """A character that readers do not see.

    `is_bidi`: it turns the direction of text; `is_open`: nothing on its line ends it.
    """

    character: str
    line: int
    column: int
    is_bidi: bool
    is_open: bool

    @property
    def is_opener(self) -> bool:
        """Whether it begins to change the direction of text."""
        return self.character in BIDI_OPENERS

    @property
    def name(self) -> str:
        """The code point and its Unicode name."""
        return f"U+{ord(self.character):04X} {unicodedata.name(self.character, 'a control character').lower()}"


def find_hidden_characters(lines: Sequence[str]) -> Iterator[HiddenCharacter]:
    """Yield the hidden characters of a text in their order; a byte order mark at its beginning is fine."""
    for number, line in enumerate(lines, 1):
        if not _HIDDEN.search(line):
            continue
        text = line
        if number == 1:
            text = line.removeprefix("\ufeff")
        openers = sum(character in BIDI_OPENERS for character in text)
        is_open = openers > sum(character in BIDI_CLOSERS for character in text)
        for found in _HIDDEN.finditer(text):
            character = found.group()
            is_bidi = character in BIDI_OPENERS or character in BIDI_CLOSERS
            yield HiddenCharacter(character, number, found.start() + 1, is_bidi, is_open)


def find_conflicts(lines: Sequence[str]) -> Iterator[list[int]]:
    """Yield the lines of the markers of each conflict: all of them, in the order in which git writes them."""
    markers = [(number, line[0]) for number, line in enumerate(lines, 1) if _MARKER.match(line)]
    kinds = "".join(kind for _, kind in markers)
    for found in re.finditer(r"<\|?=>", kinds):
        yield [number for number, _ in markers[found.start() : found.end()]]
