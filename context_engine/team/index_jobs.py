"""Jobs of a team: repositories that it wants indexed, and the worker that fetches, indexes and publishes one.

A repository has one row in the queue (`postgres_jobs`), however often it is asked for. The next job is the one that was
begun longest ago, so that a repository that changes all the time does not delay others. A worker that dies loses its
lease after LEASE_S, and its job is begun again: an index is published whole or not at all, so nothing is lost but time.
The clock is the database's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from context_engine.engine import Engine
from context_engine.errors import (
    AccessFailed,
    Cancelled,
    Conflict,
    ContextEngineError,
    InvalidArgument,
)
from context_engine.model import Progress
from context_engine.settings import Settings
from context_engine.team.remote_store import keep_renewing
from context_engine.text import format_count

if TYPE_CHECKING:
    from context_engine.repo import RepositoryRegistry
    from context_engine.team.postgres_jobs import JobLease

LEASE_S = 60.0
RENEW_S = 15.0
"""Three renewals may fail before the lease ends."""
ATTEMPTS_MAX = 5
"""A job that failed five times needs a person: it waits until it is asked for again."""
RETRY_S = 30
"""The wait after the first failure; it doubles with each further one, to four minutes."""
ERROR_CHARS_MAX = 500

JobState = Literal["running", "waiting", "retrying", "failed", "done"]
COMMIT_CHARS = 10
ReportProgress = Callable[[Progress], None]


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


class IndexWorker:
    """Does one job at a time. `registry` has the folder of its clones; `store_url` is where indexes are published."""

    def __init__(self, registry: RepositoryRegistry, store_url: str, *, renew_s: float = RENEW_S) -> None:
        """Nothing is fetched or connected yet."""
        self._registry = registry
        self._store_url = store_url
        self._renew_s = renew_s

    def run(self, lease: JobLease, on_progress: ReportProgress, cancel: threading.Event) -> str:
        """Do the job of a lease and report it there; return a line about what was done.

        Raises: Cancelled when `cancel` was set, and the caller gives the job back; Conflict when the lease was lost;
        the error of a job that failed, which the queue knows by then.
        """
        newest, is_lost = Progress("starting", 0, 0), threading.Event()

        def note(progress: Progress) -> None:
            nonlocal newest
            newest = progress
            on_progress(progress)

        try:
            with keep_renewing(lambda: lease.renew(newest), self._renew_s, lease.lease_s, is_lost, cancel):
                result = self._index(lease.source, note, cancel)
        except Cancelled:
            if is_lost.is_set():
                raise _lost_error(lease) from None
            raise
        except ContextEngineError as error:
            lease.fail(error.message, is_final=isinstance(error, InvalidArgument))
            raise
        except BaseException as error:
            lease.fail(f"a defect of this program: {error!r}")
            raise
        if not lease.complete(result):
            raise _lost_error(lease)
        return result

    def _index(self, source: IndexSource, on_progress: ReportProgress, cancel: threading.Event) -> str:
        """Fetch and index a repository, and publish its index."""
        member = self._registry.describe(source.place, branch=source.branch)
        fetched = self._registry.update(member, on_progress=on_progress, cancel=cancel)
        if fetched.problem:
            raise AccessFailed(fetched.problem, suggestion="check the address, and that this machine may read it")
        settings = Settings.load(Path(member.root))
        name = source.name or settings.store_repository
        chosen = replace(settings, store_url=self._store_url, store_shares=True, store_repository=name)
        with Engine.open(member.root, settings=chosen) as engine:
            report = engine.index.update(progress=on_progress, cancel=cancel)
        changed = report.added + report.changed + report.removed
        commit = f"{fetched.after[:COMMIT_CHARS]}, " if fetched.after else ""
        files = format_count(report.files, "file")
        return f"{commit}{files}, {changed:,} of them new or changed, {report.seconds:.1f} s"


def _lost_error(lease: JobLease) -> Conflict:
    return Conflict(
        f"the lease of {lease.source.place} was lost: another worker has the job, or it was removed",
        suggestion="`ctx job list` shows who has it; nothing needs to be done.",
    )
