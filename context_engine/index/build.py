"""The pipeline: walk -> what changed -> read, outline, cut -> segments -> commits, in rounds, on this and other cores.

A round is some megabytes of files. Each ends in a commit, so a search sees files as they come, a kill loses one round at
most, and the next run goes on where this one stopped.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from context_engine.errors import Cancelled
from context_engine.index.changes import Changes, compare
from context_engine.index.importance import importance
from context_engine.index.jobs import Job, Outcome, describe_all
from context_engine.index.worker import Pool
from context_engine.languages import Grammars, Languages
from context_engine.model import Skipped
from context_engine.store.embedded import EmbeddedStore, Writer
from context_engine.workspace.walk import Walk, walk

ROUND_BYTES = 16_000_000
"""Text of one round: some seconds of work, and about 300 MB of memory at its end."""
FIRST_ROUND_BYTES = 2_000_000
"""The first round is small: something can be found within a second, and other processes get time to start."""
SHARE_FILES_MIN = 24
"""Rounds of fewer files are not worth handing to another process."""
PROGRESS_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: `done` of `total` files; `stage` is `scanning`, `indexing` or `finishing`."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one run did. Counts are files unless named otherwise; `seconds` is wall time."""

    added: int
    changed: int
    removed: int
    unchanged: int
    files: int
    chunks: int
    symbols: int
    skipped: tuple[Skipped, ...]
    seconds: float


