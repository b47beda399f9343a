"""Semantic signals: the cosines of the vectors of chunks and files with the vector of a question.

Static vectors are stored in the snapshot, one a chunk and one a file (its card), and are compared with every question.
Vectors of a model come from `semantic` and are compared in the same way. Either way a file has three signals: its best
chunk, the sum of its three best, its card. Stretching the cosines of a question over the files, from the least to the
greatest, was tried and changes nothing (docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class ChunkPromise:
    """How promising chunks are: the sum of the values of each signal by its greatest value, times its weight.

    Sums are made for the chunks that are read: over a million chunks each would take a millisecond.
    """

    signals: Sequence[tuple[float, Floats]]

    @cached_property
    def _greatest(self) -> list[np.float32]:
        return [greatest_of(values) for _, values in self.signals]

    def of(self, chunks: slice) -> Floats:
        """Return how promising these chunks are."""
        promise = np.zeros(chunks.stop - chunks.start, np.float32)
        for (weight, values), greatest in zip(self.signals, self._greatest, strict=True):
            promise += np.float32(weight) * (values[chunks] / greatest)
        return promise


def greatest_of(values: Floats) -> np.float32:
    """Return the greatest value; something small where all are 0, so that it can divide them."""
    return np.float32(max(float(values.max(initial=0.0)), 1e-9))


def compute_shares_of_best(values: Floats) -> Floats:
    """Return each value divided by the greatest."""
    return (values / greatest_of(values)).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class CandidateScores:
    """The state before a model ranks: the score of each file, and how promising each chunk of a file is."""

    files: Floats
    chunk: ChunkPromise


class AnswerModel:
    """A model that ranks within the time of an answer and is notified of answers; this one does nothing."""

    def near(
        self,
        view: RankingView,  # noqa: ARG002 - for models that rank
        text: str,  # noqa: ARG002
        ranked: CandidateScores,  # noqa: ARG002
        allowed: Mask | None,  # noqa: ARG002
    ) -> SemanticSignals | None:
        """Return the signals of the model for a question; None while it cannot be used."""
        return None

    def answering(self) -> AbstractContextManager[object]:
        """Return a context for an answer: work in the background waits while it is entered."""
        return nullcontext()

    def wake(self, paths: Iterable[str] = ()) -> None:
        """Look for texts without a vector, first in these files, which were just shown or indexed."""


@dataclass(frozen=True, slots=True)
class SemanticSignals:
    """The signals of vectors: `files[name]` a value of at least 0 per file, `chunk` a cosine from 0 to 1 per chunk.

    A chunk that was not `compared` has 0. `brings`: files that are near enough to be found by vectors alone.
    """

    files: Mapping[str, Floats]
    chunk: Floats
    compared: Ints
    brings: Mask


class SemanticRanker:
    """Ranks by vectors: always by static ones, and by those of a model where one was chosen and is available."""

    def __init__(self, static: QueryVector, model: AnswerModel | None = None) -> None:
        """Set the source of question vectors: `static` for the static vectors of snapshots, and a model."""
        self._static = static
        self._model = model

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

    def by_model(
        self, view: RankingView, text: str, ranked: CandidateScores, allowed: Mask | None
    ) -> SemanticSignals | None:
        """Return the signals of the model, computed in the time that an answer has; None while it has none."""
        if self._model is not None:
            return self._model.near(view, text, ranked, allowed)
        return None


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
