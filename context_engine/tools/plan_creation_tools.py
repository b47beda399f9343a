"""Tools that create plans from the facts of the repository, and refine them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from context_engine.context import ASSIST_MODES, SecondPassResult
from context_engine.errors import CallError, InvalidArgument
from context_engine.model import QUESTION_CHARS_MAX, Filter
from context_engine.plans.plan_diff import compare_plans
from context_engine.plans.plan_markdown import render_difference, render_plan
from context_engine.text import compact_json, drop_empty
from context_engine.tools.arguments import (
    ENDLESS,
    BooleanArg,
    ChoiceArg,
    IntegerArg,
    ObjectArg,
    TextArg,
    TextListArg,
)
from context_engine.tools.context_tools import count_model_tokens
from context_engine.tools.plan_tools import (
    DETAIL,
    ROWS_SHOWN,
    ObjectRows,
    PlanArgument,
    choose_next,
    describe_next,
    fit_plan,
    fit_rows,
    format_step,
    question_rows,
)
from context_engine.tools.reply import NOTE_CHARS, reply_size
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.plans import CreationResult, Plan, Refinement, RefinementRequest, SaveOptions

FILES_MAX = 30
"""Likely files of a plan, at most: what the contract allows."""


@tool(
    touches="records",
    rare=(
        *("max_context_files", "generate_diagrams", "mvp_only", "context_token_budget", "auto_scope", "include_paths"),
        *("exclude_paths", "auto_save", "save_name", "save_tags", "assist", "strict", "format"),
        "detail",
    ),
    view="plan",
)
def create_plan(
    engine: "Engine",
    call: Call,
    task: Annotated[str, TextArg("What to do.", 5, QUESTION_CHARS_MAX)],
    max_context_files: Annotated[int, IntegerArg("Likely files.", 1, FILES_MAX)] = 8,
    generate_diagrams: Annotated[bool, BooleanArg("Add Mermaid.")] = False,
    draft: Annotated[Any, PlanArgument("Your version.")] = None,
    plan_id: Annotated[str, TextArg("Which it replaces.")] = "",
    mvp_only: Annotated[bool, BooleanArg("Only what has to be done.")] = False,
    context_token_budget: Annotated[int, IntegerArg("Most tokens of the brief in next.", 200, 100_000)] = 8_000,
    auto_scope: Annotated[bool, BooleanArg("Say which folders it is about.")] = True,
    include_paths: Annotated[tuple[str, ...], TextListArg("Only these: globs.")] = (),
    exclude_paths: Annotated[tuple[str, ...], TextListArg("Not these: globs.")] = (),
    auto_save: Annotated[bool, BooleanArg("Keep it.")] = True,
    save_name: Annotated[str, TextArg("Its name.", 0, 120)] = "",
    save_tags: Annotated[tuple[str, ...], TextListArg("Its tags.")] = (),
    assist: Annotated[str, ChoiceArg("Who may improve it: a model, you (host), nobody.", ASSIST_MODES)] = "auto",
    strict: Annotated[bool, BooleanArg("Refuse dangling dependencies of a draft.")] = True,
    format: Annotated[str, ChoiceArg("Of the reply.", ("json", "markdown"))] = "json",  # noqa: A002 - the word that callers know
    detail: Annotated[bool, DETAIL] = False,
) -> Reply:
    """Plan a task: find its files, tests, risks and questions in this repository, as steps in order."""
    from context_engine.plans import PlanRequest, SaveOptions

    saving = SaveOptions(auto_save, save_name, save_tags or None, plan_id)
    options = _ReplyOptions("create_plan", time.perf_counter(), assist, format, detail)
    if draft is not None:
        made = engine.plans.factory.accept_draft(draft, saving, provenance="host", strict=strict, task=task)
        return _plan_reply(engine, made, SecondPassResult("host"), options)
    if plan_id:
        raise InvalidArgument(
            "plan_id goes with a draft: it says which plan the draft replaces",
            suggestion="Send the draft too, or refine_plan to change the plan, or leave plan_id out.",
        )
    chosen = Filter(include_paths=include_paths, exclude_paths=exclude_paths)
    request = PlanRequest(task, max_context_files, chosen, mvp_only, generate_diagrams, auto_scope)
    made, improved = _refine_by_model(
        engine, call, engine.plans.factory.create(request, saving), saving, assist, context_token_budget
    )
    return _plan_reply(engine, made, improved, options)


def _refine_by_model(
    engine: "Engine", call: Call, made: "CreationResult", saving: "SaveOptions", assist: str, tokens: int
) -> "tuple[CreationResult, SecondPassResult]":
    """Return the plan as a model improved it, if one is available and its plan is true.

    Else the next call of the caller.
    """
    second = made.prompt(tokens)
    again = replace(saving, plan_id=made.plan.id if made.saved else "")
    tried = replace(again, auto=False)

    def check(draft: Any) -> str:
        try:
            return engine.plans.factory.accept_draft(draft, tried, provenance="model", task=made.plan.task).first_errors
        except CallError as error:
            return error.message

    improved = engine.second_pass.run(second, assist, check=check, cancel=call.cancel)
    if improved.draft is None:
        return made, improved
    try:
        better = engine.plans.factory.accept_draft(improved.draft, again, provenance="model", task=made.plan.task)
    except CallError as error:  # another draft was accepted meanwhile
        warnings = (*improved.warnings, f"the model's plan was not kept: {error.message}")
        return made, replace(improved, used="none", draft=None, warnings=warnings)
    return replace(better, base=made.base), improved


class _ReplyOptions(NamedTuple):
    """The tool, when its call began, who may help, and the form of the reply: brief unless `is_detailed`."""

    tool: str
    began: float
    assist: str
    shape: str
    is_detailed: bool

    def meta(self, improved: SecondPassResult, **more: Any) -> dict[str, Any]:
        """Return how the reply was made."""
        ms = round((time.perf_counter() - self.began) * 1_000)
        row = {"tool": self.tool, "ms": ms, "assist_used": improved.used, "model": count_model_tokens(improved)}
        return drop_empty(row | more)


def _plan_reply(engine: "Engine", made: "CreationResult", improved: SecondPassResult, options: _ReplyOptions) -> Reply:
    """Return what the caller needs to go on: the id, the steps in a line each, the questions; or what is wrong.

    The whole plan is added on request, and if the plan is in no file.
    """
    plan, is_kept = made.plan, made.status != "draft_rejected"
    warnings = [*made.warnings, *improved.warnings]
    if options.shape == "markdown":
        return Reply("\n\n".join([render_plan(plan), *(f"warning: {warning}" for warning in warnings)]))
    fields: dict[str, Any] = {"status": made.status, "rejected": _rejected_rows(made.rejected), "warnings": warnings}
    validation = made.checked.serialize()
    if is_kept:
        fields |= {
            "plan_id": plan.id,
            "version": made.saved.version.version if made.saved else None,
            "confidence": plan.confidence_score,
            "steps": [format_step(plan, number) for number in range(1, len(plan.steps) + 1)],
            "questions": question_rows(plan),
            "rules": list(plan.scope.constraints),
            "risks": [risk.issue for risk in plan.risks if risk.likelihood == "high"],
            "next": choose_next(improved, options.assist, describe_next(plan, None)),
        }
    else:
        fields["errors"] = validation["errors"]
    fields = {"ok": is_kept} | drop_empty(fit_rows(fields, engine.settings.result_chars_max, rows_max=ROWS_SHOWN))
    if options.is_detailed or (is_kept and made.saved is None):
        freshness = made.base.change.freshness if made.base else ""
        fields |= {"validation": validation, "persistence": _persistence_row(made)}
        fields |= drop_empty({"planning_context": _context_row(made)})
        fields["meta"] = options.meta(improved, index_freshness=freshness)
        fields |= _plan_fields(engine, plan, fields)
    return Reply(compact_json(fields))


def _plan_fields(engine: "Engine", plan: "Plan", fields: dict[str, Any]) -> dict[str, Any]:
    """Return the plan, as far as it fits next to the other fields."""
    room = engine.settings.result_chars_max - NOTE_CHARS
    fit_rows(fields, room // 2)
    shown, cut = fit_plan(plan, room - reply_size(compact_json(fields)))
    return {"plan": shown, **cut}


def _rejected_rows(rejected: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"place": rejection.place, "reason": rejection.reason} for rejection in rejected]


def _persistence_row(made: "CreationResult | Refinement") -> dict[str, Any]:
    saved = made.saved
    if saved is None:
        return {"saved": False}
    version = saved.version
    row = {"saved": True, "plan_id": version.plan_id, "version": version.version, "file_path": saved.path}
    return drop_empty(row | {"unchanged": saved.unchanged or None})


def _context_row(made: "CreationResult") -> dict[str, Any]:
    """Return what the plan is based on."""
    if made.base is None:
        return {}
    return drop_empty(
        {
            "scope_source": made.base.scope_source,
            "scope_confidence": made.base.plan.confidence_score,
            "applied_include_paths": list(made.plan.scope.included),
            "files_considered": [file.path for file in made.base.change.files],
            "files_next": list(made.base.change.left_out),
            "index_freshness": made.base.change.freshness,
        }
    )


# -- refine_plan -------------------------------------------------------------------------------------------------------

FORMATS = ("json", "markdown")
OPERATIONS_MAX = 200


@tool(
    touches="records",
    rare=(
        *("current_plan", "clarifications", "focus_steps", "expected_version", "auto_save", "assist", "force_reopen"),
        *("strict", "format", "detail"),
    ),
)
def refine_plan(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, TextArg("Id or name.", 0, 200)] = "",
    operations: Annotated[
        tuple[Mapping[str, Any], ...], ObjectRows("op: add_step, remove_step ...", most=OPERATIONS_MAX)
    ] = (),
    feedback: Annotated[str, TextArg("In words.", 0, 10_000)] = "",
    draft: Annotated[Any, PlanArgument("Your version.")] = None,
    current_plan: Annotated[Any, PlanArgument("A plan instead of an id.")] = None,
    clarifications: Annotated[Mapping[str, Any], ObjectArg("Answers, by question or its id.")] = {},
    focus_steps: Annotated[tuple[str, ...], TextListArg("Steps the feedback is about.")] = (),
    expected_version: Annotated[int | None, IntegerArg("Refused unless this is the newest.", 0, ENDLESS)] = None,
    auto_save: Annotated[bool, BooleanArg("Keep it as the next version.")] = True,
    assist: Annotated[str, ChoiceArg("Who may take it further: a model, you (host), nobody.", ASSIST_MODES)] = "auto",
    force_reopen: Annotated[bool, BooleanArg("Change steps that are done, and open them again.")] = False,
    strict: Annotated[bool, BooleanArg("Refuse dangling dependencies.")] = True,
    format: Annotated[str, ChoiceArg("Of the reply.", FORMATS)] = "json",  # noqa: A002 - the word that callers know
    detail: Annotated[bool, DETAIL] = False,
) -> Reply:
    """Refine a plan: edit, split, merge, move steps, answer questions, take feedback; all or none."""
    from context_engine.plans import RefinementRequest

    request = RefinementRequest(
        plan_id=plan_id.strip(),
        plan=current_plan,
        expected_version=expected_version,
        operations=operations,
        feedback=feedback,
        clarifications=clarifications,
        focus=focus_steps,
        draft=draft,
        force_reopen=force_reopen,
        auto_save=auto_save,
        strict=strict,
    )
    options = _ReplyOptions("refine_plan", time.perf_counter(), assist, format, detail)
    made = engine.plans.factory.refine(request)
    improved = SecondPassResult("host" if draft is not None else "none")
    if draft is None and made.status != "draft_rejected":
        made, improved = _revise_by_model(engine, call, made, request, assist)
    return _revision_reply(engine, made, improved, options)


def _revise_by_model(
    engine: "Engine", call: Call, made: "Refinement", request: "RefinementRequest", assist: str
) -> "tuple[Refinement, SecondPassResult]":
    """Let a model take up the open feedback, or pass it to the caller; do nothing when there is none."""
    from context_engine.plans import RefinementRequest

    if assist == "off" or (assist == "auto" and not made.plan.open_feedback):
        return made, SecondPassResult("none")
    second = made.prompt(request.focus)
    again = RefinementRequest(
        plan_id=made.plan.id if made.saved else "",
        plan=None if made.saved else request.plan,
        force_reopen=request.force_reopen,
        provenance="model",
        auto_save=request.auto_save,
    )

    def check(draft: Any) -> str:
        try:
            tried = engine.plans.factory.refine(replace(again, operations=draft["operations"], auto_save=False))
        except CallError as error:
            return error.message
        return "; ".join(error.message for error in tried.checked.errors[:3])

    improved = engine.second_pass.run(second, assist, check=check, cancel=call.cancel)
    if improved.draft is None:
        return made, improved
    better = engine.plans.factory.refine(replace(again, operations=improved.draft["operations"]))
    return replace(
        better, before=made.before, applied=made.applied, found=compare_plans(made.before, better.plan)
    ), improved


def _revision_reply(engine: "Engine", made: "Refinement", improved: SecondPassResult, options: _ReplyOptions) -> Reply:
    """Return what a refinement did, what is still open, and what to do next; or what is wrong.

    The whole plan and the differences are added on request, and if the plan is in no file.
    """
    plan, is_kept = made.plan, made.status != "draft_rejected"
    warnings = [*made.warnings, *improved.warnings]
    if options.shape == "markdown":
        wrong = [f"rejected, nothing was kept: {error.message}" for error in made.checked.errors if not is_kept]
        notes = [f"warning: {warning}" for warning in warnings]
        return Reply("\n\n".join([*wrong, render_plan(plan), render_difference(made.found), *notes]))
    validation = made.checked.serialize()
    resolved = {question: [str(place) for place in places] for question, places in made.answered.items() if places}
    fields: dict[str, Any] = {
        "status": made.status,
        "plan_id": plan.id,
        "version": plan.version,
        "unchanged": (made.saved is not None and made.saved.unchanged) or None,
        "applied": [applied.said for applied in made.applied],
        "changed": "" if made.applied or not is_kept else made.found.summary,
        "open_feedback": list(plan.open_feedback),
        "questions": question_rows(plan),
        "answers_resolved": resolved,
        "errors": validation["errors"],
        "rejected": _rejected_rows(made.rejected),
        "warnings": warnings,
        "next": _next_of_revision(made, improved, options.assist),
    }
    fields = {"ok": is_kept} | drop_empty(fit_rows(fields, engine.settings.result_chars_max, rows_max=ROWS_SHOWN))
    if options.is_detailed or (is_kept and made.saved is None):
        details = {
            "applied_operations": [drop_empty(applied._asdict()) for applied in made.applied],
            "validation": validation,
            "diff": made.found.serialize(),
        }
        fields |= fit_rows(details, engine.settings.result_chars_max // 4, rows_max=ROWS_SHOWN)
        fields |= {"open_feedback": list(plan.open_feedback), "persistence": _persistence_row(made)}
        fields["meta"] = options.meta(improved)
        fields |= _plan_fields(engine, plan, fields)
    return Reply(compact_json(fields))


def _next_of_revision(made: "Refinement", improved: SecondPassResult, assist: str) -> Any:
    if made.status == "draft_rejected":
        return "correct what errors name, and send it again"
    if made.plan.open_feedback:
        return improved.next or "open_feedback needs operations; assist: host returns a brief and their schema"
    otherwise = describe_next(made.plan, None) if made.plan.open_questions else "view_progress, or load_plan for all"
    return choose_next(improved, assist, otherwise)
