"""PURE. Trigrams of files as bytes: which files of a part contain all the texts that a search needs.

    part = pack_part([row, ...], [file_grams(data), ...])
    GramPart.unpack(part).find(And(("class ", "error")))     # numbers of rows

A part has a head of JSON with its files, then the trigrams in order, the end of each list, and the lists: for each
trigram the numbers of its files, as differences of one or two bytes. Trigrams are of lower case. The few letters of
other alphabets whose case folds to a letter of ASCII count as that letter too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from context_engine.search.pattern_factors import GRAM, And, Factor

MAGIC = b"ctxgram1"
FILES_MAX = 2_048
"""Files of one part, so that a difference of two numbers needs at most two bytes."""
GRAMS_READ = 6
"""The rarest trigrams of a text that are read; the others would leave out few files more."""
FOLDED = {"\u017f": b"s", "\u212a": b"k", "\u0130": b"i", "\u0131": b"i"}
"""Letters that a search without regard to case may take for a letter of ASCII."""
_LOWER = bytes(range(256)).lower()

Grams = npt.NDArray[np.uint32]


class GramRow(NamedTuple):
    """A file as it was when its trigrams were taken. `is_open`: they were not, and a search must read it."""

    path: str
    size: int
    mtime_ns: int
    is_open: bool


def file_grams(data: bytes) -> Grams:
    """Return the trigrams of a text in order, each once."""
    folded = data
    for letter, plain in FOLDED.items():
        folded = folded.replace(letter.encode(), plain)
    if folded != data:
        data = b"\n".join((data, folded))
    codes = np.frombuffer(data.translate(_LOWER), dtype=np.uint8).astype(np.uint32)
    if len(codes) < GRAM:
        return np.zeros(0, dtype=np.uint32)
    return np.unique((codes[:-2] << 16) | (codes[1:-1] << 8) | codes[2:])


def pack_part(rows: Sequence[GramRow], grams: Sequence[Grams]) -> bytes:
    """Return a part as bytes; an open row has no trigrams."""
    assert len(rows) <= FILES_MAX, "a difference must fit into two bytes"
    counts = [len(one) for one in grams]
    pairs = (np.concatenate(grams).astype(np.uint64) << 16) if grams else np.zeros(0, dtype=np.uint64)
    pairs |= np.repeat(np.arange(len(rows), dtype=np.uint64), counts)
    pairs.sort()
    codes, numbers = (pairs >> 16).astype(np.uint32), (pairs & 0xFFFF).astype(np.int32)
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else np.zeros(0, dtype=np.int64)
    steps = np.diff(numbers, prepend=0)
    steps[starts] = numbers[starts]
    is_long = steps >= 128
    ends = np.cumsum(1 + is_long)
    packed = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    firsts = ends - 1 - is_long
    packed[firsts] = np.where(is_long, (steps & 127) | 128, steps)
    packed[ends[is_long] - 1] = steps[is_long] >> 7
    list_ends = ends[np.r_[starts[1:] - 1, len(ends) - 1]] if len(starts) else ends
    head = json.dumps({"grams": len(starts), "files": rows}, ensure_ascii=True, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 4)
    return b"".join(
        (
            MAGIC,
            len(head).to_bytes(8, "little"),
            head,
            codes[starts].astype("<u4").tobytes(),
            list_ends.astype("<u4").tobytes(),
            packed.tobytes(),
        )
    )


class GramPart:
    """A part, which may be mapped into memory."""

    def __init__(self, rows: tuple[GramRow, ...], codes: Any, ends: Any, lists: Any) -> None:
        """Use `unpack`."""
        self.rows = rows
        self._codes = codes
        self._ends = ends
        self._lists = lists

    @classmethod
    def unpack(cls, data: Any) -> Self:
        """Return a part of bytes. Raises: ValueError for anything else."""
        if bytes(data[: len(MAGIC)]) != MAGIC:
            raise ValueError("not a part of an index of trigrams")
        start = len(MAGIC) + 8
        size = int.from_bytes(data[len(MAGIC) : start], "little")
        head = json.loads(bytes(data[start : start + size]))
        rows = tuple(GramRow(str(path), int(size), int(at), bool(is_open)) for path, size, at, is_open in head["files"])
        count, start = int(head["grams"]), start + size
        codes = np.frombuffer(data, dtype="<u4", count=count, offset=start)
        ends = np.frombuffer(data, dtype="<u4", count=count, offset=start + 4 * count)
        lists = np.frombuffer(data, dtype=np.uint8, offset=start + 8 * count)
        if count and len(lists) != ends[-1]:
            raise ValueError("a part of an index of trigrams is cut short")
        return cls(rows, codes, ends, lists)

    def find(self, factor: Factor) -> npt.NDArray[np.int32]:
        """Return the numbers of the rows that may have what a factor says, in order."""
        if isinstance(factor, str):
            return self._find_text(factor)
        found = [self.find(part) for part in factor.parts]
        if isinstance(factor, And):
            return _common(found)
        return np.unique(np.concatenate(found))

    def _find_text(self, text: str) -> npt.NDArray[np.int32]:
        """Return the rows with the rarest trigrams of a text."""
        wanted = file_grams(text.encode())
        places = np.searchsorted(self._codes, wanted)
        if not len(self._codes) or (places == len(self._codes)).any() or (self._codes[places] != wanted).any():
            return np.zeros(0, dtype=np.int32)
        starts = np.where(places > 0, self._ends[places - 1], 0)
        lengths = self._ends[places] - starts
        rarest = np.argsort(lengths, kind="stable")[:GRAMS_READ]
        return _common([self._read(int(starts[at]), int(starts[at] + lengths[at])) for at in rarest])

    def _read(self, start: int, stop: int) -> npt.NDArray[np.int32]:
        packed = self._lists[start:stop].astype(np.int32)
        goes_on = packed >= 128
        is_first = np.r_[True, ~goes_on[:-1]]
        steps = packed & 127
        steps[goes_on] += packed[np.flatnonzero(goes_on) + 1] << 7
        return np.cumsum(steps[is_first], dtype=np.int32)


def _common(found: list[npt.NDArray[np.int32]]) -> npt.NDArray[np.int32]:
    """Return the numbers that are in each of some ordered lists."""
    ordered = sorted(found, key=len)
    common = ordered[0]
    for other in ordered[1:]:
        common = np.intersect1d(common, other, assume_unique=True)
    return common
