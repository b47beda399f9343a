"""Draft a plan for a task from the repository alone: no model is asked, and nothing is written.

The names in the task are looked up. Their files, the files that use them, and files that search and history suggest
become steps with evidence. `confidence_score` is the probability that the first two steps name a changed file; if it is
too low, and for open points, the plan asks. The agent knows what the task asks for, and refines the plan.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from context_engine.context import (
    BINDING_TYPES,
    Command,
    ProjectKnowledge,
    PromptReference,
    RememberedItem,
    extract_objective,
    find_commands,
)
from context_engine.errors import CallError
from context_engine.plans.change_probability import READY_MIN, estimate_readiness
from context_engine.plans.changeset import (
    AffectedFile,
    ChangeSet,
    FileRelation,
    Imports,
    PlanRequest,
    PlanSources,
    bare_name,
    find_change_set,
    folder_of,
    group_files,
    significant_words,
)
from context_engine.plans.model import (
    LEVELS,
    TASK_CHARS_MAX,
    Level,
    Milestone,
    Plan,
    PlanArchitecture,
    PlanQuestion,
    PlanRisk,
    PlanScope,
    PlanStep,
    TestingStrategy,
)
from context_engine.plans.plan_events import planning_status
from context_engine.text import shorten_line

DraftStatus = Literal["ready", "needs_clarification", "needs_refinement", "draft_rejected"]

IMPORTS_READ_MAX = 40
"""Files whose imports are read for the order of steps; behind them the order of the files has to do."""
RECALLED_MAX = 12
CONSTRAINTS_MAX = 6
RULE_SHARE = 0.4
"""The least relevance of a rule compared with the best one: others hardly speak of the task (evals/planning)."""
CONSTRAINT_CHARS_MAX = 240
FOLDERS_MAX = 12
"""With more of them the top ones say as much."""


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A drafted plan, whether it needs answers first, and what it is based on."""

    plan: Plan
    status: DraftStatus
    change: ChangeSet
    commands: tuple[Command, ...]
    scope_source: Literal["names", "search", "none"]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sources that were missing."""
        return self.change.warnings


def draft_plan(request: PlanRequest, sources: PlanSources) -> PlanDraft:
    """Draft a plan for a task. Raises: as `Engine.search` does, but never for a missing index."""
    commands = tuple(find_commands(sources.code))
    change = find_change_set(request, commands, sources)
    objective = extract_objective(request.task)
    task = PlanTask(change, _read_imports(change, sources), commands)
    drafts, later = draft_steps(task)
    deferred = drafts[later:] if request.mvp_only else []
    steps = tuple(_new_step(number, draft) for number, draft in enumerate(drafts[: len(drafts) - len(deferred)], 1))
    chance = _estimate_readiness(change, steps)
    recalled = recall_rules(request.task, [file.path for file in change.files], sources.team)
    plan = Plan(
        goal=objective,
        task=shorten_line(request.task, 0, TASK_CHARS_MAX),
        scope=_scope(request, change, recalled),
        mvp_features=(objective,),
        nice_to_have_features=tuple(draft.title for draft in deferred),
        architecture=PlanArchitecture(notes=_notes(change, task)),
        risks=find_risks(change, sources),
        milestones=_milestones(steps),
        steps=steps,
        testing_strategy=_testing_strategy(change, commands),
        confidence_score=round(chance, 2),
        questions=find_questions(request.task, change, is_likely_right=chance >= READY_MIN),
        evidence=tuple(proof for file in change.files[: request.files_max] for proof in file.evidence[:1]),
        provenance="core",
        uids_minted=len(steps),
    )
    source = "search" if change.files else "none"
    return PlanDraft(plan, planning_status(plan), change, commands, "names" if change.of("definition") else source)


# -- steps -------------------------------------------------------------------------------------------------------------

EVIDENCE_MAX = 40
FOCUS_MAX = 2
"""Tests or documents that a task about them is likely to change, when none of them is sure."""
CRITERION_PATHS_MAX = 3
"""Paths in the command of a criterion; of more, their first ones have to do."""
FIRST_STEPS = 2
"""An agent that has carried out these has seen what the task is about."""
LIKELY_TITLE = "Check possibly related files:"
"""How the title of a step begins whose files only search and history suggest; it does not count as a first step."""
LIKELY_CRITERION = "`git diff --stat HEAD` lists only files of this plan"


@dataclass(frozen=True, slots=True)
class PlanTask:
    """The basis of the steps: the files of the task, their imports, and the commands."""

    change: ChangeSet
    imports: Imports
    commands: tuple[Command, ...]

    def command(self, *kinds: str) -> tuple[str, ...]:
        """Return the first command of each of these kinds."""
        first = {command.kind: command.text for command in reversed(self.commands)}
        return tuple(first[kind] for kind in kinds if kind in first)

    def certain(self, *parts: FileRelation) -> list[AffectedFile]:
        """Return the certain files of these relations; of tests or documents that the task asks for the likeliest."""
        sure = [file for file in self.change.of(*parts) if self.change.insists_on(file)]
        return sure or (self.change.of(*parts)[:FOCUS_MAX] if self.change.roles.intersection(parts) else [])


class StepDraft(NamedTuple):
    """A step without its name: `after` are the drafts that it waits for, by their place in the list."""

    title: str
    says: str
    files: Sequence[AffectedFile]
    checks: tuple[str, ...] = ()
    priority: Level = "medium"
    after: tuple[int, ...] = ()

    @property
    def criteria(self) -> tuple[str, ...]:
        """When it is done: its commands pass; without a command, by the files that change."""
        paths = [file.path for file in self.files[:CRITERION_PATHS_MAX]]
        if self.title.startswith(LIKELY_TITLE):
            return (LIKELY_CRITERION,)
        if self.checks:
            return tuple(f"`{command}` passes" for command in self.checks)
        return (f"`git diff --stat HEAD -- {shlex.join(paths)}` lists the change",)


def draft_steps(task: PlanTask) -> tuple[list[StepDraft], int]:
    """Return all drafts in an order in which they can be done, and the index from which they can wait.

    Definitions come before their uses, then tests, then documents; those first that the task asks for by name.
    """
    tests, docs = list(_test_drafts(task)), list(_doc_drafts(task))
    roles = task.change.roles
    first = [*(tests if "test" in roles else ()), *(docs if "docs" in roles else ())]
    drafts = list(first)
    start = len(drafts)
    main = _main_drafts(task)
    drafts += [draft._replace(after=tuple(start + at for at in draft.after)) for draft in main]
    code = tuple(range(start, len(drafts))) or tuple(range(start))
    drafts += [draft._replace(after=code) for draft in _related_drafts(task)]
    code = tuple(range(start, len(drafts))) or code
    drafts += [draft._replace(after=code) for draft in tests if draft not in first]
    later = len(drafts)  # all steps from here on can be deferred
    drafts += [draft._replace(after=code) for draft in docs if draft not in first]
    drafts += [draft._replace(after=code) for draft in _remaining_drafts(task, drafts)]
    return drafts, later


def _main_drafts(task: PlanTask) -> list[StepDraft]:
    """Return the main drafts, one per folder."""
    files = {file.path: file for file in task.certain("definition", "source", "migration")}
    named = [path for path, file in files.items() if file.part == "definition"]
    # Only what the task names is put in the order of its imports; of the rest, the surest comes first.
    groups = group_files(list(files), {path: task.imports.get(path, ()) for path in named})
    checks = task.command("lint", "types") + (() if task.certain("test") else task.command("test"))
    return [
        StepDraft(
            _format_title("Change", [files[path] for path in group.paths]),
            "Do what the task says here.",
            [files[path] for path in group.paths],
            checks,
            "high",
            after=group.needs,
        )
        for group in groups
    ]


_RELATED: tuple[tuple[FileRelation, str, str], ...] = (
    ("config", "Update the configuration in", "Change it where the task changes what is configured."),
    (
        "partner",
        "Change what usually changes together:",
        "Nearly every commit that changed the one changed the other.",
    ),
)
"""Relation, the beginning of the title, and what is to be done."""


def _related_drafts(task: PlanTask) -> Iterator[StepDraft]:
    """Yield the drafts for files that use, configure, or always change with what is changed."""
    if uses := task.change.of("reference"):
        says = "They use what the task names: change those that depend on what was changed."
        yield StepDraft(_format_title("Check the uses in", uses), says, uses, task.command("lint", "types"))
    for part, title, says in _RELATED:
        if files := task.certain(part):
            yield StepDraft(_format_title(title, files), says, files, task.command("lint", "types"))


def _test_drafts(task: PlanTask) -> Iterator[StepDraft]:
    """Yield the draft for the tests."""
    if files := task.certain("test"):
        says = "Update the tests to the new behavior, and test what is new."
        yield StepDraft(_format_title("Update the tests in", files), says, files, task.command("test"), "high")


def _doc_drafts(task: PlanTask) -> Iterator[StepDraft]:
    if files := task.certain("docs"):
        says = "Describe what is different for users; add a line to the changelog."
        yield StepDraft(_format_title("Update the documents:", files), says, files, (), "low")


def _remaining_drafts(task: PlanTask, drafts: Sequence[StepDraft]) -> Iterator[StepDraft]:
    """Yield a draft for the files in no other step."""
    shown = {file.path for draft in drafts for file in draft.files}
    files = [file for file in task.change.files if file.path not in shown]
    if files:
        says = "Only search and history suggest these. Read the places, and change what the task affects."
        yield StepDraft(_format_title(LIKELY_TITLE, files), says, files, (), "low")


def _format_title(verb: str, files: Sequence[AffectedFile]) -> str:
    """Format what is done, and where; of several files the first is named."""
    first, more = files[0], len(files) - 1
    kinds = ("definition", "search")
    symbol = next((proof.symbol for proof in first.evidence if proof.symbol and proof.kind in kinds), "")
    where = f"{symbol} ({first.path})" if symbol else first.path
    return f"{verb} {where}{f' and {more} more' if more else ''}"


def _new_step(number: int, draft: StepDraft) -> PlanStep:
    proofs = [proof for file in draft.files for proof in file.evidence]
    return PlanStep(
        uid=f"s{number}",
        title=draft.title,
        description=draft.says,
        files_to_modify=tuple(file.path for file in draft.files),
        depends_on=tuple(f"s{at + 1}" for at in draft.after),
        priority=draft.priority,
        acceptance_criteria=draft.criteria,
        checks=draft.checks,
        evidence=tuple(proofs[:EVIDENCE_MAX]),
    )


def _estimate_readiness(change: ChangeSet, steps: Sequence[PlanStep]) -> float:
    first = [step for step in steps[:FIRST_STEPS] if not step.title.startswith(LIKELY_TITLE)]
    files = {path for step in first for path in step.files_to_modify}
    chances = [file.score for file in change.files if file.path in files]
    return estimate_readiness(chances, is_named=bool(change.of("definition")), is_weak=change.best.is_weak)


# -- the basis of the steps --------------------------------------------------------------------------------------------


def _read_imports(change: ChangeSet, sources: PlanSources) -> dict[str, set[str]]:
    """Return the imports of the affected files, as far as they are read."""
    found: dict[str, set[str]] = {}
    for file in change.of("definition", "source", "reference", "migration")[:IMPORTS_READ_MAX]:
        try:
            found[file.path] = set(map(str, sources.code.symbols.dependencies(file.path)))
        except CallError:
            continue
    return found


def recall_rules(task: str, files: Sequence[str], team: ProjectKnowledge) -> list[RememberedItem]:
    """Return the rules for these files, and decisions, that the task may touch. Commits are no rules."""
    found = team.recall(task, RECALLED_MAX, files or None) if team.recall else ()
    rules = [memory for memory in found if memory.type in BINDING_TYPES and not memory.place.startswith("@")]
    best = max((rule.score for rule in rules), default=0.0)
    return [rule for rule in rules if rule.score >= RULE_SHARE * best]


# -- questions ---------------------------------------------------------------------------------------------------------

QUESTIONS_MAX = 3
"""Of more, the first ones decide what the others mean."""
CANDIDATES_MAX = 5
PLACES_MAX = 4
"""Places that a question offers."""


def find_questions(task: str, change: ChangeSet, *, is_likely_right: bool) -> tuple[PlanQuestion, ...]:
    """Find open questions, the most important first; ids count from q1.

    A plan that is not `is_likely_right` asks which of the best places is meant.
    """
    open_points = [*_ask_about_names(change.references), *_ask_about_places(task, change, is_likely_right)]
    return tuple(
        PlanQuestion(id=f"q{number}", text=text, candidates=tuple(candidates[:CANDIDATES_MAX]))
        for number, (text, candidates) in enumerate(open_points[:QUESTIONS_MAX], 1)
    )


def _ask_about_names(references: Sequence[PromptReference]) -> Iterator[tuple[str, list[str]]]:
    for reference in references:
        name = f"`{reference.text.strip('`')}`"
        if reference.is_ambiguous:
            yield f"Which {name} is meant?", [str(place) for place in reference.places]
        elif reference.is_missing and not _is_spelled_longer(reference):
            yield f"{name} was not found: is it new, or does it have another name?", [*reference.near]


def _is_spelled_longer(reference: PromptReference) -> bool:
    """Return whether the name exists with a final mark that people leave out: Ruby's `empty?`, `save!`, `name=`."""
    name = bare_name(reference)
    return any(near != name and near.rstrip("?!=") == name for near in reference.near)


