"""PURE. The order in which missing vectors are made: files in use first, then those that much depends on.

What lacks a vector, and in which order it gets one: files that are being worked on first, then what much leans on.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from context_engine.index import ROLES, Role, Snapshot

Ints = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

EARLY: tuple[Role, ...] = ("source", "init", "declaration", "compat")
"""Roles that come first. Tests, documents and generated files are asked for less often, and wait."""


class EmbeddingProgress(NamedTuple):
    """How many files have the vector of their summary, how many chunks theirs, and the totals."""

    cards: int
    cards_total: int
    chunks: int
    chunks_total: int

    @property
    def cards_complete(self) -> bool:
        """Whether every file has one."""
        return self.cards == self.cards_total

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return self.cards_complete and self.chunks == self.chunks_total


class EmbeddingQueue:
    """A queue of things without a vector, summaries or chunks.

    File f has the things `starts[f]:starts[f + 1]`; `missing` marks those without a vector, `files` is the order of
    files.
    """

    def __init__(self, missing: Mask, starts: Ints, files: Ints) -> None:
        self._waiting = missing.copy()
        self._starts = starts
        place = np.full(len(starts) - 1, len(files), np.intp)
        place[files] = np.arange(len(files))
        left = np.flatnonzero(missing)
        self._line = left[np.argsort(np.repeat(place, np.diff(starts))[left], kind="stable")]
        self._next = 0

    def take(self, hot: Iterable[int], count: int) -> Ints:
        """Return the next `count` things, each only once; those of `hot` files before all others."""
        taken: list[int] = []
        for thing in chain(self._of(hot), self._in_line()):
            if self._waiting[thing]:
                self._waiting[thing] = False
                taken.append(thing)
            if len(taken) == count:
                break
        return np.array(taken, np.intp)

    def _of(self, files: Iterable[int]) -> Iterable[int]:
        return chain.from_iterable(range(self._starts[file], self._starts[file + 1]) for file in files)

    def _in_line(self) -> Iterable[int]:
        while self._next < len(self._line):
            self._next += 1
            yield int(self._line[self._next - 1])


def order_files(snapshot: Snapshot) -> Ints:
    """Return the files that count: source before all else, and the more important ones first."""
    files = np.flatnonzero(snapshot.file_alive)
    early = [ROLES.index(role) for role in EARLY]
    late = ~np.isin(snapshot.file_column("role")[files], early)
    return files[np.lexsort((files, -snapshot.importance[files], late))]
