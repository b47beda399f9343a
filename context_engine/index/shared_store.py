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
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from context_engine.errors import ContextEngineError, StorageCorrupt, StoreUnavailable, StoreUnusable
from context_engine.index import segment as segments
from context_engine.index.embedded_store import (
    CLEAR_WAIT_S,
    READ_TRIES,
    SCHEMA_VERSION,
    disk_bytes,
    translate_disk_errors,
)
from context_engine.index.index_store import FileState, IndexStats, count_stats
from context_engine.index.manifest import Manifest, SegmentRef, decode_manifest, encode_manifest
from context_engine.index.search_publisher import SearchPublisher
from context_engine.index.segment import Segment
from context_engine.index.shared_writer import SharedWriter, confirmed_states, file_states
from context_engine.index.snapshot import Snapshot
from context_engine.sharing import (
    RETRY_DELAY_S,
    ManifestRevision,
    RemoteStore,
    RepositoryLease,
    busy_error,
    hash_file,
    unavailable_error,
)
from context_engine.storage import ABANDONED_AFTER_S

LOOK_WAIT_S = 0.1
"""Polling a near remote store takes less than a millisecond, a distant one 0.3 s; an answer takes some milliseconds and
does not wait for a newer state: the last one is used until the new one has been fetched.
"""
SILENT_S = 5.0
"""A remote store that takes longer is reported as not answering, though no query waits for it."""
NOTHING = ManifestRevision(0, None)


