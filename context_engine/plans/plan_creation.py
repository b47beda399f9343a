"""Create plans from the repository, accept better drafts of them, and refine them; each change is a new version.

    result = factory.create(PlanRequest("Retry failed requests"), SaveOptions())
    result = factory.accept_draft(draft, SaveOptions(plan_id=result.plan.id), provenance="host")
    result = factory.refine("plan_...", operations=({"op": "remove_step", "step": 4},))

A draft is accepted item by item: evidence, files and steps that are wrong are left out, each with the reason. What
follows from steps is computed from those that were accepted. A refinement is validated before anything is saved.
Feedback in words stays with the plan until operations or a draft take it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from context_engine.context import (
    BRIEF_TOKENS_MAX,
    QUOTED_FROM_REPOSITORY,
    BriefSection,
    Bundle,
    BundleRequest,
    CheckedClaims,
    Claim,
    ClaimedLines,
    RejectedItem,
    RepositoryFacts,
    SecondPass,
    Workspace,
    build_brief,
    build_bundle,
    check_claims,
    resolve_names,
)
from context_engine.errors import CallError, InvalidArgument, NextStep, PlanNotFound
from context_engine.model import Filter
from context_engine.plans.changeset import PlanRequest, PlanSources
from context_engine.plans.mermaid import draw_plan
from context_engine.plans.model import (
    TASK_CHARS_MAX,
    Plan,
    PlanDiagram,
    PlanEvidence,
    single_line,
)
from context_engine.plans.operations import (
    OPERATIONS_MAX,
    AppliedOperation,
    apply_operations,
    check_done_steps,
    operations_schema,
)
from context_engine.plans.plan_diff import PlanDifference, compare_plans
from context_engine.plans.plan_draft import PlanDraft, complete_plan, draft_plan
from context_engine.plans.plan_events import PlanningStatus, fold_progress, planning_status
from context_engine.plans.plan_json import ParsedPlan, PlanFinding, draft_schema, parse_plan
from context_engine.plans.plan_markdown import format_step
from context_engine.plans.plan_repository import LoadedPlan, PlanRepository, SavedPlan, check_version
from context_engine.plans.plan_validation import PlanValidation, WorkspacePaths, validate_plan
from context_engine.search import TaskText
from context_engine.text import estimate_tokens, shorten_line, shorten_prose

NEAR_MAX = 3
BRIEF_COMMANDS = 6
CODE_HEAD_TOKENS = 40
"""Of the head of the code in a brief, and the note about what was left out."""
REASON_CHARS_MAX = 400
FEEDBACK, TASK, STEPS, QUESTIONS = "Open feedback", "Task", "Steps", "Open questions"
RULES = f"Rules and decisions, {QUOTED_FROM_REPOSITORY}"
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
class PlanResult:
    """A plan that was made or refined, whether it was saved, and what to report.

    `base` is the draft from the repository, and `before` the plan that was refined. `reopened` are done steps that are
    open again, by uid. A draft that is not true is `draft_rejected`, and was not saved.
    """

    plan: Plan
    status: PlanningStatus | Literal["draft_rejected"]
    checked: PlanValidation
    saved: SavedPlan | None = None
    base: PlanDraft | None = None
    before: Plan | None = None
    applied: tuple[AppliedOperation, ...] = ()
    reopened: tuple[str, ...] = ()
    rejected: tuple[RejectedItem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Whether it has no error that it did not have before."""
        return self.status != "draft_rejected"

    @property
    def found(self) -> PlanDifference:
        """What was changed."""
        return compare_plans(self.before or self.plan, self.plan)

    @property
    def first_errors(self) -> str:
        """The first errors of a draft, for another attempt; empty when it is accepted."""
        return "" if self.is_accepted else "; ".join(error.message for error in self.checked.errors[:NEAR_MAX])

    def creation_pass(self, sources: PlanSources, tokens: int) -> SecondPass:
        """Return the second pass for an agent or a model that understands the task: its brief has the code, too."""
        arguments = {"task": self.plan.task or self.plan.goal} | ({"plan_id": self.plan.id} if self.saved else {})
        facts = self._sections(())
        words = build_brief(CREATION_TASK, facts, tokens_max=min(tokens, BRIEF_TOKENS_MAX))
        facts.append(
            BriefSection("Code", self._quote_code(sources, tokens - estimate_tokens(words) - CODE_HEAD_TOKENS))
        )
        brief, host_brief = _build_briefs(CREATION_TASK, facts, (TASK, STEPS, RULES, QUESTIONS), tokens)
        schema = draft_schema()
        return SecondPass(
            "create_plan", brief, schema, arguments, is_stored=False, host_brief=host_brief, is_loose=True
        )

    def _quote_code(self, sources: PlanSources, tokens: int) -> list[str]:
        """Return the code of the task within a budget, as a bundle selects it."""
        if self.base is None or tokens <= 0:
            return []
        request = BundleRequest(
            self.base.request.task,
            tokens_max=tokens,
            filter=self.base.request.chosen,
            with_related=False,
            with_memories=False,
            with_summaries=False,
        )

        def excess(bundle: Bundle) -> int:
            return sum(estimate_tokens(f"\n- {quote}") for quote in _quote_snippets(bundle)) - tokens

        return _quote_snippets(build_bundle(request, sources.code, sources.team, excess))

    def refinement_pass(self, focus: Sequence[str] = ()) -> SecondPass:
        """Return the second pass over the open feedback; the version connects its answer with the plan."""
        saved_plan = {"plan_id": self.plan.id, "expected_version": self.plan.version}
        arguments = saved_plan if self.saved else {"current_plan": "this plan"}
        brief, host_brief = _build_briefs(REFINEMENT_TASK, self._sections(focus), (FEEDBACK, QUESTIONS))
        schema = operations_schema()
        return SecondPass("refine_plan", brief, schema, arguments, "operations", is_stored=False, host_brief=host_brief)

    def _sections(self, focus: Sequence[str]) -> list[BriefSection]:
        """Return what a brief says of the plan, the most important first; with `focus` only these steps of it."""
        plan = self.plan
        names = {*plan.step_numbers(), *map(str, plan.step_numbers().values())}
        wanted = {plan.find_step(which).uid for which in focus if str(which) in names}
        answers = [f"{question.text} - {question.answer}" for question in plan.questions if question.answer]
        commands = self.base.commands[:BRIEF_COMMANDS] if self.base else ()
        return [
            BriefSection(FEEDBACK, plan.open_feedback),
            BriefSection("Answers", answers),
            BriefSection(TASK, [plan.task or plan.goal]),
            BriefSection(STEPS, [format_step(plan, step) for step in plan.steps if not wanted or step.uid in wanted]),
            BriefSection(RULES, plan.scope.constraints),
            BriefSection(QUESTIONS, [question.text for question in plan.open_questions]),
            BriefSection("Risks", [risk.issue for risk in plan.risks]),
            BriefSection("How this repository is checked", [str(command) for command in commands]),
            BriefSection("Excluded", plan.scope.excluded),
        ]


