"""Reads single lines out of a file, by the byte where each starts; of a very long line only the part around a match.

Offsets and columns count bytes of the text as UTF-8 without its mark, as a search tells them; what comes back counts
characters. Nothing here reads a file whole, unless it is UTF-16, where a line's place says nothing of its bytes.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple

from context_engine.text.lines import around
from context_engine.workspace import files

LINE_BYTES = 4_096
"""Read at once: nearly every line ends within it."""
UTF16_BYTES_MAX = 50_000_000
"""A larger file in UTF-16 is not taken into memory; its lines are shown as their numbers alone."""
_CONTINUATION = re.compile(rb"^[\x80-\xbf]{1,3}")
_CHAR_BYTES_MAX = 4


class Spot(NamedTuple):
    """Where a line starts, and the column of its match in bytes from 1; 0 without a match."""

    offset: int
    column: int


class Seen(NamedTuple):
    """A line as it is shown, and the column of its match in characters from 1; 0 without a match."""

    text: str
    column: int


def lines_at(path: str, spots: Iterable[Spot], chars_max: int) -> list[Seen]:
    """The lines at these places of a file, each cut to `chars_max` characters around its match.

    Raises: OSError when the file is gone, closed, or no plain file any more.
    """
    with _opened(path) as window:
        return [_line(window, spot, chars_max) for spot in spots]


class _Window:
    """A file that is open for reading parts; `whole` is its text where it had to be recoded."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._mark_bytes = 0
        self._whole: bytes | None = None
        head = self.read(0, 3)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._whole = self.read(0, UTF16_BYTES_MAX).decode("utf-16", "replace").encode()
        elif head == codecs.BOM_UTF8:
            self._mark_bytes = 3

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes of the text."""
        if self._whole is not None:
            return self._whole[offset : offset + size]
        os.lseek(self._descriptor, offset + self._mark_bytes, os.SEEK_SET)
        return os.read(self._descriptor, size)


@contextmanager
def _opened(path: str) -> Generator[_Window]:
    descriptor = files.opened(path)
    try:
        yield _Window(descriptor)
    finally:
        os.close(descriptor)


def _line(window: _Window, spot: Spot, chars_max: int) -> Seen:
    before = max(0, spot.column - 1)
    raw, newline, _ = window.read(spot.offset, LINE_BYTES).partition(b"\n")
    if newline or len(raw) < LINE_BYTES:
        text = _text(raw).removesuffix("\r")
        at = len(_text(raw[:before]))
        return Seen(around(text, at, chars_max), at + 1 if spot.column else 0)
    if before + chars_max * _CHAR_BYTES_MAX <= LINE_BYTES:
        at = len(_text(raw[:before]))
        return Seen(around(_text(_whole_chars(raw)), at, chars_max, ends=False), at + 1 if spot.column else 0)
    return _long_line(window, spot, before, chars_max)


def _long_line(window: _Window, spot: Spot, before: int, chars_max: int) -> Seen:
    """The part of a long line around its match; what stands before is only counted."""
    column = len(_text(window.read(spot.offset, before))) + 1
    lead = min(before, chars_max * _CHAR_BYTES_MAX)
    start = spot.offset + before - lead
    raw, newline, _ = window.read(start, lead + chars_max * _CHAR_BYTES_MAX).partition(b"\n")
    head = _CONTINUATION.sub(b"", raw[:lead]) if lead < before else raw[:lead]
    text = _text(head + _whole_chars(raw[lead:]))
    shown = around(text.removesuffix("\r"), len(_text(head)), chars_max, begins=lead == before, ends=bool(newline))
    return Seen(shown, column)


def _whole_chars(raw: bytes) -> bytes:
    """Without the beginning of a character that was cut off at the end."""
    for back in range(1, min(_CHAR_BYTES_MAX, len(raw)) + 1):
        byte = raw[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return raw[:-back] if needs > back else raw
    return raw


def _text(raw: bytes) -> str:
    """Never fails; see `files.decoded`. A mark inside a file is a character like any other."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return files.decoded(raw).text
