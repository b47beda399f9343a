r"""PURE. A file as an edit sees it: bytes that become text and come back as the same bytes.

A byte order mark is set aside. Damaged UTF-8 is kept as it is. Places are searched in `norm`, where
every CR LF is one line feed. The text itself is changed only between two offsets, so everything else survives by
construction. A line ends at a line feed and at nothing else: form feeds, Unicode separators and a lone CR are content.

>>> content = content_of(b"\xef\xbb\xbfone\r\ntwo\r\n")
>>> content.norm, content.offset(content.norm.index("two")), content.encode("three")
('one\ntwo\n', 5, b'three')
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, repeat

from context_engine.errors import BinaryFile, NextStep, TooLarge, WrongEncoding
from context_engine.secrets import redact_file
from context_engine.text import decode, encode, split_lines

BYTES_MAX = 32 << 20
"""A hundred times the largest file that people write by hand; a larger one is data, and needs another program."""
NEARBY_CHARS = 8_000
"""Some two hundred lines either way show how a part of a file is indented."""

CODE_MAX = 0x10FFFF
"""There are no more code points: further lines are compared themselves."""


@dataclass(frozen=True)
class FileContent:
    """The text of a file without its byte order mark, and how it was read.

    Bytes that are not UTF-8 in a file that otherwise is are in the text as characters that encode to them again.
    """

    text: str
    bom: bytes = b""
    encoding: str = "utf-8"

    def encode(self, text: str) -> bytes:
        """Return a part of this file's text, or a new one, as bytes in the file's encoding. Raises: WrongEncoding."""
        return text.encode("utf-8", "surrogateescape") if self.encoding == "utf-8" else encode(text, self.encoding)

    @cached_property
    def norm(self) -> str:
        """The text with every CR LF made one line feed."""
        return self.text.replace("\r\n", "\n") if "\r" in self.text else self.text

    @cached_property
    def _returns(self) -> list[int]:
        """The line feeds in `norm` that have a CR before them in the text."""
        if len(self.norm) == len(self.text):
            return []
        return [found.start() - number for number, found in enumerate(re.finditer("\r\n", self.text))]

    def offset(self, at: int) -> int:
        """Return where a character of `norm` is in the text."""
        return at + bisect_left(self._returns, at)

    # -- lines, counted from 0

    @cached_property
    def lines(self) -> list[str]:
        """The lines of `norm` without their line feeds."""
        return split_lines(self.norm)

    @cached_property
    def shown_lines(self) -> list[str]:
        """The lines as replies show them: without the secrets of the whole file."""
        return split_lines(redact_file(self.norm))

    @cached_property
    def starts(self) -> list[int]:
        """The offset in `norm` of each line, and of one more."""
        return list(accumulate(map(len, self.lines), lambda at, length: at + length + 1, initial=0))

    def line_of(self, at: int) -> int:
        """Return the line of a character of `norm`."""
        return max(0, min(bisect_right(self.starts, at) - 1, len(self.lines) - 1))

    def column(self, at: int) -> int:
        """Return the column of a character of `norm`, counted from 1."""
        return at - self.norm.rfind("\n", 0, at)

    def break_of(self, line: int) -> str:
        """Return the line break of a line in the text; empty for a last line without one."""
        return self.break_at(self.offset(self.starts[line] + len(self.lines[line])))

    def break_at(self, offset: int) -> str:
        """Return the line break that begins at an offset of the text; empty when none does."""
        found = self.text[offset : offset + 2]
        if found == "\r\n":
            return found
        return found[:1] if found[:1] == "\n" else ""

    def newline(self, start: int, stop: int) -> str:
        """Return the break for a new line between two offsets: the most frequent there, in that line, or in all."""
        for part in (self.text[start:stop], self._line_end(stop), self.text):
            pairs = part.count("\r\n")
            singles = part.count("\n") - pairs
            if pairs != singles:
                return "\r\n" if pairs > singles else "\n"
        return "\n"

    def _line_end(self, at: int) -> str:
        feed = self.text.find("\n", at)
        return self.text[max(0, feed - 1) : feed + 1] if feed >= 0 else ""

    def nearby(self, at: int) -> list[str]:
        """Return the lines around a character of `norm`, which show how they are indented."""
        start, stop = max(0, at - NEARBY_CHARS), at + NEARBY_CHARS
        whole = self.norm[start:stop].split("\n")
        return whole[int(start > 0) : len(whole) - (stop < len(self.norm))]

    # -- lines by what stands on them, whatever the whitespace

    @cached_property
    def keys(self) -> list[str]:
        """The key of each line; empty for a blank one."""
        return [key_of(line) for line in self.lines]

    @cached_property
    def solid(self) -> list[int]:
        """The lines that are not blank."""
        return [number for number, key in enumerate(self.keys) if key]

    @cached_property
    def key_ends(self) -> list[int]:
        """How many characters the keys of the solid lines have, up to and including each of them."""
        return list(accumulate(len(self.keys[line]) for line in self.solid))

    @cached_property
    def codes(self) -> dict[str, str]:
        """A character for each different key, so that lines can be searched as quickly as text."""
        characters = chain(map(chr, range(CODE_MAX)), repeat(chr(CODE_MAX)))
        return dict(zip(dict.fromkeys(filter(None, self.keys)), characters, strict=False))

    @cached_property
    def line_codes(self) -> str:
        """The solid lines, one character each."""
        return "".join(map(self.codes.__getitem__, filter(None, self.keys)))

    def blank_beside(self, line: int, step: int) -> int:
        """Return how many blank lines are right above a line (`step` -1), or below it (1)."""
        count = 0
        while 0 <= line + step * (count + 1) < len(self.lines) and not self.keys[line + step * (count + 1)]:
            count += 1
        return count

    def runs(self, keys: Sequence[str]) -> Iterator[int]:
        """Yield where solid lines with these keys follow one another, as places in `solid`; also overlapping ones."""
        codes = self.codes
        if not keys or any(key not in codes for key in keys):
            return
        wanted = "".join([codes[key] for key in keys])
        at = self.line_codes.find(wanted)
        while at >= 0:
            if len(codes) <= CODE_MAX or self.keys_at(at, len(keys)) == list(keys):
                yield at
            at = self.line_codes.find(wanted, at + 1)

    def keys_at(self, at: int, count: int) -> list[str]:
        """Return the keys of some solid lines from one on."""
        return [self.keys[line] for line in self.solid[at : at + count]]

    def solid_before(self, line: int) -> int:
        """Return how many solid lines are above a line."""
        return bisect_left(self.solid, line)


def content_of(data: bytes) -> FileContent:
    """Read the bytes of a file for editing.

    Raises: BinaryFile, TooLarge, WrongEncoding.
    """
    if len(data) > BYTES_MAX:
        raise too_large(len(data))
    text, encoding, bom, is_lossy = decode(data)
    if "\0" in text:
        raise BinaryFile(
            "it contains NUL bytes", suggestion="Only text can be edited; write the whole file anew instead."
        )
    if is_lossy and encoding == "utf-8":
        text = data[len(bom) :].decode("utf-8", "surrogateescape")
    elif is_lossy:  # what cannot be read cannot be written back either
        raise WrongEncoding(
            f"it begins as {encoding.upper()}, which cannot be kept byte for byte here",
            suggestion="Convert the file to UTF-8, or replace it.",
            next_steps=NextStep("write_file", "to replace it"),
            details={"encoding": encoding},
        )
    return FileContent(text, bom, encoding)


def too_large(size: int) -> TooLarge:
    """Return the error about a file over the limit, as it is or as it would become."""
    return TooLarge(
        f"{size:,} bytes are over the {BYTES_MAX:,} that can be edited",
        suggestion="Change a file of this size with a program of its own, such as sed.",
        details={"size": size, "limit": BYTES_MAX},
    )


BLANKS = " \t"

_RUN = re.compile(r"[ \t]+")


def key_of(line: str) -> str:
    r"""Return the key of a line: without blanks and tabs at its ends, each run of them inside made one blank.

    >>> key_of("\tif  (a)\t{ ")
    'if (a) {'
    """
    key = line.strip(BLANKS)
    return _RUN.sub(" ", key) if "  " in key or "\t" in key else key


def keys_of(text: str) -> list[str]:
    r"""Return the key of each line of a text.

    >>> keys_of("a\n  \n b  c")
    ['a', '', 'b c']
    """
    return [key_of(line) for line in text.split("\n")]


def indent_of(line: str) -> str:
    r"""Return the blanks and tabs at the beginning of a line.

    >>> indent_of("\t  x"), indent_of("x ")
    ('\t  ', '')
    """
    return line[: len(line) - len(line.lstrip(BLANKS))]
