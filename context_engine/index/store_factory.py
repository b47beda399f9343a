"""The store of an address: on this machine, or a shared one."""

from __future__ import annotations

import hashlib
from pathlib import Path

from context_engine.index.embedded_store import EmbeddedStore, EmbeddedWriter
from context_engine.index.shared_store import LOOK_WAIT_S, SharedStore
from context_engine.index.shared_writer import SharedWriter
from context_engine.sharing import open_remote_store

AnyStore = EmbeddedStore | SharedStore
AnyWriter = EmbeddedWriter | SharedWriter
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
