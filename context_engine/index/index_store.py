"""The store promise: what every backend keeps for the index, whatever it is made of.

A writer commits whole files at a time; a reader gets a `Snapshot` and keeps it as long as it likes. What is read and
ranked is the same for every backend, because ranking is not the store's business. `Vectors` is the promise beside it, for
what was embedded.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from context_engine.embedding.vector_rows import Rows, Space
from context_engine.index.snapshot import Snapshot


class FileState(NamedTuple):
    """How a file looked when it was indexed."""

    size: int
    mtime_ns: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Counts and sizes of what is published; `dead_files` wait for the next merge."""

    files: int
    chunks: int
    dead_files: int
    segments: int
    disk_bytes: int
    generation: str
    epoch: int


def count_stats(snapshot: Snapshot | None, taken: int) -> IndexStats:
    """The counts of what is published, and the bytes that it takes on this machine."""
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
    """One work tree's index."""

    def snapshot(self) -> Snapshot | None:
        """The newest published state; None when there is none."""

    def files(self) -> dict[str, FileState]:
        """What is indexed, by path: the base of every incremental run."""

    def metadata(self, name: str) -> Any:
        """A fact committed with the index."""

    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> AbstractContextManager[Any]:
        """The right to write; raises StorageBusy while another process has it."""

    def stats(self) -> IndexStats:
        """Counts and sizes."""

    def check(self) -> list[str]:
        """What is wrong, in words; empty when sound."""

    def clear(self) -> int:
        """Delete the index; bytes freed."""

    def close(self) -> None:
        """Let go of files."""


class Vectors(Protocol):
    """The vectors of one space, found by the hash of the text each was made from.

    A vector that was put is the same for every reader until it is dropped, which may happen at any time: this is a
    cache. Vectors of another size, and such that are not finite, are refused with InvalidVectors.
    """

    @property
    def space(self) -> Space:
        """What its vectors have in common."""
        ...

    def missing(self, keys: npt.NDArray[np.bytes_]) -> npt.NDArray[np.bool_]:
        """Which keys have no vector yet."""

    def get(self, keys: npt.NDArray[np.bytes_]) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """A row for each key, and which were found; the others are zeros."""

    def put(self, keys: npt.NDArray[np.bytes_], rows: npt.NDArray[np.floating[Any]]) -> int:
        """Keep a vector for each key, all of one call or none; how many were new. The first one put under a key stays."""

    def compact(self) -> int:
        """Tidy up without a reader noticing; bytes freed."""

    def check(self) -> list[str]:
        """What is wrong, in words; empty when sound."""

    def close(self) -> None:
        """Let go of files or connections."""
