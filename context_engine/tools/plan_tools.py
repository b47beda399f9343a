"""Tools for saved plans: save, load, list, draw and delete them, view their history, and roll back to a version."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from context_engine import timestamps
from context_engine.context import parse_draft
from context_engine.errors import NotIndexed
from context_engine.plans import (
    LABEL_CHARS,
    PROGRESS_MODES,
    Plan,
    PlanQuery,
    compare_plans,
    draw_architecture,
    draw_plan,
    render_difference,
    render_history,
    render_plan,
    serialize_plan,
)
from context_engine.text import compact_json, drop_empty, format_cursor
from context_engine.tools.arguments import (
    ENDLESS,
    ArgumentType,
    BooleanArg,
    ChoiceArg,
    IntegerArg,
    TextArg,
    TextListArg,
    argument_error,
)
from context_engine.tools.reply import NOTE_CHARS, describe_empty_list, keep_fitting, reply_size, take_fitting_rows
from context_engine.tools.structured_replies import TEXT, list_of, texts
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.context import SecondPassResult
    from context_engine.engine import Engine
    from context_engine.plans import Approval, Execution, PlanVersion

STEPS_MAX = 2_000
"""More than any plan has."""
PROSE_CHARS_MAX = 200_000
"""Of an error or a note, which may be a whole log; more is a file."""
LIST_MAX = 200
UID = TextArg("Or its uid.", 0, 100)
STEP = IntegerArg("The step.", 1, ENDLESS)
STEP_NUMBERS = TextListArg("Only these steps.", most=STEPS_MAX)
PLAN_ID = TextArg("Id or name.", 1)
TAGS = TextListArg("Words to find it by.", most=20)
EXPECTED_VERSION = IntegerArg("Refused unless this is the newest.", 0, 100_000)
VERSION = IntegerArg("The version.", 1, ENDLESS)
Format = Annotated[str, ChoiceArg("Of the reply.", ("text", "json"))]


@dataclass(frozen=True, slots=True)
class PlanArgument(ArgumentType):
    """A whole plan: an object, or a text with JSON in it. The parser reports what is wrong in it."""

    SCHEMA: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"goal": TEXT, "steps": list_of({"type": "object", "properties": texts("title description")})},
    }

    def read(self, name: str, value: Any) -> Any:
        """Return the plan of a text, if it has one, else the value unchanged; an empty text means no plan."""
        if isinstance(value, str) and not value.strip():
            return None
        if not isinstance(value, str | Mapping):
            example = f'Write {name}: {{"goal": "...", "steps": [...]}}.'
            raise argument_error(name, "must be an object, or JSON in a text", example)
        try:
            found = parse_draft(value) if isinstance(value, str) else value
        except ValueError:
            return value
        return found if isinstance(found, Mapping) else value


def which_step(number: int, uid: str) -> int | str:
    """Return the step of a call. Raises: InvalidArgument when it names none."""
    if not uid.strip() and not number:
        raise argument_error("step_number", "is missing", "Name the step: step_number, or step_uid.")
    return uid.strip() or number


# -- what fits into a reply --------------------------------------------------------------------------------------------

SPARE = ("dependency_graph", "architecture", "evidence", "scope", "risks", "milestones", "testing_strategy")
"""Left out of a plan too long for a reply, in this order, before steps are: the graph follows from them."""
CUT_CHARS_MIN = 100
"""Shorter texts are not cut any further."""
ROWS_SHOWN = 20
"""Of each list in a brief reply: enough to see what happened."""


def format_reply(fields: Mapping[str, Any], kept: Sequence[str] = ()) -> Reply:
    """Return a reply: `ok`, then the fields that are not empty, and those in `kept`."""
    full = {"ok": True, **fields}
    shown = drop_empty(full)
    return Reply(compact_json({key: value for key, value in full.items() if key in kept or key in shown}))


def fit_rows(fields: dict[str, Any], room: int, *, rows_max: int = 0, texts: Sequence[str] = ()) -> dict[str, Any]:
    """Return fields within a size: every list up to `rows_max` rows, then the longest list or text is halved, again.

    `NAME_left_out` counts the rows that a list lost. `texts` names the fields whose texts may be cut.
    """
    for holder, name in list(_find_parts(fields, ())):
        if rows_max and len(holder[name]) > rows_max:
            _cut_part(holder, name, rows_max)
    while reply_size(compact_json(fields)) > room:
        parts = [(len(compact_json(holder[name])), holder, name) for holder, name in _find_parts(fields, texts)]
        if not parts:
            break
        _, holder, name = max(parts, key=lambda part: part[0])
        _cut_part(holder, name, len(holder[name]) // 2)
    return fields


def _find_parts(fields: dict[str, Any], texts: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _find_parts(value, texts)
        elif isinstance(value, str):
            if name in texts and len(value) > CUT_CHARS_MIN:
                yield fields, name
        elif isinstance(value, list | tuple) and value:
            yield fields, name


def _cut_part(holder: dict[str, Any], name: str, count: int) -> None:
    value = holder[name]
    if isinstance(value, str):
        holder[name] = value[: count - 1] + "…"
    else:
        holder[name] = list(value[:count])
        holder[f"{name}_left_out"] = holder.get(f"{name}_left_out", 0) + len(value) - count


def fit_plan(plan: Plan, room: int, *, from_step: int = 1) -> dict[str, Any]:
    """Return the field `plan` as it fits into a reply, and next to it what was left out, if anything.

    `steps_shown`, `steps_total`, `next_step` (the `from_step` to continue with), `fields_left_out`.
    """
    whole = serialize_plan(plan)
    if from_step <= 1 and reply_size(compact_json(whole)) <= room:
        return {"plan": whole}
    rows = whole.pop("steps")
    left_out = [name for name in SPARE if reply_size(compact_json(whole)) > room // 2 and whole.pop(name, None)]
    rest, space = rows[from_step - 1 :], room - reply_size(compact_json(whole))
    shown = take_fitting_rows(rest, chars_max=space + NOTE_CHARS)
    if rest and not shown:  # a step that does not fit even alone
        cut = fit_rows(dict(rest[0]), space, texts=[*rest[0]])
        changed = sorted(key for key in rest[0] if cut[key] != rest[0][key])
        shown = [{key: value for key, value in cut.items() if key in rest[0]} | {"cut": changed}]
    after = from_step - 1 + len(shown)
    fields = {
        "steps_shown": len(shown),
        "steps_total": len(rows),
        "next_step": after + 1 if after < len(rows) else None,
        "fields_left_out": left_out,
    }
    return {"plan": whole | {"steps": list(shown)}} | drop_empty(fields)


def cut_lines(text: str, room: int) -> Reply:
    """Return a rendering up to a size, in whole lines; its last line counts the lines left out."""
    return Reply("\n".join(keep_fitting(text.split("\n"), room - NOTE_CHARS, ": as JSON, the rest is shown in parts")))


# -- what a plan is, in a few words ------------------------------------------------------------------------------------


def question_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return the open questions of a plan."""
    return [
        drop_empty({"id": question.id, "text": question.text, "candidates": list(question.candidates)})
        for question in plan.open_questions
    ]


