"""Draft a plan for a task from the repository alone: no model is asked, and nothing is written.

The files that `changeset` finds become steps with evidence. `confidence_score` is the highest probability of a file in
the first two steps; if it is too low, and for open points, the plan asks. The agent refines it.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from context_engine.context import (
    BINDING_TYPES,
    Command,
    KnowledgeEntry,
    ProjectKnowledge,
    PromptReference,
    find_commands,
)
from context_engine.plans.changeset import (
    READY_MIN,
    AffectedFile,
    ChangeSet,
    FileRelation,
    PlanRequest,
    PlanSources,
    bare_name,
    find_change_set,
    is_changelog,
    relation_of,
)
from context_engine.plans.model import (
    TASK_CHARS_MAX,
    Level,
    Milestone,
    Plan,
    PlanQuestion,
    PlanScope,
    PlanStep,
    TestingStrategy,
)
from context_engine.plans.plan_events import PlanningStatus, planning_status
from context_engine.search import Question
from context_engine.text import shorten_line

RECALLED_MAX = 12
CONSTRAINTS_MAX = 6
RULE_SHARE = 0.4
"""The least relevance of a rule compared with the best one: others hardly speak of the task (evals/planning)."""
CONSTRAINT_CHARS_MAX = 240
FOLDERS_MAX = 12
"""With more of them the top ones say as much."""


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A drafted plan, whether it needs answers first, and what it is based on: enough to complete another draft."""

    plan: Plan
    status: PlanningStatus
    request: PlanRequest
    change: ChangeSet
    commands: tuple[Command, ...]


def draft_plan(request: PlanRequest, sources: PlanSources) -> PlanDraft:
    """Draft a plan for a task. Raises: as `Engine.search` does, but never for a missing index."""
    commands = tuple(find_commands(sources.code))
    change = find_change_set(request, sources)
    objective = Question.of(request.task).objective
    drafts, later = draft_steps(change, commands)
    deferred = drafts[later:] if request.mvp_only else []
    steps = tuple(drafts[: len(drafts) - len(deferred)])
    plan = Plan(
        goal=objective,
        task=shorten_line(request.task, 0, TASK_CHARS_MAX) if request.task.strip() != objective else "",
        nice_to_have_features=tuple(draft.title for draft in deferred),
        steps=steps,
        provenance="core",
        uids_minted=len(steps),
    )
    made = PlanDraft(plan, "ready", request, change, commands)
    plan = complete_plan(plan, made, sources)
    questions = find_questions(change, is_likely_right=plan.confidence_score >= READY_MIN)
    plan = replace(plan, questions=questions)
    return dataclasses.replace(made, plan=plan, status=planning_status(plan))


def complete_plan(plan: Plan, base: PlanDraft, sources: PlanSources) -> Plan:
    """Return a plan with what follows from its steps: its confidence, and what its author left out.

    `base` is the draft for the same task from the repository.
    """
    parts = [("It works", ("high", "medium")), ("It is complete", ("low",))]
    members = [(name, tuple(step.uid for step in plan.steps if step.priority in levels)) for name, levels in parts]
    files = [path for step in plan.steps for path in step.files_to_modify]
    tests = [path for path in dict.fromkeys(files) if relation_of(path) == "test"]
    derived = {
        "scope": _scope(plan, base, sources.team),
        "milestones": tuple(Milestone(name, uids) for name, uids in members if uids),
        "testing_strategy": _testing_strategy(tests, base.commands),
    }
    unsaid = Plan(goal=plan.goal)
    missing = {name: value for name, value in derived.items() if getattr(plan, name) == getattr(unsaid, name)}
    first = {path for step in plan.steps[:FIRST_STEPS] if step.title != LIKELY_TITLE for path in step.files_to_modify}
    chance = max((file.score for file in base.change.files if file.path in first), default=0.0)
    return replace(plan, **missing, confidence_score=round(chance, 2))


def _testing_strategy(tests: Sequence[str], commands: Sequence[Command]) -> TestingStrategy:
    run = next((str(command) for command in commands if command.kind == "test"), "")
    files = ", ".join(tests[:TESTS_NAMED]) or "new tests next to the code"
    return TestingStrategy(f"{files}, run by {run}" if run else files)


