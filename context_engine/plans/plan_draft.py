"""Draft a plan for a task from the repository alone: no model is asked, and nothing is written.

The names in the task are looked up. Their files, related files, and files that search and history suggest become steps
with evidence. `confidence_score` is the probability that the first two steps name a changed file; if it is too low, and
for open points, the plan asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from context_engine.context import (
    BINDING_TYPES,
    Command,
    ProjectKnowledge,
    PromptReference,
    RememberedItem,
    extract_clauses,
    extract_objective,
    find_commands,
)
from context_engine.errors import CallError
from context_engine.index import role_of
from context_engine.plans.changeset import (
    RENAMING_KINDS,
    AffectedFile,
    ChangeSet,
    FileRelation,
    Imports,
    PlanRequest,
    PlanSources,
    TaskIntent,
    TaskKind,
    bare_name,
    find_change_set,
    find_mentions,
    find_tests,
    folder_of,
    group_files,
    last_part,
    parse_intent,
    strip_commit_prefix,
)
from context_engine.plans.model import (
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
from context_engine.plans.readiness import (
    LIKELY_TITLE,
    READY_MIN,
    ask_about_places,
    criteria_of_commands,
    criteria_of_names,
    criteria_of_paths,
    criteria_without_word,
    estimate_readiness,
    read_facts,
)
from context_engine.text import STOP_WORDS, shorten_line, split_words

EVIDENCE_MAX = 40
CRITERIA_MAX = 6
FOCUS_MAX = 2
"""Tests or documents that a task about them is likely to change, when none of them is sure."""
REFERENCE_GROUPS_MAX = 8
"""With references in more folders, they become one step: twenty similar steps are hard to distinguish."""

_TITLE_VERBS: Mapping[TaskKind, str] = {
    "add": "Add it in",
    "fix": "Fix it in",
    "refactor": "Rework",
    "rename": "Rename it in",
    "remove": "Remove it from",
    "upgrade": "Upgrade",
    "test": "Cover",
    "docs": "Update the comments in",
    "perf": "Speed up",
    "security": "Close it in",
    "change": "Change",
}


_RELATED: tuple[tuple[FileRelation, str, str], ...] = (
    ("registry", "Update the registration in", "Exports, routes and tables name the parts of a package."),
    ("config", "Update the configuration in", "Change it where the task changes what is configured."),
    (
        "partner",
        "Change what usually changes together:",
        "Nearly every commit that changed the one changed the other.",
    ),
)
"""Part, the beginning of the title, and what is to be done."""


@dataclass(frozen=True, slots=True)
class PlanTask:
    """The basis of the steps: the clauses and intent of the task, its files, imports and commands."""

    clauses: tuple[str, ...]
    wanted: TaskIntent
    change: ChangeSet
    imports: Imports
    commands: tuple[Command, ...]
    new_test: str = ""
    mvp_only: bool = False

    def command(self, *kinds: str) -> tuple[str, ...]:
        """Return the first command of each of these kinds."""
        first = {command.kind: command.text for command in reversed(self.commands)}
        return tuple(first[kind] for kind in kinds if kind in first)

    def criteria(self, paths: Sequence[str], *kinds: str) -> tuple[str, ...]:
        """Return criteria by the commands of these kinds; without a command, by the files that change."""
        return criteria_of_commands(self.command(*kinds)) or criteria_of_paths(paths)

    @property
    def old_names(self) -> tuple[str, ...]:
        """The names that a rename or removal takes away, as they occur in code."""
        if self.wanted.kind not in RENAMING_KINDS:
            return ()
        named = [reference for reference in self.change.references if reference.kind == "symbol"]
        return tuple(dict.fromkeys(self.wanted.names or [bare_name(reference) for reference in named]))


class StepDraft(NamedTuple):
    """A step without its name: `after` are the drafts that it waits for, by their place in the list."""

    title: str
    says: str
    files: tuple[AffectedFile, ...]
    after: tuple[int, ...]
    criteria: tuple[str, ...]
    checks: tuple[str, ...]
    priority: Level = "medium"
    creates: tuple[str, ...] = ()


def build_steps(task: PlanTask) -> tuple[PlanStep, ...]:
    """Return the steps in an order in which they can be done. Uids count from s1."""
    drafts, later = _draft_steps(task)
    return tuple(_new_step(number, draft) for number, draft in enumerate(drafts[: later if task.mvp_only else None], 1))


def deferred_titles(task: PlanTask) -> tuple[str, ...]:
    """Return the titles that a minimal plan defers."""
    drafts, later = _draft_steps(task)
    if task.mvp_only:
        return tuple(draft.title for draft in drafts[later:])
    return ()


# -- the drafts -------------------------------------------------------------------------------------------------------


def _draft_steps(task: PlanTask) -> tuple[list[StepDraft], int]:
    """Return all drafts, and the index from which they can wait."""
    drafts: list[StepDraft] = []
    first = _append_drafts(drafts, _first_drafts(task), ())
    main = _append_drafts(drafts, _main_drafts(task, first), first)
    uses = _append_drafts(drafts, _reference_drafts(task), main)
    related = _append_drafts(drafts, _related_drafts(task), main)
    code = (*main, *uses, *related) or first
    _append_drafts(drafts, _test_drafts(task) if task.wanted.kind != "test" else (), code)
    later = len(drafts)  # all steps from here on can be deferred
    _append_drafts(drafts, _doc_drafts(task) if task.wanted.kind != "docs" else (), code)
    _append_drafts(drafts, _remaining_drafts(task, drafts), main or first)
    return drafts, later


def _append_drafts(drafts: list[StepDraft], more: Iterable[StepDraft], after: tuple[int, ...]) -> tuple[int, ...]:
    """Add drafts that wait for others; `after` of each counts inside the group that is added. Their places."""
    start = len(drafts)
    for draft in more:
        inside = tuple(start + at for at in draft.after)
        drafts.append(draft._replace(after=inside or after))
    return tuple(range(start, len(drafts)))


def _first_drafts(task: PlanTask) -> Iterator[StepDraft]:
    """Yield the drafts that come first: the failing test, or what the task is really about."""
    if task.wanted.kind == "fix":
        yield from _failing_test_drafts(task)
    elif task.wanted.kind == "docs":
        yield from _doc_drafts(task)
    elif task.wanted.kind == "test":
        yield from _test_drafts(task)


def _failing_test_drafts(task: PlanTask) -> Iterator[StepDraft]:
    """Yield the draft of a failing test: a fix without one is a guess. Where no test can be named, yield none."""
    tests = _nearest_test(task)
    if not tests and task.new_test:
        creates = (task.new_test,)
    else:
        creates = ()
    where = tests[0].path if tests else task.new_test
    if not where:
        return
    run = "".join(f" Run `{command}`." for command in task.command("test"))
    yield StepDraft(
        f"Write a test that fails: {where}",
        f"Reproduce the bug in a test before you change anything.{run}",
        tuple(tests),
        (),
        (f"`{where}` has a new test, and it fails",),
        (),  # a check has to pass
        "high",
        creates,
    )


def _nearest_test(task: PlanTask) -> list[AffectedFile]:
    """Return the test in the folder of what is to be fixed; else the surest one."""
    folders = {folder_of(file.path) for file in task.change.main()}
    tests = [file for file in task.change.of("test") if folder_of(file.path) in folders] or _certain_files(task, "test")
    return tests[:1]


def _main_drafts(task: PlanTask, first: tuple[int, ...]) -> list[StepDraft]:
    """Return the main drafts, one per package; a task about tests changes nothing else."""
    if task.wanted.kind == "test" and first:
        return []
    files = [*_certain_files(task, "definition"), *_certain_files(task, "source"), *_certain_files(task, "migration")]
    named = {file.path for file in files if file.part == "definition"}
    # Only what the task names is put in the order of its imports; of the rest, the surest comes first.
    groups = group_files([file.path for file in files], {path: task.imports.get(path, ()) for path in named})
    known = {file.path: file for file in files}
    return [
        StepDraft(
            _format_title(_TITLE_VERBS[task.wanted.kind], [known[path] for path in group.paths]),
            "; ".join(task.clauses) or "Do what the task says here.",
            tuple(known[path] for path in group.paths),
            group.needs,
            _main_criteria(task, group.paths, is_tested_first=bool(first) and task.wanted.kind == "fix"),
            _main_checks(task),
            "high",
        )
        for group in groups
    ]


def _main_checks(task: PlanTask) -> tuple[str, ...]:
    """Return the commands that can pass after a main step; those of tests only if no later step is about tests."""
    has_tests = bool(_certain_files(task, "test") or task.new_test)
    return (*task.command("lint", "types"), *(() if has_tests else task.command("test")))


def _main_criteria(task: PlanTask, paths: Sequence[str], *, is_tested_first: bool) -> tuple[str, ...]:
    """Return when a main step is done: names that are gone or new, a test that passes, else its commands."""
    new = [task.wanted.new_name] if task.wanted.new_name else []
    if task.wanted.kind == "add":
        new = [bare_name(item) for item in task.change.references if item.kind == "symbol" and item.is_missing]
    criteria = criteria_of_names(gone=task.old_names, new=new)
    if is_tested_first:
        tests = [f"`{command}` passes, with the test of step 1" for command in task.command("test")]
        criteria = (*criteria, *(tests or ["the test of step 1 passes"]))
    return (criteria or criteria_of_commands(_main_checks(task)) or criteria_of_paths(paths))[:CRITERIA_MAX]


def _reference_drafts(task: PlanTask) -> list[StepDraft]:
    """Return the drafts for references, one per package, or one for very many."""
    files = _certain_files(task, "reference")
    groups = group_files([file.path for file in files], task.imports)
    if len(groups) > REFERENCE_GROUPS_MAX:
        groups = [groups[0]._replace(paths=tuple(file.path for file in files), needs=())]
    known = {file.path: file for file in files}
    gone = tuple(criterion for name in task.old_names for criterion in criteria_without_word(last_part(name)))
    return [
        StepDraft(
            _format_title("Update usages in", [known[path] for path in group.paths]),
            "Change every place that names it; a search for the word finds all of them.",
            tuple(known[path] for path in group.paths),
            (),
            (gone or task.criteria(group.paths, "lint", "types"))[:CRITERIA_MAX],
            task.command("lint", "types"),
            "high",
        )
        for group in groups
    ]


def _related_drafts(task: PlanTask) -> Iterator[StepDraft]:
    """Yield the drafts for registries, configuration, and files that always change together."""
    for part, title, says in _RELATED:
        files = tuple(_certain_files(task, part))
        if files:
            criteria = task.criteria([file.path for file in files], "lint")
            yield StepDraft(_format_title(title, files), says, files, (), criteria, task.command("lint"))


def _test_drafts(task: PlanTask) -> Iterator[StepDraft]:
    """Yield the draft for the tests, without one that was written first."""
    if task.wanted.kind == "fix":
        written_first = _nearest_test(task)
    else:
        written_first = []
    files = tuple(file for file in _files_in_focus(task, "test") if file not in written_first)
    if task.new_test and not files and task.wanted.kind != "fix":
        creates = (task.new_test,)
    else:
        creates = ()
    if not files and not creates:
        return
    says = "Update the tests to the new behavior, and test what is new."
    criteria = task.criteria([*(file.path for file in files), *creates], "test")
    if files:
        title = _format_title("Update the tests in", files)
    else:
        title = f"Write a test: {task.new_test}"
    yield StepDraft(title, says, files, (), criteria, task.command("test"), "high", creates)


def _doc_drafts(task: PlanTask) -> Iterator[StepDraft]:
    files = tuple(_files_in_focus(task, "docs"))
    if files:
        says = "Describe what is different for users; add a line to the changelog."
        gone = tuple(criterion for name in task.old_names for criterion in criteria_without_word(last_part(name)))
        criteria = gone[:CRITERIA_MAX] or criteria_of_paths([file.path for file in files])
        yield StepDraft(_format_title("Update the documents:", files), says, files, (), criteria, (), "low")


def _remaining_drafts(task: PlanTask, drafts: Sequence[StepDraft]) -> list[StepDraft]:
    """Return a draft for the files in no other step."""
    shown = {file.path for draft in drafts for file in draft.files}
    files = tuple(file for file in task.change.files if file.path not in shown)
    if not files:
        return []
    says = "Only search and history suggest these. Read the places, and change what the task affects."
    criteria = criteria_of_commands(task.command("test")) or ("`git diff --stat HEAD` lists only files of this plan",)
    return [StepDraft(_format_title(LIKELY_TITLE, files), says, files, (), criteria, (), "low")]


def _files_in_focus(task: PlanTask, part: FileRelation) -> list[AffectedFile]:
    """Return the certain files of a relation; when the task is about it, at least the likeliest."""
    sure = _certain_files(task, part)
    return sure or (task.change.of(part)[:FOCUS_MAX] if task.wanted.kind == part else [])


def _certain_files(task: PlanTask, part: FileRelation) -> list[AffectedFile]:
    return [file for file in task.change.files if file.part == part and task.change.insists_on(file)]


# -- the words --------------------------------------------------------------------------------------------------------


def _format_title(verb: str, files: Sequence[AffectedFile]) -> str:
    """Format what is done, and where; of several files the first is named."""
    first, more = files[0], len(files) - 1
    symbol = next(
        (proof.symbol for proof in first.evidence if proof.symbol and proof.kind in ("definition", "search")),
        "",
    )
    if symbol:
        where = f"{symbol} ({first.path})"
    else:
        where = first.path
    return f"{verb} {where}{f' and {more} more' if more else ''}"


def _new_step(number: int, draft: StepDraft) -> PlanStep:
    proofs = [proof for file in draft.files for proof in file.evidence]
    return PlanStep(
        uid=f"s{number}",
        title=draft.title,
        description=draft.says,
        files_to_modify=tuple(file.path for file in draft.files),
        files_to_create=draft.creates,
        depends_on=tuple(f"s{at + 1}" for at in draft.after),
        priority=draft.priority,
        acceptance_criteria=draft.criteria,
        checks=draft.checks,
        evidence=tuple(proofs[:EVIDENCE_MAX]),
    )


QUESTIONS_MAX = 3
"""Of more, the first ones decide what the others mean."""
CANDIDATES_MAX = 5
PROHIBITING_TYPES = frozenset(("rule", "decision", "decisions", "preferences"))
CLASH_WORDS = 2
"""Words of the task that a rule must speak of before it is asked whether the task breaks it."""
VAGUE = frozenset(
    "app application better bug bugs change changes clean cleaner cleanup code codebase enhance error errors "
    "everything faster fix fixes good great help improve improvement improvements issue issues less make more "
    "need nice nicer optimise optimize performance please polish problem problems project proper quality "
    "refactor refactoring repo repository some something stuff system thing things update updates want work "
    "working works".split()
)
"""Words that a task can be made of without saying what is to change."""
_FORBIDS = re.compile(
    r"\b(?:never|must not|mustn't|do not|don't|not allowed|avoid|no longer|forbidden|instead of)\b", re.IGNORECASE
)
TEXT_CHARS_MAX = 240


def find_questions(
    task: str, wanted: TaskIntent, change: ChangeSet, recalled: Sequence[RememberedItem], *, is_likely_right: bool
) -> tuple[PlanQuestion, ...]:
    """Find open questions, the most important first; ids count from q1.

    A plan that is not `is_likely_right` asks which of the best places is meant.
    """
    open_points = [
        *_ask_about_names(wanted, change.references),
        *_ask_about_ranking(task, change, is_likely_right=is_likely_right),
        *_ask_about_rename(wanted),
        *_ask_about_rules(task, recalled),
    ]
    return tuple(
        PlanQuestion(id=f"q{number}", text=text, candidates=tuple(candidates[:CANDIDATES_MAX]))
        for number, (text, candidates) in enumerate(open_points[:QUESTIONS_MAX], 1)
    )


def _ask_about_names(wanted: TaskIntent, references: Sequence[PromptReference]) -> Iterator[tuple[str, list[str]]]:
    for reference in references:
        if reference.is_ambiguous:
            yield f"Which `{reference.text.strip('`')}` is meant?", [str(place) for place in reference.places]
        elif (
            reference.is_missing and wanted.kind != "add" and not _is_spelled_longer(reference)
        ):  # what is to be added is new
            yield (
                f"`{reference.text.strip('`')}` was not found: is it new, or does it have another name?",
                [*reference.near],
            )


def _is_spelled_longer(reference: PromptReference) -> bool:
    """Return whether the name exists with a final mark that people leave out: Ruby's `empty?`, `save!`, `name=`."""
    name = bare_name(reference)
    return any(near != name and near.rstrip("?!=") == name for near in reference.near)