def _build_briefs(
    task: str, facts: Sequence[BriefSection], replied: Collection[str], tokens: int = BRIEF_TOKENS_MAX
) -> tuple[str, str]:
    """Return the brief for a model, and that for an agent: without the sections that are in the same reply."""
    others = [section for section in facts if section.title not in replied]
    return build_brief(task, facts, tokens_max=tokens), build_brief(task, others, tokens_max=tokens)


def _quote_snippets(bundle: Bundle) -> list[str]:
    return [f"{file.path}:{part.span}\n{part.text}" for file in bundle.files for part in file.snippets]


class PlanFactory:
    """Makes and changes plans of one workspace. Thread-safe."""

    def __init__(self, sources: Callable[[], PlanSources], repository: PlanRepository, paths: WorkspacePaths) -> None:
        self._sources = sources
        self._repository = repository
        self._paths = paths

    def create(self, request: PlanRequest, saving: SaveOptions) -> PlanResult:
        """Create a plan for a task from the repository, and save it.

        Raises: as `Engine.search` (never for a missing index) and `PlanRepository.save`.
        """
        clean = replace(request, task=self._repository.clean(request.task))  # before a title is cut of it
        base = draft_plan(clean, self._sources())
        checked = validate_plan(base.plan, self._paths)
        plan = _draw_dependencies(checked.plan, is_wanted=request.with_diagrams)
        made = PlanResult(plan, base.status, checked, base=base, warnings=base.change.warnings)
        return self._save_new(made, saving)

    def accept_draft(
        self,
        draft: object,
        saving: SaveOptions,
        request: PlanRequest,
        *,
        provenance: str,
        strict: bool = True,
        base: PlanDraft | None = None,
    ) -> PlanResult:
        """Accept what is true of a draft; if no step is, return `draft_rejected`, and save nothing.

        `base` is the draft from the repository for the same request, if it is known. A draft must leave done steps
        unchanged. Raises: InvalidArgument (not a plan), Cycle, DanglingDependency, PlanNotFound, Conflict,
        PreconditionFailed, TooLarge.
        """
        loaded = self._repository.load(saving.plan_id) if saving.plan_id else None
        before = loaded.plan if loaded else None
        made = self._check_draft(draft, loaded, before, request, provenance=provenance, strict=strict, base=base)
        return self._save_new(made, saving)

    def refine(
        self,
        plan_id: str = "",
        *,
        plan: object = None,
        expected_version: int | None = None,
        operations: Sequence[object] = (),
        feedback: str = "",
        clarifications: Mapping[str, Any] | None = None,
        focus: Sequence[str] = (),
        draft: object = None,
        force_reopen: bool = False,
        auto_save: bool = True,
        strict: bool = True,
        provenance: str = "",
    ) -> PlanResult:
        """Refine a plan that is saved, or passed along as `plan`, and save the next version, unless it is rejected.

        Raises: PlanNotFound, Conflict (a stale version), InvalidArgument, PreconditionFailed (a done step), Cycle,
        DanglingDependency, and as `PlanRepository.save`.
        """
        sent, loaded = self._load_before(plan_id, plan)
        before = sent.plan
        if loaded:
            is_based_on_sent = plan is not None and expected_version is None
            check_version(loaded.version.version, before.version if is_based_on_sent else expected_version)
        answers = [
            {"op": "answer_question", "question": question, "answer": str(answer)}
            for question, answer in (clarifications or {}).items()
        ]
        if draft is not None:
            if operations or answers or feedback:
                raise InvalidArgument(
                    "a draft cannot be combined with other changes",
                    suggestion="Send the draft first, then operations or feedback on what it makes.",
                )
            request = PlanRequest("", chosen=Filter(exclude_paths=before.scope.excluded))
            checks: dict[str, Any] = {"strict": strict, "force_reopen": force_reopen}
            made = self._check_draft(draft, loaded, before, request, provenance=provenance or "host", **checks)
        elif operations or answers or feedback.strip():
            states = loaded.execution.steps if loaded and loaded.execution else {}
            done = [uid for uid, state in states.items() if state.status == "completed"]
            changed = apply_operations(before, [*operations, *answers], closed=done, force_reopen=force_reopen)
            new = changed.plan
            if operations:
                provenance = provenance or new.provenance
                new = msgspec.structs.replace(new, open_feedback=(), provenance=provenance)
            new = _with_feedback(new, feedback, [before.find_step(which).uid for which in focus])
            made = self._check_change(before, new, loaded, sent.remarks, strict=strict)
            made = replace(made, applied=changed.applied, reopened=changed.reopened)
        else:
            raise InvalidArgument(
                "the call does not say what to change",
                suggestion='Pass operations [{"op": "remove_step", "step": 4}], feedback, clarifications or a draft.',
            )
        return self._save_next(made, loaded) if auto_save and made.is_accepted else made

    def _load_before(self, plan_id: str, plan: object) -> tuple[ParsedPlan, LoadedPlan | None]:
        """Return the plan to change, and the saved plan if there is one. Raises: InvalidArgument, PlanNotFound."""
        if plan is not None:
            sent = self._repository.parse(plan)
            with suppress(PlanNotFound):
                return sent, self._repository.load(sent.plan.id) if sent.plan.id else None
            return sent, None
        if not plan_id:
            to_list = NextStep("list_plans", "to see ids and names")
            raise InvalidArgument("which plan?", suggestion="Pass plan_id.", next_steps=to_list)
        loaded = self._repository.load(plan_id)
        return ParsedPlan(loaded.plan), loaded

    def _check_draft(
        self,
        draft: object,
        loaded: LoadedPlan | None,
        before: Plan | None,
        request: PlanRequest,
        *,
        provenance: str,
        strict: bool,
        force_reopen: bool = False,
        base: PlanDraft | None = None,
    ) -> PlanResult:
        """Check a draft against the code and the plan before it, and complete it from what was accepted.

        Raises: InvalidArgument, Cycle, DanglingDependency, PreconditionFailed when it changes a done step.
        """
        read = parse_plan(draft, before=before)
        sources, filled = self._sources(), _fill_in(read.plan, before, request.task, provenance)
        filled, found = _check_evidence(filled, _repository_facts(sources.code, self._paths))

        def validate(plan: Plan) -> PlanValidation:
            return self._validate(plan, loaded, read.remarks, strict=strict)

        checked, refused = _accept_steps(filled, validate)
        reopened = (
            check_done_steps(before, checked.plan, _done_uids(loaded), force_reopen=force_reopen) if before else ()
        )
        made = PlanResult(checked.plan, "draft_rejected", checked, before=before, reopened=reopened)
        made = replace(made, rejected=(*refused, *found.rejected), warnings=found.warnings)
        if checked.errors:
            return made
        base = base or draft_plan(replace(request, task=checked.plan.task or checked.plan.goal), sources)
        plan = complete_plan(checked.plan, base, sources)
        has_diagrams = bool(before and before.architecture.diagrams)
        plan = _draw_dependencies(plan, is_wanted=request.with_diagrams or has_diagrams)
        return replace(made, plan=plan, status=planning_status(plan), checked=checked._replace(plan=plan), base=base)

    def _check_change(
        self, before: Plan, plan: Plan, loaded: LoadedPlan | None, remarks: Sequence[PlanFinding], *, strict: bool
    ) -> PlanResult:
        """Look up the places that new answers mention, and validate. Raises: Cycle, DanglingDependency."""
        new = [question.answer for question in plan.questions if question not in before.questions]
        found = resolve_names(TaskText("\n".join(new)).names, self._sources().code) if any(new) else ()
        places = [one.places[0] for one in found if len(one.places) == 1]
        checked = self._validate(plan, loaded, remarks, strict=strict)
        checked.raise_fatal_errors()
        warnings = tuple(
            f"{path}, which an answer names, is in no step: add it with set_files"
            for path in dict.fromkeys(place.path for place in places)
            if path not in checked.plan.files
        )
        # Older errors do not block other changes.
        is_worse = _error_keys(checked) - _error_keys(self._validate(before, loaded, (), strict=False))
        plan = _draw_dependencies(checked.plan, is_wanted=bool(before.architecture.diagrams))
        status = "draft_rejected" if is_worse else planning_status(plan)
        return PlanResult(plan, status, checked, before=before, warnings=warnings)

    def _validate(
        self, plan: Plan, loaded: LoadedPlan | None, remarks: Sequence[PlanFinding], *, strict: bool
    ) -> PlanValidation:
        return validate_plan(plan, self._paths, strict=strict, remarks=remarks, closed=_done_uids(loaded))

    def _save_new(self, made: PlanResult, saving: SaveOptions) -> PlanResult:
        """Save a plan as it is wanted, unless it was rejected."""
        if not (saving.auto and made.is_accepted):
            return made
        saved = self._repository.save(
            msgspec.structs.replace(made.plan, id=saving.plan_id or made.plan.id),
            name=saving.name,
            tags=saving.tags,
            overwrite=bool(saving.plan_id),
            change="refined" if saving.plan_id else "created",
            reason="create_plan",
        )
        return replace(made, plan=saved.plan, saved=saved, warnings=(*made.warnings, *saved.warnings))

    def _save_next(self, made: PlanResult, loaded: LoadedPlan | None) -> PlanResult:
        """Save a refinement as the version after the one it is based on."""
        saved = self._repository.save(
            made.plan,
            overwrite=loaded is not None,
            expected_version=loaded.version.version if loaded else None,
            change="refined",
            reason=shorten_prose("; ".join(applied.said for applied in made.applied), REASON_CHARS_MAX),
            reopened=made.reopened,
            allow_invalid=True,
        )
        return replace(made, plan=saved.plan, saved=saved, warnings=(*made.warnings, *saved.warnings))


