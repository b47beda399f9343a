"""Tools that create plans from the facts of the repository, and refine them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

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
    ObjectListArg,
    TextArg,
    TextListArg,
)
from context_engine.tools.context_tools import count_model_tokens
from context_engine.tools.plan_tools import (
    DETAIL,
    ROWS_SHOWN,
    PlanArgument,
    PlanFormat,
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


@tool(touches="records", view="plan")
def create_plan(
    engine: "Engine",
    call: Call,
    task: Annotated[str, TextArg("What to do.", 5, QUESTION_CHARS_MAX)],
    draft: Annotated[Any, PlanArgument("Your version.")] = None,
    plan_id: Annotated[str, TextArg("Which it replaces.")] = "",
    *,
    max_context_files: Annotated[int, IntegerArg("Likely files.", 1, 30)] = 8,
    generate_diagrams: Annotated[bool, BooleanArg("Add Mermaid.")] = False,
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
    format: PlanFormat = "json",  # noqa: A002 - the word that callers know
    detail: Annotated[bool, DETAIL] = False,
) -> Reply:
    """Plan a task: find its files, tests, risks and questions in this repository, as steps in order."""
    from context_engine.plans import PlanRequest, SaveOptions

    saving = SaveOptions(auto_save, save_name, save_tags or None, plan_id)
    began, improved = time.perf_counter(), SecondPassResult("host")
    if draft is not None:
        made = engine.plans.factory.accept_draft(draft, saving, provenance="host", strict=strict, task=task)
    elif plan_id:
        raise InvalidArgument(
            "plan_id goes with a draft: it says which plan the draft replaces",
            suggestion="Send the draft too, or refine_plan to change the plan, or leave plan_id out.",
        )
    else:
        chosen = Filter(include_paths=include_paths, exclude_paths=exclude_paths)
        request = PlanRequest(task, max_context_files, chosen, mvp_only, generate_diagrams, auto_scope)
        made = engine.plans.factory.create(request, saving)
        made, improved = _refine_by_model(engine, call, made, saving, assist, context_token_budget)
    plan, is_kept = made.plan, made.status != "draft_rejected"
    warnings = [*made.warnings, *improved.warnings]
    if format == "markdown":
        return _markdown_reply(render_plan(plan), warnings=warnings)
    validation = made.checked.serialize()
    fields: dict[str, Any] = {"status": made.status, "rejected": _rejected_rows(made.rejected), "warnings": warnings}
    if is_kept:
        next_step = choose_next(improved, assist, describe_next(plan, None))
        fields |= _plan_row(plan) | {"version": made.saved and made.saved.version.version, "next": next_step}
    else:
        fields["errors"] = validation["errors"]
    details: dict[str, Any] = {}
    if detail or (is_kept and made.saved is None):  # a plan in no file is in the reply
        meta = {"index_freshness": made.base.change.freshness if made.base else ""}
        details = {"validation": validation} | drop_empty({"planning_context": _context_row(made)})
        details["meta"] = _meta("create_plan", began, improved) | drop_empty(meta)
    return _write_reply(engine, made, is_kept, fields, details)


def _refine_by_model(
    engine: "Engine", call: Call, made: "CreationResult", saving: "SaveOptions", assist: str, tokens: int
) -> "tuple[CreationResult, SecondPassResult]":
    """Return the plan as a model improved it, if one is available and its plan is true.

    Else the next call of the caller.
    """
    second = made.prompt(tokens)
    again = replace(saving, plan_id=made.plan.id if made.saved else "")

    def accept(draft: Any, *, auto: bool) -> "CreationResult":
        return engine.plans.factory.accept_draft(
            draft, replace(again, auto=auto and again.auto), provenance="model", task=made.plan.task
        )

    def check(draft: Any) -> str:
        try:
            return accept(draft, auto=False).first_errors
        except CallError as error:
            return error.message

    improved = engine.second_pass.run(second, assist, check=check, cancel=call.cancel)
    if improved.draft is None:
        return made, improved
    try:
        return replace(accept(improved.draft, auto=True), base=made.base), improved
    except CallError as error:  # another draft was accepted meanwhile
        warnings = (*improved.warnings, f"the model's plan was not kept: {error.message}")
        return made, replace(improved, used="none", draft=None, warnings=warnings)


def _plan_row(plan: "Plan") -> dict[str, Any]:
    """Return what the caller needs to go on: the steps in a line each, and what is open or binding."""
    return {
        "plan_id": plan.id,
        "confidence": plan.confidence_score,
        "steps": [format_step(plan, number) for number in range(1, len(plan.steps) + 1)],
        "questions": question_rows(plan),
        "rules": list(plan.scope.constraints),
        "risks": [risk.issue for risk in plan.risks if risk.likelihood == "high"],
    }


def _context_row(made: "CreationResult") -> dict[str, Any]:
    """Return what the plan is based on."""
    if made.base is None:
        return {}
    change = made.base.change
    row = {
        "scope_source": made.base.scope_source,
        "scope_confidence": made.base.plan.confidence_score,
        "applied_include_paths": list(made.plan.scope.included),
        "files_considered": [file.path for file in change.files],
        "files_next": list(change.left_out),
        "index_freshness": change.freshness,
    }
    return drop_empty(row)


# -- both replies ------------------------------------------------------------------------------------------------------


def _markdown_reply(*parts: str, warnings: Sequence[str]) -> Reply:
    return Reply("\n\n".join([*parts, *(f"warning: {warning}" for warning in warnings)]))


def _meta(tool_name: str, began: float, improved: SecondPassResult) -> dict[str, Any]:
    ms = round((time.perf_counter() - began) * 1_000)
    row = {"tool": tool_name, "ms": ms, "assist_used": improved.used, "model": count_model_tokens(improved)}
    return drop_empty(row)


def _rejected_rows(rejected: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"place": rejection.place, "reason": rejection.reason} for rejection in rejected]


def _write_reply(
    engine: "Engine",
    made: "CreationResult | Refinement",
    is_kept: bool,
    fields: dict[str, Any],
    details: Mapping[str, Any],
) -> Reply:
    """Return what the caller needs to go on; with `details` also these, and the plan as far as it fits."""
    chars_max = engine.settings.result_chars_max
    reply = {"ok": is_kept} | drop_empty(fit_rows(fields, chars_max, rows_max=ROWS_SHOWN))
    if details:
        saved: dict[str, Any] = {"saved": made.saved is not None}
        if made.saved:
            version = made.saved.version
            saved |= {"plan_id": version.plan_id, "version": version.version, "file_path": made.saved.path}
            saved |= drop_empty({"unchanged": made.saved.unchanged or None})
        reply |= {**details, "persistence": saved}
        fit_rows(reply, (chars_max - NOTE_CHARS) // 2)
        reply |= fit_plan(made.plan, chars_max - NOTE_CHARS - reply_size(compact_json(reply)))
    return Reply(compact_json(reply))


# -- refine_plan -------------------------------------------------------------------------------------------------------


@tool(touches="records")
def refine_plan(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, TextArg("Id or name.", 0, 200)] = "",
    operations: Annotated[tuple[Mapping[str, Any], ...], ObjectListArg("op: add_step, remove_step ...", most=200)] = (),
    feedback: Annotated[str, TextArg("In words.", 0, 10_000)] = "",
    draft: Annotated[Any, PlanArgument("Your version.")] = None,
    *,
    current_plan: Annotated[Any, PlanArgument("A plan instead of an id.")] = None,
    clarifications: Annotated[Mapping[str, Any], ObjectArg("Answers, by question or its id.")] = {},
    focus_steps: Annotated[tuple[str, ...], TextListArg("Steps the feedback is about.")] = (),
    expected_version: Annotated[int | None, IntegerArg("Refused unless this is the newest.", 0, ENDLESS)] = None,
    auto_save: Annotated[bool, BooleanArg("Keep it as the next version.")] = True,
    assist: Annotated[str, ChoiceArg("Who may take it further: a model, you (host), nobody.", ASSIST_MODES)] = "auto",
    force_reopen: Annotated[bool, BooleanArg("Change steps that are done, and open them again.")] = False,
    strict: Annotated[bool, BooleanArg("Refuse dangling dependencies.")] = True,
    format: PlanFormat = "json",  # noqa: A002 - the word that callers know
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
    began, improved = time.perf_counter(), SecondPassResult("host" if draft is not None else "none")
    made = engine.plans.factory.refine(request)
    is_wanted = assist != "off" and bool(assist != "auto" or made.plan.open_feedback)
    if draft is None and made.status != "draft_rejected" and is_wanted:
        made, improved = _revise_by_model(engine, call, made, request, assist)
    plan, is_kept = made.plan, made.status != "draft_rejected"
    warnings = [*made.warnings, *improved.warnings]
    if format == "markdown":
        wrong = [f"rejected, nothing was kept: {error.message}" for error in made.checked.errors if not is_kept]
        return _markdown_reply(*wrong, render_plan(plan), render_difference(made.found), warnings=warnings)
    validation = made.checked.serialize()
    fields = _revision_row(made) | {"errors": validation["errors"], "warnings": warnings}
    fields["next"] = _next_of_revision(made, improved, assist)
    details: dict[str, Any] = {}
    if detail or (is_kept and made.saved is None):  # a plan in no file is in the reply
        rows = [drop_empty(applied._asdict()) for applied in made.applied]
        details = {"applied_operations": rows, "validation": validation, "diff": made.found.serialize()}
        fit_rows(details, engine.settings.result_chars_max // 4, rows_max=ROWS_SHOWN)
        details |= {"open_feedback": list(plan.open_feedback), "meta": _meta("refine_plan", began, improved)}
    return _write_reply(engine, made, is_kept, fields, details)


def _revise_by_model(
    engine: "Engine", call: Call, made: "Refinement", request: "RefinementRequest", assist: str
) -> "tuple[Refinement, SecondPassResult]":
    """Let a model take up the open feedback, or pass it to the caller."""
    from context_engine.plans import RefinementRequest

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

    improved = engine.second_pass.run(made.prompt(request.focus), assist, check=check, cancel=call.cancel)
    if improved.draft is None:
        return made, improved
    better = engine.plans.factory.refine(replace(again, operations=improved.draft["operations"]))
    found = compare_plans(made.before, better.plan)
    return replace(better, before=made.before, applied=made.applied, found=found), improved


def _revision_row(made: "Refinement") -> dict[str, Any]:
    """Return what a refinement did, and what is still open."""
    resolved = {question: [str(place) for place in places] for question, places in made.answered.items() if places}
    return {
        "status": made.status,
        "plan_id": made.plan.id,
        "version": made.plan.version,
        "unchanged": (made.saved is not None and made.saved.unchanged) or None,
        "applied": [applied.said for applied in made.applied],
        "changed": "" if made.applied or made.status == "draft_rejected" else made.found.summary,
        "open_feedback": list(made.plan.open_feedback),
        "questions": question_rows(made.plan),
        "answers_resolved": resolved,
        "rejected": _rejected_rows(made.rejected),
    }


def _next_of_revision(made: "Refinement", improved: SecondPassResult, assist: str) -> Any:
    if made.status == "draft_rejected":
        return "correct what errors name, and send it again"
    if made.plan.open_feedback:
        return improved.next or "open_feedback needs operations; assist: host returns a brief and their schema"
    otherwise = describe_next(made.plan, None) if made.plan.open_questions else "view_progress, or load_plan for all"
    return choose_next(improved, assist, otherwise)
