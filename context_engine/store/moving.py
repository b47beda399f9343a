"""An index taken from one store to another: from this machine to a database, back, or from one database to the next.

What arrives is the living part of each segment, with all that is known beside it. It appears there as a whole once everything has
arrived; broken off, nothing has changed, and the next try sends all again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np

from context_engine.errors import Cancelled, NotIndexed
from context_engine.model import Progress
from context_engine.store import segment as segments
from context_engine.store.opening import AnyStore
from context_engine.store.segment import Segment
from context_engine.store.snapshot import Snapshot
from context_engine.store.store import Stats

FACTS = ("walked_at", "skipped_counts", "skipped_examples", "unfinished")


def moved(
    source: AnyStore,
    target: AnyStore,
    *,
    tell: Callable[[Progress], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> Stats:
    """Put what `source` has published in the place of what `target` has; what is there afterwards.

    Raises: NotIndexed, Cancelled, and what stores raise.
    """
    snapshot = source.snapshot()
    if snapshot is None:
        raise NotIndexed("there is no index to move", suggestion="run `ctx index` first")
    facts = {name: value for name in FACTS if (value := source.fact(name)) is not None}
    with target.writer(rebuild=True) as writer:
        for number, segment in enumerate(_living(snapshot)):
            tell(Progress("moving", number, len(snapshot.segments)))
            if cancel is not None and cancel.is_set():
                raise Cancelled("moving the index was cancelled", suggestion="run it again; nothing was changed")
            new, path = writer.new_segment()
            segments.write(segment, path)
            writer.put([new])
        writer.put([], skipped=source.skipped(), facts=facts)
        writer.set_importance(np.asarray(snapshot.importance)[snapshot.file_alive])
        writer.publish()
    return target.stats()


def _living(snapshot: Snapshot) -> Iterator[Segment]:
    """Each segment that still counts without its dead, with the sizes and times that were looked at last."""
    for segment, looks, base in zip(snapshot.segments, snapshot.touched, snapshot.file_base.tolist(), strict=False):
        alive = snapshot.file_alive[base : base + segment.files]
        if alive.any():
            yield segments.merge([segment.looking(looks)], [alive])
