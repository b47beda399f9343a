"""What a database must do to keep the records of a team: plans, memories, reviews. It does not interpret their bytes.

The records of one kind have one revision, which rises with every change. Who writes is the only writer of that kind,
among all machines, so what was looked at under that right is still so when the change is put down. Every call names the
repository, and no call reaches another one's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol


class RecordMeta(NamedTuple):
    """What is known of a record without its content.

    `sha`: the SHA-256 of what stands in it, of what stood last if it is gone.
    """

    path: str
    revision: int
    sha: str
    is_gone: bool = False


class WriteLease(Protocol):
    """The right to write the records of one kind."""

    def put(self, changes: Mapping[str, bytes | None]) -> None:
        """Put these contents down, all of them or none; None deletes.

        Raises: StoreUnavailable, StoreUnusable, DiskFull.
        """
        ...


class RemoteRecordStore(Protocol):
    """A database that several machines share. Thread-safe.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is.
    """

    name: str
    """Its address without a password."""

    def revision(self, repository: str, kind: str) -> int:
        """Return the revision; 0 as long as nothing was ever written. One short query."""
        ...

    def list_changes(self, repository: str, kind: str, revision: int) -> list[RecordMeta]:
        """Return what changed after a revision, in order."""
        ...

    def list_records(self, repository: str, kind: str, paths: Collection[str]) -> list[RecordMeta]:
        """Return the metadata of these records; unknown ones are left out."""
        ...

    def read_contents(self, repository: str, kind: str, paths: Collection[str]) -> dict[str, bytes]:
        """Return the contents of these records, without the deleted ones."""
        ...

    def find_earlier_contents(self, repository: str, kind: str, shas: Mapping[str, str]) -> set[str]:
        """Of these paths, the ones in which this very content stood at some time."""
        ...

    def acquire_lease(self, repository: str, kind: str, wait_s: float) -> AbstractContextManager[WriteLease]:
        """The right to write, of one at a time on all machines; ends when its holder dies. Raises: StorageBusy."""
        ...

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        ...
