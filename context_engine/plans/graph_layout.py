"""PURE. Where boxes of a graph go: generation by generation, few crossings, and lines that pass between the boxes.

A line that leaves out a generation gets a narrow place of its own in it; so it is never drawn through a box. Coordinates are
`across` a generation and `along` the way from the first generation to the last; whoever draws decides which of them is x.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

SWEEPS = 6
"""Back and forth so often: beyond it hardly a crossing goes away."""
LINE = 14.0
"""What a line takes beside the boxes that it passes."""

Node = str
Pass = tuple[str, str, int]
"""A line from one box to another, where it passes a generation."""


class Point(NamedTuple):
    """A place in the picture."""

    across: float
    along: float


class Placed(NamedTuple):
    """The middle of each box, the points that each line goes through between its two boxes, and how large it all is."""

    boxes: Mapping[Node, Point]
    lines: Mapping[tuple[Node, Node], tuple[Point, ...]]
    across: float
    along: float


class Sizes(NamedTuple):
    """Of a box, and of the gaps between boxes and between generations."""

    across: float
    along: float
    gap: float
    between: float


def placed(levels: Sequence[Sequence[Node]], edges: Iterable[tuple[Node, Node]], sizes: Sizes) -> Placed:
    """The places of all boxes. An edge that does not lead to a later generation is left out."""
    level = {node: number for number, nodes in enumerate(levels) for node in nodes}
    kept = [(one, other) for one, other in dict.fromkeys(edges) if level[one] < level[other]]
    rows, before, after = _rows(levels, kept, level)
    _untangle(rows, before, after)
    across = _spread(rows, before, after, sizes)
    along = {number: (sizes.along + sizes.between) * number + sizes.along / 2 for number in range(len(rows))}
    boxes = {node: Point(across[node], along[number]) for node, number in level.items()}
    lines = {
        edge: tuple(
            Point(across[(*edge, number)], along[number]) for number in range(level[edge[0]] + 1, level[edge[1]])
        )
        for edge in kept
    }
    width = max((across[each] + _size(each, sizes) / 2 for row in rows for each in row), default=0.0)
    return Placed(boxes, lines, width, max(0.0, len(rows) * (sizes.along + sizes.between) - sizes.between))


Each = Node | Pass
Rows = list[list[Each]]
Beside = dict[Each, list[Each]]


def _rows(
    levels: Sequence[Sequence[Node]], edges: Sequence[tuple[Node, Node]], level: Mapping[Node, int]
) -> tuple[Rows, Beside, Beside]:
    """Every generation with its boxes and the lines that pass it, and what each is tied to in the one before and after."""
    rows: Rows = [list(nodes) for nodes in levels]
    before: Beside = {node: [] for node in level}
    after: Beside = {node: [] for node in level}
    for one, other in edges:
        path: list[Each] = [one, *((one, other, number) for number in range(level[one] + 1, level[other])), other]
        for number, each in enumerate(path[1:-1], level[one] + 1):
            rows[number].append(each)
            before[each], after[each] = [], []
        for here, there in pairwise(path):
            after[here].append(there)
            before[there].append(here)
    return rows, before, after


def _untangle(rows: Rows, before: Beside, after: Beside) -> None:
    """Put each row in the order of the middles of what its members are tied to, forth and back."""
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        for number in range(1, len(rows)) if forth else range(len(rows) - 2, -1, -1):
            place = {each: at for at, each in enumerate(rows[number - 1 if forth else number + 1])}
            tied = before if forth else after
            here = {each: float(at) for at, each in enumerate(rows[number])}
            middle = {each: _mean([place[other] for other in tied[each]], here[each]) for each in rows[number]}
            rows[number].sort(key=middle.__getitem__)


def _spread(rows: Rows, before: Beside, after: Beside, sizes: Sizes) -> dict[Each, float]:
    """A coordinate for everything: near what it is tied to, in the order of its row, nothing upon anything else."""
    across: dict[Each, float] = {}
    for row in rows:
        across |= _apart(row, dict.fromkeys(row, 0.0), sizes)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wish = {
                each: _mean([across[other] for other in (*before[each], *after[each])], across[each]) for each in row
            }
            across |= _apart(row, wish, sizes)
    first = min((at - _size(each, sizes) / 2 for each, at in across.items()), default=0.0)
    return {each: round(at - first, 1) for each, at in across.items()}


def _apart(row: Sequence[Each], wish: Mapping[Each, float], sizes: Sizes) -> dict[Each, float]:
    """The coordinates nearest to those that are wished for, far enough apart: the mean of pushing right and pushing left."""
    right: list[float] = []
    for number, each in enumerate(row):
        least = right[-1] + _step(row[number - 1], each, sizes) if right else wish[each]
        right.append(max(wish[each], least))
    left: list[float] = []
    for number, each in reversed(list(enumerate(row))):
        most = left[-1] - _step(each, row[number + 1], sizes) if left else wish[each]
        left.append(min(wish[each], most))
    return {each: (one + other) / 2 for each, one, other in zip(row, right, reversed(left), strict=True)}


def _step(one: Each, other: Each, sizes: Sizes) -> float:
    """How far apart the middles of two neighbours are at least."""
    return (_size(one, sizes) + _size(other, sizes)) / 2 + sizes.gap


def _size(each: Each, sizes: Sizes) -> float:
    return sizes.across if isinstance(each, str) else LINE


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
