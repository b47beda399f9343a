"""The indexing pipeline: walk -> changed files -> read, parse, chunk -> segments -> commits.

The calls, from the outside in: `IndexBuilder.index_workspace` > `_index_once` > `_index_changes` > `_index_round` >
`run_job` (here or in another process) > `describe_file`. A round is some megabytes of files. Each ends in a commit, so
files can be found as they are indexed, a killed run loses one round at most, and the next run continues where it
stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from context_engine.errors import Cancelled, NextStep, StorageCorrupt
from context_engine.index.build_order import (
    ORDERED_FILES_MIN,
    BuildOrder,
    IndexChanges,
    compare_files,
    list_recent_files,
    rank_files,
)
from context_engine.index.change_finder import EXAMPLES_KEPT, ChangeFinder, describe_walk
from context_engine.index.describe import IndexJob, JobResult, run_job
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.embedded_writer import PATIENT_SEGMENTS_MAX, SEGMENTS_MAX, UNFINISHED, EmbeddedWriter
from context_engine.index.encoder import StaticEncoder
from context_engine.index.importance import importance
from context_engine.index.worker import WorkerPool
from context_engine.languages import Grammars, Languages
from context_engine.model import IndexReport, Progress
from context_engine.repo import Git, is_under

ROUND_BYTES = 16_000_000
"""Text of one round: some seconds of work, and about 300 MB of memory at its end."""
FIRST_ROUND_BYTES = 2_000_000
"""The first round is small: results are found within a second, and other processes get time to start. Each is twice
the one before, until a question asks for files."""
SHARE_FILES_MIN = 24
"""Rounds of fewer files are not worth sending to another process."""
START_WAIT_S = 2.0
"""How long a long run waits for each process that is to index instead of this one; they need half a second."""
PROGRESS_EVERY_S = 0.1
IMPORTANCE_SHARE = 5
"""When a fifth of the files was added, removed or merged, the importance of all is computed again."""


class IndexBuilder:
    """Keeps one store up to date with one root. Keeps the languages and the other processes between runs.

    With an `encoder`, files get static vectors. They are used only if all files of an index have them, of one kind. So
    a run over the whole workspace rebuilds an index that has none, or others, next to the one in use. An index is not
    rebuilt to remove vectors, and a table that cannot be used is not an error: `encoder.problem` says what is wrong
    with it.
    """

    def __init__(
        self,
        root: Path,
        store: EmbeddedStore,
        languages: Languages,
        grammars: Grammars,
        pool: WorkerPool,
        *,
        bytes_max: int,
        encoder: StaticEncoder | None = None,
        seed: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`seed` may start a missing index from another one that has static vectors of the given identity."""
        self._seed = seed
        self._root = root
        self._store = store
        self._languages = languages
        self._grammars = grammars
        self._pool = pool
        self._bytes_max = bytes_max
        self._encoder = encoder
        self.finder = ChangeFinder(root, store, bytes_max=bytes_max)
        """Looks for changes."""
        self._order: BuildOrder | None = None  # of the run in progress, when it has found its files

    def index_workspace(
        self,
        *,
        under: str = "",
        force: bool = False,
        progress: Callable[[Progress], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> IndexReport:
        """Bring the index up to date.

        `under` limits the run to a folder; `force` rebuilds the index next to the old one.

        A damaged index is rebuilt as well, and one that can gain static vectors.
        Raises: StorageBusy, DiskFull, StorageCorrupt, Cancelled (what was committed stays).
        """
        try:
            return self._index_once(_BuildRun(progress, cancel), under, force)
        except StorageCorrupt:
            if force:
                raise
            return self._index_once(_BuildRun(progress, cancel), "", True)
        finally:
            self._order = None

    def _index_once(self, run: _BuildRun, under: str, force: bool) -> IndexReport:
        began = time.perf_counter()
        run.report("scanning", 0, 0)
        if not force and self._store.snapshot() is None:
            self._seed(self._static_identity())
        with self._store.writer(rebuild=force or (not under and self._lacks_vectors())) as writer:
            seen = self.finder.list_files(under)
            run.check()
            present = seen.files()
            before = writer.count_files()
            changes = self._find_changes(present, writer, under)
            unfinished = writer.is_unfinished
            if not changes.is_empty or unfinished:
                self._index_changes(writer, present, changes, run)
                self._finish(writer, run, len(changes.removed), anew=unfinished or not under, patient=bool(under))
            snapshot = writer.note_summary(describe_walk(seen) if not under else {})
            skipped, examples = writer.count_skipped(EXAMPLES_KEPT)
        self._pool.close_when_idle()
        added = run.written - run.changed
        return IndexReport(
            added=added,
            changed=run.changed,
            removed=before + added - snapshot.living_files,
            unchanged=changes.unchanged + run.touched,
            files=snapshot.living_files,
            chunks=snapshot.living_chunks,
            symbols=snapshot.symbols,
            skipped=skipped,
            skipped_examples=examples,
            seconds=time.perf_counter() - began,
        )

    def index_paths(self, paths: Sequence[str]) -> bool:
        """Index only these files again (edited, created or deleted), as one commit; return whether anything changed.

        Raises: StorageBusy, DiskFull.
        """
        with self._store.writer(wait_s=2.0) as writer:
            seen = self.finder.list_files(*paths).files()
            changes = compare_files(writer.states(paths), seen, writer.skipped_states(paths))
            if changes.is_empty:
                return False
            self._index_changes(writer, seen, changes, _BuildRun())
            self._merge(writer, len(changes.added) + len(changes.removed), PATIENT_SEGMENTS_MAX)
            writer.publish()
        return True

    def pending_files(self) -> list[str] | None:
        """Return the files that the run in progress still has to index; None without a run, or while it walks."""
        order = self._order
        return None if order is None else order.pending()

    def prefer(self, paths: Sequence[str]) -> BuildOrder:
        """Let the run in progress index these files next; return its order."""
        order = self._order or BuildOrder({})
        order.prefer(paths)
        return order

    def merge_segments(self) -> None:
        """Merge the small segments of edits, at a moment without queries. Raises: StorageBusy, DiskFull."""
        with self._store.writer() as writer:
            self._merge(writer, 0, SEGMENTS_MAX)

    # -- the steps --

    def _find_changes(self, seen: Mapping[str, tuple[int, int]], writer: EmbeddedWriter, under: str) -> IndexChanges:
        if not under:
            return compare_files(writer.files(), seen, writer.skipped_states())
        kept_out = {path: state for path, state in writer.skipped_states().items() if is_under(path, under)}
        return compare_files(writer.states([under]), seen, kept_out)

    def _lacks_vectors(self) -> bool:
        """Return whether the index in use has no static vectors, or others than ours, and we can make them."""
        snapshot = self._store.snapshot()
        if snapshot is None or not snapshot.files or self._encoder is None:
            return False
        parts = snapshot.static()
        is_ours = parts is not None and parts.identity == self._encoder.identity
        return not is_ours and self._encoder.open()

    def _static_identity(self) -> str:
        """Return the identity of the static vectors of new files; empty: none."""
        if self._encoder and self._encoder.open():
            return self._encoder.identity
        return ""

    def _index_changes(
        self, writer: EmbeddedWriter, facts: Mapping[str, tuple[int, int]], changes: IndexChanges, run: _BuildRun
    ) -> None:
        """Index all new or suspect files, round by round; removals go with the first commit."""
        indexed = writer.states(changes.suspect)
        todo = {path: facts[path][0] for path in (*changes.added, *changes.suspect)}
        known = {path: indexed[path].sha256 for path in changes.suspect}
        run.total = len(todo)
        self._prepare_parsers(todo)
        removed: Sequence[str] = changes.removed
        order = self._order_files(todo)
        self._order = order
        while paths := order.next_round(FIRST_ROUND_BYTES, ROUND_BYTES):
            run.check()
            numbers, outcomes = self._index_round(writer, paths, facts, known, run)
            self._commit(writer, numbers, outcomes, removed)
            writer.compact(segments_max=PATIENT_SEGMENTS_MAX)
            run.count(outcomes, {path for path in paths if path in known})
            removed = ()
            if not writer.is_published and not self._store.generation():
                writer.publish()  # the first index serves from its first round on
        if removed:
            self._commit(writer, [], [], removed)

    def _order_files(self, sizes: Mapping[str, int]) -> BuildOrder:
        if len(sizes) < ORDERED_FILES_MIN:
            return BuildOrder(sizes)
        return BuildOrder(sizes, rank_files(list_recent_files(Git(self._root)), self._languages))

    def _prepare_parsers(self, paths: Collection[str]) -> None:
        """Unpack all parsers that are needed in one pass over their archive; nothing to do after the first run."""
        if len(paths) > 1:
            found = (self._languages.detect(path) for path in paths)
            self._grammars.prepare({language.grammar for language in found if language and language.grammar})

    def _index_round(
        self,
        writer: EmbeddedWriter,
        paths: Sequence[str],
        facts: Mapping[str, tuple[int, int]],
        known: Mapping[str, bytes],
        run: _BuildRun,
    ) -> tuple[list[int], list[JobResult]]:
        """Index one round: each process that is ready takes a share, and this one where it answers no questions."""
        helpers = []
        if len(paths) >= SHARE_FILES_MIN:
            helpers = self._pool.ready(START_WAIT_S * (self._pool.takes_all and run.total >= ORDERED_FILES_MIN))
        count = len(helpers) + (not helpers or not self._pool.takes_all)
        shares = [paths[n::count] for n in range(count)]
        jobs, numbers, static = [], [], self._static_identity()
        for share in shares:
            number, target = writer.new_segment()
            numbers.append(number)
            own = {path: known[path] for path in share if path in known}
            seen = {path: facts[path] for path in share}
            jobs.append(IndexJob(str(self._root), share, seen, own, self._bytes_max, str(target), static))
        pending = [helper.start(job, run.check) for helper, job in zip(helpers, jobs, strict=False)]
        done_here = [self._run_job(job, run) for job in jobs[len(helpers) :]]
        outcomes = []
        for wait, job in zip(pending, jobs, strict=False):
            # A process that died (killed, out of memory) leaves its share to this one.
            outcome = wait() or self._run_job(job, run)
            outcomes.append(outcome)
            run.add(len(job.paths))
        outcomes += done_here
        return [number for number, outcome in zip(numbers, outcomes, strict=True) if outcome.written], outcomes

    def _run_job(self, job: IndexJob, run: _BuildRun) -> JobResult:
        return run_job(job, self._languages, self._grammars, self._encoder, on_file=run.step)

    def _commit(
        self, writer: EmbeddedWriter, numbers: Sequence[int], outcomes: Sequence[JobResult], removed: Sequence[str]
    ) -> None:
        writer.put(
            numbers,
            removed=[*removed, *(path for outcome in outcomes for path in outcome.vanished)],
            skipped=[row for outcome in outcomes for row in outcome.skipped],
            touched=[row for outcome in outcomes for row in outcome.touched],
            metadata=UNFINISHED,
        )

    def _merge(self, writer: EmbeddedWriter, moved: int, segments_max: int, *, anew: bool = False) -> None:
        """Merge segments; compute the importance of all files again when enough of them changed, or if `anew`."""
        moved = max(writer.compact(segments_max=segments_max), moved)
        snapshot = writer.snapshot()
        if anew or moved * IMPORTANCE_SHARE > snapshot.files:
            writer.set_importance(importance(snapshot))

    def _finish(self, writer: EmbeddedWriter, run: _BuildRun, removed: int, *, anew: bool, patient: bool) -> None:
        """Finish a run: merge, compute importance (`anew`: in any case), publish.

        `patient`: only one folder or file was indexed, so merging can wait.
        """
        run.report("finishing", run.total, run.total)
        if run.total >= ORDERED_FILES_MIN:
            self._pool.close()  # merging needs the memory
        self._merge(writer, run.written + removed, PATIENT_SEGMENTS_MAX if patient else SEGMENTS_MAX, anew=anew)
        writer.set_metadata(dict.fromkeys(UNFINISHED, 0))
        writer.publish()


@dataclass(slots=True)
class _BuildRun:
    """Progress and cancellation of one run."""

    progress: Callable[[Progress], None] | None = None
    cancel: threading.Event | None = None
    total: int = 0
    done: int = 0
    written: int = 0
    changed: int = 0
    touched: int = 0
    reported_at: float = 0.0

    def report(self, stage: str, done: int, total: int) -> None:
        """Report progress to the caller."""
        if self.progress is not None:
            self.progress(Progress(stage, done, total))

    def count(self, outcomes: Sequence[JobResult], suspects: Collection[str]) -> None:
        """Add up the results of a round; its `suspects` had been indexed before."""
        touched = sum(len(outcome.touched) for outcome in outcomes)
        left = {path for outcome in outcomes for path in (*outcome.vanished, *(row[0] for row in outcome.skipped))}
        self.written += sum(outcome.written for outcome in outcomes)
        self.touched += touched
        self.changed += len(set(suspects) - left) - touched

    def step(self) -> None:
        """Count one file."""
        self.add(1)
        self.check()

    def add(self, files: int) -> None:
        """Count some files; reported at most ten times a second."""
        self.done += files
        now = time.monotonic()
        if now - self.reported_at >= PROGRESS_EVERY_S:
            self.reported_at = now
            self.report("indexing", self.done, self.total)

    def check(self) -> None:
        """Raise Cancelled when the caller has canceled."""
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled(
                "indexing was cancelled", next_steps=NextStep("index_workspace", "to continue; nothing is lost")
            )