def describe_next(plan: Plan, execution: "Execution | None") -> str:
    """Return what to do next with a saved plan."""
    if plan.open_feedback:
        return "open_feedback needs operations: refine_plan, where assist: host returns a brief and their schema"
    if plan.open_questions:
        return "refine_plan with clarifications answers the questions"
    if execution is None:
        return "start_step 1" if plan.steps else "refine_plan adds steps"
    if execution.current:
        return f"complete_step or fail_step {', '.join(map(str, plan.list_numbers(execution.current)))}"
    number = plan.step_numbers()
    if execution.next:
        return f"start_step {number[execution.next]}"
    failed = [number[uid] for uid, state in execution.steps.items() if state.status == "failed"]
    if failed:
        return f"fail_step {failed[0]} with retry: true opens it again, with skip: true leaves it out"
    return "nothing is left to do" if execution.status == "completed" else "view_progress says what is open"


def choose_next(second_pass: "SecondPassResult", assist: str, otherwise: str) -> Any:
    """Return the next step: the brief and the schema of a second pass on request or if a model failed, else words."""
    is_offered = assist != "auto" or bool(second_pass.warnings)
    return (second_pass.next if is_offered else None) or otherwise


def brief_progress(plan: Plan, execution: "Execution") -> dict[str, Any]:
    """Return the state of a plan in few words: how many steps are done, which can start, which are blocked."""
    fields = {
        "plan_status": execution.status,
        "damage": execution.damage,
        "done": f"{len(execution.done)} of {len(plan.steps)}",
        "current_steps": plan.list_numbers(execution.current),
        "ready_steps": plan.list_numbers(execution.ready),
        "blocked_steps": plan.list_numbers(execution.blocked),
        "next": describe_next(plan, execution),
    }
    return drop_empty(fields)


