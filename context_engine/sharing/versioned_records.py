"""Versioned records: folders of ours below `.context-engine/`, each with the versions of one thing and the log of what happened to it.

    <home>/<name>/index.json              derived from the records; whoever finds that it disagrees makes it anew
    <home>/<name>/<dossier>/v0001.json    immutable versions, see `versions`
    <home>/<name>/<dossier>/events.jsonl  the log, see `events`
    <home>/<name>/.trash/                 what was deleted and may be moved back
    <home>/locks/                         one writer at a time a dossier, among all processes of this machine

Where a team has them in common (`common_folder`), every look and every write sees to it; the index is each machine's
own. This module knows nothing of what stands in a version or an event.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.errors import DiskFull, StorageCorrupt, WriteFailed
from context_engine.storage import (
    ABANDONED_AFTER_S,
    UNSETTLED_NS,
    EventLog,
    NumberedVersions,
    PathLocks,
    PublishFiles,
    StateFolder,
    trash,
)

if TYPE_CHECKING:  # for those who have a team
    from context_engine.sharing.merge_rules import MergePolicy
    from context_engine.sharing.shared_records import SharedRecords
    from context_engine.sharing.synced_folder import SyncedFolder

INDEX_BYTES_MAX = 64_000_000
LOG = "events.jsonl"

Stamp = tuple[int, ...]
"""What changes when a dossier does: times, sizes and inodes of its folder, its newest version and its log."""


class VersionedRecords:
    """All records of one kind. Thread-safe; any number of processes may hold one on the same folder.

    `flush=False` gives up on surviving a power cut, for what can be had again; `shared_records`: the team's, None on a
    laptop.
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

    def list_names(self) -> list[str]:
        """Every dossier, sorted."""
        self._look()
        return sorted(self._files.folders())

    def versions(self, name: str) -> NumberedVersions:
        """The versions of a dossier, whether there is one or not."""
        self._look()
        return NumberedVersions(self._files.folder(name), flush=self._flush, share=self._share)

    def log(self, name: str) -> EventLog:
        """The log of a dossier, whether there is one or not."""
        self._look()
        return EventLog(self._files.folder(name), LOG, flush=self._flush, share=self._share)

    def stamp(self, name: str, newest: str) -> Stamp:
        """The stamp of a dossier whose newest version lies in the file `newest`; empty while a change might not show in it.

        Where one of them is not there it is empty, too: whoever reads the dossier says what that means.
        """
        if not (facts := self._files.statuses(name, (newest, LOG))):
            return ()
        made, version, log = facts
        if time.time_ns() - max(made.st_mtime_ns, version.st_mtime_ns, log.st_mtime_ns) < UNSETTLED_NS:
            return ()
        files = (version.st_ino, version.st_size, version.st_mtime_ns, log.st_ino, log.st_size, log.st_mtime_ns)
        return made.st_mtime_ns, *files

    def display_path(self, path: str) -> str:
        """A path below the folder as replies name it: from the top of the workspace."""
        return f"{self.folder.parent.name}/{self.folder.name}/{path}"

    def read_index(self) -> bytes:
        """What stands in the index; nothing when there is none, or it cannot be read."""
        data = self._files.read("index.json", bytes_max=INDEX_BYTES_MAX)
        return data if isinstance(data, bytes) else b""

    @property
    def problem(self) -> str:
        """Why what the team has may not be seen, or differs from what lies here; empty when all is well, and on a laptop."""
        return self._synced.problem if self._synced else ""

    def _look(self) -> None:
        if self._synced:
            self._synced.sync()

    @property
    def _share(self) -> PublishFiles | None:
        return self._synced.publish if self._synced else None

    # -- writing --

    @contextmanager
    def writing(self, *names: str) -> Generator[None]:
        """Be the only writer of some records until the block ends; what killed writers left half done there is cleared away.

        Raises: StorageBusy, WriteFailed, DiskFull; StoreUnavailable, StoreUnusable where a team has them in common.
        """
        alone = self._synced.acquire_lease() if self._synced else nullcontext()
        with alone, self._locks.hold([f"{self.folder.name}/{name}" for name in names]):
            for name in names:
                self._files.sweep(name)
            yield

    def put_index(self, data: bytes) -> None:
        """Keep what is derived; where that is not possible it is derived again."""
        with suppress(WriteFailed, DiskFull, StorageCorrupt):
            self._files.replace("index.json", data, flush=False)
            self._files.sweep(min_age_s=ABANDONED_AFTER_S)

    def put_mirror(self, name: str, file: str, data: bytes) -> None:
        """Keep a rendering of a dossier in it, for people. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        if self._share:
            self._share({self.folder / name / file: data})
        self._files.replace(f"{name}/{file}", data, flush=False)

    def move_to_trash(self, name: str, stamp: str, *, purge: bool = False) -> str:
        """Move a dossier into the trash, and out of it for good with `purge`; where it lies then, as replies name it.

        Raises: WriteFailed, DiskFull, StorageCorrupt.
        """
        trashed = trash.move_to_trash(self._files, name, stamp, self._share)
        if purge:
            trash.purge(self._files, trashed, self._share)
        return "" if purge else self.display_path(trashed)


def merge_policy(path: str) -> MergePolicy | None:
    """How a file changes: a log grows, a version never changes, a rendering is made of both.

    None for what is none of these.

    >>> [merge_policy(path) for path in ("p/events.jsonl", "p/v0001.json.gz", "p/PLAN.md", "p/notes.txt")]
    ['grows', 'fixed', 'derived', None]
    """
    if path.startswith(f"{trash.TRASH_FOLDER}/"):
        return "fixed"
    if path.endswith(f"/{LOG}"):
        return "grows"
    return "fixed" if path.endswith((".json", ".json.gz")) else "derived" if path.endswith(".md") else None
