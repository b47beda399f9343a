"""PURE. What has to be known before somebody starts: names that mean several things or nothing, and rules that a task breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from context_engine.context.project_knowledge import Remembered
from context_engine.context.resolve_references import Reference
from context_engine.plans.changeset import ChangeSet, bare_name
from context_engine.plans.intent import TaskIntent
from context_engine.plans.model import PlanQuestion
from context_engine.text.words import STOP_WORDS, words

QUESTIONS_MAX = 6
CANDIDATES_MAX = 5
FLAT_FROM = 5
FLAT_SHARE = 0.9
"""When the fifth file is worth nine tenths of the first, none of them stands out."""
BINDING = frozenset(("rule", "decision", "decisions", "preferences"))
CLASH_WORDS = 2
"""Words of the task that a rule must speak of before it is asked whether the task breaks it."""
VAGUE = frozenset(
    "app application better bug bugs change changes clean cleaner cleanup code codebase enhance error errors everything faster fix "
    "fixes good great help improve improvement improvements issue issues less make more need nice nicer optimise optimize "
    "performance please polish problem problems project proper quality refactor refactoring repo repository some something stuff "
    "system thing things update updates want work working works".split()
)
"""Words that a task can be made of without saying what is to change."""
_FORBIDS = re.compile(
    r"\b(?:never|must not|mustn't|do not|don't|not allowed|avoid|no longer|forbidden|instead of)\b", re.IGNORECASE
)
TEXT_CHARS_MAX = 240


def find_questions(
    task: str, wanted: TaskIntent, change: ChangeSet, recalled: Sequence[Remembered]
) -> tuple[PlanQuestion, ...]:
    """What is open, what matters most first; ids count from q1."""
    told = [
        *_ask_about_names(wanted, change.references),
        *_ask_about_ranking(task, change),
        *_ask_about_rename(wanted),
        *_ask_about_rules(task, recalled),
    ]
    return tuple(
        PlanQuestion(id=f"q{number}", text=text, candidates=tuple(candidates[:CANDIDATES_MAX]))
        for number, (text, candidates) in enumerate(told[:QUESTIONS_MAX], 1)
    )


def _ask_about_names(wanted: TaskIntent, references: Sequence[Reference]) -> Iterator[tuple[str, list[str]]]:
    for each in references:
        if each.is_ambiguous:
            yield f"Which `{each.text.strip('`')}` is meant?", [str(place) for place in each.resolved]
        elif each.is_missing and wanted.kind != "add" and not _is_spelled_longer(each):  # what is to be added is new
            yield f"`{each.text.strip('`')}` was not found: is it new, or called otherwise?", [*each.near]


def _is_spelled_longer(reference: Reference) -> bool:
    """Whether the name is there with a mark at its end that people leave out: Ruby's `empty?`, `save!`, `name=`."""
    name = bare_name(reference)
    return any(near != name and near.rstrip("?!=") == name for near in reference.near)


def _ask_about_ranking(task: str, change: ChangeSet) -> Iterator[tuple[str, list[str]]]:
    """A ranking that says nothing is asked about, unless the task itself said where it belongs."""
    if change.of("definition", "reference"):
        return
    if change.files and _significant_words(task) <= VAGUE:
        yield (
            "The task does not say what is to change: which part, and how is it to be?",
            [each.path for each in change.files],
        )
        return
    if not change.files:
        yield "No file of this workspace has to do with the words of the task: where does it belong?", []
    elif len(change.curve) >= FLAT_FROM and change.curve[FLAT_FROM - 1] >= FLAT_SHARE:
        yield "No file stands out for this task: where does it belong?", [each.path for each in change.files]


def _ask_about_rename(wanted: TaskIntent) -> Iterator[tuple[str, list[str]]]:
    if wanted.kind == "rename" and not wanted.new_name:
        yield f"What is `{wanted.names[0]}` to be called?" if wanted.names else "What is the new name?", []


def _ask_about_rules(task: str, recalled: Sequence[Remembered]) -> Iterator[tuple[str, list[str]]]:
    """Rules and decisions that forbid something and speak of what the task speaks of."""
    asked = _significant_words(task)
    for each in recalled:
        said = " ".join((each.content or each.title).split())
        if each.type in BINDING and _FORBIDS.search(said) and len(asked & _significant_words(said)) >= CLASH_WORDS:
            yield (
                f"{each.quoted(TEXT_CHARS_MAX)}. Does this task go against it?",
                ["yes", "no"],
            )


def _significant_words(text: str) -> set[str]:
    return {word.lower() for word in words(text) if word.lower() not in STOP_WORDS and len(word) > 2}
