"""PURE. One score from many signals: a weighted sum of normalized signals, times the prior.

Each signal is divided by its greatest value in the query. Reciprocal rank fusion over the same signals costs 0.05 NDCG,
one BM25F bag 0.18 (docs/decisions/archive/0005), so it stays a sum: every addend has a name and can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:  # listing tools reads the table, and loads no numpy
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]


class Signal(NamedTuple):
    """The weight of a signal in a score, its kind, and whether its values mean the same in every query.

    The values of the others are divided by the greatest one of the query.
    """

    weight: float
    kind: Literal["lexical", "semantic", "symbol", "structure", "history"] = "lexical"
    is_absolute: bool = False


SIGNALS: Mapping[str, Signal] = {
    "chunk": Signal(1.4),
    "top5": Signal(1.75),
    "file": Signal(1.0),
    "coverage": Signal(0.4, is_absolute=True),
    "path": Signal(0.4),
    "def": Signal(0.35, "symbol"),
    "doc": Signal(0.4),
    "name": Signal(1.2, "symbol", is_absolute=True),
    "symbol": Signal(3.0, "symbol", is_absolute=True),
    "mention": Signal(0.9, "symbol", is_absolute=True),
    "named": Signal(6.0, "symbol", is_absolute=True),
    "scope": Signal(1.0, "symbol", is_absolute=True),
    "importance": Signal(0.3, "structure", is_absolute=True),
    "static": Signal(1.0, "semantic"),
    "static3": Signal(1.0, "semantic"),
    "static_card": Signal(0.75, "semantic"),
    "model": Signal(1.25, "semantic"),
    "model3": Signal(1.25, "semantic"),
    "search": Signal(1.0, "history"),
    "alike": Signal(0.8, "history"),
    "together": Signal(0.2, "history"),
    "recent": Signal(0.3, "history"),
}
"""The one table of signals; one that is not here fails. Weights were tuned on the dev and commit sets
(evals/retrieval), then on these and 64 more repositories (evals/wide): few scalars at a time, never all freely.

The last four order the files of a task by the history: the score of the search, as a share of the best file's, commits
with similar subjects, files that change with the best ones, files that change these days (evals/localisation).
"""
WEIGHTS: Mapping[str, float] = {name: signal.weight for name, signal in SIGNALS.items()}
SCORE_DIGITS = 6
"""Scores are rounded before they are compared, so that the order of floating-point sums cannot break a tie."""


def compute_shares(signals: Mapping[str, Floats], prior: Floats, weights: Mapping[str, float]) -> dict[str, Floats]:
    """Return the share of each signal in the score of each file. The sum over names is the score.

    Each signal must have a weight.
    """
    shares: dict[str, Floats] = {}
    for name, values in signals.items():
        is_absolute = name in SIGNALS and SIGNALS[name].is_absolute
        top = 1.0 if is_absolute else float(values.max(initial=0.0))
        if weights[name] and top > 0:
            shares[name] = values * (prior * (weights[name] / top))
    return shares


def sum_shares(shares: Mapping[str, Floats], score: Floats) -> Floats:
    """Add the shares of each file to its score, in place, and return the score."""
    for values in shares.values():
        score += values
    return score
