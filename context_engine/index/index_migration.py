"""An index taken from one store to another: from this machine to a database, back, or from one database to the next.

Segments go as they are, so that one that has arrived is known by its name when a move that was broken off is tried again. What lies
at the target serves until all has arrived; then the new state takes its place as a whole.
"""

from __future__ import annotations

import threading

import numpy as np

from context_engine.errors import NotIndexed
from context_engine.index import segment as segments
from context_engine.index.index_store import IndexStats
from context_engine.index.shared_store import SharedStore
from context_engine.index.shared_writer import SharedWriter, confirmed_states
from context_engine.index.snapshot import Snapshot
from context_engine.index.store_factory import AnyStore, AnyWriter
from context_engine.storage.progress_counter import OnProgress, ProgressCounter

FACTS = ("walked_at", "skipped_counts", "skipped_examples", "unfinished")


def migrate(
    source: AnyStore,
    target: AnyStore,
    *,
    tell: OnProgress = lambda _: None,
    cancel: threading.Event | None = None,
) -> IndexStats:
    """Put what `source` has published in the place of what `target` has; what is there afterwards.

    Raises: NotIndexed, Cancelled (the next try goes on from there), and what stores raise.
    """
    if isinstance(source, SharedStore):
        _fetched(source, ProgressCounter("fetching", tell, cancel))
    snapshot = source.snapshot()
    if snapshot is None:
        raise NotIndexed("there is no index to move", suggestion="run `ctx index` first")
    with target.writer(rebuild=True) as writer:
        _copied(snapshot, writer, ProgressCounter("copying", tell, cancel))
        _described(source, writer)
        writer.set_importance(np.asarray(snapshot.importance))
        if isinstance(writer, SharedWriter):
            _sent(writer, ProgressCounter("sending", tell, cancel))
        writer.publish()
    return target.stats()


def has_index(target: AnyStore) -> bool:
    """Whether an index lies there that a move would take the place of. Raises: StoreUnavailable, StoreUnusable."""
    if isinstance(target, SharedStore):
        return target.depot.held(target.repository).manifest is not None
    return bool(target.generation())


def _fetched(source: SharedStore, count: ProgressCounter) -> None:
    """Have all that a shared store holds lie on this machine; what was fetched stays when the rest is not."""
    missing = source.missing_segments()
    count.start(sum(part.size for part in missing))
    for part in missing:
        source.fetch(part.name, count)


def _copied(snapshot: Snapshot, writer: AnyWriter, count: ProgressCounter) -> None:
    """Write each segment for the writer, the dead in it included: it keeps its name, and numbers of files stay as they are."""
    count.start(sum(map(segments.data_bytes, snapshot.segments)))
    for segment in snapshot.segments:
        number, path = writer.new_segment()
        segments.write(segment, path)
        writer.put([number])
        count(segments.data_bytes(segment))


def _sent(writer: SharedWriter, count: ProgressCounter) -> None:
    """Send what the target lacks, piece by piece; `publish` then has little left to do."""
    waiting = writer.waiting
    count.start(sum(path.stat().st_size for path in waiting.values()))
    for name in waiting:
        writer.send(name, count)


def _described(source: AnyStore, writer: AnyWriter) -> None:
    """What is known beside the segments: who is dead, what was looked at last, what was kept out and why."""
    known, here = source.files(), writer.files()
    facts = {name: value for name in FACTS if (value := source.metadata(name)) is not None}
    touched = confirmed_states(known, here)
    writer.put([], removed=here.keys() - known.keys(), skipped=source.skipped_files(), touched=touched, facts=facts)
