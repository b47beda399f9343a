"""The queue of indexing jobs on PostgreSQL: one table, and one statement for each change of a job.

A worker's changes name the worker and need its lease, so a worker that lost a job cannot change it. Claims lock the row
that they take and skip rows that others lock: two workers never take the same job.
"""

from __future__ import annotations

from typing import Any

from psycopg import sql

from context_engine.model import Progress
from context_engine.team.index_jobs import ATTEMPTS_MAX, ERROR_CHARS_MAX, LEASE_S, RETRY_S, IndexSource, QueuedJob
from context_engine.team.postgres_session import PostgresSession, SchemaPart, Statement

_TABLES = """
CREATE TABLE context_engine.index_job (
    source text, branch text, name text NOT NULL DEFAULT '',
    asked_at timestamptz NOT NULL DEFAULT now(), due_at timestamptz DEFAULT now(),
    started_at timestamptz, finished_at timestamptz, leased_until timestamptz,
    worker text NOT NULL DEFAULT '', attempts int NOT NULL DEFAULT 0, error text NOT NULL DEFAULT '',
    stage text NOT NULL DEFAULT '', done bigint NOT NULL DEFAULT 0, total bigint NOT NULL DEFAULT 0,
    result text NOT NULL DEFAULT '',
    PRIMARY KEY (source, branch)
)
"""
JOBS = SchemaPart("jobs", ((_TABLES,),))
"""1: a row per repository and branch. `due_at` is empty when there is nothing to do."""

_ADD = """
INSERT INTO context_engine.index_job AS job (source, branch, name) VALUES (%s, %s, %s)
ON CONFLICT (source, branch) DO UPDATE SET
asked_at = now(), due_at = now(), attempts = CASE WHEN job.leased_until > now() THEN job.attempts ELSE 0 END,
name = CASE WHEN EXCLUDED.name = '' THEN job.name ELSE EXCLUDED.name END
"""
_ADD_ALL = """
UPDATE context_engine.index_job SET
asked_at = now(), due_at = now(), attempts = CASE WHEN leased_until > now() THEN attempts ELSE 0 END
RETURNING source
"""
_CLAIM = """
UPDATE context_engine.index_job SET
worker = %(worker)s, leased_until = now() + make_interval(secs => %(lease)s), started_at = now(),
attempts = attempts + 1, stage = '', done = 0, total = 0, error = 'the worker ended before the job was done'
WHERE (source, branch) = (
    SELECT source, branch FROM context_engine.index_job
    WHERE due_at <= now() AND (leased_until IS NULL OR leased_until <= now()) AND attempts < %(most)s
    ORDER BY started_at NULLS FIRST, asked_at, source, branch LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING source, branch, name
"""
_MINE = sql.SQL(
    "WHERE source = %(source)s AND branch = %(branch)s AND worker = %(worker)s AND leased_until IS NOT NULL "
    "RETURNING source"
)
_RENEW = sql.SQL("""
UPDATE context_engine.index_job SET
leased_until = now() + make_interval(secs => %(lease)s), stage = %(stage)s, done = %(done)s, total = %(total)s
{mine}
""").format(mine=_MINE)
_COMPLETE = sql.SQL("""
UPDATE context_engine.index_job SET
leased_until = NULL, finished_at = now(), attempts = 0, error = '', result = %(result)s,
due_at = CASE WHEN asked_at > started_at THEN now() END
{mine}
""").format(mine=_MINE)
_FAIL = sql.SQL("""
UPDATE context_engine.index_job SET
leased_until = NULL, error = %(error)s,
attempts = CASE WHEN asked_at > started_at THEN 0 WHEN %(is_final)s THEN %(most)s ELSE attempts END,
due_at = CASE
    WHEN asked_at > started_at THEN now()
    WHEN %(is_final)s OR attempts >= %(most)s THEN NULL
    ELSE now() + make_interval(secs => %(retry)s * 2 ^ (attempts - 1))
END
{mine}
""").format(mine=_MINE)
_RELEASE = """
UPDATE context_engine.index_job SET leased_until = NULL, attempts = attempts - 1, error = ''
WHERE worker = %(worker)s AND leased_until > now()
"""
_LIST = """
SELECT source, branch, name,
CASE
    WHEN leased_until > now() THEN 'running'
    WHEN due_at IS NULL AND error = '' THEN 'done'
    WHEN due_at IS NULL OR attempts >= %(most)s THEN 'failed'
    WHEN attempts > 0 THEN 'retrying'
    ELSE 'waiting'
END,
worker, attempts, CASE WHEN leased_until > now() THEN '' ELSE error END, stage, done, total,
asked_at, finished_at, result
FROM context_engine.index_job ORDER BY source, branch
"""


