"""Copy an index: into another store, or from another work tree of the same repository.

All copies are made by `copy_index`. It takes the segments as they are, so a segment that has arrived is known by its
name when an interrupted copy is tried again. The index at the target stays in use until all has arrived; then it is
replaced as a whole.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from context_engine.errors import ContextEngineError, NotIndexed
from context_engine.index import segment as segments
from context_engine.index.embedded_store import UNFINISHED, EmbeddedStore
from context_engine.index.index_store import IndexStats
from context_engine.index.segment import Segment
from context_engine.index.shared_store import SharedStore
from context_engine.index.shared_writer import SharedWriter, confirmed_states, file_states
from context_engine.index.snapshot import Snapshot
from context_engine.index.store_factory import AnyStore, AnyWriter
from context_engine.storage.progress_counter import OnProgress, ProgressCounter

METADATA = ("walked_at", "skipped_counts", "skipped_examples", "unfinished")
"""What is copied of the metadata; the rest belongs to one machine."""
UNKNOWN_NS = -1
"""A modification time that no file has: its content is compared again before the index counts as current."""


def migrate(
    source: AnyStore,
    target: AnyStore,
    *,
    is_trusted: bool = True,
    tell: OnProgress = lambda _: None,
    cancel: threading.Event | None = None,
) -> IndexStats:
    """Replace the index of `target` by a copy of the published index of `source`; return its size afterwards.

    `is_trusted`: see `copy_index`. Raises: NotIndexed, Cancelled (the next try continues), and the errors of both
    stores.
    """
    if isinstance(source, SharedStore):
        _fetch_missing(source, ProgressCounter("fetching", tell, cancel))
    snapshot = source.snapshot()
    if snapshot is None:
        raise NotIndexed("there is no index to copy", suggestion="run `ctx index` first")
    with target.writer(rebuild=True) as writer:
        counter = ProgressCounter("copying", tell, cancel)
        copy_index(source, snapshot, writer, counter, is_trusted=is_trusted)
        if isinstance(writer, SharedWriter):
            _send_waiting(writer, ProgressCounter("sending", tell, cancel))
        writer.publish()
    return target.stats()


def seed(target: EmbeddedStore, folders: Iterable[Path], identity: str) -> bool:
    """Start an index that does not exist yet with that of another work tree of the repository; return whether it was done.

    `folders` contain the other indexes. The largest one with static vectors of this `identity` (empty: none) is copied.
    No file in it is trusted, but comparing hashes is much less work than parsing. A failure is not an error: the index
    is then built from the files.
    """
    try:
        if target.generation():
            return False
        source = _find_largest(folders, identity)
        snapshot = source.snapshot() if source else None
        if source is None or snapshot is None:
            return False
        with target.writer(rebuild=True) as writer:
            if target.generation():  # another process was faster
                return False
            copy_index(source, snapshot, writer, ProgressCounter("copying", lambda _: None, None), is_trusted=False)
            writer.publish()
        source.close()
    except (ContextEngineError, OSError):
        return False
    return True


def has_index(target: AnyStore) -> bool:
    """Return whether a migration would replace an index. Raises: StoreUnavailable, StoreUnusable."""
    if isinstance(target, SharedStore):
        return target.remote.read_manifest(target.repository).manifest is not None
    return bool(target.generation())


def copy_index(
    source: AnyStore, snapshot: Snapshot, writer: AnyWriter, counter: ProgressCounter, *, is_trusted: bool
) -> None:
    """Copy the segments of a snapshot of `source`, and what the source knows about its files.

    Dead files are copied too, so that segments keep their names and files keep their numbers. Unless `is_trusted`,
    every file counts as changed until its hash has been compared: on another work tree equal sizes and times prove
    nothing.
    """
    counter.start(sum(map(segments.data_bytes, snapshot.segments)))
    for segment in snapshot.segments:
        number, path = writer.new_segment()
        _link(segment, path)
        writer.put([number])
        counter(segments.data_bytes(segment))
    known, copied = file_states(snapshot), writer.files()
    removed = copied.keys() - known.keys()
    if is_trusted:
        values = {name: source.metadata(name) for name in METADATA}
        metadata = {name: value for name, value in values.items() if value is not None}
        touched = confirmed_states(known, copied)
        writer.put([], removed=removed, skipped=source.skipped_files(), touched=touched, metadata=metadata)
    else:
        touched = [(path, state.size, UNKNOWN_NS) for path, state in known.items()]
        writer.put([], removed=removed, touched=touched, metadata=UNFINISHED)
    writer.set_importance(np.asarray(snapshot.importance))


def _link(segment: Segment, path: Path) -> None:
    """Put a segment at a path: by a hard link, which costs neither time nor room, else by writing it again."""
    if segment.path is not None and os.name != "nt":  # Windows renames no file that is mapped under another name
        with suppress(OSError):  # merged away meanwhile, another disk, or a file system without links
            path.unlink()
            os.link(segment.path, path)
            return
    segments.write(segment, path)


def _find_largest(folders: Iterable[Path], identity: str) -> EmbeddedStore | None:
    """Return the index with the most files among those that have such static vectors."""
    best, files_max = None, 0
    for folder in folders:
        store = EmbeddedStore(folder)
        with suppress(ContextEngineError, OSError):
            snapshot = store.snapshot()
            static = snapshot.static() if snapshot else None
            if snapshot and (static.identity if static else "") == identity and snapshot.living_files > files_max:
                best, store, files_max = store, best or store, snapshot.living_files
        if store is not best:
            store.close()
    return best


def _fetch_missing(source: SharedStore, counter: ProgressCounter) -> None:
    """Fetch the segments that are not on this machine; what was fetched stays when the rest is not."""
    missing = source.missing_segments()
    counter.start(sum(ref.size for ref in missing))
    for ref in missing:
        source.fetch(ref.name, counter)


def _send_waiting(writer: SharedWriter, counter: ProgressCounter) -> None:
    """Send what the remote store lacks, one segment at a time; `publish` then has little left to do."""
    waiting = writer.waiting
    counter.start(sum(path.stat().st_size for path in waiting.values()))
    for name in waiting:
        writer.send(name, counter)