def _fill_in(plan: Plan, before: Plan | None, task: str, provenance: str) -> Plan:
    """Fill in what identifies a draft: the task, who made it, and the plan before it."""
    known = {"task": plan.task or shorten_line(task, 0, TASK_CHARS_MAX), "provenance": provenance}
    if before is not None:
        known |= {name: getattr(before, name) for name in ("id", "version", "created_at", "base_commit")}
        known["task"] = plan.task or before.task
    return msgspec.structs.replace(plan, **known)


def _done_uids(loaded: LoadedPlan | None) -> frozenset[str]:
    return loaded.execution.done if loaded and loaded.execution else frozenset()


def _with_feedback(plan: Plan, feedback: str, focus: Sequence[str]) -> Plan:
    """Return the plan with feedback in words, and the steps it is about, until operations take it up."""
    said = single_line(feedback)
    if not said:
        return plan
    number = plan.step_numbers()
    about = ", ".join(str(number[uid]) for uid in focus if uid in number)
    kept = tuple(dict.fromkeys((*plan.open_feedback, f"steps {about}: {said}" if about else said)))
    return msgspec.structs.replace(plan, open_feedback=kept)


def _error_keys(checked: PlanValidation) -> set[tuple[Any, ...]]:
    """Return what identifies the errors of a plan, whatever the numbers of its steps."""
    steps = checked.plan.steps
    return {(error.code, error.path, *(steps[number - 1].uid for number in error.steps)) for error in checked.errors}


