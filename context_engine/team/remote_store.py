"""The database in which the machines of a team share what one of them has made: its address, its parts, its errors.

A PostgreSQL stores the indexes of repositories (`postgres_store`), searches them (`postgres_search`) and stores records
(`postgres_records`). A Qdrant searches (`qdrant_search`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from context_engine.errors import InvalidArgument, StorageBusy, StoreUnavailable, UnsupportedHost
from context_engine.repo import Git, pip_install
from context_engine.settings import Settings

Part = Literal["Store", "Records", "Search", "Jobs"]
BACKENDS: Mapping[str, tuple[str, Collection[Part]]] = {
    **dict.fromkeys(("postgresql", "postgres"), ("Postgres", ("Store", "Records", "Search", "Jobs"))),
    **dict.fromkeys(("qdrant", "https", "http"), ("Qdrant", ("Search",))),
}
"""Scheme of an address -> prefix of the classes and modules that serve it; and what it serves."""
RETRY_DELAY_S = 30.0
"""A database that did not answer is tried again after this long: a try may take seconds, and an answer waits for it."""


class SegmentState(msgspec.Struct, array_like=True, frozen=True):
    """One segment of an index: its place, its dead files, and the importance of each file (float16).

    `name` is the SHA-256 of its bytes, so that a machine can compare what it fetched.
    """

    number: int
    name: str
    files: int
    chunks: int
    importance: bytes
    dead: tuple[int, ...] = ()


Manifest = tuple[SegmentState, ...]
"""The segments of one state of an index, in order."""
encode_manifest = msgspec.msgpack.Encoder().encode
decode_manifest = msgspec.msgpack.Decoder(Manifest).decode


class PublishedRepository(NamedTuple):
    """A repository of a database, by its full name.

    `files` and `chunks` are None where another release wrote the list, `bytes` where the database does not count them;
    `committed_at` is in seconds since 1970, 0 until something arrived as a whole or where it is not known.
    """

    name: str
    files: int | None
    chunks: int | None
    committed_at: float = 0.0
    bytes: int | None = None


def name_repository(root: Path, settings: Settings) -> str:
    """Return the name of a workspace in the database: that of git's remote, unless the settings name it."""
    return settings.store_repository or Git(root).shared_name()


def serves(address: str, part: Part) -> bool:
    """Return whether the database at an address serves a part: Qdrant searches, and stores nothing else."""
    return part in BACKENDS.get(address.partition("://")[0], ("", ()))[1]


def open_backend(address: str, part: Part) -> Any:
    """Return one part of the database at an address. Its library is imported here, at the first use."""
    scheme = address.partition("://")[0] if "://" in address else ""
    backend, parts = BACKENDS.get(scheme, ("", ()))
    if not backend:
        schemes = ", ".join(f"{name}://" for name in BACKENDS)
        raise InvalidArgument(
            f"no store is known by the address {scheme or address[:40]!r}",
            suggestion=f"write embedded, or an address that begins with {schemes}",
        )
    if part not in parts:
        raise InvalidArgument(
            f"{backend} searches the repositories that are published there; it does not serve {part.lower()}",
            suggestion="Use postgresql://user@host/database for that.",
        )
    try:
        module = import_module(f"context_engine.team.{backend.lower()}_{part.lower()}")
    except ImportError as error:
        raise UnsupportedHost(
            f"a store at {scheme}:// needs a library that is not installed: {error.name}",
            suggestion=f"Install it: `{pip_install()} 'psycopg[binary]'`",  # Qdrant needs no library
        ) from error
    return getattr(module, f"{backend}{part}")(address)


@contextmanager
def keep_renewing(
    renew: Callable[[], bool], every_s: float, lease_s: float, *on_loss: threading.Event
) -> Generator[None]:
    """Renew a lease in a thread until the block ends.

    `on_loss` are set when `renew` returns False, or the database has not answered before the lease ended.
    """
    ended = threading.Event()

    def keep() -> None:
        kept_until_s = time.monotonic() + lease_s
        while not ended.wait(every_s):
            try:
                is_kept = renew()
            except StoreUnavailable:
                is_kept = time.monotonic() < kept_until_s  # it may be back before the lease ends
            else:
                kept_until_s = time.monotonic() + lease_s
            if not is_kept:
                for event in on_loss:
                    event.set()
                return

    thread = threading.Thread(target=keep, name="ctx-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def busy_error(repository: str) -> StorageBusy:
    """Return the error for another process that is writing, or wrote in between."""
    return StorageBusy(
        f"another process is indexing {repository} into the shared store",
        suggestion="search as usual; the result appears by itself, or call again in a moment",
    )


def unavailable_error(name: str, error: object) -> StoreUnavailable:
    """Return the error for a database that does not answer."""
    why = " ".join(str(error).split()).partition(" Is the server running")[0][:300]
    return StoreUnavailable(
        f"the shared store {name} does not answer: {why}",
        suggestion="call again in a moment; if that does not help, check CTX_STORE_URL, the password and the database",
        details={"store": name},
    )
