"""The records of a team on PostgreSQL: a row each, with the revision in which it changed last.

A put is one statement, on the connection that holds the right to write: when that connection is lost the right is, and
nothing is written on another one. The counter of a kind is a row that the statement keeps locked, so revisions appear
in their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager

import psycopg

from context_engine.errors import StorageBusy
from context_engine.sharing.postgres_session import PostgresSession, SchemaPart, translate_errors
from context_engine.sharing.remote_records import RecordMeta

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
"""1: one counter a kind, the records (no content: deleted), and the hashes of all that ever stood in them."""
_PUT = """
WITH next AS (
    INSERT INTO context_engine.record_kind AS now VALUES (%(repository)s, %(kind)s, 1)
    ON CONFLICT (repository, kind) DO UPDATE SET revision = now.revision + 1 RETURNING revision
), new AS (
    SELECT * FROM unnest(%(paths)s::text[], %(shas)s::text[], %(contents)b::bytea[]) AS new(path, sha, content)
), known AS (
    INSERT INTO context_engine.record_known SELECT %(repository)s, %(kind)s, path, sha FROM new ON CONFLICT DO NOTHING
), deleted AS (
    UPDATE context_engine.record SET revision = next.revision, content = NULL, changed_at = now(), changed_by = current_user
    FROM next WHERE repository = %(repository)s AND kind = %(kind)s AND path = ANY(%(deleted)s) AND content IS NOT NULL
)
INSERT INTO context_engine.record (repository, kind, path, revision, sha, content)
SELECT %(repository)s, %(kind)s, path, revision, sha, content FROM new, next
ON CONFLICT (repository, kind, path) DO UPDATE SET
revision = EXCLUDED.revision, sha = EXCLUDED.sha, content = EXCLUDED.content, changed_at = now(), changed_by = current_user
"""
"""One statement, one way there and back: all of it or nothing."""


class PostgresRecords:
    """The records in the schema `context_engine` of one database.

    Thread-safe. Nothing is connected until it is asked.
    """

    def __init__(self, address: str) -> None:
        """`address`: `postgresql://user@host/database`; a password may stand in it, or where libpq looks for it."""
        self._database = PostgresSession(address)
        self.name = self._database.name

    def revision(self, repository: str, kind: str) -> int:
        """0 as long as nothing was ever put."""
        asked = "SELECT revision FROM context_engine.record_kind WHERE repository = %s AND kind = %s"
        rows = self._database.query(RECORDS, asked, (repository, kind))
        return rows[0][0] if rows else 0

    def list_changes(self, repository: str, kind: str, revision: int) -> list[RecordMeta]:
        """Return what changed after a revision, in order."""
        asked = (
            "SELECT path, revision, sha, content IS NULL FROM context_engine.record "
            "WHERE repository = %s AND kind = %s AND revision > %s ORDER BY revision, path"
        )
        return [RecordMeta(*row) for row in self._database.query(RECORDS, asked, (repository, kind, revision))]

    def list_records(self, repository: str, kind: str, paths: Collection[str]) -> list[RecordMeta]:
        """Return the metadata of these records; unknown ones are left out."""
        asked = (
            "SELECT path, revision, sha, content IS NULL FROM context_engine.record "
            "WHERE repository = %s AND kind = %s AND path = ANY(%s)"
        )
        return [RecordMeta(*row) for row in self._database.query(RECORDS, asked, (repository, kind, [*paths]))]

    def read_contents(self, repository: str, kind: str, paths: Collection[str]) -> dict[str, bytes]:
        """Return the contents of these records, without the deleted ones."""
        asked = (
            "SELECT path, content FROM context_engine.record "
            "WHERE repository = %s AND kind = %s AND path = ANY(%s) AND content IS NOT NULL"
        )
        return {path: bytes(held) for path, held in self._database.query(RECORDS, asked, (repository, kind, [*paths]))}

    def find_earlier_contents(self, repository: str, kind: str, shas: Mapping[str, str]) -> set[str]:
        """Of these paths, the ones in which this very content stood at some time."""
        asked = (
            "SELECT path FROM context_engine.record_known JOIN unnest(%s::text[], %s::text[]) AS asked(path, sha) "
            "USING (path, sha) WHERE repository = %s AND kind = %s"
        )
        rows = self._database.query(RECORDS, asked, ([*shas], [*shas.values()], repository, kind))
        return {path for (path,) in rows}

    @contextmanager
    def acquire_lease(self, repository: str, kind: str, wait_s: float) -> Generator[_Hand]:
        """The right to write, of one session at a time. Raises: StorageBusy."""
        name = f"{kind} of {repository}"
        with self._database.hold_lock(RECORDS, name, wait_s, _busy(name)) as connection:
            yield _Hand(connection, self.name, repository, kind)

    def close(self) -> None:
        """Let go of the connections that rest; it can be used again afterwards."""
        self._database.close()


class _Hand:
    """Who holds the right to write, on the connection that it belongs to."""

    def __init__(self, connection: psycopg.Connection, name: str, repository: str, kind: str) -> None:
        self._connection = connection
        self._name = name
        self._of = {"repository": repository, "kind": kind}

    def put(self, changes: Mapping[str, bytes | None]) -> None:
        """Put these contents down, all of them or none; None deletes.

        Raises: StoreUnavailable, StoreUnusable, DiskFull.
        """
        written = {path: content for path, content in changes.items() if content is not None}
        with translate_errors(self._name):
            self._connection.execute(
                _PUT,
                self._of
                | {
                    "paths": [*written],
                    "shas": [hashlib.sha256(content).hexdigest() for content in written.values()],
                    "contents": [*written.values()],
                    "deleted": [path for path in changes if path not in written],
                },
            )


def _busy(name: str) -> StorageBusy:
    return StorageBusy(
        f"somebody else on another machine is writing the {name} right now",
        suggestion="Call again in a moment; nothing was written.",
    )
