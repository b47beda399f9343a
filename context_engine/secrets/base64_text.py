"""PURE. Texts wrapped in base64: where they may stand, and what they hold."""

from __future__ import annotations

import binascii
import re

RUN_CHARS_MIN = 40
_LETTER, _OTHER = b"a", b" "
_LONG = _LETTER * RUN_CHARS_MIN
_KINDS = bytes(ord("a") if (chr(code).isalnum() and code < 128) or code in b"+/_-" else ord(" ") for code in range(256))
BLOB = re.compile(rb"(?:[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_\-]){10,}")
"""Forty letters of base64 that hold text: three in four letters then have no more than half of the alphabet, so hashes
fail."""
REST_OF_BLOB = re.compile(rb"[A-Za-z0-9+/_\-]*={0,2}")
BLOB_BYTES_MAX = 100_000
UNREADABLE_SHARE_MAX = 0.05
"""Of what a blob holds: keys are text, hashes and pictures are not."""


def long_runs(data: bytes) -> list[tuple[int, int]]:
    """Return where forty letters of base64 or more follow each other: wrapped texts and lines of keys are made of these.

    The text becomes one of two letters, in which a row of one of them is looked for: twice as fast as any pattern.
    """
    letters = data.translate(_KINDS)
    runs, start = [], letters.find(_LONG)
    while start >= 0:
        stop = letters.find(_OTHER, start + RUN_CHARS_MIN)
        stop = stop if stop >= 0 else len(data)
        padded = stop + (data[stop : stop + 2] == b"==") + data.startswith(b"=", stop)
        runs.append((start, padded))
        start = letters.find(_LONG, stop)
    return runs


def whole_blob(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """The blob of which this is the beginning."""
    rest = REST_OF_BLOB.match(data, stop)
    return start, rest.end() if rest else stop


def decode_blob(blob: bytes) -> bytes:
    """The text that a blob holds, or nothing when that is no text.

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
