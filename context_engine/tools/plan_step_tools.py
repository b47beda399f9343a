"""Tools that carry a plan out: approvals, steps, work packets, changes that are applied and verified, progress."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from context_engine.context import ASSIST_MODES, SecondPassResult
from context_engine.errors import ContextEngineError, InvalidArgument, NeedsApproval, NextStep, PlanNotFound
from context_engine.plans import (
    AGENT,
    APPROVAL_HOURS_MAX,
    DECISIONS,
    PERSON,
    CompletionReport,
    render_plan,
    render_progress,
)
from context_engine.text import compact_json, drop_empty
from context_engine.tools.arguments import (
    ArgumentType,
    BooleanArg,
    ChoiceArg,
    IntegerArg,
    ObjectListArg,
    TextArg,
    TextListArg,
    argument_error,
    read_objects,
)
from context_engine.tools.context_tools import count_model_tokens
from context_engine.tools.edit_arguments import ContentArg, EditListArg, name_entry, name_field, read_typed
from context_engine.tools.plan_tools import (
    PLAN_ID,
    PROSE_CHARS_MAX,
    STEP,
    STEP_NUMBERS,
    UID,
    Format,
    PlanArgument,
    approval_row,
    brief_progress,
    choose_next,
    cut_lines,
    describe_next,
    fit_rows,
    format_reply,
    which_step,
)
from context_engine.tools.reply import NOTE_CHARS, cut_to_size, reply_size, take_fitting_rows
from context_engine.tools.structured_replies import COUNT, texts
from context_engine.tools.tool import Call, Reply, UserQuestion, tool

if TYPE_CHECKING:
    from context_engine.edit import EditService, FileEdit
    from context_engine.engine import Engine
    from context_engine.plans import (
        ApprovalResult,
        Execution,
        ExecutionResult,
        Plan,
        PlanStep,
        StepUpdate,
    )

EVIDENCE = texts("command output") | {"exit_code": COUNT}

FILES_SHOWN_MAX = 50
"""Of a diffstat; `affected_files` names all."""
DETAILS_CHARS = 6_000
"""Of the plan in a request for its approval: a screen or two, which a person reads before deciding."""
ACTOR = TextArg("Who does it.", 0, 100)

# -- approvals --------------------------------------------------------------------------------------------------------


@tool(touches="records")
def request_approval(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, PLAN_ID],
    step_numbers: Annotated[tuple[str, ...], STEP_NUMBERS] = (),
    *,
    note: Annotated[str, TextArg("Why now.")] = "",
    expires_in_hours: Annotated[int | None, IntegerArg("Else never.", 1, APPROVAL_HOURS_MAX)] = None,
    ask_user: Annotated[bool, BooleanArg("Ask the user at once, where the client can.")] = True,
) -> Reply:
    """Show the user a plan or steps to approve of."""
    steps = tuple(int(item) if item.isdecimal() and len(item) < 7 else item for item in step_numbers)
    request = engine.plans.approvals.request(plan_id, steps=steps, note=note, expires_in_hours=expires_in_hours)
    planned = request.diffstat
    decided = _ask_person(engine, call, request) if ask_user else None
    row = approval_row(decided.approval if decided else request.approval, request.plan) | {"changes": planned.summary}
    if not call.is_brief:
        rows = [drop_empty(file._asdict()) for file in planned.files[:FILES_SHOWN_MAX]]
        row |= {
            "affected_files": [file.path for file in planned.files],
            "diffstat": {"summary": planned.summary, "files": rows},
            "risks": [risk.issue for risk in request.plan.risks],
            "details_md": cut_to_size(render_plan(request.plan), DETAILS_CHARS),
        }
    fields: dict[str, Any] = {"request": row, "is_new": request.is_new, "damage": request.now.execution.damage}
    if decided:
        return format_reply(fields | {"decision": decided.approval.status, **_status_row(decided)})
    step = "It is pending: respond_approval decides, or a person with `ctx plan approve`."
    return format_reply(fields | {"next": step})


@tool(touches="records")
def respond_approval(
    engine: "Engine",
    call: Call,
    request_id: Annotated[str, TextArg("Its id.")],
    action: Annotated[str, ChoiceArg("The decision.", (*DECISIONS, "request_changes"))],
    modifications: Annotated[str, TextArg("What to change.")] = "",
    *,
    comment: Annotated[str, TextArg("Why.")] = "",
    decided_by: Annotated[str, TextArg("On whose behalf.", 0, 100)] = "",
) -> Reply:
    """Write down the decision about an approval request."""
    approvals = engine.plans.approvals
    by = f"{AGENT} for {decided_by.strip()}" if decided_by.strip() else AGENT
    try:
        decision = "request_modification" if action == "request_changes" else action
        decided = approvals.respond(request_id, decision, comment=comment, modifications=modifications, by=by)
    except NeedsApproval:
        request = approvals.get(request_id)
        outcome = _ask_person(engine, call, request)
        if outcome is None:
            raise
        decided = outcome
    fields = {"success": True, "request": approval_row(decided.approval, decided.plan)}
    return format_reply(fields | _status_row(decided), kept=("next_steps",))


def _ask_person(engine: "Engine", call: Call, request: "ApprovalResult") -> "ApprovalResult | None":
    """Ask the user of the client to decide; None if that is impossible, or there is no decision."""
    approval = request.approval
    about = approval.summary if approval.type == "full_plan" else f"{len(request.steps)} steps"
    what = "; ".join(filter(None, (about, request.diffstat.summary)))
    text = f"Approve version {approval.plan_version} of the plan {request.plan.goal!r} ({what})?"
    answer = call.ask(UserQuestion(cut_to_size(text, NOTE_CHARS), DECISIONS, with_comment=True))
    if answer is None or answer.action != "accept":
        return None
    changes = answer.comment or "The user asked for changes without saying which: ask what is to be different."
    return engine.plans.approvals.respond(
        request.approval.id,
        answer.choice,
        comment=answer.comment,
        modifications=changes if answer.choice == "request_modification" else "",
        by=PERSON,
    )


def _status_row(decided: "ApprovalResult") -> dict[str, Any]:
    return {
        "plan_version": decided.plan.version,
        "plan_status": decided.now.status,
        "next_steps": decided.plan.list_numbers(decided.now.execution.ready),
    }


# -- steps ------------------------------------------------------------------------------------------------------------


@tool(touches="records")
def start_step(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, PLAN_ID],
    step_number: Annotated[int, STEP, "step"] = 0,
    force: Annotated[bool, BooleanArg("Start it anyway; recorded.")] = False,
    *,
    step_uid: Annotated[str, UID] = "",
    include_packet: Annotated[bool, BooleanArg("With the code it is about.")] = True,
    actor: Annotated[str, ACTOR] = "",
) -> Reply:
    """Start a step of a plan, before you edit files."""
    moved = engine.plans.steps.start(plan_id, which_step(step_number, step_uid), force=force, actor=actor)
    fields: dict[str, Any] = {}
    if include_packet:
        try:
            (packet,) = packet_rows(engine, moved.plan, moved.execution, [moved.step])
            shown = ("step", "uid", "title", "status", "acceptance_criteria", "checks")  # in the row of the step
            fields["packet"] = {key: value for key, value in packet.items() if key not in shown}
        except ContextEngineError as error:  # the step is started all the same
            fields["warnings"] = [*moved.warnings, f"there is no packet: {error.message}"]
    fields["next"] = "Edit the files, then complete_step or fail_step; or send them to execute_plan with apply_changes."
    return _step_reply(call, moved, fields, with_criteria=True)


@tool(touches="records")
def complete_step(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, PLAN_ID],
    step_number: Annotated[int, STEP, "step"] = 0,
    notes: Annotated[str, TextArg("What was done.", 0, PROSE_CHARS_MAX)] = "",
    evidence: Annotated[
        tuple[Mapping[str, Any], ...],
        ObjectListArg("Commands that ran.", EVIDENCE, "output", 20),
    ] = (),
    criteria_met: Annotated[tuple[str, ...], TextListArg("Criteria, or their numbers.")] = (),
    force: Annotated[bool, BooleanArg("Complete it anyway; recorded.")] = False,
    *,
    step_uid: Annotated[str, UID] = "",
    files_modified: Annotated[tuple[str, ...], TextListArg("Beside what git sees.", most=1_000)] = (),
    auto_detect_files: Annotated[bool, BooleanArg("Ask git what changed since the start.")] = True,
    actor: Annotated[str, ACTOR] = "",
) -> Reply:
    """Complete a started step: its checks ran, and `criteria_met` must list its criteria; failing evidence fails it."""
    report = CompletionReport(notes, files_modified, evidence, criteria_met, auto_detect_files)
    step = which_step(step_number, step_uid)
    moved = engine.plans.steps.complete(plan_id, step, report, force=force, actor=actor)
    fields = {
        "files_modified": None if call.is_brief or moved.files is None else list(moved.files),
        "unexpected_files": list(moved.unexpected_files),
        "missing_files": list(moved.missing_files),
        "unmet_criteria": list(moved.unmet_criteria),
    }
    return _step_reply(call, moved, fields)


@tool(touches="records")
def fail_step(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, PLAN_ID],
    step_number: Annotated[int, STEP, "step"] = 0,
    error: Annotated[str, TextArg("What went wrong.", 0, PROSE_CHARS_MAX)] = "",
    retry: Annotated[bool, BooleanArg("Open it again.")] = False,
    skip: Annotated[bool, BooleanArg("Go on without it.")] = False,
    release: Annotated[bool, BooleanArg("As if never started.")] = False,
    *,
    step_uid: Annotated[str, UID] = "",
    skip_dependents: Annotated[bool, BooleanArg("And without all that waits for it.")] = False,
    actor: Annotated[str, ACTOR] = "",
) -> Reply:
    """Fail a step, open it again or skip it; list what is blocked."""
    moved = engine.plans.steps.fail(
        plan_id,
        which_step(step_number, step_uid),
        error=error,
        retry=retry,
        skip=skip,
        skip_dependents=skip_dependents,
        release=release,
        actor=actor,
    )
    blocked = [uid for uid, because in moved.execution.blocked.items() if moved.step.uid in because]
    fields = {
        "blocked": moved.plan.list_numbers(blocked),
        "skipped": moved.plan.list_numbers(moved.skipped),
        "retries_left": moved.state.retries_left,
    }
    return _step_reply(call, moved, fields)


def _step_reply(call: Call, moved: "StepUpdate", more: Mapping[str, Any], *, with_criteria: bool = False) -> Reply:
    """Return what became of a step, and what to do next; for programs all about it, and the progress of the plan."""
    plan, step, execution = moved.plan, moved.step, moved.execution
    row: dict[str, Any] = {"step_number": plan.step_numbers()[step.uid], "status": moved.state.status}
    if not call.is_brief:
        row = execution.serialize(plan)["steps"][row["step_number"] - 1]
    if with_criteria or not call.is_brief:
        row |= {"title": step.title, "acceptance_criteria": list(step.acceptance_criteria), "checks": list(step.checks)}
    progress = brief_progress(plan, execution)
    fields = {
        "plan_id": plan.id,
        "step": drop_empty(row),
        "unlocked": plan.list_numbers(moved.unlocked),
        "warnings": list(moved.warnings),
        **{name: progress[name] for name in ("plan_status", "damage", "done", "next") if name in progress},
        "progress": None if call.is_brief else execution.serialize(plan, with_steps=False),
        **more,
    }
    return format_reply(fields, ("unlocked", "unexpected_files", "missing_files", "blocked", "skipped"))


@tool(touches="nothing")
def view_progress(
    engine: "Engine",
    plan_id: Annotated[str, PLAN_ID],
    *,
    include_steps: Annotated[bool, BooleanArg("Every step, and all figures.")] = False,
    format: Format = "",  # noqa: A002 - the name in other tools
) -> Reply:
    """Show how far a plan is: steps ready, running, blocked, next."""
    now = engine.plans.steps.read_state(plan_id)
    if not include_steps:
        progress = brief_progress(now.plan, now.execution) | {"plan_status": now.status}
        return format_reply({"plan_id": now.plan.id, **progress})
    if format == "text":
        return cut_lines(render_progress(now.plan, now.execution), engine.settings.result_chars_max)
    fields = now.execution.serialize(now.plan)
    steps = fields.pop("steps")
    room = engine.settings.result_chars_max - reply_size(compact_json(fields))
    fields["steps"] = take_fitting_rows(steps, chars_max=room)
    if len(fields["steps"]) < len(steps):
        fields["warnings"] = [f"{len(fields['steps'])} of {len(steps)} steps are shown"]
    return format_reply(fields, kept=tuple(fields))


# -- work packets -----------------------------------------------------------------------------------------------------


def packet_rows(
    engine: "Engine", plan: "Plan", execution: "Execution", steps: "Iterable[PlanStep]"
) -> list[dict[str, Any]]:
    """Return a packet for each of these steps, within its token budget."""
    from context_engine.plans import build_packet

    code = engine.plans.sources().code
    return [msgspec.to_builtins(build_packet(plan, step, code, execution.steps[step.uid].status)) for step in steps]


# -- changes ----------------------------------------------------------------------------------------------------------

LEVELS = ("none", "syntax", "lint", "tests")
CHANGE_EXAMPLE = 'Write {"path": "src/a.py", "change_type": "modify", "edits": [{"old": "x", "new": "y"}]}.'
NEW_TEXTS = {
    "create": ("content",),
    "modify": ("content", "diff", "edits"),
    "delete": ("",),
    "rename": ("", "content", "diff", "edits"),
}
"""Fields that give the new text of a file, by the type of the change; "" where none is needed."""
CHANGE_TYPES = tuple(NEW_TEXTS)
CHANGE_FIELDS: Mapping[str, ArgumentType] = {
    "path": TextArg("", 1),
    "change_type": ChoiceArg("", CHANGE_TYPES),
    "content": ContentArg(""),
    "diff": ContentArg(""),
    "edits": EditListArg(""),
    "new_path": TextArg(""),
    "base_sha": TextArg(""),
}


@dataclass(frozen=True, slots=True)
class FileChanges(ObjectListArg):
    """Changes of files, each with one field for its new text."""

    def schema(self) -> dict[str, Any]:
        """Include the fields."""
        text = {"type": "string"}
        edit = {"type": "object", "properties": {"old": text, "new": text}}
        others = {"change_type": text | {"enum": list(CHANGE_TYPES)}, "edits": {"type": "array", "items": edit}}
        known = dict.fromkeys(CHANGE_FIELDS, text) | others
        return {"type": "array", "items": {"type": "object", "properties": known, "required": ["path", "change_type"]}}

    def read(self, name: str, value: Any) -> tuple[dict[str, Any], ...]:
        """Return a list; accept JSON in a text, or a single change."""
        changes = []
        for number, row in enumerate(read_objects(name, value or [], 100, CHANGE_EXAMPLE), 1):
            entry = name_entry(name, number)
            read = read_typed(entry, row, CHANGE_FIELDS)
            if "path" not in read:
                raise argument_error(name_field(entry, "path"), "is missing", CHANGE_EXAMPLE)
            changes.append(read)
        return tuple(changes)


def _plan_change(edits: "EditService", change: Mapping[str, Any]) -> "tuple[FileEdit, ...]":
    """Return a change in the terms of the editing engine.

    Raises: InvalidArgument for too few or contradictory fields, and for a rename what reading the file raises.
    """
    path, kind, base = change["path"], change.get("change_type", "modify"), change.get("base_sha", "")
    given = [name for name in ("content", "diff", "edits") if name in change and (change[name] or name == "content")]
    needs = NEW_TEXTS[kind]
    if len(given) > 1 or (given or [""])[0] not in needs:
        why = f"it gives {' and '.join(given) or 'nothing'} as the new text"
        advice = f"Send {' or '.join(name or 'nothing' for name in needs)}."
        raise _contradictory_change(path, kind, why, advice)
    if bool(change.get("new_path")) != (kind == "rename"):
        advice = 'Send {"change_type": "rename", "new_path": "..."} or neither.'
        raise _contradictory_change(path, kind, "new_path and rename go together", advice)
    if kind == "create":
        return (edits.change_whole(path, change["content"], overwrite=False),)
    if kind == "delete":
        return (edits.delete_file(path, expected_hash=base),)
    inner = None
    if given == ["content"]:
        inner = replace(edits.change_whole(path, change["content"], expected_hash=base), creates=False)
    elif given == ["diff"]:
        inner = edits.change_by_diff(path, change["diff"], expected_hash=base)
    elif given:
        inner = edits.change_parts(path, change["edits"], expected_hash=base)
    if kind == "rename":
        gone, made = edits.move_file(path, change["new_path"], inner)
        return replace(gone, expected_hash=base or gone.expected_hash), made
    return (inner,) if inner else ()


def _contradictory_change(path: str, kind: str, why: str, advice: str) -> InvalidArgument:
    return InvalidArgument(
        f"the {kind} of {path} is contradictory: {why}; nothing was written",
        suggestion=advice,
        details={"path": path, "change_type": kind},
    )


class _PlanState(NamedTuple):
    """A plan and its progress; only the steps of a saved plan can be started and completed."""

    plan: "Plan"
    execution: "Execution"
    is_saved: bool
    warnings: tuple[str, ...] = ()


@tool(touches="files")
def execute_plan(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, TextArg("Id or name.")] = "",
    step_number: Annotated[int, IntegerArg("This one.", 0, 100_000), "step"] = 0,
    changes: Annotated[Any, FileChanges("{path, change_type, content|diff|edits, new_path}")] = (),
    apply_changes: Annotated[bool, BooleanArg("Write them.")] = False,
    *,
    mode: Annotated[str, ChoiceArg("Which steps.", ("single_step", "all_ready", "full_plan"))] = "single_step",
    plan: Annotated[Any, PlanArgument("Instead of plan_id.")] = None,
    max_steps: Annotated[int, IntegerArg("Maximum packets.", 1, 20)] = 5,
    verify: Annotated[str, ChoiceArg("How far to look.", LEVELS)] = "syntax",
    stop_on_failure: Annotated[bool, BooleanArg("No further packets when a check fails.")] = True,
    additional_context: Annotated[str, TextArg("For a model, if one is asked.", 0, 10_000)] = "",
    assist: Annotated[str, ChoiceArg("Who may write the changes: a model, you (host), nobody.", ASSIST_MODES)] = "auto",
    strict: Annotated[bool, BooleanArg("Refuse files that the step does not name.")] = False,
) -> Reply:
    """Carry out a plan: read work packets of ready steps, then send changes to preview, apply and verify."""
    state = _load_state(engine, plan, plan_id)
    if apply_changes and not state.is_saved:
        raise InvalidArgument(
            "changes are applied to steps of a plan that is kept",
            next_steps=(NextStep("save_plan", "first"), NextStep("execute_plan", "with its plan_id")),
        )
    reply: dict[str, Any] = {"ok": True, "plan_id": state.plan.id}
    improved = SecondPassResult()
    if not changes and step_number and assist != "off":
        changes, improved = _changes_by_model(engine, call, state, step_number, assist, additional_context)
    done: ExecutionResult | None = None
    if changes:
        step, executor = _target_step(state, step_number), engine.plans.executor
        planned = [edit for change in changes for edit in _plan_change(engine.edits, change)]
        if apply_changes:
            checks: dict[str, Any] = {"level": verify, "strict": strict, "session": call.session, "cancel": call.cancel}
            done = executor.apply(step, planned, state.plan.id, state=state.execution.steps[step.uid], **checks)
        else:
            done = executor.preview(step, planned, strict=strict)
        reply |= {"ok": done.verified.passed, "results": [_result_row(state.plan, done, apply_changes)]}
        reply |= drop_empty({"backup_id": done.backup_id})
        state = _load_state(engine, plan, plan_id)
    steps: Sequence[PlanStep] = ()
    if done is None or (mode != "single_step" and (done.verified.passed or not stop_on_failure)):
        steps = _choose_steps(state, mode, 0 if done else step_number)[:max_steps]
    warnings = [*state.warnings, *(done.warnings if done else ()), *improved.warnings]
    reply["packets"] = packet_rows(engine, state.plan, state.execution, steps)
    reply["plan_status"] = state.execution.status
    if not call.is_brief:
        reply["progress"] = state.execution.serialize(state.plan, with_steps=False)
    way_on = choose_next(improved, assist, describe_next(state.plan, state.execution))
    reply |= drop_empty({"next": way_on, "warnings": warnings})
    if not call.is_brief:
        reply["meta"] = drop_empty({"assist_used": improved.used, "model": count_model_tokens(improved)})
    return Reply(_shorten_reply(reply, engine.settings.result_chars_max))


def _shorten_reply(reply: dict[str, Any], chars_max: int) -> str:
    """Return the reply; of a long one the diffs are left out, then the last packets, which can be asked for."""
    for result in reply.get("results", ()):
        for change in sorted(result.get("would_apply", ()), key=lambda change: -len(change.get("diff", ""))):
            if reply_size(compact_json(reply)) > chars_max - NOTE_CHARS:
                change["diff"] = "left out: it has no room here"
    return compact_json(fit_rows(reply, chars_max))


def _load_state(engine: "Engine", plan: Any, plan_id: str) -> _PlanState:
    """Load the plan and its progress, saved or passed along; a plan that only the caller has is without progress.

    Raises: InvalidArgument, PlanNotFound, Cycle, DanglingDependency.
    """
    from context_engine.plans import fold_progress, parse_plan, validate_plan

    if bool(plan_id.strip()) == (plan is not None):
        raise InvalidArgument(
            "plan_id or plan: one of the two is needed", next_steps=NextStep("list_plans", "to see the saved plans")
        )
    if plan_id.strip():
        loaded = engine.plans.repository.load(plan_id)
        execution = loaded.execution or fold_progress(loaded.plan, ())
        return _PlanState(loaded.plan, execution, True, loaded.warnings)
    sent = parse_plan(plan).plan
    if sent.id:
        with suppress(PlanNotFound):
            return _load_state(engine, None, sent.id)
    checked = validate_plan(sent, engine.plans.paths)
    checked.raise_fatal_errors()
    return _PlanState(checked.plan, fold_progress(checked.plan, ()), False)


def _target_step(state: _PlanState, number: int) -> "PlanStep":
    """Return the step for the changes: the named one, else the only one in progress, else the next.

    Raises: InvalidArgument.
    """
    if number:
        return state.plan.find_step(number)
    current = state.execution.current or (state.execution.next,)
    if len(current) != 1 or not current[0]:
        raise InvalidArgument(
            "it is not clear which step the changes are for",
            suggestion="Pass step_number.",
            next_steps=NextStep("view_progress", "to see the steps"),
        )
    return state.plan.find_step(current[0])


def _changes_by_model(
    engine: "Engine", call: Call, state: _PlanState, number: int, assist: str, context: str
) -> tuple[Sequence[Mapping[str, Any]], SecondPassResult]:
    """Return the changes that a model makes for a named step; or how the caller passes its own."""
    from context_engine.context import SecondPass
    from context_engine.plans import build_packet

    made = build_packet(state.plan, _target_step(state, number), engine.plans.sources().code)
    arguments: dict[str, Any] = {"plan_id": state.plan.id, "step_number": number}
    kinds = FileChanges("")
    schema = {"type": "object", "required": ["changes"], "properties": {"changes": kinds.schema()}}
    second = SecondPass("execute_plan", made.brief(context), schema, arguments, "changes", is_stored=False)
    improved = engine.second_pass.run(second, assist, cancel=call.cancel)
    return () if improved.draft is None else kinds.read("changes", improved.draft["changes"]), improved


def _choose_steps(state: _PlanState, mode: str, number: int) -> "list[PlanStep]":
    """Return the steps for packets: the named one, the next one, all ready ones, or all that are left, in order."""
    if number:
        return [state.plan.find_step(number)]
    if mode == "single_step":
        uids: Sequence[str] = [state.execution.next or next(iter(state.execution.current), "")]
    else:
        uids = state.execution.ready if mode == "all_ready" else state.execution.remaining
    return [state.plan.find_step(uid) for uid in uids if uid]


def _result_row(plan: "Plan", done: "ExecutionResult", is_applied: bool) -> dict[str, Any]:
    """Return the result of the changes of one step."""
    failed = [check for check in done.verified.checks if check.passed is False]
    error = "; ".join(f"{f'{check.kind} {check.name}'.strip()}: {check.says}" for check in failed)
    if error:
        error += f" - the changes are written; undo_edit with undo_id {done.backup_id} takes them back"
    row: dict[str, Any] = {"step_number": plan.step_numbers()[done.step.uid], "success": done.verified.passed}
    row |= {"is_preview": not is_applied, "completed": done.completed}
    row["applied" if is_applied else "would_apply"] = [
        drop_empty(change._asdict() | ({"diff": ""} if is_applied else {})) for change in done.applied
    ]
    checks = [drop_empty(check._asdict()) | {"passed": check.passed} for check in done.verified.checks]
    return row | drop_empty({"verification": checks, "remaining_files": list(done.remaining), "error": error})
