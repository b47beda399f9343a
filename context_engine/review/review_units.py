"""PURE. How a change is cut into units: files that belong together, few enough to be reviewed in one go.

Ties - one file imports the other, both are usually changed together - pull files into a unit, the strongest first. What
is left alone goes with its neighbours in the tree.

>>> parts = [UnitFile("a/x.py", 10), UnitFile("a/y.py", 10), UnitFile("b/x.py", 10), UnitFile("b/y.py", 2_000)]
>>> [[part.path for part in unit] for unit in cut_into_units(parts, [FileTie("a/x.py", "b/x.py", 1.0)])]
[['a/x.py', 'a/y.py', 'b/x.py'], ['b/y.py']]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

FILES_MAX = 10
"""So many files are looked at in a few seconds: as much as a pause or a crash may cost."""
LINES_MAX = 1_500
"""Changed lines; a file that has more is a unit alone."""
FILE_COST = 20
"""Reading and parsing a file costs about what its checks take for so many changed lines."""


class UnitFile(NamedTuple):
    """One file of a change, and how many of its lines changed."""

    path: str
    lines: int


class FileTie(NamedTuple):
    """Two files that belong together, and how much."""

    one: str
    other: str
    weight: float


Unit = tuple[UnitFile, ...]


def estimate_cost(unit: Iterable[UnitFile]) -> int:
    """What a unit is about to take, in changed lines."""
    return sum(part.lines + FILE_COST for part in unit)


def cut_into_units(parts: Iterable[UnitFile], ties: Iterable[FileTie] = ()) -> tuple[Unit, ...]:
    """Every part in exactly one unit, each unit within its limits; the same for the same change, whatever its order."""
    ordered = sorted(parts)
    tied = _tied(ordered, sorted(ties, key=lambda tie: (-tie.weight, tie.one, tie.other)))
    return tuple(sorted(_packed(tied)))


def _tied(parts: Sequence[UnitFile], ties: Iterable[FileTie]) -> list[Unit]:
    """Clusters along the ties, as long as they stay within the limits."""
    cluster_of: dict[str, Unit] = {part.path: (part,) for part in parts}
    for one, other, _ in ties:
        left, right = cluster_of.get(one), cluster_of.get(other)
        if left is None or right is None or left is right or not _fits(left, right):
            continue
        together = tuple(sorted(left + right))
        for part in together:
            cluster_of[part.path] = together
    return [cluster for path, cluster in cluster_of.items() if cluster[0].path == path]


def _packed(clusters: Iterable[Unit]) -> list[Unit]:
    """Clusters that lie side by side in the tree go together while there is room."""
    packed: list[Unit] = []
    for cluster in sorted(clusters):
        if packed and _fits(packed[-1], cluster):
            packed[-1] = tuple(sorted(packed[-1] + cluster))
        else:
            packed.append(cluster)
    return packed


def _fits(one: Unit, other: Unit) -> bool:
    both = one + other
    return len(both) <= FILES_MAX and sum(part.lines for part in both) <= LINES_MAX
