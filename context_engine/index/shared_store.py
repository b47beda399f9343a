"""The shared store: a team's index lies in a depot, and every machine keeps its segments and ranks over them by itself.

    <folder>/base.manifest   the last state of the depot that was seen here; serves while the depot does not answer
    <folder>/here.manifest   what was indexed here over that state: nobody else's business, or a first index not shared yet
    <folder>/<sha256>.seg    segments, by what is in them; one that is missing or damaged is fetched
    <folder>/writer.lock     one writing process of this machine

Who `shares` writes to the depot, and everybody sees it: a job that follows a branch. Who does not keeps what differs in this
work tree over what the others share; when the depot moves on, that begins anew, and what was looked at stays known. Because
all read the same segments, all answer alike. The folder is a cache: deleting it costs the time to fetch.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping
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
    UNFINISHED,
    disk_bytes,
    translate_disk_errors,
)
from context_engine.index.index_store import FileState, IndexStats, count_stats
from context_engine.index.manifest import Manifest, SegmentRef, decode_manifest, encode_manifest
from context_engine.index.segment import Segment
from context_engine.index.shared_writer import SharedWriter, confirmed_states, file_states
from context_engine.index.snapshot import Snapshot
from context_engine.sharing.remote_store import DOWN_REST_S, Depot, Held, Sent, busy, digest, unavailable
from context_engine.storage.state_folder import ABANDONED_AFTER_S

LOOK_WAIT_S = 0.1
"""A look at a depot that is near takes less than a millisecond, round the world and back .3 s; an answer takes some milliseconds,
and does not become slow because a newer state may be there: the last one serves until that has been fetched."""
SILENT_S = 5.0
"""A depot that takes longer is told of as one that does not answer, though nobody waits for it."""
NOTHING = Held(0, None)


class SharedStore:
    """One repository in a depot, as this machine sees it. Thread-safe; any number of processes may share the folder.

    `rest_s`: an answer may rest on a look at the depot this old; `wait_s`: and waits so long for a newer one, for ever when None.
    """

    def __init__(
        self,
        folder: Path,
        depot: Depot,
        repository: str,
        *,
        shares: bool = True,
        rest_s: float = 0.0,
        wait_s: float | None = None,
    ) -> None:
        """Nothing is opened, asked or created until it is needed."""
        self.folder = folder
        self.depot = depot
        self.repository = f"{SCHEMA_VERSION}/{repository}"
        self.shares = shares
        self.problem = ""
        """Why the depot could not be asked, so that answers come from what was here already; empty while it answers."""
        self._rest_s = rest_s
        self._wait_s = wait_s
        self._lock = threading.RLock()
        self._ask_at = 0.0
        self._poll: _RevisionPoll | None = None
        self._has_looked = False
        self._base = NOTHING
        self._base_file = _ManifestFile(folder / "base.manifest")
        self._here_file = _ManifestFile(folder / "here.manifest")
        self._manifests: dict[tuple[str, int, int], Manifest] = {}
        self._snapshot: Snapshot | None = None

    # -- reading --

    def snapshot(self) -> Snapshot | None:
        """The newest published state; None when there is none. The same object as long as nothing was committed.

        Raises: StoreUnavailable when who shares has seen nothing yet, StoreUnusable, StorageCorrupt, DiskFull.
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
        raise _corrupt(f"segments are missing on the shared store {self.depot.name}")

    def files(self) -> dict[str, FileState]:
        """What the index knows of each file, by path."""
        snapshot = self.snapshot()
        return {} if snapshot is None else file_states(snapshot)

    def skipped_files(self) -> list[tuple[str, str, str, int, int]]:
        """(path, reason, detail, size, mtime_ns) of files whose content kept them out."""
        manifest = self._current_manifest()
        return [] if manifest is None else sorted((path, *kept) for path, kept in manifest.skipped.items())

    def skipped_states(self) -> dict[str, tuple[int, int]]:
        """(size, mtime_ns) of files whose content kept them out."""
        return {path: (size, mtime_ns) for path, _, _, size, mtime_ns in self.skipped_files()}

    def metadata(self, name: str) -> Any:
        """A fact that was committed with the index; None when unknown."""
        manifest = self._current_manifest()
        return None if manifest is None else manifest.metadata.get(name)

    def stats(self) -> IndexStats:
        """Counts of what is published; the bytes are those that it takes on this machine."""
        return count_stats(self.snapshot(), disk_bytes(self.folder))

    def generation(self) -> str:
        """The name of the generation that serves; empty when there is none."""
        manifest = self._current_manifest()
        return "" if manifest is None else manifest.generation

    def check(self) -> list[str]:
        """What is wrong, in the depot or here, in words; empty when it is sound."""
        try:
            with self._lock, translate_disk_errors(self.folder):
                self._look_now()
                manifest = self._manifest()
                if manifest is None:
                    return [self.problem] if self.problem else []
                problems = [self.problem, *self._check_depot(), *self._check_here(manifest)]
                return [problem for problem in problems if problem]
        except ContextEngineError as error:
            return [error.message]

    def _check_depot(self) -> list[str]:
        base = self._parse(self._base, "base")
        if base is None or self.problem:
            return []
        sizes = self.depot.sizes(self.repository)
        wrong = [part for part in base.segments if sizes.get(part.name) != part.size]
        return [
            f"segment {part.number} lies in the depot with {sizes.get(part.name, 0):,} of {part.size:,} bytes"
            for part in wrong
        ]

    def _check_here(self, manifest: Manifest) -> list[str]:
        problems = []
        for part in manifest.segments:
            try:
                segment = self._segment(part.name)
            except FileNotFoundError:
                return [f"segment {part.number} is missing, here and in the depot"]
            if digest(self.path(part.name)) != part.name:
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
        """What this machine shows: what was indexed here over the state of the depot, else that state."""
        base = self._look()
        here = self._here() if base.manifest is None or not self.shares else None
        if here is not None and here.revision == base.revision:
            return self._parse(here, "here")
        return self._parse(base, "base")

    def _look(self) -> Held:
        """The state of the depot, not older than the rest; the last one that was seen while asking takes longer than we wait."""
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
            self.problem = unavailable(self.depot.name, f"silent for {SILENT_S:.0f} s or more").message
        return self._base

    def _look_now(self) -> Held:
        """The same by who can wait, or has nothing to go on with."""
        self._take(partial(self._ask_remote, self._last_seen()))
        return self._base

    def _must_look(self) -> Held:
        """The same by who can do nothing without it. Raises: StoreUnavailable, StoreUnusable."""
        self._poll = None
        self._accept(self._ask_remote(self._last_seen()))
        return self._base

    def _take(self, asked: Callable[[], Held]) -> None:
        """What became of a look; while the depot does not answer, what was seen last goes on serving."""
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
            if self._base == NOTHING and self.shares:
                raise  # who only looks here can do without: what is not there is indexed from the files
            self._ask_at = time.monotonic() + max(self._rest_s, DOWN_REST_S)
        self._has_looked = True

    def _ask_remote(self, seen: Held) -> Held:
        """The state of the depot; `seen` when it still is that."""
        if self.depot.revision(self.repository) == seen.revision:
            return seen
        return self.depot.held(self.repository)

    def _fetch_state(self, seen: Held) -> Held:
        """The same, with its segments here, so that nobody waits for them later. What is amiss is told to who opens them."""
        base = self._ask_remote(seen)
        if base is not seen and base.manifest is not None:
            with suppress(msgspec.MsgspecError, FileNotFoundError, StorageCorrupt):
                for part in decode_manifest(base.manifest).segments:
                    if not self.path(part.name).exists():
                        self.fetch(part.name)
        return base

    def _accept(self, base: Held) -> None:
        """Take a state for the last that was seen."""
        if base is not self._base:
            self._keep_base(base)
            self._base = base

    def _last_seen(self) -> Held:
        """The last state that was seen, here or by another process; nothing when that cannot be read any more."""
        if self._base == NOTHING:
            held = self._base_file.read() or NOTHING
            with suppress(StorageCorrupt):
                self._parse(held, "base")
                self._base = held
        return self._base

    def _here(self) -> Held | None:
        """What was indexed here; None when there is nothing, or nothing that can be read any more."""
        here = self._here_file.read()
        if here is not None:
            with suppress(StorageCorrupt):
                self._parse(here, "here")
                return here
        return None

    def _keep_base(self, base: Held) -> None:
        if base.manifest is None:
            self._base_file.remove()
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._base_file.write(base)

    def _parse(self, held: Held, which: str) -> Manifest | None:
        """The manifest, read once for each revision and content."""
        if held.manifest is None:
            return None
        mark = which, held.revision, hash(held.manifest)
        if mark not in self._manifests:
            try:
                manifest = decode_manifest(held.manifest)
            except msgspec.MsgspecError as error:
                raise _corrupt(
                    f"the list of segments on the shared store {self.depot.name} cannot be read: {error}"
                ) from error
            self._manifests = {each: known for each, known in self._manifests.items() if each[0] != which}
            self._manifests[mark] = manifest
        return self._manifests[mark]

    def refresh(self) -> None:
        """Ask the depot now, whatever was seen of it of late. Raises: StoreUnavailable, StoreUnusable."""
        with self._lock, translate_disk_errors(self.folder):
            self._look_now()

    # -- segments --

    def segment_refs(self) -> tuple[SegmentRef, ...]:
        """What the published state is made of. Raises: StorageCorrupt when that cannot be read."""
        manifest = self._current_manifest()
        return () if manifest is None else manifest.segments

    def uploaded_names(self) -> frozenset[str]:
        """The segments that the depot must have: those of the state that all see."""
        with self._lock:
            base = self._parse(self._base, "base")
            return frozenset() if base is None else base.names

    def _segments(self, manifest: Manifest) -> dict[str, Segment]:
        return {part.name: self._segment(part.name) for part in manifest.segments}

    def missing_segments(self) -> tuple[SegmentRef, ...]:
        """What of the published state does not lie on this machine yet."""
        return tuple(part for part in self.segment_refs() if not self.path(part.name).exists())

    def _segment(self, name: str) -> Segment:
        """A segment as it lies here; fetched when it does not, or is damaged. Raises: FileNotFoundError."""
        with suppress(FileNotFoundError, StorageCorrupt):
            return segments.load(self.path(name))
        self.fetch(name)
        return segments.load(self.path(name))

    def fetch(self, name: str, sent: Sent = lambda _: None) -> None:
        """Have a segment lie here as it was put into the depot. Raises: FileNotFoundError, StorageCorrupt."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{name[:16]}-{token_hex(4)}.part"
        try:
            self.depot.fetch(self.repository, name, part, sent)
            if digest(part) != name:
                raise _corrupt(f"segment {name[:12]} on the shared store {self.depot.name} is not what was put there")
            os.replace(part, self.path(name))
        finally:
            part.unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Where a segment lies on this machine, or would."""
        return self.folder / f"{name}.seg"

    def close(self) -> None:
        """Let go of files and connections; the store can be used again afterwards."""
        with self._lock:
            self._snapshot = self._poll = None
            self._manifests = {}
            self.depot.close()

    # -- writing --

    @contextmanager
    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> Generator[SharedWriter]:
        """The right to write, for one process at a time. `rebuild` starts an empty generation that `publish` puts in place.

        Raises: StorageBusy, StoreUnavailable, StoreUnusable, DiskFull, StorageCorrupt.
        """
        with self._lock_writer(wait_s), translate_disk_errors(self.folder):
            writer = self._open_writer(rebuild)
            try:
                yield writer
                self._share_first_index()
                self._remove_leftovers(None)
            finally:
                writer.close()

    @contextmanager
    def _lock_writer(self, wait_s: float) -> Generator[None]:
        """Of this machine always, of all of them when what is written is shared."""
        with translate_disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / "writer.lock", timeout=wait_s)
            try:
                lock.acquire()
            except Timeout:
                raise busy(self.repository) from None
        try:
            if self.shares:
                with self.depot.writing(self.repository, wait_s):
                    yield
            else:
                yield
        finally:
            lock.release()

    def _open_writer(self, rebuild: bool) -> SharedWriter:
        with self._lock:
            base = self._must_look() if self.shares else self._look_now()
            before = self._usable()
            manifest, looks = (None, ()) if rebuild else (before, ())
            if manifest is not None and not self.shares and self._here_revision() != base.revision:
                manifest, looks = self._rebase(manifest)
            self._remove_leftovers(before)
            known = {} if self._snapshot is None else self._snapshot.by_number
            writer = SharedWriter(
                self.folder,
                self._manifest_writer(base),
                partial(self.depot.stage, self.repository) if self.shares else None,
                manifest or Manifest(self._new_generation(base)),
                published=manifest is not None,
                load_segment=self._segment,
                known=known if self._snapshot and manifest and self._snapshot.generation == manifest.generation else {},
            )
        if looks:
            writer.put([], touched=looks)
        return writer

    def _usable(self) -> Manifest | None:
        """What is published; None when it cannot be read and is built anew."""
        try:
            manifest = self._manifest()
            if manifest is not None:
                self._segments(manifest)
        except (StorageCorrupt, FileNotFoundError):
            return None
        return manifest

    def _here_revision(self) -> int | None:
        here = self._here()
        return None if here is None else here.revision

    def _rebase(self, base: Manifest) -> tuple[Manifest, list[tuple[str, int, int]]]:
        """What is indexed here begins anew over a newer state; times that were looked at stay known."""
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

    def _new_generation(self, base: Held) -> str:
        """A name that nothing was called before: a revision is given once."""
        return f"g-{base.revision + 1:06d}" if self.shares else f"g-{base.revision + 1:06d}-{token_hex(4)}"

    def _manifest_writer(self, base: Held) -> Callable[[Manifest, Mapping[str, Path]], None]:
        """Puts a manifest where readers look: in the depot with its new segments, or in the file of this folder.

        A first index is made in rounds, which later ones merge: it lies here until it goes to the depot as a whole.
        """
        revision = base.revision

        def share(manifest: Manifest, added: Mapping[str, Path]) -> None:
            nonlocal revision
            revision = self._share(revision, manifest, added)

        def keep(manifest: Manifest, _: Mapping[str, Path]) -> None:
            self._here_file.write(Held(revision, encode_manifest(manifest)))

        return share if self.shares and base.manifest is not None else keep

    def _share(self, revision: int, manifest: Manifest, added: Mapping[str, Path]) -> int:
        """Put a state in the place of that of a revision, for all; the new revision."""
        content = encode_manifest(manifest)
        shared = Held(self.depot.commit(self.repository, revision, content, added, manifest.names), content)
        with self._lock:
            self._poll = None
            self._accept(shared)
        return shared.revision

    def _share_first_index(self) -> None:
        """Share a first index that lies here. When that fails it goes on serving here, and the next writer begins with it."""
        here = self._here()
        is_first = self.shares and self._base.manifest is None
        if not is_first or here is None or here.revision != self._base.revision:
            return
        manifest = self._parse(here, "here")
        if manifest is not None:
            self._share(here.revision, manifest, {name: self.path(name) for name in manifest.names})
            self._here_file.remove()

    def _remove_leftovers(self, shown: Manifest | None) -> None:
        """What no state names: only a writer does this, because only writers make what is not named yet."""
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

    def restore(self, name: str, sent: Sent = lambda _: None) -> None:
        """Put a segment as it lies here back into the depot, for who shares. Raises: StorageBusy, StoreUnavailable."""
        with self._lock_writer(CLEAR_WAIT_S):
            self.depot.restore(self.repository, name, self.path(name), sent)

    def forget(self, names: Collection[str]) -> int:
        """Take segments that are lost off the list; how many files were in them, which `index` then reads again.

        Raises: StorageBusy, StoreUnavailable, StorageCorrupt.
        """
        with self._lock_writer(CLEAR_WAIT_S), translate_disk_errors(self.folder), self._lock:
            base, manifest = self._look_now(), self._manifest()
            if manifest is None:
                return 0
            lost = [part for part in manifest.segments if part.name in names]
            if not self.shares and self._here_revision() != base.revision:
                manifest = msgspec.structs.replace(manifest, generation=f"{manifest.generation}-{token_hex(4)}")
            self._manifest_writer(base)(manifest.without(names, UNFINISHED), {})
        return sum(part.files - len(part.dead) for part in lost)

    def clear(self) -> int:
        """Delete the index: for all when it is shared, else what is here; bytes freed. Raises: StorageBusy, StoreUnavailable."""
        with self._lock_writer(CLEAR_WAIT_S), self._lock:
            freed = self.depot.clear(self.repository) if self.shares else 0
            for path in (*self.folder.glob("*.seg"), *self.folder.glob("*.manifest")):
                with suppress(OSError):
                    size = path.stat().st_size
                    path.unlink()
                    freed += size
            self._base, self._snapshot, self._poll, self._ask_at = NOTHING, None, None, 0.0
        return freed