def _ask_about_places(task: str, change: ChangeSet, is_likely_right: bool) -> Iterator[tuple[str, list[str]]]:
    """Ask about a task that says nothing, and about a ranking that is probably wrong."""
    ranked = sorted(change.files, key=lambda file: (file.path != change.best.path, file.path != change.leader))
    places = [_format_place(file) for file in ranked[:PLACES_MAX]]
    if not change.files:
        yield "No file of this workspace matches the words of the task: where does it belong?", []
    elif len(significant_words(task)) < 2:
        yield "The task does not say what to change: which part, and what should it be like?", places
    elif not is_likely_right:
        names = [_describe_place(file) for file in ranked[:PLACES_MAX]]
        text = f"{', '.join(names[:-1])} or {names[-1]}?" if len(names) > 1 else f"{names[0]}? If not, where?"
        yield f"Is the change in {text}", places


def _describe_place(file: AffectedFile) -> str:
    symbol = next((proof.symbol for proof in file.evidence if proof.symbol and proof.line), "")
    return f"`{symbol}` ({file.path})" if symbol else file.path


def _format_place(file: AffectedFile) -> str:
    """Return a place as an answer names it: path, line and symbol, as far as they are known."""
    proof = next((proof for proof in file.evidence if proof.line), None)
    if proof is None:
        return file.path
    return f"{file.path}:{proof.line}" + (f" ({proof.symbol})" if proof.symbol else "")


