"""An index as chunk files: every chunk of a snapshot in the words of seed 004, with its vector where somebody makes one.

What changed on the disk since it was indexed is left out, because its lines would be cut wrongly: bring the index up to
date first. Secrets are masked in the texts that are written; what embeds gets the texts as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from context_engine.index.capsule import Capsule, Placed, capsules
from context_engine.index.chunk_files import FILES, ChunkRow, written
from context_engine.model import CHUNK_KINDS, Chunk, ChunkKind, Hit
from context_engine.search.rankers import View
from context_engine.search.reading import Read, Reader
from context_engine.search.searcher import Place
from context_engine.text.secrets import mask

Embed = Callable[[Sequence[str]], npt.NDArray[np.float32]]
"""Passages in, one vector for each out: an embedder's `embed` with its mode chosen."""
Export = Mapping[ChunkKind, list[tuple[Chunk, Capsule]]]


def exported(view: View, read: Read) -> Export:
    """Every chunk that counts, by kind, in the order of paths and lines, each with the capsule that stands for it.

    `read` gives a file as it is now.
    """
    chunks: dict[ChunkKind, list[tuple[Chunk, Capsule]]] = {kind: [] for kind in CHUNK_KINDS}
    snapshot = view.snapshot
    for path, file in sorted(snapshot.by_path.items()):
        for chunk, capsule in _of_file(view, read, path, file):
            chunks[chunk.kind].append((chunk, capsule))
    return chunks


def files_of(
    chunks: Export, *, stamp: str, embed: Embed | None = None, heads: int = 1, model: str = ""
) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each of the four files. Without `embed` the vectors are left out.

    `heads`: how often an embedder of this kind wants the head of a capsule; `stamp`: when the index was made, UTC ISO-8601.
    """
    for kind, name in FILES.items():
        rows = [_row(chunk, stamp) for chunk, _ in chunks[kind]]
        texts = [capsule.text(heads) for _, capsule in chunks[kind]]
        vectors = embed(texts) if embed else None
        yield name, written(kind, rows, vectors, model=model, generated=stamp)


def _of_file(view: View, read: Read, path: str, file: int) -> Iterator[tuple[Chunk, Capsule]]:
    """The chunks of one file: its outline, then its pieces in order."""
    source, outline = read(path), view.outline(file)
    if source is None:
        return
    numbers = range(view.chunk_starts[file], view.chunk_starts[file + 1])
    columns = [view.snapshot.chunk_column(name)[numbers.start : numbers.stop] for name in ("start", "stop", "symbol")]
    heads = capsules(
        path, source.data, outline, [Placed(*each) for each in zip(*map(np.ndarray.tolist, columns), strict=True)]
    )
    reader = Reader(view, lambda _: source)
    places = [Place(number, file, 0.0, {}) for number in numbers]
    for hit in _fresh(reader.outlines(places[:1], 1.0)):
        yield hit.chunk, Capsule(path, hit.chunk.text)
    yield from zip((hit.chunk for hit in _fresh(reader.hits(places))), heads, strict=False)


def _fresh(hits: Sequence[Hit]) -> list[Hit]:
    return [hit for hit in hits if not hit.stale]


def _row(chunk: Chunk, stamp: str) -> ChunkRow:
    return ChunkRow(
        id=chunk.id,
        kind=chunk.kind,
        title=chunk.title,
        text=mask(chunk.text).text,
        tags=chunk.tags,
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