def _scope(plan: Plan, base: PlanDraft, team: ProjectKnowledge) -> PlanScope:
    request = base.request
    files = list(dict.fromkeys(path for step in plan.steps for path in (*step.files_to_modify, *step.files_to_create)))
    folders = tuple(dict.fromkeys(folder_of(path) or "." for path in files))
    if len(folders) > FOLDERS_MAX:
        folders = tuple(dict.fromkeys(folder.partition("/")[0] for folder in folders))
    recalled = recall_rules(request.task, files, team)
    binding = tuple(memory.quote(CONSTRAINT_CHARS_MAX) for memory in recalled[:CONSTRAINTS_MAX])
    included = request.chosen.include_paths or (folders if request.with_scope else ())
    return PlanScope(included, request.chosen.exclude_paths, constraints=binding)


def recall_rules(task: str, files: Sequence[str], team: ProjectKnowledge) -> list[KnowledgeEntry]:
    """Return the rules for these files, and decisions, that the task may touch. Commits and changelogs are no rules."""
    found = team.recall(task, RECALLED_MAX, files or None) if team.recall else ()
    binding = (memory for memory in found if memory.type in BINDING_TYPES and not is_changelog(memory.path))
    rules = [memory for memory in binding if not memory.place.startswith("@")]
    best = max((rule.score for rule in rules), default=0.0)
    return [rule for rule in rules if rule.score >= RULE_SHARE * best]


# -- steps -------------------------------------------------------------------------------------------------------------

EVIDENCE_MAX = 40
FOCUS_MAX = 2
"""Tests or documents that a task about them is likely to change, when none of them is sure."""
TESTS_NAMED = 3
"""Test files that the testing strategy names."""
CRITERION_PATHS_MAX = 3
"""Paths in the command of a criterion; of more, their first ones have to do."""
FIRST_STEPS = 2
"""An agent that has carried out these has seen what the task is about."""
LIKELY_TITLE = "Check possibly related files"
"""The title of a step whose files only search and history suggest; it does not count as a first step."""
CHANGE, FIND_CAUSE = "Change", "Find and change the cause in"
TESTS, DOCUMENTS = "Update the tests in", "Update the documents:"
LIKELY_CRITERION = "`git diff --stat HEAD` lists only files of this plan"


def draft_steps(change: ChangeSet, commands: Sequence[Command]) -> tuple[list[PlanStep], int]:
    """Return all steps in an order in which they can be done, and the index from which they can wait.

    The main files come first, a step for each folder, then tests, then documents; and before them those that the task
    asks for by name.
    """
    steps: list[PlanStep] = []
    command = {command.kind: command.text for command in reversed(commands)}

    def checks(*kinds: str) -> tuple[str, ...]:
        return tuple(command[kind] for kind in kinds if kind in command)

    def certain(*parts: FileRelation) -> list[AffectedFile]:
        sure = [file for file in change.of(*parts) if change.insists_on(file)]
        return sure or (change.of(*parts)[:FOCUS_MAX] if change.roles.intersection(parts) else [])

    def add(
        verb: str,
        files: Sequence[AffectedFile],
        after: Iterable[int] = (),
        checks: tuple[str, ...] = (),
        priority: Level = "medium",
    ) -> None:
        """Add a step that waits for those at some places; none if it has no files."""
        if files:
            steps.append(_new_step(len(steps) + 1, verb, files, after, checks, priority))

    tests, docs, test_checks = certain("test"), certain("docs"), checks("test")
    if "test" in change.roles:
        add(TESTS, tests, (), test_checks, "high")
    if "docs" in change.roles:
        add(DOCUMENTS, docs, (), (), "low")
    start = len(steps)
    passing = checks("lint", "types") + (() if tests else test_checks)
    # Only a stack trace surely marks a symptom; the words of a task are not read.
    verb = FIND_CAUSE if change.has_failure else CHANGE
    folders: dict[str, list[AffectedFile]] = {}
    for file in certain("definition", "source"):
        folders.setdefault(folder_of(file.path), []).append(file)
    for files in folders.values():
        add(verb, files, (), passing, "high")
    code = range(start, len(steps)) or range(start)
    if "test" not in change.roles:
        add(TESTS, tests, code, test_checks, "high")
    later = len(steps)  # all steps from here on can be deferred
    if "docs" not in change.roles:
        add(DOCUMENTS, docs, code, (), "low")
    shown = {path for step in steps for path in step.files_to_modify}
    add(LIKELY_TITLE, [file for file in change.files if file.path not in shown], code, (), "low")
    return steps, later


