"""The remote store on PostgreSQL: one row a repository says what counts, segments lie beside it in pieces.

A commit is one transaction, so a kill on either side leaves the state before or after it. What is much to send goes
ahead of it, piece by piece, so that who was broken off need not send it again; the next commit drops what it does not
name. Tables are partitioned by repository, and every statement names one. One writer a repository: an advisory lock of
the session, which the server frees when the writer's connection ends. Behind a pooler that connection must be the
session's own ("session mode").
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from context_engine.sharing.postgres_session import (
    PostgresSession,
    SchemaPart,
    fetch_value,
    partition_statements,
    translate_errors,
)
from context_engine.sharing.remote_store import PIECE_BYTES, ManifestRevision, OnBytesSent, busy_error, read_pieces

PARTITIONS = 16
"""Each has indexes of its own: fifty repositories a server, and no table of more than some gigabytes."""
_TABLES = """
CREATE TABLE context_engine.manifest (
    repository text PRIMARY KEY, revision bigint NOT NULL, content bytea, committed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE context_engine.piece (
    repository text, name text, number int, size bigint NOT NULL, content bytea NOT NULL,
    PRIMARY KEY (repository, name, number)
) PARTITION BY HASH (repository);
ALTER TABLE context_engine.manifest ALTER content SET STORAGE EXTERNAL;
ALTER TABLE context_engine.piece ALTER content SET STORAGE EXTERNAL;
"""
"""EXTERNAL: what is hardly smaller for it need not be compressed, on either side."""
INDEX = SchemaPart("index", ((_TABLES, *partition_statements("piece", PARTITIONS)),))
"""1: manifest, piece."""


class PostgresStore:
    """The remote store in the schema `context_engine` of one database.

    Thread-safe. Nothing is connected until it is asked.
    """

    def __init__(self, address: str) -> None:
        """`address`: `postgresql://user@host/database`; a password may stand in it, or where libpq looks for it."""
        self._database = PostgresSession(address)
        self.name = self._database.name
        self._writing: dict[str, psycopg.Connection] = {}

    # -- reading --

    def revision(self, repository: str) -> int:
        """Rises with every change, clearing included."""
        rows = self._database.query(
            INDEX, "SELECT revision FROM context_engine.manifest WHERE repository = %s", (repository,)
        )
        return rows[0][0] if rows else 0

    def read_manifest(self, repository: str) -> ManifestRevision:
        """Return the manifest and its revision."""
        rows = self._database.query(
            INDEX,
            "SELECT revision, content, extract(epoch FROM committed_at)::float8 "
            "FROM context_engine.manifest WHERE repository = %s",
            (repository,),
        )
        return ManifestRevision(*rows[0]) if rows else ManifestRevision(0, None)

    def fetch(self, repository: str, name: str, target: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Write a segment to a file. Raises: FileNotFoundError when it is not there, or no longer."""
        size, number = 1, 0
        one = "SELECT size, content FROM context_engine.piece WHERE repository = %s AND name = %s AND number = %s"
        with open(target, "wb") as out:
            while out.tell() < size:
                rows = self._database.query(INDEX, one, (repository, name, number))
                if not rows:
                    raise FileNotFoundError(name)
                size, content = rows[0]
                out.write(content)
                sent(len(content))
                number += 1

    def list_segment_sizes(self, repository: str) -> dict[str, int]:
        """Return the bytes of each segment that is stored completely."""
        rows = self._database.query(
            INDEX,
            "SELECT name, sum(octet_length(content)) FROM context_engine.piece WHERE repository = %s "
            "GROUP BY name HAVING sum(octet_length(content)) = max(size)",
            (repository,),
        )
        return {name: int(size) for name, size in rows}

    def count_stored_bytes(self, repository: str) -> int:
        """Bytes of all its pieces."""
        size = "SELECT coalesce(sum(octet_length(content)), 0) FROM context_engine.piece WHERE repository = %s"
        return sum(int(row[0]) for row in self._database.query(INDEX, size, (repository,)))

    def list_repositories(self) -> list[str]:
        """Those that have something on it, sorted; such too of which only pieces have arrived."""
        rows = self._database.query(
            INDEX,
            "SELECT repository FROM context_engine.manifest WHERE content IS NOT NULL "
            "UNION SELECT repository FROM context_engine.piece",
        )
        return sorted(name for (name,) in rows)

    # -- writing --

    @contextmanager
    def acquire_lease(self, repository: str, wait_s: float) -> Generator[None]:
        """The right to write, of one session at a time. Raises: StorageBusy."""
        with self._database.hold_lock(INDEX, repository, wait_s, busy_error(repository)) as connection:
            self._writing[repository] = connection
            try:
                yield
            finally:
                del self._writing[repository]

    def stage(self, repository: str, name: str, path: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Send a segment ahead of its commit; each piece that arrived stays, and is not sent again."""
        with translate_errors(self.name):
            _put(self._writing[repository], repository, name, path, sent)

    def restore(self, repository: str, name: str, path: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Put a segment in the place of what is left of it."""
        connection = self._writing[repository]
        with translate_errors(self.name), connection.transaction():
            connection.execute(
                "DELETE FROM context_engine.piece WHERE repository = %s AND name = %s", (repository, name)
            )
            _put(connection, repository, name, path, sent)

    def commit(
        self, repository: str, revision: int, manifest: bytes, added: Mapping[str, Path], named: Collection[str]
    ) -> int:
        """One transaction: new segments, the manifest in place of `revision`, and what it does not name is gone."""
        connection = self._writing[repository]
        if sum(path.stat().st_size for path in added.values()) > PIECE_BYTES:
            for name, path in added.items():
                self.stage(repository, name, path)
        with translate_errors(self.name), connection.transaction():
            if not fetch_value(connection, _SWAP, (repository, revision + 1, manifest, revision)):
                raise busy_error(repository)
            for name, path in added.items():
                _put(connection, repository, name, path)
            connection.execute(
                "DELETE FROM context_engine.piece WHERE repository = %s AND name <> ALL(%s)", (repository, list(named))
            )
        return revision + 1

    def clear(self, repository: str) -> int:
        """Delete the manifest and the segments; return the bytes freed."""
        freed = self.count_stored_bytes(repository)
        connection = self._writing[repository]
        with translate_errors(self.name), connection.transaction():
            connection.execute(
                "UPDATE context_engine.manifest SET revision = revision + 1, content = NULL, committed_at = now() "
                "WHERE repository = %s",
                (repository,),
            )
            connection.execute("DELETE FROM context_engine.piece WHERE repository = %s", (repository,))
        return freed

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        self._database.close()


_SWAP = """
INSERT INTO context_engine.manifest AS now (repository, revision, content) VALUES (%s, %s, %s)
ON CONFLICT (repository) DO UPDATE SET revision = EXCLUDED.revision, content = EXCLUDED.content, committed_at = now()
WHERE now.revision = %s
RETURNING now.revision
"""


def _put(
    connection: psycopg.Connection, repository: str, name: str, path: Path, sent: OnBytesSent = lambda _: None
) -> None:
    """A segment in pieces, but those that are there."""
    size = path.stat().st_size
    look = "SELECT number FROM context_engine.piece WHERE repository = %s AND name = %s"
    there = {number for (number,) in connection.execute(look, (repository, name))}
    insert = "INSERT INTO context_engine.piece VALUES (%s, %s, %s, %s, %b)"
    for number, content in read_pieces(path):
        if number not in there:
            connection.execute(insert, (repository, name, number, size, content))
        sent(len(content))
