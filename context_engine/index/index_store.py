"""The interface of an index store: what every backend stores for the index.

A writer commits whole files at a time; a reader gets a `Snapshot` and may use it as long as it likes. Reading and
ranking are the same for every store.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from context_engine.index.snapshot import Snapshot

SkippedFile = tuple[str, str, str, int, int]
"""(path, reason, detail, size, mtime_ns) of a file that was skipped for its content."""


class FileState(NamedTuple):
    """The size, time and hash of a file when it was indexed."""

    size: int
    mtime_ns: int
    sha256: bytes


class IndexWriter(ABC):
    """The right of one process to change an index. Every method that returns has committed."""

    is_published: bool

    @property
    @abstractmethod
    def is_unfinished(self) -> bool:
        """Whether files were committed that nothing has been computed over yet, or nothing is published."""

    @abstractmethod
    def files(self) -> dict[str, FileState]:
        """Return what is indexed, by path."""

    @abstractmethod
    def states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """Return what is indexed of these files and, where they are folders, of everything below them."""

    @abstractmethod
    def skipped_files(self) -> list[SkippedFile]:
        """Return the files that were skipped for their content."""

    @abstractmethod
    def skipped_states(self, paths: Sequence[str] = ("",)) -> dict[str, tuple[int, int]]:
        """Return (size, mtime_ns) of the skipped files below `paths`."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return what has been committed by now, published or not."""

    @abstractmethod
    def new_segment(self) -> tuple[int, Path]:
        """Return an unused number and file, for a segment that is then given to `put`."""

    @abstractmethod
    def put(
        self,
        written: Sequence[int],
        *,
        removed: Iterable[str] = (),
        skipped: Iterable[SkippedFile] = (),
        touched: Iterable[tuple[str, int, int]] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Commit segments and what else changed; the text of `touched` files, (path, size, mtime_ns), did not."""

    @abstractmethod
    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Set values next to the index."""

    @abstractmethod
    def set_importance(self, values: np.ndarray) -> None:
        """Set the importance of every file of `snapshot()`, in its numbering."""

    @abstractmethod
    def compact(self, *, everything: bool = False, segments_max: int = 8) -> int:
        """Merge segments that are too many or mostly dead; return how many files were merged."""

    @abstractmethod
    def publish(self) -> None:
        """Put this generation in use."""


class IndexStore(ABC):
    """The index of one work tree. Thread-safe. A team's store is in `context_engine.team`."""

    folder: Path
    problem = ""
    """Why its newest state may be missing here; empty when it is not."""

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """Return the newest published state, the same object as long as nothing was committed; None: there is none."""

    @abstractmethod
    def files(self) -> dict[str, FileState]:
        """Return what is indexed, by path: the base of every incremental run."""

    @abstractmethod
    def skipped_files(self) -> list[SkippedFile]:
        """Return the files that were skipped for their content, sorted."""

    def skipped_states(self) -> dict[str, tuple[int, int]]:
        """Return (size, mtime_ns) of files that were skipped for their content, by path."""
        return {path: (size, mtime_ns) for path, _, _, size, mtime_ns in self.skipped_files()}

    @abstractmethod
    def metadata(self, name: str) -> Any:
        """Return a value that was committed with the index; None when unknown."""

    @abstractmethod
    def generation(self) -> str:
        """Return the name of the generation in use; empty when there is none."""

    def disk_bytes(self) -> int:
        """Return the bytes of all its files on this machine, while others create and delete some."""
        total = 0
        for at, _, names in os.walk(self.folder):
            for name in names:
                with suppress(OSError):
                    total += os.stat(os.path.join(at, name)).st_size
        return total

    def start_from_team(self, identity: str) -> bool:  # noqa: ARG002 - a team's store has an index to start from
        """Start a missing index with that of a team, if its static vectors have this `identity`; return whether."""
        return False

    @abstractmethod
    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> AbstractContextManager[IndexWriter]:
        """Return the right to write. Raises: StorageBusy while another process has it."""

    @abstractmethod
    def check(self) -> list[str]:
        """Read every byte on this machine and return the problems, in words; empty when the index is intact."""

    @abstractmethod
    def clear(self) -> int:
        """Delete the index; return the bytes freed."""

    @abstractmethod
    def close(self) -> None:
        """Close its files; it can be used again afterwards."""
