"""Repair a damaged index: intact segments are kept, the files of damaged ones are dropped and then indexed again.

A rebuild would repair everything too; this costs only what is lost. Where the list of files itself is damaged, the
index is rebuilt. Of a shared index a segment is lost only if it is damaged both on this machine and on the remote
store: else each side is repaired from the other. An interrupted repair continues with what it has not repaired yet.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from secrets import token_hex
from typing import NamedTuple

from context_engine.errors import StorageCorrupt, StoreUnavailable, StoreUnusable
from context_engine.index import embedded_store
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.manifest import SegmentRef
from context_engine.index.shared_store import SharedStore
from context_engine.index.store_factory import AnyStore
from context_engine.sharing.remote_store import hash_file
from context_engine.storage.progress_counter import OnProgress, ProgressCounter

STAGE = "reading"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was wrong, and how many files must be indexed again; `is_rebuilt`: all of them.

    Of a shared index also how many segments were fetched again and how many were put back on the remote store. `left`
    are the problems that only a machine that shares can repair.
    """

    problems: tuple[str, ...]
    files_lost: int = 0
    is_rebuilt: bool = False
    fetched: int = 0
    restored: int = 0
    left: tuple[str, ...] = ()


def find_problems(
    store: AnyStore,
    *,
    thorough: bool = True,
    tell: OnProgress = lambda _: None,
    cancel: threading.Event | None = None,
) -> tuple[str, ...]:
    """Return the problems of the published index, in words. Read every byte of it.

    Of a shared index the bytes on the remote store are read too, unless `thorough` is false: then only their number is
    compared. Raises: Cancelled.
    """
    counter = ProgressCounter(STAGE, tell, cancel)
    if isinstance(store, SharedStore):
        return _find_in_shared(store, counter) if thorough else tuple(store.check())
    return _find_in_embedded(store, counter)


def repair(
    store: AnyStore, *, tell: OnProgress = lambda _: None, cancel: threading.Event | None = None
) -> RepairReport:
    """Repair what can be repaired and drop what is lost; the next indexing run reads those files again.

    Raises: StorageBusy, DiskFull, Cancelled, StoreUnavailable, StoreUnusable.
    """
    counter = ProgressCounter(STAGE, tell, cancel)
    return _repair_shared(store, counter) if isinstance(store, SharedStore) else _repair_embedded(store, counter)


# -- an index of this machine -------------------------------------------------------------------------------------


def _find_in_embedded(store: EmbeddedStore, counter: ProgressCounter) -> tuple[str, ...]:
    generation = store.generation()
    if not generation:
        return ()
    path = store.folder / generation
    counter.start(sum(segment.stat().st_size for segment in path.glob("*.seg")))
    return tuple(embedded_store.find_problems(path, counter))


def _repair_embedded(store: EmbeddedStore, counter: ProgressCounter) -> RepairReport:
    with store.lock_writer():
        problems = _find_in_embedded(store, counter)
        if not problems:
            return RepairReport(())
        files = store.drop_damaged()
    return RepairReport(problems, files or 0, is_rebuilt=files is None)


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
    def is_lost(self) -> bool:
        """Whether no side has it intact."""
        return bool(self.here and (self.remote or not self.is_uploaded))

    def describe(self, store: str) -> str:
        """Return a sentence: what is wrong with it, and where."""
        places = ((self.here, "on this machine"), (self.remote, f"on the shared store {store}"))
        states = [f"{state} {place}" for state, place in places if state]
        return f"segment {self.ref.number} is {' and '.join(states)}"


def _find_in_shared(store: SharedStore, counter: ProgressCounter) -> tuple[str, ...]:
    try:
        damaged = _find_damaged(store, counter)
    except (StorageCorrupt, StoreUnavailable, StoreUnusable) as error:
        return (error.message,)
    problems = tuple(segment.describe(store.remote.name) for segment in damaged)
    if store.problem:
        return (store.problem, *problems)
    return problems or tuple(store.check())


def _repair_shared(store: SharedStore, counter: ProgressCounter) -> RepairReport:
    store.remote.revision(store.repository)  # nothing can be compared with a store that does not answer: this raises
    try:
        damaged = _find_damaged(store, counter)
    except StorageCorrupt as error:
        return RepairReport((error.message,), is_rebuilt=True, left=() if store.publishes else (error.message,))
    if not damaged:
        problems = tuple(store.check())
        return RepairReport(problems, left=problems)
    store.close()
    fetched = [segment.ref.name for segment in damaged if segment.here and not segment.is_lost]
    for name in fetched:
        store.fetch(name)
    restored = [segment.ref.name for segment in damaged if not segment.here and store.publishes]
    for name in restored:
        store.restore(name)
    lost = [segment.ref.name for segment in damaged if segment.is_lost]
    left = [] if store.publishes else [segment for segment in damaged if segment.remote]
    return RepairReport(
        problems=tuple(segment.describe(store.remote.name) for segment in damaged),
        files_lost=store.forget(lost) if lost else 0,
        fetched=len(fetched),
        restored=len(restored),
        left=tuple(segment.describe(store.remote.name) for segment in left),
    )


def _find_damaged(store: SharedStore, counter: ProgressCounter) -> list[DamagedSegment]:
    """Compare every segment with its hash, on this machine and, if it answers, on the remote store."""
    store.refresh()
    refs = store.segment_refs()
    uploaded = frozenset() if store.problem else store.uploaded_names()
    counter.start(sum(ref.size * (1 + (ref.name in uploaded)) for ref in refs))
    damaged = []
    for ref in refs:
        here = _check_here(store, ref, counter)
        remote = _check_remote(store, ref, counter) if ref.name in uploaded else ""
        segment = DamagedSegment(ref, here, remote, ref.name in uploaded or bool(store.problem))
        # A segment that is only missing here is not damaged: it is fetched when a query needs it.
        if remote or segment.is_lost or here == "damaged":
            damaged.append(segment)
    return damaged


def _check_here(store: SharedStore, ref: SegmentRef, counter: ProgressCounter) -> str:
    try:
        state = "" if hash_file(store.path(ref.name)) == ref.name else "damaged"
    except FileNotFoundError:
        state = "missing"
    counter(ref.size)
    return state


def _check_remote(store: SharedStore, ref: SegmentRef, counter: ProgressCounter) -> str:
    """Fetch a segment from the remote store, only to compare its hash."""
    store.folder.mkdir(parents=True, exist_ok=True)
    aside = store.folder / f"{ref.name[:16]}-{token_hex(4)}.part"
    try:
        store.remote.fetch(store.repository, ref.name, aside, counter)
        return "" if hash_file(aside) == ref.name else "damaged"
    except FileNotFoundError:
        return "missing"
    finally:
        aside.unlink(missing_ok=True)
