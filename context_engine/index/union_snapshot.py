"""Several snapshots seen as one: the segments of all repositories side by side, so that all files are ranked together.

Document frequencies, mean lengths and the best value of each signal are those of all repositories. A score therefore
means the same in each of them; nothing has to be made comparable afterwards (docs/decisions/0040). Nothing is copied
but columns; postings and vectors stay mapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from context_engine.index.snapshot import Snapshot

REPOSITORY_SEPARATOR = ":"
"""Between the name of a repository and the path in it: `web:src/app.py`."""


class UnionSnapshot(Snapshot):
    """The snapshots of some repositories, by name, in this order.

    `paths` are those in each repository; `key` is unique.
    """

    def __init__(self, parts: Mapping[str, Snapshot]) -> None:
        snapshots = list(parts.values())
        super().__init__(
            [segment for snapshot in snapshots for segment in snapshot.segments],
            [gone for snapshot in snapshots for gone in _dead(snapshot)],
            [snapshot.importance for snapshot in snapshots],
            generation="+".join(snapshot.generation for snapshot in snapshots),
            epoch=sum(snapshot.epoch for snapshot in snapshots),
            numbers=range(sum(len(snapshot.segments) for snapshot in snapshots)),
            touched=[looks for snapshot in snapshots for looks in snapshot.touched],
        )
        self.parts = dict(parts)
        self._names = list(parts)
        self._starts = np.cumsum([0, *(snapshot.files for snapshot in snapshots)])

    def key(self, file: int) -> str:
        """Return the name of a file as `web:src/app.py`."""
        name = self._names[int(np.searchsorted(self._starts, file, "right")) - 1]
        return f"{name}{REPOSITORY_SEPARATOR}{self.paths[file]}"

    @cached_property
    def by_path(self) -> dict[str, int]:
        """Living file numbers by key."""
        return {self.key(number): number for number in np.flatnonzero(self.file_alive).tolist()}


def _dead(snapshot: Snapshot) -> Iterator[Sequence[int]]:
    """Yield the dead file numbers of each segment."""
    for segment, base in zip(snapshot.segments, snapshot.file_base.tolist(), strict=False):
        yield np.flatnonzero(~snapshot.file_alive[base : base + segment.files]).tolist()
