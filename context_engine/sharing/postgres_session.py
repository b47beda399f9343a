"""One PostgreSQL as all of this process speak to it: a few connections for everybody, and who laid out what on it.

    database = Postgres("postgresql://user@host/team")
    database.rows(PART, "SELECT ...", (value,))                  a question
    with database.transaction(PART) as connection: ...           all of it, or nothing
    with database.holding(PART, name, wait_s, busy(name)) as connection: ...     one holder of a name at a time, anywhere

Each part of the schema `context_engine` (what an index needs, or vectors, or plans) has a version of its own in the
table `layout`. Who only asks lays out nothing: before somebody wrote, a question finds nothing. No thread is started,
nothing is connected before it is needed, and the child of a fork never touches its parent's connections.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from context_engine.errors import ContextEngineError, DiskFull, InvalidArgument, StoreUnusable
from context_engine.sharing.remote_store import unavailable_error

Statement = LiteralString | sql.SQL | sql.Composed
Rows = list[tuple[Any, ...]]
CONNECTIONS_MAX = 4
"""Of a process to one address, beside those that hold a name. A question takes less than a millisecond there and back,
so they are seldom under way at once; fifty repositories that are fetched together wait for the network, not for each
other."""
CONNECT_S = 5
"""Longer than the longest way round the world; a store that did not answer rests before it is asked again
(DOWN_REST_S)."""
QUEUE_S = 10.0
"""Four pieces of 8 MB at 30 Mbit/s; who has waited longer for a connection is told that it does not answer."""
LOCK_POLL_S = 0.05
_LAYING_OUT = 7_289_001
"""An advisory lock among those who find a part missing at the same moment."""


class SchemaPart(NamedTuple):
    """Tables that one file keeps. `steps[n]` makes version n + 1 of version n; one that was released never changes.

    A reader looks at the version once a connection: a step that gives a table another meaning gives it another name as
    well.
    """

    name: str
    steps: tuple[Sequence[Statement], ...]

    @property
    def version(self) -> int:
        """That of the last step."""
        return len(self.steps)


class PostgresSession:
    """The schema `context_engine` of one database.

    Thread-safe; all of a process with one address share its connections.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is, DiskFull.
    """

    def __init__(self, address: str) -> None:
        """`address`: `postgresql://user@host/database`; a password may stand in it, or where libpq looks for it.

        Nothing is connected. Raises: InvalidArgument.
        """
        self.name = format_address(address)
        """How to speak of it: its address without user and password."""
        self._address = address

    @property
    def _lines(self) -> _Lines:
        return _lines_of(self._address, os.getpid())

    def query(self, part: SchemaPart, query: Statement, values: Sequence[Any] = ()) -> Rows:
        """The answer to one question; nothing while the part is not laid out."""

        def ask(line: _Line) -> Rows:
            if not line.has(part, self.name):
                return []
            return line.connection.execute(query, values, binary=True).fetchall()

        with translate_errors(self.name), self._lines.answering(ask, self.name) as (_, found):
            return found

    @contextmanager
    def transaction(self, part: SchemaPart) -> Generator[psycopg.Connection]:
        """A connection on which all is done when the block ends, or nothing. The part is laid out before."""

        def lay_out(line: _Line) -> None:
            line.lay_out(part, self.name)

        with (
            translate_errors(self.name),
            self._lines.answering(lay_out, self.name) as (line, _),
            line.connection.transaction(),
        ):
            yield line.connection

    @contextmanager
    def hold_lock(
        self, part: SchemaPart, name: str, wait_s: float, refusal: ContextEngineError
    ) -> Generator[psycopg.Connection]:
        """A connection of its own that holds a name of a part, as no other session on any machine does at that time.

        It is in no transaction. When its process dies the server frees the name; when it is lost, what is done on it
        afterwards fails. Raises: `refusal` when the name is not free in time.
        """
        with translate_errors(self.name):
            line = _connected(self._address)
            try:
                line.lay_out(part, self.name)
                _take(line.connection, f"{part.name}/{name}", time.monotonic() + wait_s, refusal)
                yield line.connection
            finally:
                with suppress(psycopg.Error):  # the server frees it too, but only once it sees that we are gone
                    line.connection.execute("SELECT pg_advisory_unlock_all()")
                line.connection.close()

    def close(self) -> None:
        """Let go of the connections that rest; who asks next, here or elsewhere in the process, connects anew."""
        self._lines.close_resting()


@cache
def _lines_of(address: str, process: int) -> _Lines:  # noqa: ARG001 - a child of a fork has lines of its own
    return _Lines(address)


class _Lines:
    """The connections of one process to one address. Those that rest are used again, the last one first."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._lock = threading.Lock()
        self._resting: list[_Line] = []
        self._round = 0
        """Counts closings: a line that was out meanwhile does not come to rest again."""

    @contextmanager
    def answering(self, question: Callable[[_Line], Any], name: str) -> Generator[tuple[_Line, Any]]:
        """A line, and its answer to a first question. One that was lost while it rested is replaced by a new one."""
        if not self._places.acquire(timeout=QUEUE_S):
            raise unavailable_error(name, f"{CONNECTIONS_MAX} questions have kept it busy for {QUEUE_S:.0f} s")
        began = self._round
        line = None
        try:
            line = self._rested() or _connected(self._address)
            try:
                answer = question(line)
            except psycopg.OperationalError:
                if line.is_new or not line.connection.closed:
                    raise
                self.close_resting()  # what cut one has cut them all
                began = self._round
                line = _connected(self._address)
                answer = question(line)
            yield line, answer
        finally:
            if line is not None:
                self._rest(line, began)
            self._places.release()

    def _rested(self) -> _Line | None:
        with self._lock:
            return self._resting.pop() if self._resting else None

    def _rest(self, line: _Line, began: int) -> None:
        """Keep a line for the next, if nothing is under way on it and nobody closed meanwhile."""
        line.is_new = False
        with self._lock:
            is_kept = line.connection.info.transaction_status == TransactionStatus.IDLE and began == self._round
            if is_kept:
                self._resting.append(line)
        if not is_kept:
            line.connection.close()

    def close_resting(self) -> None:
        """Close those that rest, and those that are out as soon as they come back."""
        with self._lock:
            resting, self._resting = self._resting, []
            self._round += 1
        for line in resting:
            line.connection.close()


