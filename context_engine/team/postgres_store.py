"""The indexes of repositories on PostgreSQL: for each one the list of its segments, and the segments in pieces.

A publication is one transaction after the segments have arrived, piece by piece, so a kill on either side leaves the
state before or after it, and an interrupted one need not send them again. The next one deletes what it does not name.
A reader gets the segments of one list, or `FileNotFoundError` when a newer one replaced it meanwhile. Tables are
partitioned by repository, and every statement names one. The lock is an advisory lock of the session, which the server
frees when the connection ends. Behind a pooler that connection must be the session's own ("session mode").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import psycopg

from context_engine.storage import open_private
from context_engine.team.postgres_search import PostgresSearch
from context_engine.team.postgres_session import (
    PostgresSession,
    SchemaPart,
    fetch_value,
    partition_statements,
)
from context_engine.team.remote_store import PublishedRepository, busy_error, decode_manifest

PIECE_BYTES = 8_000_000
"""Segments are sent in pieces of this size: no message, and no copy in memory, is larger."""
PARTITIONS = 16
"""Each has its own indexes: with fifty repositories on a server, no table is larger than some gigabytes."""
LOCK_WAIT_S = 3.0
"""Publishing an edit takes milliseconds, a first index longer: that one must be waited for by the next run."""
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
_LIST = """
SELECT repository, content, coalesce(extract(epoch FROM committed_at)::float8, 0), coalesce(bytes, 0)::bigint
FROM context_engine.manifest FULL JOIN (
    SELECT repository, sum(octet_length(content)) AS bytes FROM context_engine.piece GROUP BY repository
) AS stored USING (repository)
ORDER BY repository
"""


class PostgresStore(PostgresSession):
    """The indexes in the schema `context_engine` of one database. Thread-safe; it connects at the first call.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is. Every call
    names the repository, and no call reaches the data of another one.
    """

    def __init__(self, address: str) -> None:
        """Connect to nothing yet. Raises: InvalidArgument."""
        super().__init__(address)
        self.search = PostgresSearch(address)

    def list_repositories(self) -> list[PublishedRepository]:
        """Return the repositories of which something is stored, sorted."""
        found = []
        for name, content, committed_at, size in self.query(INDEX, _LIST):
            files = chunks = None
            if content is not None:
                with suppress(msgspec.MsgspecError):  # another release wrote it
                    segments = decode_manifest(content)
                    files = sum(part.files - len(part.dead) for part in segments)
                    chunks = sum(part.chunks for part in segments)
            found.append(PublishedRepository(name, files, chunks, committed_at, size))
        return found

    def read_manifest(self, repository: str) -> bytes | None:
        """Return the list of segments that was published last; None without one."""
        query = "SELECT content FROM context_engine.manifest WHERE repository = %s"
        return next((content for (content,) in self.query(INDEX, query, (repository,))), None)

    def fetch(self, repository: str, name: str, target: Path) -> None:
        """Write a segment to a file. Raises: FileNotFoundError when it is not stored, or no longer."""
        query = "SELECT size, content FROM context_engine.piece WHERE repository = %s AND name = %s AND number = %s"
        size, number = 1, 0
        with open(target, "wb", opener=open_private) as out:
            while out.tell() < size:
                rows = self.query(INDEX, query, (repository, name, number))
                if not rows:
                    raise FileNotFoundError(f"segment {name[:12]} is no longer on the shared store {self.name}")
                size, content = rows[0]
                out.write(content)
                number += 1

    def publish(self, repository: str, manifest: bytes, segments: Mapping[str, Path]) -> int:
        """Replace what is stored by a list of segments and these segments; return its revision.

        Only missing pieces are sent. One process on all machines does it at a time. Raises: StorageBusy, DiskFull.
        """
        with self.hold_lock(INDEX, repository, LOCK_WAIT_S, busy_error(repository)) as connection:
            query = "SELECT revision, content FROM context_engine.manifest WHERE repository = %s"
            revision, stored = connection.execute(query, (repository,)).fetchone() or (0, None)
            if stored == manifest:
                return revision
            for name, path in segments.items():
                _send_missing(connection, repository, name, path)
            with connection.transaction():
                if not fetch_value(connection, _SWAP, (repository, revision + 1, manifest, revision)):
                    raise busy_error(repository)
                delete = "DELETE FROM context_engine.piece WHERE repository = %s AND name <> ALL(%s)"
                connection.execute(delete, (repository, [*segments]))
        return revision + 1

    def remove(self, repository: str) -> int:
        """Delete the index of a repository and its rows for searches; return the bytes freed. Raises: StorageBusy."""
        with self.hold_lock(INDEX, repository, LOCK_WAIT_S, busy_error(repository)) as connection:
            self.search.remove(repository)  # first, since the next publication may have the revision of these rows
            query = "SELECT coalesce(sum(octet_length(content)), 0) FROM context_engine.piece WHERE repository = %s"
            freed = int(fetch_value(connection, query, (repository,)))
            with connection.transaction():
                connection.execute("DELETE FROM context_engine.manifest WHERE repository = %s", (repository,))
                connection.execute("DELETE FROM context_engine.piece WHERE repository = %s", (repository,))
        return freed


def _send_missing(connection: psycopg.Connection, repository: str, name: str, path: Path) -> None:
    """Send the pieces of a segment that have not arrived yet; each one that arrives stays."""
    query = "SELECT number, octet_length(content) FROM context_engine.piece WHERE repository = %s AND name = %s"
    arrived = set(connection.execute(query, (repository, name)).fetchall())
    size = path.stat().st_size
    insert = (
        "INSERT INTO context_engine.piece VALUES (%s, %s, %s, %s, %b) "
        "ON CONFLICT (repository, name, number) DO UPDATE SET size = EXCLUDED.size, content = EXCLUDED.content"
    )
    for number, content in read_pieces(path):
        if (number, len(content)) not in arrived:
            connection.execute(insert, (repository, name, number, size, content))


def read_pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a segment, in order, with their numbers."""
    with open(path, "rb") as source:
        yield from enumerate(iter(partial(source.read, PIECE_BYTES), b""))
