"""PURE. Turn the files of a task into steps: definitions before their users, then tests, then documents.

A fix begins with a failing test. What is only likely comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_engine.context import Command
from context_engine.plans.changeset import (
    MAIN_SHARE,
    AffectedFile,
    ChangeSet,
    FileRelation,
    Imports,
    TaskIntent,
    TaskKind,
    folder_of,
    group_files,
)
from context_engine.plans.model import Estimate, Level, PlanStep

EVIDENCE_MAX = 40
CRITERIA_MAX = 6
MAIN_H, TEST_H, REFERENCE_H, LOOK_H, STEP_H = 0.5, 0.5, 0.15, 0.1, 0.25
"""Hours for a file that is changed substantially, tested, adapted or looked through, and for a step at all. These are
guesses in quarters of an hour that show which steps are long; refine_plan sets better ones.
"""
BEST, WORST = 0.5, 3.0
"""Of the likely time: half when nothing surprises, three times when something does."""
FOCUS_MAX = 2
"""Tests or documents that a task about them is likely to change, when none of them is sure."""
REFERENCE_GROUPS_MAX = 8
"""With references in more folders, they become one step: twenty similar steps are hard to tell apart."""

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


_RELATED: tuple[tuple[FileRelation, str, str, str], ...] = (
    (
        "registry",
        "Update the registration in",
        "Exports, routes and tables name the parts of a package.",
        "it can be reached as before, or under its new name",
    ),
    (
        "config",
        "Update the configuration in",
        "Change it where the task changes what is configured.",
        "the files parse, and defaults are as before",
    ),
    (
        "partner",
        "Change what usually changes together:",
        "Nearly every commit that changed the one changed the other.",
        "each is changed, or checked and left as it is",
    ),
)
"""Part, the beginning of the title, what is to be done, and when it is done."""


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


class StepDraft(NamedTuple):
    """A step without its name: `after` are the drafts that it waits for, by their place in the list."""

    title: str
    says: str
    files: tuple[AffectedFile, ...]
    after: tuple[int, ...]
    criteria: tuple[str, ...]
    checks: tuple[str, ...]
    hours: float
    priority: Level = "medium"
    creates: tuple[str, ...] = ()


def build_steps(task: PlanTask) -> tuple[PlanStep, ...]:
    """Return the steps in an order in which they can be done. Uids count from s1."""
    drafts, later = _draft_steps(task)
    return tuple(_new_step(number, draft) for number, draft in enumerate(drafts[: later if task.mvp_only else None], 1))


def deferred_titles(task: PlanTask) -> tuple[str, ...]:
    """Return the titles that a minimal plan defers."""
    drafts, later = _draft_steps(task)
    return tuple(draft.title for draft in drafts[later:]) if task.mvp_only else ()


def is_likely(file: AffectedFile) -> bool:
    """Return whether only search and history suggest a file, and not strongly."""
    return file.score < MAIN_SHARE and all(proof.kind in ("search", "history") for proof in file.evidence)


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
    later = len(drafts)
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
        yield _failing_test_draft(task)
    elif task.wanted.kind == "docs":
        yield from _doc_drafts(task)
    elif task.wanted.kind == "test":
        yield from _test_drafts(task)


def _failing_test_draft(task: PlanTask) -> StepDraft:
    """Return the draft of a failing test: a fix without one is a guess."""
    tests = _nearest_test(task)
    creates = (task.new_test,) if not tests and task.new_test else ()
    where = tests[0].path if tests else task.new_test
    return StepDraft(
        f"Write a test that fails{f': {where}' if where else ''}",
        "Reproduce the bug in a test before you change anything.",
        tuple(tests),
        (),
        ("the new test fails, and for the reason that the task describes",),
        task.command("test"),
        TEST_H,
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
    groups = group_files([file.path for file in files], task.imports)
    known = {file.path: file for file in files}
    drafts = [
        StepDraft(
            _format_title(_TITLE_VERBS[task.wanted.kind], [known[path] for path in group.paths]),
            _describe_task(task),
            tuple(known[path] for path in group.paths),
            group.needs,
            (),
            (),
            MAIN_H * len(group.paths),
            "high",
        )
        for group in groups
    ]
    done = ("the test of step 1 passes",) if first and task.wanted.kind == "fix" else ()
    criteria = (*task.clauses, *_rename_criteria(task), *done)[:CRITERIA_MAX]
    fallback = task.command("test") if not _has_tests(task) else ()
    checks = (*task.command("lint", "types"), *fallback)
    return [draft._replace(criteria=criteria or ("the task is done",), checks=checks) for draft in drafts]


def _rename_criteria(task: PlanTask) -> tuple[str, ...]:
    old, new = task.wanted.names[0] if task.wanted.names else "", task.wanted.new_name
    if task.wanted.kind == "rename" and old:
        return (f"nothing is defined as `{old}` any more", *((f"`{new}` is defined in its place",) if new else ()))
    return (f"nothing is defined as `{old}` any more",) if task.wanted.kind == "remove" and old else ()


def _reference_drafts(task: PlanTask) -> list[StepDraft]:
    """Return the drafts for references, one per package, or one for very many."""
    files = _certain_files(task, "reference")
    groups = group_files([file.path for file in files], task.imports)
    if len(groups) > REFERENCE_GROUPS_MAX:
        groups = [groups[0]._replace(paths=tuple(file.path for file in files), needs=())]
    known = {file.path: file for file in files}
    name = task.wanted.names[0] if task.wanted.names else "it"
    return [
        StepDraft(
            _format_title("Update usages in", [known[path] for path in group.paths]),
            "Change every place that names it; a search for the word finds all of them.",
            tuple(known[path] for path in group.paths),
            (),
            (f"no line of these files uses `{name}` in its old meaning",),
            task.command("lint", "types"),
            REFERENCE_H * len(group.paths),
            "high",
        )
        for group in groups
    ]


def _related_drafts(task: PlanTask) -> Iterator[StepDraft]:
    """Yield the drafts for registries, configuration, and files that always change together."""
    checks = task.command("lint")
    for part, title, says, criterion in _RELATED:
        files = tuple(_certain_files(task, part))
        if files:
            yield StepDraft(
                _format_title(title, files), says, files, (), (criterion,), checks, REFERENCE_H * len(files)
            )


def _test_drafts(task: PlanTask) -> Iterator[StepDraft]:
    """Yield the draft for the tests, without one that was written first."""
    files = tuple(file for file in _files_in_focus(task, "test") if file not in _tests_written_first(task))
    creates = (task.new_test,) if task.new_test and not files and task.wanted.kind != "fix" else ()
    if not files and not creates:
        return
    says = "Update the tests to the new behavior, and test what is new."
    criteria = tuple(f"`{command}` passes" for command in task.command("test")) or ("all tests pass",)
    title = _format_title("Update the tests in", files) if files else f"Write a test: {task.new_test}"
    yield StepDraft(
        title, says, files, (), criteria, task.command("test"), TEST_H * (len(files) + len(creates)), "high", creates
    )


def _doc_drafts(task: PlanTask) -> Iterator[StepDraft]:
    files = tuple(_files_in_focus(task, "docs"))
    if files:
        says = "Describe what is different for users; add a line to the changelog."
        criterion = ("nothing in these files describes what was before",)
        yield StepDraft(
            _format_title("Update the documents:", files), says, files, (), criterion, (), STEP_H * len(files), "low"
        )


def _remaining_drafts(task: PlanTask, drafts: Sequence[StepDraft]) -> list[StepDraft]:
    """Return a draft for the files in no other step."""
    shown = {file.path for draft in drafts for file in draft.files}
    files = tuple(file for file in task.change.files if file.path not in shown)
    if not files:
        return []
    says = "Only search and history suggest these. Read the places, and change what the task affects."
    title, criterion = _format_title("Check possibly related files:", files), ("each of them was checked",)
    return [StepDraft(title, says, files, (), criterion, (), LOOK_H * len(files), "low")]


def _files_in_focus(task: PlanTask, part: FileRelation) -> list[AffectedFile]:
    """Return the certain files of a relation; when the task is about it, at least the likeliest."""
    sure = _certain_files(task, part)
    return sure or (task.change.of(part)[:FOCUS_MAX] if task.wanted.kind == part else [])


def _tests_written_first(task: PlanTask) -> list[AffectedFile]:
    return _nearest_test(task) if task.wanted.kind == "fix" else []


def _certain_files(task: PlanTask, part: FileRelation) -> list[AffectedFile]:
    return [file for file in task.change.files if file.part == part and not is_likely(file)]


def _has_tests(task: PlanTask) -> bool:
    return bool(_certain_files(task, "test") or task.new_test)


def _describe_task(task: PlanTask) -> str:
    return "; ".join(task.clauses) or "Do what the task says here."


# -- the words --------------------------------------------------------------------------------------------------------


def _format_title(verb: str, files: Sequence[AffectedFile]) -> str:
    """Format what is done, and where; of several files the first is named."""
    first, more = files[0], len(files) - 1
    symbol = next(
        (proof.symbol for proof in first.evidence if proof.symbol and proof.kind in ("definition", "search")),
        "",
    )
    where = f"{symbol} ({first.path})" if symbol else first.path
    return f"{verb} {where}{f' and {more} more' if more else ''}"


def _new_step(number: int, draft: StepDraft) -> PlanStep:
    likely = max(STEP_H, round(draft.hours * 4) / 4)
    proofs = [proof for file in draft.files for proof in file.evidence]
    return PlanStep(
        uid=f"s{number}",
        title=draft.title,
        description=draft.says,
        files_to_modify=tuple(file.path for file in draft.files),
        files_to_create=draft.creates,
        depends_on=tuple(f"s{at + 1}" for at in draft.after),
        priority=draft.priority,
        estimate=Estimate(likely * BEST, likely, likely * WORST),
        acceptance_criteria=draft.criteria,
        checks=draft.checks,
        evidence=tuple(proofs[:EVIDENCE_MAX]),
    )
