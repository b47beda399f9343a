"""A segment: some files of one workspace, searchable on their own, immutable once written, read through a memory map.

It contains columns (one entry a file or a chunk), heaps (byte strings), postings (term -> documents and counts), and
perhaps static vectors, one a chunk and one a file. A workspace is a list of segments. Replacing a file adds a small
segment and marks the old entry dead; `merge` makes one segment of several and drops the dead entries. Terms are stored
as 64-bit hashes: among a million terms two collide with probability 3e-8. Scores are not stored, so that live
statistics (document frequencies, mean lengths) are always used.

File layout: 8 bytes magic, header length and CRC-32 (two little-endian uint32), JSON header, then the arrays, each at a
multiple of 64 bytes. A truncated or damaged file is refused when it is opened.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from context_engine.embedding import KEY_BYTES, VectorRows
from context_engine.errors import NextStep, StorageCorrupt
from context_engine.index.embedded_store import SCHEMA_VERSION
from context_engine.storage import open_private

MAGIC = f"CTXSEG{SCHEMA_VERSION:02}".encode()
ALIGN_BYTES = 64
CHECKED_BYTES_MAX = 1_000_000
"""Up to here a checksum over the whole content costs less than a millisecond at every opening."""

Array = npt.NDArray[Any]

FILE_COLUMNS: dict[str, npt.DTypeLike] = {
    "size": np.int64,
    "mtime_ns": np.int64,
    "language": np.uint8,
    "role": np.uint8,
}
CHUNK_COLUMNS: dict[str, npt.DTypeLike] = {
    "first": np.uint32,
    "last": np.uint32,
    "start": np.uint32,
    "stop": np.uint32,
    "kind": np.uint8,
    "symbol": np.int32,
    "length": np.uint32,
    "key": f"S{KEY_BYTES}",
}
HEAPS = ("path", "sha256", "outline")
CHUNK_FIELDS = ("body", "symbol", "tag")
FILE_FIELDS = ("path", "def", "doc", "stem")
LENGTH_FIELDS = ("path", "def", "doc", "stem")


def term_hashes(terms: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Return the 64-bit hashes under which terms are stored (XXH3)."""
    return np.fromiter((xxh3_64_intdigest(term.encode()) for term in terms), np.uint64)