def approval_row(approval: "Approval", plan: "Plan") -> dict[str, Any]:
    """Return an approval request with its steps by number."""
    return drop_empty(msgspec.to_builtins(approval) | {"steps": plan.list_numbers(approval.steps)})


# -- saved plans -------------------------------------------------------------------------------------------------------


@tool(touches="records")
def save_plan(
    engine: "Engine",
    plan: Annotated[Any, PlanArgument("The plan.")],
    name: Annotated[str, TextArg("Name of the plan.")] = "",
    overwrite: Annotated[bool, BooleanArg("As next version.")] = False,
    allow_invalid: Annotated[bool, BooleanArg("Keep it anyway.")] = False,
    *,
    tags: Annotated[tuple[str, ...] | None, TAGS] = None,
    expected_version: Annotated[int | None, EXPECTED_VERSION] = None,
    reason: Annotated[str, TextArg("Why it changed.")] = "",
) -> Reply:
    """Write a plan down: a new one, or its next version."""
    parsed_plan = engine.plans.repository.parse(plan or "")
    saved = engine.plans.repository.save(
        parsed_plan.plan,
        name=name,
        tags=tags,
        overwrite=overwrite,
        expected_version=expected_version,
        reason=reason,
        allow_invalid=allow_invalid,
    )
    fields = {
        "success": True,
        "plan_id": saved.plan.id,
        "name": saved.version.name,
        "version": saved.version.version,
        "file_path": saved.path,
        "unchanged": saved.unchanged or None,
        "change_summary": saved.version.change_summary,
        "warnings": [*saved.warnings, *(row.message for row in (*parsed_plan.remarks, *saved.validation.warnings))],
        "autofixes": [row.message for row in saved.validation.autofixes],
        "errors": [row.message for row in saved.validation.errors],
    }
    return format_reply(fields)


