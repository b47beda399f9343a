"""The interface of an index store: what every backend stores for the index.

A writer commits whole files at a time; a reader gets a `Snapshot` and may use it as long as it likes. Reading and
ranking are the same for every backend. `Vectors` is the interface for embeddings made by a model.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from context_engine.embedding import VectorRows, VectorSpace
from context_engine.index.snapshot import Snapshot


class FileState(NamedTuple):
    """The size, time and hash of a file when it was indexed."""

    size: int
    mtime_ns: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Counts and sizes of the published index; `dead_files` are removed by the next merge."""

    files: int
    chunks: int
    dead_files: int
    segments: int
    disk_bytes: int
    generation: str
    epoch: int


def count_stats(snapshot: Snapshot | None, taken: int) -> IndexStats:
    """Return the counts of what is published, and the bytes it takes on this machine."""
    if snapshot is None:
        return IndexStats(files=0, chunks=0, dead_files=0, segments=0, disk_bytes=taken, generation="", epoch=0)
    return IndexStats(
        files=snapshot.living_files,
        chunks=snapshot.living_chunks,
        dead_files=snapshot.files - snapshot.living_files,
        segments=len(snapshot.segments),
        disk_bytes=taken,
        generation=snapshot.generation,
        epoch=snapshot.epoch,
    )


class IndexStore(Protocol):
    """The index of one work tree."""

    @property
    def problem(self) -> str:
        """Why its newest state may be missing here; empty when it is not."""

    def snapshot(self) -> Snapshot | None:
        """Return the newest published state; None when there is none."""

    def files(self) -> dict[str, FileState]:
        """Return what is indexed, by path: the base of every incremental run."""

    def metadata(self, name: str) -> Any:
        """Return a value that was committed with the index."""

    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> AbstractContextManager[Any]:
        """Return the right to write. Raises: StorageBusy while another process has it."""

    def stats(self) -> IndexStats:
        """Return counts and sizes."""

    def check(self) -> list[str]:
        """Return the problems of the index, in words; empty when it is intact."""

    def clear(self) -> int:
        """Delete the index; return the bytes freed."""

    def close(self) -> None:
        """Close its files."""


class Vectors(Protocol):
    """The vectors of one collection, found by the hash of the text each was made from.

    A stored vector is the same for every reader until it is dropped, which may happen at any time: this is a cache.
    Vectors of another size, and those that are not finite, are refused with InvalidVectors.
    """

    @property
    def space(self) -> VectorSpace:
        """What its vectors have in common."""
        ...

    def missing(self, keys: npt.NDArray[np.bytes_]) -> npt.NDArray[np.bool_]:
        """Return which keys have no vector yet."""

    def get(self, keys: npt.NDArray[np.bytes_]) -> tuple[VectorRows, npt.NDArray[np.bool_]]:
        """Return a row for each key, and which keys were found; the rows of the others are zeros."""

    def put(self, keys: npt.NDArray[np.bytes_], rows: npt.NDArray[np.floating[Any]]) -> int:
        """Store a vector for each key, all of one call or none; return how many were new. An existing vector stays."""

    def compact(self) -> int:
        """Free unused space without disturbing readers; return the bytes freed."""

    def check(self) -> list[str]:
        """Return the problems, in words; empty when it is intact."""

    def close(self) -> None:
        """Close files or connections."""
