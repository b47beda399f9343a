"""PURE. One score from many signals: a weighted sum of normalized signals, times the prior.

Each signal is divided by its greatest value in the query. Reciprocal rank fusion over the same signals costs 0.05 NDCG,
one BM25F bag 0.18 (docs/decisions/archive/0005), so it stays a sum: every addend has a name and can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

WEIGHTS: Mapping[str, float] = {
    "chunk": 1.4,
    "top3": 1.75,
    "file": 1.0,
    "coverage": 0.4,
    "path": 0.4,
    "def": 0.35,
    "doc": 0.4,
    "name": 1.2,
    "symbol": 3.0,
    "mention": 0.9,
    "named": 6.0,
    "scope": 1.0,
    "importance": 0.3,
    "static": 1.0,
    "static3": 1.0,
    "static_card": 0.75,
    "model": 1.25,
    "model3": 1.25,
    "alike": 0.8,
    "together": 0.2,
    "recent": 0.3,
}
"""The one table of weights. Tuned on the dev and commit sets (evals/retrieval), then on these and 64 more repositories
(evals/wide): few scalars at a time, never all freely.

The last three are of the history, for tasks that change files: commits with similar subjects, files that change with
the best ones, files that change these days. Their unit is the score of the best file (evals/localisation).
"""

SCORE_DIGITS = 6
"""Scores are rounded before they are compared, so that the order of floating-point sums cannot break a tie."""
ABSOLUTE = frozenset({"name", "symbol", "mention", "named", "scope", "importance", "coverage"})
"""Signals that mean the same in every query and are not divided by the query's greatest value."""


def compute_shares(signals: Mapping[str, Floats], prior: Floats, weights: Mapping[str, float]) -> dict[str, Floats]:
    """Return the share of each signal in the score of each file. The sum over names is the score."""
    shares: dict[str, Floats] = {}
    for name, values in signals.items():
        weight = weights.get(name, 0.0)
        if not weight:
            continue
        if name in ABSOLUTE:
            top = 1.0
        else:
            top = float(values.max(initial=0.0))
        if top > 0:
            shares[name] = values * (prior * np.float32(weight / top))
    return shares


def sum_shares(shares: Mapping[str, Floats], files: int) -> Floats:
    """Return the score of each file."""
    score = np.zeros(files, np.float32)
    for values in shares.values():
        score += values
    return score
