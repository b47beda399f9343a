"""Tools that look at a plan and change it: refine it step by step, draw it, compare two of its versions."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context.refinement import ASSISTS, Climbed
from context_engine.errors import NotIndexed
from context_engine.plans import mermaid
from context_engine.plans.changeset import folder_of
from context_engine.plans.plan_diff import compare_plans, serialize_difference
from context_engine.plans.plan_markdown import render_difference, render_plan
from context_engine.storage import timestamps
from context_engine.tools.arguments import (
    ENDLESS,
    BooleanArg,
    ChoiceArg,
    IntegerArg,
    ObjectArg,
    TextArg,
    TextListArg,
    argument_error,
)
from context_engine.tools.plan_tools import PLAN_ID, ObjectRows, PlanArgument, fit_plan, format_reply
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import NOTE_CHARS, compact_json, drop_empty, reply_size, take_fitting_rows

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.plans.model import Plan
    from context_engine.plans.plan_events import Execution
    from context_engine.plans.plan_refinement import Refinement, RefinementRequest

FORMATS = ("json", "markdown")
DIAGRAMS = ("dependencies", "architecture", "gantt", "progress")
OPERATIONS_MAX = 200
ROWS_SHOWN = 20
"""Of each list in a reply other than the steps: enough to see what happened."""
ROOM_LEAST = 2_000
"""Characters that a plan or a difference gets in any case; everything next to them needs less than the rest."""
FILES_DRAWN_MAX = 12
"""Of a plan with more, folders are drawn instead: boxes for all its files could not be read."""
YEARS = (0.0, 4_102_444_800.0)
"""1970 to 2100: when a chart may begin."""
VersionNumber = IntegerArg("Its number.", 1, ENDLESS)


@tool(
    touches="records",
    rare=(
        *("current_plan", "clarifications", "focus_steps", "expected_version", "auto_save", "assist", "force_reopen"),
        *("strict", "submission_id", "format"),
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
    assist: Annotated[str, ChoiceArg("Who may take it further: a model, you (host), nobody.", ASSISTS)] = "auto",
    force_reopen: Annotated[bool, BooleanArg("Change steps that are done, and open them again.")] = False,
    strict: Annotated[bool, BooleanArg("Refuse dangling dependencies.")] = True,
    submission_id: Annotated[str, TextArg("As next says it.", 0, 80)] = "",
    format: Annotated[str, ChoiceArg("Of the reply.", FORMATS)] = "json",  # noqa: A002 - the word that callers know
) -> Reply:
    """Refine a plan: edit, split, merge, move steps, answer questions, take feedback; all or none."""
    from context_engine.plans.plan_refinement import RefinementRequest

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
        submission_id=submission_id,
    )
    made = engine.plans.refiner.refine(request)
    if draft is not None or made.status == "draft_rejected":
        return _refinement_reply(engine, made, Climbed("none"), "host" if draft is not None else "none", began, format)
    made, climbed = _refine_by_model(engine, call, made, request, assist)
    return _refinement_reply(engine, made, climbed, climbed.used, began, format)


def _refine_by_model(
    engine: "Engine", call: Call, made: "Refinement", request: "RefinementRequest", assist: str
) -> "tuple[Refinement, Climbed]":
    """Let a model take up the open feedback, or pass it to the caller; do nothing when there is none."""
    from dataclasses import replace

    from context_engine.plans.plan_json import draft_schema
    from context_engine.plans.plan_refinement import RefinementRequest, refinement_prompt

    if assist == "off" or (assist == "auto" and not made.plan.open_feedback):
        return made, Climbed("none")
    second = refinement_prompt(made, draft_schema(), request.focus)
    again = RefinementRequest(
        plan_id=made.plan.id if made.saved else "",
        plan=None if made.saved else request.plan,
        force_reopen=request.force_reopen,
        submission_id=second.submission_id,
        provenance="model",
        auto_save=request.auto_save,
    )

    def check(draft: Any) -> str:
        tried = engine.plans.refiner.refine(replace(again, draft=draft, auto_save=False))
        return "; ".join(error.message for error in tried.checked.errors[:3])

    climbed = engine.ladder.climb(second, assist, check=check, cancel=call.cancel)
    if climbed.draft is None:
        return made, climbed
    better = engine.plans.refiner.refine(replace(again, draft=climbed.draft))
    return replace(
        better, before=made.before, applied=made.applied, found=compare_plans(made.before, better.plan)
    ), climbed


def _refinement_reply(
    engine: "Engine", made: "Refinement", climbed: Climbed, used: str, began: float, shape: str
) -> Reply:
    """Return the reply for a refinement."""
    warnings, is_kept = [*made.warnings, *climbed.warnings], made.status != "draft_rejected"
    if shape == "markdown":
        wrong = [f"rejected, nothing was kept: {error.message}" for error in made.checked.errors if not is_kept]
        parts = [
            *wrong,
            render_plan(made.plan),
            render_difference(made.found),
            *(f"warning: {warning}" for warning in warnings),
        ]
        return Reply("\n\n".join(parts))
    reply: dict[str, Any] = {
        "ok": is_kept,
        "status": made.status,
        "version": made.plan.version,
        **_limit_rows("applied_operations", [drop_empty(applied_change._asdict()) for applied_change in made.applied]),
        "open_feedback": list(made.plan.open_feedback),
        "validation": {
            key: row for name, rows in made.checked.serialize().items() for key, row in _limit_rows(name, rows).items()
        },
        "persistence": _persistence_row(made),
    }
    reply |= drop_empty(
        {
            "answers_resolved": {
                question: [str(place) for place in places] for question, places in made.answered.items() if places
            },
            "rejected": [{"place": rejection.place, "reason": rejection.reason} for rejection in made.rejected],
            "next": climbed.next,
            "warnings": warnings,
        }
    )
    ms = round((time.perf_counter() - began) * 1_000)
    meta = {"tool": "refine_plan", "ms": ms, "assist_used": used, "tokens": climbed.tokens and climbed.tokens._asdict()}
    reply["meta"] = drop_empty(meta)
    room = engine.settings.result_chars_max - NOTE_CHARS
    reply["diff"] = _fit_difference(
        serialize_difference(made.found), max(room - reply_size(compact_json(reply)), ROOM_LEAST) // 3
    )
    plan, cut = fit_plan(made.plan, max(room - reply_size(compact_json(reply)), ROOM_LEAST))
    return Reply(compact_json(reply | {"plan": plan} | cut))


def _persistence_row(made: "Refinement") -> dict[str, Any]:
    if made.saved is None:
        return {"saved": False}
    version = made.saved.version
    row = {"saved": True, "plan_id": version.plan_id, "version": version.version, "file_path": made.saved.path}
    return drop_empty(row | {"unchanged": made.saved.unchanged or None})


def _fit_difference(difference: dict[str, Any], room: int) -> dict[str, Any]:
    """Return the difference within a size: the first rows of every list, and their counts."""
    changes, graph = difference.pop("field_changes"), difference.pop("graph_changes")
    cut = {key: rows for name, value in difference.items() for key, rows in _limit_rows(name, value).items()}
    cut["graph_changes"] = {
        key: rows for name, value in graph.items() for key, rows in _limit_rows(name, value).items()
    }
    shown = take_fitting_rows(changes, chars_max=room - reply_size(compact_json(cut)) + NOTE_CHARS)
    left = len(changes) - len(shown)
    return cut | {"field_changes": list(shown)} | ({"field_changes_left_out": left} if left else {})


def _limit_rows(name: str, value: Any) -> dict[str, Any]:
    """Return a field of a reply; of a long list the first rows, and the count of the others."""
    if not isinstance(value, list) or len(value) <= ROWS_SHOWN:
        return {name: value}
    return {name: value[:ROWS_SHOWN], f"{name}_left_out": len(value) - ROWS_SHOWN}


# -- pictures ---------------------------------------------------------------------------------------------------------


@tool(touches="nothing", rare=("plan", "version", "direction", "max_label", "start_date"))
def visualize_plan(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    plan_id: Annotated[str, TextArg("Id or name.", 0, 200)] = "",
    diagram_type: Annotated[str, ChoiceArg("What to draw.", DIAGRAMS)] = "dependencies",
    plan: Annotated[Any, PlanArgument("A plan instead of an id.")] = None,
    version: Annotated[int | None, VersionNumber] = None,
    direction: Annotated[str, ChoiceArg("Down or right.", ("td", "lr"))] = "td",
    max_label: Annotated[int, IntegerArg("Characters of a title.", 20, 120)] = mermaid.LABEL_CHARS,
    start_date: Annotated[str, TextArg("Of the Gantt chart: 2026-11-21.", 0, 40)] = "",
) -> Reply:
    """Show a plan as a Mermaid diagram of its steps or modules."""
    drawn, execution = _load_drawable(engine, plan_id, plan, version)
    way: mermaid.Direction = "LR" if direction == "lr" else "TD"
    warnings: list[str] = []
    if diagram_type == "dependencies":
        picture = mermaid.draw_dependencies(drawn, execution, direction=way, label_chars=max_label)
    elif diagram_type == "progress":
        picture = mermaid.draw_progress(drawn, execution, direction=way, label_chars=max_label)
    elif diagram_type == "gantt":
        picture = mermaid.draw_gantt(drawn, execution, start=_chart_start(start_date, drawn), label_chars=max_label)
    else:
        touched, imports, warnings = _find_modules(engine, drawn)
        picture = mermaid.draw_architecture(touched, imports, direction=way, label_chars=max_label)
    if execution and execution.damage:
        warnings = [*warnings, execution.damage]
    fields = {
        "diagram_type": diagram_type,
        "plan_id": drawn.id,
        "plan_version": drawn.version or None,
        "mermaid": picture.mermaid,
        "legend": picture.legend,
        "warnings": warnings,
    }
    return Reply(format_reply(fields | {"omitted": list(picture.omitted)}, kept=("omitted",)))


def _load_drawable(engine: "Engine", plan_id: str, sent: Any, version: int | None) -> "tuple[Plan, Execution]":
    """Load the plan and its progress; a plan that is not saved has none."""
    from context_engine.plans.plan_events import fold_progress
    from context_engine.plans.plan_json import parse_plan

    if sent is not None:
        plan = parse_plan(sent).plan
        return plan, fold_progress(plan, (), now=0.0)
    if not plan_id.strip():
        raise argument_error("plan_id", "is missing", "list_plans shows ids and names; or pass the plan itself.")
    loaded = engine.plans.repository.load(plan_id, version)
    return loaded.plan, loaded.execution or fold_progress(loaded.plan, loaded.events, now=0.0)


def _chart_start(text: str, plan: "Plan") -> float:
    """Return the start of a chart: the given day, else the day when the plan was created."""
    at = timestamps.parse_timestamp(text) if text.strip() else timestamps.parse_timestamp(plan.created_at)
    if text.strip() and (at is None or not YEARS[0] <= at <= YEARS[1]):
        raise argument_error("start_date", f"is {text[:40]!r}", "Write 2026-11-21.")
    return mermaid.START if at is None else at


def _find_modules(engine: "Engine", plan: "Plan") -> tuple[dict[str, list[int]], list[tuple[str, str]], list[str]]:
    """Return the modules that a plan touches with their steps, the imports around them, and warnings."""
    by_folder = len(plan.files) > FILES_DRAWN_MAX

    def module(path: str) -> str:
        return (folder_of(path) or ".") if by_folder else path

    touched: dict[str, list[int]] = {}
    for number, step in enumerate(plan.steps, 1):
        for path in step.files:
            steps = touched.setdefault(module(path), [])
            steps += [number] if number not in steps else []
    pairs: list[tuple[str, str]] = []
    warnings: list[str] = []
    for path in sorted(path for path in plan.files if engine.plans.paths.has_path(path)):
        pairs += [(path, str(other)) for other in engine.symbols.dependencies(path)]
        try:
            pairs += [(str(other), path) for other in engine.symbols.importers(path)]
        except NotIndexed:
            warnings = ["there is no index yet: who imports these files is not shown"]
    return touched, [(module(one), module(other)) for one, other in pairs], warnings


# -- versions ---------------------------------------------------------------------------------------------------------


@tool(touches="nothing", rare=("format",))
def compare_plan_versions(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    plan_id: Annotated[str, PLAN_ID],
    from_version: Annotated[int, VersionNumber],
    to_version: Annotated[int, VersionNumber],
    format: Annotated[str, ChoiceArg("Rendering.", FORMATS)] = "json",  # noqa: A002 - the word that callers know
) -> Reply:
    """Show what changed between two versions of a plan."""
    repository = engine.plans.repository
    found = compare_plans(repository.load(plan_id, from_version).plan, repository.load(plan_id, to_version).plan)
    if format == "markdown":
        return Reply(render_difference(found))
    fields = _fit_difference(serialize_difference(found), engine.settings.result_chars_max - NOTE_CHARS)
    return Reply(compact_json({"ok": True, "plan_id": found.after.id} | fields))
