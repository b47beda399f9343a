"""A depot on PostgreSQL: one row a repository says what counts, segments lie beside it in pieces. Only this file speaks SQL to it.

A commit is one transaction, so a kill on either side leaves the state before or after it and nothing that nobody names. Tables
are partitioned by repository, and every statement names one. One writer a repository: an advisory lock of the session, which
the server frees when the writer's connection ends. Behind a pooler the connection must be the session's own ("session mode").
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict

from context_engine.errors import ContextEngineError, DiskFull, InvalidArgument, StoreUnusable
from context_engine.store.depot import PIECE_BYTES, Held, busy, unavailable

LAYOUT = 1
"""Raise it when tables change, and say below how the older ones become the newer. 1: manifest, piece."""
PARTITIONS = 16
"""Each has indexes of its own: fifty repositories a server, and no table of more than some gigabytes."""
CONNECT_S = 5
"""Longer than the longest way round the world; an answer does not wait for it twice (DOWN_REST_S)."""
LOCK_POLL_S = 0.05
_TABLES = """
CREATE SCHEMA IF NOT EXISTS context_engine;
CREATE TABLE context_engine.layout (version int NOT NULL);
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
_CREATING = 7_289_001
"""An advisory lock among those who find no tables at the same moment."""


class PostgresDepot:
    """The depot in the schema `context_engine` of one database. Thread-safe. Nothing is connected until it is asked."""

    def __init__(self, address: str) -> None:
        """`address`: `postgresql://user@host/database`; a password may stand in it, or where libpq looks for it."""
        self.name = _without_password(address)
        self._address = address
        self._lock = threading.RLock()
        self._reading: psycopg.Connection | None = None
        self._writing: dict[str, psycopg.Connection] = {}

    # -- reading --

    def revision(self, repository: str) -> int:
        """Rises with every change, clearing included."""
        rows = self._rows("SELECT revision FROM context_engine.manifest WHERE repository = %s", (repository,))
        return rows[0][0] if rows else 0

    def held(self, repository: str) -> Held:
        """The manifest and its revision."""
        rows = self._rows("SELECT revision, content FROM context_engine.manifest WHERE repository = %s", (repository,))
        return Held(*rows[0]) if rows else Held(0, None)

    def fetch(self, repository: str, name: str, target: Path) -> None:
        """Write a segment to a file. Raises: FileNotFoundError when it is not there, or no longer."""
        size, number = 1, 0
        one = "SELECT size, content FROM context_engine.piece WHERE repository = %s AND name = %s AND number = %s"
        with open(target, "wb") as out:
            while out.tell() < size:
                rows = self._rows(one, (repository, name, number))
                if not rows:
                    raise FileNotFoundError(name)
                size, content = rows[0]
                out.write(content)
                number += 1

    def sizes(self, repository: str) -> dict[str, int]:
        """Bytes of each segment that is there as a whole."""
        rows = self._rows(
            "SELECT name, sum(octet_length(content)) FROM context_engine.piece WHERE repository = %s "
            "GROUP BY name HAVING sum(octet_length(content)) = max(size)",
            (repository,),
        )
        return {name: int(size) for name, size in rows}

    def repositories(self) -> list[str]:
        """Those that have something on it, sorted."""
        rows = self._rows("SELECT repository FROM context_engine.manifest WHERE content IS NOT NULL")
        return sorted(name for (name,) in rows)

    def _rows(self, query: Any, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The answer to one question; a connection that was lost since the last one is made anew once."""
        with self._lock, self._told():
            for is_last in (False, True):
                if self._reading is None:
                    self._reading = self._connected()
                try:
                    return self._reading.execute(query, values, binary=True).fetchall()
                except psycopg.OperationalError:
                    self._reading.close()
                    self._reading = None
                    if is_last:
                        raise
        raise AssertionError  # the loop returns or raises

    # -- writing --

    @contextmanager
    def writing(self, repository: str, wait_s: float) -> Generator[None]:
        """The right to write, of one session at a time. Raises: StorageBusy."""
        with self._told():
            connection = self._connected()
        try:
            with self._told():
                until = time.monotonic() + wait_s
                take = "SELECT pg_try_advisory_lock(hashtextextended(%s, 9))"
                while not _value(connection, take, (repository,)):
                    if time.monotonic() >= until:
                        raise busy(repository)
                    time.sleep(LOCK_POLL_S)
            self._writing[repository] = connection
            yield
        finally:
            self._writing.pop(repository, None)
            with suppress(psycopg.Error):  # the server frees it too, but only once it sees that we are gone
                connection.execute("SELECT pg_advisory_unlock_all()")
            connection.close()

    def commit(
        self, repository: str, revision: int, manifest: bytes, added: Mapping[str, Path], dropped: Collection[str]
    ) -> int:
        """One transaction: new segments, the manifest in place of `revision`, and what it no longer names is gone."""
        connection = self._writing[repository]
        with self._told(), connection.transaction():
            if not _value(connection, _SWAP, (repository, revision + 1, manifest, revision)):
                raise busy(repository)
            for name, path in added.items():
                _put(connection, repository, name, path)
            connection.execute(
                "DELETE FROM context_engine.piece WHERE repository = %s AND name = ANY(%s)", (repository, list(dropped))
            )
        return revision + 1

    def clear(self, repository: str) -> int:
        """Drop manifest and segments; bytes freed."""
        freed = sum(self.sizes(repository).values())
        connection = self._writing[repository]
        with self._told(), connection.transaction():
            connection.execute(
                "UPDATE context_engine.manifest SET revision = revision + 1, content = NULL, committed_at = now() "
                "WHERE repository = %s",
                (repository,),
            )
            connection.execute("DELETE FROM context_engine.piece WHERE repository = %s", (repository,))
        return freed

    # -- connections --

    def _connected(self) -> psycopg.Connection:
        connection = psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=CONNECT_S,
            prepare_threshold=None,  # a pooler between us and the server may not know statements of an earlier session
            application_name="context-engine",
            keepalives_idle=10,
            tcp_user_timeout=10_000,
        )
        try:
            _lay_out(connection, self.name)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _told(self) -> Generator[None]:
        """Turn the database's words into ours."""
        try:
            yield
        except (errors.DiskFull, errors.OutOfMemory) as error:
            raise DiskFull(
                f"the shared store {self.name} has no room left",
                suggestion="free room on its machine; what was committed before is intact",
            ) from error
        except psycopg.OperationalError as error:
            raise unavailable(self.name, error) from error
        except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
            raise StoreUnusable(
                f"the shared store {self.name} may not be written by its user: {_first_line(error)}",
                suggestion="grant it rights on the schema context_engine, or do not share from here",
            ) from error
        except psycopg.Error as error:
            raise _unusable(self.name, _first_line(error)) from error

    def close(self) -> None:
        """Let go of the connection; it can be used again afterwards."""
        with self._lock:
            if self._reading is not None:
                self._reading.close()
                self._reading = None


_SWAP = """
INSERT INTO context_engine.manifest AS now (repository, revision, content) VALUES (%s, %s, %s)
ON CONFLICT (repository) DO UPDATE SET revision = EXCLUDED.revision, content = EXCLUDED.content, committed_at = now()
WHERE now.revision = %s
RETURNING now.revision
"""


def _value(connection: psycopg.Connection, query: LiteralString, values: tuple[Any, ...]) -> Any:
    """The first column of the first row; None when there is none."""
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None


def _put(connection: psycopg.Connection, repository: str, name: str, path: Path) -> None:
    """A segment in pieces; one that a transaction before us put there stays."""
    size = path.stat().st_size
    insert = "INSERT INTO context_engine.piece VALUES (%s, %s, %s, %s, %b) ON CONFLICT DO NOTHING"
    with open(path, "rb") as source:
        number = 0
        while content := source.read(PIECE_BYTES):
            connection.execute(insert, (repository, name, number, size, content))
            number += 1


def _lay_out(connection: psycopg.Connection, name: str) -> None:
    """Make the tables where there are none. Raises: StoreUnusable when they are another version's."""
    if _value(connection, "SELECT to_regclass('context_engine.layout')", ()) is None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))
            if _value(connection, "SELECT to_regclass('context_engine.layout')", ()) is None:
                connection.execute(_TABLES)
                for number in range(PARTITIONS):
                    connection.execute(_partition(number))
                connection.execute("INSERT INTO context_engine.layout VALUES (%s)", (LAYOUT,))
    version = _value(connection, "SELECT version FROM context_engine.layout", ())
    if version != LAYOUT:
        raise StoreUnusable(
            f"the shared store {name} is laid out as version {version}, and this program knows version {LAYOUT}",
            suggestion="use the same release of smart-context-engine everywhere, or another database",
            details={"found": version, "known": LAYOUT},
        )


def _partition(number: int) -> sql.Composed:
    return sql.SQL(
        "CREATE TABLE context_engine.{} PARTITION OF context_engine.piece FOR VALUES WITH (MODULUS {}, REMAINDER {})"
    ).format(sql.Identifier(f"piece_{number}"), sql.Literal(PARTITIONS), sql.Literal(number))


def _unusable(name: str, why: str) -> ContextEngineError:
    return StoreUnusable(
        f"the shared store {name} cannot serve: {why}",
        suggestion="check CTX_STORE_URL; the schema context_engine must be ours alone",
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _without_password(address: str) -> str:
    """An address as it may be shown.

    >>> _without_password("postgresql://me:<password>@host:5433/team?sslmode=require")
    'postgresql://host:5433/team'
    """
    try:
        told = conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InvalidArgument(
            f"the address of the shared store is none of PostgreSQL: {_first_line(error)}",
            suggestion="write CTX_STORE_URL like postgresql://user@host:5432/database",
        ) from None
    port = f":{told['port']}" if told.get("port") else ""
    return f"postgresql://{told.get('host', '')}{port}/{told.get('dbname', '')}"
