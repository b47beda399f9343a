"""Reranks an answer with a model: with all vectors if they exist, else with those of the best places.

Vectors are stored by their text, so an answer finds what was embedded for any other. Until nearly all chunks of a
snapshot have theirs, only the best chunks of the best files are compared; missing ones are embedded now, as far as the
time of one answer allows, and stored. Vectors of a few scattered chunks are worse than none: a file that happens to
have some would outrank a better one without (docs/decisions/0017).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from context_engine.embedding import DeadlineEmbedder, Keys, VectorRows, hash_texts, quantize
from context_engine.index import Snapshot, Vectors
from context_engine.search import (
    AnswerModel,
    CandidateScores,
    FileCosines,
    RankingView,
    SemanticSignals,
    compute_cosines,
    find_greatest,
    fold_by_file,
)
from context_engine.semantic.embedding_backfill import EmbeddingProgress

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

LOCAL_S = 0.08
"""Time that a model of this machine may add to an answer: nearly all stay within 110 ms, as a batch may end a little
late."""
REMOTE_S = 1.0
"""Time that an endpoint may take for the vector of a question; its user chose to wait for it."""
FILES = 4
CHUNKS_PER_FILE = 2
"""Places that are compared before all have vectors: eight texts. Three times as many are no better, and cost three
times."""
NEARLY_ALL = 0.97
"""Share of vectors from which on all are compared. At nine in ten the ranking is no better than without a model."""

Texts = Callable[[Snapshot, Ints], list[str]]
"""Returns the texts of some chunks of a snapshot, from the current files; empty for a file that cannot be read."""


Progress = Callable[[Snapshot], EmbeddingProgress | None]
"""Returns the progress of a snapshot's vectors; None if unknown."""


class Reranker(AnswerModel):
    """The model of `search.semantic_scores`. Thread-safe."""

    def __init__(
        self, embedder: DeadlineEmbedder, vectors: Callable[[], Vectors | None], progress: Progress, texts: Texts
    ) -> None:
        """`vectors`: the store of the model's space, None while it is unknown; `texts`: the texts of chunks."""
        self._embedder = embedder
        self._vectors = vectors
        self._progress = progress
        self._texts = texts
        self._aligned = _AlignedVectors()

    def near(
        self, view: RankingView, text: str, ranked: CandidateScores, allowed: Mask | None
    ) -> SemanticSignals | None:
        """Return similarities to a question; None if its vector or the store is not available in time."""
        identity = self._embedder.identity
        until = time.monotonic() + (LOCAL_S if identity is None or identity.is_local else REMOTE_S)
        query = self._embedder.embed_query(text, until)
        vectors = self._vectors()
        if query is None or vectors is None:
            return None
        filled = self._progress(view.snapshot)
        cards = self._cards(view, vectors, query, filled)
        chosen = select_candidates(view, ranked, allowed)
        values, known = self._compare(view, vectors, query, chosen, until)
        if filled is None or filled.chunks < NEARLY_ALL * filled.chunks_total:
            return _combine_some(view, chosen, values, known, cards)
        chunk, found = self._chunks(view, vectors, query, filled)
        chunk[chosen[known]], found[chosen[known]] = values[known], True
        return _combine_all(view, chunk, found, cards, allowed)

    def _cards(
        self, view: RankingView, vectors: Vectors, query: Floats, filled: EmbeddingProgress | None
    ) -> Floats | None:
        """Return the similarity of each file's card, from 0 on; None until nearly all files have one."""
        if filled is None or filled.cards < NEARLY_ALL * filled.cards_total:
            return None
        rows, found = self._aligned.cards(view.snapshot, vectors, filled.is_complete)
        return _from_least(compute_cosines(rows, query), found & view.snapshot.file_alive)

    def _chunks(
        self, view: RankingView, vectors: Vectors, query: Floats, filled: EmbeddingProgress
    ) -> tuple[Floats, Mask]:
        """Return the cosine of each chunk, and for which it is known."""
        rows, found = self._aligned.chunks(view.snapshot, vectors, filled.is_complete)
        return compute_cosines(rows, query), found.copy()

    def _compare(
        self, view: RankingView, vectors: Vectors, query: Floats, chosen: Ints, until: float
    ) -> tuple[Floats, Mask]:
        """Return the cosine of each chosen chunk, and for which it is known; missing ones are embedded in time."""
        rows, known = vectors.get(view.snapshot.chunk_column("key")[chosen])
        values = np.where(known, compute_cosines(rows, query), np.float32(0))
        if known.all():
            return values, known
        places, texts, keys = self._missing(view, chosen, known)

        def keep(first: int, made: Floats) -> None:
            vectors.put(keys[first : first + len(made)], made)

        made = self._embedder.embed_passages(texts, until, keep)
        if len(made):
            values[places[: len(made)]] = compute_cosines(quantize(made), query)
            known[places[: len(made)]] = True
        return values, known

    def _missing(self, view: RankingView, chosen: Ints, known: Mask) -> tuple[Ints, list[str], Keys]:
        """Return which of the chosen lack a vector, and the text of each; not those whose file has changed since."""
        wanted = view.snapshot.chunk_column("key")[chosen]
        places = np.flatnonzero(~known)
        texts = self._texts(view.snapshot, chosen[places])
        keys = hash_texts(texts)
        same = keys == wanted[places]
        return places[same], [text for text, keep in zip(texts, same, strict=True) if keep], keys[same]