def _ask_about_ranking(task: str, change: ChangeSet, *, is_likely_right: bool) -> Iterator[tuple[str, list[str]]]:
    """Ask about a task that says nothing, and about a ranking that is probably wrong."""
    words = _significant_words(task)
    if not change.files:
        yield "No file of this workspace matches the words of the task: where does it belong?", []
    elif len(words) < 2 or (not change.of("definition", "reference") and words <= VAGUE):
        yield (
            "The task does not say what to change: which part, and what should it be like?",
            [file.path for file in change.files],
        )
    elif not is_likely_right:
        yield from ask_about_places(change)


def _ask_about_rename(wanted: TaskIntent) -> Iterator[tuple[str, list[str]]]:
    if wanted.kind == "rename" and not wanted.new_name:
        yield f"What is the new name of `{wanted.names[0]}`?" if wanted.names else "What is the new name?", []


def _ask_about_rules(task: str, recalled: Sequence[RememberedItem]) -> Iterator[tuple[str, list[str]]]:
    """Ask about rules and decisions that forbid something and have words in common with the task."""
    task_words = _significant_words(task)
    for memory in recalled:
        rule = " ".join((memory.content or memory.title).split())
        if (
            memory.type in PROHIBITING_TYPES
            and _FORBIDS.search(rule)
            and len(task_words & _significant_words(rule)) >= CLASH_WORDS
        ):
            yield (
                f"{memory.quote(TEXT_CHARS_MAX)}. Does this task go against it?",
                ["yes", "no"],
            )