class _RevisionPoll:
    """A look at the depot in a thread of its own, which somebody may wait for, or not."""

    def __init__(self, look: Callable[[], Held]) -> None:
        self._look = look
        self._began = time.monotonic()
        self._over = threading.Event()
        self._seen = NOTHING
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="ctx-depot", daemon=True).start()

    def _run(self) -> None:
        try:
            self._seen = self._look()
        except Exception as error:  # noqa: BLE001 - a thread has no caller; who takes the outcome meets it
            self._error = error
        self._over.set()

    @property
    def age_s(self) -> float:
        """How long ago it began."""
        return time.monotonic() - self._began

    def wait(self, within_s: float) -> bool:
        """Whether it is over so long after it began; waits no longer, and not at all once that time has passed."""
        return self._over.wait(max(0.0, within_s - self.age_s))

    def result(self) -> Held:
        """What it saw, or raises."""
        if self._error is not None:
            raise self._error
        return self._seen


class _ManifestFile:
    """A manifest with its revision in a file that is replaced as a whole; read again when it is another file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None
        self._held: Held | None = None

    def read(self) -> Held | None:
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
            self._held = Held(int.from_bytes(content[:8], "little"), content[8:]) if len(content) > 8 else None
            self._mark = mark
        return self._held

    def write(self, held: Held) -> None:
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
