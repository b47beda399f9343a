"""One PostgreSQL database: a few connections that all of this process share, and the version of its schema.

Each part of the schema `context_engine` (index, vectors, records) has its own version in the table `layout`. A query
creates no tables: before the first write it finds nothing. No thread is started, the first call connects, and the
child of a fork never uses its parent's connections.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from context_engine.errors import ContextEngineError, DiskFull, InvalidArgument, StoreUnusable
from context_engine.team.remote_store import unavailable_error

Statement = LiteralString | sql.SQL | sql.Composed
Rows = list[tuple[Any, ...]]
CONNECTIONS_MAX = 4
"""Per process and address, not counting those that hold a lock. A query takes less than a millisecond, so few run at
once. Fifty repositories that are fetched together wait for the network, not for each other."""
CONNECT_S = 5
"""Longer than the longest network path. A store that did not answer is tried again only after RETRY_DELAY_S."""
QUEUE_S = 10.0
"""Four pieces of 8 MB at 30 Mbit/s. A longer wait for a connection is reported as a store that does not answer."""
LOCK_POLL_S = 0.05
_SCHEMA_LOCK = 7_289_001
"""The advisory lock of processes that create the same part of the schema at the same time."""


class SchemaPart(NamedTuple):
    """The tables of one module. `steps[n]` turns version n into version n + 1; a released step never changes.

    A reader checks the version once per connection. So a step that changes the meaning of a table must rename it, too.
    """

    name: str
    steps: tuple[Sequence[Statement], ...]

    @property
    def version(self) -> int:
        """The version after the last step."""
        return len(self.steps)


class PostgresSession:
    """The schema `context_engine` of one database. Thread-safe; sessions of one process and address share connections.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is, DiskFull.
    """

    def __init__(self, address: str) -> None:
        """`address`: `postgresql://user@host/database`; the password may be in it, or where libpq looks for it.

        Nothing is connected yet. Raises: InvalidArgument.
        """
        self.name = format_address(address)
        """Its address without user and password."""
        self._address = address

    @property
    def _pool(self) -> _ConnectionPool:
        return _pool_of(self._address, os.getpid())

    def query(self, part: SchemaPart, query: Statement, values: Sequence[Any] | Mapping[str, Any] = ()) -> Rows:
        """Return the rows of a query; none while the part does not exist."""

        def execute(session: _Session) -> Rows:
            if not session.has_part(part, self.name):
                return []
            return session.connection.execute(query, values, binary=True).fetchall()

        with translate_errors(self.name), self._pool.session(execute, self.name) as (_, rows):
            return rows

    @contextmanager
    def transaction(self, part: SchemaPart) -> Generator[psycopg.Connection]:
        """Open a transaction that is committed at the end of the block. The part is created or upgraded before."""
        with (
            translate_errors(self.name),
            self._pool.session(lambda session: session.upgrade(part, self.name), self.name) as (session, _),
            session.connection.transaction(),
        ):
            yield session.connection

    @contextmanager
    def hold_lock(
        self, part: SchemaPart, name: str, wait_s: float, refusal: ContextEngineError
    ) -> Generator[psycopg.Connection]:
        """Open a connection of its own that holds the lock of a name; only one session on all machines can.

        It is not in a transaction. The server frees the lock when the process dies. After a lost connection, all
        further statements on it fail. Raises: `refusal` when the lock is not free in time.
        """
        with translate_errors(self.name):
            session = _connect(self._address)
            try:
                session.upgrade(part, self.name)
                until, query = time.monotonic() + wait_s, "SELECT pg_try_advisory_lock(hashtextextended(%s, 9))"
                while not fetch_value(session.connection, query, (f"{part.name}/{name}",)):
                    if time.monotonic() >= until:
                        raise refusal
                    time.sleep(LOCK_POLL_S)
                yield session.connection
            finally:
                with suppress(psycopg.Error):  # the server frees it as well, but only once it notices the end
                    session.connection.execute("SELECT pg_advisory_unlock_all()")
                session.connection.close()

    def close(self) -> None:
        """Close the idle connections of this process; the next call connects again."""
        self._pool.close_idle()


@cache
def _pool_of(address: str, process: int) -> _ConnectionPool:  # noqa: ARG001 - a child of a fork has its own pool
    return _ConnectionPool(address)


class _ConnectionPool:
    """The connections of one process to one address. The one that was used last is used first."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._lock = threading.Lock()
        self._idle: list[_Session] = []
        self._closings = 0
        """A session that was in use during a closing is not kept."""

    @contextmanager
    def session(self, first: Callable[[_Session], Any], name: str) -> Generator[tuple[_Session, Any]]:
        """Lend a session and the result of a first call on it. One that was lost while idle is replaced."""
        if not self._slots.acquire(timeout=QUEUE_S):
            raise unavailable_error(name, f"{CONNECTIONS_MAX} queries have kept it busy for {QUEUE_S:.0f} s")
        closings = self._closings
        session = None
        try:
            session = self._take_idle() or _connect(self._address)
            try:
                result = first(session)
            except psycopg.OperationalError:
                if session.is_new or not session.connection.closed:
                    raise
                self.close_idle()  # the others have been cut as well
                closings = self._closings
                session = _connect(self._address)
                result = first(session)
            yield session, result
        finally:
            if session is not None:
                self._give_back(session, closings)
            self._slots.release()

    def _take_idle(self) -> _Session | None:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            return None

    def _give_back(self, session: _Session, closings: int) -> None:
        """Keep a session for the next call, if no transaction is open on it and the pool was not closed meanwhile."""
        session.is_new = False
        is_idle = session.connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            is_kept = is_idle and closings == self._closings
            if is_kept:
                self._idle.append(session)
        if not is_kept:
            session.connection.close()

    def close_idle(self) -> None:
        """Close the idle sessions now, and those in use when they are given back."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closings += 1
        for session in idle:
            session.connection.close()


class _Session:
    """A connection, and the parts of the schema that it has seen in our version."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.is_new = True
        self._seen: set[str] = set()

    def has_part(self, part: SchemaPart, store: str) -> bool:
        """Whether a part exists. Raises: StoreUnusable when it has another version."""
        return part.name in self._seen or self._is_current(part, self._version(part), store)

    def upgrade(self, part: SchemaPart, store: str) -> None:
        """Create the tables of a part, or upgrade them to our version. Raises: StoreUnusable.

        Every write checks the version, since another release may have upgraded the part meanwhile.
        """
        version = self._version(part)
        if version >= part.version:
            self._is_current(part, version, store)
            return
        with self.connection.transaction():
            self.connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            has_schema = "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = 'context_engine'"
            if not fetch_value(self.connection, has_schema):  # to create it may be forbidden, though it exists
                self.connection.execute("CREATE SCHEMA context_engine")
            self.connection.execute(_LAYOUT)
            for step in part.steps[self._version(part) :]:
                for statement in step:
                    self.connection.execute(statement)
            self.connection.execute(_SET_VERSION, (part.name, part.version))

    def _is_current(self, part: SchemaPart, version: int, store: str) -> bool:
        if version not in (0, part.version):
            raise StoreUnusable(
                f"the {part.name} on the shared store {store} has version {version}, "
                f"and this program knows version {part.version}",
                suggestion="use the same release of smart-context-engine everywhere, or another database",
                details={"found": version, "known": part.version},
            )
        if version:
            self._seen.add(part.name)
        return bool(version)

    def _version(self, part: SchemaPart) -> int:
        """Return the version of a part; 0 when it does not exist."""
        if not fetch_value(self.connection, _HAS_LAYOUT):
            return 0
        return fetch_value(self.connection, _VERSION, (part.name,)) or 0


