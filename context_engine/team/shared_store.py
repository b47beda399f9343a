"""The shared store: a team's index is on a remote store; each machine has its segments and ranks them by itself.

    <folder>/base.manifest   the last seen state of the remote store, for times when it does not answer
    <folder>/here.manifest   what was indexed on top of that for this machine alone, or a first index not shared yet
    <folder>/<sha256>.seg    segments, named by their content; a missing or damaged one is fetched
    <folder>/writer.lock     one writing process of this machine

With `publishes=True` (typically a job that follows a branch) writes go to the remote store. Otherwise local differences
are kept as an overlay, which is rebuilt when the remote revision changes; files already hashed are not read again. All
machines use the same segments, so all answer alike. The folder is a cache: deleting it costs the time to fetch.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec
from filelock import Timeout

from context_engine.errors import ContextEngineError, StorageCorrupt, StoreUnavailable
from context_engine.index import segment as segments
from context_engine.index.embedded_store import (
    CLEAR_WAIT_S,
    READ_TRIES,
    SCHEMA_VERSION,
    translate_disk_errors,
)
from context_engine.index.index_seeding import file_states
from context_engine.index.index_store import FileState, IndexStore, SkippedFile
from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot
from context_engine.storage import ABANDONED_AFTER_S, lock_private, make_private_folder
from context_engine.team.manifest import Manifest, encode_manifest
from context_engine.team.remote_store import ManifestRevision, busy_error, hash_file
from context_engine.team.remote_view import NOTHING, ManifestFile, RemoteView, corrupt_store_error
from context_engine.team.shared_writer import SharedWriter, confirmed_states

if TYPE_CHECKING:  # the library of the remote store is optional
    from context_engine.team.postgres_store import PostgresStore, RepositoryLease
    from context_engine.team.search_publisher import SearchPublisher

LOOK_WAIT_S = 0.1
"""Polling a near remote store takes less than a millisecond, a distant one 0.3 s; an answer takes some milliseconds and
does not wait for a newer state: the last one is used until the new one has been fetched.
"""


class SharedStore(IndexStore):
    """One repository on a remote store, as this machine sees it.

    `rest_s`: how old the last poll may be for an answer; `wait_s`: how long an answer waits for a newer state, without
    limit when None.
    """

    is_shared = True

    def __init__(
        self,
        folder: Path,
        remote: PostgresStore,
        repository: str,
        *,
        publishes: bool = True,
        rest_s: float = 0.0,
        wait_s: float | None = None,
        search: SearchPublisher | None = None,
    ) -> None:
        """Open, ask and create nothing yet. `search` publishes what the remote store searches by itself."""
        self.folder = folder
        self.remote = remote
        self.repository = f"{SCHEMA_VERSION}/{repository}"
        self.publishes = publishes
        self._search = search
        self._lock = threading.RLock()
        self._base_file = ManifestFile(folder / "base.manifest", remote.name)
        self._here_file = ManifestFile(folder / "here.manifest", remote.name)
        self._view = RemoteView(
            self._base_file,
            remote,
            self.repository,
            prefetch=self._fetch_missing,
            rest_s=rest_s,
            wait_s=wait_s,
            needs_state=publishes,  # a machine that only looks indexes from the files what is not there
        )
        self._snapshot: Snapshot | None = None
        self._lease: RepositoryLease | None = None

    @property
    def problem(self) -> str:
        """Why the remote store could not be asked, so that answers come from what was here already; else empty."""
        return self._view.problem

    # -- reading --

    def snapshot(self) -> Snapshot | None:
        """Return the newest published state; None when there is none. The same object as long as nothing was committed.

        Raises: StoreUnavailable when a machine that shares has seen nothing yet, StoreUnusable, StorageCorrupt,
        DiskFull.
        """
        with self._lock, translate_disk_errors(self.folder):
            for _ in range(READ_TRIES):
                manifest = self._manifest()
                if manifest is None:
                    self._snapshot = None
                    return None
                known = self._snapshot
                if known is not None and (known.generation, known.epoch) == (manifest.generation, manifest.epoch):
                    return known
                with suppress(FileNotFoundError):  # a newer state took its place while we fetched: look again
                    self._snapshot = manifest.snapshot(self._segments(manifest))
                    return self._snapshot
                self._view.read_or_keep()
        raise corrupt_store_error(f"segments are missing on the shared store {self.remote.name}")

    def files(self) -> dict[str, FileState]:
        """Return the state of each indexed file, by path."""
        snapshot = self.snapshot()
        return file_states(snapshot) if snapshot else {}

    def skipped_files(self) -> list[SkippedFile]:
        """Return (path, reason, detail, size, mtime_ns) of files that were skipped for their content."""
        manifest = self._current_manifest()
        return sorted((path, *kept) for path, kept in manifest.skipped.items()) if manifest else []

    def metadata(self, name: str) -> Any:
        """Return a value that was committed with the index; None when unknown."""
        manifest = self._current_manifest()
        return manifest.metadata.get(name) if manifest else None

    def generation(self) -> str:
        """Return the name of the generation in use; empty when there is none."""
        manifest = self._current_manifest()
        return manifest.generation if manifest else ""

    def check(self) -> list[str]:
        """Return the problems, on the remote store or here, in words; empty when it is intact.

        Damaged segments of this machine are deleted, so that they are fetched again.
        """
        try:
            with self._lock, translate_disk_errors(self.folder):
                self._view.read_or_keep()
                manifest = self._manifest()
                problems = [*self._check_remote(), *self._check_here(manifest)] if manifest else []
                return [problem for problem in (self.problem, *problems) if problem]
        except ContextEngineError as error:
            return [error.message]

    def _check_remote(self) -> list[str]:
        base = self._base_file.parse(self._view.last)
        if base is None or self.problem:
            return []
        sizes = self.remote.list_segment_sizes(self.repository)
        wrong = [part for part in base.segments if sizes.get(part.name) != part.size]
        return [
            f"segment {part.number} is on the remote store with {sizes.get(part.name, 0):,} of {part.size:,} bytes"
            for part in wrong
        ]

    def _check_here(self, manifest: Manifest) -> list[str]:
        problems = []
        for part in manifest.segments:
            try:
                segment = self._segment(part.name)
            except FileNotFoundError:
                return [f"segment {part.number} is missing, here and in the remote store"]
            if hash_file(self.path(part.name)) != part.name:
                problems.append(f"segment {part.number} was damaged on this machine, and is fetched again")
                self.path(part.name).unlink()
            if (segment.files, segment.chunks) != (part.files, part.chunks):
                problems.append(f"segment {part.number} has {segment.files} files, not {part.files}")
        snapshot = manifest.snapshot(self._segments(manifest))
        if len(snapshot.by_path) != snapshot.living_files:
            problems.append(f"{snapshot.living_files} files are searchable under {len(snapshot.by_path)} names")
        return problems

    # -- what is published --

    def _current_manifest(self) -> Manifest | None:
        with self._lock, translate_disk_errors(self.folder):
            return self._manifest()

    def _manifest(self) -> Manifest | None:
        """Return the state for queries: what was indexed here on top of the remote state, else the remote state."""
        base = self._view.read_in_time()
        if base.manifest is None or not self.publishes:
            here = self._read_here()
            if here.manifest is not None and here.revision == base.revision:
                return self._here_file.parse(here)
        return self._base_file.parse(base)

    def _read_here(self) -> ManifestRevision:
        """Return what was indexed here; nothing where that cannot be read."""
        here = self._here_file.read()
        try:
            self._here_file.parse(here)
        except StorageCorrupt:
            return NOTHING
        return here

    # -- segments --

    def _segments(self, manifest: Manifest) -> dict[str, Segment]:
        return {part.name: self._segment(part.name) for part in manifest.segments}

    def _segment(self, name: str) -> Segment:
        """Return a segment; fetch it when it is missing or damaged here. Raises: FileNotFoundError."""
        with suppress(FileNotFoundError, StorageCorrupt):
            return segments.load(self.path(name))
        self.fetch(name)
        return segments.load(self.path(name))

    def _fetch_missing(self, manifest: Manifest) -> None:
        """Fetch the segments that are not here yet. Raises: FileNotFoundError, StorageCorrupt."""
        for part in manifest.segments:
            if not self.path(part.name).exists():
                self.fetch(part.name)

    def fetch(self, name: str) -> None:
        """Fetch a segment as it was uploaded. Raises: FileNotFoundError, StorageCorrupt."""
        make_private_folder(self.folder)
        part = self.folder / f"{name[:16]}-{token_hex(4)}.part"
        try:
            self.remote.fetch(self.repository, name, part)
            if hash_file(part) != name:
                raise corrupt_store_error(
                    f"segment {name[:12]} on the shared store {self.remote.name} is not what was put there"
                )
            os.replace(part, self.path(name))
        finally:
            part.unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a segment on this machine, present or not."""
        return self.folder / f"{name}.seg"

    def close(self) -> None:
        """Close files and connections; the store can be used again afterwards."""
        with self._lock:
            self._snapshot = None
            self._view.end_poll()
            self._base_file.close()
            self._here_file.close()
            self.remote.close()
            if self._search is not None:
                self._search.close()

    # -- writing --

    @contextmanager
    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> Generator[SharedWriter]:
        """Yield the right to write, for one process at a time.

        `rebuild` starts an empty generation that `publish` puts in use.

        Raises: StorageBusy, StoreUnavailable, StoreUnusable, DiskFull, StorageCorrupt.
        """
        with self._lock_writer(wait_s), translate_disk_errors(self.folder):
            writer = self._open_writer(rebuild)
            try:
                yield writer
                self._share_first_index()
                self._publish_search()
                self._remove_leftovers(None)
            finally:
                writer.close()

    @contextmanager
    def _lock_writer(self, wait_s: float) -> Generator[None]:
        """Lock this machine's index, and the remote one when writes are shared."""
        with translate_disk_errors(self.folder):
            make_private_folder(self.folder)
            lock = lock_private(self.folder / "writer.lock", timeout=wait_s)
            try:
                lock.acquire()
            except Timeout:
                raise busy_error(self.repository) from None
        try:
            if self.publishes:
                with self.remote.acquire_lease(self.repository, wait_s) as self._lease:
                    yield
            else:
                yield
        finally:
            self._lease = None
            lock.release()

    @property
    def _acquired_lease(self) -> RepositoryLease:
        assert self._lease is not None, "only a machine that publishes has a lease"
        return self._lease

    def _open_writer(self, rebuild: bool) -> SharedWriter:
        with self._lock:
            base = self._view.read() if self.publishes else self._view.read_or_keep()
            published = self._usable()
            self._remove_leftovers(published)
            if published is None or rebuild:
                return self._create_writer(base, None)
            if self.publishes or self._read_here().revision == base.revision:
                return self._create_writer(base, published)
            rebased, confirmed = self._rebase(published)
            writer = self._create_writer(base, rebased)
        if confirmed:
            writer.put([], touched=confirmed)
        return writer

    def _create_writer(self, base: ManifestRevision, manifest: Manifest | None) -> SharedWriter:
        """Return a writer that continues a manifest, or starts an empty generation."""
        is_same = manifest and self._snapshot and self._snapshot.generation == manifest.generation
        loaded = self._snapshot.by_number if is_same and self._snapshot else {}
        return SharedWriter(
            self.folder,
            self._manifest_writer(base),
            manifest or Manifest(self._new_generation(base)),
            published=manifest is not None,
            load_segment=self._segment,
            known=loaded,
        )

    def _usable(self) -> Manifest | None:
        """Return what is published; None when it cannot be read and must be rebuilt."""
        try:
            manifest = self._manifest()
            if manifest is not None:
                self._segments(manifest)
        except (StorageCorrupt, FileNotFoundError):
            return None
        return manifest

    def _rebase(self, base: Manifest) -> tuple[Manifest, list[tuple[str, int, int]]]:
        """Restart the local overlay on top of a newer state; return files whose times are already known too."""
        manifest = msgspec.structs.replace(base, generation=f"{base.generation}-{token_hex(4)}")
        with suppress(FileNotFoundError, StorageCorrupt, StoreUnavailable):
            old = self._here_file.parse(self._here_file.read())
            if old is not None:
                before = file_states(old.snapshot(self._segments(old)))
                now = file_states(base.snapshot(self._segments(base)))
                return manifest, confirmed_states(before, now)
        return manifest, []

    def _new_generation(self, base: ManifestRevision) -> str:
        """Return an unused name: a revision is given once."""
        return f"g-{base.revision + 1:06d}{'' if self.publishes else f'-{token_hex(4)}'}"

    def _manifest_writer(self, base: ManifestRevision) -> Callable[[Manifest, Mapping[str, Path]], None]:
        """Return what publishes a manifest: to the remote store with its new segments, or to the file of this folder.

        A first index is made in rounds, which later ones merge: it stays here until it goes to the remote store as a
        whole.
        """
        revision = base.revision

        def share(manifest: Manifest, added: Mapping[str, Path]) -> None:
            nonlocal revision
            revision = self._share(revision, manifest, added)

        def keep(manifest: Manifest, _: Mapping[str, Path]) -> None:
            self._here_file.write(ManifestRevision(revision, encode_manifest(manifest)))

        return share if self.publishes and base.manifest is not None else keep

    def _share(self, revision: int, manifest: Manifest, added: Mapping[str, Path]) -> int:
        """Replace the state of a revision on the remote store; return the new revision."""
        content = encode_manifest(manifest)
        shared = ManifestRevision(self._acquired_lease.commit(revision, content, added, manifest.names), content)
        with self._lock:
            self._view.replace(shared)
        return shared.revision

    def _share_first_index(self) -> None:
        """Share a first index that is complete here.

        If that fails it stays in use here, and the next writer starts with it.
        """
        base, here = self._view.last, self._read_here()
        is_first = self.publishes and base.manifest is None
        if not is_first or here.revision != base.revision:
            return
        manifest = self._here_file.parse(here)
        if manifest is not None:
            self._share(here.revision, manifest, {name: self.path(name) for name in manifest.names})
            self._here_file.write(NOTHING)

    def _publish_search(self) -> None:
        """Publish the rows that the remote store searches; an interrupted run is completed by the next one."""
        base = self._view.last
        manifest = self._base_file.parse(base)
        if self._search is not None and self.publishes and manifest is not None:
            self._search.publish(self.repository, base.revision, manifest, self._segment)

    def _remove_leftovers(self, shown: Manifest | None) -> None:
        """Delete files that no state names. Only a writer may: only writers make files that are not named yet."""
        named = {*(shown.names if shown else ())}
        for file, state in ((self._base_file, self._view.last), (self._here_file, self._here_file.read())):
            with suppress(StorageCorrupt):
                manifest = file.parse(state)
                named |= manifest.names if manifest else set()
        for path in (*self.folder.glob("*.seg"), *self.folder.glob("*.part")):
            with suppress(OSError):  # still mapped by a reader on Windows
                is_left = path.stem not in named
                if path.suffix == ".part":  # a reader may be fetching
                    is_left = path.stat().st_mtime < time.time() - ABANDONED_AFTER_S
                if is_left:
                    path.unlink()

    def clear(self) -> int:
        """Delete the index: for all when it is shared, else what is here; return the bytes freed.

        Raises: StorageBusy, StoreUnavailable.
        """
        with self._lock_writer(CLEAR_WAIT_S), self._lock:
            freed = 0
            if self.publishes:
                freed = self._acquired_lease.clear()
            for path in (*self.folder.glob("*.seg"), *self.folder.glob("*.manifest")):
                with suppress(OSError):
                    size = path.stat().st_size
                    path.unlink()
                    freed += size
            self._snapshot = None
            self._view.forget()
        return freed
