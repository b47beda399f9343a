"""PURE. Private keys over several lines: which lines after a BEGIN are the key, wherever it is written down."""

from __future__ import annotations

import re

LINE_END = re.compile(rb"(?:\\r)?\\n|\r?\n")
"""Also as JSON writes it."""
AROUND_LINES = b" \t\"'`+,;()\\"
"""What stands around a line of a key where it is written into a program."""
KEY_LINE = re.compile(rb"[A-Za-z0-9+/=]+|[A-Za-z0-9+/=]{32,}(?: [A-Za-z0-9+/=]+)*")
"""Some write all lines into one, with blanks between them."""
KEY_HEADER = re.compile(rb"[A-Za-z-]+: .*")
KEY_LINE_CHARS_MIN = 32
"""The longest line of a key has 64 or more; code that only speaks of keys has none of these."""

Parts = tuple[tuple[int, int], ...]


def key_lines(data: bytes, start: int) -> Parts:
    """The lines of a key, as far as what follows its BEGIN is made of them; an END may be cut off."""
    end = data.find(b"-----", start)
    parts: list[tuple[int, int]] = []
    longest = 0
    for first, last in _lines(data, start, len(data) if end < 0 else end):
        line = data[first:last].strip(AROUND_LINES)
        if KEY_LINE.fullmatch(line):
            place = data.index(line, first)
            parts.append((place, place + len(line)))
            longest = max(longest, len(line))
        elif line and not KEY_HEADER.fullmatch(line):
            break
    return tuple(parts) if longest >= KEY_LINE_CHARS_MIN else ()


def _lines(data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    lines, first = [], start
    for end in LINE_END.finditer(data, start, stop):
        lines.append((first, end.start()))
        first = end.end()
    return [*lines, (first, stop)]
