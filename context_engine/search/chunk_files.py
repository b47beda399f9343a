"""Chunk files (upstream spec 004): four JSON files in a folder, through which indexers exchange chunks.

A file is used as a whole or not at all, and unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128_hexdigest

from context_engine.embedding import VectorRows, normalize_rows, quantize
from context_engine.errors import ContextEngineError, FileNotFound, InvalidPath, InvalidVectors
from context_engine.model import ChunkKind, Skipped
from context_engine.repo import Root, read_file, write_atomic
from context_engine.storage import prepare_type

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

FILE_BYTES_MAX = 500_000_000
"""100,000 chunks with vectors of 384 numbers take 400 MB of JSON; larger data belongs into a database."""

Floats = npt.NDArray[np.float32]


class ChunkRow(msgspec.Struct, frozen=True, rename={"kind": "chunk_type"}):
    """One chunk in the fields of spec 004, without its vector.

    `metadata` is as its indexer wrote it; nothing in it is guaranteed.
    """

    id: str
    kind: ChunkKind
    title: str
    text: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    created_at: str = ""
    updated_at: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as spec 004 writes it, in files and in answers."""
        return msgspec.to_builtins(self) | {"tags": list(self.tags)}


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSet:
    """The chunks of some files, as one value: what a reader uses while the files change.

    `vectors` has a row for each chunk, zeros where there is none, and no column when no chunk has one. `model` is the
    name in the files of what made the vectors, and `fingerprint` that of our embedder; empty when they have none.
    `skipped` names the files that could not be used, and why; `hash` differs when the contents of the files do.
    """

    files: tuple[str, ...]
    rows: tuple[ChunkRow, ...]
    vectors: VectorRows
    model: str = ""
    fingerprint: str = ""
    skipped: tuple[Skipped, ...] = ()
    hash: str = ""

    @property
    def dimensions(self) -> int:
        """Numbers in a vector; 0 when no chunk has one."""
        return self.vectors.values.shape[1]

    @property
    def embedded(self) -> npt.NDArray[np.bool_]:
        """Which rows have a vector."""
        return self.vectors.scales > 0

    @classmethod
    def of(cls, files: Sequence[ChunkSet | Skipped]) -> ChunkSet:
        """Combine files. Raises: InvalidVectors when one was embedded in another size, or by another model."""
        parts = [file for file in files if isinstance(file, ChunkSet)]
        vectored = [part for part in parts if part.dimensions]
        size = vectored[0].dimensions if vectored else 0
        values, scales = [np.zeros((0, size), np.int8)], [np.zeros(0, np.float32)]
        for part in parts:
            if part.dimensions not in (0, size):
                text = f"{part.files[0]} has vectors of {part.dimensions} numbers where {size} belong"
                raise _invalid_vectors(text)
            values.append(part.vectors.values if part.dimensions else np.zeros((len(part.rows), size), np.int8))
            scales.append(part.vectors.scales)
        return cls(
            files=tuple(name for part in parts for name in part.files),
            rows=tuple(row for part in parts for row in part.rows),
            vectors=VectorRows(np.concatenate(values), np.concatenate(scales)),
            model=_common_value("models", (part.model for part in vectored)),
            fingerprint=_common_value("versions of one model", (part.fingerprint for part in vectored)),
            skipped=tuple(file for file in files if isinstance(file, Skipped)),
            hash=" ".join(file.hash if isinstance(file, ChunkSet) else file.detail for file in files),
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


def parse_chunk_file(kind: ChunkKind, data: bytes) -> ChunkSet | Skipped:
    """Return the chunks of one file, or why it cannot be used.

    Raises: InvalidVectors when its own vectors differ in size.
    """
    name = FILES[kind]
    try:
        if data.lstrip()[:1] == b"[":
            file = _FileShape(msgspec.json.decode(data, type=prepare_type(list[_ChunkShape])))
        else:
            file = msgspec.json.decode(data, type=prepare_type(_FileShape))
        chunks, head = file.chunks or [], file.head or _MetadataShape()
        vectors = _read_vectors(name, [chunk.embedding for chunk in chunks])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # a validation error is one of the first
        return Skipped(name, "malformed", f"it is not JSON of chunks: {str(error) or 'it is nested too deeply'}")
    unusable = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(unusable):
        return Skipped(name, "malformed", f"chunk {unusable[0] + 1} has numbers that are not finite")
    rows = tuple(
        ChunkRow(
            id=chunk.id,
            kind=chunk.chunk_type or kind,
            title=chunk.title or "",
            text=chunk.text,
            tags=tuple(sorted({tag.lower() for tag in chunk.tags or ()})),
            metadata=chunk.metadata or {},
            created_at=chunk.created_at or "",
            updated_at=chunk.updated_at or "",
        )
        for chunk in chunks
    )
    return ChunkSet(
        (name,),
        rows,
        quantize(normalize_rows(vectors)),
        head.model or "",
        head.fingerprint or "",
        hash=xxh3_128_hexdigest(data),
    )


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
    for chunk, vector in zip(chunks, () if vectors is None else vectors, strict=False):
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


def _read_vectors(name: str, raw: Sequence[msgspec.Raw]) -> Floats:
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


def _common_value(what: str, values: Iterable[str]) -> str:
    """Return the value that all files with a value share. Raises: InvalidVectors when they differ."""
    different = sorted({value for value in values if value})
    if len(different) > 1:
        raise _invalid_vectors(f"the vectors of these files were made by different {what}: {', '.join(different)}")
    return "".join(different)


def _invalid_vectors(what: str) -> InvalidVectors:
    return InvalidVectors(what, suggestion="write all four files again with one model, or leave the embeddings out")


# -- a folder of them -------------------------------------------------------------------------------------------------


def read_folder(folder: Path, *, bytes_max: int = FILE_BYTES_MAX) -> ChunkSet:
    """Read all chunk files of a folder; unusable ones are named in `skipped`, missing ones are not.

    Raises: FileNotFound when there is no such folder, InvalidVectors.
    """
    if not folder.is_dir():
        raise FileNotFound(
            f"there is no folder {folder} to read chunks from",
            suggestion="write one with `ctx chunk export`, or name the folder that your indexer writes",
            details={"path": str(folder)},
        )
    root = Root(folder)
    files: list[ChunkSet | Skipped] = []
    for kind, name in FILES.items():
        try:
            data = read_file(root, root.rel(name), bytes_max=bytes_max).data
        except FileNotFound:
            continue
        except ContextEngineError as error:  # too large, no text, closed to us, a link that leads elsewhere
            files.append(Skipped(name, "unreadable", error.message))
        else:
            files.append(parse_chunk_file(kind, data))
    return ChunkSet.of(files)


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
