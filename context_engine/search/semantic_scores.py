"""Semantic signals: the cosines of the vectors of chunks and files with the vector of a question.

Static vectors are stored in the snapshot, one a chunk and one a file (its card), and are compared with every question.
Vectors of a provider come from `embedding_service`, one a chunk. Either way a file has signals of its best chunk and of
the sum of its three best. Stretching the cosines of a question over the files, from the least to the
greatest, was tried and changes nothing (docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from context_engine.embedding import VectorRows
from context_engine.search import vector_search
from context_engine.search.rankers import RankingView

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

COMPARED_ALL_MAX = 4_000
"""Up to here all chunks are compared with a question, in half a millisecond; beyond, those of the most promising
files."""
COMPARED_FILES = 200
"""The most promising files by their words, and as many by their cards: an answer shows at most fifty."""

NEAR_ENOUGH = 0.40
"""A file whose best chunk has this cosine is found even without a word of the question. Questions to their own
repository have a best cosine above it in 19 of 20 cases, questions to another one in 1 of 10."""

QueryVector = Callable[[str], Floats | None]
"""Maps a question to its vector of length 1; None when that cannot be computed."""


def greatest_of(values: Floats) -> np.float32:
    """Return the greatest value; something small where all are 0, so that it can divide them."""
    return np.float32(max(float(values.max(initial=0.0)), 1e-9))


def compute_shares_of_best(values: Floats) -> Floats:
    """Return each value divided by the greatest."""
    return (values / greatest_of(values)).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class SemanticSignals:
    """The signals of vectors: `files[name]` a value of at least 0 per file, `chunk` a cosine from 0 to 1 per chunk.

    A chunk that was not `compared` has 0. `brings`: files that are near enough to be found by vectors alone.
    """

    files: Mapping[str, Floats]
    chunk: Floats
    compared: Ints
    brings: Mask


class ProviderVectors(Protocol):
    """The vectors of a provider that the user chose."""

    def near(self, view: RankingView, text: str, allowed: Mask | None) -> tuple[SemanticSignals | None, str]:
        """Return the signals of the provider for a question, or why there are none; "" if none is chosen."""
        ...


class SemanticRanker:
    """Ranks by vectors: always by static ones, and by those of a provider where one was chosen."""

    def __init__(self, static: QueryVector, provider: ProviderVectors | None = None) -> None:
        """Set the source of question vectors: `static` for the static vectors of snapshots, and a provider."""
        self._static = static
        self._provider = provider

    def by_static(
        self, view: RankingView, text: str, promising: Floats, allowed: Mask | None
    ) -> SemanticSignals | None:
        """Return the signals of the static vectors; None when the snapshot has none.

        `promising`: the score of each file by words.
        """
        query = None
        if view.snapshot.static() is not None:
            query = self._static(text)
        if query is None or not query.any():
            return None
        return rank_by_static(view, query, promising, allowed)

    def by_provider(self, view: RankingView, text: str, allowed: Mask | None) -> tuple[SemanticSignals | None, str]:
        """Return the signals of the provider, or why it takes no part."""
        if self._provider is None:
            return None, ""
        return self._provider.near(view, text, allowed)


def rank_by_static(view: RankingView, query: Floats, promising: Floats, allowed: Mask | None) -> SemanticSignals | None:
    """Return the signals of static vectors for the vector of a question; None when they cannot be compared."""
    parts = view.snapshot.static()
    if parts is None or parts.width != len(query):
        return None
    snapshot = view.snapshot
    card = np.maximum(_compare_all(parts.summary, query, snapshot.files), 0) * snapshot.file_alive
    chosen = _choose_chunks(view, promising, card)
    values = np.maximum(_compare_chosen(parts.chunk, query, chosen), 0)
    if allowed is None:
        passing = np.ones(len(chosen), bool)
    else:
        passing = allowed[chosen]
    files = vector_search.fold_by_file(values, passing, snapshot.chunk_file[chosen], snapshot.files)
    chunk = np.zeros(snapshot.chunks, np.float32)
    chunk[chosen] = values
    signals = {"static": files.best, "static3": files.top3, "static_card": card}
    return SemanticSignals(signals, chunk, chosen, files.best >= NEAR_ENOUGH)


def _compare_all(parts: Sequence[tuple[VectorRows, int]], query: Floats, count: int) -> Floats:
    """Return the cosine of every row with the query."""
    if len(parts) == 1:
        return vector_search.compute_cosines(parts[0][0], query)
    values = np.zeros(count, np.float32)
    for rows, base in parts:
        values[base : base + len(rows)] = vector_search.compute_cosines(rows, query)
    return values


def _compare_chosen(parts: Sequence[tuple[VectorRows, int]], query: Floats, chosen: Ints) -> Floats:
    """Return the cosine of each chosen row; they are in ascending order."""
    values = np.zeros(len(chosen), np.float32)
    for rows, base in parts:
        start, stop = np.searchsorted(chosen, (base, base + len(rows))).tolist()
        if stop - start == len(rows):
            values[start:stop] = vector_search.compute_cosines(rows, query)
        elif stop > start:
            here = chosen[start:stop] - base
            values[start:stop] = vector_search.compute_cosines(VectorRows(rows.values[here], rows.scales[here]), query)
    return values


def _choose_chunks(view: RankingView, promising: Floats, card: Floats) -> Ints:
    """Return the living chunks to compare, ascending: all when they are few, else those of the most promising files."""
    snapshot = view.snapshot
    if snapshot.chunks <= COMPARED_ALL_MAX:
        return np.flatnonzero(snapshot.chunk_alive)
    chosen = [vector_search.find_greatest(values, COMPARED_FILES, view.countable) for values in (promising, card)]
    files = np.unique(np.concatenate(chosen)).tolist()
    runs = [np.arange(view.chunk_starts[file], view.chunk_starts[file + 1]) for file in files]
    return np.concatenate([np.zeros(0, np.intp), *runs])