class _Line:
    """A connection, and which parts it has seen to be there in our version."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.is_new = True
        self._seen: set[str] = set()

    def has(self, part: SchemaPart, store: str) -> bool:
        """Whether a part is laid out. Raises: StoreUnusable when it is in another version."""
        return part.name in self._seen or self._fits(part, self._version(part), store)

    def lay_out(self, part: SchemaPart, store: str) -> None:
        """Make the tables of a part where there are none, and newer ones of older ones. Raises: StoreUnusable.

        Who writes looks each time: somebody may have made a newer version meanwhile.
        """
        version = self._version(part)
        if version >= part.version:
            self._fits(part, version, store)
            return
        with self.connection.transaction():
            self.connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LAYING_OUT,))
            self._ready_layout()
            for step in part.steps[self._version(part) :]:
                for statement in step:
                    self.connection.execute(statement)
            self.connection.execute(_NOTE, (part.name, part.version))

    def _fits(self, part: SchemaPart, version: int, store: str) -> bool:
        if version not in (0, part.version):
            raise _other_version(store, part, version)
        if version:
            self._seen.add(part.name)
        return bool(version)

    def _version(self, part: SchemaPart) -> int:
        """The version in which a part is laid out; 0 when it is not."""
        if not fetch_value(self.connection, _HAS_LAYOUT):
            return 0
        return fetch_value(self.connection, _VERSION, (part.name,)) or 0

    def _ready_layout(self) -> None:
        """The table of versions, with a row for each part; there was one row for the index at first."""
        if not fetch_value(
            self.connection, "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = 'context_engine'"
        ):
            self.connection.execute("CREATE SCHEMA context_engine")
        self.connection.execute("CREATE TABLE IF NOT EXISTS context_engine.layout (version int NOT NULL)")
        self.connection.execute(
            "ALTER TABLE context_engine.layout ADD COLUMN IF NOT EXISTS part text PRIMARY KEY DEFAULT 'index'"
        )


_HAS_LAYOUT = """
SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'context_engine' AND tablename = 'layout'
"""
"""Not `to_regclass`: who has waited for the lock of laying out would be told by it what was so before."""
_VERSION = "SELECT version FROM context_engine.layout AS l WHERE coalesce(to_jsonb(l) ->> 'part', 'index') = %s"
"""Reads the table in its first form as well, in which the one row was the index's: who may only read cannot change it."""
_NOTE = """
INSERT INTO context_engine.layout (part, version) VALUES (%s, %s) ON CONFLICT (part) DO UPDATE SET version = EXCLUDED.version
"""


