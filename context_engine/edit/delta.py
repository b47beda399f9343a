r"""PURE. The difference between two versions of a file, in bytes with some lines around them.

It can be applied, reversed, and relocated in a file that has changed since.

>>> delta = make_delta(b"a = 1\nb = 2\nc = 3\n", b"a = 1\nb = 5\nc = 3\n")
>>> apply_delta(delta, b"a = 1\nb = 2\nc = 3\n"), apply_delta(reverse_delta(delta), b"a = 1\nb = 5\nc = 3\n")
(b'a = 1\nb = 5\nc = 3\n', b'a = 1\nb = 2\nc = 3\n')
>>> other = b"# new above\na = 1\nb = 5\nc = 3\n"
>>> apply_delta(relocate_delta(reverse_delta(delta), other), other)
b'# new above\na = 1\nb = 2\nc = 3\n'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

CONTEXT_LINES = 3
"""As many as `diff` shows: enough to find a place again, few enough to tolerate changes nearby."""
CONTEXT_BYTES_MAX = 400
"""On each side; a minified file has lines of megabytes."""


class ByteChange(NamedTuple):
    """`old` at the offset `start` of the old version became `new`. Both begin and end with the same lines."""

    start: int
    old: bytes
    new: bytes


Delta = tuple[ByteChange, ...]
"""All pieces of one file, in their order, none touching another."""


def delta_of_spans(new: bytes, spans: Iterable[tuple[int, int, bytes]]) -> Delta:
    """Return the delta that made `new`, from its changed spans in order: (start, stop, the original bytes)."""
    groups: list[list[tuple[int, int, bytes]]] = []
    reach = -1
    for start, stop, original in spans:
        if _context_start(new, start) > reach:
            groups.append([])
        groups[-1].append((start, stop, original))
        reach = _context_end(new, stop)
    pieces: list[ByteChange] = []
    shift = 0
    for group in groups:
        first = at = _context_start(new, group[0][0])
        parts: list[bytes] = []
        for start, stop, original in group:
            parts += (new[at:start], original)
            at = stop
        last = _context_end(new, at)
        now, before = new[first:last], b"".join((*parts, new[at:last]))
        pieces.append(ByteChange(first - shift, before, now))
        shift += len(now) - len(before)
    return tuple(pieces)


def make_delta(old: bytes, new: bytes) -> Delta:
    """Return the delta between any two versions, as one piece: from the first to the last byte that differs."""
    if old == new:
        return ()
    prefix = _common_prefix(old, new)
    tail = _common_prefix(old[prefix:][::-1], new[prefix:][::-1])
    return delta_of_spans(new, [(prefix, len(new) - tail, old[prefix : len(old) - tail])])


def reverse_delta(delta: Delta) -> Delta:
    """Return the delta that leads back from the new version."""
    reversed_pieces: list[ByteChange] = []
    shift = 0
    for piece in delta:
        reversed_pieces.append(ByteChange(piece.start + shift, piece.new, piece.old))
        shift += len(piece.new) - len(piece.old)
    return tuple(reversed_pieces)


def apply_delta(delta: Delta, old: bytes) -> bytes:
    """Return the new version. Raises: ValueError if the delta was made for another old version."""
    parts: list[bytes] = []
    at = 0
    for piece in delta:
        stop = piece.start + len(piece.old)
        if old[piece.start : stop] != piece.old:
            raise ValueError(f"the bytes at {piece.start} are not those of the delta")
        parts += (old[at : piece.start], piece.new)
        at = stop
    return b"".join((*parts, old[at:]))


def relocate_delta(delta: Delta, data: bytes) -> Delta | None:
    """Return the delta for another version that contains each piece exactly once, in the same order; else None."""
    pieces: list[ByteChange] = []
    at = 0
    for piece in delta:
        start = data.find(piece.old)
        if not piece.old or start < at or data.find(piece.old, start + 1) >= 0:
            return None
        pieces.append(ByteChange(start, piece.old, piece.new))
        at = start + len(piece.old)
    return tuple(pieces)


def _context_start(data: bytes, start: int) -> int:
    """Return where the context above an offset begins."""
    least, at = max(0, start - CONTEXT_BYTES_MAX), start
    for _ in range(CONTEXT_LINES + 1):
        at = data.rfind(b"\n", least, at)
        if at < 0:
            return least
    return at + 1


def _context_end(data: bytes, stop: int) -> int:
    """Return where the context below an offset ends."""
    most, at = min(len(data), stop + CONTEXT_BYTES_MAX), stop
    for _ in range(CONTEXT_LINES + 1):
        at = data.find(b"\n", at, most) + 1
        if not at:
            return most
    return at


def _common_prefix(one: bytes, other: bytes) -> int:
    """Return how many bytes at the beginning are the same, by bisection, since comparing slices is quick."""
    same, differs = 0, min(len(one), len(other)) + 1
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return same


# -- align -------------------------------------------------------------------------------------------------------------

# Two lists of lines side by side: which of the new ones are old ones that stayed.
#
# What is the same at the beginning and at the end stays first of all; between them the longest common subsequence does.

CELLS_MAX = 100_000_000
"""10,000 changed lines against 10,000: 30 ms. Beyond it only the equal beginning and end are kept."""
PAIRED_CELLS_MAX = 4_000_000
"""2,000 changed lines against 2,000: a tenth of a second."""


class Turn(NamedTuple):
    """Old lines `start` to `stop` (half-open) become new lines `new_start` to `new_stop`."""

    start: int
    stop: int
    new_start: int
    new_stop: int


def by_lines(text: str) -> list[str]:
    r"""Return the lines of a text with their line feeds; a rest after the last one is a line too.

    >>> by_lines("a\nb"), by_lines("a\n"), by_lines("")
    (['a\n', 'b'], ['a\n'], [])
    """
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def align_lines(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """Return for each new line the old line that it is; None for one that was added.

    >>> align_lines(["a", "b", "c"], ["a", "x", "c"])
    [0, None, 2]
    """
    kept: list[int | None] = [None] * len(new)
    at = 0
    for turn in [*turns(old, new), Turn(len(old), len(old), len(new), len(new))]:
        for number in range(at, turn.new_start):
            kept[number] = turn.start - (turn.new_start - number)
        at = turn.new_stop
    return kept


def pairings(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield every pair of lines (old, new) that some longest common subsequence contains.

    For texts that are too long to compare, these are all equal lines.

    >>> list(pairings(["a", "x", "a"], ["a"]))
    [(0, 0), (2, 0)]
    """
    if len(old) * len(new) > PAIRED_CELLS_MAX:
        places = {line: number for number, line in enumerate(new)}
        yield from ((at, places[line]) for at, line in enumerate(old) if line in places)
        return
    numbers: dict[str, int] = {}
    ones, others = (np.array([numbers.setdefault(line, len(numbers)) for line in text]) for text in (old, new))
    equal = ones[:, None] == others[None, :]
    before, after = _lengths(equal), _lengths(equal[::-1, ::-1])[::-1, ::-1]
    found = equal & (before[:-1, :-1] + 1 + after[1:, 1:] == before[-1, -1])
    yield from ((int(at), int(number)) for at, number in np.argwhere(found))