def select_candidates(view: RankingView, ranked: CandidateScores, allowed: Mask | None) -> Ints:
    """Return the best chunks of the best files, file after file."""
    chosen = []
    for file in find_greatest(ranked.files, FILES).tolist():
        if ranked.files[file] > 0:
            start, stop = view.chunk_starts[file], view.chunk_starts[file + 1]
            passing = None if allowed is None else allowed[start:stop]
            chosen.append(find_greatest(ranked.chunk.of(slice(start, stop)), CHUNKS_PER_FILE, passing) + start)
    return np.concatenate([np.zeros(0, np.intp), *chosen])


def _combine_all(
    view: RankingView, cosines: Floats, found: Mask, cards: Floats | None, allowed: Mask | None
) -> SemanticSignals:
    """Compare all chunks; the few without a vector count as the farthest."""
    snapshot = view.snapshot
    counts = found & snapshot.chunk_alive
    chunk = _from_least(cosines, counts)
    files = fold_by_file(chunk, counts, snapshot.chunk_file, snapshot.files, allowed)
    return _near(view, files, chunk, np.flatnonzero(counts), cards)


def _combine_some(
    view: RankingView, chosen: Ints, values: Floats, known: Mask, cards: Floats | None
) -> SemanticSignals | None:
    """Compare the best places: those of the first files, up to the first with an unknown vector."""
    owners = view.snapshot.chunk_file[chosen]
    usable = known.copy()
    if not known.all():
        usable[np.flatnonzero(owners == owners[np.argmin(known)])[0] :] = False
    if not usable.any() and cards is None:
        return None
    if cards is None:
        least = np.float32(0)
    else:
        least = np.float32(min(0.0, float(values[usable].min(initial=0.0))))
    chunk, found = np.zeros(view.snapshot.chunks, np.float32), np.zeros(view.snapshot.chunks, bool)
    chunk[chosen[usable]], found[chosen[usable]] = np.maximum(values[usable] - least, 0), True
    files = fold_by_file(chunk, found, view.snapshot.chunk_file, view.snapshot.files)
    return _near(view, files, chunk, chosen[usable], cards)


def _from_least(cosines: Floats, found: Mask) -> Floats:
    """Cosines counted from the least of those that are known; 0 for the others.

    Some models give any two texts a cosine of .7: only what is above says something.
    """
    if not found.any():
        return np.zeros(len(cosines), np.float32)
    return np.where(found, np.maximum(cosines - cosines[found].min(), 0), np.float32(0)).astype(np.float32)


def _near(
    view: RankingView, files: FileCosines, chunk: Floats, compared: Ints, cards: Floats | None
) -> SemanticSignals:
    signals = {"model": files.best, "model3": files.top3} | ({} if cards is None else {"model_card": cards})
    return SemanticSignals(signals, chunk, compared, np.zeros(view.snapshot.files, bool))


class _SegmentVectors(NamedTuple):
    """The vectors of one segment, by chunk or by file."""

    rows: VectorRows
    found: Mask


class _AlignedVectors:
    """The vectors of a snapshot in the order of its chunks and files, looked up once for each segment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[tuple[str, str, int], _SegmentVectors] = {}
        self._whole: dict[str, tuple[Snapshot, bool, _SegmentVectors]] = {}

    def chunks(self, snapshot: Snapshot, vectors: Vectors, is_complete: bool) -> tuple[VectorRows, Mask]:
        """Return a row for each chunk, and which were found; `is_complete`: all can be found."""
        keys = [segment.chunk["key"] for segment in snapshot.segments]
        return self._of("chunk", snapshot, vectors, keys, is_complete)

    def cards(self, snapshot: Snapshot, vectors: Vectors, is_complete: bool) -> tuple[VectorRows, Mask]:
        """Return a row for each file, and which were found."""
        keys = [segment.file["card_key"] for segment in snapshot.segments]
        return self._of("file", snapshot, vectors, keys, is_complete)

    def _of(
        self, what: str, snapshot: Snapshot, vectors: Vectors, keys: Sequence[Keys], is_complete: bool
    ) -> tuple[VectorRows, Mask]:
        with self._lock:
            known = self._whole.get(what)
            if known is None or known[0] is not snapshot or known[1] != is_complete:
                whole = self._looked_up(what, snapshot, vectors, keys)
                known = self._whole[what] = (snapshot, is_complete, whole)
            return known[2].rows, known[2].found

    def _looked_up(self, what: str, snapshot: Snapshot, vectors: Vectors, keys: Sequence[Keys]) -> _SegmentVectors:
        names = [(what, snapshot.generation, number) for number in snapshot.segment_numbers]
        parts = []
        for name, own in zip(names, keys, strict=True):
            part = self._parts.get(name)
            parts.append(part if part is not None and part.found.all() else _SegmentVectors(*vectors.get(own)))
        whole = _SegmentVectors(
            VectorRows(
                np.concatenate([part.rows.values for part in parts]),
                np.concatenate([part.rows.scales for part in parts]),
            ),
            np.concatenate([part.found for part in parts]),
        )
        others = {name: part for name, part in self._parts.items() if name[0] != what}
        self._parts = others | dict(zip(names, _views(whole, [len(own) for own in keys]), strict=True))
        return whole


def _views(whole: _SegmentVectors, sizes: Sequence[int]) -> list[_SegmentVectors]:
    """Return the parts of a whole again, without copying."""
    ends = np.cumsum(sizes).tolist()
    spans = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return [_SegmentVectors(VectorRows(whole.rows.values[s], whole.rows.scales[s]), whole.found[s]) for s in spans]
