"""The search itself: a query over one snapshot -> places worth reading, best first, with reasons.

Files are ranked, then each shows its best chunk; further chunks of one file count less and less. For a symbol the chunk
that defines it comes first. Filters apply before anything is ranked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from context_engine.model import Filter, Query
from context_engine.search import fuse
from context_engine.search.asked import Asked
from context_engine.search.filters import Masks
from context_engine.search.rankers import Signals, View, rank
from context_engine.store.snapshot import Snapshot

NEXT_CHUNK_FACTOR = 0.3
"""What the second chunk of a file is worth, the third again, and so on; flat between .3 and .5."""
SCORE_DIGITS = 6
"""Scores are rounded before they are compared, so that the order of floating-point sums cannot break a tie."""

PRIORS: Mapping[str, float] = {
    "test": 0.3,
    "docs": 0.3,
    "example": 0.3,
    "bench": 0.3,
    "compat": 0.3,
    "vendor": 0.3,
    "generated": 0.3,
    "init": 0.5,
    "declaration": 0.7,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A chunk by its number in the snapshot, its score and the addends of it (they sum to the score)."""

    chunk: int
    file: int
    score: float
    why: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Places best first; `matching` counts the chunks that passed the filter and hold something of the query,
    `passing` those that passed the filter."""

    places: tuple[Place, ...]
    matching: int
    passing: int


class Searcher:
    """One snapshot, ready to be searched; what ranking needs of it is computed once and kept.

    `roles` names the file roles as the snapshot counts them. Thread-safe: everything kept is written whole.
    """

    def __init__(self, snapshot: Snapshot, roles: tuple[str, ...]) -> None:
        self.snapshot = snapshot
        self.view = View(snapshot)
        self.masks = Masks(self.view)
        self._roles = roles

    def rank(self, query: Query, *, weights: Mapping[str, float] = fuse.WEIGHTS) -> Ranking:
        """The places worth reading for a query, best first."""
        prior = priors(self.view, self._roles, Asked.of(query.text), query.filter)
        return search(self.view, query, self.masks.of(query.filter), prior, weights=weights)


def search(
    view: View,
    query: Query,
    allowed: npt.NDArray[np.bool_] | None,
    prior: npt.NDArray[np.float32],
    *,
    weights: Mapping[str, float] = fuse.WEIGHTS,
) -> Ranking:
    """Rank one query. `allowed` masks the chunks that pass the filter (None: all), `prior` weighs each file."""
    snapshot = view.snapshot
    asked = Asked.of(query.text)
    found = rank(view, asked, allowed)
    shares = fuse.addends(found.files, prior, weights)
    shares = _only_candidates(view, found, shares, allowed)
    score = fuse.total(shares, snapshot.files)
    candidates = np.flatnonzero(score > 0)
    if len(candidates) > query.limit:
        cut = np.partition(score[candidates], -query.limit)[-query.limit]
        candidates = candidates[score[candidates] >= cut - 1e-6]
    rows = _rows(view, query, found, score, candidates, allowed)
    floor = query.min_score * rows[0][0] if rows else 0.0
    places = tuple(
        Place(chunk, file, value, _why(shares, file, factor))
        for value, _, _, chunk, file, factor in rows[: query.limit]
        if value >= floor
    )
    passing = snapshot.living_chunks if allowed is None else int(allowed.sum())
    return Ranking(places, int(np.count_nonzero(found.chunk)), passing)


def priors(view: View, roles: tuple[str, ...], asked: Asked, filter: Filter) -> npt.NDArray[np.float32]:
    """The prior of each file by its role; a role that the query names or the filter selects is not held back."""
    table = np.array([PRIORS.get(role, 1.0) for role in roles], np.float32)
    lifted = set(asked.lifted)
    if filter.kinds or filter.tags or filter.include_paths:
        if "documentation" in filter.kinds or "documentation" in filter.tags:
            lifted.add("docs")
        if filter.include_paths:
            lifted |= {"test", "docs", "example", "bench", "vendor"}
    for role in lifted:
        table[roles.index(role)] = 1.0
    return table[view.snapshot.file_column("role")]


def _only_candidates(
    view: View, found: Signals, shares: dict[str, npt.NDArray[np.float32]], allowed: npt.NDArray[np.bool_] | None
) -> dict[str, npt.NDArray[np.float32]]:
    """Only living files that hold something of the query count: importance alone finds nothing."""
    snapshot = view.snapshot
    touched = np.zeros(snapshot.files, bool)
    for name, values in found.files.items():
        if name != "importance":
            touched |= values > 0
    touched &= snapshot.file_alive & view.has_chunks
    if allowed is not None:
        touched &= np.bincount(snapshot.chunk_file[allowed], minlength=snapshot.files) > 0
    return {name: np.where(touched, values, np.float32(0)) for name, values in shares.items()}


def _rows(
    view: View,
    query: Query,
    found: Signals,
    score: npt.NDArray[np.float32],
    candidates: npt.NDArray[np.intp],
    allowed: npt.NDArray[np.bool_] | None,
) -> list[tuple[float, str, int, int, int, float]]:
    """(score, path, first line, chunk, file, factor) of the chunks worth showing, best first."""
    snapshot = view.snapshot
    first_lines = snapshot.chunk_column("first")
    rows = []
    for file in candidates.tolist():
        value, path = float(score[file]), snapshot.paths[file]
        factor = 1.0
        for chunk in _chunks_of(view, found, file, allowed, query.chunks_per_file):
            rows.append((round(value * factor, SCORE_DIGITS), path, int(first_lines[chunk]), chunk, file, factor))
            factor *= NEXT_CHUNK_FACTOR
    rows.sort(key=lambda row: (-row[0], row[1], row[2], row[3]))
    return rows


def _chunks_of(
    view: View, found: Signals, file: int, allowed: npt.NDArray[np.bool_] | None, most: int
) -> list[int]:
    """The chunks of a file to show, best first: defining ones, then by BM25, then in order."""
    start, stop = int(view.snapshot.chunk_starts[file]), int(view.snapshot.chunk_starts[file + 1])
    chunks = range(start, stop) if allowed is None else (start + np.flatnonzero(allowed[start:stop])).tolist()
    bm25 = found.chunk[start:stop].tolist()
    defines = found.defines
    ranked = sorted(chunks, key=lambda chunk: (-defines.get(chunk, 0.0), -bm25[chunk - start], chunk))
    telling = [chunk for chunk in ranked if bm25[chunk - start] > 0 or chunk in defines]
    return (telling or ranked[:1])[:most]


def _why(shares: Mapping[str, npt.NDArray[np.float32]], file: int, factor: float) -> dict[str, float]:
    return {name: float(values[file]) * factor for name, values in shares.items() if values[file] > 0}
