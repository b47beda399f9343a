"""Write an index as chunk files: every chunk of a snapshot in the fields of spec 004, with its vector on request.

Files that changed since they were indexed are left out. Secrets are redacted in what is written, not for the embedder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from context_engine.embedding import Embedder
from context_engine.errors import ContextEngineError, FileNotFound, InvalidPath
from context_engine.index import ChunkEmbeddingText, ChunkLocation, build_chunk_texts
from context_engine.model import CHUNK_KINDS, Chunk, ChunkKind, Progress, Skipped
from context_engine.repo import ReadFile, Root, read_file, write_atomic
from context_engine.search.chunk_files import FILES, ChunkRow, ChunkSet, format_chunk_file, parse_chunk_file
from context_engine.search.hit_reading import HitReader
from context_engine.search.rankers import RankingView
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


def collect_chunks(view: RankingView, read: ReadFile) -> ChunksByKind:
    """Return every chunk that counts, by kind, in the order of paths and lines, each with its text to embed.

    `read` returns a file as it is now.
    """
    chunks: dict[ChunkKind, list[tuple[Chunk, ChunkEmbeddingText]]] = {kind: [] for kind in CHUNK_KINDS}
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

    Raises: Cancelled (nothing is written), InvalidPath, DiskFull, AccessFailed.
    """
    counts = {kind: len(chunks[kind]) for kind in FILES}
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


FILE_BYTES_MAX = 500_000_000
"""100,000 chunks with vectors of 384 numbers take 400 MB of JSON; larger data belongs into a database."""


def write_folder(folder: Path, contents: Iterable[tuple[str, bytes]]) -> int:
    """Write chunk files, each as a whole or not at all, and make the folder if it is missing; return the bytes.

    Raises: InvalidPath when it is a file, WriteFailed.
    """
    if folder.is_file():
        raise InvalidPath(
            f"{folder} is a file, not a folder", suggestion="name a folder; it is made if it is not there"
        )
    with suppress(OSError):  # why it cannot be made, the first file says better
        folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, data in contents:
        write_atomic(folder / name, data)
        count += len(data)
    return count


def read_folder(folder: Path, *, bytes_max: int = FILE_BYTES_MAX) -> ChunkSet:
    """Read all chunk files of a folder; unusable ones are named in `skipped`, missing ones are not.

    Raises: FileNotFound when there is no such folder, InvalidVectors.
    """
    return combine_files(read_files(folder, bytes_max=bytes_max))


def read_files(folder: Path, *, bytes_max: int = FILE_BYTES_MAX) -> dict[ChunkKind, bytes | Skipped]:
    """Return the contents of the files that are there, or why one cannot be read. Raises: FileNotFound."""
    if not folder.is_dir():
        raise FileNotFound(
            f"there is no folder {folder} to read chunks from",
            suggestion="write one with `ctx chunk export`, or name the folder that your indexer writes",
            details={"path": str(folder)},
        )
    root = Root(folder)
    found: dict[ChunkKind, bytes | Skipped] = {}
    for kind, name in FILES.items():
        try:
            found[kind] = read_file(root, root.rel(name), bytes_max=bytes_max).data
        except FileNotFound:
            continue
        except ContextEngineError as error:  # too large, no text, closed to us, a link that leads elsewhere
            found[kind] = Skipped(name, "unreadable", error.message)
    return found


def hash_contents(contents: Mapping[ChunkKind, bytes | Skipped]) -> str:
    """Return a hash that differs when the contents of a folder do."""
    state = xxh3_128()
    for kind, data in contents.items():
        state.update(f"\0{kind}\0".encode())
        state.update(str(data).encode() if isinstance(data, Skipped) else data)
    return state.hexdigest()


def combine_files(contents: Mapping[ChunkKind, bytes | Skipped]) -> ChunkSet:
    """Return the chunks of files as one set. Raises: InvalidVectors."""
    files = [data if isinstance(data, Skipped) else parse_chunk_file(kind, data) for kind, data in contents.items()]
    skipped = [file for file in files if isinstance(file, Skipped)]
    return ChunkSet.of([file for file in files if isinstance(file, ChunkSet)], skipped)