class PostgresJobs(PostgresSession):
    """The queue of indexing jobs in one database. Thread-safe; it connects at the first call.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is.
    """

    def add(self, source: IndexSource) -> None:
        """Ask for a repository to be indexed; one that is being indexed is indexed once more afterwards."""
        with self.transaction(JOBS) as connection:
            connection.execute(_ADD, (source.place, source.branch, source.name))

    def add_all(self) -> int:
        """Ask for every repository of the queue again; return how many there are."""
        with self.transaction(JOBS) as connection:
            return len(connection.execute(_ADD_ALL).fetchall())

    def remove(self, place: str, branch: str = "") -> bool:
        """Remove a repository from the queue; return whether it was there. Its index stays where it is."""
        query = "DELETE FROM context_engine.index_job WHERE source = %s AND branch = %s RETURNING source"
        with self.transaction(JOBS) as connection:
            return bool(connection.execute(query, (place, branch)).fetchall())

    def list_jobs(self) -> list[QueuedJob]:
        """Return all jobs, by the place of their repository."""
        rows = self.query(JOBS, _LIST, {"most": ATTEMPTS_MAX})
        return [_read_job(row) for row in rows]

    def claim(self, worker: str, *, lease_s: float = LEASE_S) -> JobLease | None:
        """Take the job that is due and was begun longest ago; None when no job is due."""
        with self.transaction(JOBS) as connection:
            values = {"worker": worker, "lease": lease_s, "most": ATTEMPTS_MAX}
            row = connection.execute(_CLAIM, values).fetchone()
        if row is None:
            return None
        return JobLease(self, IndexSource(*row), worker, lease_s)

    def release(self, worker: str) -> None:
        """Give back what a worker that ends still has, also a job whose lease it was stopped before receiving."""
        with self.transaction(JOBS) as connection:
            connection.execute(_RELEASE, {"worker": worker})


class JobLease:
    """The right of one worker to a job, until it is given back or was not renewed for its time.

    Each call returns False, and changes nothing, when the lease was lost or the job was removed.
    """

    def __init__(self, database: PostgresSession, source: IndexSource, worker: str, lease_s: float) -> None:
        self.source = source
        self.lease_s = lease_s
        self._database = database
        self._key = {"source": source.place, "branch": source.branch, "worker": worker}

    def renew(self, progress: Progress) -> bool:
        """Keep the job for another lease, and show how far it is."""
        return self._change(_RENEW, lease=self.lease_s, stage=progress.stage, done=progress.done, total=progress.total)

    def complete(self, result: str) -> bool:
        """Report success with a line about it. A request that came meanwhile makes the job due again."""
        return self._change(_COMPLETE, result=result)

    def fail(self, error: str, *, is_final: bool = False) -> bool:
        """Report a failure; the job is tried again later, unless it is `is_final` or was tried often enough."""
        return self._change(_FAIL, error=error[:ERROR_CHARS_MAX], is_final=is_final, most=ATTEMPTS_MAX, retry=RETRY_S)

    def _change(self, statement: Statement, **values: object) -> bool:
        with self._database.transaction(JOBS) as connection:
            return bool(connection.execute(statement, {**self._key, **values}).fetchall())


def _read_job(row: tuple[Any, ...]) -> QueuedJob:
    source, progress = IndexSource(*row[:3]), Progress(*row[7:10])
    state, worker, attempts, error = row[3:7]
    return QueuedJob(source, state, worker, attempts, error, progress, *row[10:])
