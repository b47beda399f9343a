"""PURE. A segment as the rows of a database that searches it, and the rows of some files as a segment again.

A row of a file has everything that ranking needs of this file alone. A row of a term has the files with this term, and
how much each of them is worth for it. So a database finds candidates by the rows of terms and returns the rows of the
best files. `join_files` makes a segment of these, and the ranker orders them as it orders any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from context_engine.embedding import VectorRows
from context_engine.errors import StorageCorrupt
from context_engine.index.segment import (
    CHUNK_COLUMNS,
    CHUNK_FIELDS,
    FILE_COLUMNS,
    FILE_FIELDS,
    LENGTH_FIELDS,
    Heap,
    Postings,
    Segment,
    StaticVectors,
    term_hashes,
)
from context_engine.model import CHUNK_KINDS
from context_engine.team.candidate_store import StoredFile, StoredTerm

Hashes = npt.NDArray[np.uint64]
NAMED_FIELDS = ("stem", "tag")
"""Fields that are read by name and not only by hash."""
COUNTED_FIELDS = ("body", "path", "def", "doc", "symbol")
"""Fields whose document frequencies and files are stored with a term, in this order."""
LENGTH_TOTALS = ("body", "path", "def", "doc")
"""Fields whose terms are counted over all living documents, for their mean lengths."""
IMPACT_UNIT = 1_000
"""Impacts are stored in thousandths, as 16 bits."""
K1_FILE, B = 3.0, 0.75
"""Of the impact of a term on a file, as the ranker values whole files (search/rankers.py). It chooses candidates; the
ranker computes its own values from the counts."""


class _FieldPart(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The postings of one file in one field: `ids` count its chunks from 0, `sizes` are the documents of each term."""

    hashes: bytes
    sizes: bytes
    ids: bytes
    counts: bytes
    names: list[bytes] = []


class _FilePart(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One file: the bytes of its entries in each column, heap and field, in the order of the segment's constants."""

    path: bytes
    language: str
    file: list[bytes]
    chunk: list[bytes]
    sha256: bytes
    outline: bytes
    lengths: list[bytes]
    fields: list[_FieldPart]
    static: list[bytes]
    identity: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_FilePart).decode
_FILE_COLUMNS = tuple(name for name in FILE_COLUMNS if name != "language")
_ID, _SIZE, _COUNT, _HASH, _LENGTH = "<u4", "<u4", "u1", "<u8", "<u2"


# -- to rows -------------------------------------------------------------------------------------------------------


def split_files(segment: Segment) -> Iterator[StoredFile]:
    """Yield the row of each file, dead ones included, in order, without the texts of its chunks."""
    fields = {name: _FieldSplit.of(segment, name) for name in CHUNK_FIELDS + FILE_FIELDS}
    languages, starts = segment.file["language"].tolist(), segment.chunk_starts.tolist()
    cards = segment.static.summary.floats() if segment.static else np.zeros((segment.files, 0), np.float32)
    for number, path in enumerate(segment.paths):
        start, stop = starts[number], starts[number + 1]
        language = segment.languages[languages[number]]
        part = _FilePart(
            path.encode(),
            language,
            [segment.file[name][number : number + 1].tobytes() for name in _FILE_COLUMNS],
            [segment.chunk[name][start:stop].tobytes() for name in CHUNK_COLUMNS],
            segment.heaps["sha256"][number],
            segment.heaps["outline"][number],
            [segment.lengths[name][number : number + 1].tobytes() for name in LENGTH_FIELDS],
            [fields[name].part(number) for name in fields],
            _static_bytes(segment, number, start, stop),
            segment.static.identity if segment.static else "",
        )
        kinds = {CHUNK_KINDS[code] for code in set(segment.chunk["kind"][start:stop].tolist())}
        tags = {language.lower(), *kinds, *path.lower().split("/")[:-1]}  # every tag that a chunk of it can have
        tags |= {name.decode() for name in fields["tag"].part(number).names}
        tags |= {"code"} if "definitions" in kinds else set()
        yield StoredFile(number, path, language, sorted(tags), _encode(part), cards[number].tolist(), None)


def _static_bytes(segment: Segment, number: int, start: int, stop: int) -> list[bytes]:
    if segment.static is None:
        return []
    chunk, card = segment.static.chunk, segment.static.summary
    parts = (chunk.values[start:stop], chunk.scales[start:stop], card.values[number], card.scales[number : number + 1])
    return [part.tobytes() for part in parts]


