"""Write an index as chunk files: every chunk of a snapshot in the fields of spec 004, with its vector on request.

Files that changed since they were indexed are left out. Secrets are redacted in what is written, not for the embedder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from context_engine.embedding import Embedder, EmbedderConfig, open_embedder
from context_engine.index import ChunkEmbeddingText, ChunkLocation, build_chunk_texts, no_index
from context_engine.model import Chunk, ChunkKind, Progress
from context_engine.repo import ReadFile
from context_engine.search.chunk_files import FILES, ChunkRow, format_chunk_file, write_folder
from context_engine.search.hit_reading import HitReader
from context_engine.search.rankers import RankingView
from context_engine.search.search_service import SearchService
from context_engine.search.searcher import Place
from context_engine.secrets import redact_file

ChunksByKind = Mapping[ChunkKind, list[tuple[Chunk, ChunkEmbeddingText]]]

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


def export_chunks(
    search: SearchService,
    folder: Path,
    config: EmbedderConfig | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
) -> ExportReport:
    """Write the index of a workspace as chunk files, with vectors of a provider or, without a `config`, with none.

    Raises: NotIndexed, EmbedderUnusable, UnsupportedHost; as `write_chunk_files`.
    """
    searcher = search.searcher()
    if searcher is None:
        raise no_index()
    embedder = open_embedder(config) if config else None
    chunks, stamp = collect_chunks(searcher.view, search.files.load), search.index.indexed_at()
    try:
        return write_chunk_files(chunks, folder, stamp=stamp, embedder=embedder, progress=progress, cancel=cancel)
    finally:
        if embedder is not None:
            embedder.close()


def collect_chunks(view: RankingView, read: ReadFile) -> ChunksByKind:
    """Return every chunk that counts, by kind, in the order of paths and lines, each with its text to embed.

    `read` returns a file as it is now.
    """
    chunks: dict[ChunkKind, list[tuple[Chunk, ChunkEmbeddingText]]] = {kind: [] for kind in FILES}
    for path, file in sorted(view.snapshot.by_path.items()):
        for chunk, text in _collect_file(view, read, path, file):
            chunks[chunk.kind].append((chunk, text))
    return chunks


def _collect_file(
    view: RankingView, read: ReadFile, path: str, file: int
) -> Iterator[tuple[Chunk, ChunkEmbeddingText]]:
    """Yield the chunks of one file: its outline, then its chunks in order."""
    source = read(path)
    if source is None:
        return
    start, stop = view.chunk_starts[file : file + 2]
    columns = [view.snapshot.chunk_column(name)[start:stop].tolist() for name in ("start", "stop", "symbol")]
    locations = [ChunkLocation(*row) for row in zip(*columns, strict=True)]
    texts = build_chunk_texts(path, source.data, view.outline(file), locations)
    reader = HitReader(view, lambda _: source)
    places = [Place(number, file, 0.0, {}) for number in range(start, stop)]
    hits = reader.hits(places)
    if any(hit.stale for hit in hits):
        return
    for hit in reader.outlines(places[:1], 1.0):
        yield hit.chunk, ChunkEmbeddingText(path, hit.chunk.text)
    yield from zip((hit.chunk for hit in hits), texts, strict=False)


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

    `stamp`: when the index was made, UTC ISO-8601.

    Raises: Cancelled (nothing is written), InvalidPath, DiskFull, AccessFailed; as `Embedder.embed`.
    """
    model = fingerprint = ""
    vectors: Mapping[ChunkKind, npt.NDArray[np.float32]] = {}
    if embedder is not None:
        model, fingerprint = embedder.name, embedder.fingerprint
        vectors = _embed_chunks(chunks, embedder, progress, cancel)
    contents = []
    for kind, name in FILES.items():
        rows = [_make_row(chunk, stamp) for chunk, _ in chunks[kind]]
        data = format_chunk_file(kind, rows, vectors.get(kind), model=model, fingerprint=fingerprint, generated=stamp)
        contents.append((name, data))
    size = write_folder(folder, contents)
    counts = {kind: len(chunks[kind]) for kind in FILES}
    return ExportReport(counts, model, embedder.dimensions if embedder else 0, size)


def _embed_chunks(
    chunks: ChunksByKind,
    embedder: Embedder,
    progress: Callable[[Progress], None] | None,
    cancel: threading.Event | None,
) -> dict[ChunkKind, npt.NDArray[np.float32]]:
    heads = STATIC_HEADS if embedder.name == "static" else 1
    done, total = 0, sum(map(len, chunks.values()))
    vectors = {}
    for kind in FILES:
        texts = [text.text(heads) for _, text in chunks[kind]]
        vectors[kind] = np.zeros((len(texts), embedder.dimensions), np.float32)
        for start in range(0, len(texts), BATCH):
            part = texts[start : start + BATCH]
            vectors[kind][start : start + BATCH] = embedder.embed(part, "passage", cancel=cancel)
            done += len(part)
            if progress:
                progress(Progress("embedding", done, total))
    return vectors


def _make_row(chunk: Chunk, stamp: str) -> ChunkRow:
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
