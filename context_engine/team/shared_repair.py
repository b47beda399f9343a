"""Find damage in an index that a team shares, and delete damaged copies of what is fetched again."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

from context_engine.errors import StorageCorrupt, StoreUnavailable, StoreUnusable
from context_engine.index import ProgressCounter, RepairReport
from context_engine.storage import make_private_folder
from context_engine.team.manifest import SegmentRef
from context_engine.team.remote_store import hash_file

if TYPE_CHECKING:
    from context_engine.team.shared_store import SharedStore


def find_shared_damage(store: SharedStore, counter: ProgressCounter, *, thorough: bool) -> tuple[str, ...]:
    """Return the problems of an index, here and on the remote store; not `thorough`: without fetching from there.

    Raises: Cancelled.
    """
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


def repair_shared(store: SharedStore, counter: ProgressCounter) -> RepairReport:
    """Delete damaged segments that are fetched again at their next use, and report what else is wrong.

    Raises: Cancelled, StoreUnavailable, StoreUnusable.
    """
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
    make_private_folder(store.folder)
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