def _format_title(verb: str, files: Sequence[AffectedFile]) -> str:
    """Format what is done, and where; of several files the first is named, as far as one is surer than others."""
    if verb == LIKELY_TITLE:
        return verb
    first, more = files[0], len(files) - 1
    kinds = ("definition", "search")
    symbol = next((proof.symbol for proof in first.evidence if proof.symbol and proof.kind in kinds), "")
    where = f"{symbol} ({first.path})" if symbol else first.path
    return f"{verb} {where}{f' and {more} more' if more else ''}"


def _new_step(
    number: int,
    verb: str,
    files: Sequence[AffectedFile],
    after: Iterable[int],
    checks: tuple[str, ...],
    priority: Level,
) -> PlanStep:
    """Return a step. It is done when its commands pass; without a command, by the files that change."""
    proofs = [proof for file in files for proof in file.evidence]
    criteria = tuple(f"`{command}` passes" for command in checks)
    if verb == LIKELY_TITLE:
        criteria = (LIKELY_CRITERION,)
    elif not checks:
        paths = shlex.join(file.path for file in files[:CRITERION_PATHS_MAX])
        criteria = (f"`git diff --stat HEAD -- {paths}` lists the change",)
    return PlanStep(
        uid=f"s{number}",
        title=_format_title(verb, files),
        files_to_modify=tuple(file.path for file in files),
        depends_on=tuple(f"s{at + 1}" for at in after),
        priority=priority,
        acceptance_criteria=criteria,
        checks=checks,
        evidence=tuple(proofs[:EVIDENCE_MAX]),
    )


def folder_of(path: str) -> str:
    """Return the folder of a path; empty at the top."""
    return path.rpartition("/")[0]


# -- questions ---------------------------------------------------------------------------------------------------------

QUESTIONS_MAX = 3
"""Of more, the first ones decide what the others mean."""
CANDIDATES_MAX = 5


def find_questions(change: ChangeSet, *, is_likely_right: bool) -> tuple[PlanQuestion, ...]:
    """Find open questions; ids count from q1. Places are asked for where a plan is unsure and no name is the reason."""
    open_points = [*_ask_about_names(change.references)] or [*_ask_about_places(change, is_likely_right)]
    return tuple(
        PlanQuestion(id=f"q{number}", text=text, candidates=tuple(candidates[:CANDIDATES_MAX]))
        for number, (text, candidates) in enumerate(open_points[:QUESTIONS_MAX], 1)
    )


def _ask_about_names(references: Sequence[PromptReference]) -> Iterator[tuple[str, list[str]]]:
    for reference in references:
        name, bare = f"`{reference.text.strip('`')}`", bare_name(reference.text)
        if reference.is_ambiguous:
            yield f"Which {name} is meant?", [str(place) for place in reference.places]
        # People leave out the final mark of Ruby's `empty?`, `save!`, `name=`.
        elif reference.is_missing and not any(near != bare and near.rstrip("?!=") == bare for near in reference.near):
            yield f"{name} was not found: is it new, or does it have another name?", [*reference.near]


def _ask_about_places(change: ChangeSet, is_likely_right: bool) -> Iterator[tuple[str, list[str]]]:
    """Ask where a task belongs of which nothing is found, and about a ranking that is probably wrong."""
    if not change.files:
        yield "No file of this workspace matches the words of the task: where does it belong?", []
    elif not is_likely_right:
        yield "Is the change in one of the places of these steps? If not, where?", []
