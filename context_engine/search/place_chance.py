"""PURE. How likely it is that a place is among those that an answer needs.

A logistic model of four features. It was fitted on the changed lines of 275 commits of 51 repositories, in folds by
repository, with the message as the question. Two dozen further features gain at most 0.01 of the hunks there
(docs/decisions/0059).

>>> best = estimate_chance(file_share=1.0, chunk_share=1.0, title_share=0.8, rank=0)
>>> third = estimate_chance(file_share=0.6, chunk_share=0.4, title_share=0.2, rank=2)
>>> round(best, 2), round(third, 3)
(0.45, 0.003)
"""

from __future__ import annotations

from math import exp, log1p

BASE = -10.5
FILE_SHARE = 8.6
"""Of the score of the file, relative to the best file."""
CHUNK_SHARE = 1.3
"""Of the worth of the chunk by words and vectors, relative to the best chunk of all."""
TITLE_SHARE = 0.5
"""Of the words of the question's title that the chunk contains, by weight."""
RANK = -0.87
"""Of the logarithm of 1 + the chunk's rank among those of its file, 0 for the best."""


def estimate_chance(*, file_share: float, chunk_share: float, title_share: float, rank: int) -> float:
    """Return the probability that a place is needed. Shares are from 0 to 1."""
    odds = BASE + FILE_SHARE * file_share + _chunk_odds(chunk_share, title_share, rank)
    return 1 / (1 + exp(-odds))


def compare_with_best(best: tuple[float, float], other: tuple[float, float], rank: int) -> float:
    """Return the odds of a chunk relative to the best one of its file, at most 1. Chunks are (chunk, title share)."""
    return min(1.0, exp(_chunk_odds(*other, rank) - _chunk_odds(*best, 0)))


def _chunk_odds(chunk_share: float, title_share: float, rank: int) -> float:
    return CHUNK_SHARE * chunk_share + TITLE_SHARE * title_share + RANK * log1p(rank)
