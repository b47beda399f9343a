"""Names the database that a team shares, and what this machine may do there."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from context_engine.sharing.remote_vectors import open_vector_store


@dataclass(frozen=True, slots=True)
class TeamStore:
    """The address of the database, the name of this repository there, and whether this machine shares what it makes."""

    address: str = ""
    repository: str = ""
    publishes: bool = False

    @property
    def is_configured(self) -> bool:
        """Whether there is a team to share with."""
        return self.address not in ("", "embedded") and bool(self.repository)

    def find_vector_problems(self, *, repair: bool = False) -> list[str]:
        """Return what is wrong with the vectors on the database, in words; a `repair` drops them, and sharers send them again.

        Raises: StoreUnavailable, StoreUnusable.
        """
        if not self.is_configured:
            return []
        with closing(open_vector_store(self.address)) as remote:
            return remote.check(self.repository, repair=repair)