@dataclass(frozen=True, slots=True)
class _FieldSplit:
    """The postings of a field, ordered by file; `bounds[f]` is where those of file f begin."""

    postings: Postings
    places: npt.NDArray[np.intp]
    ids: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint8]
    bounds: list[int]

    @classmethod
    def of(cls, segment: Segment, name: str) -> _FieldSplit:
        postings = segment.fields[name]
        places, ids = postings.pairs()
        if name in CHUNK_FIELDS:
            files = segment.chunk_files()[ids]
            local = ids - segment.chunk_starts[files]
        else:
            files, local = ids.astype(np.intp), np.zeros(len(ids), np.uint32)
        order = np.argsort(files, kind="stable")
        bounds = np.searchsorted(files[order], np.arange(segment.files + 1)).tolist()
        return cls(postings, places[order], local[order].astype(_ID), postings.counts[order], bounds)

    def part(self, file: int) -> _FieldPart:
        start, stop = self.bounds[file], self.bounds[file + 1]
        places = self.places[start:stop]
        firsts = np.flatnonzero(np.diff(places, prepend=-1))
        terms = places[firsts]
        names = [self.postings.names[place] for place in terms.tolist()] if len(self.postings.names) else []
        return _FieldPart(
            self.postings.hashes[terms].astype(_HASH).tobytes(),
            np.diff(firsts, append=len(places)).astype(_SIZE).tobytes(),
            self.ids[start:stop].tobytes(),
            self.counts[start:stop].tobytes(),
            names,
        )


def split_terms(segment: Segment) -> list[StoredTerm]:
    """Return the row of each term of the `COUNTED_FIELDS`, ordered by hash."""
    rows: dict[int, StoredTerm] = {}
    owners = segment.chunk_files()
    for place, name in enumerate(COUNTED_FIELDS):
        postings = segment.fields[name]
        values = _impacts(segment) if name == "body" else []
        signed = postings.hashes.view(np.int64).tolist()
        ids = owners[postings.ids] if name in CHUNK_FIELDS else postings.ids
        for number, (start, stop) in enumerate(pairwise(postings.indptr.tolist())):
            hashed = signed[number]
            row = rows.get(hashed)
            if row is None:
                row = rows[hashed] = StoredTerm.of(hashed)
            row.frequency[place] = stop - start
            if name == "body":
                row.files[:], row.impacts[:] = values[number]
                row.frequency[-1] = len(row.files)
            else:
                row.listed[place - 1][:] = sorted(set(ids[start:stop].tolist()))
    return [rows[hashed] for hashed in sorted(rows)]


def _impacts(segment: Segment) -> list[tuple[list[int], list[int]]]:
    """Return the files of each term of the bodies, and its BM25 in them without the rarity of the term."""
    postings, owners = segment.fields["body"], segment.chunk_files()
    terms, ids = postings.pairs()
    lengths = np.bincount(owners, segment.chunk["length"], segment.files)
    norms = K1_FILE * (1 - B + B * lengths / max(float(lengths.mean()) if len(lengths) else 1.0, 1e-9))
    keys = terms * max(segment.files, 1) + owners[ids]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.add.reduceat(postings.counts, starts, dtype=np.float64) if len(keys) else np.zeros(0)
    numbers, files = np.divmod(keys[starts], max(segment.files, 1))
    impacts = np.rint(IMPACT_UNIT * counts * (K1_FILE + 1) / (counts + norms[files])).astype(np.int64).tolist()
    bounds = np.searchsorted(numbers, np.arange(len(postings.hashes) + 1)).tolist()
    listed = files.tolist()
    return [(listed[start:stop], impacts[start:stop]) for start, stop in pairwise(bounds)]


# -- from rows -----------------------------------------------------------------------------------------------------


def join_files(payloads: Sequence[bytes], hashes: Hashes) -> Segment:
    """Return a segment of these files, in order, with the postings of some terms; stems and tags are complete.

    Raises: StorageCorrupt when a payload is not what `split_files` made.
    """
    try:
        return _join([_decode(payload) for payload in payloads], np.unique(hashes))
    except (msgspec.MsgspecError, ValueError, IndexError) as error:
        raise damaged_row(error) from error


def damaged_row(error: Exception) -> StorageCorrupt:
    """Return the error for a row that is not what was stored."""
    return StorageCorrupt(
        f"a row of the shared store cannot be read: {error}",
        suggestion="Run `ctx index --force` on a machine that shares.",
    )


