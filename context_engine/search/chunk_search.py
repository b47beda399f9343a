"""PURE. Chunk files, searched: a set made ready once, then asked by words and, with a query's vector, by meaning.

Filters apply before anything is ranked. There are no files here to rank first, and nothing is known of a chunk but what
its indexer wrote: so it is BM25 over title and text, over title and path, and the cosine, each divided by its greatest
value, weighed and summed as in `search.fuse`.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from context_engine.index.chunk_files import ChunkRow, ChunkSet
from context_engine.index.postings import FieldBuilder, Lexicon
from context_engine.index.segment import Postings, term_hashes
from context_engine.model import Filter, Query
from context_engine.search import fuse
from context_engine.search.rankers import IDF_POWER, K1, B
from context_engine.search.vector_search import cosines, greatest
from context_engine.text.words import query_terms, words

WEIGHTS: Mapping[str, float] = {"text": 1.0, "title": 0.4, "meaning": 0.75}
"""Words 1 to meaning .75 is what held up for functions by their docstrings; a title weighs what path and names weigh in
`fuse` beside the words of a chunk."""
STATIC_WEIGHTS: Mapping[str, float] = {**WEIGHTS, "meaning": 0.5}
"""The same where vectors come from our table of words."""
SCORE_DIGITS = 6
"""As in `searcher`: rounded before they are compared, so that the order of sums cannot break a tie."""
NEAR_TAGS_MAX = 3

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunkHit:
    """A chunk and why it was found: `why` maps addends by name, and `score` is their sum."""

    row: ChunkRow
    score: float
    why: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ChunkRanking:
    """Hits best first.

    `matching` counts the chunks that passed the filter and answer at all, `passing` those that passed it.
    """

    hits: tuple[ChunkHit, ...]
    matching: int
    passing: int


class ChunkSearcher:
    """One set of chunks, ready to be searched. Thread-safe: nothing of it changes."""

    def __init__(self, chunks: ChunkSet, before: ChunkSearcher | None = None) -> None:
        """`before`: what it takes the place of; the words of a file that both hold are not counted again."""
        self.chunks = chunks
        rows = chunks.rows
        known = {id(part.rows): part for part in before._parts} if before else {}
        self._parts = [known.get(id(part)) or _CountedFile(part) for part in chunks.parts]
        self._fields = {name: _Bm25Field([part.fields[name] for part in self._parts]) for name in ("text", "title")}
        self._kinds = np.array([row.kind for row in rows], str)
        self._tagged = _group_by_tag(rows)

    def rank(
        self, query: Query, vector: Floats | None = None, *, weights: Mapping[str, float] = WEIGHTS
    ) -> ChunkRanking:
        """The best chunks for a query; of its filter kinds and tags are known here. `vector`: of the query, length 1.

        With a vector every chunk that has one answers; without, those that hold a word of the query.

        Raises: InvalidVectors when the vector is of another space.
        """
        allowed = self._allowed(query.filter)
        hashes = term_hashes(query_terms(query.text))
        signals = {name: field.scores(hashes) * allowed for name, field in self._fields.items()}
        answering = (signals["text"] > 0) | (signals["title"] > 0)
        if vector is not None:
            meant = allowed & self.chunks.embedded
            signals["meaning"] = np.maximum(cosines(self.chunks.vectors, vector), 0) * meant
            answering |= meant
        shares = fuse.addends(signals, np.ones(len(self.chunks.rows), np.float32), weights)
        scores = np.round(fuse.total(shares, len(self.chunks.rows)), SCORE_DIGITS)
        best = greatest(scores, query.limit, answering)
        least = query.min_score * float(scores[best[0]]) if len(best) else 0.0
        hits = tuple(self._hit(number, scores, shares) for number in best.tolist() if scores[number] >= least)
        return ChunkRanking(hits, int(np.count_nonzero(answering)), int(np.count_nonzero(allowed)))

    def similar_tags(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Known tags that look like those of `tags` that no chunk carries."""
        unknown = [tag for tag in tags if tag not in self._tagged]
        known = sorted(self._tagged)
        found = (difflib.get_close_matches(tag, known, NEAR_TAGS_MAX, 0.5) for tag in unknown)
        return tuple(dict.fromkeys(near for each in found for near in each))

    def _allowed(self, wanted: Filter) -> Mask:
        """The chunks that may be found."""
        mask = np.ones(len(self.chunks.rows), bool)
        if wanted.kinds:
            mask &= np.isin(self._kinds, wanted.kinds)
        for tag in wanted.tags:
            carries = np.zeros(len(mask), bool)
            carries[self._tagged.get(tag, [])] = True
            mask &= carries
        return mask

    def _hit(self, number: int, scores: Floats, shares: Mapping[str, Floats]) -> ChunkHit:
        why = {name: float(values[number]) for name, values in shares.items() if values[number]}
        return ChunkHit(self.chunks.rows[number], float(scores[number]), why)