_HAS_LAYOUT = """
SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'context_engine' AND tablename = 'layout'
"""
"""Not `to_regclass`: after a wait for the schema lock it would report the state from before."""
_LAYOUT = "CREATE TABLE IF NOT EXISTS context_engine.layout (part text PRIMARY KEY, version int NOT NULL)"
_VERSION = "SELECT version FROM context_engine.layout WHERE part = %s"
_SET_VERSION = """
INSERT INTO context_engine.layout (part, version) VALUES (%s, %s)
ON CONFLICT (part) DO UPDATE SET version = EXCLUDED.version
"""


def _connect(address: str) -> _Session:
    settings: dict[str, Any] = {
        "connect_timeout": CONNECT_S,
        "application_name": "context-engine",
        "keepalives_idle": 10,
        "tcp_user_timeout": 10_000,
        **conninfo_to_dict(address),  # what the address says itself holds
    }
    # Nothing is prepared: a pooler may not know prepared statements of an earlier session.
    return _Session(psycopg.connect(autocommit=True, prepare_threshold=None, **settings))


def fetch_value(connection: psycopg.Connection, query: Statement, values: Sequence[Any] = ()) -> Any:
    """Return the first column of the first row; None without rows."""
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None


def partition_statements(table: str, count: int) -> list[sql.Composed]:
    """Return the statements that create the partitions of a table that is partitioned by hash."""
    create = sql.SQL(
        "CREATE TABLE context_engine.{} PARTITION OF context_engine.{} FOR VALUES WITH (MODULUS {}, REMAINDER {})"
    )
    parent, modulus = sql.Identifier(table), sql.Literal(count)
    return [
        create.format(sql.Identifier(f"{table}_{number}"), parent, modulus, sql.Literal(number))
        for number in range(count)
    ]


@contextmanager
def translate_errors(name: str) -> Generator[None]:
    """Translate errors of psycopg. Raises: StoreUnavailable, StoreUnusable, DiskFull."""
    try:
        yield
    except (errors.DiskFull, errors.OutOfMemory) as error:
        raise DiskFull(
            f"the shared store {name} has no space left",
            suggestion="free space on its machine; what was committed before is intact",
        ) from error
    except psycopg.OperationalError as error:
        raise unavailable_error(name, error) from error
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
        raise StoreUnusable(
            f"the shared store {name} refuses this to its user: {_first_line(error)}",
            suggestion="grant it rights on the schema context_engine, or do not share from here",
        ) from error
    except psycopg.Error as error:
        raise StoreUnusable(
            f"the shared store {name} cannot serve: {_first_line(error)}",
            suggestion="check CTX_STORE_URL; the schema context_engine must be ours alone",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def format_address(address: str) -> str:
    """Return an address without user and password. Raises: InvalidArgument when it is not an address of PostgreSQL.

    >>> format_address("postgresql://me:<password>@host:5433/team?sslmode=require")
    'postgresql://host:5433/team'
    """
    try:
        given = conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InvalidArgument(
            f"the address of the shared store is not an address of PostgreSQL: {_first_line(error)}",
            suggestion="write CTX_STORE_URL like postgresql://user@host:5432/database",
        ) from None
    port = f":{given['port']}" if given.get("port") else ""
    return f"postgresql://{given.get('host', '')}{port}/{given.get('dbname', '')}"
