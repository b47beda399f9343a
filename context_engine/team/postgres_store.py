"""The remote store on PostgreSQL: a row for each manifest, and the segments in pieces.

A commit is one transaction, so a kill on either side leaves the state before or after it. Large segments are sent
before the transaction, piece by piece, so that an interrupted commit need not send them again. The next commit deletes
what it does not name. Tables are partitioned by repository, and every statement names one. The lease is an advisory
lock of the session, which the server frees when the connection ends. Behind a pooler that connection must be the
session's own ("session mode").
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from context_engine.team.postgres_search import PostgresSearch
from context_engine.team.postgres_session import (
    PostgresTables,
    SchemaPart,
    fetch_value,
    partition_statements,
    translate_errors,
)
from context_engine.team.remote_store import (
    PIECE_BYTES,
    ManifestRevision,
    RemoteStore,
    RepositoryLease,
    busy_error,
)

PARTITIONS = 16
"""Each has its own indexes: with fifty repositories on a server, no table is larger than some gigabytes."""
_TABLES = """
CREATE TABLE context_engine.manifest (
    repository text PRIMARY KEY, revision bigint NOT NULL, content bytea,
    committed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE context_engine.piece (
    repository text, name text, number int, size bigint NOT NULL, content bytea NOT NULL,
    PRIMARY KEY (repository, name, number)
) PARTITION BY HASH (repository);
ALTER TABLE context_engine.manifest ALTER content SET STORAGE EXTERNAL;
ALTER TABLE context_engine.piece ALTER content SET STORAGE EXTERNAL;
"""
"""EXTERNAL: segments hardly get smaller by compression, so neither side spends time on it."""
INDEX = SchemaPart("index", ((_TABLES, *partition_statements("piece", PARTITIONS)),))
"""1: manifest, piece."""
_SWAP = """
INSERT INTO context_engine.manifest AS now (repository, revision, content) VALUES (%s, %s, %s)
ON CONFLICT (repository) DO UPDATE SET revision = EXCLUDED.revision, content = EXCLUDED.content, committed_at = now()
WHERE now.revision = %s
RETURNING now.revision
"""


class PostgresStore(PostgresTables, RemoteStore):
    """The remote store in the schema `context_engine` of one database. It connects at the first call."""

    def __init__(self, address: str) -> None:
        """Connect to nothing yet. Raises: InvalidArgument."""
        super().__init__(address)
        self.search = PostgresSearch(address)

    def revision(self, repository: str) -> int:
        """Return the revision."""
        rows = self._database.query(
            INDEX, "SELECT revision FROM context_engine.manifest WHERE repository = %s", (repository,)
        )
        if rows:
            return rows[0][0]
        return 0

    def read_manifest(self, repository: str) -> ManifestRevision:
        """Return the manifest and its revision."""
        rows = self._database.query(
            INDEX,
            "SELECT revision, content, extract(epoch FROM committed_at)::float8 "
            "FROM context_engine.manifest WHERE repository = %s",
            (repository,),
        )
        if rows:
            return ManifestRevision(*rows[0])
        return ManifestRevision(0, None)

    def read_piece(self, repository: str, name: str, number: int) -> tuple[int, bytes] | None:
        """Return the size of a segment and one of its pieces."""
        query = "SELECT size, content FROM context_engine.piece WHERE repository = %s AND name = %s AND number = %s"
        rows = self._database.query(INDEX, query, (repository, name, number))
        if rows:
            return (rows[0][0], rows[0][1])
        return None

    def list_segment_sizes(self, repository: str) -> dict[str, int]:
        """Return the size of each segment that is stored completely."""
        rows = self._database.query(
            INDEX,
            "SELECT name, sum(octet_length(content)) FROM context_engine.piece WHERE repository = %s "
            "GROUP BY name HAVING sum(octet_length(content)) = max(size)",
            (repository,),
        )
        return {name: int(size) for name, size in rows}

    def count_stored_bytes(self, repository: str) -> int:
        """Return the size of all pieces."""
        query = "SELECT coalesce(sum(octet_length(content)), 0) FROM context_engine.piece WHERE repository = %s"
        return sum(int(size) for (size,) in self._database.query(INDEX, query, (repository,)))

    def list_repositories(self) -> list[str]:
        """Return the repositories that have a manifest or pieces, sorted."""
        rows = self._database.query(
            INDEX,
            "SELECT repository FROM context_engine.manifest WHERE content IS NOT NULL "
            "UNION SELECT repository FROM context_engine.piece",
        )
        return sorted(name for (name,) in rows)

    @contextmanager
    def acquire_lease(self, repository: str, wait_s: float) -> Generator[RepositoryLease]:
        """Acquire the right to write, for one session at a time. Raises: StorageBusy."""
        with self._database.hold_lock(INDEX, repository, wait_s, busy_error(repository)) as connection:
            yield _PostgresLease(self, repository, connection)


class _PostgresLease(RepositoryLease):
    """A lease on the connection that has the advisory lock."""

    def __init__(self, store: PostgresStore, repository: str, connection: psycopg.Connection) -> None:
        self._store = store
        self._repository = repository
        self._connection = connection

    def commit(self, revision: int, manifest: bytes, added: Mapping[str, Path], named: Collection[str]) -> int:
        """Replace `revision` in one transaction, with the new segments and without those that are not named."""
        if sum(path.stat().st_size for path in added.values()) > PIECE_BYTES:
            with translate_errors(self._store.name):  # each piece that arrives stays, and is not sent again
                self._send_missing(added)
        with translate_errors(self._store.name), self._connection.transaction():
            if not fetch_value(self._connection, _SWAP, (self._repository, revision + 1, manifest, revision)):
                raise busy_error(self._repository)
            self._send_missing(added)
            delete = "DELETE FROM context_engine.piece WHERE repository = %s AND name <> ALL(%s)"
            self._connection.execute(delete, (self._repository, list(named)))
        return revision + 1

    def clear(self) -> int:
        """Delete the manifest and the segments; return the bytes freed."""
        freed = self._store.count_stored_bytes(self._repository)
        with translate_errors(self._store.name), self._connection.transaction():
            self._connection.execute(
                "UPDATE context_engine.manifest SET revision = revision + 1, content = NULL, committed_at = now() "
                "WHERE repository = %s",
                (self._repository,),
            )
            self._connection.execute("DELETE FROM context_engine.piece WHERE repository = %s", (self._repository,))
        self._store.search.remove(self._repository)
        return freed

    def write_piece(self, name: str, number: int, size: int, content: bytes) -> None:
        """Store one piece of a segment."""
        insert = "INSERT INTO context_engine.piece VALUES (%s, %s, %s, %s, %b)"
        self._connection.execute(insert, (self._repository, name, number, size, content))

    def _send_missing(self, segments: Mapping[str, Path]) -> None:
        query = "SELECT number FROM context_engine.piece WHERE repository = %s AND name = %s"
        for name, path in segments.items():
            stored = {number for (number,) in self._connection.execute(query, (self._repository, name))}
            self._send_pieces(name, path, stored)