def _join(parts: Sequence[_FilePart], hashes: Hashes) -> Segment:
    languages = tuple(dict.fromkeys(part.language for part in parts))
    codes = {name: code for code, name in enumerate(languages)}
    file = {
        name: _column([part.file[at] for part in parts], FILE_COLUMNS[name]) for at, name in enumerate(_FILE_COLUMNS)
    }
    file["language"] = np.array([codes[part.language] for part in parts], np.uint8)
    chunk = {
        name: _column([part.chunk[at] for part in parts], kind) for at, (name, kind) in enumerate(CHUNK_COLUMNS.items())
    }
    width = np.dtype(CHUNK_COLUMNS["kind"]).itemsize
    at_kind = list(CHUNK_COLUMNS).index("kind")
    sizes = [len(part.chunk[at_kind]) // width for part in parts]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
    fields = {}
    for at, name in enumerate(CHUNK_FIELDS + FILE_FIELDS):
        bases = starts[:-1] if name in CHUNK_FIELDS else np.arange(len(parts), dtype=np.uint32)
        documents = int(starts[-1]) if name in CHUNK_FIELDS else len(parts)
        fields[name] = _join_field([part.fields[at] for part in parts], bases, documents, hashes, name)
    return Segment(
        languages,
        starts,
        {name: file[name] for name in FILE_COLUMNS},
        chunk,
        {name: Heap.of([getattr(part, name) for part in parts]) for name in ("path", "sha256", "outline")},
        fields,
        {name: _column([part.lengths[at] for part in parts], _LENGTH) for at, name in enumerate(LENGTH_FIELDS)},
        _join_static(parts),
    )


def _column(parts: Sequence[bytes], dtype: npt.DTypeLike) -> npt.NDArray:
    return np.frombuffer(b"".join(parts), dtype)


def _join_field(
    parts: Sequence[_FieldPart], bases: npt.NDArray[np.uint32], documents: int, hashes: Hashes, name: str
) -> Postings:
    """Return the postings of one field; those of `hashes` alone unless the field is read by name."""
    of_terms = _column([part.hashes for part in parts], _HASH)
    sizes = _column([part.sizes for part in parts], _SIZE)
    ids = _column([part.ids for part in parts], _ID)
    counts = _column([part.counts for part in parts], _COUNT)
    terms_until = np.cumsum([len(part.hashes) // of_terms.itemsize for part in parts])
    if name in NAMED_FIELDS:
        spelled = [word.decode() for part in parts for word in part.names]
        names = sorted(set(spelled))
        place = {word: number for number, word in enumerate(names)}
        hashes, kept = term_hashes(names), np.arange(len(of_terms))
        terms = np.array([place[word] for word in spelled], np.int64)
    else:
        names = None
        kept, terms = _find_terms(of_terms, hashes)
    lengths = sizes[kept].astype(np.intp)
    first = np.cumsum(sizes, dtype=np.intp)[kept] - lengths
    at = np.arange(int(lengths.sum())) + np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    files = np.searchsorted(terms_until, kept, "right")
    docs = ids[at] + bases[files].astype(np.int64).repeat(lengths)
    return Postings.of_pairs(hashes, terms.repeat(lengths), docs, documents, weights=counts[at], names=names)


def _find_terms(of_terms: Hashes, hashes: Hashes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the places of the terms that are among the sorted `hashes`, and the number of each there."""
    if not len(hashes):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    # by the lowest 16 bits first: a search for each of 75,000 terms takes 10 times as long
    is_likely = np.zeros(1 << 16, bool)
    is_likely[hashes & 0xFFFF] = True
    likely = np.flatnonzero(is_likely[of_terms & 0xFFFF])
    found = np.minimum(np.searchsorted(hashes, of_terms[likely]), len(hashes) - 1)
    is_same = hashes[found] == of_terms[likely]
    return likely[is_same], found[is_same]


def _join_static(parts: Sequence[_FilePart]) -> StaticVectors | None:
    """Return the vectors of all files; None unless each has some, of one kind."""
    identities = {part.identity for part in parts}
    if len(identities) != 1 or "" in identities:
        return None
    width = len(parts[0].static[2])
    values, scales, cards, card_scales = (b"".join(part.static[at] for part in parts) for at in range(4))
    return StaticVectors(
        identities.pop(),
        VectorRows(np.frombuffer(values, np.int8).reshape(-1, width), np.frombuffer(scales, np.float32)),
        VectorRows(np.frombuffer(cards, np.int8).reshape(-1, width), np.frombuffer(card_scales, np.float32)),
    )