def _connected(address: str) -> _Line:
    connection = psycopg.connect(
        address,
        autocommit=True,
        connect_timeout=CONNECT_S,
        prepare_threshold=None,  # a pooler between us and the server may not know statements of an earlier session
        application_name="context-engine",
        keepalives_idle=10,
        tcp_user_timeout=10_000,
    )
    return _Line(connection)


def _take(connection: psycopg.Connection, name: str, until: float, refusal: ContextEngineError) -> None:
    while not fetch_value(connection, "SELECT pg_try_advisory_lock(hashtextextended(%s, 9))", (name,)):
        if time.monotonic() >= until:
            raise refusal
        time.sleep(LOCK_POLL_S)


def fetch_value(connection: psycopg.Connection, query: Statement, values: Sequence[Any] = ()) -> Any:
    """The first column of the first row; None when there is none."""
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None


def partition_statements(table: str, count: int) -> list[sql.Composed]:
    """The statements that make the partitions of a table of the schema that is partitioned by hash."""
    return [
        sql.SQL("CREATE TABLE context_engine.{} PARTITION OF context_engine.{} FOR VALUES WITH (MODULUS {}, REMAINDER {})").format(
            sql.Identifier(f"{table}_{number}"), sql.Identifier(table), sql.Literal(count), sql.Literal(number)
        )
        for number in range(count)
    ]  # fmt: skip


@contextmanager
def translate_errors(name: str) -> Generator[None]:
    """Turn the database's words into ours. Raises: StoreUnavailable, StoreUnusable, DiskFull."""
    try:
        yield
    except (errors.DiskFull, errors.OutOfMemory) as error:
        raise DiskFull(
            f"the shared store {name} has no room left",
            suggestion="free room on its machine; what was committed before is intact",
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


def _other_version(store: str, part: SchemaPart, found: int) -> StoreUnusable:
    return StoreUnusable(
        f"the {part.name} on the shared store {store} is laid out as version {found}, and this program knows version {part.version}",
        suggestion="use the same release of smart-context-engine everywhere, or another database",
        details={"found": found, "known": part.version},
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def format_address(address: str) -> str:
    """An address as it may be shown. Raises: InvalidArgument when it is none of PostgreSQL.

    >>> format_address("postgresql://me:<password>@host:5433/team?sslmode=require")
    'postgresql://host:5433/team'
    """
    try:
        given = conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InvalidArgument(
            f"the address of the shared store is none of PostgreSQL: {_first_line(error)}",
            suggestion="write CTX_STORE_URL like postgresql://user@host:5432/database",
        ) from None
    port = f":{given['port']}" if given.get("port") else ""
    return f"postgresql://{given.get('host', '')}{port}/{given.get('dbname', '')}"
