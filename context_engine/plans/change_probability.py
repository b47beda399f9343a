"""PURE. How likely a task changes a file, and how likely the first steps of its plan name a changed file.

Two logistic models, fitted on 216 tasks of 17 repositories (evals/planning). A plan insists on the files that reach
`find_bar`, and offers the others to be looked through. It is ready only from `READY_MIN` on; else it asks.

>>> first = FileFacts(search_place=0, predicted_place=0, predicted_share=1.0, best_chance=0.4)
>>> fifth = FileFacts(search_place=4, predicted_place=4, predicted_share=0.7, best_chance=0.4)
>>> estimate_change(first) > find_bar([estimate_change(first)]) > estimate_change(fifth)
True
>>> estimate_readiness([0.75]) > READY_MIN > estimate_readiness([0.4])
True
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, prod
from typing import NamedTuple

CHANGE_MIN = 0.15
BEST_SHARE = 0.4
"""A plan insists on files from this share of the best probability on: a task with a clear first file changes few
others. docs/decisions/plans.md has the figures of other shares."""
BIAS = -6.04
SEARCH_PLACE, PREDICTED_SHARE, PREDICTED_PLACE = 1.57, 2.78, 1.02
TEST, DOCS, TEST_OF_MAIN, DATA = 0.77, 0.95, 2.21, 0.9
PATH_WORDS, TASK_WORDS, BEST_CHANCE = 1.16, 1.4, 2.24
"""The coefficients. Tests and documents begin lower in the search than they should: they have few words of code."""

READY_MIN = 0.7
"""In folds by repository 67 of 100 plans reach it, and 86 of 100 of those name a changed file in their first two steps
(docs/benchmarks.md)."""
NAMED_CHANCE = 0.82
"""Of 56 plans whose task names a symbol or path that was found, 50 named a changed file in their first two steps."""
WEAK_CHANCE = 0.5
"""The most for a task that the search probably does not answer: it is less than `READY_MIN`, so that no plan is called
ready under that warning."""
READY_BIAS, READY_CHANCE = -1.7, 4.27
FILES_MAX, CHANCE_MAX = 4, 0.9
"""Files of the first steps that count, and the most that one of them counts for."""


class FileFacts(NamedTuple):
    """The facts of one file.

    `search_place` and `predicted_place` count from 0, and are -1 for a file that was not found; `predicted_share` is
    that of the best score. A changelog is not `is_docs`: it changes with everything.
    `path_words` is the share of the words of the path that are in the task, `task_words` that of the
    words of the task that are in the path. `best_chance` is the probability that the best hit answers the task.
    """

    search_place: int = -1
    predicted_place: int = -1
    predicted_share: float = 0.0
    best_chance: float = 0.0
    is_test: bool = False
    is_docs: bool = False
    is_data: bool = False
    is_test_of_main: bool = False
    path_words: float = 0.0
    task_words: float = 0.0


def estimate_change(facts: FileFacts) -> float:
    """Return the probability that a task changes a file."""
    return _logistic(
        BIAS
        + SEARCH_PLACE * _discount(facts.search_place)
        + PREDICTED_SHARE * facts.predicted_share
        + PREDICTED_PLACE * _discount(facts.predicted_place)
        + TEST * facts.is_test
        + DOCS * facts.is_docs
        + DATA * facts.is_data
        + TEST_OF_MAIN * facts.is_test_of_main
        + PATH_WORDS * facts.path_words
        + TASK_WORDS * facts.task_words
        + BEST_CHANCE * facts.best_chance
    )


def find_bar(chances: Iterable[float]) -> float:
    """Return the probability from which on a plan insists on a file, by the probabilities of all its files.

    >>> find_bar([0.9, 0.3]), find_bar([0.3, 0.2]), find_bar([])
    (0.36000000000000004, 0.15, 0.15)
    """
    return max(CHANGE_MIN, BEST_SHARE * max(chances, default=0.0))


def estimate_readiness(chances: Iterable[float], *, is_named: bool = False, is_weak: bool = False) -> float:
    """Return the probability that the first steps name a file that the task changes, by the chances of their files.

    `is_named`: the task names a symbol or path that was found. `is_weak`: probably nothing here answers the task.
    """
    best = sorted(chances, reverse=True)[:FILES_MAX]
    combined = 1 - prod((1 - min(chance, CHANCE_MAX) for chance in best), start=1.0)
    chance = _logistic(READY_BIAS + READY_CHANCE * combined)
    if is_named:
        return max(chance, NAMED_CHANCE)
    return min(chance, WEAK_CHANCE) if is_weak else chance


def _discount(place: int) -> float:
    return 1 / (1 + place) if place >= 0 else 0.0


def _logistic(log_odds: float) -> float:
    return 1 / (1 + exp(-log_odds))
