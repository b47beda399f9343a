"""The index of a work tree in a team: it starts from the index in the database, and may be published there.

    <folder>/                the embedded store, as without a team
    <folder>/fetched/        segments that arrive for a first index; what an interrupted fetch left is used by the next

A machine asks the database only when it has no index: it fetches the segments, and compares the hash of each file with
its own work tree. From then on its index is its own, and answers never wait for another machine. One machine publishes
(typically a job that follows a branch): after each write the database has its segments and their list as a whole.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from context_engine.errors import ContextEngineError, StorageCorrupt, StoreUnavailable, StoreUnusable
from context_engine.index import (
    SCHEMA_VERSION,
    EmbeddedStore,
    EmbeddedWriter,
    Snapshot,
    copy_index,
    segment,
    translate_disk_errors,
)
from context_engine.repo import ReadFile
from context_engine.settings import Settings
from context_engine.storage import make_private_folder
from context_engine.team.remote_store import (
    Manifest,
    SegmentState,
    decode_manifest,
    encode_manifest,
    name_repository,
    open_backend,
    serves,
)
from context_engine.team.search_publisher import publish_rows

if TYPE_CHECKING:  # its library is optional
    from context_engine.team.candidate_store import CandidateStore
    from context_engine.team.postgres_store import PostgresStore

FETCHED = "fetched"
FETCH_TRIES = 3
NAMES = "segment_names"
"""The fact in the index that has the names of its segments."""


def open_index_store(root: Path, settings: Settings, folder: Path, read: ReadFile) -> SharedIndex:
    """Return the index store of a work tree in a team, with its files in `folder`. Nothing is connected.

    A database that only searches, and any with CTX_STORE_SEARCH, also gets what it needs to search by itself; `read`
    returns a file of the work tree. Raises: InvalidArgument, UnsupportedHost when a library is missing.
    """
    address = settings.store_url
    remote = open_backend(address, "Store") if serves(address, "Store") else None
    search = open_backend(address, "Search") if remote is None or settings.store_search else None
    repository = name_repository(root, settings)
    return SharedIndex(folder, repository, remote=remote, search=search, read=read, publishes=settings.store_shares)


class SharedIndex(EmbeddedStore):
    """The index of one work tree, started from and published to the databases that there are.

    `remote` stores the index itself, `search` what a database searches; `read` returns a file, whose texts it gets.
    """

    def __init__(
        self,
        folder: Path,
        repository: str,
        *,
        remote: PostgresStore | None = None,
        search: CandidateStore | None = None,
        read: ReadFile = lambda _: None,
        publishes: bool = False,
    ) -> None:
        """Open and connect to nothing yet."""
        super().__init__(folder)
        self.repository = f"{SCHEMA_VERSION}/{repository}"
        self.problem = ""
        self._remote = remote
        self._search = search
        self._read = read
        self._publishes = publishes

    # -- starting from the database --

    def start_from_team(self, identity: str) -> bool:
        """Start a missing index with that of the database; return whether that was done.

        It must have static vectors of this `identity` (empty: none). Where the database does not answer, `problem` says
        why, and the index is built from the files. Raises: as the embedded store does.
        """
        if self._remote is None:
            return False
        self.problem = ""
        try:
            with super().writer(rebuild=True) as writer, translate_disk_errors(self.folder):
                snapshot = self._fetch_published(self._remote)
                if snapshot is None or self.generation():  # nobody published, or another process was faster
                    return False
                static = snapshot.static()
                if (static.identity if static else "") != identity:
                    shutil.rmtree(self.folder / FETCHED, ignore_errors=True)
                    return False
                copy_index(snapshot, writer)
                writer.publish()
        except (StoreUnavailable, StoreUnusable) as error:
            self.problem = error.message
            return False
        shutil.rmtree(self.folder / FETCHED, ignore_errors=True)
        return True

    def _fetch_published(self, remote: PostgresStore) -> Snapshot | None:
        """Return the index of the database; None when there is none, or when it is damaged: `problem` says so."""
        try:
            for _ in range(FETCH_TRIES):
                content = remote.read_manifest(self.repository)
                if content is None:
                    return None
                with suppress(FileNotFoundError):  # a newer state took its place while we fetched: look again
                    return self._fetch_segments(remote, decode_manifest(content))
            self.problem = f"segments are missing on the shared store {remote.name}"
        except (StorageCorrupt, msgspec.MsgspecError) as error:
            self.problem = f"the index on the shared store {remote.name} is damaged: {error}"
        return None

    def _fetch_segments(self, remote: PostgresStore, manifest: Manifest) -> Snapshot:
        """Return these segments as a snapshot; only those that are not here are fetched.

        Raises: FileNotFoundError, StorageCorrupt when the bytes of a segment are not those of its name.
        """
        folder = self.folder / FETCHED
        make_private_folder(folder)
        for name in {part.name for part in manifest}:
            path = folder / name
            if not path.exists() or hash_file(path) != name:
                remote.fetch(self.repository, name, path)
                if hash_file(path) != name:
                    raise StorageCorrupt(f"segment {name[:12]} is not what was put there")
        return Snapshot(
            [segment.load(folder / part.name) for part in manifest],
            [part.dead for part in manifest],
            [np.frombuffer(part.importance, "<f2") for part in manifest],
            generation=FETCHED,
            epoch=0,
            numbers=[part.number for part in manifest],
        )

    # -- publishing --

    @contextmanager
    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> Generator[EmbeddedWriter]:
        """Yield the right to write; publish at the end, where this machine does.

        A failure to publish changes nothing here, and the next writer publishes all. Raises: as the embedded store and
        the database do.
        """
        with super().writer(rebuild=rebuild, wait_s=wait_s) as writer:
            yield writer
            if self._publishes and writer.is_published and self.generation() == writer.generation:
                try:
                    self._publish(writer)
                except (StoreUnavailable, StoreUnusable) as error:
                    self.problem = error.message
                    raise
                self.problem = ""

    def _publish(self, writer: EmbeddedWriter) -> None:
        """Make what was committed the state that the databases have."""
        snapshot = writer.snapshot()
        paths = [found.path for found in snapshot.segments if found.path is not None]
        names = self._name_segments(writer, snapshot.segment_numbers, paths)
        manifest = _list_segments(snapshot, names)
        content = encode_manifest(manifest)
        if self._remote is not None:
            revision = self._remote.publish(self.repository, content, dict(zip(names, paths, strict=True)))
        else:
            digest = hashlib.blake2b(content, digest_size=8).digest()
            revision = int.from_bytes(digest, "big") >> 1 or 1
        if self._search is not None:
            publish_rows(self._search, self._read, self.repository, revision, snapshot, manifest)

    def _name_segments(self, writer: EmbeddedWriter, numbers: Sequence[int], paths: Sequence[Path]) -> list[str]:
        """Return the names of segments; each is hashed once, since a segment never changes."""
        stored = self.metadata(NAMES)
        known = msgspec.msgpack.decode(stored) if stored else {}
        names = {number: known.get(number) or hash_file(path) for number, path in zip(numbers, paths, strict=True)}
        if names != known:
            writer.set_metadata({NAMES: msgspec.msgpack.encode(names)})
        return list(names.values())

    # -- the whole --

    def check(self) -> list[str]:
        """Return the problems of this machine's index, in words; `problem` then says whether the database answers."""
        if self._remote is not None:
            self.problem = ""
            try:
                self._remote.read_manifest(self.repository)
            except ContextEngineError as error:
                self.problem = error.message
        return super().check()

    def clear(self) -> int:
        """Delete the index here and, where this machine publishes, in the databases; return the bytes freed here."""
        freed = super().clear()
        shutil.rmtree(self.folder / FETCHED, ignore_errors=True)
        database = self._remote or self._search  # PostgreSQL removes its rows for searches, too
        if self._publishes and database:
            database.remove(self.repository)
        return freed

    def close(self) -> None:
        """Close files and connections; the store can be used again afterwards."""
        super().close()
        for database in filter(None, (self._remote, self._search)):
            database.close()


def _list_segments(snapshot: Snapshot, names: Sequence[str]) -> Manifest:
    """Return the segments of a state with these names."""
    parts, start = [], 0
    for number, name, found in zip(snapshot.segment_numbers, names, snapshot.segments, strict=True):
        stop = start + found.files
        dead = (~snapshot.file_alive[start:stop]).nonzero()[0].tolist()
        weights = snapshot.importance[start:stop].astype("<f2").tobytes()
        parts.append(SegmentState(number, name, found.files, found.chunks, weights, tuple(dead)))
        start = stop
    return tuple(parts)


def hash_file(path: Path) -> str:
    """Return the name of a segment: the SHA-256 of its bytes."""
    with open(path, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
