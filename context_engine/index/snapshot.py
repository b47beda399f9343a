"""A snapshot: all segments of one published generation seen as one, without the dead entries. Immutable for its reader.

Files and chunks are numbered through all segments in order. Columns are joined when a snapshot is opened (one segment:
no copy); postings stay mapped and are joined for the terms of a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from context_engine.embedding import VectorRows
from context_engine.index.segment import CHUNK_FIELDS, Postings, Segment, StoredOutline, decode_outline
from context_engine.repo import qualify

Ints = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Matches:
    """Postings of a query's terms in one field: parallel arrays, by term, then document.

    `terms` indexes the query's terms, `docs` counts chunks or files of the snapshot, `counts` is how often.
    `frequency[t]` is the number of living documents with term t. `in_files[t]` is the number of files with term t in
    their bodies, where it is known without the postings of all files.
    """

    docs: Ints
    counts: Floats
    terms: Ints
    frequency: Ints
    in_files: Ints | None = None


@dataclass(frozen=True, slots=True)
class StaticParts:
    """The static vectors of a snapshot: for each segment its rows and the number of its first chunk or file.

    Only vectors of the same `identity` may be compared with them.
    """

    identity: str
    width: int
    chunk: list[tuple[VectorRows, int]]
    summary: list[tuple[VectorRows, int]]


class Snapshot:
    """What a reader uses from the start to the end of a call."""

    def __init__(
        self,
        segments: Sequence[Segment],
        dead: Sequence[Sequence[int]],
        importance: Sequence[npt.NDArray[Any]],
        *,
        generation: str,
        epoch: int,
        numbers: Sequence[int] = (),
        touched: Sequence[Sequence[tuple[int, int, int]]] = (),
    ) -> None:
        """`dead[i]`: file numbers of segment i that no longer count; `importance[i]`: its files' PageRank signal.

        `touched[i]`: (file number, size, mtime_ns) of files that were rewritten with the same content.
        """
        self._touched = touched
        self.generation = generation
        self.epoch = epoch
        self.segments = tuple(segments)
        self.segment_numbers = list(numbers)
        self.file_base = np.cumsum([0, *(segment.files for segment in segments)])
        self.chunk_base = np.cumsum([0, *(segment.chunks for segment in segments)])
        self.file_alive = np.ones(int(self.file_base[-1]), bool)
        for base, gone in zip(self.file_base.tolist(), dead, strict=False):
            self.file_alive[[base + number for number in gone]] = False
        self.all_alive = bool(self.file_alive.all())
        self.importance = _join([np.asarray(part, np.float32) for part in importance], np.float32)

    def repository(self, file: int) -> str:  # noqa: ARG002 - a union has several
        """Return the name of the repository of a file; empty if there is only one."""
        return ""

    def key(self, file: int) -> str:
        """Return the unique name of a file, as in `by_path`."""
        return qualify(self.repository(file), self.paths[file])

    @property
    def touched(self) -> Sequence[Sequence[tuple[int, int, int]]]:
        """For each segment (file number, size, mtime_ns) of files that were rewritten with the same content."""
        return self._touched or [()] * len(self.segments)

    # -- counting --

    @property
    def files(self) -> int:
        """File numbers, dead ones included."""
        return int(self.file_base[-1])

    @property
    def chunks(self) -> int:
        """Chunk numbers, dead ones included."""
        return int(self.chunk_base[-1])

    @cached_property
    def living_files(self) -> int:
        """Files that count."""
        return int(self.file_alive.sum())

    @cached_property
    def living_chunks(self) -> int:
        """Chunks that count."""
        return int(self.chunk_alive.sum())

    @property
    def by_number(self) -> dict[int, Segment]:
        """Its segments by the store's numbers, so that the next snapshot need not map them again."""
        return dict(zip(self.segment_numbers, self.segments, strict=False))

    @cached_property
    def symbols(self) -> int:
        """The number of definitions that count."""
        return sum(int(self.chunk_alive[p.ids.astype(np.intp) + base].sum()) for p, base in self.postings("symbol"))

    # -- columns --

    @cached_property
    def chunk_starts(self) -> Ints:
        """File f has the chunks chunk_starts[f]:chunk_starts[f + 1]."""
        parts = [
            segment.chunk_starts[:-1].astype(np.intp) + base
            for segment, base in zip(self.segments, self.chunk_base.tolist(), strict=False)
        ]
        return np.concatenate([*parts, [self.chunks]]).astype(np.intp)

    @cached_property
    def chunk_file(self) -> Ints:
        """The file of each chunk."""
        return np.repeat(np.arange(self.files), np.diff(self.chunk_starts))

    @cached_property
    def chunk_alive(self) -> npt.NDArray[np.bool_]:
        """Whether each chunk's file counts."""
        return self.file_alive[self.chunk_file]

    def chunk_column(self, name: str) -> npt.NDArray[Any]:
        """Return one column of all chunks."""
        return self._column("chunk", name)

    def file_column(self, name: str) -> npt.NDArray[Any]:
        """Return one column of all files (`language` counts in `languages`)."""
        return self._column("file", name)

    def lengths(self, field: str) -> npt.NDArray[Any]:
        """Return the number of terms of each document in a field."""
        if field == "body":
            return self._column("chunk", "length")
        return self._column("lengths", field)

    def length_statistics(self, field: str) -> tuple[int, float]:
        """Return the number of living documents of a field, and their mean length in terms.

        `file` is the bodies of all chunks of a file as one document.
        """
        if field == "file":
            lengths = np.bincount(self.chunk_file, self.lengths("body"), self.files)
        else:
            lengths = self.lengths(field).astype(np.float64)
        alive = self.chunk_alive if field == "body" else self.file_alive
        count = int(alive.sum())
        return count, float(lengths[alive].mean()) if count else 1.0

    @cached_property
    def _columns(self) -> dict[tuple[str, str], npt.NDArray[Any]]:
        return {}

    def _column(self, part: str, name: str) -> npt.NDArray[Any]:
        known = self._columns.get((part, name))
        if known is None:
            parts = [getattr(segment, part)[name] for segment in self.segments]
            if (part, name) == ("file", "language"):
                codes = [np.array([self.languages.index(n) for n in s.languages], np.uint8) for s in self.segments]
                parts = [code[column] for code, column in zip(codes, parts, strict=True)]
            known = _join(parts, np.uint8)
            if part == "file" and name in ("size", "mtime_ns") and any(self._touched):
                known = self._as_touched(known.copy(), 1 if name == "size" else 2)
            self._columns[part, name] = known
        return known

    def _as_touched(self, column: npt.NDArray[Any], field: int) -> npt.NDArray[Any]:
        for base, looks in zip(self.file_base.tolist(), self._touched, strict=False):
            for look in looks:
                column[base + look[0]] = look[field]
        return column

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Language names, as the `language` column counts them."""
        return tuple(dict.fromkeys(name for segment in self.segments for name in segment.languages))

    @cached_property
    def paths(self) -> list[str]:
        """The path of each file number."""
        return [path for segment in self.segments for path in segment.paths]

    @cached_property
    def path_hashes(self) -> npt.NDArray[np.uint64]:
        """The hash of the path of each file number."""
        return _join([segment.path_hashes for segment in self.segments], np.uint64)

    @cached_property
    def by_path(self) -> dict[str, int]:
        """Living file numbers by path."""
        alive = self.file_alive.tolist()
        return {path: number for number, path in enumerate(self.paths) if alive[number]}

    def heap(self, name: str, file: int) -> bytes:
        """Return a file's entry in one of the heaps (`path`, `sha256`, `outline`)."""
        segment = int(np.searchsorted(self.file_base, file, "right")) - 1
        return self.segments[segment].heaps[name][file - int(self.file_base[segment])]

    def outline(self, file: int) -> StoredOutline:
        """Return a file's outline as it was indexed."""
        return decode_outline(self.heap("outline", file))

    # -- static vectors --

    def static(self) -> StaticParts | None:
        """Return the static vectors of all chunks and files without a copy; None unless all have some, of one kind."""
        asked = [number for number, segment in enumerate(self.segments) if segment.files]
        parts = [(number, part) for number in asked if (part := self.segments[number].static)]
        if not parts or len(parts) < len(asked) or len({part.identity for _, part in parts}) > 1:
            return None
        first = parts[0][1]
        return StaticParts(
            first.identity,
            first.summary.values.shape[1],
            [(part.chunk, int(self.chunk_base[number])) for number, part in parts],
            [(part.summary, int(self.file_base[number])) for number, part in parts],
        )

    # -- postings --

    def matches(self, field: str, hashes: npt.NDArray[np.uint64]) -> Matches:
        """Return the occurrences of the terms, in living documents only."""
        is_chunks = field in CHUNK_FIELDS
        docs, counts, sizes = _gather_postings(self.postings(field), hashes)
        terms = np.arange(len(hashes)).repeat(sizes)
        if not self.all_alive:
            alive = (self.chunk_alive if is_chunks else self.file_alive)[docs]
            docs, counts, terms = docs[alive], counts[alive], terms[alive]
            sizes = np.bincount(terms, minlength=len(hashes))
        return Matches(docs, counts, terms, sizes)

    def names(self, field: str) -> list[str]:
        """Return all names of a named field (`symbol`, `tag`, `stem`), sorted; some may be of dead files."""
        return sorted({name for segment in self.segments for name in segment.fields[field].names.texts()})

    def postings(self, field: str) -> list[tuple[Postings, int]]:
        """Return each segment's postings of a field with the number of its first document."""
        if field in CHUNK_FIELDS:
            base = self.chunk_base
        else:
            base = self.file_base
        return [(s.fields[field], int(b)) for s, b in zip(self.segments, base.tolist(), strict=False)]