def _lengths(equal: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the lengths of the longest common subsequences, for all numbers of first lines of both."""
    lengths = np.zeros((equal.shape[0] + 1, equal.shape[1] + 1), dtype=np.int32)
    for at, row in enumerate(equal):
        np.maximum.accumulate(np.maximum(lengths[at, 1:], lengths[at, :-1] + row), out=lengths[at + 1, 1:])
    return lengths


def turns(old: Sequence[str], new: Sequence[str]) -> list[Turn]:
    """Return the changes that make the old lines the new ones, in order; lines between two changes stay.

    >>> turns(["a", "b", "c"], ["a", "x", "c", "d"])
    [Turn(start=1, stop=2, new_start=1, new_stop=2), Turn(start=3, stop=3, new_start=3, new_stop=4)]
    """
    head, tail = common_ends(old, new)
    olds, news = old[head : len(old) - tail], new[head : len(new) - tail]
    if not olds and not news:
        return []
    if not olds or not news or len(olds) * len(news) > CELLS_MAX:
        return [Turn(head, head + len(olds), head, head + len(news))]
    return _between(olds, news, head)


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are the same at the beginning, and how many of the others at the end.

    >>> common_ends(["a", "a"], ["a", "a", "a"])
    (2, 0)
    """
    head = _common(old, new)
    return head, min(_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _between(old: Sequence[str], new: Sequence[str], head: int) -> list[Turn]:
    """Return the changes by the longest common subsequence; adjacent ones are one change."""
    numbers: dict[str, int] = {}
    ones, others = ([numbers.setdefault(line, len(numbers)) for line in text] for text in (old, new))
    found: list[Turn] = []
    for step in LCSseq.opcodes(ones, others):
        if step.tag == "equal":
            continue
        turn = Turn(step.src_start + head, step.src_end + head, step.dest_start + head, step.dest_end + head)
        if found and found[-1].stop == turn.start and found[-1].new_stop == turn.new_start:
            before = found.pop()
            turn = Turn(before.start, turn.stop, before.new_start, turn.new_stop)
        found.append(turn)
    return found