class _CountedFile:
    """The chunks of one file with their words, counted."""

    def __init__(self, rows: tuple[ChunkRow, ...]) -> None:
        self.rows = rows
        self.fields = {
            "text": _count_words(f"{row.title}\n{row.text}" for row in rows),
            "title": _count_words(f"{row.title} {row.metadata.get('file_path', '')}" for row in rows),
        }


class _Bm25Field:
    """Okapi BM25 over one text of each chunk, of all files together."""

    def __init__(self, parts: Sequence[tuple[Postings, Ints]]) -> None:
        lengths = np.concatenate([np.zeros(0, np.int64), *(own for _, own in parts)])
        firsts = np.cumsum([0, *(len(own) for _, own in parts)]).tolist()
        self._parts = [(postings, first) for (postings, _), first in zip(parts, firsts, strict=False)]
        mean = max(float(lengths.mean()) if len(lengths) else 0.0, 1.0)
        self._norms = (K1 * (1 - B + B * lengths / mean)).astype(np.float32)

    def scores(self, hashes: npt.NDArray[np.uint64]) -> Floats:
        """The BM25 of each chunk."""
        scores = np.zeros(len(self._norms), np.float32)
        for places in zip(*(postings.find(hashes).tolist() for postings, _ in self._parts), strict=True):
            standing = [
                _find_occurrences(postings, place, first)
                for (postings, first), place in zip(self._parts, places, strict=True)
                if place >= 0
            ]
            if standing:
                chunks, counts = (np.concatenate(each) for each in zip(*standing, strict=True))
                impacts = counts * (K1 + 1) / (counts + self._norms[chunks])
                scores[chunks] += _idf(len(chunks), len(scores)) * impacts
        return scores


def _find_occurrences(postings: Postings, place: int, first: int) -> tuple[Ints, Floats]:
    """The chunks that a term stands in, and how often, where the first chunk of the postings has the number `first`."""
    own = slice(int(postings.indptr[place]), int(postings.indptr[place + 1]))
    return postings.ids[own].astype(np.int64) + first, postings.counts[own].astype(np.float32)


def _idf(frequency: int, size: int) -> np.float32:
    """As in `rankers`, for one term."""
    return np.float32(np.log1p((size - frequency + 0.5) / (frequency + 0.5)) ** IDF_POWER)


def _count_words(texts: Iterable[str]) -> tuple[Postings, Ints]:
    """Return where each term occurs, and how many terms each text has: counted as the index counts the words of files."""
    vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
    field = FieldBuilder()
    for text in texts:
        field.add(map(vocabulary.__getitem__, words(text)))
    return Lexicon(list(vocabulary)).postings(field)


def _group_by_tag(rows: Sequence[ChunkRow]) -> dict[str, list[int]]:
    """The chunks that carry each tag."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        for tag in row.tags:
            found[tag].append(number)
    return dict(found)