@dataclass(frozen=True, slots=True)
class Heap:
    """Byte strings end to end: string `i` is `blob[offsets[i]:offsets[i + 1]]`."""

    offsets: npt.NDArray[np.uint64]
    blob: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> Heap:
        """Pack the strings in order."""
        offsets = np.zeros(len(strings) + 1, np.uint64)
        np.cumsum([len(string) for string in strings], out=offsets[1:])
        return cls(offsets, np.frombuffer(b"".join(strings), np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        return self.blob[int(self.offsets[index]) : int(self.offsets[index + 1])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over all strings, in one copy of the blob."""
        blob, offsets = self.blob.tobytes(), self.offsets.tolist()
        return (blob[a:b] for a, b in pairwise(offsets))

    def texts(self) -> list[str]:
        """Return all strings as UTF-8 text."""
        blob, offsets = self.blob.tobytes(), self.offsets.tolist()
        return [blob[a:b].decode() for a, b in pairwise(offsets)]

    def take(self, keep: npt.NDArray[np.intp]) -> Heap:
        """Return the strings at these places, in this order."""
        return Heap.of([self[index] for index in keep.tolist()])


@dataclass(frozen=True, slots=True)
class Postings:
    """The documents of each term. Terms are ordered by hash.

    Term `i` is in documents `ids[indptr[i]:indptr[i+1]]`, `counts` times each. Ids are as wide as the segment needs.

    `names` are the terms themselves where they are needed (symbols, tags, file stems), else empty.
    """

    hashes: npt.NDArray[np.uint64]
    indptr: npt.NDArray[np.uint32]
    ids: npt.NDArray[np.unsignedinteger]
    counts: npt.NDArray[np.uint8]
    names: Heap = field(default_factory=lambda: Heap.of([]))

    @classmethod
    def of_pairs(
        cls,
        hashes: npt.NDArray[np.uint64],
        terms: npt.NDArray[np.signedinteger],
        docs: npt.NDArray[np.signedinteger],
        documents: int,
        *,
        weights: npt.NDArray[np.uint8] | None = None,
        names: Sequence[str] | None = None,
    ) -> Postings:
        """Build postings from one (term number, document) pair for each occurrence; `hashes[n]`: of term number n.

        Counts are occurrences, capped at 255; with `weights` the greatest weight of the pair instead. Terms without a
        document are dropped.
        """
        order = np.argsort(hashes, kind="stable")
        rank = np.empty(len(hashes), np.int64)
        rank[order] = np.arange(len(hashes))
        document_bits = documents.bit_length()
        keys = rank[terms]  # in place: the widest array of a batch
        keys <<= document_bits
        keys |= docs
        if weights is None:
            keys.sort()
            starts = _run_starts(keys)
            counts = np.diff(starts, append=len(keys))
        else:
            by_key = np.argsort(keys, kind="stable")
            keys = keys[by_key]
            starts = _run_starts(keys)
            if len(keys):
                counts = np.maximum.reduceat(weights[by_key], starts)
            else:
                counts = np.zeros(0, np.uint8)
        keys = keys[starts]
        ranks = keys >> document_bits
        first = _run_starts(ranks)
        used = order[ranks[first]]
        return cls(
            hashes[used],
            np.append(first, len(keys)).astype(np.uint32),
            (keys & ((1 << document_bits) - 1)).astype(np.min_scalar_type(documents)),
            np.minimum(counts, 255).astype(np.uint8),
            Heap.of([names[index].encode() for index in used.tolist()]) if names is not None else Heap.of([]),
        )

    def find(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
        """Return the place of each hash among our terms; -1 where the term does not occur."""
        if not len(self.hashes):
            return np.full(len(hashes), -1)
        places = np.searchsorted(self.hashes, hashes)
        places[places == len(self.hashes)] = 0
        return np.where(self.hashes[places] == hashes, places, -1)

    def pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.unsignedinteger]]:
        """Return (term place, document) of every posting."""
        return np.repeat(np.arange(len(self.hashes)), np.diff(self.indptr.astype(np.int64))), self.ids


@dataclass(frozen=True, slots=True)
class StaticVectors:
    """A vector for each chunk and one for the summary of each file.

    Only vectors of the same `identity` are compared.
    """

    identity: str
    chunk: VectorRows
    summary: VectorRows


@dataclass(frozen=True)
class Segment:
    """The columns, heaps and postings of some files; see the module docstring."""

    languages: tuple[str, ...]
    chunk_starts: npt.NDArray[np.uint32]  # files + 1: file f has chunks chunk_starts[f]:chunk_starts[f + 1]
    file: dict[str, Array]
    chunk: dict[str, Array]
    heaps: dict[str, Heap]
    fields: dict[str, Postings]
    lengths: dict[str, npt.NDArray[np.uint16]]
    static: StaticVectors | None = None
    path: Path | None = None  # the file it is mapped from, as it was written

    @property
    def files(self) -> int:
        """The number of files, dead ones included."""
        return len(self.chunk_starts) - 1

    @property
    def chunks(self) -> int:
        """The number of chunks, dead ones included."""
        return int(self.chunk_starts[-1])

    @cached_property
    def paths(self) -> list[str]:
        """The path of each file. Read once, however many snapshots use the segment: each edit makes one."""
        return self.heaps["path"].texts()

    @cached_property
    def stem_names(self) -> list[str]:
        """The words of file names, in the order of their postings."""
        return self.fields["stem"].names.texts()

    @cached_property
    def path_hashes(self) -> npt.NDArray[np.uint64]:
        """The hash of each path, as of a term."""
        return term_hashes(self.paths)

    def with_touched(self, touched: Sequence[tuple[int, int, int]]) -> Segment:
        """Return the segment with other sizes and times of some files: (file number, size, mtime_ns)."""
        if not touched:
            return self
        columns = {name: self.file[name].copy() for name in ("size", "mtime_ns")}
        for number, size, mtime_ns in touched:
            columns["size"][number], columns["mtime_ns"][number] = size, mtime_ns
        return replace(self, file=self.file | columns, path=None)

    def chunk_files(self) -> npt.NDArray[np.intp]:
        """Return the file of each chunk."""
        return np.repeat(np.arange(self.files), np.diff(self.chunk_starts.astype(np.int64)))


# -- on disk ------------------------------------------------------------------------------------------------------


def write(segment: Segment, path: Path) -> int:
    """Write the segment; return the bytes written. The caller publishes it afterwards.

    A large one is flushed to the disk. The checksum of a small one is compared whenever it is opened instead, so that a
    file half written at a power cut is detected (a flush costs as much as indexing a file). `find_damage` compares that
    of any.

    Raises: OSError unchanged (the caller knows whether the disk is full).
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in _flatten(segment).items()}
    index, offset, checksum = {}, 0, 0
    for name, array in arrays.items():
        index[name] = [array.dtype.str, array.shape, offset]
        offset += -(-array.nbytes // ALIGN_BYTES) * ALIGN_BYTES
        checksum = zlib.crc32(array.data, checksum)
    is_small = offset <= CHECKED_BYTES_MAX
    facts = {
        "languages": segment.languages,
        "static": segment.static.identity if segment.static else "",
        "arrays": index,
        "data_bytes": offset,
        "crc": checksum,
    }
    header = json.dumps(facts).encode()
    header += b" " * (-(len(header) + 16) % ALIGN_BYTES)
    with open(path, "wb", opener=open_private) as out:
        out.write(MAGIC + len(header).to_bytes(4, "little") + zlib.crc32(header).to_bytes(4, "little") + header)
        for array in arrays.values():
            out.write(array.data)
            out.write(b"\0" * (-array.nbytes % ALIGN_BYTES))
        out.flush()
        if not is_small:
            os.fsync(out.fileno())
        return out.tell()


def find_damage(path: Path) -> str:
    """Return what is wrong with a segment file, in words; empty when every byte is as it was written."""
    try:
        load(path, bytes_checked_max=None)
    except (StorageCorrupt, OSError, ValueError, LookupError, TypeError) as error:
        if isinstance(error, StorageCorrupt):
            return error.message
        return f"index file {path.name} cannot be used: {error}"
    return ""


def load(path: Path, *, bytes_checked_max: int | None = CHECKED_BYTES_MAX) -> Segment:
    """Map a segment written by `write`.

    The checksum of a file larger than `bytes_checked_max` is not compared (None: of any is).

    Raises: StorageCorrupt when the file is damaged or of another version: rebuild the index then.
    """
    with open(path, "rb") as source:
        prefix = source.read(16)
        header = b""
        if prefix[:8] == MAGIC:
            header = source.read(int.from_bytes(prefix[8:12], "little"))
        if not header or zlib.crc32(header) != int.from_bytes(prefix[12:16], "little"):
            raise _corrupt(path, "its header is damaged or of another version")
        facts = json.loads(header)
        if os.fstat(source.fileno()).st_size != 16 + len(header) + facts["data_bytes"]:
            raise _corrupt(path, "it was cut short")
        mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
    base = 16 + len(header)
    arrays = {
        name: np.frombuffer(mapped, dtype, math.prod(shape), base + offset).reshape(shape)
        for name, (dtype, shape, offset) in facts["arrays"].items()
    }
    is_checked = bytes_checked_max is None or facts["data_bytes"] <= bytes_checked_max
    if is_checked and facts["crc"] is not None and _checksum(arrays) != facts["crc"]:
        raise _corrupt(path, "its content is damaged")
    return replace(_gather(tuple(facts["languages"]), facts["static"], arrays), path=path)


def _checksum(arrays: dict[str, Array]) -> int:
    checksum = 0
    for array in arrays.values():
        checksum = zlib.crc32(array.data, checksum)
    return checksum


def _corrupt(path: Path, how: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"index file {path.name} cannot be used: {how}",
        suggestion="The index is only a cache.",
        next_steps=NextStep("reindex_workspace", "to build it again"),
        details={"file": str(path)},
    )


def _flatten(segment: Segment) -> dict[str, Array]:
    arrays: dict[str, Array] = {"chunk_starts": segment.chunk_starts}
    arrays |= {f"file.{name}": column for name, column in segment.file.items()}
    arrays |= {f"chunk.{name}": column for name, column in segment.chunk.items()}
    arrays |= {f"length.{name}": column for name, column in segment.lengths.items()}
    heaps = dict(segment.heaps)
    for name, postings in segment.fields.items():
        for part in ("hashes", "indptr", "ids", "counts"):
            arrays[f"field.{name}.{part}"] = getattr(postings, part)
        heaps[f"names.{name}"] = postings.names
    for name, heap in heaps.items():
        arrays[f"heap.{name}.offsets"], arrays[f"heap.{name}.blob"] = heap.offsets, heap.blob
    for name, rows in (("chunk", segment.static.chunk), ("card", segment.static.summary)) if segment.static else ():
        arrays[f"static.{name}.values"], arrays[f"static.{name}.scales"] = rows.values, rows.scales
    return arrays


def _gather(languages: tuple[str, ...], identity: str, arrays: dict[str, Array]) -> Segment:
    def heap(name: str) -> Heap:
        return Heap(arrays[f"heap.{name}.offsets"], arrays[f"heap.{name}.blob"])

    def postings(name: str) -> Postings:
        parts = (arrays[f"field.{name}.{part}"] for part in ("hashes", "indptr", "ids", "counts"))
        return Postings(*parts, names=heap(f"names.{name}"))

    def rows(name: str) -> VectorRows:
        return VectorRows(arrays[f"static.{name}.values"], arrays[f"static.{name}.scales"])

    return Segment(
        languages,
        arrays["chunk_starts"],
        {name: arrays[f"file.{name}"] for name in FILE_COLUMNS},
        {name: arrays[f"chunk.{name}"] for name in CHUNK_COLUMNS},
        {name: heap(name) for name in HEAPS},
        {name: postings(name) for name in CHUNK_FIELDS + FILE_FIELDS},
        {name: arrays[f"length.{name}"] for name in LENGTH_FIELDS},
        StaticVectors(identity, rows("chunk"), rows("card")) if identity else None,
    )


# -- several into one ---------------------------------------------------------------------------------------------


def merge(segments: Sequence[Segment], alive: Sequence[npt.NDArray[np.bool_]]) -> Segment:
    """Return one segment with the living files of all, in order.

    `alive[i][f]` says whether file f of segment i counts.
    """
    languages = tuple(dict.fromkeys(name for segment in segments for name in segment.languages))
    kept_files = [np.flatnonzero(living) for living in alive]
    kept_chunks = [
        np.flatnonzero(living[segment.chunk_files()]) for segment, living in zip(segments, alive, strict=True)
    ]
    sizes = [
        np.diff(segment.chunk_starts.astype(np.int64))[kept] for segment, kept in zip(segments, kept_files, strict=True)
    ]
    starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.uint32)

    def column(part: str, name: str, kept: list[npt.NDArray[np.intp]]) -> Array:
        return np.concatenate([getattr(s, part)[name][k] for s, k in zip(segments, kept, strict=True)])

    file = {name: column("file", name, kept_files) for name in FILE_COLUMNS}
    recode = [np.array([languages.index(name) for name in s.languages], np.uint8) for s in segments]
    file["language"] = np.concatenate(
        [code[s.file["language"][k]] for s, k, code in zip(segments, kept_files, recode, strict=True)]
    )
    heaps = {
        name: Heap.of([s.heaps[name][i] for s, k in zip(segments, kept_files, strict=True) for i in k.tolist()])
        for name in HEAPS
    }
    fields = {
        name: _merge_postings([s.fields[name] for s in segments], kept_chunks, [s.chunks for s in segments])
        for name in CHUNK_FIELDS
    }
    fields |= {
        name: _merge_postings([s.fields[name] for s in segments], kept_files, [s.files for s in segments])
        for name in FILE_FIELDS
    }
    return Segment(
        languages,
        starts,
        file,
        {name: column("chunk", name, kept_chunks) for name in CHUNK_COLUMNS},
        heaps,
        fields,
        {name: column("lengths", name, kept_files) for name in LENGTH_FIELDS},
        _merge_static(segments, kept_chunks, kept_files),
    )


def _merge_static(
    segments: Sequence[Segment], chunks: Sequence[npt.NDArray[np.intp]], files: Sequence[npt.NDArray[np.intp]]
) -> StaticVectors | None:
    """Merge the vectors of kept files; None unless all segments with files have some, of one kind."""
    asked = [segment for segment in segments if segment.files]
    parts = [segment.static for segment in asked if segment.static]
    if not parts or len(parts) < len(asked) or len({part.identity for part in parts}) > 1:
        return None
    kept = [(chunks[n], files[n]) for n, segment in enumerate(segments) if segment.files]
    return StaticVectors(
        parts[0].identity,
        _merge_rows([part.chunk for part in parts], [places for places, _ in kept]),
        _merge_rows([part.summary for part in parts], [places for _, places in kept]),
    )


def _merge_rows(parts: Sequence[VectorRows], kept: Sequence[npt.NDArray[np.intp]]) -> VectorRows:
    """Merge the kept rows of all parts, each copied once: they are the largest part of a segment."""
    values = np.empty((sum(map(len, kept)), parts[0].values.shape[1]), np.int8)
    start = 0
    for part, keep in zip(parts, kept, strict=True):
        np.take(part.values, keep, axis=0, out=values[start : start + len(keep)], mode="clip")  # "raise" copies twice
        start += len(keep)
    return VectorRows(values, np.concatenate([part.scales[keep] for part, keep in zip(parts, kept, strict=True)]))


def _merge_postings(parts: Sequence[Postings], kept: Sequence[npt.NDArray[np.intp]], sizes: Sequence[int]) -> Postings:
    """Merge postings over the kept documents, renumbered in order; terms without a living document are dropped.

    A term's documents are those of the first part, then those of the second: each part's postings are written to their
    places, one part at a time. Nothing is sorted, and memory has only the result and what one part needs.
    """
    hashes, first_at = np.unique(np.concatenate([part.hashes for part in parts]), return_index=True)
    bases = np.cumsum([0, *(len(keep) for keep in kept)]).tolist()
    living = [_PostingsMerge(*merge_part, hashes) for merge_part in zip(parts, kept, sizes, bases[:-1], strict=True)]
    totals = sum((merge_part.frequency() for merge_part in living), np.zeros(len(hashes), np.int64))
    free = np.cumsum(totals) - totals
    ids, counts = np.empty(int(totals.sum()), np.min_scalar_type(bases[-1])), np.empty(int(totals.sum()), np.uint8)
    for merge_part in living:
        free = merge_part.put(ids, counts, free)
    present = np.flatnonzero(totals)
    names = None
    if any(len(part.names) for part in parts):
        names = [name for part in parts for name in part.names]
    return Postings(
        hashes[present],
        np.append(0, np.cumsum(totals[present])).astype(np.uint32),
        ids,
        counts,
        Heap.of([names[first_at[index]] for index in present.tolist()]) if names is not None else Heap.of([]),
    )


@dataclass(frozen=True, slots=True)
class _PostingsMerge:
    """The kept postings of one part: its `kept` documents are numbered from `base`, its terms as in `hashes`."""

    part: Postings
    kept: npt.NDArray[np.intp]
    size: int
    base: int
    hashes: npt.NDArray[np.uint64]

    def _renumber(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the term and the new document of each kept posting; and which postings are kept."""
        renumbered = np.full(self.size, -1, np.int64)
        renumbered[self.kept] = self.base + np.arange(len(self.kept))
        places, ids = self.part.pairs()
        docs = renumbered[ids]
        lives = docs >= 0
        return np.searchsorted(self.hashes, self.part.hashes)[places[lives]], docs[lives], lives

    def frequency(self) -> npt.NDArray[np.int64]:
        """Return the number of kept documents of each term."""
        return np.bincount(self._renumber()[0], minlength=len(self.hashes))

    def put(
        self, ids: npt.NDArray[np.unsignedinteger], counts: npt.NDArray[np.uint8], free: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Write each term's documents from its first free place on; return the next free places."""
        terms, docs, lives = self._renumber()
        own = np.bincount(terms, minlength=len(self.hashes))
        at = (free - (np.cumsum(own) - own))[terms] + np.arange(len(terms))
        ids[at], counts[at] = docs, self.part.counts[lives]
        return free + own


def _run_starts(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return where each run of equal sorted keys begins."""
    if not len(keys):
        return np.zeros(0, np.intp)
    return np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))


class StoredSymbol(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A symbol as the index stores it: enough to find it; the rest is read from the file when needed."""

    name: str
    kind: str
    first: int
    last: int
    line: int
    parent: int
    owner: str = ""


class StoredOutline(msgspec.Struct, array_like=True, frozen=True):
    """The outline of a file as the index stores it; `imports` are (target, line)."""

    symbols: list[StoredSymbol]
    imports: list[tuple[str, int]]
    lines: int
    problem: str = ""


encode_outline = msgspec.msgpack.Encoder().encode
decode_outline = msgspec.msgpack.Decoder(StoredOutline).decode