def _gather_postings(
    parts: Sequence[tuple[Postings, int]], hashes: npt.NDArray[np.uint64]
) -> tuple[Ints, Floats, Ints]:
    """Return the documents and counts of the terms, by term, then document, and their number for each term."""
    runs: list[tuple[Postings, int, int, int]] = []
    sizes = np.zeros(len(hashes), np.intp)
    places = [postings.find(hashes).tolist() for postings, _ in parts]
    for term in range(len(hashes)):
        for (postings, base), found in zip(parts, places, strict=True):
            if (place := found[term]) >= 0:
                start, stop = postings.indptr[place : place + 2].tolist()
                runs.append((postings, start, stop, base))
                sizes[term] += stop - start
    docs, counts = np.empty(int(sizes.sum()), np.intp), np.empty(int(sizes.sum()), np.float32)
    at = 0
    for postings, start, stop, base in runs:
        end = at + stop - start
        np.add(postings.ids[start:stop], base, out=docs[at:end], dtype=np.intp)
        counts[at:end] = postings.counts[start:stop]
        at = end
    return docs, counts, sizes


def _join(parts: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    if not parts:
        return np.zeros(0, dtype)
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts)


class UnionSnapshot(Snapshot):
    """The snapshots of some repositories, by name, in this order, as one: all their files are ranked together.

    Document frequencies, mean lengths and the best value of each signal are those of all repositories, so a score means
    the same in each of them (docs/decisions/archive/0040). Only columns are copied; postings and vectors stay mapped.

    `paths` are those in each repository; `key` is unique.
    """

    def __init__(self, parts: Mapping[str, Snapshot]) -> None:
        snapshots = list(parts.values())
        super().__init__(
            [segment for snapshot in snapshots for segment in snapshot.segments],
            [gone for snapshot in snapshots for gone in _dead(snapshot)],
            [snapshot.importance for snapshot in snapshots],
            generation="+".join(snapshot.generation for snapshot in snapshots),
            epoch=sum(snapshot.epoch for snapshot in snapshots),
            numbers=range(sum(len(snapshot.segments) for snapshot in snapshots)),
            touched=[looks for snapshot in snapshots for looks in snapshot.touched],
        )
        self.parts = dict(parts)
        self._names = list(parts)
        self._starts = np.cumsum([0, *(snapshot.files for snapshot in snapshots)])

    def repository(self, file: int) -> str:
        """Return the name of the repository of a file."""
        return self._names[int(np.searchsorted(self._starts, file, "right")) - 1]

    @cached_property
    def by_path(self) -> dict[str, int]:
        """Living file numbers by key."""
        return {self.key(number): number for number in np.flatnonzero(self.file_alive).tolist()}


def _dead(snapshot: Snapshot) -> Iterator[Sequence[int]]:
    """Yield the dead file numbers of each segment."""
    for segment, base in zip(snapshot.segments, snapshot.file_base.tolist(), strict=False):
        yield np.flatnonzero(~snapshot.file_alive[base : base + segment.files]).tolist()