class SharedStore:
    """One repository on a remote store, as this machine sees it.

    `rest_s`: how old the last poll may be for an answer; `wait_s`: how long an answer waits for a newer state, without
    limit when None.
    """

    def __init__(
        self,
        folder: Path,
        remote: RemoteStore,
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
        self.problem = ""
        """Why the remote store could not be asked, so that answers come from what was here already; empty while it
        answers."""
        self._rest_s = rest_s
        self._wait_s = wait_s
        self._search = search
        self._lock = threading.RLock()
        self._ask_at = 0.0
        self._poll: _RevisionPoll | None = None
        self._has_looked = False
        self._base = NOTHING
        self._base_file = _ManifestFile(folder / "base.manifest")
        self._here_file = _ManifestFile(folder / "here.manifest")
        self._manifests: dict[tuple[str, int, int], Manifest] = {}
        self._snapshot: Snapshot | None = None
        self._lease: RepositoryLease | None = None

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
                self._look_now()
        raise _corrupt(f"segments are missing on the shared store {self.remote.name}")

    def files(self) -> dict[str, FileState]:
        """Return the state of each indexed file, by path."""
        snapshot = self.snapshot()
        if snapshot is None:
            return {}
        return file_states(snapshot)

    def skipped_files(self) -> list[tuple[str, str, str, int, int]]:
        """Return (path, reason, detail, size, mtime_ns) of files that were skipped for their content."""
        manifest = self._current_manifest()
        if manifest is None:
            return []
        return sorted((path, *kept) for path, kept in manifest.skipped.items())

    def skipped_states(self) -> dict[str, tuple[int, int]]:
        """Return (size, mtime_ns) of files that were skipped for their content, by path."""
        return {path: (size, mtime_ns) for path, _, _, size, mtime_ns in self.skipped_files()}

    def metadata(self, name: str) -> Any:
        """Return a value that was committed with the index; None when unknown."""
        manifest = self._current_manifest()
        if manifest is None:
            return None
        return manifest.metadata.get(name)

    def stats(self) -> IndexStats:
        """Return counts of what is published; the bytes are those on this machine."""
        return count_stats(self.snapshot(), disk_bytes(self.folder))

    def generation(self) -> str:
        """Return the name of the generation in use; empty when there is none."""
        manifest = self._current_manifest()
        if manifest is None:
            return ""
        return manifest.generation

    def check(self) -> list[str]:
        """Return the problems, on the remote store or here, in words; empty when it is intact."""
        try:
            with self._lock, translate_disk_errors(self.folder):
                self._look_now()
                manifest = self._manifest()
                if manifest is None:
                    if self.problem:
                        return [self.problem]
                    return []
                problems = [self.problem, *self._check_remote(), *self._check_here(manifest)]
                return [problem for problem in problems if problem]
        except ContextEngineError as error:
            return [error.message]

    def _check_remote(self) -> list[str]:
        base = self._parse(self._base, "base")
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
                problems.append(f"segment {part.number} is damaged on this machine")
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
        base = self._look()
        if base.manifest is None or not self.publishes:
            here = self._here()
        else:
            here = None
        if here is not None and here.revision == base.revision:
            return self._parse(here, "here")
        return self._parse(base, "base")

    def _look(self) -> ManifestRevision:
        """Return the remote state, at most `rest_s` old; the last one seen while asking takes longer than `wait_s`."""
        if time.monotonic() < self._ask_at:
            return self._base
        seen = self._last_seen()
        if self._wait_s is None or (seen == NOTHING and not self._has_looked):
            return self._look_now()
        if self._poll is None:
            self._poll = _RevisionPoll(partial(self._fetch_state, seen))
        if self._poll.wait(self._wait_s):
            self._take(self._poll.result)
        elif self._poll.age_s >= SILENT_S:
            self.problem = unavailable_error(self.remote.name, f"silent for {SILENT_S:.0f} s or more").message
        return self._base

    def _look_now(self) -> ManifestRevision:
        """Return the remote state, for a caller that can wait or has no other."""
        self._take(partial(self._ask_remote, self._last_seen()))
        return self._base

    def _must_look(self) -> ManifestRevision:
        """Return the remote state, for a caller that needs it. Raises: StoreUnavailable, StoreUnusable."""
        self._poll = None
        self._accept(self._ask_remote(self._last_seen()))
        return self._base

    def _take(self, asked: Callable[[], ManifestRevision]) -> None:
        """Use the result of a poll; while the remote store does not answer, the last state stays in use."""
        self._poll = None
        try:
            self._accept(asked())
            self.problem = ""
            self._ask_at = time.monotonic() + self._rest_s
        except StoreUnusable as error:
            self.problem = error.message
            raise
        except StoreUnavailable as error:
            self.problem = error.message
            if self._base == NOTHING and self.publishes:
                raise  # who only looks here can do without: what is not there is indexed from the files
            self._ask_at = time.monotonic() + max(self._rest_s, RETRY_DELAY_S)
        self._has_looked = True

    def _ask_remote(self, seen: ManifestRevision) -> ManifestRevision:
        """Return the remote state; `seen` when it has not changed."""
        if self.remote.revision(self.repository) == seen.revision:
            return seen
        return self.remote.read_manifest(self.repository)

    def _fetch_state(self, seen: ManifestRevision) -> ManifestRevision:
        """Return the remote state after fetching its segments, so that no query waits for them.

        Damage is reported by who opens them.
        """
        base = self._ask_remote(seen)
        if base is not seen and base.manifest is not None:
            with suppress(msgspec.MsgspecError, FileNotFoundError, StorageCorrupt):
                for part in decode_manifest(base.manifest).segments:
                    if not self.path(part.name).exists():
                        self.fetch(part.name)
        return base

    def _accept(self, base: ManifestRevision) -> None:
        """Make a state the last one seen."""
        if base is not self._base:
            self._keep_base(base)
            self._base = base

    def _last_seen(self) -> ManifestRevision:
        """Return the last state seen, here or by another process; nothing when it cannot be read any more."""
        if self._base == NOTHING:
            held = self._base_file.read() or NOTHING
            with suppress(StorageCorrupt):
                self._parse(held, "base")
                self._base = held
        return self._base

    def _here(self) -> ManifestRevision | None:
        """Return what was indexed here; None when there is nothing readable."""
        here = self._here_file.read()
        if here is not None:
            with suppress(StorageCorrupt):
                self._parse(here, "here")
                return here
        return None

    def _keep_base(self, base: ManifestRevision) -> None:
        if base.manifest is None:
            self._base_file.remove()
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._base_file.write(base)

    def _parse(self, held: ManifestRevision, which: str) -> Manifest | None:
        """Parse the manifest, once for each revision and content."""
        if held.manifest is None:
            return None
        mark = which, held.revision, hash(held.manifest)
        if mark not in self._manifests:
            try:
                manifest = decode_manifest(held.manifest)
            except msgspec.MsgspecError as error:
                raise _corrupt(
                    f"the list of segments on the shared store {self.remote.name} cannot be read: {error}"
                ) from error
            self._manifests = {key: known for key, known in self._manifests.items() if key[0] != which}
            self._manifests[mark] = manifest
        return self._manifests[mark]

    def refresh(self) -> None:
        """Poll the remote store now, however recent the last poll. Raises: StoreUnavailable, StoreUnusable."""
        with self._lock, translate_disk_errors(self.folder):
            self._look_now()

    # -- segments --

    def segment_refs(self) -> tuple[SegmentRef, ...]:
        """Return the segments of the published state. Raises: StorageCorrupt when it cannot be read."""
        manifest = self._current_manifest()
        if manifest is None:
            return ()
        return manifest.segments

    def uploaded_names(self) -> frozenset[str]:
        """Return the segments that the remote store must have: those of the state that all machines see."""
        with self._lock:
            base = self._parse(self._base, "base")
            if base is None:
                return frozenset()
            return base.names

    def _segments(self, manifest: Manifest) -> dict[str, Segment]:
        return {part.name: self._segment(part.name) for part in manifest.segments}

    def _segment(self, name: str) -> Segment:
        """Return a segment; fetch it when it is missing or damaged here. Raises: FileNotFoundError."""
        with suppress(FileNotFoundError, StorageCorrupt):
            return segments.load(self.path(name))
        self.fetch(name)
        return segments.load(self.path(name))

    def fetch(self, name: str) -> None:
        """Fetch a segment as it was uploaded. Raises: FileNotFoundError, StorageCorrupt."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{name[:16]}-{token_hex(4)}.part"
        try:
            self.remote.fetch(self.repository, name, part, lambda _: None)
            if hash_file(part) != name:
                raise _corrupt(f"segment {name[:12]} on the shared store {self.remote.name} is not what was put there")
            os.replace(part, self.path(name))
        finally:
            part.unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a segment on this machine, present or not."""
        return self.folder / f"{name}.seg"

    def close(self) -> None:
        """Close files and connections; the store can be used again afterwards."""
        with self._lock:
            self._snapshot = self._poll = None
            self._manifests = {}
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
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / "writer.lock", timeout=wait_s)
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
            if self.publishes:
                base = self._must_look()
            else:
                base = self._look_now()
            before = self._usable()
            manifest, looks = (None, ()) if rebuild else (before, ())
            if manifest is not None and not self.publishes and self._here_revision() != base.revision:
                manifest, looks = self._rebase(manifest)
            self._remove_leftovers(before)
            if self._snapshot is None:
                known = {}
            else:
                known = self._snapshot.by_number
            writer = SharedWriter(
                self.folder,
                self._manifest_writer(base),
                manifest or Manifest(self._new_generation(base)),
                published=manifest is not None,
                load_segment=self._segment,
                known=known if self._snapshot and manifest and self._snapshot.generation == manifest.generation else {},
            )
        if looks:
            writer.put([], touched=looks)
        return writer

    def _usable(self) -> Manifest | None:
        """Return what is published; None when it cannot be read and must be rebuilt."""
        try:
            manifest = self._manifest()
            if manifest is not None:
                self._segments(manifest)
        except (StorageCorrupt, FileNotFoundError):
            return None
        return manifest

    def _here_revision(self) -> int | None:
        here = self._here()
        if here is None:
            return None
        return here.revision

    def _rebase(self, base: Manifest) -> tuple[Manifest, list[tuple[str, int, int]]]:
        """Restart the local overlay on top of a newer state; return files whose times are already known too."""
        manifest = msgspec.structs.replace(base, generation=f"{base.generation}-{token_hex(4)}")
        here = self._here()
        if here is None:
            return manifest, []
        with suppress(FileNotFoundError, StorageCorrupt, StoreUnavailable):
            old = self._parse(here, "here")
            if old is not None:
                before = file_states(old.snapshot(self._segments(old)))
                now = file_states(base.snapshot(self._segments(base)))
                return manifest, confirmed_states(before, now)
        return manifest, []

    def _new_generation(self, base: ManifestRevision) -> str:
        """Return an unused name: a revision is given once."""
        if self.publishes:
            return f"g-{base.revision + 1:06d}"
        return f"g-{base.revision + 1:06d}-{token_hex(4)}"

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

        if self.publishes and base.manifest is not None:
            return share
        return keep

    def _share(self, revision: int, manifest: Manifest, added: Mapping[str, Path]) -> int:
        """Replace the state of a revision on the remote store; return the new revision."""
        content = encode_manifest(manifest)
        shared = ManifestRevision(self._acquired_lease.commit(revision, content, added, manifest.names), content)
        with self._lock:
            self._poll = None
            self._accept(shared)
        return shared.revision

    def _share_first_index(self) -> None:
        """Share a first index that is complete here.

        If that fails it stays in use here, and the next writer starts with it.
        """
        here = self._here()
        is_first = self.publishes and self._base.manifest is None
        if not is_first or here is None or here.revision != self._base.revision:
            return
        manifest = self._parse(here, "here")
        if manifest is not None:
            self._share(here.revision, manifest, {name: self.path(name) for name in manifest.names})
            self._here_file.remove()

    def _publish_search(self) -> None:
        """Publish the rows that the remote store searches; an interrupted run is completed by the next one."""
        base = self._base
        manifest = self._parse(base, "base")
        if self._search is not None and self.publishes and manifest is not None:
            self._search.publish(self.repository, base.revision, manifest, self._segment)

    def _remove_leftovers(self, shown: Manifest | None) -> None:
        """Delete files that no state names. Only a writer may: only writers make files that are not named yet."""
        named = set() if shown is None else set(shown.names)
        for held, which in ((self._base, "base"), (self._here_file.read() or NOTHING, "here")):
            with suppress(StorageCorrupt):
                manifest = self._parse(held, which)
                named |= set() if manifest is None else manifest.names
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
            if self.publishes:
                freed = self._acquired_lease.clear()
            else:
                freed = 0
            for path in (*self.folder.glob("*.seg"), *self.folder.glob("*.manifest")):
                with suppress(OSError):
                    size = path.stat().st_size
                    path.unlink()
                    freed += size
            self._base, self._snapshot, self._poll, self._ask_at = NOTHING, None, None, 0.0
        return freed


