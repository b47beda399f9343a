"""PURE. Combines the scores of words and vectors, and lowers them by age, staleness and use.

>>> round(compute_freshness("issue", age_days=180, stale=False), 3)
0.5
>>> compute_freshness("rule", age_days=4_000, stale=False)
1.0
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Mapping

WORDS_WEIGHT = 1.0
MEANING_WEIGHT = 0.6
"""Weight of the best cosine next to the best BM25: 0.3 to 1 do as well (evals/remembering)."""
COSINE_MIN = 0.10
"""From 0.15 on, what only vectors find is lost: recall@5 falls from 0.895 to that of words (evals/remembering)."""
NEAR_MAX = 20
"""Items found by vectors alone; the hundredth nearest is near by chance."""

RELEVANCE_SHARE_MIN = 0.15
"""Share of the best score; below it items share only a common word with the question. 0.25 begins to cost recall
(evals/remembering)."""

HALF_LIVES_DAYS: Mapping[str, float] = {"issue": 180.0, "pattern": 365.0}
"""An issue is fixed or forgotten, a pattern is refactored; rules and decisions hold until they are changed."""
OLD_SHARE_MIN = 0.3
"""Smallest share of a score after aging: a TODO of ten years that is still there is still to be done."""
STALE_SHARE = 0.3
ACCESS_SHARE_MAX = 0.15
"""Largest gain for frequent use, small enough that relevance decides."""


def fuse_scores(
    by_words: Mapping[int, float], by_meaning: Mapping[int, float], allowed: Container[int]
) -> dict[int, float]:
    """Return the relevance of each item found, 0 to 1; the best is 1 if words and vectors agree on it.

    Filters come first: an item that is not `allowed` neither ranks nor sets the scale.
    """
    lexical = {number: score for number, score in by_words.items() if number in allowed and score > 0}
    near = {number: cosine for number, cosine in by_meaning.items() if number in allowed and cosine >= COSINE_MIN}
    alone = heapq.nsmallest(NEAR_MAX, near.keys() - lexical.keys(), key=lambda number: (-near[number], number))
    semantic = {number: near[number] for number in (*(near.keys() & lexical.keys()), *alone)}
    best_word, best_cosine = max(lexical.values(), default=0.0), max(semantic.values(), default=0.0)
    whole = WORDS_WEIGHT * bool(lexical) + MEANING_WEIGHT * bool(semantic)
    scores = {
        number: (
            WORDS_WEIGHT * _share(lexical.get(number, 0.0), best_word)
            + MEANING_WEIGHT * _share(semantic.get(number, 0.0), best_cosine)
        )
        / whole
        for number in lexical.keys() | semantic.keys()
    }
    least = RELEVANCE_SHARE_MIN * max(scores.values(), default=0.0)
    return {number: score for number, score in scores.items() if score >= least}


def take_best(scores: Mapping[int, float], most: int) -> dict[int, float]:
    """Return the greatest scores, ties by number."""
    if len(scores) <= most:
        return dict(scores)
    return {
        number: scores[number] for number in heapq.nsmallest(most, scores, key=lambda number: (-scores[number], number))
    }


def _share(value: float, best: float) -> float:
    return value / best if best else 0.0


def compute_freshness(type: str, *, age_days: float, stale: bool) -> float:  # noqa: A002 - the word of the reply
    """Return the share of a score that is left with age, and when the linked file has changed."""
    half_life = HALF_LIVES_DAYS.get(type)
    decayed = 1.0
    if half_life:
        decayed = 0.5 ** (max(0.0, age_days) / half_life)
    return max(decayed, OLD_SHARE_MIN) * (STALE_SHARE if stale else 1.0)


def compute_score(relevance: float, *, confidence: float, fresh: float, access: float) -> float:
    """Return the score that is shown, 0 to 1. `access` is the share of all items that are used less, 0 to 1."""
    return relevance * confidence * fresh * (1 + ACCESS_SHARE_MAX * access) / (1 + ACCESS_SHARE_MAX)
