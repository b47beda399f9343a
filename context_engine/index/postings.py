"""Words in, a segment out: collects the terms of files as they come and turns them into postings at once.

One `SegmentBuilder` is one batch of files. All counting is left to numpy at the end. While files come in, a word costs
one dictionary look-up, and splitting and stemming happen once for each distinct word of the batch. With a
`StaticEncoder` each chunk and each file's summary gets a vector as well.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from context_engine.embedding import VectorRows, hash_texts
from context_engine.index.chunking import ChunkSpan, kind_code
from context_engine.index.embedding_text import ChunkEmbeddingText
from context_engine.index.encoder import CHUNK_HEADS, StaticEncoder
from context_engine.index.segment import (
    CHUNK_COLUMNS,
    FILE_COLUMNS,
    Heap,
    Postings,
    Segment,
    StaticVectors,
    term_hashes,
)
from context_engine.text import compound_term, expand_words, split_identifier, split_words

LESSER_WEIGHT = 3
"""Names of at most this weight (variables, fields, keys) can be searched, but do not show what a file is about."""
ENCODED_AT_ONCE = 1_024
"""Texts that wait for their vectors: some 2 MB; those of a whole round would take as much memory as its files."""


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """One file, parsed and chunked: everything a segment stores of it.

    `names`: (name, weight in tenths, line) of each definition; `headings`: words of section titles; `chunks` with
    `spans`, their byte offsets in the UTF-8 text; `tags`: tags of the whole file; `chunk_tags`: tags of single chunks
    by their index; `chunk_texts`: what is embedded of each chunk, in order.
    """

    path: str
    language: str
    role: int
    size: int
    mtime_ns: int
    sha256: bytes
    outline: bytes
    text: str
    chunks: Sequence[ChunkSpan]
    spans: Sequence[tuple[int, int]]
    names: Sequence[tuple[str, int, int]]
    headings: Sequence[str]
    doc: str
    tags: Sequence[str]
    chunk_tags: dict[int, Sequence[str]]
    chunk_texts: Sequence[ChunkEmbeddingText]
    summary: str


class FieldBuilder:
    """(word, document) pairs of one field, in the order they came."""

    __slots__ = ("counts", "words")

    def __init__(self) -> None:
        self.words = array("q")
        self.counts = array("q")

    def add(self, word_ids: Iterable[int]) -> None:
        """Add the words of the next document."""
        before = len(self.words)
        self.words.extend(word_ids)
        self.counts.append(len(self.words) - before)


class _RowsBuilder:
    """The rows of texts in the order they came, made some at a time."""

    __slots__ = ("_done", "_encoder", "_waiting")

    def __init__(self, encoder: StaticEncoder) -> None:
        self._encoder = encoder
        self._waiting: list[str] = []
        self._done: list[VectorRows] = []

    def add(self, texts: Iterable[str]) -> None:
        """Add further texts."""
        self._waiting += texts
        if len(self._waiting) >= ENCODED_AT_ONCE:
            self._encode()

    def rows(self) -> VectorRows:
        """Return a row for each text so far."""
        self._encode()
        done = self._done
        return VectorRows(
            np.concatenate([part.values for part in done]), np.concatenate([part.scales for part in done])
        )

    def _encode(self) -> None:
        self._done.append(self._encoder.rows(self._waiting))
        self._waiting = []


class _StaticBuilder:
    """The static vectors of files as they come."""

    __slots__ = ("_cards", "_chunks", "_encoder")

    def __init__(self, encoder: StaticEncoder) -> None:
        self._encoder = encoder
        self._chunks, self._cards = _RowsBuilder(encoder), _RowsBuilder(encoder)

    def add(self, file: IndexedFile) -> None:
        """Add the next file."""
        self._chunks.add(capsule.text(CHUNK_HEADS) for capsule in file.chunk_texts)
        self._cards.add([file.summary])

    def vectors(self) -> StaticVectors:
        """Return the vectors of all files so far."""
        return StaticVectors(self._encoder.identity, self._chunks.rows(), self._cards.rows())


class SegmentBuilder:
    """Collects `IndexedFile`s; `build` makes the segment, with static vectors if there is an `encoder`."""

    def __init__(self, encoder: StaticEncoder | None = None) -> None:
        self._static = _StaticBuilder(encoder) if encoder else None
        self._chunk_keys, self._card_keys = [hash_texts([])], [hash_texts([])]
        self._vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
        self._languages: defaultdict[str, int] = defaultdict(count().__next__)
        self._body, self._path, self._def, self._doc, self._stem = (FieldBuilder() for _ in range(5))
        self._symbols: tuple[list[str], list[int], list[int]] = ([], [], [])  # name, chunk, weight
        self._tags: tuple[list[str], list[int]] = ([], [])  # tag, chunk
        self._file: dict[str, list[int]] = {name: [] for name in FILE_COLUMNS if name != "card_key"}
        self._chunk: dict[str, list[int]] = {name: [] for name in CHUNK_COLUMNS if name not in ("length", "key")}
        self._heaps: dict[str, list[bytes]] = {"path": [], "sha256": [], "outline": []}
        self._chunk_starts = [0]

    @property
    def files(self) -> int:
        """Files added so far."""
        return len(self._chunk_starts) - 1

    @property
    def chunks(self) -> int:
        """Chunks so far."""
        return self._chunk_starts[-1]

    def add(self, file: IndexedFile) -> None:
        """Add one file."""
        word_id = self._vocabulary.__getitem__
        base = self._chunk_starts[-1]
        name = file.path.rpartition("/")[2]
        stem = name.split(".", 1)[0] or name
        self._path.add(map(word_id, split_words(file.path)))
        self._stem.add(map(word_id, split_words(stem)))
        self._def.add(
            [word_id(name) for name, weight, _ in file.names if weight > LESSER_WEIGHT]
            + [word_id(word) for word in file.headings]
        )
        self._doc.add(map(word_id, split_words(file.doc)))
        text = file.text
        for piece in file.chunks:
            self._body.add(map(word_id, split_words(text[piece.start : piece.stop])))
        self._add_columns(file)
        self._add_symbols(file, base)
        self._add_texts(file)
        for tag in file.tags:
            self._tags[0].extend([tag] * len(file.chunks))
            self._tags[1].extend(range(base, base + len(file.chunks)))
        for index, tags in file.chunk_tags.items():
            self._tags[0].extend(tags)
            self._tags[1].extend([base + index] * len(tags))
        self._chunk_starts.append(base + len(file.chunks))

    def _add_columns(self, file: IndexedFile) -> None:
        for name, value in (
            ("size", file.size),
            ("mtime_ns", file.mtime_ns),
            ("language", self._languages[file.language]),
            ("role", file.role),
        ):
            self._file[name].append(value)
        self._heaps["path"].append(file.path.encode())
        self._heaps["sha256"].append(file.sha256)
        self._heaps["outline"].append(file.outline)
        chunk = self._chunk
        chunk["first"] += [piece.first for piece in file.chunks]
        chunk["last"] += [piece.last for piece in file.chunks]
        chunk["start"] += [start for start, _ in file.spans]
        chunk["stop"] += [stop for _, stop in file.spans]
        chunk["kind"] += [kind_code(piece.kind) for piece in file.chunks]
        chunk["symbol"] += [piece.symbol for piece in file.chunks]

    def _add_symbols(self, file: IndexedFile, base: int) -> None:
        """Add each name at the chunk with its definition line."""
        names, chunks, weights = self._symbols
        pieces = file.chunks
        if not pieces:
            return
        at = 0
        for name, weight, line in file.names:
            if pieces[at].first > line:
                at = 0
            while at + 1 < len(pieces) and pieces[at].last < line:
                at += 1
            names.append(name)
            chunks.append(base + at)
            weights.append(weight)

    def _add_texts(self, file: IndexedFile) -> None:
        """Add the keys of the texts for a slow model, and the vectors of the fast one."""
        self._chunk_keys.append(hash_texts([capsule.text() for capsule in file.chunk_texts]))
        self._card_keys.append(hash_texts([file.summary]))
        if self._static is not None:
            self._static.add(file)

    def build(self) -> Segment:
        """Return the segment of all added files."""
        lexicon = Lexicon(list(self._vocabulary))
        body, lengths = lexicon.postings(self._body)
        fields = {"body": body}
        field_lengths = {}
        for name, pairs in (("path", self._path), ("def", self._def), ("doc", self._doc)):
            fields[name], field_lengths[name] = lexicon.postings(pairs)
        fields["stem"], field_lengths["stem"] = self._stems()
        names, chunks, weights = self._symbols
        fields["symbol"] = self._build_named([compound_term(name) for name in names], chunks, weights)
        fields["tag"] = self._build_named(*self._tags, [1] * len(self._tags[0]))
        chunk = {name: np.array(self._chunk[name], CHUNK_COLUMNS[name]) for name in self._chunk}
        chunk["length"], chunk["key"] = lengths.astype(np.uint32), np.concatenate(self._chunk_keys)
        file = {name: np.array(values, FILE_COLUMNS[name]) for name, values in self._file.items()}
        file["card_key"] = np.concatenate(self._card_keys)
        return Segment(
            tuple(self._languages),
            np.array(self._chunk_starts, np.uint32),
            file,
            chunk,
            {name: Heap.of(strings) for name, strings in self._heaps.items()},
            fields,
            {name: np.minimum(values, 65_535).astype(np.uint16) for name, values in field_lengths.items()},
            self._static.vectors() if self._static else None,
        )

    def _stems(self) -> tuple[Postings, npt.NDArray[np.int64]]:
        """Return postings of file-name words, unstemmed and with their names: they are matched by prefix."""
        known = list(self._vocabulary)
        parts: defaultdict[str, int] = defaultdict(count().__next__)
        pairs: list[int] = []
        files: list[int] = []
        lengths: list[int] = []
        at = 0
        for file, number in enumerate(self._stem.counts):
            own = {part for word in self._stem.words[at : at + number] for part in split_identifier(known[word])}
            at += number
            pairs += [parts[part] for part in sorted(own)]
            files += [file] * len(own)
            lengths.append(len(own))
        names = list(parts)
        postings = Postings.of_pairs(
            term_hashes(names), np.array(pairs, np.int64), np.array(files, np.int64), self.files, names=names
        )
        return postings, np.array(lengths, np.int64)

    def _build_named(self, names: Sequence[str], chunks: Sequence[int], weights: Sequence[int]) -> Postings:
        """Return postings whose terms are stored by name."""
        spelled: defaultdict[str, int] = defaultdict(count().__next__)
        numbers = np.array([spelled[name] for name in names], np.int64)
        unique = list(spelled)
        return Postings.of_pairs(
            term_hashes(unique),
            numbers,
            np.array(chunks, np.int64),
            self.chunks,
            weights=np.array(weights, np.uint8),
            names=unique,
        )


class Lexicon:
    """The terms of each distinct word of a batch, as arrays."""

    def __init__(self, vocabulary: list[str]) -> None:
        term_id: defaultdict[str, int] = defaultdict(count().__next__)
        groups = expand_words(vocabulary)
        self._sizes = np.fromiter(map(len, groups), np.int64, len(groups))
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])
        self._terms = np.fromiter((term_id[term] for group in groups for term in group), np.int64)
        self._hashes = term_hashes(term_id)

    def postings(self, field: FieldBuilder) -> tuple[Postings, npt.NDArray[np.int64]]:
        """Return the field's postings and the number of terms in each document."""
        word_ids = np.frombuffer(field.words, np.int64)
        counts = np.frombuffer(field.counts, np.int64)
        docs = np.repeat(np.arange(len(counts)), counts)
        sizes = self._sizes[word_ids]
        at = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) - np.repeat(at - self._starts[word_ids], sizes)
        terms = self._terms[places]
        term_docs = np.repeat(docs, sizes)
        lengths = np.bincount(term_docs, minlength=len(counts))
        used, numbers = np.unique(terms, return_inverse=True)
        return Postings.of_pairs(self._hashes[used], numbers, term_docs, len(counts)), lengths
