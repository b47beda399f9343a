r"""PURE. Decode texts in escapes and in base64, and find where each part of a decoded text is in the original.

    ghp%5Fq8Zt...     \u0067\u0068\u0070_q8Zt...     \x67hp_q8Zt...     ghp&#95;q8Zt...

Only the surroundings of an escape are decoded, and each escape once, so the time is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

ESCAPE = re.compile(
    rb"""
    %(?:25)?[2-7][0-9A-Fa-f]                                  # of an address, also twice
  | \\\\{0,3}(?: u(?:00|\{(?:00)?)[2-7][0-9A-Fa-f]\}?            # of JSON and JavaScript
            | x[2-7][0-9A-Fa-f] )                             # of Python, C, PHP
  | &\#(?: [xX]0{0,4}[2-7][0-9A-Fa-f] | 0{0,4}[0-9]{2,3} );   # of HTML
    """,
    re.VERBOSE,
)
SIGNS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.:@~!$&")
"""The characters of tokens and of addresses with a password; other escapes are not decoded."""
BEFORE_BYTES, AFTER_BYTES = 320, 8_192
"""The value of an escape begins and ends within this distance."""
SEPARATORS = (b" ", b"\n", b"\t", b"\r", b'"', b"'", b"<", b">", b"`")
"""The characters that end a value."""
VALUE_AFTER = re.compile(rb"[^\s\"'<>`]*")
NAME_BYTES = 64
"""The name of a value is decoded with it."""


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """A decoded part of a text, with the positions of its escapes in it and in the original."""

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
    pieces = [data[first:start] for first, (start, _, _) in zip(starts, signs, strict=False)]
    places = tuple(length - 1 for length in accumulate(len(piece) + 1 for piece in pieces))
    parts = (part for piece, (_, _, sign) in zip(pieces, signs, strict=True) for part in (piece, sign))
    text = b"".join([*parts, data[starts[-1] : end]])
    return DecodedPart(text, begin, places, tuple((start, stop) for start, stop, _ in signs))


def _sign(escape: bytes) -> bytes | None:
    """Return the byte of an escape, if tokens contain such bytes."""
    is_decimal = escape.startswith(b"&#") and escape[2:3] not in (b"x", b"X")
    digits = escape[2:-1] if is_decimal else escape.rstrip(b";}")[-2:]
    code = int(digits) if is_decimal else int(digits, 16)
    return bytes([code]) if code in SIGNS else None


RUN_CHARS_MIN = 40
_LONG = b"a" * RUN_CHARS_MIN
_KINDS = bytes(
    ord("a") if (chr(code).isalnum() and code < 128) or code in b"+/_-" else ord("." if code == ord(".") else " ")
    for code in range(256)
)
_RUN_END = re.compile(rb"[^a]|\Z")
DOTTED = b"a" * 23 + b".aaaaaa."
"""A token with dots up to its last part, in the letters of `shape_of`."""
BLOB = re.compile(rb"(?:[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_\-]){10,}")
"""Forty letters of base64 that contain text. Three of four letters then use half of the alphabet, so hashes do not
match."""
REST_OF_BLOB = re.compile(rb"[A-Za-z0-9+/_\-]*={0,2}")
BLOB_BYTES_MAX = 100_000
UNREADABLE_SHARE_MAX = 0.05
"""The share of unreadable bytes in a blob: keys are text, hashes and pictures are not."""


def shape_of(data: bytes) -> bytes:
    """Return a text with `a` for each letter of base64, dots, and blanks: fixed shapes are found in it quickly."""
    return data.translate(_KINDS)


def find_shape(shape: bytes, sought: bytes) -> Iterator[int]:
    """Yield where a shape begins."""
    start = shape.find(sought)
    while start >= 0:
        yield start
        start = shape.find(sought, start + 1)


def long_runs(data: bytes, shape: bytes) -> list[tuple[int, int]]:
    """Return the spans of forty or more letters of base64, of which wrapped texts and lines of keys consist.

    Runs of one letter are searched in the shape of the text: twice as fast as any pattern.
    """
    runs, start = [], shape.find(_LONG)
    while start >= 0:
        end = _RUN_END.search(shape, start + RUN_CHARS_MIN)
        stop = end.start() if end else len(data)
        padded = stop + (data[stop : stop + 2] == b"==") + data.startswith(b"=", stop)
        runs.append((start, padded))
        start = shape.find(_LONG, stop)
    return runs


PUBLIC_DATA = re.compile(
    rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF|wOF[F2]|OTTO|\x00\x01\x00\x00\x00|\x00\x00[\x01\x02]\x00|II\*\x00|MM\x00\*|%PDF|PK\x03\x04"
    rb"|\x1f\x8b\x08|\xfd7zXZ|BZh|7z\xbc\xaf|\x00asm|OggS|fLaC|ID3|....ftyp|<svg|<\?xml"  # files
    rb"|-----BEGIN (?:CERT|PUBLIC)"
    rb"|\x00\x00\x00.(?:ssh-|ecdsa-|sk-)|\x99..\x04"  # public keys of SSH and PGP
    # DER: certificates, requests and public keys. Private ones begin with a version, or with the OID of a password.
    rb"|\x30(?:[\x00-\x7f]|\x81.|\x82..)"
    rb"(?:\x30(?:[\x00-\x7f]|\x81.|\x82..)(?:\x06(?!\x09\x2a\x86\x48\x86\xf7\x0d\x01[\x05\x0c])|\xa0\x03|\x02)|\x02[\x81\x82])",
    re.DOTALL,
)
"""The first bytes of images, fonts, archives and public keys."""
PUBLIC_CHARS = 40


def is_public_data(value: bytes) -> bool:
    """Return whether a value is an image, another kind of file or a public key in base64.

    >>> is_public_data(b"iVBORw0KGgoAAAANSUhEUgAA"), is_public_data(b"MFkwEwYHKoZIzj0CAQYIKoZIzj0D")
    (True, True)
    >>> is_public_data(b"MIIEvQIBADANBgkqhkiG9w0BAQEF"), is_public_data(b"b3BlbnNzaC1rZXktdjEAAAAABG5v")
    (False, False)
    """
    head = value[:PUBLIC_CHARS]
    return PUBLIC_DATA.match(decode_value(head[: len(head) // 4 * 4].decode("latin-1"))) is not None


def whole_blob(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Return the span of the blob that begins here."""
    rest = REST_OF_BLOB.match(data, stop)
    return start, rest.end() if rest else stop


def decode_value(value: str) -> bytes:
    """Return what a value is in base64, with or without its padding; nothing for any other value."""
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def decode_blob(blob: bytes) -> bytes:
    """Return the text in a blob, or nothing if it does not contain text.

    >>> decode_blob(b"cGFzc3dvcmQgPSAiVHIwdWI0ZG9yLTIwMjYtVHIwdWI0ZG9yIg==")
    b'password = "Tr0ub4dor-2026-Tr0ub4dor"'
    """
    plain = blob.translate(_TO_STANDARD, b"=")
    if len(plain) % 4 == 1:
        plain = plain[:-1]
    inner = binascii.a2b_base64(plain + b"=" * (-len(plain) % 4))
    unreadable = len(inner.translate(None, _READABLE))
    return inner if unreadable <= UNREADABLE_SHARE_MAX * len(inner) else b""


_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_READABLE = bytes([9, 10, 13, *range(32, 127)])
