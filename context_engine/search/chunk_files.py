"""PURE. Chunk files (upstream spec 004): four JSON files through which indexers exchange chunks; bytes in, rows out.

A file contains `{"_metadata": {...}, "chunks": [...]}`, or just the list. It is used as a whole or not at all, and
unknown fields are ignored. `search.chunk_folder` reads and watches the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from context_engine.embedding import VectorRows, normalize_rows, quantize
from context_engine.errors import InvalidVectors
from context_engine.model import ChunkKind, Skipped

FILES: Mapping[ChunkKind, str] = {
    "documentation": "doc-chunks.json",
    "symbols": "code-symbols.json",
    "definitions": "code-definitions.json",
    "data": "code-data.json",
}
"""The four files, each with the kind of its chunks where they do not name one themselves."""
LAYOUT = "2.0.0"
"""The name of this layout in the other indexer that is known to write such files."""
DIGITS = 7
"""Of a number in an embedding: one more than int8 and a scale can distinguish, and half as long as all of them."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """One chunk in the fields of spec 004, without its vector.

    `metadata` is as its indexer wrote it; nothing in it is guaranteed.
    """

    id: str
    kind: ChunkKind
    title: str
    text: str
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: str = ""
    updated_at: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as spec 004 writes it, in files and in answers."""
        return {
            "id": self.id,
            "chunk_type": self.kind,
            "title": self.title,
            "text": self.text,
            "tags": list(self.tags),
            "metadata": dict(self.metadata),
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


@dataclass(frozen=True, slots=True, eq=False)
class ChunkFile:
    """The content of one file.

    `vectors` has a row for each chunk, zeros where there is none, and no column when no chunk has one.

    `model` is the name in the file of what made the vectors, and `fingerprint` that of our embedder; empty when it has
    none.
    """

    name: str
    rows: tuple[ChunkRow, ...]
    vectors: VectorRows
    model: str = ""
    fingerprint: str = ""

    @property
    def dimensions(self) -> int:
        """Numbers in a vector; 0 when no chunk has one."""
        return self.vectors.values.shape[1]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSet:
    """All chunks of one folder, as one value: what a reader uses while the files change.

    `embedded` says which rows have a vector; `skipped` names the files that could not be used, and why.
    """

    files: tuple[str, ...]
    rows: tuple[ChunkRow, ...]
    vectors: VectorRows
    embedded: npt.NDArray[np.bool_]
    model: str
    fingerprint: str = ""
    skipped: tuple[Skipped, ...] = ()

    @property
    def dimensions(self) -> int:
        """Numbers in a vector; 0 when no chunk has one."""
        return self.vectors.values.shape[1]

    @classmethod
    def of(
        cls, files: Sequence[ChunkFile], skipped: Sequence[Skipped] = (), *, dimensions: int | None = None
    ) -> ChunkSet:
        """Combine files. `dimensions`: what every vector must have (None: what the first one has).

        Raises: InvalidVectors when a file was embedded in another size, or by another model, than the rest.
        """
        vectored = [file for file in files if file.dimensions]
        size = dimensions or (vectored[0].dimensions if vectored else 0)
        for file in vectored:
            if file.dimensions != size:
                raise _invalid_vectors(f"{file.name} has vectors of {file.dimensions} numbers where {size} belong")
        parts = [file.vectors if file.dimensions else _no_vectors(len(file.rows), size) for file in files]
        values, scales = zip(*((part.values, part.scales) for part in (_no_vectors(0, size), *parts)), strict=True)
        together = VectorRows(np.concatenate(values), np.concatenate(scales))
        return cls(
            files=tuple(file.name for file in files),
            rows=tuple(row for file in files for row in file.rows),
            vectors=together,
            embedded=together.scales > 0,
            model=_common_value("models", (file.model for file in vectored)),
            fingerprint=_common_value("versions of one model", (file.fingerprint for file in vectored)),
            skipped=tuple(skipped),
        )


class _ChunkShape(msgspec.Struct):
    """A chunk as it is in a file; some indexers write empty fields as null."""

    id: str
    text: str
    title: str | None = None
    chunk_type: ChunkKind | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    created_at: str | None = None
    updated_at: str | None = None
    embedding: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _MetadataShape(msgspec.Struct):
    model: str | None = None
    fingerprint: str | None = None


class _FileShape(msgspec.Struct):
    chunks: list[_ChunkShape] | None
    head: _MetadataShape | None = msgspec.field(default=None, name="_metadata")


def parse_chunk_file(kind: ChunkKind, data: bytes) -> ChunkFile | Skipped:
    """Return the chunks of one file, or why it cannot be used.

    Raises: InvalidVectors when its own vectors differ in size.
    """
    name = FILES[kind]
    try:
        if data.lstrip()[:1] == b"[":
            head, chunks = _MetadataShape(), msgspec.json.decode(data, type=list[_ChunkShape])
        else:
            file = msgspec.json.decode(data, type=_FileShape)
            head, chunks = file.head or _MetadataShape(), file.chunks or []
        vectors = _vectors(name, [chunk.embedding for chunk in chunks])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # a validation error is one of the first
        return Skipped(name, "malformed", _describe(error))
    if not np.isfinite(vectors).all():
        return Skipped(name, "malformed", f"chunk {_first_not_finite(vectors) + 1} has numbers that are not finite")
    rows = tuple(_row(kind, chunk) for chunk in chunks)
    return ChunkFile(name, rows, quantize(normalize_rows(vectors)), head.model or "", head.fingerprint or "")


def format_chunk_file(
    kind: ChunkKind,
    rows: Sequence[ChunkRow],
    vectors: Floats | None = None,
    *,
    model: str = "",
    fingerprint: str = "",
    generated: str = "",
) -> bytes:
    """Return the bytes of one file. `vectors` has a row for each chunk, or is left out; rows of zeros are left out."""
    chunks = [row.to_dict() for row in rows]
    if vectors is not None:
        for chunk, vector in zip(chunks, vectors, strict=True):
            if vector.any():
                chunk["embedding"] = vector.astype(np.float64).round(DIGITS).tolist()
    head = {
        "model": model,
        "fingerprint": fingerprint,
        "dimensions": 0 if vectors is None else vectors.shape[1],
        "chunk_type": kind,
        "generated": generated,
        "version": LAYOUT,
    }
    return msgspec.json.encode({"_metadata": head, "chunks": chunks})


def _row(kind: ChunkKind, chunk: _ChunkShape) -> ChunkRow:
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


def _vectors(name: str, raw: Sequence[msgspec.Raw]) -> Floats:
    """Return one row for each embedding, decoded one at a time: lists of Python floats are eight times as large."""
    decode = msgspec.json.Decoder(list[float] | None).decode
    rows, shape = np.zeros((len(raw), 0), np.float32), Struct("0f")
    for number, embedding in enumerate(raw):
        figures = decode(embedding) if embedding else None
        if not figures:
            continue
        if not rows.shape[1]:
            rows, shape = np.zeros((len(raw), len(figures)), np.float32), Struct(f"{len(figures)}f")
        if len(figures) != rows.shape[1]:
            raise _invalid_vectors(
                f"{name} has vectors of {rows.shape[1]} and, in chunk {number + 1}, of {len(figures)} numbers"
            )
        try:
            shape.pack_into(rows[number], 0, *figures)  # a fifth of the time that numpy needs for them
        except OverflowError:  # what float32 cannot hold is refused as what is not finite
            rows[number] = np.inf
    return rows


def _no_vectors(count: int, dimensions: int) -> VectorRows:
    return VectorRows(np.zeros((count, dimensions), np.int8), np.zeros(count, np.float32))


def _common_value(what: str, stated: Iterable[str]) -> str:
    """Return the value that all files with a value share. Raises: InvalidVectors when they differ."""
    different = sorted({value for value in stated if value})
    if len(different) > 1:
        raise _invalid_vectors(f"the vectors of these files were made by different {what}: {', '.join(different)}")
    if different:
        return different[0]
    return ""


def _first_not_finite(vectors: Floats) -> int:
    return int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])


def _describe(error: Exception) -> str:
    text = str(error) or "it is nested too deeply"
    return f"it is not JSON of chunks: {text}"


def _invalid_vectors(what: str) -> InvalidVectors:
    return InvalidVectors(what, suggestion="write all four files again with one model, or leave the embeddings out")