def _draw_dependencies(plan: Plan, *, is_wanted: bool) -> Plan:
    """Return a plan with the diagram of its steps as they are now, if it is to have one."""
    if not is_wanted:
        return plan
    drawn = PlanDiagram("dependencies", draw_plan("dependencies", plan, fold_progress(plan, ())).mermaid)
    others = (diagram for diagram in plan.architecture.diagrams if diagram.type != drawn.type)
    architecture = msgspec.structs.replace(plan.architecture, diagrams=(drawn, *others))
    return msgspec.structs.replace(plan, architecture=architecture)


# -- what is accepted of a draft ---------------------------------------------------------------------------------------


def _accept_steps(
    draft: Plan, validate: Callable[[Plan], PlanValidation]
) -> tuple[PlanValidation, tuple[RejectedItem, ...]]:
    """Leave out the files of steps that are wrong, and steps without any other, until the rest can be carried out.

    If no step is left, the errors of the whole draft are returned.
    """
    places = {step.uid: f"steps[{at}]" for at, step in enumerate(draft.steps)}
    checked = first = validate(draft)
    first.raise_fatal_errors()
    refused: list[RejectedItem] = []
    while checked.errors:
        steps = checked.plan.steps
        # Of several steps, the first deletes what the others need.
        wrong = {(steps[error.steps[0] - 1].uid, error.path): error for error in checked.errors[:OPERATIONS_MAX]}
        for (uid, path), error in wrong.items():
            refused.append(RejectedItem(path, places[uid], f"{error.message}. {error.suggestion}".strip()))
        repairs = [{"op": "set_files", "step": uid, "remove": [path]} for uid, path in wrong]
        plan = apply_operations(checked.plan, repairs).plan
        empty = [step for step in plan.steps if not step.files and step.uid in {uid for uid, _ in wrong}]
        if len(empty) == len(plan.steps):
            return first, ()
        reason = "none of its files is right, so the step is left out"
        refused += [RejectedItem(step.title, places[step.uid], reason) for step in empty]
        plan = apply_operations(plan, [{"op": "remove_step", "step": step.uid} for step in empty]).plan
        checked = validate(plan)
    return checked, tuple(refused)


