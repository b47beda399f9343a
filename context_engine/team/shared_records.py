"""What a team shares besides its index: plans, memories and reviews of one repository.

Only PostgreSQL stores records; its library is imported here, at the first use.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.errors import InvalidArgument
from context_engine.settings import Settings
from context_engine.storage import MergePolicyOf, SharedRecords
from context_engine.team.remote_store import TeamStore, open_backend, serves
from context_engine.team.sync_state import SyncState
from context_engine.team.synced_folder import SyncedFolder

if TYPE_CHECKING:
    from context_engine.team.postgres_records import PostgresRecords

REST_S = 1.0
"""An answer may use team records that were synchronized this long ago, as it may use scanned files (`staleness_ms`)."""


class TeamRecords(SharedRecords):
    """The shared records of one repository. Thread-safe; nothing is connected before a read or write."""

    def __init__(self, remote: PostgresRecords, repository: str, cache: Path, *, rest_s: float = REST_S) -> None:
        """`cache` is the workspace's folder for what this machine has seen."""
        self.remote = remote
        self.repository = repository
        self.rest_s = rest_s
        self.mark = hashlib.blake2b(f"{remote.name}\\n{repository}".encode(), digest_size=6).hexdigest()
        """Distinguishes this team from other teams in the files of this machine."""
        self.problems: dict[str, str] = {}
        """Problems of records that are not files, by kind."""
        self._cache = cache
        self._folders: list[SyncedFolder] = []

    def open_folder(self, folder: Path, policy_of: MergePolicyOf, *, flush: bool = True) -> SyncedFolder:
        """Return a folder whose records all machines share; its name is their kind."""
        state = SyncState(self._cache / f"commons-{folder.name}-{self.mark}.db")
        synced = SyncedFolder(self.remote, self.repository, folder, state, policy_of, rest_s=self.rest_s, flush=flush)
        self._folders.append(synced)
        return synced

    @property
    def problem(self) -> str:
        """Why the team's records may be newer, or which file is in conflict with them; empty without a problem."""
        problems = [*(folder.problem for folder in self._folders), *self.problems.values()]
        return next(filter(None, problems), "")

    def close(self) -> None:
        """Close connections and files; all can be used again afterwards."""
        for folder in self._folders:
            folder.close()
        self.remote.close()


def open_team_records(root: Path, settings: Settings, cache_folder: Path) -> TeamRecords:
    """Return the records of the team of a workspace. Raises: InvalidArgument, UnsupportedHost."""
    team = TeamStore.of(root, settings)
    return open_shared_records(team.address, team.repository, cache_folder)


def open_shared_records(address: str, repository: str, cache: Path) -> TeamRecords:
    """Return the shared records of a repository in a database, without connecting.

    Raises: InvalidArgument for a database that stores no records, UnsupportedHost when its library is missing.
    """
    if not serves(address, "Records"):
        raise InvalidArgument(
            "only PostgreSQL stores plans, memories and reviews of a team; "
            f"CTX_STORE_URL is {address.partition(':')[0] or 'empty'}",
            suggestion="set CTX_STORE_URL to a PostgreSQL address, "
            "or leave out CTX_STORE_RECORDS: then they stay files of this machine",
        )
    return TeamRecords(open_backend(address, "Records"), repository, cache)
