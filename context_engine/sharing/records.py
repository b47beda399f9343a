"""Records: small text files of ours in the folder `.context-engine/`, which people may edit and git carries.

    <home>/<name>/<folder>/<file>.md        one record; nothing deeper, no links, nothing hidden
    <home>/locks/                           one writer at a time among all processes of this machine

Where a team has them in common (`common_folder`), every look and every write sees to it. A record appears whole or not
at all, and one that somebody else has just made is never written over. This module knows nothing of what stands in a
record.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.storage import ABANDONED_AFTER_S, FileStamp, PathLocks, StateFolder

if TYPE_CHECKING:  # for those who have a team
    from context_engine.sharing.merge_rules import MergePolicy
    from context_engine.sharing.shared_records import SharedRecords
    from context_engine.sharing.synced_folder import SyncedFolder

SUFFIX = ".md"
BYTES_MAX = 262_144
"""Fifty times what may be written through us; a person's file beyond it is a document, not a record."""


class RecordFolder:
    """The records of one kind, below `<home>/<name>`.

    Thread-safe; any number of processes may hold one on the same folder.

    `flush=False` gives up on surviving a power cut, for records that can be had again; `shared_records`: the team's,
    None on a laptop.
    """

    def __init__(
        self, home: Path, name: str, *, flush: bool = True, shared_records: SharedRecords | None = None
    ) -> None:
        """Nothing is created until something is written."""
        self.folder = home / name
        self._files = StateFolder(home).folder(name)
        self._flush = flush
        self._locks = PathLocks(home / "locks")
        self._synced: SyncedFolder | None = (
            shared_records.open_folder(self.folder, merge_policy, flush=flush) if shared_records else None
        )

    # -- reading --

    def listing(self) -> dict[str, FileStamp]:
        """Every record, by its path below the folder (`decisions/use-tabs--0c07398f.md`)."""
        self._look()
        found: dict[str, FileStamp] = {}
        for folder in self._files.folders():
            for name, facts in self._files.files(folder).items():
                if name.endswith(SUFFIX) and name[0] != ".":
                    found[f"{folder}/{name}"] = facts.st_ino, facts.st_size, facts.st_mtime_ns
        return found

    def folders(self) -> tuple[int, ...]:
        """What changes when a record is made, deleted or replaced, though not when it is written over in place: mtimes in ns."""
        self._look()
        return tuple(facts.st_mtime_ns for facts in self._files.statuses("", self._files.folders()))

    def read(self, name: str) -> bytes | str | None:
        """The content of a record, why it cannot be read, or None when it is not there any more."""
        return self._files.read(name, bytes_max=BYTES_MAX)

    @property
    def problem(self) -> str:
        """Why what the team has may not be seen, or differs from what lies here; empty when all is well, and on a laptop."""
        return self._synced.problem if self._synced else ""

    def _look(self) -> None:
        if self._synced:
            self._synced.sync()

    # -- writing --

    @contextmanager
    def writing(self) -> Generator[None]:
        """Be the only writer until the block ends.

        What killed writers left half done is cleared away. Raises: StorageBusy, WriteFailed, DiskFull, StorageCorrupt;
        StoreUnavailable, StoreUnusable where a team has them in common.
        """
        with self._synced.acquire_lease() if self._synced else nullcontext(), self._locks.hold([self.folder.name]):
            for folder in self._files.folders():
                self._files.sweep(folder, min_age_s=ABANDONED_AFTER_S)  # an edit of a record may be under way
            yield

    def create(self, name: str, data: bytes) -> bool:
        """Write a new record; False when there is one of that name. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        if self._synced and self._files.exists(name):
            return False
        self._share(name, data)
        return self._files.create(name, data, flush=self._flush)

    def replace(self, name: str, data: bytes) -> None:
        """Write a record anew. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        self._share(name, data)
        self._files.replace(name, data, flush=self._flush)

    def remove(self, name: str) -> None:
        """Delete a record, and its folder when that was the last one. Raises: WriteFailed, StorageCorrupt."""
        self._share(name, None)
        self._files.remove(name)
        self._files.remove_empty(name.rpartition("/")[0])

    def _share(self, name: str, data: bytes | None) -> None:
        """What a team has in common is theirs before it is ours."""
        if self._synced:
            self._synced.publish({self.folder / name: data})


def merge_policy(path: str) -> MergePolicy | None:
    """How a file changes: whoever comes along edits a record. None for what is none.

    >>> merge_policy("decisions/use-tabs.md"), merge_policy("decisions/sketch.png")
    ('edited', None)
    """
    return "edited" if path.endswith(SUFFIX) else None
