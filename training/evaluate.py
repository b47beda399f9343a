"""How good rows are: sentences of held-out packages against all documented functions of the same package, MRR@10."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from context_engine.embedding import normalize_rows
from context_engine.text import expand_words, query_terms, split_words
from training.mine import Pair
from training.train import Bags, summed

DEPTH = 10
K1, B = 1.5, 0.75  # as the engine ranks chunks
STATIC_SHARE = 0.5
"""What the static score weighs beside BM25, both min-max scaled (design notes, function level)."""

Scores = np.ndarray  # (questions, codes)


@dataclass(frozen=True, slots=True)
class Case:
    """One package: question n is about code n."""

    package: str
    questions: list[str]
    codes: list[str]


def cases(pairs: Sequence[Pair]) -> list[Case]:
    """One case a held-out package."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.held_out and pair.kind == "doc":
            found[pair.package].append(pair)
    return [Case(name, [p.query for p in held], [p.code for p in held]) for name, held in found.items()]


def reciprocal_ranks(scores: Scores) -> np.ndarray:
    """1 / rank of the right code, 0 below the tenth place; what ties with it counts as better."""
    own = scores[np.arange(len(scores)), np.arange(len(scores))][:, None]
    ranks = (scores >= own).sum(axis=1)
    return np.where(ranks <= DEPTH, 1 / ranks, 0)


def by_words(case: Case) -> Scores:
    """BM25 over the terms that the index uses."""
    counted = [Counter(_terms(code)) for code in case.codes]
    lengths = np.array([sum(each.values()) for each in counted])
    uses = Counter(term for each in counted for term in each)
    mean = lengths.mean()
    scores = np.zeros((len(case.questions), len(case.codes)))
    postings = defaultdict(list)
    for number, each in enumerate(counted):
        for term, times in each.items():
            share = times * (K1 + 1) / (times + K1 * (1 - B + B * lengths[number] / mean))
            postings[term].append((number, share))
    for row, question in enumerate(case.questions):
        for term in query_terms(question):
            rarity = math.log(1 + (len(case.codes) - uses[term] + 0.5) / (uses[term] + 0.5))
            for number, share in postings[term]:
                scores[row, number] += rarity * share
    return scores


def _terms(code: str) -> list[str]:
    return [term for group in expand_words(split_words(code)) for term in group]


def by_rows(case: Case, rows: np.ndarray, cut: Callable[[str], np.ndarray]) -> Scores:
    """Cosines of the bags."""
    return bag_units(case.questions, rows, cut) @ bag_units(case.codes, rows, cut).T


def bag_units(texts: Sequence[str], rows: np.ndarray, cut: Callable[[str], np.ndarray]) -> np.ndarray:
    """The vectors of texts; a text without any piece counts as the first one."""
    bags = Bags.of([pieces if len(pieces) else np.zeros(1, dtype=np.int32) for pieces in map(cut, texts)])
    return normalize_rows(summed(rows, bags.pieces, bags.starts))


def fused(first: Scores, second: Scores, share: float = STATIC_SHARE) -> Scores:
    """The sum of both, min-max scaled by question."""
    return _spread(first) + share * _spread(second)


def _spread(scores: Scores) -> Scores:
    low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    return (scores - low) / np.where(high > low, high - low, 1)
