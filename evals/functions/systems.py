"""The systems that are compared, as scores by question and document; pure, numpy alone.

BM25 has the constants and terms of the engine. Weights and shape are those of the design's table for single functions:
a min-max weighted sum.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log1p

import numpy as np

from context_engine.search import K1, B
from context_engine.search.rankers import IDF_POWER
from context_engine.text import expand_words, query_terms, split_words

STATIC_SHARE = 0.5
"""Beside BM25 at 1: what held up at function level in the study that the design reports."""
DEPTH = 10

Scores = np.ndarray  # (questions, documents), float32


@dataclass(frozen=True, slots=True)
class Figures:
    """The mean over questions of 1 / rank (0 below the tenth), and the share whose first place is right."""

    mrr: float
    hit1: float


def by_words(questions: Sequence[str], texts: Sequence[str]) -> Scores:
    """Okapi BM25."""
    counted = [Counter(_terms(text)) for text in texts]
    lengths = np.array([each.total() for each in counted])
    norms = K1 * (1 - B + B * lengths / max(lengths.mean(), 1))
    postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, each in enumerate(counted):
        for term, times in each.items():
            postings[term].append((number, times))
    scores = np.zeros((len(questions), len(texts)), np.float32)
    for row, question in enumerate(questions):
        for term in query_terms(question):
            if term in postings:
                documents, times = np.array(postings[term]).T
                rarity = log1p((len(texts) - len(documents) + 0.5) / (len(documents) + 0.5)) ** IDF_POWER
                scores[row, documents] += rarity * times * (K1 + 1) / (times + norms[documents])
    return scores


def _terms(text: str) -> list[str]:
    return [term for group in expand_words(split_words(text)) for term in group]


def spread(scores: Scores) -> Scores:
    """Each question's least score becomes 0, its greatest 1.

    >>> spread(np.float32([[1, 2, 3], [5, 5, 5]])).tolist()
    [[0.0, 0.5, 1.0], [0.0, 0.0, 0.0]]
    """
    low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    return (scores - low) / np.where(high > low, high - low, 1)


def first_stage(lexical: Scores, static: Scores) -> Scores:
    """BM25 and the static table."""
    return spread(lexical) + STATIC_SHARE * spread(static)


def places(scores: Scores, right: Sequence[Collection[int]]) -> np.ndarray:
    """The rank of the best right document of each question, from 1; a wrong one that ties with it stands before it.

    >>> places(np.float32([[3, 2, 1], [1, 1, 0]]), [{1, 2}, {0}]).tolist()
    [2, 2]
    """
    found = []
    for row, answers in zip(scores, right, strict=True):
        listed = list(answers)
        best = row[listed].max()
        found.append(1 + int((row >= best).sum()) - int((row[listed] >= best).sum()))
    return np.array(found)


def figures(ranks: np.ndarray) -> Figures:
    """What ranks are worth.

    >>> figures(np.array([1, 2, 11, 4]))
    Figures(mrr=0.4375, hit1=0.25)
    """
    return Figures(float(np.where(ranks <= DEPTH, 1 / ranks, 0).mean()), float((ranks == 1).mean()))
