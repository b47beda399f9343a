"""PURE.

What other weights would have done: a score is a sum of named addends, so it can be summed anew without asking again.

A `Sheet` holds the addends of one answered question, one row for each place that was shown. Which places were compared
and shown is taken as it was; how they rank is what the weights decide.

>>> sheet = Sheet("shop", "questions", ("chunk", "name"), np.float32([[3, 0], [2, 2]]), (np.array([1]),))
>>> sheet.ndcg(np.float32([[1, 1], [0, 1]])).round(2).tolist()  # by two choices of weights, one a column
[0.63, 1.0]
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

SETS = ("questions", "commits")
FOUND_BY_NOTHING = "importance"
"""The signal that finds no file by itself (`search.searcher`)."""
FOLDS = 7
DRAWS = 16
SPREAD = 0.2
"""One question that flips moves a mean by .001 to .003. The mean over weights some 20 % around moves by a tenth of
that."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The places of one answer: `addends` has a row for each and a column for each of `names`, for a weight of 1.

    `hits` gives, for each target of the question, the rows that show it.
    """

    repo: str
    kind: str
    names: tuple[str, ...]
    addends: Floats
    hits: tuple[npt.NDArray[np.intp], ...]
    category: str = ""

    def ndcg(self, weights: Floats) -> npt.NDArray[np.float64]:
        """NDCG@10 for each column of `weights`, which has a row for each name."""
        scores = self._scores(weights)
        found = np.sort([self._rank(scores, rows) for rows in self.hits], axis=0)
        gains = np.where(found <= 10, 1 / np.log2(found + 1), 0)
        gains[1:][found[1:] == found[:-1]] = 0  # two targets that one row shows
        return gains.sum(axis=0) / sum(1 / math.log2(place + 2) for place in range(min(10, len(self.hits))))

    def _scores(self, weights: Floats) -> Floats:
        scores = self.addends @ weights
        if FOUND_BY_NOTHING in self.names:
            lone = self.names.index(FOUND_BY_NOTHING)
            scores[(scores - np.outer(self.addends[:, lone], weights[lone])) <= 1e-6] = 0
        return scores

    def _rank(self, scores: Floats, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """The rank of a target: that of the best row that shows it; of equal rows the one that stood higher comes first."""
        if not len(rows):
            return np.full(scores.shape[1], np.inf)
        best = rows[scores[rows].argmax(axis=0)]
        own = scores[best, np.arange(scores.shape[1])]
        before = (scores == own) & (np.arange(len(scores))[:, None] < best)
        return np.where(own > 0, ((scores > own) | before).sum(axis=0) + 1.0, np.inf)


@dataclass(frozen=True, slots=True)
class Scores:
    """NDCG@10 by set, then repository: one row a question, one column a choice of weights."""

    by_set: Mapping[str, Mapping[str, npt.NDArray[np.float64]]]

    @classmethod
    def of(cls, sheets: Sequence[Sheet], weights: Floats, draws: int = 1) -> Scores:
        """Each sheet by each column of weights; `draws` columns in a row are one choice, and their mean counts."""
        rows: dict[str, dict[str, list[npt.NDArray[np.float64]]]] = {name: {} for name in SETS}
        for sheet in sheets:
            figures = sheet.ndcg(weights).reshape(-1, draws).mean(axis=1)
            rows[sheet.kind].setdefault(sheet.repo, []).append(figures)
        return cls({kind: {repo: np.stack(each) for repo, each in found.items()} for kind, found in rows.items()})

    def means(self, repos: frozenset[str] | None = None) -> dict[str, npt.NDArray[np.float64]]:
        """By set: questions as the mean over repositories, commits over all of them; a set without any is left out."""
        kept = {
            kind: [figures for repo, figures in found.items() if repos is None or repo in repos]
            for kind, found in self.by_set.items()
        }
        means = {}
        if kept["questions"]:
            means["questions"] = np.mean([figures.mean(axis=0) for figures in kept["questions"]], axis=0)
        if kept["commits"]:
            means["commits"] = np.concatenate(kept["commits"]).mean(axis=0)
        return means

    def pooled(self, repo: str) -> npt.NDArray[np.float64]:
        """The mean over all that was asked of one repository, whichever set it stands in."""
        return np.concatenate([found[repo] for found in self.by_set.values() if repo in found]).mean(axis=0)

    @property
    def repos(self) -> list[str]:
        """The repositories of any set."""
        return sorted({repo for found in self.by_set.values() for repo in found})


def column(names: Sequence[str], weights: Mapping[str, float]) -> Floats:
    """Weights as one column; a name that is not weighed has 0."""
    return np.array([[weights.get(name, 0.0)] for name in names], np.float32)


def around(weights: Floats, *, draws: int = DRAWS, spread: float = SPREAD, seed: int = 0) -> Floats:
    """Each column `draws` times, every weight some `spread` more or less; the same draws for every column.

    >>> around(np.float32([[1.0], [0.0]]), draws=3).shape, around(np.float32([[2.0]]), spread=0.0, draws=2).tolist()
    ((2, 3), [[2.0, 2.0]])
    """
    factors = np.exp(np.random.default_rng(seed).normal(0, spread, (len(weights), 1, draws)))
    return (weights[:, :, None] * factors).reshape(len(weights), -1).astype(np.float32)


def grid(weights: Mapping[str, float], scalars: Mapping[str, Sequence[str]], steps: Sequence[float]) -> list[Choice]:
    """Every choice of one step for each scalar, which multiplies the weights it names.

    >>> [each.weights["a"] for each in grid({"a": 2.0, "b": 1.0}, {"a": ["a"]}, [0.5, 1.0])]
    [1.0, 2.0]
    """
    choices = []
    for taken in product(steps, repeat=len(scalars)):
        moved = dict(weights)
        for step, names in zip(taken, scalars.values(), strict=True):
            moved |= {name: weights[name] * step for name in names if name in weights}
        choices.append(Choice(dict(zip(scalars, taken, strict=True)), moved))
    return choices


@dataclass(frozen=True, slots=True)
class Choice:
    """By how much each scalar is multiplied, and the weights that gives."""

    steps: Mapping[str, float]
    weights: Mapping[str, float]


def folds_of(repos: Sequence[str], folds: int = FOLDS) -> list[frozenset[str]]:
    """The repositories dealt out, each to one fold.

    >>> [sorted(fold) for fold in folds_of(["a", "b", "c"], 2)]
    [['a', 'c'], ['b']]
    """
    ordered = sorted(set(repos))
    dealt = (frozenset(ordered[number::folds]) for number in range(folds))
    return [fold for fold in dealt if fold]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What was chosen on all other repositories, and the means of all folds, each by its own choice."""

    choices: tuple[int, ...]
    means: Mapping[str, float]