def _significant_words(text: str) -> set[str]:
    return {word.lower() for word in split_words(text) if word.lower() not in STOP_WORDS and len(word) > 2}


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


def find_risks(wanted: TaskIntent, change: ChangeSet, sources: PlanSources) -> tuple[PlanRisk, ...]:
    """Find risks in the data, the likeliest first."""
    main = change.main()[:FILES_ASSESSED_MAX]
    found_risks = [
        *_task_risks(wanted, change),
        *(risk for file in main for risk in _file_risks(file, wanted, change, sources)),
    ]
    order = {"high": 0, "medium": 1, "low": 2}
    return tuple(sorted(dict.fromkeys(found_risks), key=lambda risk: order[risk.likelihood]))[:RISKS_MAX]


def _task_risks(wanted: TaskIntent, change: ChangeSet) -> Iterator[PlanRisk]:
    migrations = change.of("migration")
    if migrations:
        yield PlanRisk(
            f"{migrations[0].path} is a migration: existing data has to survive",
            "Write the reverse migration as well, and try both on a copy of real data.",
            "high",
        )
    if wanted.kind in RENAMING_KINDS and change.of("reference"):
        count = len(change.of("reference"))
        yield PlanRisk(
            f"it is used in {count} file{'s' * (count != 1)}; names that are built at run time are not found",
            "Search for parts of the name, in strings, templates and configuration too.",
            "medium",
        )


