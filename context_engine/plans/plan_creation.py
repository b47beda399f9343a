"""The plan factory: create plans from the repository, and accept better drafts of them.

    result = factory.create(PlanRequest("Retry failed requests"), SaveOptions())
    result = factory.accept_draft(draft, SaveOptions(plan_id=result.plan.id), provenance="host")

A draft is checked against the code. A draft that names missing files is rejected as a whole; evidence that is wrong is
removed and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from context_engine.context import (
    BRIEF_TOKENS_MAX,
    QUOTED_FROM_REPOSITORY,
    BriefSection,
    CheckedClaims,
    Claim,
    ClaimedLines,
    RejectedItem,
    SecondPass,
    Workspace,
    build_brief,
    check_claims,
)
from context_engine.context import RepositoryFacts as Facts
from context_engine.errors import CallError
from context_engine.plans.changeset import PlanRequest, PlanSources
from context_engine.plans.mermaid import draw_dependencies
from context_engine.plans.model import Plan, PlanDiagram, PlanStep
from context_engine.plans.operations import check_done_steps
from context_engine.plans.plan_draft import DraftStatus, PlanDraft, draft_plan
from context_engine.plans.plan_events import DONE, Execution
from context_engine.plans.plan_json import draft_schema, parse_plan
from context_engine.plans.plan_repository import LoadedPlan, PlanRepository, SavedPlan
from context_engine.plans.plan_validation import PlanValidation, WorkspacePaths, validate_plan

NEAR_MAX = 3
BRIEF_STEP_FILES = 6
CREATION_TASK = (
    "Make a better plan for the task below, as JSON by the schema. Keep what is right in the plan that was made without "
    "a model, split or merge its steps, write descriptions that say what to change and how, drop files that do not "
    "belong, name new files in files_to_create. Every path must exist or be created by this or an earlier step; depends_on "
    "contains step numbers."
)


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """Whether and how to save a plan. With `plan_id` it becomes the next version of that plan."""

    auto: bool = True
    name: str = ""
    tags: tuple[str, ...] | None = None
    plan_id: str = ""
    submission_id: str = ""


@dataclass(frozen=True, slots=True)
class CreationResult:
    """A plan, whether it was saved, and what to report. `base` is the draft from the repository, if there is one."""

    plan: Plan
    status: DraftStatus
    checked: PlanValidation
    saved: SavedPlan | None = None
    base: PlanDraft | None = None
    rejected: tuple[RejectedItem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def first_errors(self) -> str:
        """The first errors of a draft, for another attempt; empty when there are none."""
        return "; ".join(error.message for error in self.checked.errors[:NEAR_MAX])

    def prompt(self, tokens: int = BRIEF_TOKENS_MAX) -> SecondPass:
        """Return the prompt for an agent or a model that understands the task; the plan id is in its arguments."""
        plan = self.plan
        arguments: dict[str, Any] = {"task": plan.task or plan.goal}
        if self.saved is not None:
            arguments["plan_id"] = plan.id
        commands = self.base.commands[:6] if self.base else ()
        parts = [
            BriefSection("Task", [plan.task or plan.goal]),
            BriefSection("Steps of the plan so far", list(_step_lines(plan))),
            BriefSection("What names in the task mean", list(plan.scope.assumptions)),
            BriefSection(f"Rules and decisions, {QUOTED_FROM_REPOSITORY}", list(plan.scope.constraints)),
            BriefSection("Open questions", [question.text for question in plan.open_questions]),
            BriefSection("Risks", [risk.issue for risk in plan.risks]),
            BriefSection("How this repository is checked", [str(command) for command in commands]),
        ]
        text = build_brief(CREATION_TASK, parts, tokens_max=min(tokens, BRIEF_TOKENS_MAX))
        return SecondPass("create_plan", text, draft_schema(), arguments)


class PlanFactory:
    """Makes plans for one workspace. Thread-safe."""

    def __init__(self, sources: Callable[[], PlanSources], repository: PlanRepository, paths: WorkspacePaths) -> None:
        self._sources = sources
        self._repository = repository
        self._paths = paths

    def create(self, request: PlanRequest, saving: SaveOptions) -> CreationResult:
        """Create a plan for a task from the repository, and save it.

        Raises: as `Engine.search` (never for a missing index) and `PlanRepository.save`.
        """
        base = draft_plan(
            replace(request, task=self._repository.clean(request.task)), self._sources()
        )  # before a title is cut of it
        checked = validate_plan(_add_diagram(base.plan) if request.with_diagrams else base.plan, self._paths)
        made = CreationResult(checked.plan, base.status, checked, base=base, warnings=base.warnings)
        return self._save(made, saving, "created") if saving.auto else made

    def accept_draft(
        self,
        draft: object,
        saving: SaveOptions,
        *,
        provenance: str,
        strict: bool = True,
        task: str = "",
        force_reopen: bool = False,
    ) -> CreationResult:
        """Accept a draft if it is true; else return `draft_rejected`, and save nothing.

        Without `force_reopen` it must leave done steps unchanged. Raises: InvalidArgument (not a plan), Cycle,
        DanglingDependency, PlanNotFound, Conflict, TooLarge.
        """
        kept = self._repository.load(saving.plan_id) if saving.plan_id else None
        if kept is not None and (stored := self._find_accepted(kept, saving.submission_id)):
            return stored
        before = kept.plan if kept else None
        read = parse_plan(draft, before=before)
        plan = _fill_in(read.plan, before, task, provenance)
        closed = _done_uids(kept.execution) if kept is not None and kept.execution is not None else ()
        if before is not None:
            check_done_steps(before, plan, closed, force_reopen=force_reopen)
        checked = validate_plan(plan, self._paths, strict=strict, remarks=read.remarks, closed=closed)
        checked.raise_fatal_errors()
        plan, found = _check_evidence(checked.plan, repository_facts(self._sources().code, self._paths))
        made = CreationResult(
            plan, "ready", checked._replace(plan=plan), rejected=found.rejected, warnings=found.warnings
        )
        if checked.errors:
            return replace(made, status="draft_rejected")
        made = replace(made, status="needs_clarification" if plan.open_questions else "ready")
        return self._save(made, saving, "refined" if before else "created") if saving.auto else made

    def _find_accepted(self, kept: LoadedPlan, submission_id: str) -> CreationResult | None:
        """Return the saved plan if a draft was accepted under this id before."""
        versions, _ = self._repository.history(kept.plan.id) if submission_id else ((), ())
        if not any(version.submission_id == submission_id for version in versions):
            return None
        warning = (
            "a draft was taken under this submission_id already, and nothing was changed; leave it out to send another"
        )
        checked = PlanValidation(kept.plan)
        saved = SavedPlan(kept.plan, kept.version, "", True, (), checked)
        return CreationResult(
            kept.plan,
            "needs_clarification" if kept.plan.open_questions else "ready",
            checked,
            saved,
            warnings=(warning,),
        )

    def _save(self, made: CreationResult, saving: SaveOptions, change: Any) -> CreationResult:
        plan = msgspec.structs.replace(made.plan, id=saving.plan_id or made.plan.id)
        saved = self._repository.save(
            plan,
            name=saving.name,
            tags=saving.tags,
            overwrite=bool(saving.plan_id),
            change=change,
            submission_id=saving.submission_id,
            reason="create_plan",
        )
        return replace(made, plan=saved.plan, saved=saved, warnings=(*made.warnings, *saved.warnings))


def _add_diagram(plan: Plan) -> Plan:
    """Return the plan with a diagram of its dependencies."""
    picture = PlanDiagram("dependencies", draw_dependencies(plan).mermaid)
    return msgspec.structs.replace(plan, architecture=msgspec.structs.replace(plan.architecture, diagrams=(picture,)))


def _done_uids(execution: Execution) -> frozenset[str]:
    """Return the uids of done steps; their history is not rewritten."""
    return frozenset(uid for uid, state in execution.steps.items() if state.status in DONE)


def _fill_in(plan: Plan, before: Plan | None, task: str, provenance: str) -> Plan:
    """Fill in the fields that the draft leaves empty from the plan before it."""
    known = {"task": plan.task or task, "provenance": provenance}
    if before is not None:
        known |= {"id": before.id, "task": plan.task or before.task, "base_commit": before.base_commit}
        unsaid = Plan(goal="")
        kept = ("confidence_score", "risks", "testing_strategy", "scope")
        known |= {name: getattr(before, name) for name in kept if getattr(plan, name) == getattr(unsaid, name)}
    return msgspec.structs.replace(plan, **known)


# -- what a draft says, against what there is -------------------------------------------------------------------------


def _check_evidence(plan: Plan, ground: Facts) -> tuple[Plan, CheckedClaims]:
    """Return the plan without wrong evidence; the files of its steps are checked by validation."""
    created = tuple(path for step in plan.steps for path in step.files_to_create)
    claims = [
        Claim((step.uid, at), f"steps[{place}].evidence[{at}]", *_evidence_claims(proof, created))
        for place, step in enumerate(plan.steps)
        for at, proof in enumerate(step.evidence)
    ]
    found = check_claims(claims, ground)
    kept = set(found.kept)
    steps = tuple(
        msgspec.structs.replace(
            step, evidence=tuple(proof for at, proof in enumerate(step.evidence) if (step.uid, at) in kept)
        )
        for step in plan.steps
    )
    shown = tuple(rejection._replace(item=None) for rejection in found.rejected)
    return msgspec.structs.replace(plan, steps=steps), replace(found, rejected=shown)


def _evidence_claims(evidence: Any, created: Sequence[str]) -> tuple[Any, ...]:
    """Return the paths, new files, symbols and lines that a piece of evidence claims."""
    lines = (ClaimedLines(evidence.path, evidence.line, evidence.line),) if evidence.line else ()
    symbols = (
        (evidence.symbol,) if evidence.symbol and "/" not in evidence.symbol and evidence.kind == "definition" else ()
    )
    return ((evidence.path,) if evidence.path else ()), created, symbols, lines


def repository_facts(code: Workspace, paths: WorkspacePaths) -> Facts:
    """Return the facts that drafts are checked against."""

    def text(path: str) -> str | None:
        try:
            return code.files.read(path).text
        except CallError:
            return None

    def has_symbol(name: str) -> bool:
        try:
            return bool(code.symbols.find(name, limit=1).total)
        except CallError:
            return True  # without an index no one can tell that it is missing

    def near_paths(path: str) -> tuple[str, ...]:
        return tuple(filter(None, [paths.nearest(path)]))

    def near_symbols(name: str) -> tuple[str, ...]:
        try:
            return code.symbols.find(name, limit=1).near[:NEAR_MAX]
        except CallError:
            return ()

    return Facts(paths.has_path, text, has_symbol, near_paths, near_symbols)


# -- the second pass --------------------------------------------------------------------------------------------------


def _step_lines(plan: Plan) -> Iterator[str]:
    number = plan.step_numbers()
    for step in plan.steps:
        waits = ", ".join(str(number[uid]) for uid in step.depends_on if uid in number)
        yield f"{number[step.uid]}. {step.title}{f' (after {waits})' if waits else ''}: {_step_files(step)}"


def _step_files(step: PlanStep) -> str:
    """Return the files of a step, each with the line of its evidence."""
    lines = {evidence_item.path: evidence_item.line for evidence_item in reversed(step.evidence) if evidence_item.line}
    paths = [*step.files_to_modify, *(f"new {path}" for path in step.files_to_create)]
    shown = [f"{path}:{lines[path]}" if path in lines else path for path in paths[:BRIEF_STEP_FILES]]
    more = [f"and {len(paths) - len(shown)} more"] if len(paths) > len(shown) else []
    return ", ".join([*shown, *more]) or "no files"
