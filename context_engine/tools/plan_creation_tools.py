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
    ObjectRows,
    PlanArgument,
    describe_next,
    fit_difference,
    fit_plan,
    format_step,
    is_offered,
    limit_rows,
    question_rows,
)
from context_engine.tools.reply import NOTE_CHARS, reply_size
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.plans import CreationResult, Plan, Refinement, RefinementRequest, SaveOptions

FILES_MAX = 30
"""Likely files of a plan, at most: what the contract allows."""
PROOFS_SHOWN = 6
"""Of each step of a plan that would be too long to be sent whole."""


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
    from context_engine.plans import SaveOptions

    began = time.perf_counter()
    saving = SaveOptions(auto_save, save_name, save_tags or None, plan_id)
    if draft is not None:
        made = engine.plans.factory.accept_draft(draft, saving, provenance="host", strict=strict, task=task)
        return _plan_reply(engine, made, SecondPassResult("none"), _ReplyOptions(began, "host", format, detail))
    if plan_id:
        raise InvalidArgument(
            "plan_id goes with a draft: it says which plan the draft replaces",
            suggestion="Send the draft too, or refine_plan to change the plan, or leave plan_id out.",
        )
    chosen = Filter(include_paths=include_paths, exclude_paths=exclude_paths)
    made = engine.plans.factory.create(
        _plan_request(task, max_context_files, chosen, mvp_only, generate_diagrams, auto_scope), saving
    )
    made, climbed = _refine_by_model(engine, call, made, saving, assist, context_token_budget)
    climbed = climbed if detail or is_offered(climbed, assist) else replace(climbed, next=None)
    return _plan_reply(engine, made, climbed, _ReplyOptions(began, climbed.used, format, detail))


def _plan_request(task: str, files: int, chosen: Filter, mvp_only: bool, diagrams: bool, scoped: bool) -> Any:
    from context_engine.plans import PlanRequest

    return PlanRequest(task, files, chosen, mvp_only=mvp_only, with_diagrams=diagrams, with_scope=scoped)


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

    climbed = engine.second_pass.run(second, assist, check=check, cancel=call.cancel)
    if climbed.draft is None:
        return made, climbed
    try:
        better = engine.plans.factory.accept_draft(climbed.draft, again, provenance="model", task=made.plan.task)
    except CallError as error:  # another draft was accepted meanwhile
        warnings = (*climbed.warnings, f"the model's plan was not kept: {error.message}")
        return made, replace(climbed, used="none", draft=None, warnings=warnings)
    return replace(better, base=made.base), climbed


class _ReplyOptions(NamedTuple):
    """When the call began, who made the plan, and the form of the reply: brief unless `is_detailed`."""

    began: float
    used: str
    shape: str
    is_detailed: bool


def _plan_reply(engine: "Engine", made: "CreationResult", climbed: SecondPassResult, options: _ReplyOptions) -> Reply:
    """Return the reply for a plan. A plan that is neither saved nor rejected is only in the reply, so it is whole."""
    from context_engine.plans import render_plan

    warnings = [*made.warnings, *climbed.warnings]
    if options.shape == "markdown":
        return Reply("\n\n".join([render_plan(made.plan), *(f"warning: {warning}" for warning in warnings)]))
    if not options.is_detailed and (made.saved or made.status == "draft_rejected"):
        return Reply(compact_json(_brief_plan(made) | drop_empty({"warnings": warnings} | {"next": climbed.next})))
    reply: dict[str, Any] = {"ok": made.status != "draft_rejected", "status": made.status, "plan": {}}
    reply |= {"validation": made.checked.serialize(), "persistence": _persistence_row(made)}
    reply |= drop_empty(
        {
            "planning_context": _context_row(made),
            **_rejected_rows(made.rejected),
            "next": climbed.next,
            "warnings": warnings,
        }
    )
    ms = round((time.perf_counter() - options.began) * 1_000)
    meta = {"tool": "create_plan", "ms": ms, "assist_used": options.used, "model": count_model_tokens(climbed)}
    reply["meta"] = drop_empty(meta | {"index_freshness": made.base.change.freshness if made.base else ""})
    room = engine.settings.result_chars_max - NOTE_CHARS - reply_size(compact_json(reply))
    return Reply(compact_json(reply | {"plan": _fit_created_plan(made.plan, room)}))


