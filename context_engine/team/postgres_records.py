"""The records of a team (plans, memories, reviews) on PostgreSQL: a row each, with the revision of its last change.

The records of one kind have one revision, which rises with every change. A lease makes its owner the only writer of
that kind on all machines, so what it read is still true when it writes. A write is one statement on the connection that
has the lease: when that connection is lost, the lease is lost, and nothing is written on another one. The statement
locks the revision of the kind, so revisions appear in order. Every call names the repository, and no call reaches the
records of another one. Contents are not interpreted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from context_engine.errors import StorageBusy
from context_engine.team.postgres_session import PostgresSession, SchemaPart, translate_errors

_TABLES = """
CREATE TABLE context_engine.record_kind (
    repository text, kind text, revision bigint NOT NULL, PRIMARY KEY (repository, kind)
);
CREATE TABLE context_engine.record (
    repository text, kind text, path text, revision bigint NOT NULL, sha text NOT NULL, content bytea,
    changed_at timestamptz NOT NULL DEFAULT now(), changed_by text NOT NULL DEFAULT current_user,
    PRIMARY KEY (repository, kind, path)
);
CREATE INDEX record_of_revision ON context_engine.record (repository, kind, revision);
CREATE TABLE context_engine.record_known (
    repository text, kind text, path text, sha text, PRIMARY KEY (repository, kind, path, sha)
);
"""
RECORDS = SchemaPart("records", ((_TABLES,),))
"""1: one revision per kind, the records (without content: deleted), and the hashes of all their earlier contents."""
_PUT = """
WITH next AS (
    INSERT INTO context_engine.record_kind AS now VALUES (%(repository)s, %(kind)s, 1)
    ON CONFLICT (repository, kind) DO UPDATE SET revision = now.revision + 1 RETURNING revision
), new AS (
    SELECT * FROM unnest(%(paths)s::text[], %(shas)s::text[], %(contents)b::bytea[]) AS new(path, sha, content)
), known AS (
    INSERT INTO context_engine.record_known SELECT %(repository)s, %(kind)s, path, sha FROM new ON CONFLICT DO NOTHING
), deleted AS (
    UPDATE context_engine.record
    SET revision = next.revision, content = NULL, changed_at = now(), changed_by = current_user
    FROM next WHERE repository = %(repository)s AND kind = %(kind)s AND path = ANY(%(deleted)s) AND content IS NOT NULL
)
INSERT INTO context_engine.record (repository, kind, path, revision, sha, content)
SELECT %(repository)s, %(kind)s, path, revision, sha, content FROM new, next
ON CONFLICT (repository, kind, path) DO UPDATE SET
revision = EXCLUDED.revision, sha = EXCLUDED.sha, content = EXCLUDED.content,
changed_at = now(), changed_by = current_user
"""
"""One statement is one round trip: all of it or nothing."""
_META = """
SELECT path, revision, sha, content IS NULL FROM context_engine.record WHERE repository = %s AND kind = %s
"""


class RecordMeta(NamedTuple):
    """A record without its content. `sha` is the SHA-256 of its content, or of its last content if it is deleted."""

    path: str
    revision: int
    sha: str
    is_deleted: bool = False


class PostgresRecords(PostgresSession):
    """The records in the schema `context_engine` of one database. Thread-safe; it connects at the first call.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is.
    """

    def revision(self, repository: str, kind: str) -> int:
        """Return the revision; 0 before the first write. One short query."""
        query = "SELECT revision FROM context_engine.record_kind WHERE repository = %s AND kind = %s"
        return next((revision for (revision,) in self.query(RECORDS, query, (repository, kind))), 0)

    def list_changes(self, repository: str, kind: str, revision: int) -> list[RecordMeta]:
        """Return what changed after a revision, in order."""
        query = f"{_META} AND revision > %s ORDER BY revision, path"
        return [RecordMeta(*row) for row in self.query(RECORDS, query, (repository, kind, revision))]

    def list_records(self, repository: str, kind: str, paths: Collection[str]) -> list[RecordMeta]:
        """Return the metadata of these records; unknown ones are left out."""
        rows = self.query(RECORDS, f"{_META} AND path = ANY(%s)", (repository, kind, [*paths]))
        return [RecordMeta(*row) for row in rows]

    def read_contents(self, repository: str, kind: str, paths: Collection[str]) -> dict[str, bytes]:
        """Return the contents of these records, without the deleted ones."""
        query = (
            "SELECT path, content FROM context_engine.record "
            "WHERE repository = %s AND kind = %s AND path = ANY(%s) AND content IS NOT NULL"
        )
        rows = self.query(RECORDS, query, (repository, kind, [*paths]))
        return {path: bytes(content) for path, content in rows}

    def find_earlier_contents(self, repository: str, kind: str, shas: Mapping[str, str]) -> set[str]:
        """Return the paths whose record has or once had the content with this hash."""
        query = (
            "SELECT path FROM context_engine.record_known JOIN unnest(%s::text[], %s::text[]) AS asked(path, sha) "
            "USING (path, sha) WHERE repository = %s AND kind = %s"
        )
        rows = self.query(RECORDS, query, ([*shas], [*shas.values()], repository, kind))
        return {path for (path,) in rows}

    @contextmanager
    def acquire_lease(self, repository: str, kind: str, wait_s: float) -> Generator[RecordLease]:
        """Acquire the right to write a kind, for one session on all machines; it ends when its owner dies.

        Raises: StorageBusy.
        """
        name = f"{kind} of {repository}"
        busy = StorageBusy(
            f"another machine is writing the {name} right now",
            suggestion="Call again in a moment; nothing was written.",
        )
        with self.hold_lock(RECORDS, name, wait_s, busy) as connection:
            yield RecordLease(connection, self.name, repository, kind)


class RecordLease:
    """The right to write the records of one kind, on the connection that has the lock."""

    def __init__(self, connection: psycopg.Connection, name: str, repository: str, kind: str) -> None:
        self._connection = connection
        self._name = name
        self._key = {"repository": repository, "kind": kind}

    def put(self, changes: Mapping[str, bytes | None]) -> None:
        """Write these contents, all of them or none; None deletes.

        Raises: StoreUnavailable, StoreUnusable, DiskFull.
        """
        written = {path: content for path, content in changes.items() if content is not None}
        values = {
            "paths": [*written],
            "shas": [hashlib.sha256(content).hexdigest() for content in written.values()],
            "contents": [*written.values()],
            "deleted": [path for path in changes if path not in written],
        }
        with translate_errors(self._name):
            self._connection.execute(_PUT, self._key | values)