# -- risks -------------------------------------------------------------------------------------------------------------

RISKS_MAX = 8
FILES_ASSESSED_MAX = 5
"""Main files that are asked about; a plan with more has its risks elsewhere."""
HOT_SHARE = 10
"""One file in ten is hot: those that are changed most these days."""
HOT_MAX = 50
LONG_LINES = 300
"""Churn alone is work, churn in a long file is where mistakes are made (churn x size predicts them best of what is
cheap)."""
IMPORTERS_MIN = 10
AUTHORS_MIN = 4
"""With this many authors, no one knows a file alone."""
AUTHOR_COMMITS_MIN = 2
"""A single commit does not make an author familiar with a file."""
_SECRET = re.compile(
    r"(?:^|[/_.-])(?:auth\w*|login|session|passwords?|secrets?|tokens?|crypto?\w*|permissions?|acl|oauth\w*|jwt|csrf|sso)(?:[/_.-]|$)",
    re.IGNORECASE,
)


def find_risks(change: ChangeSet, sources: PlanSources) -> tuple[PlanRisk, ...]:
    """Find risks in the data, the likeliest first."""
    main = change.main()[:FILES_ASSESSED_MAX]
    found = [*_migration_risks(change), *(risk for file in main for risk in _file_risks(file, change, sources))]
    return tuple(sorted(dict.fromkeys(found), key=lambda risk: LEVELS.index(risk.likelihood)))[:RISKS_MAX]


