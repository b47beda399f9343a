"""PURE. Two lists of lines side by side: which of the new ones are old ones that stayed.

What is the same at the beginning and at the end stays first of all; between them the longest common subsequence does.

>>> align_lines(["a", "b", "c"], ["a", "x", "c"])
[0, None, 2]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

CELLS_MAX = 4_000_000
"""2,000 changed lines against 2,000: a tenth of a second. Beyond it only the equal beginning and end are kept."""


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
    """Return for each new line the old line that it is; None for one that was added."""
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
    numbers: dict[str, int] = {}
    ones, others = (np.array([numbers.setdefault(line, len(numbers)) for line in text]) for text in (old, new))
    if len(old) * len(new) <= CELLS_MAX:
        equal = ones[:, None] == others[None, :]
    else:
        equal = None
    if equal is None:
        places = {line: number for number, line in enumerate(new)}
        yield from ((at, places[line]) for at, line in enumerate(old) if line in places)
        return
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
    head = common(old, new)
    tail = min(common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    olds, news = old[head : len(old) - tail], new[head : len(new) - tail]
    if not olds and not news:
        return []
    if not olds or not news or len(olds) * len(news) > CELLS_MAX:
        return [Turn(head, head + len(olds), head, head + len(news))]
    return _between(olds, news, head)


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines are the same from the beginning."""
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