def _brief_plan(made: "CreationResult") -> dict[str, Any]:
    """Return what the caller needs to go on: the id, the steps in a line each, the questions; or what is wrong."""
    plan = made.plan
    if made.saved is None:
        errors = made.checked.serialize()["errors"]
        return {"ok": False, "status": made.status, **_rejected_rows(made.rejected), **limit_rows("errors", errors)}
    fields = {
        "ok": True,
        "status": made.status,
        "plan_id": plan.id,
        "version": made.saved.version.version,
        "confidence": plan.confidence_score,
        **limit_rows("steps", [format_step(plan, number) for number in range(1, len(plan.steps) + 1)]),
        "questions": question_rows(plan),
        "rules": list(plan.scope.constraints),
        "risks": [risk.issue for risk in plan.risks if risk.likelihood == "high"],
        **_rejected_rows(made.rejected),
        "next": describe_next(plan, None),
    }
    return drop_empty(fields)


def _rejected_rows(rejected: Sequence[Any]) -> dict[str, Any]:
    rows = [{"place": rejection.place, "reason": rejection.reason} for rejection in rejected]
    return limit_rows("rejected", rows) if rows else {}


def _persistence_row(made: "CreationResult") -> dict[str, Any]:
    if made.saved is None:
        return {"saved": False}
    version = made.saved.version
    return {"saved": True, "plan_id": version.plan_id, "version": version.version, "file_path": made.saved.path}


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


