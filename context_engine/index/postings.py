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

from context_engine.embedding import RaggedArray, hash_texts
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
from context_engine.text import WORD_CHARS_MAX, compound_term, cut_words, split_identifier, split_words, stem_all

LESSER_WEIGHT = 3
"""Names of at most this weight (variables, fields, keys) can be searched, but do not show what a file is about."""


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

    __slots__ = ("_counts", "_words")

    def __init__(self) -> None:
        self._words = array("i")
        self._counts = array("q")

    def add(self, word_ids: array[int]) -> None:
        """Add the words of the next document."""
        self._words.extend(word_ids)
        self._counts.append(len(word_ids))

    def documents(self) -> RaggedArray:
        """Return the words of each document."""
        return RaggedArray(np.frombuffer(self._words, np.int32), np.frombuffer(self._counts, np.int64))


class WordNumbers(defaultdict[str, int]):
    """The number of each distinct word of a batch, given when it first occurs."""

    def __init__(self) -> None:
        super().__init__(count().__next__)

    def of(self, words: Iterable[str]) -> array[int]:
        """Return the numbers of words in order."""
        return array("i", map(self.__getitem__, words))


class _StaticBuilder:
    """The words of what is embedded of files as they come."""

    __slots__ = ("_chunks", "_encoder", "_summaries")

    def __init__(self, encoder: StaticEncoder) -> None:
        self._encoder = encoder
        self._chunks, self._summaries = FieldBuilder(), FieldBuilder()

    def add_chunk(self, head: array[int], body: array[int]) -> None:
        """Add the next chunk."""
        self._chunks.add(head * CHUNK_HEADS + body)

    def add_summary(self, words: array[int]) -> None:
        """Add the next file."""
        self._summaries.add(words)

    def vectors(self, words: WordParts) -> StaticVectors:
        """Return the vectors of all files so far. `words`: the words that were added."""
        whole = [
            number for number, word in enumerate(words.spelled) if len(word) > WORD_CHARS_MAX or not word.isascii()
        ]
        parts = [*words.parts, *(words.spelled[number] for number in whole)]
        numbers = words.numbers.replace(np.array(whole, np.intp), np.arange(len(words.parts), len(parts)))
        chunks, summaries = (
            self._encoder.word_rows(parts, numbers, texts.documents()) for texts in (self._chunks, self._summaries)
        )
        return StaticVectors(self._encoder.identity, chunks, summaries)


class WordParts:
    """The parts of each distinct word of a batch, with each distinct part once."""

    def __init__(self, spelled: Sequence[str]) -> None:
        """`compounds`: each word as one term; `numbers`: those of its `parts`."""
        parts, self.compounds = cut_words(spelled)
        self.parts = [part for part in dict.fromkeys(parts) if part != "\n"]
        part_number = dict(zip(self.parts, count(), strict=False)) | {"\n": -1}
        found = np.fromiter(map(part_number.__getitem__, parts), np.int64, len(parts))
        is_break = found < 0
        lengths = np.bincount(np.cumsum(is_break)[~is_break], minlength=len(spelled))
        self.spelled = spelled
        self.numbers = RaggedArray(found[~is_break], lengths)


class SegmentBuilder:
    """Collects `IndexedFile`s; `build` makes the segment, with static vectors if there is an `encoder`."""

    def __init__(self, encoder: StaticEncoder | None = None) -> None:
        self._static = _StaticBuilder(encoder) if encoder else None
        self._chunk_keys = [hash_texts([])]
        self._vocabulary = WordNumbers()
        self._languages: defaultdict[str, int] = defaultdict(count().__next__)
        self._body, self._path, self._def, self._doc, self._stem = (FieldBuilder() for _ in range(5))
        self._symbols: tuple[list[str], list[int], list[int]] = ([], [], [])  # name, chunk, weight
        self._tags: tuple[list[str], list[int]] = ([], [])  # tag, chunk
        self._file: dict[str, list[int]] = {name: [] for name in FILE_COLUMNS}
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
        numbers = self._vocabulary.of
        base = self._chunk_starts[-1]
        name = file.path.rpartition("/")[2]
        stem = name.split(".", 1)[0] or name
        self._path.add(numbers(split_words(file.path)))
        self._stem.add(numbers(split_words(stem)))
        names = [name for name, weight, _ in file.names if weight > LESSER_WEIGHT]
        self._def.add(numbers([*names, *file.headings]))
        self._doc.add(numbers(split_words(file.doc)))
        text = file.text
        for piece, embedded in zip(file.chunks, file.chunk_texts, strict=True):
            body = numbers(split_words(text[piece.start : piece.stop]))
            self._body.add(body)
            if self._static is not None:
                self._static.add_chunk(numbers(split_words(embedded.head)), body)
        if self._static is not None:
            self._static.add_summary(numbers(split_words(file.summary)))
        self._add_columns(file)
        self._add_symbols(file, base)
        self._chunk_keys.append(hash_texts([chunk_text.text() for chunk_text in file.chunk_texts]))
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

    def build(self) -> Segment:
        """Return the segment of all added files."""
        words = WordParts(list(self._vocabulary))
        lexicon = Lexicon(words)
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
        return Segment(
            tuple(self._languages),
            np.array(self._chunk_starts, np.uint32),
            file,
            chunk,
            {name: Heap.of(strings) for name, strings in self._heaps.items()},
            fields,
            {name: np.minimum(values, 65_535).astype(np.uint16) for name, values in field_lengths.items()},
            self._static.vectors(words) if self._static else None,
        )

    def _stems(self) -> tuple[Postings, npt.NDArray[np.int64]]:
        """Return postings of file-name words, unstemmed and with their names: they are matched by prefix."""
        known = list(self._vocabulary)
        parts: defaultdict[str, int] = defaultdict(count().__next__)
        pairs: list[int] = []
        files: list[int] = []
        lengths: list[int] = []
        at = 0
        stems = self._stem.documents()
        words = stems.values.tolist()
        for file, number in enumerate(stems.lengths.tolist()):
            own = {part for word in words[at : at + number] for part in split_identifier(known[word])}
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

    def __init__(self, words: WordParts) -> None:
        term_id: defaultdict[str, int] = defaultdict(count().__next__)
        stems = stem_all(words.parts)
        of_parts = np.fromiter(map(term_id.__getitem__, stems), np.int32, len(stems))
        parts = words.numbers
        several = np.flatnonzero(parts.lengths > 1)
        wholes = [term_id[words.compounds[number]] for number in several.tolist()]
        terms = np.insert(of_parts[parts.values], np.cumsum(parts.lengths)[several], wholes)
        self._terms = RaggedArray(terms, (parts.lengths + (parts.lengths > 1)).astype(np.int32))
        self._hashes = term_hashes(term_id)

    def postings(self, field: FieldBuilder) -> tuple[Postings, npt.NDArray[np.int64]]:
        """Return the field's postings and the number of terms in each document."""
        terms = field.documents().expand(self._terms)
        documents = np.repeat(np.arange(len(terms), dtype=np.int32), terms.lengths)
        return Postings.of_pairs(self._hashes, terms.values, documents, len(terms)), terms.lengths
