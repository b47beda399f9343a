"""PURE. How likely a task changes a file, by what search, history, names and paths say of it.

A logistic model of eleven facts, fitted on 216 tasks of 17 repositories (evals/planning). A plan insists on the files
that reach `find_bar`, and offers the others to be looked through.

>>> first = FileFacts(search_place=0, predicted_place=0, predicted_share=1.0, best_chance=0.4)
>>> fifth = FileFacts(search_place=4, predicted_place=4, predicted_share=0.7, best_chance=0.4)
>>> estimate_change(first) > find_bar([estimate_change(first)]) > estimate_change(fifth)
True
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp
from typing import NamedTuple

CHANGE_MIN = 0.15
BEST_SHARE = 0.4
"""A plan insists on files from this share of the best probability on: a task with a clear first file changes few
others. docs/decisions/0128 has the figures of other shares."""
BIAS = -6.04
SEARCH_PLACE, PREDICTED_SHARE, PREDICTED_PLACE, NAMED = 1.57, 2.78, 1.02, 1.64
TEST, DOCS, TEST_OF_MAIN, DATA = 0.77, 0.95, 2.21, 0.9
PATH_WORDS, TASK_WORDS, BEST_CHANCE = 1.16, 1.4, 2.24
"""The coefficients. Tests and documents begin lower in the search than they should: they have few words of code."""


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
    is_named: bool = False
    is_test: bool = False
    is_docs: bool = False
    is_data: bool = False
    is_test_of_main: bool = False
    path_words: float = 0.0
    task_words: float = 0.0


def estimate_change(facts: FileFacts) -> float:
    """Return the probability that a task changes a file."""
    log_odds = (
        BIAS
        + SEARCH_PLACE * _discount(facts.search_place)
        + PREDICTED_SHARE * facts.predicted_share
        + PREDICTED_PLACE * _discount(facts.predicted_place)
        + NAMED * facts.is_named
        + TEST * facts.is_test
        + DOCS * facts.is_docs
        + DATA * facts.is_data
        + TEST_OF_MAIN * facts.is_test_of_main
        + PATH_WORDS * facts.path_words
        + TASK_WORDS * facts.task_words
        + BEST_CHANCE * facts.best_chance
    )
    return 1 / (1 + exp(-log_odds))


def find_bar(chances: Iterable[float]) -> float:
    """Return the probability from which on a plan insists on a file, by the probabilities of all its files.

    >>> find_bar([0.9, 0.3]), find_bar([0.3, 0.2]), find_bar([])
    (0.36000000000000004, 0.15, 0.15)
    """
    return max(CHANGE_MIN, BEST_SHARE * max(chances, default=0.0))


def _discount(place: int) -> float:
    return 1 / (1 + place) if place >= 0 else 0.0
