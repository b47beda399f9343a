"""The index store of a team, and the repositories of its database, for the administrator."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from context_engine.errors import NotIndexed
from context_engine.index import SCHEMA_VERSION, EmbeddedStore, IndexStore
from context_engine.repo import ReadFile
from context_engine.settings import Settings
from context_engine.team.candidate_store import CandidateStore, open_candidate_store
from context_engine.team.manifest import decode_manifest
from context_engine.team.published_store import PublishedStore
from context_engine.team.remote_store import TeamStore, open_remote_store, serves
from context_engine.team.search_publisher import SearchPublisher
from context_engine.team.shared_store import LOOK_WAIT_S, SharedStore

if TYPE_CHECKING:  # its library is optional
    from context_engine.team.postgres_store import PostgresStore

REST_S = 1.0
"""How old the last poll of the remote store may be for an answer, as for a scan of the files (`staleness_ms`)."""
REMOVE_WAIT_S = 3.0
"""An indexing process holds the lock longer than that, and must be stopped first."""


def open_index_store(root: Path, settings: Settings, folder: Path, read: ReadFile) -> IndexStore:
    """Return the store of the index of a work tree that a team shares, with its files in `folder`.

    A database that only searches, and any with CTX_STORE_SEARCH, also gets what it needs to search by itself; `read`
    returns a file of the work tree. Nothing is connected.
    Raises: InvalidArgument, UnsupportedHost when a library is missing.
    """
    return open_team_store(TeamStore.of(root, settings), folder, read=read, searched=settings.store_search)


def open_team_store(
    team: TeamStore, folder: Path, *, rest_s: float = REST_S, read: ReadFile | None = None, searched: bool = False
) -> IndexStore:
    """Return the store of one repository of a team. Raises: InvalidArgument, UnsupportedHost."""
    is_shared = serves(team.address, "Store")
    candidates = open_candidate_store(team.address) if searched or not is_shared else None
    search = SearchPublisher(candidates, read) if candidates and read and team.publishes else None
    if not is_shared:
        return PublishedStore(folder, team.repository, search) if search else EmbeddedStore(folder)
    mark = hashlib.blake2b(f"{team.address}\n{team.repository}".encode(), digest_size=6).hexdigest()
    return SharedStore(
        folder / f"shared-{mark}",
        open_remote_store(team.address),
        team.repository,
        publishes=team.publishes,
        rest_s=rest_s,
        wait_s=LOOK_WAIT_S,
        search=search,
    )


# -- the repositories of a remote store ------------------------------------------------------------------------------


class Tenant(NamedTuple):
    """A repository on a remote store. `schema` is the layout of its index; each layout has an index of its own.

    `files` and `chunks` are None where the list cannot be read here, `bytes` where the database does not count them;
    `committed_at` is 0 until something arrived as a whole.
    """

    repository: str
    schema: int
    bytes: int | None
    files: int | None
    chunks: int | None
    committed_at: float


def open_tenants(address: str) -> PostgresStore | CandidateStore:
    """Return what has the repositories of a database: its indexes, or its rows where it only searches."""
    return open_remote_store(address) if serves(address, "Store") else open_candidate_store(address)


def list_tenants(remote: PostgresStore | CandidateStore) -> list[Tenant]:
    """Return all repositories, by name. Raises: StoreUnavailable, StoreUnusable."""
    if isinstance(remote, CandidateStore):
        rows = ((_split_name(row.name), row) for row in remote.list_repositories())
        return [Tenant(name, schema, None, row.files, row.chunks, row.committed_at) for (schema, name), row in rows]
    tenants = []
    for full in remote.list_repositories():
        schema, repository = _split_name(full)
        stored = remote.read_manifest(full)
        files = chunks = None
        if schema == SCHEMA_VERSION and stored.manifest is not None:
            with suppress(msgspec.MsgspecError):
                segments = decode_manifest(stored.manifest).segments
                files = sum(part.files - len(part.dead) for part in segments)
                chunks = sum(part.chunks for part in segments)
        committed_at = stored.committed_at if stored.manifest else 0.0
        tenants.append(Tenant(repository, schema, remote.count_stored_bytes(full), files, chunks, committed_at))
    return tenants


def remove_tenant(remote: PostgresStore | CandidateStore, repository: str, schema: int = SCHEMA_VERSION) -> int:
    """Remove the index of a repository, for all its users; return the bytes freed.

    Raises: NotIndexed when there is none, StorageBusy, StoreUnavailable, StoreUnusable.
    """
    full = f"{schema}/{repository}"
    is_searched = isinstance(remote, CandidateStore)
    known = [row.name for row in remote.list_repositories()] if is_searched else remote.list_repositories()
    if full not in known:
        near = ", ".join(sorted({_split_name(name)[1] for name in known})) or "none at all"
        raise NotIndexed(
            f"{remote.name} has no index of {repository!r} in schema {schema}", suggestion=f"it has those of: {near}"
        )
    if is_searched:
        remote.remove(full)
        return 0
    with remote.acquire_lease(full, REMOVE_WAIT_S) as lease:
        return lease.clear()


def _split_name(full: str) -> tuple[int, str]:
    """Return (schema, repository) of a name on the remote store.

    >>> _split_name("5/github.com/team/app")
    (5, 'github.com/team/app')
    """
    schema, _, repository = full.partition("/")
    return int(schema) if schema.isdigit() else 0, repository