def _file_risks(file: AffectedFile, wanted: TaskIntent, change: ChangeSet, sources: PlanSources) -> Iterator[PlanRisk]:
    yield from _import_risks(file, wanted, sources)
    yield from _churn_risks(file, sources)
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
            "medium",
        )


def _import_risks(file: AffectedFile, wanted: TaskIntent, sources: PlanSources) -> Iterator[PlanRisk]:
    """Report a file that many files import: it is an interface, whatever its name."""
    try:
        importers = len(sources.code.symbols.importers(file.path))
    except CallError:
        return
    if importers >= IMPORTERS_MIN:
        yield PlanRisk(
            f"{importers} files import {file.path}",
            "Keep the names and arguments that others use, or change all of them in the same commit.",
            "high" if wanted.kind in ("refactor", "remove", "rename", "upgrade") else "medium",
        )


def _churn_risks(file: AffectedFile, sources: PlanSources) -> Iterator[PlanRisk]:
    if sources.past:
        record = sources.past.record(file.path)
    else:
        record = None
    if record is None or sources.past is None:
        return
    hot = [getattr(one, "path", "") for one in sources.past.list_hot_files(HOT_MAX)]
    lines = _lines(file.path, sources)
    if file.path in hot[: max(1, len(hot) // HOT_SHARE)] and lines >= LONG_LINES:
        yield PlanRisk(
            f"{file.path} has {lines:,} lines and is among the files that change most ({record.commits} commits)",
            "Keep the change small and merge it soon: others are changing the same file.",
            "medium",
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


DraftStatus = Literal["ready", "needs_clarification", "draft_rejected"]

IMPORTS_READ_MAX = 40
"""Files whose imports are read for the order of steps; behind them the order of the files has to do."""
RECALLED_MAX = 12
CONSTRAINTS_MAX = 6
RULE_SHARE = 0.4
"""The least relevance of a rule compared with the best one: others hardly speak of the task (evals/planning)."""
CONSTRAINT_CHARS_MAX = 240
FOLDERS_MAX = 12
"""With more of them the top ones say as much."""
SIBLINGS_MAX = 10
"""Files next to a new one; their tests show where the tests of this folder are."""


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
    wanted = parse_intent(request.task)
    known = tuple(find_commands(sources.code))
    change = find_change_set(request, wanted, find_mentions(request.task, wanted), known, sources)
    task_clauses = tuple(extract_clauses(strip_commit_prefix(request.task))) or (
        extract_objective(strip_commit_prefix(request.task)),
    )
    task = PlanTask(
        task_clauses,
        wanted,
        change,
        _read_imports(change, sources),
        known,
        _new_test_path(wanted, change, sources),
        request.mvp_only,
    )
    recalled = recall_rules(request.task, [file.path for file in change.files], sources.team)
    made = build_steps(task)
    chance = estimate_readiness(read_facts(change, made))
    open_now = find_questions(request.task, wanted, change, recalled, is_likely_right=chance >= READY_MIN)
    plan = Plan(
        goal=extract_objective(request.task),
        task=shorten_line(request.task, 0, TASK_CHARS_MAX),
        scope=_scope(request, change, recalled),
        mvp_features=task_clauses,
        nice_to_have_features=deferred_titles(task),
        architecture=PlanArchitecture(notes=_notes(change, task)),
        risks=find_risks(wanted, change, sources),
        milestones=_milestones(made),
        steps=made,
        testing_strategy=_testing_strategy(change, known),
        confidence_score=round(chance, 2),
        questions=open_now,
        evidence=tuple(proof for file in change.files[: request.files_max] for proof in file.evidence[:1]),
        provenance="core",
        uids_minted=len(made),
    )
    if change.of("definition", "reference"):
        source = "names"
    else:
        source = "search" if change.files else "none"
    return PlanDraft(plan, planning_status(plan), change, known, source)


# -- the basis of the steps -------------------------------------------------------------------------------------------


def _read_imports(change: ChangeSet, sources: PlanSources) -> dict[str, set[str]]:
    """Return the imports of the affected files, as far as they are read."""
    found: dict[str, set[str]] = {}
    for file in change.of("definition", "source", "reference", "migration")[:IMPORTS_READ_MAX]:
        try:
            found[file.path] = set(map(str, sources.code.symbols.dependencies(file.path)))
        except CallError:
            continue
    return found


def _new_test_path(wanted: TaskIntent, change: ChangeSet, sources: PlanSources) -> str:
    """Return the path for a test of the first main file, by the example of its neighbors; empty without an example."""
    main = [file.path for file in change.main() if role_of(file.path, "code") != "test"]
    if not main or change.of("test") or wanted.kind in ("docs", "remove", "rename"):
        return ""
    folder, _, name = main[0].rpartition("/")
    for sibling in _siblings(folder, f".{name.rpartition('.')[2]}", sources):
        tests = find_tests(sibling, sources)
        stem, own = (path.rpartition("/")[2].partition(".")[0].strip("_") for path in (sibling, name))
        if tests and stem and stem in tests[0].rpartition("/")[2]:
            place, _, test = tests[0].rpartition("/")
            return "/".join(filter(None, (place, test.replace(stem, own, 1))))
    return ""


def _siblings(folder: str, suffix: str, sources: PlanSources) -> list[str]:
    try:
        entries = sources.code.files.list_directory(folder or ".", depth=1)
    except CallError:
        return []
    files = [
        f"{folder}/{entry.name}".lstrip("/") for entry in entries if entry.name.endswith(suffix) and not entry.is_folder
    ]
    return [path for path in files if role_of(path, "code") != "test"][:SIBLINGS_MAX]


def recall_rules(task: str, files: Sequence[str], team: ProjectKnowledge) -> list[RememberedItem]:
    """Return the rules for these files, and decisions, that the task may touch. Commits are no rules."""
    recall = team.recall
    found = recall(task, RECALLED_MAX, files or None) if recall else ()
    rules = [memory for memory in found if memory.type in BINDING_TYPES and not memory.place.startswith("@")]
    best = max((rule.score for rule in rules), default=0.0)
    return [rule for rule in rules if rule.score >= RULE_SHARE * best]


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
    """Describe which packages are touched, and which of them import which."""
    files = [file.path for file in change.of("definition", "source", "reference")]
    groups = group_files(files, task.imports)
    names = [folder_of(group.paths[0]) or "the top folder" for group in groups]
    descriptions = []
    for name, group in zip(names, groups, strict=True):
        needs = " and ".join(names[at] for at in group.needs)
        count = f"{len(group.paths)} file{'s' * (len(group.paths) != 1)}"
        descriptions.append(f"{name} ({count}{f', imports {needs}' if needs else ''})")
    if len(descriptions) > FOLDERS_MAX:
        more = [f"and {len(descriptions) - FOLDERS_MAX} more"]
    else:
        more = []
    if descriptions:
        return f"Touches {'; '.join([*descriptions[:FOLDERS_MAX], *more])}."
    return ""


def _milestones(made: Sequence[PlanStep]) -> tuple[Milestone, ...]:
    """Return two milestones: it works, and it is complete."""
    working = [step for step in made if step.priority != "low"]
    parts = [("It works", working), ("It is complete", [step for step in made if step.priority == "low"])]
    return tuple(Milestone(name, tuple(step.uid for step in part)) for name, part in parts if part)


def _testing_strategy(change: ChangeSet, known: Sequence[Command]) -> TestingStrategy:
    command = next((str(known_item) for known_item in known if known_item.kind == "test"), "")
    files = ", ".join(file.path for file in change.of("test")[:3])
    unit = f"{files or 'new tests next to the code'}{f', run by {command}' if command else ''}"
    if command:
        whole = f"all of {command}"
    else:
        whole = "no test command was found in this repository"
    return TestingStrategy(unit, whole, "every changed line is covered by a test")
