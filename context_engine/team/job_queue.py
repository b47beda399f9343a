"""The repositories that a team wants indexed: a queue in PostgreSQL, worked off by any number of workers.

A repository has one row, however often it is asked for. The next job is the one that was begun longest ago, so that a
repository that changes all the time does not delay others. A worker that dies loses its lease after LEASE_S, and its
job is begun again: an index is published whole or not at all, so nothing is lost but time. The clock is the database's.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from context_engine.errors import InvalidArgument
from context_engine.model import Progress
from context_engine.team.remote_store import open_backend

if TYPE_CHECKING:
    from context_engine.team.postgres_jobs import PostgresJobs

LEASE_S = 60.0
RENEW_S = 15.0
"""Three renewals may fail before the lease ends."""
ATTEMPTS_MAX = 5
"""A job that failed five times needs a person: it waits until it is asked for again."""
RETRY_S = 30
"""The wait after the first failure; it doubles with each further one, to four minutes."""
ERROR_CHARS_MAX = 500

JobState = Literal["running", "waiting", "retrying", "failed", "done"]


class IndexSource(NamedTuple):
    """A repository to index: an absolute folder or an address that git can fetch, and the branch (empty: its own).

    `name` is what the database calls it; empty: where it comes from.
    """

    place: str
    branch: str = ""
    name: str = ""


class QueuedJob(NamedTuple):
    """One row of the queue. `error` is that of the last attempt, `result` that of the last success."""

    source: IndexSource
    state: JobState
    worker: str
    attempts: int
    error: str
    progress: Progress
    asked_at: datetime
    finished_at: datetime | None
    result: str


def open_job_queue(address: str) -> PostgresJobs:
    """Return the queue at an address, without connecting.

    Raises: InvalidArgument where it is not a PostgreSQL, UnsupportedHost when its library is not installed.
    """
    if address.partition("://")[0] not in ("postgres", "postgresql"):
        raise InvalidArgument(
            "only PostgreSQL holds a queue of indexing jobs",
            suggestion="Repeat it with --store postgresql://user@host/database, or set CTX_STORE_URL.",
        )
    return open_backend(address, "Jobs")
