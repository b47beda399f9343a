"""Publish an index as rows that a database searches: those of its new segments, and what changed about the others."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot
from context_engine.repo import ReadFile, WorkspaceFile
from context_engine.team.candidate_store import SearchableRevision, StoredFile
from context_engine.team.remote_store import Manifest
from context_engine.team.search_rows import LENGTH_TOTALS, damaged_row, split_files, split_terms

if TYPE_CHECKING:
    from context_engine.team.candidate_store import CandidateStore

COMPRESSION = 3
"""Of zlib for the texts of chunks: 4 times smaller, at 60 MB a second."""


def publish_rows(
    store: CandidateStore, read: ReadFile, repository: str, revision: int, snapshot: Snapshot, manifest: Manifest
) -> None:
    """Publish a revision of a repository, whose segments are listed in `manifest`, unless the store has it.

    `read` returns a file of the work tree; what is stored of its text is redacted. Raises: StoreUnavailable,
    StoreUnusable, DiskFull.
    """
    if store.revision(repository) == revision:
        return
    segments = {part.name: segment for part, segment in zip(manifest, snapshot.segments, strict=True)}
    # A merge of dead files alone is empty, and all empty segments have the same name.
    states = [part for part in manifest if part.files]
    lengths = count_terms(snapshot)
    totals = [lengths[name] for name in LENGTH_TOTALS]
    state = SearchableRevision(revision, snapshot.living_files, snapshot.living_chunks, totals, states)

    def list_files(segment: Segment) -> Iterator[StoredFile]:
        for row in split_files(segment):
            yield row._replace(texts=_pack_texts(read(row.path), segment, row.number))

    store.publish(repository, state, lambda name: (split_terms(segments[name]), list_files(segments[name])))


def _pack_texts(source: WorkspaceFile | None, segment: Segment, number: int) -> bytes | None:
    """Return the redacted texts of the chunks of a file; None when the file is no longer what was indexed."""
    if source is None:
        return None
    known = tuple(segment.file[name].item(number) for name in ("size", "mtime_ns"))
    is_indexed = (source.size, source.mtime_ns) == known  # else by its hash: it may be another work tree
    if not is_indexed and hashlib.sha256(source.data).digest() != segment.heaps["sha256"][number]:
        return None
    at = slice(segment.chunk_starts[number], segment.chunk_starts[number + 1])
    spans = zip(segment.chunk["start"][at].tolist(), segment.chunk["stop"][at].tolist(), strict=True)
    return zlib.compress(msgspec.msgpack.encode([source.shown.part(*span) for span in spans]), COMPRESSION)


def unpack_texts(packed: bytes) -> list[str]:
    """Return the texts of the chunks of a file, in order. Raises: StorageCorrupt when they are not what was stored."""
    try:
        return msgspec.msgpack.decode(zlib.decompress(packed), type=list[str])
    except (zlib.error, msgspec.MsgspecError) as error:
        raise damaged_row(error) from error


def count_terms(snapshot: Snapshot) -> Mapping[str, int]:
    """Return the number of terms in the living documents of each field."""
    alive = {name: snapshot.chunk_alive if name == "body" else snapshot.file_alive for name in LENGTH_TOTALS}
    return {name: int(np.sum(snapshot.lengths(name)[alive[name]], dtype=np.int64)) for name in LENGTH_TOTALS}
