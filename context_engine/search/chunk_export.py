"""Write an index as chunk files: every chunk of a snapshot in the fields of spec 004, with its vector on request.

Files that changed on disk since they were indexed are left out, because their lines would be wrong: update the index
first. Secrets are redacted in the texts that are written; the embedder gets the texts as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from context_engine.embedding import Embedder
from context_engine.index import ChunkEmbeddingText, ChunkLocation, build_chunk_texts
from context_engine.model import CHUNK_KINDS, Chunk, ChunkKind, Hit, Progress
from context_engine.repo import ReadFile
from context_engine.search.chunk_files import FILES, ChunkRow, format_chunk_file
from context_engine.search.chunk_folder import write_folder
from context_engine.search.hit_reading import HitReader
from context_engine.search.rankers import RankingView
from context_engine.search.searcher import Place
from context_engine.secrets import redact_file

Embed = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""Passages in, one vector for each out: an embedder's `embed` with its mode chosen."""
ChunksByKind = Mapping[ChunkKind, list[tuple[Chunk, ChunkEmbeddingText]]]
VectorsByKind = Mapping[ChunkKind, npt.NDArray[np.float32]]

STATIC_HEADS = 2
"""A bag of words weighs the head of a text by its repetitions."""
BATCH = 256
"""Chunks between two progress reports: a second of the slowest model."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written: how many chunks of each kind, what made their vectors (empty: they have none), and bytes."""

    kinds: Mapping[ChunkKind, int]
    model: str
    dimensions: int
    size_bytes: int


def collect_chunks(view: RankingView, read: ReadFile) -> ChunksByKind:
    """Return every chunk that counts, by kind, in the order of paths and lines, each with its text to embed.

    `read` returns a file as it is now.
    """
    chunks: dict[ChunkKind, list[tuple[Chunk, ChunkEmbeddingText]]] = {kind: [] for kind in CHUNK_KINDS}
    snapshot = view.snapshot
    for path, file in sorted(snapshot.by_path.items()):
        for chunk, capsule in _collect_file(view, read, path, file):
            chunks[chunk.kind].append((chunk, capsule))
    return chunks


def embed_chunks(chunks: ChunksByKind, embed: Embed, *, heads: int = 1) -> VectorsByKind:
    """Return the vector of each chunk. `heads`: how often such an embedder wants the head of a text."""
    return {kind: embed([capsule.text(heads) for _, capsule in chunks[kind]]) for kind in FILES}


def format_files(
    chunks: ChunksByKind, *, stamp: str, vectors: VectorsByKind | None = None, model: str = "", fingerprint: str = ""
) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of each of the four files, with vectors or without them.

    `model`, `fingerprint`: what made the vectors; `stamp`: when the index was made, UTC ISO-8601.
    """
    for kind, name in FILES.items():
        rows = [_row(chunk, stamp) for chunk, _ in chunks[kind]]
        own = vectors[kind] if vectors else None
        yield name, format_chunk_file(kind, rows, own, model=model, fingerprint=fingerprint, generated=stamp)


def write_chunk_files(
    chunks: ChunksByKind,
    folder: Path,
    *,
    stamp: str,
    embedder: Embedder | None = None,
    progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
) -> ExportReport:
    """Write the four files at once when all vectors are made: a watcher of the folder sees one change.

    Raises: Cancelled (nothing is written), InvalidPath, DiskFull, AccessFailed.
    """
    counts = {kind: len(chunks[kind]) for kind in FILES}
    if embedder is None:
        size = write_folder(folder, format_files(chunks, stamp=stamp))
        return ExportReport(counts, "", 0, size)
    embed = _in_batches(embedder, sum(counts.values()), progress, cancel)
    vectors = embed_chunks(chunks, embed, heads=STATIC_HEADS if embedder.name == "static" else 1)
    contents = format_files(chunks, stamp=stamp, vectors=vectors, model=embedder.name, fingerprint=embedder.fingerprint)
    return ExportReport(counts, embedder.name, embedder.dimensions, write_folder(folder, contents))


def _in_batches(
    embedder: Embedder, total: int, progress: Callable[[Progress], None] | None, cancel: threading.Event | None
) -> Embed:
    """Return a function that embeds passages in batches and reports progress towards `total`. It raises Cancelled."""
    done = 0

    def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        nonlocal done
        rows = np.zeros((len(texts), embedder.dimensions), np.float32)
        for start in range(0, len(texts), BATCH):
            part = texts[start : start + BATCH]
            rows[start : start + BATCH] = embedder.embed(part, "passage", cancel=cancel)
            done += len(part)
            if progress:
                progress(Progress("embedding", done, total))
        return rows

    return embed


def _collect_file(
    view: RankingView, read: ReadFile, path: str, file: int
) -> Iterator[tuple[Chunk, ChunkEmbeddingText]]:
    """Yield the chunks of one file: its outline, then its chunks in order."""
    source, outline = read(path), view.outline(file)
    if source is None:
        return
    numbers = range(view.chunk_starts[file], view.chunk_starts[file + 1])
    columns = [view.snapshot.chunk_column(name)[numbers.start : numbers.stop] for name in ("start", "stop", "symbol")]
    heads = build_chunk_texts(
        path,
        source.data,
        outline,
        [ChunkLocation(*row) for row in zip(*map(np.ndarray.tolist, columns), strict=True)],
    )
    reader = HitReader(view, lambda _: source)
    places = [Place(number, file, 0.0, {}) for number in numbers]
    for hit in _without_stale(reader.outlines(places[:1], 1.0)):
        yield hit.chunk, ChunkEmbeddingText(path, hit.chunk.text)
    yield from zip((hit.chunk for hit in _without_stale(reader.hits(places))), heads, strict=False)


def _without_stale(hits: Sequence[Hit]) -> list[Hit]:
    return [hit for hit in hits if not hit.stale]


def _row(chunk: Chunk, stamp: str) -> ChunkRow:
    return ChunkRow(
        id=chunk.id,
        kind=chunk.kind,
        title=redact_file(chunk.title),
        text=redact_file(chunk.text),
        tags=tuple(redact_file(tag) for tag in chunk.tags),
        metadata={
            "source": "markdown" if chunk.kind == "documentation" else "code",
            "file_path": str(chunk.path),
            "language": chunk.language,
            "line_start": chunk.span.first,
            "line_end": chunk.span.last,
        },
        created_at=stamp,
        updated_at=stamp,
    )
