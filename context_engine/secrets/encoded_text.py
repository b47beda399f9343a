r"""PURE.

Texts written in escapes: what they say once decoded, and which characters of the original each part of that came from.

    ghp%5Fq8Zt...     \u0067\u0068\u0070_q8Zt...     \x67hp_q8Zt...     ghp&#95;q8Zt...

Only what is around an escape is decoded, and each escape once, so the time grows with the text and with nothing else.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

ESCAPE = re.compile(
    rb"""
    %(?:25)?[2-7][0-9A-Fa-f]                                  # of an address, also twice
  | \\{1,4}(?: u(?:00|\{(?:00)?)[2-7][0-9A-Fa-f]\}?            # of JSON and JavaScript
            | x[2-7][0-9A-Fa-f] )                             # of Python, C, PHP
  | &\#(?: [xX]0{0,4}[2-7][0-9A-Fa-f] | 0{0,4}[0-9]{2,3} );   # of HTML
    """,
    re.VERBOSE,
)
SIGNS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.:@~!$&")
"""The characters of tokens and of addresses with a password; other escapes are not decoded."""
BEFORE_BYTES, AFTER_BYTES = 320, 8_192
"""How far from an escape the value that it belongs to may begin and end."""
SEPARATORS = (b" ", b"\n", b"\t", b"\r", b'"', b"'", b"<", b">", b"`")
"""The characters that end a value."""
VALUE_AFTER = re.compile(rb"[^\s\"'<>`]*")
NAME_BYTES = 64
"""The name that a value is given to is decoded with it."""


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """A decoded part of a text: where each escape is in it, and where that was in the original."""

    text: bytes
    start: int
    places: Sequence[int]
    sources: Sequence[tuple[int, int]]

    def original(self, start: int, stop: int) -> tuple[int, int]:
        """Return where a part of the decoded text came from."""
        first, last = bisect_left(self.places, start), bisect_left(self.places, stop)
        return self._source(start, first), self._source(stop, last)

    def _source(self, place: int, before: int) -> int:
        """Return the place in the original; `before` escapes are before it."""
        if not before:
            return self.start + place
        return self.sources[before - 1][1] + place - self.places[before - 1] - 1


def find_escapes(data: bytes) -> list[tuple[int, int]]:
    """Return where escapes of signs may be."""
    # Hardly any text has one; a pattern that begins with a fixed letter costs a tenth of the one that knows them all.
    for mark, beginning in _BEGINNINGS:
        if mark in data and beginning.search(data):
            return [match.span() for match in ESCAPE.finditer(data)]
    return []


_BEGINNINGS = (
    (b"%", re.compile(rb"%[2-7][0-9A-Fa-f]")),
    (b"\\", re.compile(rb"\\[ux][2-70{]")),
    (b"&", re.compile(rb"&#[0-9xX]")),
)


def decode_parts(data: bytes, escapes: Iterable[tuple[int, int]]) -> Iterator[DecodedPart]:
    """Yield each value with an escape of a sign in it, decoded, with the name before it."""
    signs = [(start, stop, sign) for start, stop in escapes if (sign := _sign(data[start:stop])) is not None]
    first = 0
    while first < len(signs):
        start = signs[first][0]
        reach = max(0, start - BEFORE_BYTES)
        before = max(reach, *(data.rfind(separator, reach, start) + 1 for separator in SEPARATORS))
        after = VALUE_AFTER.match(data, start, start + AFTER_BYTES)
        begin = max(0, before - NAME_BYTES)
        end = max(after.end() if after else start, signs[first][1])
        last = bisect_left(signs, (end,))
        yield _part(data, begin, end, signs[first:last])
        first = last


def _part(data: bytes, begin: int, end: int, signs: Sequence[tuple[int, int, bytes]]) -> DecodedPart:
    starts = [begin, *(stop for _, stop, _ in signs)]
    pieces = [data[at:start] for at, (start, _, _) in zip(starts, signs, strict=False)]
    places = tuple(length - 1 for length in accumulate(len(piece) + 1 for piece in pieces))
    parts = (part for piece, (_, _, sign) in zip(pieces, signs, strict=True) for part in (piece, sign))
    text = b"".join([*parts, data[starts[-1] : end]])
    return DecodedPart(text, begin, places, tuple((start, stop) for start, stop, _ in signs))


def _sign(escape: bytes) -> bytes | None:
    """Return the byte that an escape stands for, if it is one of those that tokens are made of."""
    is_decimal = escape.startswith(b"&#") and escape[2:3] not in (b"x", b"X")
    digits = escape[2:-1] if is_decimal else escape.rstrip(b";}")[-2:]
    code = int(digits) if is_decimal else int(digits, 16)
    return bytes([code]) if code in SIGNS else None
