"""Records in the folder `.context-engine/`: files of ours that people may read, and that git can carry.

    <home>/<name>/<folder>/<file>.md        `RecordFolder`: one small text each, which people may edit
    <home>/<name>/<record>/v0001.json       `VersionedRecords`: immutable versions, next to the log events.jsonl
    <home>/<name>/index.json                derived from the records, and made again when it disagrees with them

Where a team shares them, every read and write synchronizes them first. A file appears as a whole or not at all.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import ClassVar, Literal

from context_engine.errors import DiskFull, StorageCorrupt, WriteFailed
from context_engine.storage.event_log import EventLog
from context_engine.storage.locks import PathLocks
from context_engine.storage.state_folder import UNSETTLED_NS, FileStamp, PublishFiles, StateFolder

SUFFIX = ".md"
BYTES_MAX = 262_144
"""Fifty times what may be written through us; a larger file of a person is a document, not a record."""
INDEX_BYTES_MAX = 64_000_000
LOG = "events.jsonl"
VERSION_BYTES_MAX = 16_000_000
"""Several times what callers may save."""
TRASH_FOLDER = ".trash"
"""A record is moved there by one rename, as a whole or not at all, or deleted for good."""
TRASH_BYTES_MAX = 256_000_000
"""The size of the longest log."""
_VERSION_NAME = re.compile(r"v(\d{4}|[1-9]\d{4,8})\.json")

MergePolicy = Literal["edited", "grows", "fixed", "derived"]
"""How a record changes: anyone may edit it, lines are appended, it never changes, or it is made from other records."""
MergePolicyOf = Callable[[str], MergePolicy | None]
"""Returns how the record at a path changes; None for a file that is not a record."""


def text_merge_policy(path: str) -> MergePolicy | None:
    """Return how a text record changes: anyone may edit it. None for other files.

    >>> text_merge_policy("decisions/use-tabs.md"), text_merge_policy("decisions/sketch.png")
    ('edited', None)
    """
    return "edited" if path.endswith(SUFFIX) else None


def versioned_merge_policy(path: str) -> MergePolicy | None:
    """Return how a file of a versioned record changes: a log grows, a version never changes, a rendering is derived.

    >>> [versioned_merge_policy(path) for path in ("p/events.jsonl", "p/v0001.json", "p/PLAN.md", "p/notes.txt")]
    ['grows', 'fixed', 'derived', None]
    """
    if path.startswith(f"{TRASH_FOLDER}/"):
        return "fixed"
    if path.endswith(f"/{LOG}"):
        return "grows"
    if path.endswith(".json"):
        return "fixed"
    if path.endswith(".md"):
        return "derived"
    return None


class SyncedRecords(ABC):
    """A folder of records that several machines share; without a team there is none."""

    problem: str
    """Why the team's records may be newer, or which file is in conflict with them; empty without a problem."""

    @abstractmethod
    def sync(self) -> None:
        """Synchronize the folder, unless that was done a moment ago. Never fails: see `problem`."""

    @abstractmethod
    def publish(self, files: Mapping[Path, bytes | None]) -> None:
        """Write changes for all machines, before they become files. Raises: StoreUnavailable, StoreUnusable."""

    @abstractmethod
    def acquire_lease(self) -> AbstractContextManager[None]:
        """Return the right to write, of one process on all machines. Raises: StorageBusy."""


class SharedRecords(ABC):
    """Opens the folders that a team shares."""

    @property
    @abstractmethod
    def problem(self) -> str:
        """Why its records may be newer; empty without a problem."""

    @abstractmethod
    def open_folder(self, folder: Path, policy_of: MergePolicyOf, *, flush: bool = True) -> SyncedRecords:
        """Return a folder whose records all machines share; its name is their kind."""

    @abstractmethod
    def close(self) -> None:
        """Close connections and files; all can be used again afterwards."""


