"""Missing vectors by segment: looked up once for each, because segments never change, and updated when filled."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from context_engine.embedding import Keys, VectorSpace
from context_engine.index import ROLES, Role, Snapshot

Ints = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class VectorLookup(Protocol):
    """A store that can report missing vectors: that of this machine, or the remote store of a team."""

    @property
    def space(self) -> VectorSpace:
        """The space of its vectors."""
        ...

    def missing(self, keys: Keys) -> Mask:
        """Return which keys have no vector there."""
        ...


class VectorKind(NamedTuple):
    """One of the two kinds of things with vectors: cards (summaries of files), and chunks."""

    kind: str

    def keys(self, snapshot: Snapshot) -> Keys:
        """Return the key of each."""
        if self.kind == "card":
            return snapshot.file_column("card_key")
        return snapshot.chunk_column("key")

    def segment_keys(self, snapshot: Snapshot) -> list[Keys]:
        """Return the keys by segment."""
        return [s.file["card_key"] if self.kind == "card" else s.chunk["key"] for s in snapshot.segments]

    def alive(self, snapshot: Snapshot) -> Mask:
        """Return which of them count."""
        if self.kind == "card":
            return snapshot.file_alive
        return snapshot.chunk_alive

    def base(self, snapshot: Snapshot) -> Ints:
        """Return the number of the first one in each segment, and the number of all."""
        if self.kind == "card":
            return snapshot.file_base
        return snapshot.chunk_base

    def starts(self, snapshot: Snapshot) -> Ints:
        """Return the number of the first one of each file, and the number of all."""
        if self.kind == "card":
            return np.arange(snapshot.files + 1)
        return snapshot.chunk_starts


CARDS, CHUNKS = VectorKind("card"), VectorKind("chunk")
KINDS = (CARDS, CHUNKS)


class MissingVectors:
    """The missing vectors of one space. Thread-safe; keeps no snapshot, whose files Windows could then not delete."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._space: VectorSpace | None = None
        self._missing: dict[tuple[VectorKind, str, int], tuple[Keys, Mask]] = {}
        self._counted: tuple[weakref.ref[Snapshot], EmbeddingProgress] | None = None

    def find_missing(self, part: VectorKind, snapshot: Snapshot, vectors: VectorLookup) -> Mask:
        """Return which cards or chunks of a snapshot have no vector; deleted ones do not count."""
        with self._lock:
            return self._of(part, snapshot, vectors)

    def count_progress(self, snapshot: Snapshot, vectors: VectorLookup) -> EmbeddingProgress:
        """Return how many vectors of a snapshot exist."""
        with self._lock:
            if self._space != vectors.space or self._counted is None or self._counted[0]() is not snapshot:
                missing = [int(self._of(part, snapshot, vectors).sum()) for part in KINDS]
                total = [int(part.alive(snapshot).sum()) for part in KINDS]
                self._counted = (
                    weakref.ref(snapshot),
                    EmbeddingProgress(total[0] - missing[0], total[0], total[1] - missing[1], total[1]),
                )
            return self._counted[1]

    def update(self, part: VectorKind, snapshot: Snapshot, vectors: VectorLookup, numbers: Ints) -> None:
        """Look again at these: most have been filled."""
        with self._lock:
            base = part.base(snapshot)
            owners = np.searchsorted(base, numbers, "right") - 1
            for segment in np.unique(owners).tolist():
                keys, missing = self._segment(part, snapshot, vectors, segment)
                own = numbers[owners == segment] - base[segment]
                missing[own] = vectors.missing(keys[own])
            self._counted = None

    def refresh(self, vectors: VectorLookup, *, at_all: bool) -> None:
        """Look again at what was missing, because other processes fill, too; with `at_all` at everything.

        Only the thread that strikes off may call it: it holds no lock, for looking takes as long as an answer may.
        """
        with self._lock:
            known = []
            if self._space == vectors.space:
                known = list(self._missing.values())
        for keys, missing in known:
            places = np.flatnonzero(missing | at_all)
            if len(places):
                missing[places] = vectors.missing(keys[places])
        with self._lock:
            self._counted = None

    def _of(self, part: VectorKind, snapshot: Snapshot, vectors: VectorLookup) -> Mask:
        if self._space != vectors.space:
            self._space, self._counted = vectors.space, None
            self._missing.clear()
        parts = [self._segment(part, snapshot, vectors, n)[1] for n in range(len(snapshot.segments))]
        return np.concatenate([np.zeros(0, bool), *parts]) & part.alive(snapshot)

    def _segment(self, part: VectorKind, snapshot: Snapshot, vectors: VectorLookup, number: int) -> tuple[Keys, Mask]:
        """Return a segment's keys and which are missing. After a rebuild another segment may have the same name."""
        name = part, snapshot.generation, snapshot.segment_numbers[number]
        keys = part.segment_keys(snapshot)[number]
        if name not in self._missing or not np.array_equal(self._missing[name][0], keys):
            living = [(kind, snapshot.generation, known) for kind in KINDS for known in snapshot.segment_numbers]
            self._missing = {key: self._missing[key] for key in living if key in self._missing}
            self._missing[name] = keys.copy(), vectors.missing(keys)
        return self._missing[name]


# -- embedding queue --------------------------------------------------------------------------------------------------


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
