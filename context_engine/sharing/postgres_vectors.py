"""The vectors of a team on PostgreSQL: a row of bytes for each, as every machine keeps them. Needs no extension.

    vector_space    a repository, how its vectors are made, and how many numbers one has, under a short number
    vector          space and key -> the numbers, one byte each, their scale, and the day they were last of use

Tables are partitioned by space, and every statement names one or a repository. Writers of a space take turns: two
that write the same in another order would wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from context_engine.embedding import KEY_BYTES, Keys, VectorRows, VectorSpace
from context_engine.sharing.postgres_session import (
    PostgresSession,
    SchemaPart,
    Statement,
    fetch_value,
    partition_statements,
)
from context_engine.sharing.remote_vectors import Mask, align_rows, check_shape, key_bytes, split_messages

PARTITIONS = 16
"""As many as an index's pieces have: no table of more than some gigabytes."""
BESIDE_BYTES = 60
"""What travels with the numbers of a row: key, scale, lengths."""

PART = SchemaPart(
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
"""EXTERNAL: the numbers of a vector are no smaller for being compressed."""
_OWN_SPACE = (
    "INSERT INTO context_engine.vector_space (repository, fingerprint, dimensions) VALUES (%s, %s, %s) "
    "ON CONFLICT (repository, fingerprint, dimensions) DO UPDATE SET dimensions = EXCLUDED.dimensions RETURNING id"
)
"""The number of a space that is to be written, which is nobody else's to write until the transaction ends."""
_KNOWN = """
SELECT key FROM context_engine.vector WHERE key = ANY(%s) AND space = (
    SELECT id FROM context_engine.vector_space WHERE (repository, fingerprint, dimensions) = (%s, %s, %s)
)
"""
_ROWS = """
SELECT key, scale, numbers FROM context_engine.vector WHERE key = ANY(%s) AND space = (
    SELECT id FROM context_engine.vector_space WHERE (repository, fingerprint, dimensions) = (%s, %s, %s)
)
"""
_DAMAGED = """
SELECT fingerprint, dimensions, count(*) FROM context_engine.vector_space JOIN context_engine.vector ON space = id
WHERE repository = %s AND NOT (
    octet_length(numbers) = dimensions AND octet_length(key) = %s AND scale >= 0 AND scale < 'Infinity'
)
GROUP BY fingerprint, dimensions ORDER BY fingerprint, dimensions
"""
_DROP_DAMAGED = """
DELETE FROM context_engine.vector USING context_engine.vector_space
WHERE space = id AND repository = %s AND NOT (
    octet_length(numbers) = dimensions AND octet_length(key) = %s AND scale >= 0 AND scale < 'Infinity'
)
"""


class PostgresVectors:
    """The remote vector store in the schema `context_engine` of one database.

    Thread-safe. Nothing is connected until it is asked.
    """

    def __init__(self, address: str) -> None:
        """`address`: `postgresql://user@host/database`. Raises: InvalidArgument."""
        self._database = PostgresSession(address)
        self.name = self._database.name

    # -- reading --

    def contains(self, repository: str, space: VectorSpace, keys: Keys) -> Mask:
        """Return which keys have a row."""
        found = {key for (key,) in self._under(_KNOWN, repository, space, keys, KEY_BYTES)}
        return np.fromiter((key in found for key in key_bytes(keys)), bool, len(keys))

    def fetch(self, repository: str, space: VectorSpace, keys: Keys) -> tuple[VectorRows, Mask]:
        """A row for each key, and which were found; the others are zeros."""
        found = self._under(_ROWS, repository, space, keys, space.dimensions + BESIDE_BYTES)
        return align_rows(keys, space, {key: (scale, numbers) for key, scale, numbers in found})

    def _under(
        self, query: Statement, repository: str, space: VectorSpace, keys: Keys, row_bytes: int
    ) -> Iterator[tuple]:
        """What a question finds under some keys, in as many messages as it takes."""
        for portion in split_messages(len(keys), row_bytes):
            yield from self._database.query(PART, query, (key_bytes(keys[portion]), *_values(repository, space)))

    def count_by_space(self, repository: str) -> dict[VectorSpace, int]:
        """How many rows there are, by space."""
        rows = self._database.query(
            PART,
            "SELECT fingerprint, dimensions, count(*) FROM context_engine.vector_space JOIN context_engine.vector ON space = id "
            "WHERE repository = %s GROUP BY fingerprint, dimensions",
            (repository,),
        )
        return {VectorSpace(made, size): count for made, size, count in rows}

    def check(self, repository: str, *, repair: bool = False) -> list[str]:
        """What is wrong with the rows of a repository, in words; a `repair` drops what is damaged."""
        damaged = self._database.query(PART, _DAMAGED, (repository, KEY_BYTES))
        if damaged and repair:
            with self._database.transaction(PART) as connection:
                connection.execute(_DROP_DAMAGED, (repository, KEY_BYTES))
        return [f"{count} vectors of {size} numbers ({made}) are damaged" for made, size, count in damaged]

    # -- writing --

    def put(self, repository: str, space: VectorSpace, keys: Keys, rows: VectorRows, day: int) -> int:
        """Keep a row for each key, used on a day; how many were new. Raises: InvalidVectors, DiskFull."""
        check_shape(space, keys, rows)
        return sum(
            self._put(repository, space, keys[each], VectorRows(rows.values[each], rows.scales[each]), day)
            for each in split_messages(len(keys), space.dimensions + BESIDE_BYTES)
        )

    def _put(self, repository: str, space: VectorSpace, keys: Keys, rows: VectorRows, day: int) -> int:
        insert = (
            "INSERT INTO context_engine.vector (space, day, scale, key, numbers) "
            "SELECT %s, %s, * FROM unnest(%s::real[], %s::bytea[], %s::bytea[]) ON CONFLICT DO NOTHING"
        )
        numbers = [row.tobytes() for row in rows.values]
        with self._database.transaction(PART) as connection:
            own = fetch_value(connection, _OWN_SPACE, _values(repository, space))
            return connection.execute(insert, (own, day, rows.scales.tolist(), key_bytes(keys), numbers)).rowcount

    def mark_used(self, repository: str, space: VectorSpace, keys: Keys, day: int, before: int) -> None:
        """These were used on a day; only those whose last day lies before another one are written."""
        update = "UPDATE context_engine.vector SET day = %s WHERE space = %s AND day < %s AND key = ANY(%s)"
        for portion in split_messages(len(keys), KEY_BYTES):
            with self._database.transaction(PART) as connection:
                own = fetch_value(connection, _OWN_SPACE, _values(repository, space))
                connection.execute(update, (day, own, before, key_bytes(keys[portion])))

    def delete_unused(self, repository: str, before: int) -> int:
        """Drop what was used before a day and never since; how many rows."""
        every = "SELECT id FROM context_engine.vector_space WHERE repository = %s ORDER BY id FOR UPDATE"
        delete = "DELETE FROM context_engine.vector WHERE space = ANY(%s) AND day < %s"
        with self._database.transaction(PART) as connection:
            spaces = [number for (number,) in connection.execute(every, (repository,))]
            return connection.execute(delete, (spaces, before)).rowcount

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        self._database.close()


def _values(repository: str, space: VectorSpace) -> tuple[str, str, int]:
    """What names a space in a statement."""
    return repository, space.fingerprint, space.dimensions
