"""PURE. Which files a task will change, out of what a search finds for it and what the history says about it.

A search finds what a text speaks of. A commit also changes what always changes with that, and what was changed when
somebody wrote much the same before: four named addends of the table in `search/fuse.py`
(docs/decisions/archive/0026).

>>> from context_engine.history.commit_facts import CommitTable
>>> found = combine_signals([("a.py", 8.0), ("b.py", 4.0)], FileHistory(CommitTable.empty(), ""), "task")
>>> [(change.path, change.score) for change in found]
[('a.py', 1.0), ('b.py', 0.5)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from context_engine.history.file_history import FileHistory
from context_engine.model import Query
from context_engine.search import SCORE_DIGITS, SIGNALS, Question, Searcher

ROLE_POWER = 1 / 3
"""Tests and documents belong to a task as much as they disturb a search, so they count more here (0.3 becomes 0.67)."""
FOUND_MAX = 100
"""Files of the search that are considered."""
LEADERS = 5
"""Best files whose partners are considered."""
WEIGHTS = {name: signal.weight for name, signal in SIGNALS.items() if signal.kind == "history"}


@dataclass(frozen=True, slots=True)
class PredictedChange:
    """A file that the task may change. `why` has the addends of its score: search, alike, together, recent."""

    path: str
    score: float
    why: Mapping[str, float]


def predict_changes(searcher: Searcher, query: Query, history: FileHistory) -> tuple[PredictedChange, ...]:
    """Return the files that a task, described by the query, may change, best first; at most `query.limit`."""
    wide = replace(query, limit=FOUND_MAX, chunks_per_file=1, min_score=0.0)
    paths, files = searcher.snapshot.paths, searcher.snapshot.by_path
    allowed = searcher.masks.of(query.filter)
    places = searcher.rank(wide, role_power=ROLE_POWER).places
    found = [(paths[place.file], place.score) for place in places]
    starts = searcher.view.chunk_starts

    def passes(path: str) -> bool:
        file = files.get(path)
        return file is not None and (allowed is None or bool(allowed[starts[file] : starts[file + 1]].any()))

    return combine_signals(found, history, Question.of(query.text).focus, limit=query.limit, passes=passes)


def combine_signals(
    found: Sequence[tuple[str, float]],
    history: FileHistory,
    text: str,
    *,
    limit: int = 10,
    passes: Callable[[str], bool] = lambda _: True,
    weights: Mapping[str, float] = WEIGHTS,
) -> tuple[PredictedChange, ...]:
    """Add the history to a search result: (path, score), best first; the first score of a path counts.

    `passes` says of a file that was not found whether it may be: it must be there, and pass the filter.
    """
    search = _shares(found)
    signals = {
        "search": search,
        "alike": _passing(history.find_similar_changes(text), search, passes),
        "together": _passing(_together(search, history), search, passes),
    }
    signals["recent"] = _recent({path for values in signals.values() for path in values}, history)
    scores: dict[str, float] = {}
    for name, values in signals.items():
        for path, value in values.items():
            scores[path] = scores.get(path, 0.0) + weights[name] * value
    rounded = {path: round(score, SCORE_DIGITS) for path, score in scores.items()}
    best = sorted((path for path in rounded if rounded[path]), key=lambda path: (-rounded[path], path))
    return tuple(PredictedChange(path, rounded[path], _why(path, signals, weights)) for path in best[:limit])


def _shares(found: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Return each file's score as a share of the best one."""
    shares: dict[str, float] = {}
    for path, score in found:
        shares.setdefault(path, score / found[0][1])
    return shares


def _together(search: Mapping[str, float], history: FileHistory) -> dict[str, float]:
    """Return the partners of the best files: confidence weighed by the leader's share, summed, at most 1."""
    sure: dict[str, float] = {}
    for leader in list(search)[:LEADERS]:
        for partner in history.list_cochanged(leader, support=1):
            sure[partner.path] = sure.get(partner.path, 0.0) + search[leader] * partner.confidence
    return {path: min(value, 1.0) for path, value in sure.items()}


def _passing(
    values: Mapping[str, float], search: Mapping[str, float], passes: Callable[[str], bool]
) -> Mapping[str, float]:
    return {path: value for path, value in values.items() if path in search or passes(path)}


def _recent(paths: Iterable[str], history: FileHistory) -> Mapping[str, float]:
    """Return how active each file is, as a share of the most active; square roots, so that it does not dominate."""
    named = list(paths)
    recent = np.sqrt(history.recency(named))
    shares = (recent / max(float(recent.max(initial=0.0)), 1e-9)).tolist()
    return {path: share for path, share in zip(named, shares, strict=True) if share}


def _why(path: str, signals: Mapping[str, Mapping[str, float]], weights: Mapping[str, float]) -> Mapping[str, float]:
    """Return the addends of one file's score."""
    addends = {name: weights[name] * values.get(path, 0.0) for name, values in signals.items()}
    return {name: value for name, value in addends.items() if value}