class _StoredRecords:
    """What both kinds of records have in common. Thread-safe; several processes may use one folder."""

    policy_of: ClassVar[Callable[[str], MergePolicy | None]]

    def __init__(
        self, home: Path, name: str, *, flush: bool = True, shared_records: SharedRecords | None = None
    ) -> None:
        """Nothing is created until something is written.

        `flush=False` gives up on surviving a power failure; `shared_records` are the team's, None without a team.
        """
        self.folder = home / name
        self._files = StateFolder(home).folder(name)
        self._flush = flush
        self._locks = PathLocks(home / "locks")
        self._synced: SyncedRecords | None = None
        if shared_records:
            self._synced = shared_records.open_folder(self.folder, self.policy_of, flush=flush)
        self._share: PublishFiles | None = self._synced.publish if self._synced else None

    @property
    def problem(self) -> str:
        """Why the team's records may be newer, or which file is in conflict with them; empty without a problem."""
        return self._synced.problem if self._synced else ""

    def _sync(self) -> None:
        if self._synced:
            self._synced.sync()

    def _publish(self, files: Mapping[Path, bytes | None]) -> None:
        """Write changes to the team's database before they become files."""
        if self._share:
            self._share(files)

    @contextmanager
    def _lock(self, paths: Iterable[str]) -> Generator[None]:
        """Lock these paths on this machine, and the kind of records on all machines of a team."""
        lease = self._synced.acquire_lease() if self._synced else nullcontext()
        with lease, self._locks.hold(list(paths)):
            yield


