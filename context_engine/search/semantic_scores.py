"""Semantic signals: the cosines of the vectors of chunks and files with the vector of a question, compared exactly.

Static vectors are in the snapshot, one a chunk and one a file (its card); those of a provider are one a chunk. A file
has signals of its best chunk and of its three best. 120,000 vectors of 384 numbers take 11 ms on one core, mostly to
read the memory: there is nothing for an approximate index to win.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from context_engine.embedding import VectorRows
from context_engine.errors import InvalidVectors
from context_engine.search.rankers import Floats, Mask, RankingView

Ints = npt.NDArray[np.intp]

COMPARED_ALL_MAX = 4_000
"""Up to here all chunks are compared with a question, in half a millisecond; beyond, those of the most promising
files."""
COMPARED_FILES = 200
"""The most promising files by their words, and as many by their cards: an answer shows at most fifty."""
NEAR_ENOUGH = 0.40
"""A file whose best chunk has this cosine is found even without a word of the question. Questions to their own
repository have a best cosine above it in 19 of 20 cases, questions to another one in 1 of 10."""
BLOCK_NUMBERS = 400_000
"""Numbers widened to float32 at a time: 1.6 MB stay in the cache of one core; 4 times as many or few are slower."""
COSINE_STEP = np.float32(1e6)
"""Cosines are rounded to six digits, so that the position of a vector among others cannot break a tie."""

QueryVector = Callable[[str], Floats | None]
"""Maps a question to its vector of length 1; None when that cannot be computed."""


@dataclass(frozen=True, slots=True)
class SemanticSignals:
    """The signals of vectors: `files[name]` a value of at least 0 per file, `chunk` a cosine from 0 to 1 per chunk.

    A chunk that was not `compared` has 0. `brings`: files that are near enough to be found by vectors alone.
    """

    files: Mapping[str, Floats]
    chunk: Floats
    compared: Ints
    brings: Mask


ProviderVectors = Callable[[RankingView, str, Mask | None], tuple[SemanticSignals | None, str]]
"""Returns the signals of the provider that the user chose, or why there are none; "" if none is chosen."""


class SemanticRanker:
    """Ranks by vectors: always by static ones, and by those of a provider where one was chosen."""

    def __init__(self, static: QueryVector, provider: ProviderVectors | None = None) -> None:
        """Set the source of question vectors: `static` for the static vectors of snapshots, and a provider."""
        self._static = static
        self._provider = provider

    def by_static(
        self, view: RankingView, text: str, promising: Floats, allowed: Mask | None
    ) -> SemanticSignals | None:
        """Return the signals of the static vectors; None when the snapshot has none that can be compared.

        `promising`: the score of each file by words.
        """
        snapshot, parts = view.snapshot, view.snapshot.static()
        query = self._static(text) if parts is not None else None
        if parts is None or query is None or not query.any() or parts.width != len(query):
            return None
        card = _compare_rows(parts.summary, query, np.arange(snapshot.files)) * snapshot.file_alive
        chosen = _choose_chunks(view, promising, card)
        values = _compare_rows(parts.chunk, query, chosen)
        passing = np.ones(len(chosen), bool) if allowed is None else allowed[chosen]
        best, top3 = fold_by_file(values, passing, snapshot.chunk_file[chosen], snapshot.files)
        chunk = np.zeros(snapshot.chunks, np.float32)
        chunk[chosen] = values
        signals = {"static": best, "static3": top3, "static_card": card}
        return SemanticSignals(signals, chunk, chosen, best >= NEAR_ENOUGH)

    def by_provider(self, view: RankingView, text: str, allowed: Mask | None) -> tuple[SemanticSignals | None, str]:
        """Return the signals of the provider, or why it takes no part."""
        if self._provider is None:
            return None, ""
        return self._provider(view, text, allowed)


def _compare_rows(parts: Sequence[tuple[VectorRows, int]], query: Floats, chosen: Ints) -> Floats:
    """Return the cosine of each chosen row, at least 0; they are in ascending order."""
    values = np.zeros(len(chosen), np.float32)
    for rows, base in parts:
        start, stop = np.searchsorted(chosen, (base, base + len(rows))).tolist()
        if start < stop:
            if stop - start < len(rows):
                here = chosen[start:stop] - base
                rows = VectorRows(rows.values[here], rows.scales[here])
            values[start:stop] = compute_cosines(rows, query)
    return np.maximum(values, 0)


def _choose_chunks(view: RankingView, promising: Floats, card: Floats) -> Ints:
    """Return the living chunks to compare, ascending: all when they are few, else those of the most promising files."""
    snapshot = view.snapshot
    if snapshot.chunks <= COMPARED_ALL_MAX:
        return np.flatnonzero(snapshot.chunk_alive)
    is_promising = np.zeros(snapshot.files, bool)
    for values in (promising, card):
        is_promising[find_greatest(values, COMPARED_FILES, view.countable)] = True
    return np.flatnonzero(is_promising[snapshot.chunk_file])


def compute_cosines(rows: VectorRows, query: Floats) -> Floats:
    """Return the cosine of a query of length 1 with each row, 0 for a row of zeros.

    Raises: InvalidVectors when they are of different sizes, and so not of one space.
    """
    size = rows.values.shape[1]
    if query.shape != (size,):
        raise InvalidVectors(
            f"a query of {query.shape[-1] if query.ndim else 0} numbers cannot be compared with vectors of {size}",
            suggestion="embed the query with the model that made the vectors",
        )
    products = np.empty(len(rows), np.float32)
    height = max(1, BLOCK_NUMBERS // size)
    block = np.empty((min(height, len(rows)), size), np.float32)
    for start in range(0, len(rows), height):
        part = rows.values[start : start + height]
        wide = block[: len(part)]
        wide[:] = part
        np.dot(wide, query, out=products[start : start + len(part)])
    return np.rint(products * rows.scales * COSINE_STEP) / COSINE_STEP


def fold_by_file(values: Floats, counts: Mask, chunk_file: Ints, files: int) -> tuple[Floats, Floats]:
    """Return by file the greatest cosine of its chunks that count, and the sum of the three greatest.

    Chunks are in the order of their files, as in a snapshot. Cosines below zero count as zero.
    """
    best, top3 = np.zeros(files, np.float32), np.zeros(files, np.float32)
    left = np.flatnonzero(counts & (values > 0))
    for place in range(3):
        if not len(left):
            break
        owners, rest = chunk_file[left], values[left]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        top = np.maximum.reduceat(rest, starts)
        top3[owners[starts]] += top
        if place == 0:
            best[owners[starts]] = top
        is_top = np.flatnonzero(rest == np.repeat(top, np.diff(starts, append=len(left))))
        left = np.delete(left, is_top[np.flatnonzero(np.diff(owners[is_top], prepend=-1))])  # one of each file
    return best, top3


def find_greatest(values: Floats, limit: int, allowed: Mask | None = None) -> Ints:
    """Return the numbers of the greatest values, greatest first; of equal ones the lower number first.

    >>> find_greatest(np.float32([0.1, 0.9, 0.9, 0.5]), 3).tolist()
    [1, 2, 3]
    """
    numbers = np.arange(len(values)) if allowed is None else np.flatnonzero(allowed)
    if 0 < limit < len(numbers):
        least = np.partition(values[numbers], -limit)[-limit]
        numbers = numbers[values[numbers] >= least]
    return numbers[np.argsort(-values[numbers], kind="stable")][: max(0, limit)]


def greatest_of(values: Floats) -> np.float32:
    """Return the greatest value; something small where all are 0, so that it can divide them."""
    return np.float32(max(float(values.max(initial=0.0)), 1e-9))
