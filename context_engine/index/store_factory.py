"""The store of an address. A kind is one row; its library is imported at the first use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from context_engine.errors import InvalidArgument, UnsupportedHost
from context_engine.index.embedded_store import EmbeddedStore, EmbeddedWriter
from context_engine.index.shared_store import LOOK_WAIT_S, SharedStore
from context_engine.index.shared_writer import SharedWriter
from context_engine.sharing.remote_store import RemoteStore

AnyStore = EmbeddedStore | SharedStore
AnyWriter = EmbeddedWriter | SharedWriter
KINDS: dict[str, tuple[str, str, str]] = {
    "postgresql": ("context_engine.sharing.postgres_store", "PostgresStore", "postgres"),
    "postgres": ("context_engine.sharing.postgres_store", "PostgresStore", "postgres"),
    "qdrant": ("context_engine.sharing.qdrant_store", "QdrantStore", "qdrant"),
    "https": ("context_engine.sharing.qdrant_store", "QdrantStore", "qdrant"),
    "http": ("context_engine.sharing.qdrant_store", "QdrantStore", "qdrant"),
}
"""Scheme of an address -> (module, class, extra with its library)."""
REST_S = 1.0
"""How old the last poll of the remote store may be for an answer, as for a scan of the files (`staleness_ms`)."""


def open_store(
    address: str, folder: Path, *, repository: str = "", publishes: bool = False, rest_s: float = REST_S
) -> AnyStore:
    """Return the store of one work tree, with its files in `folder`: the embedded one, or a shared one at an address.

    `repository`: its name there; `publishes`: what is indexed here is published. Nothing is connected.
    Raises: InvalidArgument, UnsupportedHost when a library is missing.
    """
    if address in ("", "embedded"):
        return EmbeddedStore(folder)
    mark = hashlib.blake2b(f"{address}\n{repository}".encode(), digest_size=6).hexdigest()
    kept = folder / f"shared-{mark}"
    return SharedStore(
        kept, open_remote_store(address), repository, publishes=publishes, rest_s=rest_s, wait_s=LOOK_WAIT_S
    )


def open_remote_store(address: str) -> RemoteStore:
    """Return the remote store at an address. Raises: InvalidArgument, UnsupportedHost."""
    kind = address.partition("://")[0] if "://" in address else ""
    if kind not in KINDS:
        raise InvalidArgument(
            f"no store is known by the address {kind or address[:40]!r}",
            suggestion=f"write embedded, or an address that begins with {', '.join(f'{scheme}://' for scheme in KINDS)}",
        )
    module, name, extra = KINDS[kind]
    try:
        opened: Callable[[str], RemoteStore] = getattr(import_module(module), name)
    except ImportError as error:
        raise UnsupportedHost(
            f"a store at {kind}:// needs a library that is not installed: {error.name}",
            suggestion=f"Install it: pip install 'smart-context-engine[{extra}]'",
        ) from error
    return opened(address)
