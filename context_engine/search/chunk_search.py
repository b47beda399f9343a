"""PURE. Search chunk files: a set is prepared once, then searched by words and, with a query vector, by meaning.

Only what the indexer wrote is known of a chunk, and there are no files to rank first: so the score is BM25 over title
and text, over title and path, and the cosine, summed as in `search.fuse`. That is why it is not an ordinary segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from context_engine.index import FieldBuilder, Lexicon, WordNumbers, WordParts
from context_engine.model import Filter, Query
from context_engine.search import fuse
from context_engine.search.chunk_files import ChunkRow, ChunkSet
from context_engine.search.filters import find_similar
from context_engine.search.question import Question
from context_engine.search.rankers import K1, B, Floats, Mask, compute_idf
from context_engine.search.semantic_scores import compute_cosines, find_greatest
from context_engine.text import split_words

CHUNK_WEIGHTS: Mapping[str, float] = {"text": 1.0, "title": 0.4, "meaning": 0.75}
"""Words 1 to meaning 0.75 is what worked for functions by their docstrings; a title has the weight of path and names in
`fuse`, next to the words of a chunk.
"""
STATIC_WEIGHTS: Mapping[str, float] = {**CHUNK_WEIGHTS, "meaning": 0.5}
"""The same where vectors come from our table of words."""


@dataclass(frozen=True, slots=True)
class ChunkHit:
    """A chunk and why it was found: `why` maps score components by name, and `score` is their sum."""

    row: ChunkRow
    score: float
    why: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ChunkRanking:
    """Hits, best first.

    `passing` counts the chunks that passed the filter, `matching` those of them that match the query.
    """

    hits: tuple[ChunkHit, ...]
    matching: int
    passing: int


class ChunkSearcher:
    """One set of chunks, prepared for search. Thread-safe: it never changes."""

    def __init__(self, chunks: ChunkSet) -> None:
        self.chunks = chunks
        rows = chunks.rows
        self._text = _Bm25Field(f"{row.title}\n{row.text}" for row in rows)
        self._title = _Bm25Field(f"{row.title} {row.metadata.get('file_path', '')}" for row in rows)
        self._kinds = np.array([row.kind for row in rows], str)
        self._tagged: defaultdict[str, list[int]] = defaultdict(list)
        for number, row in enumerate(rows):
            for tag in row.tags:
                self._tagged[tag].append(number)

    def rank(
        self, query: Query, vector: Floats | None = None, *, weights: Mapping[str, float] = CHUNK_WEIGHTS
    ) -> ChunkRanking:
        """Return the best chunks for a query; of its filter kinds and tags are used. `vector`: of the query, length 1.

        With a vector every chunk that has one matches; without, those with a word of the query.

        Raises: InvalidVectors when the vector is of another model.
        """
        size, allowed = len(self.chunks.rows), self._mask_allowed(query.filter)
        hashes = Question.of(query.text).hashes
        signals = {"text": self._text.scores(hashes) * allowed, "title": self._title.scores(hashes) * allowed}
        matching = (signals["text"] > 0) | (signals["title"] > 0)
        if vector is not None:
            meant = allowed & self.chunks.embedded
            signals["meaning"] = np.maximum(compute_cosines(self.chunks.vectors, vector), 0) * meant
            matching |= meant
        shares = fuse.compute_shares(signals, np.ones(size, np.float32), weights)
        scores = np.round(fuse.sum_shares(shares, np.zeros(size, np.float32)), fuse.SCORE_DIGITS)
        best = find_greatest(scores, query.limit, matching).tolist()
        least = query.min_score * float(scores[best[0]]) if best else 0.0
        hits = []
        for number in best:
            if scores[number] >= least:
                why = {name: float(values[number]) for name, values in shares.items() if values[number]}
                hits.append(ChunkHit(self.chunks.rows[number], float(scores[number]), why))
        return ChunkRanking(tuple(hits), int(np.count_nonzero(matching)), int(np.count_nonzero(allowed)))

    def similar_tags(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return known tags that resemble those of `tags` that no chunk has."""
        return find_similar(tags, sorted(self._tagged))

    def _mask_allowed(self, wanted: Filter) -> Mask:
        numbers = np.arange(len(self.chunks.rows))
        mask = np.ones(len(numbers), bool)
        if wanted.kinds:
            mask &= np.isin(self._kinds, wanted.kinds)
        for tag in wanted.tags:
            mask &= np.isin(numbers, self._tagged.get(tag, []))
        return mask


class _Bm25Field:
    """Okapi BM25 over one text of each chunk."""

    def __init__(self, texts: Iterable[str]) -> None:
        vocabulary, field = WordNumbers(), FieldBuilder()
        for text in texts:
            field.add(vocabulary.of(split_words(text)))
        self._postings, lengths = Lexicon(WordParts(list(vocabulary))).postings(field)
        mean = max(float(lengths.mean()) if len(lengths) else 0.0, 1.0)
        self._norms = (K1 * (1 - B + B * lengths / mean)).astype(np.float32)

    def scores(self, hashes: npt.NDArray[np.uint64]) -> Floats:
        """Return the BM25 of each chunk."""
        postings, scores = self._postings, np.zeros(len(self._norms), np.float32)
        for place in postings.find(hashes).tolist():
            if place >= 0:
                own = slice(int(postings.indptr[place]), int(postings.indptr[place + 1]))
                chunks, counts = postings.ids[own].astype(np.int64), postings.counts[own].astype(np.float32)
                idf = compute_idf(np.array([len(chunks)]), len(scores))
                scores[chunks] += idf * (counts * (K1 + 1) / (counts + self._norms[chunks]))
        return scores
