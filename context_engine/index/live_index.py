"""The live index: the snapshot that answers queries, the files that changed since, and the thread that updates it.

A query never waits for a long run. Before an answer the index is compared with the workspace: by the watcher's list, or
by a scan of sizes and times where a watcher does not hear every change at once. A few edited files get a moment to be
indexed. The answer names the rest, and says if the files were not looked at for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from context_engine.errors import ContextEngineError, NextStep, NotIndexed, StorageBusy
from context_engine.index.build import IndexBuilder
from context_engine.index.build_order import ORDERED_FILES_MIN
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.snapshot import Snapshot
from context_engine.model import IndexReport, Progress
from context_engine.repo import Watcher, changes_rules, is_under

WAIT_S = 0.15
"""How long an answer waits for edited files to be indexed: a handful takes some 10 ms each."""
SHOWN_WAIT_S = 0.5
"""Longest wait for files that an answer is about to show with the lines of an older version."""
FIRST_WAIT_S = 3.0
"""How long an answer waits for the first part of the first index. Agents ask within half a second of the start."""
FIRST_POLL_S = 0.01
INLINE_FILES_MAX = 8
EDITS_WAIT_S = 5.0
"""How long a full run waits for the thread that is indexing a few edits; it never waits for another full run."""
QUICK_SCAN_FILES = 5_000
"""A scan of no more files, of 0.1 s, precedes every answer."""
SWEEP_REST_FACTOR = 20
"""After a scan of more files there is no other for twenty times its duration: at most 5 % of the time goes there."""
WATCHED_REST_S = 30.0
"""Watchers do not hear what is written through a mapping of memory: an occasional scan finds it."""
FULL_RUN_FILES = 200
"""When more files than this changed (a branch switch), a full run is faster than indexing each."""
RETRY_S = 1.0
TIDY_AFTER_S = 3.0
"""After so long without an edit the small segments of edits are merged."""


def no_index() -> NotIndexed:
    """Return the error of a question that only an index can answer."""
    return NotIndexed("this workspace has no index yet", next_steps=NextStep("index_workspace", "to build it"))


class LiveIndex:
    """One workspace's index over time. Thread-safe."""

    def __init__(self, store: EmbeddedStore, builder: IndexBuilder, *, rest_s: float) -> None:
        """`rest_s`: how old a look at the files an answer may rest on without saying so."""
        self._listeners: list[Callable[[], object]] = []
        self._store = store
        self._builder = builder
        self._lock = threading.Lock()
        self._run_lock = threading.Lock()
        self._stale: dict[str, int] = {}  # paths, each with the number of the report that named it last
        self._reports = 0
        self._requested: str = ""  # "", "paths", "run" or "rebuild": what the thread is to do next
        self._wake = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._scanned_at = 0.0
        self._rest_least_s = rest_s
        self._rest_s = 0.0
        self._looked = True  # whether the last answer rests on a look of its own
        self._queued = False  # a run was asked for and has not ended
        self._step: Progress | None = None
        self._watcher: Watcher | None = None
        self._was_exact = False
        self._untidy = False
        self.last_error: str | None = None

    # -- what answers --

    def snapshot(self) -> Snapshot | None:
        """Return the newest published snapshot; None when there is none."""
        return self._store.snapshot()

    def refresh(self) -> str:
        """Find edits and have them indexed; wait a moment when they are few, or when nothing is indexed yet.

        Return how fresh a snapshot is that is read after this. A phrase that is asked for after an answer was made may
        speak of a newer snapshot.
        """
        if self.snapshot() is None:
            self._await_first()
        stale = self.stale_files()
        if stale and not self.is_building and self.snapshot() is not None:  # a search never builds an index
            self._request("paths" if len(stale) <= FULL_RUN_FILES else "run")
            if len(stale) <= INLINE_FILES_MAX:
                known = self.last_error
                with self._wake:
                    self._wake.wait_for(lambda: not self._stale or self.last_error is not known, WAIT_S)
        return self.describe_freshness()

    def index_shown(self, paths: frozenset[str]) -> bool:
        """Have files indexed that an answer found changed; wait a moment, and return whether to answer again.

        Right after a checkout an answer may rest on an older look at the files. The next one looks again.
        """
        if not paths or self.is_building or self.snapshot() is None:
            return False
        self.mark_stale(paths)
        with self._wake:
            is_indexed = self._wake.wait_for(lambda: paths.isdisjoint(self._stale), SHOWN_WAIT_S)
            self._scanned_at = 0.0
        return is_indexed

    def _await_first(self) -> None:
        """Wait for the first part of a first index: a small repository is done before an agent asks twice."""
        until = time.monotonic() + FIRST_WAIT_S
        while self.snapshot() is None and self.is_building and time.monotonic() < until:
            time.sleep(FIRST_POLL_S)

    def pending_files(self, until: float) -> list[str]:
        """Return the files that a run in progress has not indexed yet, once it knows them; [] without a run.

        `until` is a moment of the monotonic clock, for the longest wait.
        """
        while self.is_building and time.monotonic() < until:
            pending = self._builder.pending_files()
            if pending is not None:
                return pending
            time.sleep(FIRST_POLL_S)
        return []

    def hurry(self, paths: Sequence[str], until: float) -> bool:
        """Let a run in progress index these files next, and wait for them; return whether all are indexed now."""
        order = self._builder.prefer(paths)
        while self.is_building and order.is_pending(paths) and time.monotonic() < until:
            time.sleep(FIRST_POLL_S)
        return not order.is_pending(paths)

    def stale_files(self) -> frozenset[str]:
        """Return the files known to differ from the index."""
        is_exact = self._watcher is not None and self._watcher.is_exact
        if self._watcher is not None and (pending := self._watcher.pending):
            self.mark_stale(pending)  # an answer does not wait for the quiet that a batch waits for
        if not is_exact:
            rest_s = self._rest_s
        elif self._was_exact:
            rest_s = WATCHED_REST_S
        else:
            rest_s = 0.0  # before this the watcher did not hear
        is_due = time.monotonic() - self._scanned_at >= rest_s
        if is_due and not self.is_building:
            try:
                self.scan()
            except ContextEngineError as error:  # the workspace is gone or closed: an answer says so, and why
                self.last_error = error.message
                self._scanned_at = time.monotonic()
                is_due = False
        self._looked = is_exact or is_due
        with self._lock:
            return frozenset(self._stale)

    @property
    def is_watching(self) -> bool:
        """Whether edits are reported as they happen."""
        return self._watcher is not None and self._watcher.is_running

    def follow(self, watcher: Watcher) -> None:
        """Rely on a watcher as long as it runs; it reports through `mark_stale`."""
        self._watcher = watcher

    def scan(self) -> None:
        """Scan the workspace now."""
        before, began = self._reports, time.monotonic()
        is_exact = self._watcher is not None and self._watcher.is_exact
        found, seen = self._builder.finder.find_stale_files()
        ended = time.monotonic()
        with self._lock:
            reported_since = {path: report for path, report in self._stale.items() if report > before}
            self._reports += 1
            self._stale = dict.fromkeys(found, self._reports) | reported_since
            self._scanned_at, self._was_exact = ended, is_exact
            is_large = seen > QUICK_SCAN_FILES
            self._rest_s = max(self._rest_least_s, (ended - began) * SWEEP_REST_FACTOR * is_large)

    @property
    def progress(self) -> Progress | None:
        """The progress of the run of this process; None when there is none."""
        return self._step or (Progress("scanning", 0, 0) if self._queued else None)

    @property
    def is_building(self) -> bool:
        """Whether a run of this process is in progress."""
        return self.progress is not None

    @property
    def is_long_run(self) -> bool:
        """Whether a run is in progress that has, or may have, more files than one waits for."""
        progress = self.progress
        return progress is not None and not 0 < progress.total < ORDERED_FILES_MIN

    def describe_freshness(self) -> str:
        """Return a phrase for the head of an answer: `fresh`, `3 files edited since index`, `index building 63 %`.

        `fresh when last looked at` in a large tree of which no watcher reports every edit.
        """
        progress = self.progress
        if progress is not None and progress.total:
            return f"index building {100 * progress.done // progress.total} %"
        if progress is not None:
            return "index building"
        with self._lock:
            count = len(self._stale)
        if count:
            return f"{count} file{'s' * (count != 1)} edited since index"
        if self._looked or time.monotonic() - self._scanned_at <= self._rest_least_s:
            return "fresh"
        return "fresh when last looked at"

    # -- bringing it up to date --

    def subscribe(self, listener: Callable[[], object]) -> None:
        """Call a listener whenever something may have been indexed, in the thread that did it."""
        self._listeners.append(listener)

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    def run(
        self,
        *,
        under: str = "",
        force: bool = False,
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> IndexReport:
        """Run a full update in the caller's thread. Raises: StorageBusy, DiskFull, StorageCorrupt, Cancelled."""

        def show_step(step: Progress) -> None:
            self._step = step
            if progress is not None:
                progress(step)

        if not self._run_lock.acquire(timeout=0 if self._step else EDITS_WAIT_S):
            raise StorageBusy(
                "this workspace is being indexed already", suggestion="search as usual, or call again in a moment"
            )
        try:
            with self._lock:
                before = dict(self._stale)
            report = self._builder.index_workspace(under=under, force=force, progress=show_step, cancel=cancel)
            self._note_indexed({path: report for path, report in before.items() if is_under(path, under)})
            return report
        except ContextEngineError as error:
            self.last_error = error.message
            raise
        finally:
            self._step = None
            self._run_lock.release()
            with self._wake:
                self._wake.notify_all()
            self._notify_listeners()

    def run_in_background(self, *, force: bool = False) -> bool:
        """Start a full run in the thread; return False when one is running or waiting."""
        with self._lock:
            if self.is_building or self._requested in ("run", "rebuild"):
                return False
            self._queued = True
        self._request("rebuild" if force else "run")
        return True

    def mark_stale(self, paths: frozenset[str]) -> None:
        """Add paths that changed: they are stale until they have been indexed."""
        if not paths:
            return
        with self._lock:
            self._reports += 1
            self._stale |= dict.fromkeys(paths, self._reports)
            count = len(self._stale)
        is_full_run = count > FULL_RUN_FILES or changes_rules(paths)
        self._request("run" if is_full_run else "paths")

    def _request(self, what: str) -> None:
        rank = ("", "paths", "run", "rebuild")
        with self._wake:
            self._requested = max(self._requested, what, key=rank.index)
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="ctx-indexer", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system has no thread left; whoever changed a file has changed it
                    self.last_error = f"the index was not updated: {error}"
                else:
                    self._thread = thread
            self._wake.notify_all()

    def _work(self) -> None:
        while not self._closing.is_set():
            with self._wake:
                rest_s = TIDY_AFTER_S if self._untidy else None
                self._wake.wait_for(lambda: bool(self._requested) or self._closing.is_set(), rest_s)
                wanted, self._requested = self._requested or "tidy", ""
            if self._closing.is_set():
                return
            try:
                self._perform(wanted)
            except StorageBusy as error:  # another process is at it: its result will be seen; look again later
                self.last_error = error.message
                self._closing.wait(RETRY_S)
                self._scanned_at = 0.0
            except ContextEngineError as error:
                self.last_error = error.message
            except Exception as error:  # noqa: BLE001 - a thread has no caller; `last_error` reports it
                self.last_error = f"{type(error).__name__}: {error}"
            with self._wake:
                self._queued = self._queued and self._requested in ("run", "rebuild")
                self._wake.notify_all()

    def _perform(self, wanted: str) -> None:
        if wanted in ("run", "rebuild"):
            self.run(force=wanted == "rebuild", cancel=self._closing)
            self._untidy = False
            return
        if wanted == "tidy":
            self._untidy = False
            with self._run_lock:
                self._builder.merge_segments()
            return
        with self._lock:
            paths = dict(self._stale)
        with self._run_lock:
            self._builder.index_paths(sorted(path for path in paths if not path.startswith(".git/")))
        self._note_indexed(paths)
        self._untidy = True
        self._notify_listeners()

    def _note_indexed(self, paths: Mapping[str, int]) -> None:
        """Note that paths were indexed as they were reported; one that was reported again since is still stale."""
        with self._lock:
            self._stale = {path: report for path, report in self._stale.items() if paths.get(path) != report}
            self.last_error = None

    def close(self) -> None:
        """Stop the thread; a run in progress keeps what it has committed."""
        self._closing.set()
        with self._wake:
            self._wake.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=5.0)