def held_out(tiers: Sequence[Scores], folds: Sequence[frozenset[str]]) -> list[HeldOut]:
    """For each tier: every fold by the choice that is best for all tiers together on the other folds.

    Best is the mean over the sets, half the weight each.
    """
    every = frozenset().union(*folds)
    choices = tuple(_best(tiers, every - fold or every) for fold in folds)
    return [HeldOut(choices, _joined(tier, folds, choices)) for tier in tiers]


def _best(tiers: Sequence[Scores], repos: frozenset[str]) -> int:
    figures = [np.mean(list(means.values()), axis=0) for tier in tiers if (means := tier.means(repos))]
    return int(np.mean(figures, axis=0).round(9).argmax())


def _joined(tier: Scores, folds: Sequence[frozenset[str]], choices: Sequence[int]) -> dict[str, float]:
    """The means over all folds, as if one choice had been made for each."""
    taken: dict[str, dict[str, npt.NDArray[np.float64]]] = {kind: {} for kind in SETS}
    for fold, choice in zip(folds, choices, strict=True):
        for kind, found in tier.by_set.items():
            taken[kind] |= {repo: found[repo][:, [choice]] for repo in fold if repo in found}
    return {kind: float(each[0]) for kind, each in Scores(taken).means().items()}


def mean_by(sheets: Sequence[Sheet], weights: Floats, key: Callable[[Sheet], str]) -> dict[str, float]:
    """The mean over questions by one column of weights, grouped."""
    groups: dict[str, list[float]] = {}
    for sheet in sheets:
        groups.setdefault(key(sheet), []).append(float(sheet.ndcg(weights).mean()))
    return {name: statistics.mean(figures) for name, figures in groups.items()}
