"""PURE. How likely an answer holds what was asked for, where its rows end, and how likely each place is needed.

>>> found = Evidence(coverage=0.9, cosine=0.6, card=0.5, named=0.0)
>>> astray = Evidence(coverage=0.2, cosine=0.3, card=0.2, named=0.0)
>>> round(found.probability, 2), round(astray.probability, 2), astray.is_weak
(0.9, 0.07, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log1p

CONSTANT, COVERAGE, COSINE, CARD, NAMED = -5.34, 3.13, 4.77, 3.81, 1.79
"""Weights of the facts in the logarithm of the odds. Fitted on 2,900 questions to their own repository and as many to
others of the same language, 85 repositories (evals/wide/relevance.py)."""
WEAK_BELOW = 0.24
"""An answer below this is called weak. On repositories held out of the fit, 92 of 100 weak answers are to questions
that belong elsewhere; 59 of 100 such questions are recognized, and 5 of 100 that belong here suffer
(evals/wide/relevance.py)."""
KEPT_SHARE = 0.3
"""Files below this share of the best score are left out. At 0.4 commit subjects lose 0.005 of recall@10 and 0.006 NDCG
(evals/retrieval, evals/wide/relevance.py)."""
KEPT_FILES = 3
"""Files that every answer keeps, a weak one too: 5 of 100 are right after all."""
EVIDENCE_FILES = 5
"""The best files that are looked at; between 3 and 10 it makes no difference (evals/wide/relevance.py)."""
ABSENT_MAX = 5


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts that the best files of an answer have in common with the question.

    `coverage`: the greatest share of the question's words, by rarity, in one file. `cosine`, `card`: of static vectors,
    the nearest chunk and the nearest file card. `named`: the greatest trust that a file defines, or is, what the
    question names.
    """

    coverage: float
    cosine: float
    card: float
    named: float

    @property
    def probability(self) -> float:
        """The probability that the answer holds what was asked for."""
        by_words = COVERAGE * self.coverage + NAMED * self.named
        return 1 / (1 + exp(-(CONSTANT + by_words + COSINE * self.cosine + CARD * self.card)))

    @property
    def is_weak(self) -> bool:
        """Whether the answer is probably about something else."""
        return self.probability < WEAK_BELOW


def explain_weakness(evidence: Evidence, absent: Sequence[str]) -> str:
    """Return why probably nothing here answers a question. `absent`: its words that are nowhere in the index.

    >>> explain_weakness(Evidence(0.31, 0.2, 0.2, 0.0), ["vat"])
    'probably nothing here answers this: "vat" occurs nowhere; no file matches more than 31 % of it'
    """
    parts = []
    if absent:
        *others, last = [f'"{word}"' for word in absent[:ABSENT_MAX]]
        named = f"{', '.join(others)} and {last} occur" if others else f"{last} occurs"
        parts.append(f"{named} nowhere")
    share = round(100 * evidence.coverage)
    if share == 100:
        parts.append("its words are here, and nothing is near them in meaning")
    elif share:
        parts.append(f"no file matches more than {share} % of it")
    return ": ".join(filter(None, ("probably nothing here answers this", "; ".join(parts))))


# -- how likely a place is needed --------------------------------------------------------------------------------------

# A logistic model of four features. It was fitted on the changed lines of 275 commits of 51 repositories, in folds by
# repository, with the message as the question. Two dozen further features gain at most 0.01 of the hunks there
# (docs/decisions/archive/0059).
BASE = -10.5
FILE_SHARE, CHUNK_SHARE, TITLE_SHARE, RANK = 8.6, 1.3, 0.5, -0.87
"""Of the score of the file relative to the best one; of the worth of the chunk relative to the best of all; of the
words of the question's title in it, by weight; of the logarithm of 1 + its rank among the chunks of its file."""


def estimate_chance(*, file_share: float, chunk_share: float, title_share: float, rank: int) -> float:
    """Return the probability that a place is needed. Shares are from 0 to 1."""
    odds = BASE + FILE_SHARE * file_share + _chunk_odds(chunk_share, title_share, rank)
    return 1 / (1 + exp(-odds))


def compare_with_best(best: tuple[float, float], other: tuple[float, float], rank: int) -> float:
    """Return the odds of a chunk relative to the best one of its file, at most 1. Chunks are (chunk, title share)."""
    return min(1.0, exp(_chunk_odds(*other, rank) - _chunk_odds(*best, 0)))


def _chunk_odds(chunk_share: float, title_share: float, rank: int) -> float:
    return CHUNK_SHARE * chunk_share + TITLE_SHARE * title_share + RANK * log1p(rank)