class RecordFolder(_StoredRecords):
    """The text records of one kind, below `<home>/<name>`."""

    policy_of = staticmethod(text_merge_policy)

    def listing(self) -> dict[str, FileStamp]:
        """Return every record by its path below the folder (`decisions/use-tabs--0c07398f.md`)."""
        self._sync()
        found: dict[str, FileStamp] = {}
        for folder in self._files.folders():
            for name, facts in self._files.files(folder).items():
                if name.endswith(SUFFIX) and name[0] != ".":
                    found[f"{folder}/{name}"] = facts.st_ino, facts.st_size, facts.st_mtime_ns
        return found

    def read(self, name: str) -> bytes | str | None:
        """Return the content of a record, the reason why it cannot be read, or None when it no longer exists."""
        return self._files.read(name, bytes_max=BYTES_MAX)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Be the only writer until the block ends.

        Raises: StorageBusy, WriteFailed, DiskFull, StorageCorrupt; with a team StoreUnavailable, StoreUnusable.
        """
        with self._lock([self.folder.name]):
            yield

    def create(self, name: str, data: bytes) -> bool:
        """Write a new record; return False if it exists already. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        if self._synced and self._files.exists(name):
            return False
        self._publish({self.folder / name: data})
        return self._files.create(name, data, flush=self._flush)

    def replace(self, name: str, data: bytes) -> None:
        """Replace a record. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        self._publish({self.folder / name: data})
        self._files.replace(name, data, flush=self._flush)

    def remove(self, name: str) -> None:
        """Delete a record, and its folder after the last one. Raises: WriteFailed, StorageCorrupt."""
        self._publish({self.folder / name: None})
        self._files.remove(name)
        self._files.remove_empty(name.rpartition("/")[0])


def version_file_name(number: int) -> str:
    """Return the file name of a version.

    >>> version_file_name(7), version_file_name(12345)
    ('v0007.json', 'v12345.json')
    """
    return f"v{number:04d}.json"


class VersionedRecords(_StoredRecords):
    """The records of one kind that have versions and a log."""

    policy_of = staticmethod(versioned_merge_policy)

    def list_names(self) -> list[str]:
        """Return the name of every record, sorted."""
        self._sync()
        return sorted(self._files.folders())

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return the numbers of all versions of a record, ascending."""
        self._sync()
        found = map(_VERSION_NAME.fullmatch, self._files.names(name))
        return tuple(sorted(int(match[1]) for match in found if match))

    def read(self, name: str, number: int) -> bytes | None:
        """Return the content of a version; None when it is missing. Raises: StorageCorrupt, naming the file."""
        self._sync()
        data = self._files.read(f"{name}/{version_file_name(number)}", bytes_max=VERSION_BYTES_MAX)
        if isinstance(data, str):
            raise self.corrupt_error(name, number, data)
        return data

    def corrupt_error(self, name: str, number: int, why: str) -> StorageCorrupt:
        """Return the error for a version that differs from what was written."""
        file = version_file_name(number)
        return StorageCorrupt(
            f"{file} of {name} is damaged: {why}",
            suggestion="Restore this file from git or a backup; all other versions can be read.",
            details={"path": str(self.folder / name / file), "file": file},
        )

    def add(self, name: str, number: int, data: bytes) -> bool:
        """Write a version, which never changes; return False when the number is used.

        Raises: WriteFailed, DiskFull, StorageCorrupt; with a team StoreUnavailable, StoreUnusable.
        """
        self._sync()
        file = version_file_name(number)
        if file in self._files.names(name):
            return False
        self._publish({self.folder / name / file: data})
        return self._files.create(f"{name}/{file}", data, flush=self._flush)

    def log(self, name: str) -> EventLog:
        """Return the log of a record, whether it exists or not."""
        self._sync()
        return EventLog(self._files.folder(name), LOG, flush=self._flush, share=self._share)

    def stamp(self, name: str, newest: str) -> tuple[int, ...]:
        """Return what changes with a record: times, sizes and inodes of its folder, its newest version and its log.

        `newest` is the file of that version. Empty while a change might not show, or when one of the files is missing.
        """
        facts = self._files.statuses(name, (newest, LOG))
        if not facts:
            return ()
        made, version, log = facts
        if time.time_ns() - max(made.st_mtime_ns, version.st_mtime_ns, log.st_mtime_ns) < UNSETTLED_NS:
            return ()
        files = (version.st_ino, version.st_size, version.st_mtime_ns, log.st_ino, log.st_size, log.st_mtime_ns)
        return made.st_mtime_ns, *files

    def display_path(self, path: str) -> str:
        """Return a path below the folder as replies name it: from the top of the workspace."""
        return f"{self.folder.parent.name}/{self.folder.name}/{path}"

    def read_index(self) -> bytes:
        """Return the stored index; empty when there is none, or it cannot be read."""
        data = self._files.read("index.json", bytes_max=INDEX_BYTES_MAX)
        return data if isinstance(data, bytes) else b""

    @contextmanager
    def writing(self, *names: str) -> Generator[None]:
        """Be the only writer of some records until the block ends.

        Raises: StorageBusy, WriteFailed, DiskFull; with a team StoreUnavailable, StoreUnusable.
        """
        with self._lock(f"{self.folder.name}/{name}" for name in names):
            yield

    def put_index(self, data: bytes) -> None:
        """Store the derived index; a failure is ignored, since it can be derived again."""
        with suppress(WriteFailed, DiskFull, StorageCorrupt):
            self._files.replace("index.json", data, flush=False)

    def put_mirror(self, name: str, file: str, data: bytes) -> None:
        """Store a rendering of a record for people. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        self._publish({self.folder / name / file: data})
        self._files.replace(f"{name}/{file}", data, flush=False)

    def move_to_trash(self, name: str, stamp: str, *, purge: bool = False) -> str:
        """Move a record into the trash and return its path there; with `purge` delete it permanently.

        Raises: WriteFailed, DiskFull, StorageCorrupt.
        """
        target = f"{TRASH_FOLDER}/{_free_name(self._files.names(TRASH_FOLDER), f'{name}-{stamp}')}"
        self._files.folder(TRASH_FOLDER).make()
        if self._share:
            read = {
                file: self._files.read(f"{name}/{file}", bytes_max=TRASH_BYTES_MAX) for file in self._files.files(name)
            }
            contents = {file: data for file, data in read.items() if isinstance(data, bytes)}
            moved = {} if purge else {self.folder / target / file: data for file, data in contents.items()}
            self._share({**moved, **dict.fromkeys(self.folder / name / file for file in contents)})
        self._files.rename(name, target)
        if not purge:
            return self.display_path(target)
        self._files.remove_tree(target)
        return ""


def is_copy_of(trashed: str, path: str) -> bool:
    """Return whether a file of the trash is the one that was moved there from a path.

    >>> is_copy_of(".trash/plan_1-20261121T120000/v0001.json", "plan_1/v0001.json")
    True
    """
    folder, _, name = path.rpartition("/")
    _, was, was_name = trashed.rsplit("/", 2)
    return name == was_name and was.startswith(f"{folder}-")


def _free_name(taken: set[str], name: str) -> str:
    """Return a name that nothing in the trash has."""
    names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(free for free in names if free not in taken)
