"""PURE. One score for what was found by its words and by its meaning, and what makes some of it count less.

>>> round(compute_freshness("issue", age_days=180, stale=False), 3), compute_freshness("rule", age_days=4_000, stale=False)
(0.5, 1.0)
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Mapping

WORDS_WEIGHT = 1.0
MEANING_WEIGHT = 0.6
"""Of the best cosine against the best BM25: anything from .3 to 1 does as well (evals/remembering)."""
COSINE_MIN = 0.10
"""From .15 on, what only meaning finds is lost: recall@5 falls from .895 to what words alone have (evals/remembering)."""
NEAR_MAX = 20
"""So many may be found by meaning alone: the hundredth nearest is near by chance."""

RELEVANCE_SHARE_MIN = 0.15
"""Of the best: below it is what shares a common word with the question; .25 begins to cost recall (evals/remembering)."""

HALF_LIVES_DAYS: Mapping[str, float] = {"issue": 180.0, "pattern": 365.0}
"""An issue is fixed or forgotten, a pattern is refactored; rules and decisions hold until somebody changes them."""
OLD_SHARE_MIN = 0.3
"""What is left of the oldest: a TODO of ten years that still stands there is still to be done."""
STALE_SHARE = 0.3
ACCESS_SHARE_MAX = 0.15
"""What is used most counts that much more, and no more: what is found must still be what was asked for."""


def fuse_scores(
    by_words: Mapping[int, float], by_meaning: Mapping[int, float], allowed: Container[int]
) -> dict[int, float]:
    """The relevance of each item found, 0 to 1; the best is 1 when words and meaning agree on it.

    Filters come first: what is not `allowed` neither ranks nor sets the scale.
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
    """The greatest scores, ties by number."""
    if len(scores) <= most:
        return dict(scores)
    return {number: scores[number] for number in heapq.nsmallest(most, scores, key=lambda each: (-scores[each], each))}


def _share(value: float, best: float) -> float:
    return value / best if best else 0.0


def compute_freshness(type: str, *, age_days: float, stale: bool) -> float:  # noqa: A002 - the word of the reply
    """What is left of a score with time, and where the file that was spoken of is another one by now."""
    half_life = HALF_LIVES_DAYS.get(type)
    decayed = 0.5 ** (max(0.0, age_days) / half_life) if half_life else 1.0
    return max(decayed, OLD_SHARE_MIN) * (STALE_SHARE if stale else 1.0)


def compute_score(relevance: float, *, confidence: float, fresh: float, access: float) -> float:
    """The score that is shown, 0 to 1. `access` is the share of all items that are used less, 0 to 1."""
    return relevance * confidence * fresh * (1 + ACCESS_SHARE_MAX * access) / (1 + ACCESS_SHARE_MAX)
