"""Create plans from the repository, accept better drafts of them, and refine them; each change is a new version.

    result = factory.create(PlanRequest("Retry failed requests"), SaveOptions())
    result = factory.accept_draft(draft, SaveOptions(plan_id=result.plan.id), provenance="host")
    refinement = factory.refine(RefinementRequest(plan_id="plan_...", operations=({"op": "remove_step", "step": 4},)))

A draft that names missing files is rejected as a whole; evidence that is wrong is removed and reported. A refinement is
validated before anything is saved. Feedback in words stays with the plan until operations or a draft take it up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from context_engine.context import (
    BRIEF_TOKENS_MAX,
    QUOTED_FROM_REPOSITORY,
    BriefSection,
    CheckedClaims,
    Claim,
    ClaimedLines,
    ReferencePlace,
    RejectedItem,
    SecondPass,
    Workspace,
    build_brief,
    check_claims,
    parse_mentions,
    resolve_mentions,
)
from context_engine.context import RepositoryFacts as Facts
from context_engine.errors import CallError, InvalidArgument, NextStep, PlanNotFound
from context_engine.plans.changeset import PlanRequest, PlanSources
from context_engine.plans.mermaid import draw_dependencies
from context_engine.plans.model import TASK_CHARS_MAX, Plan, PlanArchitecture, PlanDiagram, PlanEvidence, PlanStep
from context_engine.plans.operations import (
    AppliedOperation,
    answer_operations,
    apply_operations,
    check_done_steps,
    operations_schema,
)
from context_engine.plans.plan_diff import PlanDifference, compare_plans
from context_engine.plans.plan_draft import DraftStatus, PlanDraft, draft_plan
from context_engine.plans.plan_events import DONE, planning_status
from context_engine.plans.plan_json import ChangeType, ParsedPlan, PlanFinding, draft_schema, parse_plan
from context_engine.plans.plan_markdown import single_line
from context_engine.plans.plan_repository import LoadedPlan, PlanRepository, SavedPlan, check_version
from context_engine.plans.plan_validation import PlanValidation, WorkspacePaths, validate_plan
from context_engine.text import shorten_line

NEAR_MAX = 3
BRIEF_STEP_FILES = 6
BRIEF_COMMANDS = 6
REASONS_MAX = 4
FEEDBACK_KEPT_MAX = 50
"""With more open feedback, a new draft is needed."""
CREATION_TASK = (
    "Make a better plan for the task below, as JSON by the schema. Keep what is right in the plan that was made "
    "without a model, split or merge its steps, write descriptions that say what to change and how, drop files that do "
    "not belong, name new files in files_to_create. Every path must exist or be created by this or an earlier step; "
    "depends_on contains step numbers."
)
REFINEMENT_TASK = (
    "Turn the open feedback about the plan below into operations, as JSON by the schema; change nothing that the "
    "feedback does not ask for, and no step that is done. Steps are named by their number or uid. Every path must "
    "exist or be created by this or an earlier step."
)


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """Whether and how to save a plan. With `plan_id` it becomes the next version of that plan."""

    auto: bool = True
    name: str = ""
    tags: tuple[str, ...] | None = None
    plan_id: str = ""


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
        plan, task = self.plan, self.plan.task or self.plan.goal
        commands = self.base.commands[:BRIEF_COMMANDS] if self.base else ()
        parts = [
            BriefSection("Task", [task]),
            BriefSection("Steps of the plan so far", [_step_line(plan, step) for step in plan.steps]),
            BriefSection("What names in the task mean", plan.scope.assumptions),
            BriefSection(f"Rules and decisions, {QUOTED_FROM_REPOSITORY}", plan.scope.constraints),
            BriefSection("Open questions", [question.text for question in plan.open_questions]),
            BriefSection("Risks", [risk.issue for risk in plan.risks]),
            BriefSection("How this repository is checked", [str(command) for command in commands]),
        ]
        text = build_brief(CREATION_TASK, parts, tokens_max=min(tokens, BRIEF_TOKENS_MAX))
        arguments = {"task": task} | ({"plan_id": plan.id} if self.saved else {})
        return SecondPass("create_plan", text, draft_schema(), arguments, is_stored=False)


@dataclass(frozen=True, slots=True)
class RefinementRequest:
    """A requested change of a plan that is saved (`plan_id`) or passed along (`plan`)."""

    plan_id: str = ""
    plan: object = None
    expected_version: int | None = None
    operations: Sequence[object] = ()
    feedback: str = ""
    clarifications: Mapping[str, Any] = field(default_factory=dict)
    focus: Sequence[str] = ()
    draft: object = None
    force_reopen: bool = False
    auto_save: bool = True
    strict: bool = True
    provenance: str = ""


@dataclass(frozen=True, slots=True)
class Refinement:
    """The result. `saved` is None if it was not saved; `answered` has the places that answers mention, by question."""

    before: Plan
    plan: Plan
    status: str
    checked: PlanValidation
    found: PlanDifference
    applied: tuple[AppliedOperation, ...] = ()
    saved: SavedPlan | None = None
    answered: Mapping[str, tuple[ReferencePlace, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    rejected: tuple[RejectedItem, ...] = ()

    def prompt(self, focus: Sequence[str] = ()) -> SecondPass:
        """Return the prompt for an agent or a model; the version connects its answer with the plan."""
        plan = self.plan
        names = {*plan.step_numbers(), *map(str, plan.step_numbers().values())}
        wanted = {plan.find_step(which).uid for which in focus if str(which) in names}
        steps = [_step_line(plan, step) for step in plan.steps if not wanted or step.uid in wanted]
        answers = [f"{question.text} - {question.answer}" for question in plan.questions if question.answer]
        parts = [
            BriefSection("Open feedback", plan.open_feedback),
            BriefSection("Answers", answers),
            BriefSection("Open questions", [question.text for question in plan.open_questions]),
            BriefSection("Goal", [plan.goal]),
            BriefSection("Steps to look at" if wanted else "Steps", steps),
            BriefSection("Excluded", plan.scope.excluded),
        ]
        saved_plan = {"plan_id": plan.id, "expected_version": plan.version}
        arguments = saved_plan if self.saved else {"current_plan": "this plan"}
        brief = build_brief(REFINEMENT_TASK, parts)
        return SecondPass("refine_plan", brief, operations_schema(), arguments, "operations", is_stored=False)


def _step_line(plan: Plan, step: PlanStep) -> str:
    """Return a step with its uid, what it waits for, and its files, each with the line of its evidence."""
    number = plan.step_numbers()
    waits = ", ".join(str(number[uid]) for uid in step.depends_on if uid in number)
    lines = {proof.path: proof.line for proof in reversed(step.evidence) if proof.line}
    changed = [*step.files_to_modify, *(f"new {path}" for path in step.files_to_create)]
    changed += [f"delete {path}" for path in step.files_to_delete]
    files = [f"{path}:{lines[path]}" if path in lines else path for path in changed[:BRIEF_STEP_FILES]]
    files += [f"and {len(changed) - len(files)} more"] if len(changed) > len(files) else []
    after = f" (after {waits})" if waits else ""
    return f"{number[step.uid]}. [{step.uid}] {single_line(step.title)}{after}: {', '.join(files) or 'no files'}"


class PlanFactory:
    """Makes and changes plans of one workspace. Thread-safe."""

    def __init__(self, sources: Callable[[], PlanSources], repository: PlanRepository, paths: WorkspacePaths) -> None:
        self._sources = sources
        self._repository = repository
        self._paths = paths

    def create(self, request: PlanRequest, saving: SaveOptions) -> CreationResult:
        """Create a plan for a task from the repository, and save it.

        Raises: as `Engine.search` (never for a missing index) and `PlanRepository.save`.
        """
        clean = replace(request, task=self._repository.clean(request.task))  # before a title is cut of it
        base = draft_plan(clean, self._sources())
        plan = base.plan
        if request.with_diagrams:
            diagram = PlanDiagram("dependencies", draw_dependencies(plan).mermaid)
            architecture = PlanArchitecture(plan.architecture.notes, diagrams=(diagram,))
            plan = msgspec.structs.replace(plan, architecture=architecture)
        checked = validate_plan(plan, self._paths)
        made = CreationResult(checked.plan, base.status, checked, base=base, warnings=base.change.warnings)
        return self._save_new(made, saving, "created") if saving.auto else made

    def accept_draft(
        self, draft: object, saving: SaveOptions, *, provenance: str, strict: bool = True, task: str = ""
    ) -> CreationResult:
        """Accept a draft if it is true; else return `draft_rejected`, and save nothing.

        It must leave done steps unchanged. Raises: InvalidArgument (not a plan), Cycle, DanglingDependency,
        PlanNotFound, Conflict, PreconditionFailed, TooLarge.
        """
        kept = self._repository.load(saving.plan_id) if saving.plan_id else None
        before = kept.plan if kept else None
        read = parse_plan(draft, before=before)
        read = read._replace(plan=_fill_in(read.plan, before, task, provenance))
        made = self._judge_draft(read, kept, strict=strict)
        if before is not None:
            check_done_steps(before, made.plan, _uids_in_status(kept, *DONE))  # their history is not rewritten
        if made.checked.errors or not saving.auto:
            return made
        return self._save_new(made, saving, "refined" if before else "created")

    def refine(self, request: RefinementRequest) -> Refinement:
        """Refine a plan and save the next version, unless it is rejected.

        Raises: PlanNotFound, Conflict (a stale version), InvalidArgument, PreconditionFailed (a done step), Cycle,
        DanglingDependency, and as `PlanRepository.save`.
        """
        loaded, before, remarks, expected = self._load_before(request)
        if loaded:
            check_version(loaded.version.version, expected)
        if request.draft is not None:
            return self._refine_by_draft(request, loaded, before)
        if not (request.operations or request.feedback.strip() or request.clarifications):
            raise InvalidArgument(
                "the call does not say what to change",
                suggestion='Pass operations [{"op": "remove_step", "step": 4}], feedback, clarifications or a draft.',
            )
        operations = [*request.operations, *answer_operations(request.clarifications)]
        done = _uids_in_status(loaded, "completed")
        changed = apply_operations(before, operations, closed=done, force_reopen=request.force_reopen)
        plan = changed.plan
        if request.operations:
            provenance = request.provenance or plan.provenance
            plan = msgspec.structs.replace(plan, open_feedback=(), provenance=provenance)
        plan = _with_feedback(plan, request.feedback, [before.find_step(which).uid for which in request.focus])
        plan, answered = self._resolve_answers(before, plan)
        checked = self._validate(plan, loaded, remarks, strict=request.strict)
        checked.raise_fatal_errors()
        plan = checked.plan
        named = dict.fromkeys(place.path for places in answered.values() for place in places)
        warnings = tuple(
            f"{path}, which an answer names, is in no step: add it with set_files"
            for path in named
            if path not in plan.files
        )
        made = Refinement(before, plan, planning_status(plan), checked, compare_plans(before, plan), changed.applied)
        made = replace(made, answered=answered, warnings=warnings)
        if _error_keys(checked) - _error_keys(self._validate(before, loaded, (), strict=False)):
            return replace(made, status="draft_rejected")  # older errors do not block other changes
        return self._save(made, request, loaded, changed.reopened)

    def _judge_draft(self, read: ParsedPlan, kept: LoadedPlan | None, *, strict: bool) -> CreationResult:
        """Check a draft against the code. Raises: Cycle, DanglingDependency."""
        checked = self._validate(read.plan, kept, read.remarks, strict=strict)
        checked.raise_fatal_errors()
        plan, found = _check_evidence(checked.plan, repository_facts(self._sources().code, self._paths))
        status: DraftStatus = "draft_rejected" if checked.errors else planning_status(plan)
        checked = checked._replace(plan=plan)
        return CreationResult(plan, status, checked, rejected=found.rejected, warnings=found.warnings)

    def _refine_by_draft(self, request: RefinementRequest, loaded: LoadedPlan | None, before: Plan) -> Refinement:
        """Replace the plan by a whole draft. Raises: PreconditionFailed when it changes done steps."""
        if request.operations or request.clarifications or request.feedback:
            raise InvalidArgument(
                "a draft cannot be combined with other changes",
                suggestion="Send the draft first, then operations or feedback on what it makes.",
            )
        read = parse_plan(request.draft, before=before)
        done = _uids_in_status(loaded, *DONE)
        reopened = check_done_steps(before, read.plan, done, force_reopen=request.force_reopen)
        read = read._replace(plan=_fill_in(read.plan, before, "", request.provenance or "host"))
        made = self._judge_draft(read, loaded, strict=request.strict)
        plan = msgspec.structs.replace(made.plan, version=before.version, created_at=before.created_at)
        refined = Refinement(before, plan, made.status, made.checked, compare_plans(before, plan))
        refined = replace(refined, warnings=made.warnings, rejected=made.rejected)
        return refined if made.status == "draft_rejected" else self._save(refined, request, loaded, reopened)

    def _load_before(
        self, request: RefinementRequest
    ) -> tuple[LoadedPlan | None, Plan, tuple[PlanFinding, ...], int | None]:
        """Return the saved plan (if any), the plan to change, its findings, and the base version."""
        if request.plan is None:
            if not request.plan_id:
                raise InvalidArgument(
                    "which plan?", suggestion="Pass plan_id.", next_steps=NextStep("list_plans", "to see ids and names")
                )
            loaded = self._repository.load(request.plan_id)
            return loaded, loaded.plan, (), request.expected_version
        read = self._repository.parse(request.plan)
        expected = read.plan.version if request.expected_version is None else request.expected_version
        try:
            loaded = self._repository.load(read.plan.id) if read.plan.id else None
        except PlanNotFound:
            loaded = None
        return loaded, read.plan, read.remarks, expected

    def _validate(
        self, plan: Plan, loaded: LoadedPlan | None, remarks: Sequence[PlanFinding], *, strict: bool
    ) -> PlanValidation:
        return validate_plan(plan, self._paths, strict=strict, remarks=remarks, closed=_uids_in_status(loaded, *DONE))

    def _resolve_answers(self, before: Plan, plan: Plan) -> tuple[Plan, dict[str, tuple[ReferencePlace, ...]]]:
        """Look up the places that new answers mention, and add them to the evidence."""
        known = {question.id for question in before.questions if question.answer}
        found: dict[str, tuple[ReferencePlace, ...]] = {}
        for question in plan.questions:
            if question.answer and question.id not in known:
                looked_up = resolve_mentions(parse_mentions(question.answer), self._sources().code)
                found[question.id] = tuple(reference.places[0] for reference in looked_up if len(reference.places) == 1)
        places = [place for row in found.values() for place in row]
        evidence = [PlanEvidence("answer", str(place.path), place.line, place.symbol) for place in places]
        return msgspec.structs.replace(plan, evidence=tuple(dict.fromkeys((*plan.evidence, *evidence)))), found

    def _save_new(self, made: CreationResult, saving: SaveOptions, change: ChangeType) -> CreationResult:
        saved = self._repository.save(
            msgspec.structs.replace(made.plan, id=saving.plan_id or made.plan.id),
            name=saving.name,
            tags=saving.tags,
            overwrite=bool(saving.plan_id),
            change=change,
            reason="create_plan",
        )
        return replace(made, plan=saved.plan, saved=saved, warnings=(*made.warnings, *saved.warnings))

    def _save(
        self, made: Refinement, request: RefinementRequest, loaded: LoadedPlan | None, reopened: Sequence[str]
    ) -> Refinement:
        """Save the refinement as the version after the one it is based on."""
        if not request.auto_save:
            return made
        reasons = [applied.said for applied in made.applied[:REASONS_MAX]]
        reasons += [f"and {len(made.applied) - REASONS_MAX} more"] if len(made.applied) > REASONS_MAX else []
        saved = self._repository.save(
            made.plan,
            overwrite=loaded is not None,
            expected_version=loaded.version.version if loaded else None,
            change="refined",
            reason="; ".join(reasons),
            reopened=reopened,
            allow_invalid=True,
        )
        found = compare_plans(made.before, saved.plan)
        return replace(made, plan=saved.plan, saved=saved, found=found, warnings=(*made.warnings, *saved.warnings))


def _fill_in(plan: Plan, before: Plan | None, task: str, provenance: str) -> Plan:
    """Fill in the fields that the draft leaves empty from the plan before it."""
    known = {"task": plan.task or shorten_line(task, 0, TASK_CHARS_MAX), "provenance": provenance}
    if before is not None:
        known |= {"id": before.id, "task": plan.task or before.task, "base_commit": before.base_commit}
        unsaid = Plan(goal="")
        kept = ("confidence_score", "risks", "testing_strategy", "scope")
        known |= {name: getattr(before, name) for name in kept if getattr(plan, name) == getattr(unsaid, name)}
    return msgspec.structs.replace(plan, **known)


def _uids_in_status(loaded: LoadedPlan | None, *statuses: str) -> frozenset[str]:
    states = loaded.execution.steps if loaded and loaded.execution else {}
    return frozenset(uid for uid, state in states.items() if state.status in statuses)


def _with_feedback(plan: Plan, feedback: str, focus: Sequence[str]) -> Plan:
    """Return the plan with feedback in words, and the steps it is about, until operations take it up."""
    said = single_line(feedback)
    if not said:
        return plan
    number = plan.step_numbers()
    about = ", ".join(str(number[uid]) for uid in focus if uid in number)
    kept = tuple(dict.fromkeys((*plan.open_feedback, f"steps {about}: {said}" if about else said)))
    if len(kept) > FEEDBACK_KEPT_MAX:
        raise InvalidArgument(
            f"{len(kept)} pieces of feedback would be open, at most {FEEDBACK_KEPT_MAX} are kept",
            suggestion="Take them up with operations or a draft.",
        )
    return msgspec.structs.replace(plan, open_feedback=kept)


def _error_keys(checked: PlanValidation) -> set[tuple[Any, ...]]:
    """Return what identifies the errors of a plan, whatever the numbers of its steps."""
    steps = checked.plan.steps
    return {(error.code, error.path, *(steps[number - 1].uid for number in error.steps)) for error in checked.errors}


# -- the evidence of a draft -------------------------------------------------------------------------------------------


def _check_evidence(plan: Plan, ground: Facts) -> tuple[Plan, CheckedClaims]:
    """Return the plan without wrong evidence; the files of its steps are checked by validation."""
    created = tuple(path for step in plan.steps for path in step.files_to_create)
    claims = []
    for place, step in enumerate(plan.steps):
        for at, proof in enumerate(step.evidence):
            is_symbol = proof.symbol and "/" not in proof.symbol and proof.kind == "definition"
            claim = Claim(
                (step.uid, at),
                f"steps[{place}].evidence[{at}]",
                (proof.path,) if proof.path else (),
                created,
                (proof.symbol,) if is_symbol else (),
                (ClaimedLines(proof.path, proof.line, proof.line),) if proof.line else (),
            )
            claims.append(claim)
    found = check_claims(claims, ground)
    kept, steps = set(found.kept), []
    for step in plan.steps:
        evidence = tuple(proof for at, proof in enumerate(step.evidence) if (step.uid, at) in kept)
        steps.append(msgspec.structs.replace(step, evidence=evidence))
    shown = tuple(rejection._replace(item=None) for rejection in found.rejected)
    return msgspec.structs.replace(plan, steps=tuple(steps)), replace(found, rejected=shown)


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
            return True  # without an index it is unknown whether it is missing

    def near_symbols(name: str) -> tuple[str, ...]:
        try:
            return code.symbols.find(name, limit=1).near[:NEAR_MAX]
        except CallError:
            return ()

    return Facts(
        paths.has_path, text, has_symbol, lambda path: tuple(filter(None, [paths.nearest(path)])), near_symbols
    )
