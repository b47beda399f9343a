"""PURE. Cut a change into units: files that belong together, few enough to be reviewed in one go.

Ties - one file imports the other, or both usually change together - pull files into a unit, the strongest first. The
remaining files are grouped with their neighbors in the tree.

>>> files = [UnitFile("a/x.py", 10), UnitFile("a/y.py", 10), UnitFile("b/x.py", 10), UnitFile("b/y.py", 2_000)]
>>> [[file.path for file in unit] for unit in cut_into_units(files, [FileTie("a/x.py", "b/x.py", 1.0)])]
[['a/x.py', 'a/y.py', 'b/x.py'], ['b/y.py']]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

FILES_MAX = 10
"""These are reviewed in a few seconds: as much as a pause or a crash may cost."""
LINES_MAX = 1_500
"""Changed lines; a file that has more is a unit alone."""
FILE_COST = 20
"""To read and parse a file costs about as much as the checks of 20 changed lines."""


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
    """Return the expected cost of a unit, in changed lines."""
    return sum(file.lines + FILE_COST for file in unit)


def cut_into_units(files: Iterable[UnitFile], ties: Iterable[FileTie] = ()) -> tuple[Unit, ...]:
    """Put every file into exactly one unit, each within its limits, the same for any order of the files."""
    strongest_first = sorted(ties, key=lambda tie: (-tie.weight, tie.one, tie.other))
    units: list[Unit] = []
    for cluster in sorted(_cluster(sorted(files), strongest_first)):
        if units and _fits(units[-1], cluster):
            units[-1] = tuple(sorted(units[-1] + cluster))
        else:
            units.append(cluster)
    return tuple(sorted(units))


def _cluster(files: Sequence[UnitFile], ties: Iterable[FileTie]) -> list[Unit]:
    """Join files along their ties, as long as the clusters stay within the limits."""
    cluster_of: dict[str, Unit] = {file.path: (file,) for file in files}
    for one, other, _ in ties:
        left, right = cluster_of.get(one), cluster_of.get(other)
        if left is None or right is None or left is right or not _fits(left, right):
            continue
        joined = tuple(sorted(left + right))
        for file in joined:
            cluster_of[file.path] = joined
    return [cluster for path, cluster in cluster_of.items() if cluster[0].path == path]


def _fits(one: Unit, other: Unit) -> bool:
    lines = sum(file.lines for file in one + other)
    return len(one) + len(other) <= FILES_MAX and lines <= LINES_MAX
