"""The vectors of a team on PostgreSQL: a row of bytes for each, as every machine stores them. Needs no extension.

    vector_space    the short number of a repository, a way to make vectors, and their dimensions
    vector          space and key -> the numbers, one byte each, their scale, and the day of their last use

Tables are partitioned by space, and every statement names one or a repository. Writers of a space take turns, because
two of them that write the same rows in another order would deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from context_engine.embedding import KEY_BYTES, Keys, VectorRows, VectorSpace
from context_engine.sharing.postgres_session import (
    PostgresTables,
    SchemaPart,
    Statement,
    fetch_value,
    partition_statements,
)
from context_engine.sharing.remote_vectors import (
    Mask,
    RemoteVectorStore,
    align_rows,
    check_shape,
    key_bytes,
    split_messages,
)

PARTITIONS = 16
"""As for the pieces of an index: no table is larger than some gigabytes."""
ROW_OVERHEAD_BYTES = 60
"""What is sent with the numbers of a row: key, scale, lengths."""

VECTORS = SchemaPart(
    "vectors",
    (
        (
            """
            CREATE TABLE context_engine.vector_space (
                id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                repository text NOT NULL, fingerprint text NOT NULL, dimensions int NOT NULL,
                UNIQUE (repository, fingerprint, dimensions)
            )
            """,
            """
            CREATE TABLE context_engine.vector (
                space int NOT NULL, day int NOT NULL, scale real NOT NULL, key bytea NOT NULL, numbers bytea NOT NULL,
                PRIMARY KEY (space, key)
            ) PARTITION BY HASH (space)
            """,
            "ALTER TABLE context_engine.vector ALTER numbers SET STORAGE EXTERNAL",
            *partition_statements("vector", PARTITIONS),
        ),
    ),
)
"""EXTERNAL: the numbers of a vector do not get smaller by compression."""
_LOCK_SPACE = (
    "INSERT INTO context_engine.vector_space (repository, fingerprint, dimensions) VALUES (%s, %s, %s) "
    "ON CONFLICT (repository, fingerprint, dimensions) DO UPDATE SET dimensions = EXCLUDED.dimensions RETURNING id"
)
"""Returns the number of a space and locks its row, so that no other transaction writes the space meanwhile."""
_FIND_KEYS = """
SELECT key FROM context_engine.vector WHERE key = ANY(%s) AND space = (
    SELECT id FROM context_engine.vector_space WHERE (repository, fingerprint, dimensions) = (%s, %s, %s)
)
"""
_FIND_ROWS = """
SELECT key, scale, numbers FROM context_engine.vector WHERE key = ANY(%s) AND space = (
    SELECT id FROM context_engine.vector_space WHERE (repository, fingerprint, dimensions) = (%s, %s, %s)
)
"""
_FIND_DAMAGED = """
SELECT fingerprint, dimensions, count(*) FROM context_engine.vector_space JOIN context_engine.vector ON space = id
WHERE repository = %s AND NOT (
    octet_length(numbers) = dimensions AND octet_length(key) = %s AND scale >= 0 AND scale < 'Infinity'
)
GROUP BY fingerprint, dimensions ORDER BY fingerprint, dimensions
"""
_DELETE_DAMAGED = """
DELETE FROM context_engine.vector USING context_engine.vector_space
WHERE space = id AND repository = %s AND NOT (
    octet_length(numbers) = dimensions AND octet_length(key) = %s AND scale >= 0 AND scale < 'Infinity'
)
"""


class PostgresVectors(PostgresTables, RemoteVectorStore):
    """The vectors in the schema `context_engine` of one database. It connects at the first call."""

    # -- reading --

    def contains(self, repository: str, space: VectorSpace, keys: Keys) -> Mask:
        """Return which keys have a row."""
        stored = {key for (key,) in self._select(_FIND_KEYS, repository, space, keys, KEY_BYTES)}
        return np.fromiter((key in stored for key in key_bytes(keys)), bool, len(keys))

    def fetch(self, repository: str, space: VectorSpace, keys: Keys) -> tuple[VectorRows, Mask]:
        """Return a row for each key, zeros where none is stored, and which keys have one."""
        found = self._select(_FIND_ROWS, repository, space, keys, space.dimensions + ROW_OVERHEAD_BYTES)
        return align_rows(keys, space, {key: (scale, numbers) for key, scale, numbers in found})

    def _select(
        self, query: Statement, repository: str, space: VectorSpace, keys: Keys, row_bytes: int
    ) -> Iterator[tuple]:
        """Yield the rows of a query for some keys, in as many messages as needed."""
        for portion in split_messages(len(keys), row_bytes):
            yield from self._database.query(VECTORS, query, (key_bytes(keys[portion]), *_values(repository, space)))

    def count_by_space(self, repository: str) -> dict[VectorSpace, int]:
        """Count the rows by space."""
        rows = self._database.query(
            VECTORS,
            "SELECT fingerprint, dimensions, count(*) "
            "FROM context_engine.vector_space JOIN context_engine.vector ON space = id "
            "WHERE repository = %s GROUP BY fingerprint, dimensions",
            (repository,),
        )
        return {VectorSpace(made, size): count for made, size, count in rows}

    def check(self, repository: str, *, repair: bool = False) -> list[str]:
        """Return the problems of a repository's rows, as text; `repair` deletes what is damaged."""
        damaged = self._database.query(VECTORS, _FIND_DAMAGED, (repository, KEY_BYTES))
        if damaged and repair:
            with self._database.transaction(VECTORS) as connection:
                connection.execute(_DELETE_DAMAGED, (repository, KEY_BYTES))
        return [f"{count} vectors of {size} numbers ({made}) are damaged" for made, size, count in damaged]

    # -- writing --

    def put(self, repository: str, space: VectorSpace, keys: Keys, rows: VectorRows, day: int) -> int:
        """Store a row for each key, used on a day; return how many were new. Raises: InvalidVectors, DiskFull."""
        check_shape(space, keys, rows)
        insert = (
            "INSERT INTO context_engine.vector (space, day, scale, key, numbers) "
            "SELECT %s, %s, * FROM unnest(%s::real[], %s::bytea[], %s::bytea[]) ON CONFLICT DO NOTHING"
        )
        inserted = 0
        for portion in split_messages(len(keys), space.dimensions + ROW_OVERHEAD_BYTES):
            numbers = [row.tobytes() for row in rows.values[portion]]
            scales = rows.scales[portion].tolist()
            with self._database.transaction(VECTORS) as connection:
                number = fetch_value(connection, _LOCK_SPACE, _values(repository, space))
                values = (number, day, scales, key_bytes(keys[portion]), numbers)
                inserted += connection.execute(insert, values).rowcount
        return inserted

    def mark_used(self, repository: str, space: VectorSpace, keys: Keys, day: int, before: int) -> None:
        """Store the day of use of these keys, where the stored day is before `before`."""
        update = "UPDATE context_engine.vector SET day = %s WHERE space = %s AND day < %s AND key = ANY(%s)"
        for portion in split_messages(len(keys), KEY_BYTES):
            with self._database.transaction(VECTORS) as connection:
                number = fetch_value(connection, _LOCK_SPACE, _values(repository, space))
                connection.execute(update, (day, number, before, key_bytes(keys[portion])))

    def delete_unused(self, repository: str, before: int) -> int:
        """Delete the rows whose last use was before a day; return how many."""
        select = "SELECT id FROM context_engine.vector_space WHERE repository = %s ORDER BY id FOR UPDATE"
        delete = "DELETE FROM context_engine.vector WHERE space = ANY(%s) AND day < %s"
        with self._database.transaction(VECTORS) as connection:
            spaces = [number for (number,) in connection.execute(select, (repository,))]
            return connection.execute(delete, (spaces, before)).rowcount


def _values(repository: str, space: VectorSpace) -> tuple[str, str, int]:
    """Return the values that identify a space in a statement."""
    return repository, space.fingerprint, space.dimensions
