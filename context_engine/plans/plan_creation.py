"""Create plans from the repository, accept better drafts of them, and refine them; each change is a new version.

    result = factory.create(PlanRequest("Retry failed requests"), SaveOptions())
    result = factory.accept_draft(draft, SaveOptions(plan_id=result.plan.id), provenance="host")
    refinement = refiner.refine(RefinementRequest(plan_id="plan_...", operations=({"op": "remove_step", "step": 4},)))

A draft is checked against the code. A draft that names missing files is rejected as a whole; evidence that is wrong is
removed and reported. A refinement is made on a copy and validated before anything is saved. Feedback in words stays
with the plan until operations or a draft take it up.
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
from context_engine.errors import CallError, Conflict, InvalidArgument, NextStep, PlanNotFound
from context_engine.plans.changeset import PlanRequest, PlanSources
from context_engine.plans.mermaid import draw_dependencies
from context_engine.plans.model import TASK_CHARS_MAX, Plan, PlanDiagram, PlanEvidence, PlanStep
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
from context_engine.plans.plan_json import PlanFinding, draft_schema, parse_plan
from context_engine.plans.plan_markdown import single_line
from context_engine.plans.plan_repository import LoadedPlan, PlanRepository, SavedPlan
from context_engine.plans.plan_validation import PlanValidation, WorkspacePaths, validate_plan
from context_engine.text import shorten_line

NEAR_MAX = 3
BRIEF_STEP_FILES = 6
CREATION_TASK = (
    "Make a better plan for the task below, as JSON by the schema. Keep what is right in the plan that was made "
    "without a model, split or merge its steps, write descriptions that say what to change and how, drop files that do "
    "not belong, name new files in files_to_create. Every path must exist or be created by this or an earlier step; "
    "depends_on contains step numbers."
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
        plan = self.plan
        arguments: dict[str, Any] = {"task": plan.task or plan.goal}
        if self.saved is not None:
            arguments["plan_id"] = plan.id
        commands = self.base.commands[:6] if self.base else ()
        parts = [
            BriefSection("Task", [plan.task or plan.goal]),
            BriefSection("Steps of the plan so far", [_step_line(plan, step) for step in plan.steps]),
            BriefSection("What names in the task mean", list(plan.scope.assumptions)),
            BriefSection(f"Rules and decisions, {QUOTED_FROM_REPOSITORY}", list(plan.scope.constraints)),
            BriefSection("Open questions", [question.text for question in plan.open_questions]),
            BriefSection("Risks", [risk.issue for risk in plan.risks]),
            BriefSection("How this repository is checked", [str(command) for command in commands]),
        ]
        text = build_brief(CREATION_TASK, parts, tokens_max=min(tokens, BRIEF_TOKENS_MAX))
        return SecondPass("create_plan", text, draft_schema(), arguments, is_stored=False)


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
        if saving.auto:
            return self._save(made, saving, "created")
        return made

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
        before = kept.plan if kept else None
        read = parse_plan(draft, before=before)
        plan = _fill_in(read.plan, before, task, provenance)
        closed = _uids_in_status(kept, *DONE)  # their history is not rewritten
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
        made = replace(made, status=planning_status(plan))
        if saving.auto:
            return self._save(made, saving, "refined" if before else "created")
        return made

    def _save(self, made: CreationResult, saving: SaveOptions, change: Any) -> CreationResult:
        plan = msgspec.structs.replace(made.plan, id=saving.plan_id or made.plan.id)
        saved = self._repository.save(
            plan,
            name=saving.name,
            tags=saving.tags,
            overwrite=bool(saving.plan_id),
            change=change,
            reason="create_plan",
        )
        return replace(made, plan=saved.plan, saved=saved, warnings=(*made.warnings, *saved.warnings))


def _add_diagram(plan: Plan) -> Plan:
    """Return the plan with a diagram of its dependencies."""
    picture = PlanDiagram("dependencies", draw_dependencies(plan).mermaid)
    return msgspec.structs.replace(plan, architecture=msgspec.structs.replace(plan.architecture, diagrams=(picture,)))


def _fill_in(plan: Plan, before: Plan | None, task: str, provenance: str) -> Plan:
    """Fill in the fields that the draft leaves empty from the plan before it."""
    known = {"task": plan.task or shorten_line(task, 0, TASK_CHARS_MAX), "provenance": provenance}
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
    if evidence.symbol and "/" not in evidence.symbol and evidence.kind == "definition":
        symbols = (evidence.symbol,)
    else:
        symbols = ()
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
            return True  # without an index it is unknown whether it is missing

    def near_paths(path: str) -> tuple[str, ...]:
        return tuple(filter(None, [paths.nearest(path)]))

    def near_symbols(name: str) -> tuple[str, ...]:
        try:
            return code.symbols.find(name, limit=1).near[:NEAR_MAX]
        except CallError:
            return ()

    return Facts(paths.has_path, text, has_symbol, near_paths, near_symbols)


# -- the second pass --------------------------------------------------------------------------------------------------


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


# -- refining ----------------------------------------------------------------------------------------------------------


REFINEMENT_TASK = (
    "Turn the open feedback about the plan below into operations, as JSON by the schema; change nothing that the "
    "feedback does not ask for, and no step that is done. Steps are named by their number or uid. Every path must "
    "exist or be created by this or an earlier step."
)
FEEDBACK_KEPT_MAX = 50
"""With more open feedback, a new draft is needed."""


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
    rejected: tuple[Any, ...] = ()

    def prompt(self, focus: Sequence[str] = ()) -> SecondPass:
        """Return the prompt for an agent or a model; the version connects its answer with the plan."""
        plan = self.plan
        known = {*plan.step_numbers(), *map(str, plan.step_numbers().values())}
        wanted = {plan.find_step(which).uid for which in focus if str(which) in known}
        shown = [step for step in plan.steps if not wanted or step.uid in wanted]
        answers = [f"{question.text} - {question.answer}" for question in plan.questions if question.answer]
        parts = [
            BriefSection("Open feedback", list(plan.open_feedback)),
            BriefSection("Answers", answers),
            BriefSection("Open questions", [question.text for question in plan.open_questions]),
            BriefSection("Goal", [plan.goal]),
            BriefSection("Steps to look at" if wanted else "Steps", [_step_line(plan, step) for step in shown]),
            BriefSection("Excluded", list(plan.scope.excluded)),
        ]
        saved_plan = {"plan_id": plan.id, "expected_version": plan.version}
        return SecondPass(
            "refine_plan",
            build_brief(REFINEMENT_TASK, parts),
            operations_schema(),
            saved_plan if self.saved else {"current_plan": "this plan"},
            "operations",
            is_stored=False,
        )


class PlanRefiner:
    """Changes plans of one workspace. Thread-safe."""

    def __init__(
        self, repository: PlanRepository, ground: WorkspacePaths, making: PlanFactory, code: Workspace
    ) -> None:
        self._repository = repository
        self._ground = ground
        self._making = making
        self._code = code

    def refine(self, request: RefinementRequest) -> Refinement:
        """Refine a plan and save the next version, unless it is rejected.

        Raises: PlanNotFound, Conflict (a stale version), InvalidArgument, PreconditionFailed (a done step), Cycle,
        DanglingDependency, and as `PlanRepository.save`.
        """
        loaded, before, remarks, expected = self._load_before(request)
        _check_current(loaded, expected)
        if request.draft is not None:
            return self._refine_by_draft(request, loaded, before)
        if not (request.operations or request.feedback.strip() or request.clarifications):
            raise InvalidArgument(
                "the call does not say what to change",
                suggestion='Pass operations [{"op": "remove_step", "step": 4}], feedback, clarifications or a draft.',
            )
        operations = [*request.operations, *answer_operations(request.clarifications)]
        changed = apply_operations(
            before, operations, closed=_uids_in_status(loaded, "completed"), force_reopen=request.force_reopen
        )
        settled = changed.plan
        if request.operations:
            provenance = request.provenance or settled.provenance
            settled = msgspec.structs.replace(settled, open_feedback=(), provenance=provenance)
        plan = _with_feedback(settled, request.feedback, [before.find_step(which).uid for which in request.focus])
        plan, answered = self._resolve_answers(before, plan)
        checked = self._validate(plan, loaded, request.strict, remarks)
        checked.raise_fatal_errors()
        comparison = compare_plans(before, checked.plan)
        made = Refinement(before, checked.plan, planning_status(checked.plan), checked, comparison)
        made = replace(made, applied=changed.applied, answered=answered, warnings=_warnings(checked.plan, answered))
        new = _new_errors(checked, self._validate(before, loaded, False, ()))
        if new:
            return replace(made, status="draft_rejected")
        return self._save(made, request, loaded, changed.reopened)

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
        return self._find_stored(read.plan.id), read.plan, read.remarks, expected

    def _find_stored(self, plan_id: str) -> LoadedPlan | None:
        try:
            if plan_id:
                return self._repository.load(plan_id)
            return None
        except PlanNotFound:
            return None

    def _refine_by_draft(self, request: RefinementRequest, loaded: LoadedPlan | None, before: Plan) -> Refinement:
        """Replace the plan by a whole draft. Raises: PreconditionFailed when it changes done steps."""
        if request.operations or request.clarifications or request.feedback:
            raise InvalidArgument(
                "a draft cannot be combined with other changes",
                suggestion="Send the draft first, then operations or feedback on what it makes.",
            )
        done = _uids_in_status(loaded, "completed")
        read = parse_plan(request.draft, before=before).plan
        reopened = check_done_steps(before, read, done, force_reopen=request.force_reopen)
        saving = SaveOptions(auto=False, plan_id=before.id if loaded else "")
        made = self._making.accept_draft(
            request.draft,
            saving,
            provenance=request.provenance or "host",
            strict=request.strict,
            task=before.task,
            force_reopen=request.force_reopen,
        )
        plan = msgspec.structs.replace(made.plan, id=before.id, version=before.version, created_at=before.created_at)
        refinement = Refinement(before, plan, made.status, made.checked, compare_plans(before, plan))
        refinement = replace(refinement, warnings=made.warnings, rejected=made.rejected)
        if made.status == "draft_rejected":
            return refinement
        return self._save(refinement, request, loaded, reopened)

    def _validate(
        self, plan: Plan, loaded: LoadedPlan | None, strict: bool, remarks: Sequence[PlanFinding]
    ) -> PlanValidation:
        return validate_plan(plan, self._ground, strict=strict, remarks=remarks, closed=_uids_in_status(loaded, *DONE))

    def _resolve_answers(self, before: Plan, plan: Plan) -> tuple[Plan, dict[str, tuple[ReferencePlace, ...]]]:
        """Look up the places that new answers mention, and add them to the evidence."""
        known = {question.id for question in before.questions if question.answer}
        found: dict[str, tuple[ReferencePlace, ...]] = {}
        for question in plan.questions:
            if question.answer and question.id not in known:
                looked_up = resolve_mentions(parse_mentions(question.answer), self._code, ())
                found[question.id] = tuple(reference.places[0] for reference in looked_up if len(reference.places) == 1)
        places = [place for row in found.values() for place in row]
        evidence = tuple(PlanEvidence("answer", str(place.path), place.line, place.symbol) for place in places)
        new = tuple(proof for proof in dict.fromkeys(evidence) if proof not in plan.evidence)
        return msgspec.structs.replace(plan, evidence=(*plan.evidence, *new)), found

    def _save(
        self, made: Refinement, request: RefinementRequest, loaded: LoadedPlan | None, reopened: Sequence[str]
    ) -> Refinement:
        """Save the refinement as the version after the one it is based on."""
        if not request.auto_save:
            return made
        saved = self._repository.save(
            made.plan,
            overwrite=loaded is not None,
            expected_version=loaded.version.version if loaded else None,
            change="refined",
            reason=_reason(made.applied),
            reopened=reopened,
            allow_invalid=True,
        )
        found = compare_plans(made.before, saved.plan)
        return replace(made, plan=saved.plan, saved=saved, found=found, warnings=(*made.warnings, *saved.warnings))


def _check_current(loaded: LoadedPlan | None, expected: int | None) -> None:
    """Check that a change is based on the newest version. Raises: Conflict."""
    if loaded is None or expected is None:
        return
    newest = loaded.version.version
    if expected != newest:
        raise Conflict(
            f"the plan is at version {newest}, not {expected}",
            suggestion="Repeat the change on the newest version.",
            next_steps=NextStep("load_plan", "to read it"),
            details={"plan_id": loaded.plan.id, "expected": expected, "current": newest},
        )


def _uids_in_status(loaded: LoadedPlan | None, *statuses: str) -> frozenset[str]:
    """Return the uids of steps in one of these statuses."""
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


def _new_errors(checked: PlanValidation, old: PlanValidation) -> list[PlanFinding]:
    """Return the errors that this change introduces; older errors do not block other changes."""

    def error_keys(one: PlanValidation) -> set[tuple[Any, ...]]:
        return {(error.code, error.path, *(one.plan.steps[n - 1].uid for n in error.steps)) for error in one.errors}

    known = error_keys(old)
    return [
        error
        for error in checked.errors
        if (error.code, error.path, *(checked.plan.steps[n - 1].uid for n in error.steps)) not in known
    ]


def _warnings(plan: Plan, answered: Mapping[str, Sequence[ReferencePlace]]) -> tuple[str, ...]:
    """Warn about each file that an answer names and no step touches."""
    paths = dict.fromkeys(place.path for places in answered.values() for place in places)
    missing = [path for path in paths if path not in plan.files]
    return tuple(f"{path}, which an answer names, is in no step: add it with set_files" for path in missing)


def _reason(applied: Sequence[AppliedOperation]) -> str:
    """Return the operations as a reason for the history."""
    descriptions = [applied_change.said for applied_change in applied[:4]]
    return "; ".join([*descriptions, *([f"and {len(applied) - 4} more"] if len(applied) > 4 else [])])
