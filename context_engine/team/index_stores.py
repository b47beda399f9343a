"""The index store of a team, and the repositories of its database, for the administrator."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from context_engine.errors import NotIndexed
from context_engine.index import SCHEMA_VERSION, EmbeddedStore, IndexStore
from context_engine.index.embedded_store import EmbeddedWriter
from context_engine.index.snapshot import Snapshot
from context_engine.repo import ReadFile
from context_engine.settings import Settings
from context_engine.team.candidate_store import CandidateStore, open_candidate_store
from context_engine.team.manifest import Manifest, SegmentRef, decode_manifest, encode_manifest
from context_engine.team.remote_store import TeamStore, hash_file, open_remote_store, serves
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


class PublishedStore(EmbeddedStore):
    """The embedded store of one repository, and its rows in a database."""

    def __init__(self, folder: Path, repository: str, publisher: SearchPublisher) -> None:
        """Open and connect to nothing yet."""
        super().__init__(folder)
        self.repository = f"{SCHEMA_VERSION}/{repository}"
        self._publisher = publisher
        self._names: dict[Path, str] = {}

    @contextmanager
    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> Generator[EmbeddedWriter]:
        """Yield the right to write; publish at the end. Raises: as the embedded store and the database do."""
        with super().writer(rebuild=rebuild, wait_s=wait_s) as writer:
            yield writer
            if writer.is_published and self.generation() == writer.generation:
                self._publish(writer.snapshot())

    def _publish(self, snapshot: Snapshot) -> None:
        manifest = self._describe(snapshot)
        digest = hashlib.blake2b(encode_manifest(manifest), digest_size=8).digest()
        revision = int.from_bytes(digest, "big") >> 1 or 1
        segments = {part.name: segment for part, segment in zip(manifest.segments, snapshot.segments, strict=True)}
        self._publisher.publish(self.repository, revision, manifest, segments.__getitem__)

    def _describe(self, snapshot: Snapshot) -> Manifest:
        """Return the manifest of a state; segments are named by their content."""
        parts, base = [], snapshot.file_base.tolist()
        for number, segment, start in zip(snapshot.segment_numbers, snapshot.segments, base, strict=False):
            stop = start + segment.files
            dead = (~snapshot.file_alive[start:stop]).nonzero()[0].tolist()
            weights = snapshot.importance[start:stop].astype("<f2").tobytes()
            parts.append(
                SegmentRef(number, self._name_of(segment.path), 0, segment.files, segment.chunks, weights, tuple(dead))
            )
        return Manifest("", segments=tuple(parts))

    def _name_of(self, path: Path | None) -> str:
        assert path is not None, "segments of a store are files"
        if path not in self._names:
            self._names[path] = hash_file(path)
        return self._names[path]

    def clear(self) -> int:
        """Delete the index, here and in the database; return the bytes freed here."""
        freed = super().clear()
        self._publisher.remove(self.repository)
        return freed

    def close(self) -> None:
        """Close files and connections; the store can be used again afterwards."""
        super().close()
        self._publisher.close()
