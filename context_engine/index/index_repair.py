"""Find damage in an index, and delete damaged copies of what can be had again.

An index is derived from the files of a workspace, so damage that no other copy repairs is repaired by a rebuild. Only
a team's index has another copy: a segment that is damaged on this machine is fetched from the remote store again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import NamedTuple

from context_engine.errors import Cancelled, StorageCorrupt, StoreUnavailable, StoreUnusable
from context_engine.index import embedded_store
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.manifest import SegmentRef
from context_engine.index.shared_store import SharedStore
from context_engine.index.store_factory import AnyStore
from context_engine.model import Progress
from context_engine.sharing import hash_file

STAGE = "reading"
OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was wrong, how many segments will be fetched again, and whether the index must be rebuilt.

    `left` are the problems that only a machine that publishes can repair.
    """

    problems: tuple[str, ...]
    fetched: int = 0
    needs_rebuild: bool = False
    left: tuple[str, ...] = ()


def find_problems(
    store: AnyStore,
    *,
    thorough: bool = True,
    progress: OnProgress = lambda _: None,
    cancel: threading.Event | None = None,
) -> tuple[str, ...]:
    """Return the problems of the published index, in words. Read every byte of it.

    Of a shared index the bytes on the remote store are read too, unless `thorough` is false: then only their number is
    compared. Raises: Cancelled.
    """
    counter = ProgressCounter(progress, cancel)
    if isinstance(store, EmbeddedStore):
        return _find_in_embedded(store, counter)
    if not thorough:
        return tuple(store.check())
    try:
        damaged = _find_damaged(store, counter)
    except (StorageCorrupt, StoreUnavailable, StoreUnusable) as error:
        return (error.message,)
    problems = tuple(segment.describe(store.remote.name) for segment in damaged)
    if store.problem:
        return (store.problem, *problems)
    return problems or tuple(store.check())


def repair(
    store: AnyStore, *, progress: OnProgress = lambda _: None, cancel: threading.Event | None = None
) -> RepairReport:
    """Delete damaged segments that are fetched again at their next use, and report what else is wrong.

    Raises: Cancelled, StoreUnavailable, StoreUnusable.
    """
    counter = ProgressCounter(progress, cancel)
    if isinstance(store, EmbeddedStore):
        problems = _find_in_embedded(store, counter)
        return RepairReport(problems, needs_rebuild=bool(problems))
    return _repair_shared(store, counter)


def _find_in_embedded(store: EmbeddedStore, counter: ProgressCounter) -> tuple[str, ...]:
    generation = store.generation()
    if not generation:
        return ()
    path = store.folder / generation
    counter.start(sum(segment.stat().st_size for segment in path.glob("*.seg")))
    return tuple(embedded_store.find_problems(path, counter))


# -- an index that a team shares ----------------------------------------------------------------------------------


class DamagedSegment(NamedTuple):
    """A damaged segment: its state on this machine and on the remote store (empty: intact).

    `is_uploaded`: whether the remote store must have it; it does not have what was indexed on this machine alone.
    """

    ref: SegmentRef
    here: str
    remote: str
    is_uploaded: bool

    @property
    def can_be_fetched(self) -> bool:
        """Whether the remote store has it intact."""
        return self.is_uploaded and not self.remote

    def describe(self, store: str) -> str:
        """Return a sentence: what is wrong with it, and where."""
        places = ((self.here, "on this machine"), (self.remote, f"on the shared store {store}"))
        states = [f"{state} {place}" for state, place in places if state]
        return f"segment {self.ref.number} is {' and '.join(states)}"


def _repair_shared(store: SharedStore, counter: ProgressCounter) -> RepairReport:
    store.remote.revision(store.repository)  # nothing can be compared with a store that does not answer: this raises
    try:
        damaged = _find_damaged(store, counter)
    except StorageCorrupt as error:
        return RepairReport((error.message,), needs_rebuild=True, left=() if store.publishes else (error.message,))
    if not damaged:
        problems = tuple(store.check())
        return RepairReport(problems, left=problems)
    store.close()
    fetched = [segment.ref.name for segment in damaged if segment.here and segment.can_be_fetched]
    for name in fetched:
        store.path(name).unlink(missing_ok=True)
    # A rebuild publishes a new index, which only a machine that publishes may do; the others rebuild what is theirs.
    lost = [segment for segment in damaged if not segment.can_be_fetched]
    if store.publishes:
        left = []
    else:
        left = [segment for segment in lost if segment.is_uploaded]
    return RepairReport(
        problems=tuple(segment.describe(store.remote.name) for segment in damaged),
        fetched=len(fetched),
        needs_rebuild=len(lost) > len(left),
        left=tuple(segment.describe(store.remote.name) for segment in left),
    )


def _find_damaged(store: SharedStore, counter: ProgressCounter) -> list[DamagedSegment]:
    """Compare every segment with its hash, on this machine and, if it answers, on the remote store."""
    store.refresh()
    refs = store.segment_refs()
    if store.problem:
        uploaded = frozenset()
    else:
        uploaded = store.uploaded_names()
    counter.start(sum(ref.size * (1 + (ref.name in uploaded)) for ref in refs))
    damaged = []
    for ref in refs:
        here = _check_here(store, ref, counter)
        remote = ""
        if ref.name in uploaded:
            remote = _check_remote(store, ref, counter)
        segment = DamagedSegment(ref, here, remote, ref.name in uploaded or bool(store.problem))
        # A segment that is only missing here is not damaged: it is fetched when a query needs it.
        if remote or here == "damaged" or (here and not segment.is_uploaded):
            damaged.append(segment)
    return damaged


def _check_here(store: SharedStore, ref: SegmentRef, counter: ProgressCounter) -> str:
    try:
        if hash_file(store.path(ref.name)) == ref.name:
            state = ""
        else:
            state = "damaged"
    except FileNotFoundError:
        state = "missing"
    counter(ref.size)
    return state


def _check_remote(store: SharedStore, ref: SegmentRef, counter: ProgressCounter) -> str:
    """Fetch a segment from the remote store, only to compare its hash."""
    store.folder.mkdir(parents=True, exist_ok=True)
    part = store.folder / f"{ref.name[:16]}-{token_hex(4)}.part"
    try:
        store.remote.fetch(store.repository, ref.name, part, counter)
        if hash_file(part) == ref.name:
            return ""
        return "damaged"
    except FileNotFoundError:
        return "missing"
    finally:
        part.unlink(missing_ok=True)


class ProgressCounter:
    """Counts the bytes that were read, reports the progress, and ends the work on cancellation."""

    def __init__(self, report: OnProgress, cancel: threading.Event | None) -> None:
        self._report = report
        self._cancel = cancel
        self._done = 0
        self._total = 0

    def start(self, total: int) -> ProgressCounter:
        """Set how much there is to do; return self. Raises: Cancelled."""
        self._total = total
        self(0)
        return self

    def __call__(self, size: int) -> None:
        """Count so many bytes more. Raises: Cancelled."""
        self._done += size
        self._report(Progress(STAGE, self._done, self._total))
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled(
                "cancelled; what serves is as it was", suggestion="run it again: it goes on with what has not arrived"
            )
