"""Tools that create plans from the facts of the repository, and refine them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context import ASSIST_MODES, SecondPassResult
from context_engine.errors import CallError, InvalidArgument
from context_engine.model import QUESTION_CHARS_MAX, Filter
from context_engine.plans import format_step, serialize_plan
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
    ROWS_SHOWN,
    PlanArgument,
    choose_next,
    describe_next,
    fit_plan,
    fit_rows,
    question_rows,
)
from context_engine.tools.reply import NOTE_CHARS, reply_size
from context_engine.tools.structured_replies import texts
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.context import SecondPass
    from context_engine.engine import Engine
    from context_engine.plans import Plan, PlanResult

CHARS_PER_BRIEF_TOKEN = 5
"""Of a reply: a brief in it, with the schema beside it and as JSON writes it, leaves room for the plan."""


@tool(touches="records", view="plan")
def create_plan(
    engine: "Engine",
    call: Call,
    task: Annotated[str, TextArg("What to do.", 5, QUESTION_CHARS_MAX)],
    draft: Annotated[Any, PlanArgument("Your version.")] = None,
    plan_id: Annotated[str, TextArg("Which it replaces.")] = "",
    *,
    max_context_files: Annotated[int, IntegerArg("Maximum files named.", 1, 30)] = 8,
    generate_diagrams: Annotated[bool, BooleanArg("Add Mermaid.")] = False,
    mvp_only: Annotated[bool, BooleanArg("Only what has to be done.")] = False,
    context_token_budget: Annotated[int, IntegerArg("Most tokens of the brief in next.", 200, 100_000)] = 8_000,
    auto_scope: Annotated[bool, BooleanArg("Say which folders it is about.")] = True,
    include_paths: Annotated[tuple[str, ...], TextListArg("Only files like src/**.")] = (),
    exclude_paths: Annotated[tuple[str, ...], TextListArg("Not these files.")] = (),
    auto_save: Annotated[bool, BooleanArg("Keep it.")] = True,
    save_name: Annotated[str, TextArg("Its name.", 0, 120)] = "",
    save_tags: Annotated[tuple[str, ...], TextListArg("Its tags.")] = (),
    assist: Annotated[str, ChoiceArg("Who may improve it: a model, you (host), nobody.", ASSIST_MODES)] = "auto",
    strict: Annotated[bool, BooleanArg("Refuse dangling dependencies of a draft.")] = True,
) -> Reply:
    """Plan a task: find its files, tests, risks and questions in this repository, as steps in order."""
    from context_engine.plans import PlanRequest, SaveOptions

    saving = SaveOptions(auto_save, save_name, save_tags or None, plan_id)
    improved = SecondPassResult("host")
    factory = engine.plans.factory
    chosen = Filter(include_paths=include_paths, exclude_paths=exclude_paths)
    request = PlanRequest(task, max_context_files, chosen, mvp_only, generate_diagrams, auto_scope)
    if draft is not None:
        made = factory.accept_draft(draft, saving, request, provenance="host", strict=strict)
    elif plan_id:
        raise InvalidArgument(
            "plan_id goes with a draft: it says which plan the draft replaces",
            suggestion="Send the draft too, or refine_plan to change the plan, or leave plan_id out.",
        )
    else:
        first = factory.create(request, saving)
        again = replace(saving, plan_id=first.plan.id if first.saved else "")

        def accept(draft: Any, *, save: bool) -> "PlanResult":
            kept = replace(again, auto=save and again.auto)
            return factory.accept_draft(draft, kept, request, provenance="model", strict=False, base=first.base)

        budget = min(context_token_budget, engine.settings.result_chars_max // CHARS_PER_BRIEF_TOKEN)
        make_pass = partial(first.creation_pass, engine.plans.sources(), budget)
        made, improved = _improve(engine, call, first, make_pass, assist, accept)
    fields: dict[str, Any] = {}
    if made.is_accepted:
        fields = _plan_row(made.plan) | {"version": made.saved and made.saved.version.version}
        fields["next"] = choose_next(improved, assist, describe_next(made.plan, None))
    details = {"planning_context": _context_row(made)} if made.base else {}
    return _write_reply(engine, call, made, improved, fields, details)


def _improve(
    engine: "Engine",
    call: Call,
    made: "PlanResult",
    make_pass: "Callable[[], SecondPass]",
    assist: str,
    accept: "Callable[..., PlanResult]",
) -> "tuple[PlanResult, SecondPassResult]":
    """Return the plan as a model improved it, if one is available and its answer is true; else the next call.

    `accept` takes an answer of the model; it is tried without being saved first.
    """
    if not engine.second_pass.is_wanted(assist):
        return made, SecondPassResult()

    def check(draft: Any) -> str:
        try:
            return accept(draft, save=False).first_errors
        except CallError as error:
            return error.message

    improved = engine.second_pass.run(make_pass(), assist, check=check, cancel=call.cancel)
    if improved.draft is None:
        return made, improved
    try:
        return accept(improved.draft, save=True), improved
    except CallError as error:  # another draft was accepted meanwhile
        warnings = (*improved.warnings, f"the model's plan was not kept: {error.message}")
        return made, replace(improved, used="none", draft=None, warnings=warnings)


def _plan_row(plan: "Plan") -> dict[str, Any]:
    """Return what the caller needs to go on: the steps in a line each, and what is open or binding."""
    return {
        "plan_id": plan.id,
        "confidence": plan.confidence_score,
        "steps": [format_step(plan, step) for step in plan.steps],
        "questions": question_rows(plan),
        "rules": list(plan.scope.constraints),
        "risks": [risk.issue for risk in plan.risks if risk.likelihood == "high"],
    }


def _context_row(made: "PlanResult") -> dict[str, Any]:
    """Return what the plan is based on."""
    assert made.base
    change = made.base.change
    files = [file.path for file in change.files]
    return drop_empty(
        {"files_considered": files, "files_next": list(change.left_out), "index_freshness": change.freshness}
    )


# -- both replies ------------------------------------------------------------------------------------------------------


def _write_reply(
    engine: "Engine",
    call: Call,
    made: "PlanResult",
    improved: SecondPassResult,
    fields: Mapping[str, Any],
    details: Mapping[str, Any],
) -> Reply:
    """Return what the caller needs to go on; for programs also the details, and the plan as far as it fits.

    A plan that was accepted and is in no file is in the reply as well.
    """
    chars_max, validation = engine.settings.result_chars_max, made.checked.serialize()
    reply: dict[str, Any] = {
        "status": made.status,
        **fields,
        "rejected": [{"place": item.place, "reason": item.reason} for item in made.rejected],
        "errors": validation["errors"],
        "warnings": [*made.warnings, *improved.warnings],
    }
    reply = {"ok": made.is_accepted} | drop_empty(fit_rows(reply, chars_max, rows_max=ROWS_SHOWN))
    if not call.is_brief:
        saved: dict[str, Any] = {"saved": made.saved is not None}
        if made.saved:
            version = made.saved.version
            saved |= {"plan_id": version.plan_id, "version": version.version, "file_path": made.saved.path}
            saved |= drop_empty({"unchanged": made.saved.unchanged or None})
        meta = drop_empty({"assist_used": improved.used, "model": count_model_tokens(improved)})
        reply |= {"validation": validation, **details, "meta": meta, "persistence": saved}
        fit_rows(reply, (chars_max - NOTE_CHARS) // 2)
    if not call.is_brief or (made.is_accepted and made.saved is None):
        reply |= fit_plan(made.plan, chars_max - NOTE_CHARS - reply_size(compact_json(reply)))
    return Reply(compact_json(reply))


# -- refine_plan -------------------------------------------------------------------------------------------------------


@tool(touches="records")
def refine_plan(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, TextArg("Id or name.", 0, 200)] = "",
    operations: Annotated[
        tuple[Mapping[str, Any], ...], ObjectListArg("op: add_step, remove_step ...", texts("op step title"), most=200)
    ] = (),
    feedback: Annotated[str, TextArg("In words.", 0, 10_000)] = "",
    draft: Annotated[Any, PlanArgument("Your version.")] = None,
    clarifications: Annotated[Mapping[str, Any], ObjectArg("Answers, by question or its id, as JSON.")] = {},
    force_reopen: Annotated[bool, BooleanArg("Also change steps that are done.")] = False,
    *,
    current_plan: Annotated[Any, PlanArgument("A plan instead of an id.")] = None,
    focus_steps: Annotated[tuple[str, ...], TextListArg("Steps the feedback is about.")] = (),
    expected_version: Annotated[int | None, IntegerArg("Refused unless this is the newest.", 0, ENDLESS)] = None,
    auto_save: Annotated[bool, BooleanArg("Keep it as the next version.")] = True,
    assist: Annotated[str, ChoiceArg("Who may take it further: a model, you (host), nobody.", ASSIST_MODES)] = "auto",
    strict: Annotated[bool, BooleanArg("Refuse dangling dependencies.")] = True,
) -> Reply:
    """Refine a plan: edit, split, merge, move steps, answer questions, take feedback; all or none."""
    improved = SecondPassResult("host" if draft is not None else "none")
    made = engine.plans.factory.refine(
        plan_id.strip(),
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
    is_wanted = assist not in ("off", "auto") or bool(assist == "auto" and made.plan.open_feedback)
    if draft is None and made.is_accepted and is_wanted:
        accept = partial(_accept_operations, engine, made, force_reopen=force_reopen, auto_save=auto_save)
        made, improved = _improve(engine, call, made, partial(made.refinement_pass, focus_steps), assist, accept)
    applied = [drop_empty(operation._asdict()) for operation in made.applied]
    details: dict[str, Any] = {"applied_operations": applied, "diff": made.found.serialize()}
    fit_rows(details, engine.settings.result_chars_max // 4, rows_max=ROWS_SHOWN)
    details["open_feedback"] = list(made.plan.open_feedback)
    fields = _revision_row(made) | {"next": _next_of_revision(made, improved, assist)}
    return _write_reply(engine, call, made, improved, fields, details)


def _accept_operations(
    engine: "Engine",
    first: "PlanResult",
    draft: Mapping[str, Any],
    *,
    force_reopen: bool,
    auto_save: bool,
    save: bool,
) -> "PlanResult":
    """Return the plan with the operations of a model, compared with the plan before the whole call."""
    better = engine.plans.factory.refine(
        first.plan.id if first.saved else "",
        plan=None if first.saved else serialize_plan(first.plan),
        operations=draft["operations"],
        force_reopen=force_reopen,
        auto_save=save and auto_save,
        provenance="model",
    )
    return replace(better, before=first.before, applied=first.applied)


def _revision_row(made: "PlanResult") -> dict[str, Any]:
    """Return what a refinement did, and what is still open."""
    return {
        "plan_id": made.plan.id,
        "version": made.plan.version,
        "unchanged": (made.saved is not None and made.saved.unchanged) or None,
        "applied": [applied.said for applied in made.applied],
        "changed": "" if made.applied or not made.is_accepted else made.found.summary,
        "open_feedback": list(made.plan.open_feedback),
        "questions": question_rows(made.plan),
    }


def _next_of_revision(made: "PlanResult", improved: SecondPassResult, assist: str) -> Any:
    if not made.is_accepted:
        return "correct what errors name, and send it again"
    is_open = made.plan.open_feedback or made.plan.open_questions
    otherwise = describe_next(made.plan, None) if is_open else "view_progress, or load_plan for all"
    return choose_next(improved, assist, otherwise)