def _migration_risks(change: ChangeSet) -> Iterator[PlanRisk]:
    for file in change.of("migration")[:1]:
        yield PlanRisk(
            f"{file.path} is a migration: existing data has to survive",
            "Write the reverse migration as well, and try both on a copy of real data.",
            "high",
        )


def _file_risks(file: AffectedFile, change: ChangeSet, sources: PlanSources) -> Iterator[PlanRisk]:
    try:
        importers = len(sources.code.symbols.importers(file.path))
    except CallError:
        importers = 0
    if importers >= IMPORTERS_MIN:
        yield PlanRisk(
            f"{importers} files import {file.path}",
            "Keep the names and arguments that others use, or change all of them in the same commit.",
        )
    yield from _history_risks(file, sources)
    if file.part in ("definition", "source") and not change.of("test"):
        yield PlanRisk(
            f"no test is named after {file.path}, and none was found for the task",
            "Write a test of its present behavior before you change it.",
            "high",
        )
    if _SECRET.search(file.path):
        yield PlanRisk(
            f"{file.path} controls access or contains secrets",
            "Have another person review the change; test what must be refused.",
        )


def _history_risks(file: AffectedFile, sources: PlanSources) -> Iterator[PlanRisk]:
    record = sources.past.record(file.path) if sources.past else None
    if record is None or sources.past is None:
        return
    hot = [getattr(one, "path", "") for one in sources.past.list_hot_files(HOT_MAX)]
    lines = _lines(file.path, sources)
    if file.path in hot[: max(1, len(hot) // HOT_SHARE)] and lines >= LONG_LINES:
        yield PlanRisk(
            f"{file.path} has {lines:,} lines and is among the files that change most ({record.commits} commits)",
            "Keep the change small and merge it soon: others are changing the same file.",
        )
    authors = [name for name, commits in record.authors if commits >= AUTHOR_COMMITS_MIN]
    if len(authors) >= AUTHORS_MIN:
        yield PlanRisk(
            f"{len(authors)} people have changed {file.path} more than once",
            f"Ask {authors[0]}, the most frequent author, before you change its behavior.",
            "low",
        )


def _lines(path: str, sources: PlanSources) -> int:
    try:
        return sources.code.symbols.outline(path).lines
    except CallError:
        return 0


# -- the rest of the plan ---------------------------------------------------------------------------------------------


def _scope(request: PlanRequest, change: ChangeSet, recalled: Iterable[RememberedItem]) -> PlanScope:
    folders = tuple(dict.fromkeys(folder_of(file.path) or "." for file in change.files))
    if len(folders) > FOLDERS_MAX:
        folders = tuple(dict.fromkeys(folder.partition("/")[0] for folder in folders))
    means = (
        f"`{reference.text.strip('`')}` means {reference.places[0]}"
        for reference in change.references
        if len(reference.places) == 1 and not reference.more
    )
    binding = (memory.quote(CONSTRAINT_CHARS_MAX) for memory in recalled)
    included = request.chosen.include_paths or (folders if request.with_scope else ())
    return PlanScope(included, request.chosen.exclude_paths, tuple(means), tuple(binding)[:CONSTRAINTS_MAX])


def _notes(change: ChangeSet, task: PlanTask) -> str:
    """Describe which folders are touched, and which of them import which."""
    groups = group_files([file.path for file in change.of("definition", "source")], task.imports)
    names = [folder_of(group.paths[0]) or "the top folder" for group in groups]
    touched = []
    for name, group in zip(names, groups, strict=True):
        needs = " and ".join(names[at] for at in group.needs)
        count = f"{len(group.paths)} file{'s' * (len(group.paths) != 1)}"
        touched.append(f"{name} ({count}{f', imports {needs}' if needs else ''})")
    more = [f"and {len(touched) - FOLDERS_MAX} more"] if len(touched) > FOLDERS_MAX else []
    return f"Touches {'; '.join([*touched[:FOLDERS_MAX], *more])}." if touched else ""


def _milestones(steps: Sequence[PlanStep]) -> tuple[Milestone, ...]:
    """Return two milestones: it works, and it is complete."""
    working = [step for step in steps if step.priority != "low"]
    parts = [("It works", working), ("It is complete", [step for step in steps if step.priority == "low"])]
    return tuple(Milestone(name, tuple(step.uid for step in part)) for name, part in parts if part)


def _testing_strategy(change: ChangeSet, commands: Sequence[Command]) -> TestingStrategy:
    command = next((str(command) for command in commands if command.kind == "test"), "")
    files = ", ".join(file.path for file in change.of("test")[:3]) or "new tests next to the code"
    whole = f"all of {command}" if command else "no test command was found in this repository"
    unit = f"{files}, run by {command}" if command else files
    return TestingStrategy(unit, whole, "every changed line is covered by a test")