class Builder:
    """Keeps one store true to one root. Holds the languages and the other processes between runs."""

    def __init__(
        self, root: Path, store: EmbeddedStore, languages: Languages, grammars: Grammars, pool: Pool, *, bytes_max: int
    ) -> None:
        self._root = root
        self._store = store
        self._languages = languages
        self._grammars = grammars
        self._pool = pool
        self._bytes_max = bytes_max

    def run(
        self,
        *,
        under: str = "",
        force: bool = False,
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> IndexReport:
        """Bring the index up to date; `under` looks at one folder only; `force` builds all anew beside the old one.

        Raises: StorageBusy, DiskFull, StorageCorrupt, Cancelled (what was committed stays).
        """
        began = time.perf_counter()
        run = _Run(progress, cancel)
        run.tell("scanning", 0, 0)
        with self._store.writer(rebuild=force) as writer:
            seen = walk(self._root, bytes_max=self._bytes_max, under=under)
            run.check()
            changes = self._changes(seen, writer, under)
            if not changes.is_empty or not writer.is_published:
                self._update(writer, seen, changes, run)
                self._finish(writer, changes, run)
            writer.set_facts(_walk_facts(seen) if not under else {})
            snapshot = writer.snapshot()
        return IndexReport(
            added=run.written - run.changed,
            changed=run.changed,
            removed=len(changes.removed),
            unchanged=changes.unchanged + run.touched,
            files=snapshot.living_files,
            chunks=snapshot.living_chunks,
            symbols=snapshot.symbols,
            skipped=(*seen.skipped, *run.skipped),
            seconds=time.perf_counter() - began,
        )

    def update_paths(self, paths: Sequence[str]) -> bool:
        """Look again at these files only (edited, created or deleted), as one commit; whether anything changed.

        Raises: StorageBusy, DiskFull.
        """
        with self._store.writer(wait_s=2.0) as writer:
            indexed = writer.states(paths)
            present = [path for path in paths if os.path.isfile(os.path.join(self._root, path))]
            gone = [path for path in paths if path in indexed and path not in set(present)]
            known = {path: indexed[path] for path in present if path in indexed}
            number, target = writer.new_segment()
            outcome = self._describe_here(Job(str(self._root), present, known, self._bytes_max, str(target)), _Run())
            self._commit(writer, [number] if outcome.written else [], [outcome], gone)
            writer.publish()
            return bool(outcome.written or gone)

    # -- the steps --

    def _changes(self, seen: Walk, writer: Writer, under: str) -> Changes:
        present = {entry.path: (entry.size, entry.mtime_ns) for entry in seen.entries}
        indexed, kept_out = writer.files(), writer.kept_out()
        if under:
            inside = under.rstrip("/") + "/"
            indexed = {path: state for path, state in indexed.items() if path.startswith(inside)}
            kept_out = {path: state for path, state in kept_out.items() if path.startswith(inside)}
        return compare(indexed, present, kept_out)

    def _update(self, writer: Writer, seen: Walk, changes: Changes, run: _Run) -> None:
        """Describe all that is new or suspect, round by round; the removed go with the first commit."""
        indexed = writer.files()
        sizes = {entry.path: entry.size for entry in seen.entries}
        todo = sorted((*changes.added, *changes.suspect))
        known = {path: indexed[path].sha256 for path in changes.suspect}
        run.total = len(todo)
        removed: Sequence[str] = changes.removed
        for paths in _rounds(todo, sizes):
            run.check()
            numbers, outcomes = self._round(writer, paths, known, run)
            self._commit(writer, numbers, outcomes, removed)
            run.changed += sum(path in known for path in paths) - sum(len(o.touched) for o in outcomes)
            removed = ()
            if writer.generation and not writer.is_published and not self._store.generation():
                writer.publish()  # the first index serves from its first round on
        if removed:
            self._commit(writer, [], [], removed)

    def _round(
        self, writer: Writer, paths: Sequence[str], known: Mapping[str, bytes], run: _Run
    ) -> tuple[list[int], list[Outcome]]:
        """One round, shared out: every process that is ready takes a part, this one the first."""
        helpers = self._pool.ready() if len(paths) >= SHARE_FILES_MIN else []
        shares = [paths[n :: len(helpers) + 1] for n in range(len(helpers) + 1)]
        jobs, numbers = [], []
        for share in shares:
            number, target = writer.new_segment()
            numbers.append(number)
            own = {path: known[path] for path in share if path in known}
            jobs.append(Job(str(self._root), share, own, self._bytes_max, str(target)))
        pending = [helper.start(job) for helper, job in zip(helpers, jobs[1:], strict=True)]
        outcomes = [self._describe_here(jobs[0], run)]
        for wait, job in zip(pending, jobs[1:], strict=True):
            # A process that died (killed, out of memory) leaves its share to this one.
            outcome = wait() or self._describe_here(job, run)
            outcomes.append(outcome)
            run.add(len(job.paths))
        return [number for number, outcome in zip(numbers, outcomes, strict=True) if outcome.written], outcomes

    def _describe_here(self, job: Job, run: _Run) -> Outcome:
        return describe_all(job, self._languages, self._grammars, each=run.step)

    def _commit(
        self, writer: Writer, numbers: Sequence[int], outcomes: Sequence[Outcome], removed: Sequence[str]
    ) -> None:
        writer.put(
            numbers,
            removed=[*removed, *(path for outcome in outcomes for path in outcome.vanished)],
            skipped=[row for outcome in outcomes for row in outcome.skipped],
            touched=[row for outcome in outcomes for row in outcome.touched],
        )

    def _finish(self, writer: Writer, changes: Changes, run: _Run) -> None:
        run.tell("finishing", run.total, run.total)
        writer.compact()
        writer.set_importance(importance(writer.snapshot()))
        writer.publish()
        run.skipped = [Skipped(path, reason, detail) for path, reason, detail, *_ in writer.skipped()]


@dataclass(slots=True)
class _Run:
    """Progress and cancellation of one run."""

    progress: Callable[[Progress], None] | None = None
    cancel: threading.Event | None = None
    total: int = 0
    done: int = 0
    written: int = 0
    changed: int = 0
    touched: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    told_at: float = 0.0

    def tell(self, stage: str, done: int, total: int) -> None:
        """Tell whoever waits."""
        if self.progress is not None:
            self.progress(Progress(stage, done, total))

    def step(self) -> None:
        """One file more."""
        self.add(1)
        self.check()

    def add(self, files: int) -> None:
        """Some files more; told at most ten times a second."""
        self.done += files
        now = time.monotonic()
        if now - self.told_at >= PROGRESS_EVERY_S:
            self.told_at = now
            self.tell("indexing", self.done, self.total)

    def check(self) -> None:
        """Raises Cancelled when the caller has cancelled."""
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled("indexing was cancelled", suggestion="call index_workspace to go on; nothing is lost")


def _rounds(paths: Sequence[str], sizes: Mapping[str, int]) -> list[list[str]]:
    rounds: list[list[str]] = [[]]
    room = FIRST_ROUND_BYTES
    for path in paths:
        if room <= 0:
            rounds.append([])
            room = ROUND_BYTES
        rounds[-1].append(path)
        room -= sizes[path]
    return [each for each in rounds if each]


def _walk_facts(seen: Walk) -> dict[str, str]:
    raise NotImplementedError
