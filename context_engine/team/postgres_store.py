"""The remote store on PostgreSQL: for each repository a manifest with a revision, and segments in pieces.

A commit is one transaction, so a kill on either side leaves the state before or after it. Large segments are sent
before the transaction, piece by piece, so that an interrupted commit need not send them again. The next commit deletes
what it does not name. A reader sees one revision with everything that belongs to it, or gets `FileNotFoundError` when
a newer one replaced it meanwhile. Tables are partitioned by repository, and every statement names one. The lease is an
advisory lock of the session, which the server frees when the connection ends. Behind a pooler that connection must be
the session's own ("session mode").
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg

from context_engine.storage import open_private
from context_engine.team.postgres_search import PostgresSearch
from context_engine.team.postgres_session import (
    PostgresTables,
    SchemaPart,
    fetch_value,
    partition_statements,
    translate_errors,
)
from context_engine.team.remote_store import ManifestRevision, busy_error

PIECE_BYTES = 8_000_000
"""Segments are sent in pieces of this size: no message, and no copy in memory, is larger."""
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


class PostgresStore(PostgresTables):
    """The indexes in the schema `context_engine` of one database. Thread-safe; it connects at the first call.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is. Every call
    names the repository, and no call reaches the data of another one.
    """

    def __init__(self, address: str) -> None:
        """Connect to nothing yet. Raises: InvalidArgument."""
        super().__init__(address)
        self.search = PostgresSearch(address)

    def revision(self, repository: str) -> int:
        """Return the revision, which rises with every change, also when the repository is cleared. One short query."""
        query = "SELECT revision FROM context_engine.manifest WHERE repository = %s"
        return next((revision for (revision,) in self._database.query(INDEX, query, (repository,))), 0)

    def read_manifest(self, repository: str) -> ManifestRevision:
        """Return the manifest and its revision."""
        rows = self._database.query(
            INDEX,
            "SELECT revision, content, extract(epoch FROM committed_at)::float8 "
            "FROM context_engine.manifest WHERE repository = %s",
            (repository,),
        )
        return ManifestRevision(*rows[0]) if rows else ManifestRevision(0, None)

    def fetch(self, repository: str, name: str, target: Path) -> None:
        """Write a segment to a file. Raises: FileNotFoundError when it is not stored, or no longer."""
        query = "SELECT size, content FROM context_engine.piece WHERE repository = %s AND name = %s AND number = %s"
        size, number = 1, 0
        with open(target, "wb", opener=open_private) as out:
            while out.tell() < size:
                rows = self._database.query(INDEX, query, (repository, name, number))
                if not rows:
                    raise FileNotFoundError(name)
                size, content = rows[0]
                out.write(content)
                number += 1

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
        """Return the size of all pieces, also of segments that have not arrived completely."""
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
        """Acquire the right to write, for one process on all machines. Raises: StorageBusy."""
        with self._database.hold_lock(INDEX, repository, wait_s, busy_error(repository)) as connection:
            yield RepositoryLease(self, repository, connection)


class RepositoryLease:
    """The right to change one repository, on the connection that has the lock. It ends with it, or with its process.

    All calls raise StorageBusy when the lease was lost, and DiskFull.
    """

    def __init__(self, store: PostgresStore, repository: str, connection: psycopg.Connection) -> None:
        self._store = store
        self._repository = repository
        self._connection = connection

    def commit(self, revision: int, manifest: bytes, added: Mapping[str, Path], named: Collection[str]) -> int:
        """Replace `revision` by a manifest with its new segments; return the new revision.

        `named` are all segments that the manifest needs; all others are deleted. Pieces that arrived stay after an
        interruption, and are not sent again. Raises StorageBusy when the repository is no longer at `revision`.
        """
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
        """Store one piece of a segment of `size` bytes."""
        insert = "INSERT INTO context_engine.piece VALUES (%s, %s, %s, %s, %b)"
        self._connection.execute(insert, (self._repository, name, number, size, content))

    def _send_missing(self, segments: Mapping[str, Path]) -> None:
        query = "SELECT number FROM context_engine.piece WHERE repository = %s AND name = %s"
        for name, path in segments.items():
            stored = {number for (number,) in self._connection.execute(query, (self._repository, name))}
            size = path.stat().st_size
            for number, content in read_pieces(path):
                if number not in stored:
                    self.write_piece(name, number, size, content)


def read_pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a segment, in order, with their numbers."""
    with open(path, "rb") as source:
        yield from enumerate(iter(partial(source.read, PIECE_BYTES), b""))
