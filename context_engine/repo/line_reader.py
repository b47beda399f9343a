"""Reads single lines out of a file, by the byte where each starts; of a very long line only the part around a match.

Offsets and columns count bytes of the text as UTF-8 without its mark, as a search reports them; what comes back counts
characters. Nothing here reads a file whole, unless it is UTF-16, where a line's place says nothing of its bytes.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

from context_engine.repo import file_reader
from context_engine.secrets import AROUND_BYTES, WHOLE_BYTES_MAX, RedactedDocument
from context_engine.storage import ConfinedFolder
from context_engine.text import shorten_line

LINE_BYTES = 4_096
"""Read at once: nearly every line ends within it."""
UTF16_BYTES_MAX = 50_000_000
"""A larger file in UTF-16 is not taken into memory; its lines are shown as their numbers alone."""
_CONTINUATION = re.compile(rb"^[\x80-\xbf]{1,3}")
_CHAR_BYTES_MAX = 4


class LineStart(NamedTuple):
    """Where a line starts, and the column of its match in bytes from 1; 0 without a match."""

    offset: int
    column: int


class LineWindow(NamedTuple):
    """A line as it is shown, and the column of its match in characters from 1; 0 without a match."""

    text: str
    column: int


def read_lines_at(
    root: ConfinedFolder,
    path: str,
    spots: Iterable[LineStart],
    chars_max: int,
    redact: Callable[[bytes], RedactedDocument] = RedactedDocument.of,
) -> list[LineWindow]:
    """Return the lines at these places of a file beneath the root, each cut to `chars_max` around its match.

    `redact` replaces secrets. Raises: OSError when the file is gone, closed, or no plain file any more.
    """
    with _open_window(root, path, redact) as window:
        return [_line(window, spot, chars_max) for spot in spots]


class _Window:
    """A file that is open for reading parts; `_whole` is its text where that is small or had to be recoded."""

    def __init__(self, descriptor: int, redact: Callable[[bytes], RedactedDocument]) -> None:
        self._descriptor = descriptor
        self._redact = redact
        self._mark_bytes = 0
        self._whole: bytes | None = None
        head = self.read(0, 3)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._whole = self.read(0, UTF16_BYTES_MAX).decode("utf-16", "replace").encode()
            return
        if head == codecs.BOM_UTF8:
            self._mark_bytes = 3
        if os.fstat(descriptor).st_size <= WHOLE_BYTES_MAX:
            self._whole = self.read(0, WHOLE_BYTES_MAX)

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of the text."""
        if self._whole is not None:
            return self._whole[offset : offset + size]
        os.lseek(self._descriptor, offset + self._mark_bytes, os.SEEK_SET)
        return os.read(self._descriptor, size)

    @cached_property
    def _redacted(self) -> RedactedDocument | None:
        if self._whole is None:
            return None
        return self._redact(self._whole)

    @property
    def has_secrets(self) -> bool:
        """Whether anything is hidden; a file that is not read whole may always hide something."""
        return self._redacted is None or self._redacted.has_secrets

    def redact(self, start: int, stop: int) -> bytes:
        """Return the bytes `start` to `stop` without secrets, which are found with the text around them."""
        if self._redacted is not None:
            return self._redacted.part_bytes(start, stop)
        first = max(0, start - AROUND_BYTES)
        around = self._redact(self.read(first, stop - first + AROUND_BYTES))
        return around.part_bytes(start - first, stop - first)


@contextmanager
def _open_window(root: ConfinedFolder, path: str, redact: Callable[[bytes], RedactedDocument]) -> Generator[_Window]:
    with root.open_folder() as top:
        descriptor = file_reader.open_plain_file(top, path)
    try:
        yield _Window(descriptor, redact)
    finally:
        os.close(descriptor)


def _line(window: _Window, spot: LineStart, chars_max: int) -> LineWindow:
    before, reach = max(0, spot.column - 1), chars_max * _CHAR_BYTES_MAX
    raw, newline, _ = window.read(spot.offset, LINE_BYTES).partition(b"\n")
    skipped, ends = 0, bool(newline) or len(raw) < LINE_BYTES
    if not ends and before + reach > LINE_BYTES:  # of what is before the match of a long line most is only counted
        skipped = before - min(before, reach)
        raw, newline, _ = window.read(spot.offset + skipped, before - skipped + reach).partition(b"\n")
        ends = bool(newline)
    start = spot.offset + skipped
    stop, match = start + len(raw), min(start + len(raw), spot.offset + before)
    hides = window.has_secrets
    shown = window.redact(start, stop) if hides else raw
    if hides:
        head = window.redact(start, match)
    else:
        head = raw[: match - start]
    if skipped:
        shown, head = _CONTINUATION.sub(b"", shown), _CONTINUATION.sub(b"", head)
    text = _text(shown if ends else _whole_chars(shown)).removesuffix("\r")
    at = len(_text(head))
    if not (skipped or hides):
        column = at + 1
    else:
        column = len(_text(window.read(spot.offset, before))) + 1
    return LineWindow(shorten_line(text, at, chars_max, begins=not skipped, ends=ends), column if spot.column else 0)


def _whole_chars(raw: bytes) -> bytes:
    """Return the bytes without the beginning of a character that was cut off at the end."""
    for back in range(1, min(_CHAR_BYTES_MAX, len(raw)) + 1):
        byte = raw[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            if needs > back:
                return raw[:-back]
            return raw
    return raw


def _text(raw: bytes) -> str:
    """Decode bytes, which never fails. A byte order mark inside a file is a character like any other."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return file_reader.decode(raw).text
