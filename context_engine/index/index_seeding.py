"""Start the index of a work tree with a copy of another one: of another work tree, or of a team."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from context_engine.errors import ContextEngineError
from context_engine.index import segment as segments
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.embedded_writer import UNFINISHED, EmbeddedWriter
from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot

UNKNOWN_NS = -1
"""A modification time that no file has: its content is compared again before the index counts as current."""


def seed(target: EmbeddedStore, folders: Iterable[Path], identity: str) -> bool:
    """Start a missing index with that of another work tree of the repository; return whether that was done.

    `folders` contain the other indexes. The largest one with static vectors of this `identity` (empty: none) is copied.
    A failure is not an error: the index is then built from the files.
    """
    try:
        if target.generation():
            return False
        source = _find_largest(folders, identity)
        if source is None:
            return False
        with closing(source), target.writer(rebuild=True) as writer:
            snapshot = source.snapshot()
            if snapshot is None or target.generation():  # cleared, or another process was faster
                return False
            copy_index(snapshot, writer)
            writer.publish()
    except (ContextEngineError, OSError):
        return False
    return True


def copy_index(snapshot: Snapshot, writer: EmbeddedWriter) -> None:
    """Copy the segments of a snapshot, dead files included, so that files keep their numbers.

    Every file counts as changed until its hash has been compared, because on another work tree equal sizes and times
    prove nothing. Comparing hashes is much less work than parsing.
    """
    for segment in snapshot.segments:
        number, path = writer.new_segment()
        _link(segment, path)
        writer.put([number])
    sizes = snapshot.file_column("size").tolist()
    touched = [(path, sizes[number], UNKNOWN_NS) for path, number in snapshot.by_path.items()]
    removed = writer.files().keys() - snapshot.by_path.keys()
    writer.put([], removed=removed, touched=touched, metadata=UNFINISHED)
    writer.set_importance(np.asarray(snapshot.importance))


def _link(segment: Segment, path: Path) -> None:
    """Create a hard link of a segment at a path, which costs neither time nor space; else write it again."""
    if segment.path is not None and os.name != "nt":  # Windows renames no file that is mapped under another name
        with suppress(OSError):  # merged away meanwhile, another disk, or a file system without links
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