def _fit_created_plan(plan: "Plan", room: int) -> dict[str, Any]:
    """Return the plan as JSON; of a long one the evidence is cut, then the descriptions, then the last steps."""
    from context_engine.plans import serialize_plan

    content = serialize_plan(plan)
    if reply_size(compact_json(content)) <= room:
        return content
    content["note"] = "shortened to fit a reply: load_plan has all of it"
    for step in content["steps"]:
        step["evidence"] = step.get("evidence", [])[:PROOFS_SHOWN]
        step["description"] = step["description"].split("\n", 1)[0]
    if reply_size(compact_json(content)) > room:
        content["dependency_graph"] = {}
    while content["steps"] and reply_size(compact_json(content)) > room:
        content["steps"] = content["steps"][: len(content["steps"]) * 3 // 4]
    return content


# -- execute_plan -----------------------------------------------------------------------------------------------------


# -- replies ----------------------------------------------------------------------------------------------------------


FORMATS = ("json", "markdown")
OPERATIONS_MAX = 200
ROOM_LEAST = 2_000
"""Characters that a plan or a difference gets in any case; everything next to them needs less than the rest."""


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

    began = time.perf_counter()
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
    made = engine.plans.refiner.refine(request)
    if draft is not None or made.status == "draft_rejected":
        used = "host" if draft is not None else "none"
        return _revision_reply(engine, made, SecondPassResult("none"), _ReplyOptions(began, used, format, detail))
    made, climbed = _revise_by_model(engine, call, made, request, assist)
    if not (detail or made.plan.open_feedback or is_offered(climbed, assist)):
        climbed = replace(climbed, next=None)
    return _revision_reply(engine, made, climbed, _ReplyOptions(began, climbed.used, format, detail))


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
            tried = engine.plans.refiner.refine(replace(again, operations=draft["operations"], auto_save=False))
        except CallError as error:
            return error.message
        return "; ".join(error.message for error in tried.checked.errors[:3])

    climbed = engine.second_pass.run(second, assist, check=check, cancel=call.cancel)
    if climbed.draft is None:
        return made, climbed
    better = engine.plans.refiner.refine(replace(again, operations=climbed.draft["operations"]))
    return replace(
        better, before=made.before, applied=made.applied, found=compare_plans(made.before, better.plan)
    ), climbed


def _revision_reply(engine: "Engine", made: "Refinement", climbed: SecondPassResult, options: _ReplyOptions) -> Reply:
    """Return the reply for a refinement."""
    warnings, is_kept = [*made.warnings, *climbed.warnings], made.status != "draft_rejected"
    if options.shape == "markdown":
        wrong = [f"rejected, nothing was kept: {error.message}" for error in made.checked.errors if not is_kept]
        parts = [
            *wrong,
            render_plan(made.plan),
            render_difference(made.found),
            *(f"warning: {warning}" for warning in warnings),
        ]
        return Reply("\n\n".join(parts))
    if not options.is_detailed and (made.saved or not is_kept):
        return Reply(compact_json(_brief_revision(made) | drop_empty({"warnings": warnings} | {"next": climbed.next})))
    reply: dict[str, Any] = {
        "ok": is_kept,
        "status": made.status,
        "version": made.plan.version,
        **limit_rows("applied_operations", [drop_empty(applied_change._asdict()) for applied_change in made.applied]),
        "open_feedback": list(made.plan.open_feedback),
        "validation": {
            key: row for name, rows in made.checked.serialize().items() for key, row in limit_rows(name, rows).items()
        },
        "persistence": _revision_row(made),
    }
    reply |= drop_empty(
        {
            **_resolved_row(made),
            **_rejected_rows(made.rejected),
            "next": climbed.next,
            "warnings": warnings,
        }
    )
    ms = round((time.perf_counter() - options.began) * 1_000)
    meta = {
        "tool": "refine_plan",
        "ms": ms,
        "assist_used": options.used,
        "tokens": climbed.tokens and climbed.tokens._asdict(),
    }
    reply["meta"] = drop_empty(meta)
    room = engine.settings.result_chars_max - NOTE_CHARS
    reply["diff"] = fit_difference(made.found.serialize(), max(room - reply_size(compact_json(reply)), ROOM_LEAST) // 3)
    plan, cut = fit_plan(made.plan, max(room - reply_size(compact_json(reply)), ROOM_LEAST))
    return Reply(compact_json(reply | {"plan": plan} | cut))


def _brief_revision(made: "Refinement") -> dict[str, Any]:
    """Return what a refinement did, what is still open, and what to do next; or what is wrong."""
    is_kept = made.saved is not None
    errors = made.checked.serialize()["errors"]
    fields = {
        "ok": is_kept,
        "status": made.status,
        "plan_id": made.plan.id,
        "version": made.plan.version,
        "unchanged": (made.saved is not None and made.saved.unchanged) or None,
        **limit_rows("applied", [applied.said for applied in made.applied]),
        "changed": "" if made.applied or not is_kept else made.found.summary,
        **limit_rows("open_feedback", list(made.plan.open_feedback)),
        "questions": question_rows(made.plan),
        **_resolved_row(made),
        **limit_rows("errors", errors),
        **_rejected_rows(made.rejected),
    }
    if not is_kept:
        next_step = "correct what errors name, and send it again"
    elif made.plan.open_feedback:
        next_step = "open_feedback needs operations; assist: host returns a brief and their schema"
    else:
        next_step = (
            describe_next(made.plan, None) if made.plan.open_questions else "view_progress, or load_plan for all"
        )
    return drop_empty(fields | {"next": next_step}) | {"ok": is_kept}


def _resolved_row(made: "Refinement") -> dict[str, Any]:
    resolved = {question: [str(place) for place in places] for question, places in made.answered.items() if places}
    return {"answers_resolved": resolved} if resolved else {}


def _revision_row(made: "Refinement") -> dict[str, Any]:
    if made.saved is None:
        return {"saved": False}
    version = made.saved.version
    row = {"saved": True, "plan_id": version.plan_id, "version": version.version, "file_path": made.saved.path}
    return drop_empty(row | {"unchanged": made.saved.unchanged or None})


# -- pictures ---------------------------------------------------------------------------------------------------------


# -- versions ---------------------------------------------------------------------------------------------------------
