"""PURE. Trigrams of files as bytes, in lower case: which files of a part contain all the texts that a search needs.

A part has a head of JSON with its files, then the trigrams in order, the end of each list, and the lists: for each
trigram the numbers of its files, as differences of one or two bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

MAGIC = b"ctxgram2"
GRAM = 3
"""The length of the texts that an index lists."""
FILES_MAX = 2_048
"""Files of one part, so that a difference of two numbers needs at most two bytes."""
GRAMS_READ = 6
"""The rarest trigrams of a text that are read; the others would leave out few files more."""
FOLDED = {"\u017f": b"s", "\u212a": b"k", "\u0130": b"i", "\u0131": b"i"}
"""Letters that a search without regard to case may take for a letter of ASCII."""
_LOWER = bytes(range(256)).lower()

Grams = npt.NDArray[np.uint32]


Factor = frozenset[frozenset[str]]
"""What a search needs: all texts of one of these sets."""


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
        return np.unique(np.concatenate([_common(list(map(self._find_text, texts))) for texts in factor]))

    def _find_text(self, text: str) -> npt.NDArray[np.int32]:
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
        is_first = np.append(True, ~goes_on[:-1])
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


# -- factors -----------------------------------------------------------------------------------------------------------

# The texts that a line must contain to match a pattern, as far as the pattern shows them, in lower case and of ASCII
# alone: an index of them serves searches with and without regard to case. A text of three characters is the least that
# counts. Groups and small classes are written out, and syntax that is not known here has no factors, so nothing is left
# out for it.

REPEAT_MAX = 1_000
"""A larger bound of a repetition may be refused by the matcher, which must see the pattern then."""
BRANCHES_MAX, RUNS_MAX = 16, 8
"""Ways to match that are written out, and texts of one; what is beyond is taken for anything."""

Branch = tuple[str, ...]
"""Texts that follow each other in a match, with anything between them; the first and the last may be empty."""
EMPTY: list[Branch] = [("",)]
ANYTHING: list[Branch] = [("", "")]

_TOKEN = re.compile(
    r"(?s)(?P<place>[\^$]|\\[bB](?!\{))|\[(?P<few>[^]\\\[&~^-]{1,4})\]"
    r"|(?P<any>\.|\\[dDwWsStfva]|\[\^?(?:\\.|[^]\\\[&~^-])(?:\\.|[^]\\\[&~]){0,200}+\])"
    r"|\\(?P<escaped>[!-/:;=?@\[-^`{-~])"
    r"|(?P<open>\((?:\?(?::|P?<\w{1,40}>))?(?!\?))|(?P<close>\))|(?P<choice>\|)"
    r"|(?P<times>[*+?]|\{(?P<least>\d{1,4})(?P<most>,\d{0,4})?\})\??(?![*+?{])"
    r"|(?P<literal>[^\\\[\]{}()*+?|^$.])"
)


def factors_of(pattern: str) -> Factor | None:
    r"""Return what a matching line contains, in the syntax of Rust's `regex`; None where nothing is known.

    >>> sorted(map(sorted, factors_of(r"sha(1|256)\(|def \w+_timeout") or ()))
    [['_timeout', 'def '], ['sha1('], ['sha256(']]
    >>> factors_of("[a-z]+"), factors_of("(?x) a b")
    (None, None)
    """
    return _join(_read_branches(pattern.removeprefix("(?i)")))


def factors_of_text(text: str) -> Factor | None:
    """Return what a line that contains this text contains.

    >>> factors_of_text("Größe: x = 1"), factors_of_text("ab")
    (frozenset({frozenset({'e: x = 1'})}), None)
    """
    return _join(["".join(char if char.isascii() else "\0" for char in text).lower().split("\0")])


def any_of(factors: Iterable[Factor | None]) -> Factor | None:
    """Return the factors of a search for several things, of which one is enough; None if one has none."""
    found = list(factors)
    return None if None in found else frozenset[frozenset[str]]().union(*filter(None, found))


def _join(branches: Iterable[Iterable[str]]) -> Factor | None:
    factor = frozenset(frozenset(run for run in runs if len(run) >= GRAM) for runs in branches)
    return factor if factor and all(factor) else None


def _read_branches(pattern: str) -> list[Branch]:
    """Return what each way to match has, in lower case; nothing for a pattern with unknown syntax."""
    outer: list[tuple[list[Branch], list[Branch]]] = []
    choices, before, part = [], EMPTY, EMPTY  # what is done of this group, its last choice, and the end of that one
    can_repeat, at = False, 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None or (token["times"] and not (can_repeat and _is_sure(token))):
            return []
        at = token.end()
        can_repeat = token.lastgroup in ("any", "few", "escaped", "literal", "close")
        if token["times"]:
            if token["times"] == "?":
                part = [*part, *EMPTY]
            else:
                part = _follow(part if token["times"] == "+" or int(token["least"] or 0) else EMPTY, ANYTHING)
            continue
        before, part = _follow(before, part), EMPTY
        if token["open"]:
            outer.append((choices, before))
            choices, before = [], EMPTY
        elif token["choice"]:
            choices, before = [*choices, *before], EMPTY
        elif token["close"]:
            if not outer:
                return []
            part = [*choices, *before]
            choices, before = outer.pop()
        else:
            chars = token["few"] or token["escaped"] or token["literal"] or ""
            part = [(char,) for char in dict.fromkeys(chars.lower())] if chars and chars.isascii() else ANYTHING
    return [] if outer else [*choices, *_follow(before, part)]


def _follow(before: Sequence[Branch], after: Sequence[Branch]) -> list[Branch]:
    """Return the texts of a part of a pattern that another part follows."""
    if len(before) * len(after) > BRANCHES_MAX:
        after = ANYTHING
    joined = ((*first[:-1], first[-1] + then[0], *then[1:]) for first, then in product(before, after))
    return list(dict.fromkeys(runs[:1] + runs[1:][-RUNS_MAX:] for runs in joined))


def _is_sure(times: re.Match[str]) -> bool:
    """Return whether every matcher takes a repetition."""
    least, most = int(times["least"] or 0), (times["most"] or "").removeprefix(",")
    return max(least, int(most or least)) <= REPEAT_MAX and least <= int(most or least)