class _RevisionPoll:
    """A poll of the remote store in a thread of its own, for which callers may wait."""

    def __init__(self, look: Callable[[], ManifestRevision]) -> None:
        self._look = look
        self._began = time.monotonic()
        self._over = threading.Event()
        self._seen = NOTHING
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="ctx-remote-store", daemon=True).start()

    def _run(self) -> None:
        try:
            self._seen = self._look()
        except Exception as error:  # noqa: BLE001 - a thread has no caller; who takes the outcome meets it
            self._error = error
        self._over.set()

    @property
    def age_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def wait(self, within_s: float) -> bool:
        """Return whether it ended so long after it began; wait no longer, and not at all once that time has passed."""
        return self._over.wait(max(0.0, within_s - self.age_s))

    def result(self) -> ManifestRevision:
        """Return the state, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._seen


class _ManifestFile:
    """A manifest with its revision in a file that is replaced as a whole; read again when the file is another one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._held: ManifestRevision | None = None

    def read(self) -> ManifestRevision | None:
        try:
            facts = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self._mark, self._held = None, None
            return None
        mark = facts.st_ino, facts.st_mtime_ns, facts.st_size
        if mark != self._mark:
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:  # cleared between two looks
                return None
            self._held = (
                ManifestRevision(int.from_bytes(content[:8], "little"), content[8:]) if len(content) > 8 else None
            )
            self._mark = mark
        return self._held

    def write(self, held: ManifestRevision) -> None:
        part = self._path.with_name(f"{self._path.name}-{token_hex(4)}.part")
        try:
            part.write_bytes(held.revision.to_bytes(8, "little") + (held.manifest or b""))
            os.replace(part, self._path)
        finally:
            part.unlink(missing_ok=True)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def _corrupt(what: str) -> StorageCorrupt:
    return StorageCorrupt(what, suggestion="run `ctx index --force` where the index is shared from")
