"""The store of an address, on this machine or shared; and the repositories of a remote store, for its administrator."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from context_engine.errors import NotIndexed
from context_engine.index.embedded_store import SCHEMA_VERSION, EmbeddedStore, EmbeddedWriter
from context_engine.index.manifest import Manifest, decode_manifest
from context_engine.index.search_publisher import SearchPublisher
from context_engine.index.shared_store import LOOK_WAIT_S, SharedStore
from context_engine.index.shared_writer import SharedWriter
from context_engine.repo import ReadFile
from context_engine.sharing import open_candidate_store, open_remote_store

if TYPE_CHECKING:
    from context_engine.sharing import RemoteStore, RemoteVectorStore

AnyStore = EmbeddedStore | SharedStore
AnyWriter = EmbeddedWriter | SharedWriter
REST_S = 1.0
"""How old the last poll of the remote store may be for an answer, as for a scan of the files (`staleness_ms`)."""


def open_store(
    address: str,
    folder: Path,
    repository: str = "",
    *,
    publishes: bool = False,
    rest_s: float = REST_S,
    read: ReadFile | None = None,
) -> AnyStore:
    """Return the store of one work tree, with its files in `folder`: the embedded one, or a shared one at an address.

    `repository`: its name there; `publishes`: what is indexed here is published. With `read`, which returns a file of
    the work tree, the database also gets what it needs to search by itself. Nothing is connected.
    Raises: InvalidArgument, UnsupportedHost when a library is missing.
    """
    if address in ("", "embedded"):
        return EmbeddedStore(folder)
    mark = hashlib.blake2b(f"{address}\n{repository}".encode(), digest_size=6).hexdigest()
    kept = folder / f"shared-{mark}"
    search = SearchPublisher(open_candidate_store(address), read) if read and publishes else None
    remote = open_remote_store(address)
    return SharedStore(kept, remote, repository, publishes=publishes, rest_s=rest_s, wait_s=LOOK_WAIT_S, search=search)


# -- the repositories of a remote store ------------------------------------------------------------------------------


REMOVE_WAIT_S = 3.0
"""An indexing process holds the lock longer than that, and must be stopped first."""
_FOR_EVER = 1 << 30
"""A day that all vectors were last used before."""


class Tenant(NamedTuple):
    """A repository on a remote store. `schema` is the layout of its index; each layout has an index of its own.

    `files` and `chunks` are None where the list cannot be read here; `committed_at` is 0 until something arrived as a
    whole.
    """

    repository: str
    schema: int
    bytes: int
    files: int | None
    chunks: int | None
    committed_at: float


def list_tenants(remote: RemoteStore) -> list[Tenant]:
    """Return all repositories, by name. Raises: StoreUnavailable, StoreUnusable."""
    return [_tenant(remote, full) for full in remote.list_repositories()]


def remove_tenant(
    remote: RemoteStore, vectors: RemoteVectorStore, repository: str, schema: int = SCHEMA_VERSION
) -> int:
    """Remove the index of a repository, for all its users; return the bytes freed. With the last index go its vectors.

    Raises: NotIndexed when there is none, StorageBusy, StoreUnavailable, StoreUnusable.
    """
    full = f"{schema}/{repository}"
    known = remote.list_repositories()
    if full not in known:
        near = ", ".join(sorted({_split_name(name)[1] for name in known})) or "none at all"
        raise NotIndexed(
            f"{remote.name} has no index of {repository!r} in schema {schema}", suggestion=f"it has those of: {near}"
        )
    with remote.acquire_lease(full, REMOVE_WAIT_S) as lease:
        freed = lease.clear()
    is_last = not any(_split_name(name)[1] == repository for name in known if name != full)
    if is_last and vectors.count_by_space(repository):  # a repository without vectors has no place for them
        vectors.delete_unused(repository, _FOR_EVER)
    return freed


def _tenant(remote: RemoteStore, full: str) -> Tenant:
    schema, repository = _split_name(full)
    held = remote.read_manifest(full)
    if schema == SCHEMA_VERSION:
        listed = _decode(held.manifest)
    else:
        listed = None
    if listed:
        files = sum(part.files - len(part.dead) for part in listed.segments)
    else:
        files = None
    if listed:
        chunks = sum(part.chunks for part in listed.segments)
    else:
        chunks = None
    return Tenant(
        repository, schema, remote.count_stored_bytes(full), files, chunks, held.committed_at if held.manifest else 0.0
    )


def _decode(manifest: bytes | None) -> Manifest | None:
    try:
        if manifest is None:
            return None
        return decode_manifest(manifest)
    except msgspec.MsgspecError:
        return None


def _split_name(full: str) -> tuple[int, str]:
    """Return (schema, repository) of a name on the remote store.

    >>> _split_name("5/github.com/team/app")
    (5, 'github.com/team/app')
    """
    schema, _, repository = full.partition("/")
    return int(schema) if schema.isdigit() else 0, repository