# -- the evidence of a draft -------------------------------------------------------------------------------------------


def _check_evidence(plan: Plan, facts: RepositoryFacts) -> tuple[Plan, CheckedClaims]:
    """Return the plan without wrong evidence; the files of its steps are checked by validation."""
    created = tuple(path for step in plan.steps for path in step.files_to_create)
    claims = []
    for place, step in enumerate(plan.steps):
        for at, proof in enumerate(step.evidence):
            is_symbol = proof.symbol and "/" not in proof.symbol and proof.kind == "definition"
            claim = Claim(
                (step.uid, proof),
                f"steps[{place}].evidence[{at}]",
                paths=(proof.path,) if proof.path else (),
                creates=created,
                symbols=(proof.symbol,) if is_symbol else (),
                lines=(ClaimedLines(proof.path, proof.line, proof.line),) if proof.line else (),
            )
            claims.append(claim)
    found = check_claims(claims, facts)
    kept: dict[str, list[PlanEvidence]] = {step.uid: [] for step in plan.steps}
    for uid, proof in found.kept:
        kept[uid].append(proof)
    steps = (msgspec.structs.replace(step, evidence=tuple(kept[step.uid])) for step in plan.steps)
    return msgspec.structs.replace(plan, steps=tuple(steps)), found


def _repository_facts(code: Workspace, paths: WorkspacePaths) -> RepositoryFacts:
    """Return the facts that drafts are checked against. Without an index no symbol can be called missing."""

    def text(path: str) -> str | None:
        with suppress(CallError):
            return code.files.read(path).text
        return None

    def find(name: str) -> tuple[bool, Sequence[str]]:
        with suppress(CallError):
            found = code.symbols.find(name, limit=1)
            return bool(found.total), found.near[:NEAR_MAX]
        return True, ()

    def near_paths(path: str) -> list[str]:
        return [near for near in [paths.nearest(path)] if near]

    return RepositoryFacts(paths.has_path, text, lambda name: find(name)[0], near_paths, lambda name: find(name)[1])
