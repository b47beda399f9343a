"""PURE. The chunk files of seed 004: four JSON files through which indexers hand their chunks to each other; bytes in, rows out.

A file holds `{"_metadata": {...}, "chunks": [...]}`, or just the list. It is taken whole or not at all, and what is not
known in it is passed over. Where the files lie and how they are followed is the business of `index.chunk_folder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from context_engine.embedding.embedder import unit
from context_engine.errors import InvalidVectors
from context_engine.model import ChunkKind, Skipped
from context_engine.store.store import Rows
from context_engine.store.vectors import quantised

FILES: Mapping[ChunkKind, str] = {
    "documentation": "doc-chunks.json",
    "symbols": "code-symbols.json",
    "definitions": "code-definitions.json",
    "data": "code-data.json",
}
"""The four files, each with the kind its chunks are of where they do not say so themselves."""
LAYOUT = "2.0.0"
"""What the other indexer that is known to write such files calls this layout."""
DIGITS = 7
"""Of a number in an embedding: one more than int8 and a scale can tell apart, and half as long as all of them."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """One chunk in the words of seed 004, without its vector. `metadata` is as its indexer wrote it; nothing in it is sure."""

    id: str
    kind: ChunkKind
    title: str
    text: str
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkFile:
    """What one file holds. `vectors` has a row for each chunk, zeros where there is none, and no column when none has one.

    `model` is what made the vectors, in the words of whoever wrote the file; empty when it does not say.
    """

    name: str
    rows: tuple[ChunkRow, ...]
    vectors: Floats
    model: str = ""

    @property
    def dimensions(self) -> int:
        """Numbers in a vector; 0 when no chunk has one."""
        return self.vectors.shape[1]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSet:
    """All chunks of one folder, as one value: what a reader holds while the files change.

    `embedded` says which rows have a vector; `skipped` names the files that could not be taken, and why.
    """

    files: tuple[str, ...]
    rows: tuple[ChunkRow, ...]
    vectors: Rows
    embedded: npt.NDArray[np.bool_]
    model: str
    skipped: tuple[Skipped, ...] = ()

    @property
    def dimensions(self) -> int:
        """Numbers in a vector; 0 when no chunk has one."""
        return self.vectors.values.shape[1]

    @classmethod
    def of(
        cls, files: Sequence[ChunkFile], skipped: Sequence[Skipped] = (), *, dimensions: int | None = None
    ) -> ChunkSet:
        """Files put together. `dimensions`: what every vector must have (None: what the first one has).

        Raises: InvalidVectors when a file was embedded in another size, or by another model, than the rest.
        """
        vectored = [file for file in files if file.dimensions]
        size = dimensions or (vectored[0].dimensions if vectored else 0)
        for file in vectored:
            if file.dimensions != size:
                raise _unfit(f"{file.name} holds vectors of {file.dimensions} numbers where {size} belong")
        models = sorted({file.model for file in vectored if file.model})
        if len(models) > 1:
            raise _unfit(f"the vectors of these files were made by different models: {', '.join(models)}")
        parts = [file.vectors if file.dimensions else _no_vectors(len(file.rows), size) for file in files]
        together = np.concatenate([_no_vectors(0, size), *parts])
        return cls(
            files=tuple(file.name for file in files),
            rows=tuple(row for file in files for row in file.rows),
            vectors=quantised(together),
            embedded=np.asarray(together.any(axis=1)),
            model=models[0] if models else "",
            skipped=tuple(skipped),
        )


class _Chunk(msgspec.Struct):
    """A chunk as it stands in a file; what an indexer leaves empty, some write as null."""

    id: str
    text: str
    title: str | None = None
    chunk_type: ChunkKind | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    created_at: str | None = None
    updated_at: str | None = None
    embedding: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Head(msgspec.Struct):
    model: str | None = None


class _File(msgspec.Struct):
    chunks: list[_Chunk] | None
    head: _Head | None = msgspec.field(default=None, name="_metadata")


def parsed(kind: ChunkKind, data: bytes) -> ChunkFile | Skipped:
    """The chunks of one file, or why it cannot be taken.

    Raises: InvalidVectors when its own vectors differ in size.
    """
    name = FILES[kind]
    try:
        if data.lstrip()[:1] == b"[":
            head, chunks = None, msgspec.json.decode(data, type=list[_Chunk])
        else:
            file = msgspec.json.decode(data, type=_File)
            head, chunks = file.head, file.chunks or []
        vectors = _vectors(name, [chunk.embedding for chunk in chunks])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # a validation error is one of the first
        return Skipped(name, "malformed", _in_words(error))
    if not np.isfinite(vectors).all():
        return Skipped(name, "malformed", f"chunk {_first_odd(vectors) + 1} has numbers that are not finite")
    return ChunkFile(name, tuple(_row(kind, chunk) for chunk in chunks), unit(vectors), _model(head))


def written(
    kind: ChunkKind, rows: Sequence[ChunkRow], vectors: Floats | None = None, *, model: str = "", generated: str = ""
) -> bytes:
    """The bytes of one file. `vectors` has a row for each chunk, or is left out; rows of zeros are left out."""
    chunks = [_shaped(row) for row in rows]
    if vectors is not None:
        for chunk, vector in zip(chunks, vectors, strict=True):
            if vector.any():
                chunk["embedding"] = vector.astype(np.float64).round(DIGITS).tolist()
    head = {
        "model": model,
        "dimensions": 0 if vectors is None else vectors.shape[1],
        "chunk_type": kind,
        "generated": generated,
        "version": LAYOUT,
    }
    return msgspec.json.encode({"_metadata": head, "chunks": chunks})


def _row(kind: ChunkKind, chunk: _Chunk) -> ChunkRow:
    return ChunkRow(
        id=chunk.id,
        kind=chunk.chunk_type or kind,
        title=chunk.title or "",
        text=chunk.text,
        tags=tuple(sorted({tag.lower() for tag in chunk.tags or ()})),
        metadata=chunk.metadata or {},
        created_at=chunk.created_at or "",
        updated_at=chunk.updated_at or "",
    )


def _shaped(row: ChunkRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "chunk_type": row.kind,
        "title": row.title,
        "text": row.text,
        "tags": list(row.tags),
        "metadata": dict(row.metadata),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _vectors(name: str, raw: Sequence[msgspec.Raw]) -> Floats:
    """One row for each embedding. Decoded one at a time: a list of Python floats is eight times as large as its row."""
    decode = msgspec.json.Decoder(list[float] | None).decode
    found: dict[int, npt.NDArray[np.float64]] = {}
    for number, each in enumerate(raw):
        figures = decode(each) if bytes(each) else None
        if figures:
            found[number] = np.array(figures)
            first = next(iter(found.values()))
            if len(figures) != len(first):
                raise _unfit(
                    f"{name} holds vectors of {len(first)} and, in chunk {number + 1}, of {len(figures)} numbers"
                )
    rows = _no_vectors(len(raw), len(next(iter(found.values()))) if found else 0)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused for that
        for number, row in found.items():
            rows[number] = row
    return rows


def _no_vectors(count: int, dimensions: int) -> Floats:
    return np.zeros((count, dimensions), np.float32)


def _first_odd(vectors: Floats) -> int:
    return int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])


def _model(head: _Head | None) -> str:
    return (head.model or "") if head else ""


def _in_words(error: Exception) -> str:
    text = str(error) or "it is nested too deeply"
    return f"it is no JSON of chunks: {text}"


def _unfit(what: str) -> InvalidVectors:
    return InvalidVectors(what, suggestion="write all four files anew with one model, or leave the embeddings out")
