"""What a team has in common beside its index: plans, memories and reviews of one repository, on the database where machines meet.

    shared_records = open_shared_records("postgresql://user@host/team", "github.com/team/app", cache)
    records = VersionedRecords(home, "plans", shared_records=shared_records)

Only PostgreSQL holds records; what needs its library is imported here, when somebody asks for it. Without a
shared_records the same files are this machine's alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from context_engine.errors import InvalidArgument, UnsupportedHost
from context_engine.sharing.remote_records import RemoteRecordStore
from context_engine.sharing.sync_state import SyncState
from context_engine.sharing.synced_folder import MergePolicyOf, SyncedFolder
from context_engine.sharing.synced_reviews import SyncedReviews

REST_S = 1.0
"""How old a look at the team's records may be for an answer, as for a look at the files (`staleness_ms`)."""
ADDRESSES = ("postgresql://", "postgres://")


class SharedRecords:
    """What one repository has in common. Thread-safe; nothing is connected before something is read or written."""

    def __init__(self, remote: RemoteRecordStore, repository: str, cache: Path, *, rest_s: float = REST_S) -> None:
        """`cache` is the workspace's own: there stands what was seen here."""
        self.store = remote
        self.repository = repository
        self._cache = cache
        self._rest_s = rest_s
        self._mark = hashlib.blake2b(f"{remote.name}\\n{repository}".encode(), digest_size=6).hexdigest()
        self._folders: list[tuple[SyncedFolder, SyncState]] = []
        self._reviews: list[SyncedReviews] = []

    def open_folder(self, folder: Path, natures: MergePolicyOf, *, flush: bool = True) -> SyncedFolder:
        """A folder whose records all machines have; its name is their kind."""
        seen = SyncState(self._cache / f"commons-{folder.name}-{self._mark}.db")
        common = SyncedFolder(self.store, self.repository, folder, seen, natures, rest_s=self._rest_s, flush=flush)
        self._folders.append((common, seen))
        return common

    def open_reviews(self) -> SyncedReviews:
        """What the store of reviews of this machine brings itself to."""
        common = SyncedReviews(self.store, self.repository, self._mark, rest_s=self._rest_s)
        self._reviews.append(common)
        return common

    @property
    def problem(self) -> str:
        """Why what others wrote may not be seen, or what lies here in conflict with it; empty when all is well."""
        told = [*(folder.problem for folder, _ in self._folders), *(common.problem for common in self._reviews)]
        return next(filter(None, told), "")

    def close(self) -> None:
        """Let go of connections and files; all can be used again afterwards."""
        for _, seen in self._folders:
            seen.close()
        self.store.close()


def open_shared_records(address: str, repository: str, cache: Path) -> SharedRecords:
    """The shared_records of a repository on a database. Nothing is connected.

    Raises: InvalidArgument for a store that holds no records, UnsupportedHost when a library is missing.
    """
    if not address.startswith(ADDRESSES):
        raise InvalidArgument(
            f"only a PostgreSQL holds plans, memories and reviews of a team; CTX_STORE_URL is {address.partition(':')[0] or 'empty'}",
            suggestion="point CTX_STORE_URL at a PostgreSQL, or leave CTX_STORE_RECORDS out: then they stay files of this machine",
        )
    try:
        opened: Callable[[str], RemoteRecordStore] = import_module(
            "context_engine.sharing.postgres_records"
        ).PostgresRecords
    except ImportError as error:
        raise UnsupportedHost(
            f"records at {ADDRESSES[0]} need a library that is not installed: {error.name}",
            suggestion="Install it: pip install 'smart-context-engine[postgres]'",
        ) from error
    return SharedRecords(opened(address), repository, cache)