@tool(touches="nothing", view="plan")
def load_plan(
    engine: "Engine",
    plan_id: Annotated[str, TextArg("Id or name.")] = "",
    version: Annotated[int | None, IntegerArg("Default: the newest.", 1, ENDLESS)] = None,
    *,
    name: Annotated[str, TextArg("Name of the plan.")] = "",
    include_execution: Annotated[bool, BooleanArg("With its progress.")] = True,
    format: Format = "",  # noqa: A002 - the name in other tools
    from_step: Annotated[int, IntegerArg("Where to go on with a long plan.", 1, STEPS_MAX)] = 1,
) -> Reply:
    """Read a plan with progress, approvals and file drift."""
    which = plan_id.strip() or name.strip()
    if not which:
        raise argument_error("plan_id", "is missing", "list_plans shows ids and names.")
    loaded = engine.plans.repository.load(which, version)
    if format == "text":
        text = render_plan(loaded.plan, loaded.execution if include_execution else None)
        return cut_lines(text, engine.settings.result_chars_max)
    drift = engine.plans.repository.drift(loaded.plan)
    room = engine.settings.result_chars_max - NOTE_CHARS
    fields: dict[str, Any] = {
        "plan_id": loaded.plan.id,
        "name": loaded.version.name,
        "tags": list(loaded.version.tags),
        "version": loaded.version.version,
        "versions": list(loaded.versions),
        "approvals": [approval_row(approval, loaded.plan) for approval in loaded.approvals],
        "drift": {
            "files_missing": list(drift.files_missing),
            "files_changed_since_plan": list(drift.files_changed),
            "commits_since": drift.commits_since,
        },
        "warnings": [*loaded.warnings, *drift.warnings],
    }
    if include_execution:
        fields["execution"] = loaded.execution and loaded.execution.serialize(loaded.plan)
        if loaded.execution and reply_size(compact_json(fields["execution"])) > room // 3:
            fields["execution"] = loaded.execution.serialize(loaded.plan, with_steps=False)
    left = max(room - reply_size(compact_json(fields)), room // 2)
    fields = {"success": True, **fit_plan(loaded.plan, left, from_step=from_step), **fields}
    return format_reply(fields, kept=("execution",))


@tool(touches="nothing")
def list_plans(
    engine: "Engine",
    status: Annotated[str, ChoiceArg("Only this status.", ("", *PlanQuery.STATUSES))] = "",
    query: Annotated[str, TextArg("Words of the plan.")] = "",
    *,
    tags: Annotated[tuple[str, ...], TAGS] = (),
    sort_by: Annotated[str, ChoiceArg("Order.", PlanQuery.SORTS)] = "updated_at",
    sort_order: Annotated[str, ChoiceArg("Which first.", PlanQuery.ORDERS)] = "desc",
    limit: Annotated[int, IntegerArg("Rows.", 1, LIST_MAX)] = 50,
    cursor: Annotated[str, TextArg("To go on.")] = "",
) -> Reply:
    """List saved plans with their status and progress."""
    listed = engine.plans.repository.list_page(PlanQuery(status, tags, query, sort_by, sort_order, limit, cursor))
    rows = [drop_empty(msgspec.to_builtins(row) | {"requests": ()}) for row in listed.rows]
    shown = take_fitting_rows(rows, chars_max=engine.settings.result_chars_max)
    empty = describe_empty_list(listed.by_status, status, "", "plans yet: create_plan makes one")
    fields = {
        "count": len(shown),
        "total": listed.total,
        "next_cursor": format_cursor(listed.first + len(shown), listed.stamped, listed.total),
        "next": "" if rows else empty,
        "plans": shown,
    }
    return format_reply(fields, kept=("plans",))


@tool(touches="records", destructive=True)
def delete_plan(
    engine: "Engine",
    plan_id: Annotated[str, PLAN_ID],
    confirm: Annotated[bool, BooleanArg("Though under way.")] = False,
    *,
    purge: Annotated[bool, BooleanArg("For good, not into the trash.")] = False,
) -> Reply:
    """Delete a plan: move it into the trash folder."""
    row, trashed = engine.plans.repository.delete(plan_id, purge=purge, confirm=confirm)
    fields: dict[str, Any] = {"success": True, "plan_id": row.id, "name": row.name}
    return format_reply(fields | {"trashed_to": trashed, "purged": not trashed or None})


@tool(touches="nothing")
def view_history(
    engine: "Engine",
    plan_id: Annotated[str, PLAN_ID],
    *,
    limit: Annotated[int, IntegerArg("Maximum versions.", 1, LIST_MAX)] = 20,
    since: Annotated[str, TextArg("From this moment: 2026-11-21.", 0, 40)] = "",
    until: Annotated[str, TextArg("Up to this moment.", 0, 40)] = "",
    include_plans: Annotated[bool, BooleanArg("With the whole plans.")] = False,
    include_events: Annotated[bool, BooleanArg("With what happened to its steps.")] = False,
    format: Format = "",  # noqa: A002 - the name in other tools
) -> Reply:
    """List the versions of a plan and what changed."""
    repository, room = engine.plans.repository, engine.settings.result_chars_max
    versions, damaged = repository.history(plan_id)
    first, last = _parse_moment("since", since, 0.0), _parse_moment("until", until, float("inf"))
    chosen = [version for version in versions if first <= _parse_moment("", version.created_at, 0.0) <= last]
    if format == "text":
        return cut_lines("\n".join([render_history(chosen[:limit]), *(f"warning: {wrong}" for wrong in damaged)]), room)
    rows = [_version_row(version) for version in chosen[:limit]]
    if include_plans:
        rows = [row | fit_plan(repository.load(plan_id, row["version"]).plan, room // 2) for row in rows]
    found = repository.load(plan_id).events if include_events else ()
    events = [drop_empty(msgspec.to_builtins(event)) for event in found]
    shown = take_fitting_rows(rows, chars_max=room // 2 if events else room, least=1)
    fields = {
        "plan_id": versions[0].plan_id if versions else plan_id,
        "current_version": versions[0].version if versions else None,
        "total": len(chosen),
        "shown": len(shown) if len(shown) < len(chosen) else None,
        "versions": shown,
        "events": list(reversed(take_fitting_rows(events[::-1], chars_max=room // 2))),
        "warnings": list(damaged),
    }
    return format_reply(fields, kept=("versions",))


def _version_row(version: "PlanVersion") -> dict[str, Any]:
    row = msgspec.to_builtins(version)
    hidden = ("plan_id", "events", "name", "tags")
    return {key: value for key, value in row.items() if key not in hidden and value not in ("", 0)}


def _parse_moment(name: str, text: str, otherwise: float) -> float:
    at = timestamps.parse_timestamp(text) if text.strip() else otherwise
    if at is None and name:
        raise argument_error(name, f"is {text[:40]!r}, no moment", "Write 2026-11-21 or 2026-11-21T12:00:00Z.")
    return at or 0.0


@tool(touches="records")
def rollback_plan(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, PLAN_ID],
    target_version: Annotated[int, IntegerArg("Which one.", 1, ENDLESS)],
    force: Annotated[bool, BooleanArg("While a step runs.")] = False,
    *,
    reason: Annotated[str, TextArg("Why.")] = "",
    execution: Annotated[str, ChoiceArg("What becomes of progress.", PROGRESS_MODES)] = "reconcile",
    expected_version: Annotated[int | None, EXPECTED_VERSION] = None,
) -> Reply:
    """Undo changes of a plan: an earlier version becomes the newest."""
    back = engine.plans.repository.rollback(
        plan_id, target_version, reason=reason, execution=execution, expected_version=expected_version, force=force
    )
    fields: dict[str, Any] = {
        "success": True,
        "plan_id": back.plan.id,
        "new_version": back.version.version,
        "change_summary": back.version.change_summary,
        "reconciled": {"kept_completed": list(back.kept), "lost": list(back.lost), "reopened": list(back.reopened)},
    }
    room = engine.settings.result_chars_max - 2 * NOTE_CHARS
    return format_reply(fields | ({} if call.is_brief else fit_plan(back.plan, room)))


@tool(touches="nothing")
def compare_plan_versions(
    engine: "Engine",
    plan_id: Annotated[str, PLAN_ID],
    from_version: Annotated[int, VERSION],
    to_version: Annotated[int, VERSION],
    *,
    format: Format = "",  # noqa: A002 - the name in other tools
) -> Reply:
    """Show what changed between two versions of a plan."""
    repository = engine.plans.repository
    found = compare_plans(repository.load(plan_id, from_version).plan, repository.load(plan_id, to_version).plan)
    if format == "text":
        return Reply(render_difference(found))
    fields = {"ok": True, "plan_id": found.after.id} | found.serialize()
    return Reply(compact_json(fit_rows(fields, engine.settings.result_chars_max)))


# -- diagrams ----------------------------------------------------------------------------------------------------------

FILES_DRAWN_MAX = 12
"""Of a plan with more, folders are drawn instead: boxes for all its files could not be read."""
YEARS = (0.0, 4_102_444_800.0)
"""1970 to 2100: when a chart may begin."""


@tool(touches="nothing")
def visualize_plan(
    engine: "Engine",
    plan_id: Annotated[str, TextArg("Id or name.", 0, 200)] = "",
    diagram_type: Annotated[
        str, ChoiceArg("What to draw.", ("dependencies", "architecture", "gantt", "progress"))
    ] = "dependencies",
    *,
    plan: Annotated[Any, PlanArgument("A plan instead of an id.")] = None,
    version: Annotated[int | None, VERSION] = None,
    direction: Annotated[str, ChoiceArg("Down or right.", ("td", "lr"))] = "td",
    max_label: Annotated[int, IntegerArg("Characters of a title.", 20, 120)] = LABEL_CHARS,
    start_date: Annotated[str, TextArg("Of the Gantt chart: 2026-11-21.", 0, 40)] = "",
) -> Reply:
    """Show a plan as a Mermaid diagram of its steps or modules."""
    drawn, execution = _load_drawable(engine, plan_id, plan, version)
    way = "LR" if direction == "lr" else "TD"
    warnings = [execution.damage] if execution.damage else []
    at = timestamps.parse_timestamp(start_date if start_date.strip() else drawn.created_at)
    if start_date.strip() and (at is None or not YEARS[0] <= at <= YEARS[1]):
        raise argument_error("start_date", f"is {start_date[:40]!r}", "Write 2026-11-21.")
    if diagram_type == "architecture":
        touched, imports, notes = _find_modules(engine, drawn)
        warnings = [*notes, *warnings]
        picture = draw_architecture(touched, imports, direction=way, label_chars=max_label)
    else:
        picture = draw_plan(diagram_type, drawn, execution, direction=way, start=at, label_chars=max_label)
    fields = {
        "diagram_type": diagram_type,
        "plan_id": drawn.id,
        "plan_version": drawn.version or None,
        "mermaid": picture.mermaid,
        "legend": picture.legend,
        "warnings": warnings,
    }
    return format_reply(fields | {"omitted": list(picture.omitted)}, kept=("omitted",))


def _load_drawable(engine: "Engine", plan_id: str, sent: Any, version: int | None) -> "tuple[Plan, Execution]":
    """Load the plan and its progress; a plan that is not saved has none."""
    from context_engine.plans import fold_progress, parse_plan

    if sent is not None:
        plan = parse_plan(sent).plan
        return plan, fold_progress(plan, ())
    if not plan_id.strip():
        raise argument_error("plan_id", "is missing", "list_plans shows ids and names; or pass the plan itself.")
    loaded = engine.plans.repository.load(plan_id, version)
    return loaded.plan, loaded.execution or fold_progress(loaded.plan, loaded.events)


def _find_modules(engine: "Engine", plan: "Plan") -> tuple[dict[str, list[int]], list[tuple[str, str]], list[str]]:
    """Return the modules that a plan touches with their steps, the imports around them, and warnings."""
    by_folder = len(plan.files) > FILES_DRAWN_MAX

    def module(path: str) -> str:
        return path.rpartition("/")[0] or "." if by_folder else path

    touched: dict[str, list[int]] = {}
    for number, step in enumerate(plan.steps, 1):
        for name in dict.fromkeys(map(module, step.files)):
            touched.setdefault(name, []).append(number)
    pairs: list[tuple[str, str]] = []
    warnings: list[str] = []
    for path in sorted(filter(engine.plans.paths.has_path, plan.files)):
        pairs += [(path, str(other)) for other in engine.symbols.dependencies(path)]
        try:
            pairs += [(str(other), path) for other in engine.symbols.importers(path)]
        except NotIndexed:
            warnings = ["there is no index yet: who imports these files is not shown"]
    return touched, [(module(one), module(other)) for one, other in pairs], warnings
