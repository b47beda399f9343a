"""PURE. How likely the first steps of a drafted plan name a file that the task changes, and what to ask if not likely.

The model is logistic, of one fact: how likely one of the files of the first steps is changed, by the probabilities of
`change_probability.py`. It was fitted on 219 tasks of 17 repositories (evals/planning/readiness.py). The second half of
this file writes the criteria of drafted steps. A task that names a place is not asked about places.

>>> sure, vague = ReadinessFacts(chance=0.75), ReadinessFacts(chance=0.4)
>>> estimate_readiness(sure) > READY_MIN > estimate_readiness(vague)
True
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from math import exp, prod
from typing import NamedTuple

from context_engine.plans.changeset import AffectedFile, ChangeSet
from context_engine.plans.model import PlanStep

FIRST_STEPS = 2
"""An agent that has carried out these has seen what the task is about."""
LIKELY_TITLE = "Check possibly related files:"
"""How the title of a step begins whose files only search and history suggest; it does not count as a first step."""
READY_MIN = 0.7
"""In folds by repository 67 of 100 plans reach it, and 86 of 100 of those name a changed file in their first two steps
(docs/benchmarks.md)."""
NAMED = 0.82
"""Of 56 plans whose task names a symbol or path that was found, 50 named a changed file in their first two steps."""
WEAK = 0.5
"""The most for a task that the search probably does not answer: it is less than `READY_MIN`, so that no plan is called
ready under that warning."""
BIAS, CHANCE_WEIGHT = -1.7, 4.27
FILES_MAX, CHANCE_MAX = 4, 0.9
"""Files of the first steps that count, and the most that one of them counts for."""
PLACES_MAX = 4
"""Places that a question offers."""


class ReadinessFacts(NamedTuple):
    """The facts that separate right plans from wrong ones.

    `chance`: that the task changes one of the files of the first steps, as if each were independent of the others.
    `is_named`: the task names a symbol or path, and it was found. `is_weak`: the search says that probably nothing
    answers the task.
    """

    chance: float
    is_named: bool = False
    is_weak: bool = False


def read_facts(change: ChangeSet, steps: Sequence[PlanStep]) -> ReadinessFacts:
    """Return the facts of a drafted plan."""
    first = [step for step in steps[:FIRST_STEPS] if not step.title.startswith(LIKELY_TITLE)]
    files = {path for step in first for path in step.files_to_modify}
    scores = (file.score for file in change.files if file.path in files)
    return ReadinessFacts(combine_chances(scores), bool(change.of("definition", "reference")), change.best.is_weak)


def combine_chances(chances: Iterable[float]) -> float:
    """Return how likely one of some files is changed.

    >>> combine_chances([0.5, 0.5]), round(combine_chances([1.0]), 2), combine_chances([])
    (0.75, 0.9, 0.0)
    """
    best = sorted(chances, reverse=True)[:FILES_MAX]
    return 1 - prod((1 - min(chance, CHANCE_MAX) for chance in best), start=1.0)


def estimate_readiness(facts: ReadinessFacts) -> float:
    """Return the probability that the first steps name a file that the task changes."""
    chance = 1 / (1 + exp(-(BIAS + CHANCE_WEIGHT * facts.chance)))
    if facts.is_named:
        return max(chance, NAMED)
    return min(chance, WEAK) if facts.is_weak else chance


def ask_about_places(change: ChangeSet) -> Iterator[tuple[str, list[str]]]:
    """Yield the question which of the best places the change is in, with the places as candidates."""
    ranked = sorted(change.files, key=lambda file: (file.path != change.best.path, file.path != change.leader))[
        :PLACES_MAX
    ]
    if not ranked:
        return
    names = [_describe_place(file) for file in ranked]
    if len(names) == 1:
        yield f"Is the change in {names[0]}? If not, where?", [_format_place(ranked[0])]
        return
    yield f"Is the change in {', '.join(names[:-1])} or {names[-1]}?", [_format_place(file) for file in ranked]


def _describe_place(file: AffectedFile) -> str:
    symbol = next((proof.symbol for proof in file.evidence if proof.symbol and proof.line), "")
    return f"`{symbol}` ({file.path})" if symbol else file.path


def _format_place(file: AffectedFile) -> str:
    """Return a place as an answer names it: path, line and symbol, as far as they are known."""
    proof = next((proof for proof in file.evidence if proof.line), None)
    if proof is None:
        return file.path
    return f"{file.path}:{proof.line}" + (f" ({proof.symbol})" if proof.symbol else "")


# -- step criteria -----------------------------------------------------------------------------------------------------

# The criteria of drafted steps: each names a command, a file or a name, so that it can be checked.

PATHS_MAX = 3
"""Paths in the command of a criterion; of more, their first ones have to do."""


def criteria_of_commands(commands: Iterable[str]) -> tuple[str, ...]:
    """Return a criterion for each command: it passes.

    >>> criteria_of_commands(("make lint",)), criteria_of_paths(("src/a b.py",))
    (('`make lint` passes',), ("`git diff --stat HEAD -- 'src/a b.py'` lists the change",))
    """
    return tuple(f"`{command}` passes" for command in commands)


def criteria_of_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the criterion that files were changed, for steps that no command and no name can judge."""
    if not paths:
        return ()
    return (f"`git diff --stat HEAD -- {shlex.join(paths[:PATHS_MAX])}` lists the change",)


def criteria_of_names(*, gone: Iterable[str] = (), new: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the criteria that names are not defined any more, or are defined.

    >>> criteria_of_names(gone=["old"], new=["Store.read"])
    ('nothing is defined as `old` any more', '`Store.read` is defined')
    """
    absent = (f"nothing is defined as `{name}` any more" for name in gone)
    return (*absent, *(f"`{name}` is defined" for name in new))


def criteria_without_word(word: str) -> tuple[str, ...]:
    """Return the criterion that the files of a step do not contain a word any more.

    >>> criteria_without_word("lock_gate")
    ('`git grep -lwF lock_gate` lists none of these files',)
    """
    return (f"`git grep -lwF {shlex.quote(word)}` lists none of these files",)
