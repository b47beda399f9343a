"""Tools that make plans and carry them out: a plan out of the repository alone, work packets, and changes applied step by step."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, cast

from context_engine.context.refinement import ASSISTS, Climbed
from context_engine.errors import CallError, InvalidArgument, NextStep, PlanNotFound
from context_engine.model import Filter
from context_engine.tools.arguments import (
    ArgumentType,
    BooleanArg,
    ChoiceArg,
    IntegerArg,
    TextArg,
    TextListArg,
    argument_error,
)
from context_engine.tools.context_tools import count_model_tokens
from context_engine.tools.edit_arguments import ContentArg, EditListArg, read_fields, read_objects
from context_engine.tools.plan_step_tools import packet_rows
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import NOTE_CHARS, compact_json, drop_empty, reply_size

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.plans.model import Plan, PlanStep
    from context_engine.plans.plan_creation import CreationResult, SaveOptions
    from context_engine.plans.plan_events import Execution
    from context_engine.plans.plan_execution import ExecutionResult, FileChange

FILES_MAX = 30
STEPS_MAX = 20
"""Likely files of a plan and packets of a reply, at most: what the contract allows."""
MODES = ("single_step", "all_ready", "full_plan")
LEVELS = ("none", "syntax", "lint", "tests")
CHANGE_EXAMPLE = 'Write {"path": "src/a.py", "change_type": "modify", "edits": [{"old": "x", "new": "y"}]}.'
CHANGE_TYPES = ("create", "modify", "delete", "rename")
CHANGES_MAX = 100
"""Of one call, as many as edit_file takes."""
PROOFS_SHOWN = 6
"""Of each step of a plan that would be too long to be sent whole."""


@dataclass(frozen=True, slots=True)
class Document(ArgumentType):
    """A plan or a draft: an object, or JSON in a text. The parser reports what is wrong in it."""

    json_type: ClassVar[str] = "object"
    description: str

    def read(self, name: str, value: Any) -> Any:
        """Return the value unchanged; a text must contain JSON."""
        if isinstance(value, str) and not value.strip():
            return None
        if not isinstance(value, str | Mapping):
            raise argument_error(
                name, "must be an object, or JSON in a text", f'Write {name}: {{"goal": "...", "steps": [...]}}.'
            )
        return value


@dataclass(frozen=True, slots=True)
class FileChanges(ArgumentType):
    """Changes of files, each with one field for its new text."""

    json_type: ClassVar[str] = "array"
    description: str

    def schema(self) -> dict[str, Any]:
        """Return the schema without fields, which the description names: clients pay for every word in each request."""
        return {"type": "array", "items": {"type": "object"}}

    def fields(self) -> dict[str, Any]:
        """Return the schema with fields, for a model that writes changes."""
        text = {"type": "string"}
        known: dict[str, Any] = dict.fromkeys(("path", "content", "diff", "new_path", "base_sha"), text)
        known["change_type"] = {"type": "string", "enum": list(CHANGE_TYPES)}
        edit = {"type": "object", "properties": {"old": text, "new": text}}
        known["edits"] = {"type": "array", "items": edit}
        return {"type": "array", "items": {"type": "object", "properties": known, "required": ["path", "change_type"]}}

    def read(self, name: str, value: Any) -> "tuple[FileChange, ...]":
        """Return a list; accept JSON in a text, or a single change."""
        if value in ([], (), ""):
            return ()
        rows = read_objects(name, value, CHANGES_MAX, CHANGE_EXAMPLE)
        return tuple(self._change(f"{name}[{number}]", row) for number, row in enumerate(rows, 1))

    def _change(self, name: str, value: Mapping[str, Any]) -> "FileChange":
        from context_engine.plans.plan_execution import (
            FileChange,  # it brings the editing engine, which lists do not need
        )

        given = read_fields(name, value, ("path", "change_type", "content", "diff", "edits", "new_path", "base_sha"))
        kinds: Mapping[str, ArgumentType] = {
            "path": TextArg("", 1),
            "change_type": ChoiceArg("", CHANGE_TYPES),
            "content": ContentArg(""),
            "diff": ContentArg(""),
            "edits": EditListArg(""),
            "new_path": TextArg(""),
            "base_sha": TextArg(""),
        }
        if "path" not in given:
            raise argument_error(f"{name}.path", "is missing", CHANGE_EXAMPLE)
        read: dict[str, Any] = {key: kinds[key].read(f"{name}.{key}", part) for key, part in given.items()}
        return FileChange(
            read["path"],
            read.get("change_type", "modify"),
            read.get("content"),
            read.get("diff", ""),
            read.get("edits", ()),
            read.get("new_path", ""),
            read.get("base_sha", ""),
        )


@tool(
    touches="records",
    rare=(
        *("max_context_files", "generate_diagrams", "mvp_only", "context_token_budget", "auto_scope", "include_paths"),
        *("exclude_paths", "auto_save", "save_name", "save_tags", "assist", "strict", "submission_id", "format"),
    ),
)
def create_plan(
    engine: "Engine",
    call: Call,
    task: Annotated[str, TextArg("What to do.", 5, 10_000)],
    max_context_files: Annotated[int, IntegerArg("Likely files.", 1, FILES_MAX)] = 8,
    generate_diagrams: Annotated[bool, BooleanArg("Add Mermaid.")] = False,
    draft: Annotated[Any, Document("Your version.")] = None,
    plan_id: Annotated[str, TextArg("Which it replaces.")] = "",
    mvp_only: Annotated[bool, BooleanArg("Only what has to be done.")] = False,
    context_token_budget: Annotated[int, IntegerArg("Most tokens of the brief in next.", 200, 100_000)] = 8_000,
    auto_scope: Annotated[bool, BooleanArg("Say which folders it is about.")] = True,
    include_paths: Annotated[tuple[str, ...], TextListArg("Only these: globs.")] = (),
    exclude_paths: Annotated[tuple[str, ...], TextListArg("Not these: globs.")] = (),
    auto_save: Annotated[bool, BooleanArg("Keep it.")] = True,
    save_name: Annotated[str, TextArg("Its name.", 0, 120)] = "",
    save_tags: Annotated[tuple[str, ...], TextListArg("Its tags.")] = (),
    assist: Annotated[str, ChoiceArg("Who may improve it: a model, you (host), nobody.", ASSISTS)] = "auto",
    strict: Annotated[bool, BooleanArg("Refuse dangling dependencies of a draft.")] = True,
    submission_id: Annotated[str, TextArg("As next says it.", 0, 80)] = "",
    format: Annotated[str, ChoiceArg("Of the reply.", ("json", "markdown"))] = "json",  # noqa: A002 - the word that callers know
) -> Reply:
    """Plan a task: find its files, tests, risks and questions in this repository, as steps in order."""
    from context_engine.plans.plan_creation import SaveOptions

    began = time.perf_counter()
    saving = SaveOptions(auto_save, save_name, save_tags or None, plan_id, submission_id)
    if draft is not None:
        made = engine.plans.factory.accept_draft(draft, saving, provenance="host", strict=strict, task=task)
        return _plan_reply(engine, made, Climbed("none"), began, "host", format)
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
    return _plan_reply(engine, made, climbed, began, climbed.used, format)


def _plan_request(task: str, files: int, chosen: Filter, mvp_only: bool, diagrams: bool, scoped: bool) -> Any:
    from context_engine.plans.changeset import PlanRequest

    return PlanRequest(task, files, chosen, mvp_only=mvp_only, with_diagrams=diagrams, with_scope=scoped)


def _refine_by_model(
    engine: "Engine", call: Call, made: "CreationResult", saving: "SaveOptions", assist: str, tokens: int
) -> "tuple[CreationResult, Climbed]":
    """Return the plan as a model improved it, if one is available and its plan is true.

    Else the next call of the caller.
    """
    from dataclasses import replace

    from context_engine.plans.plan_creation import creation_prompt, first_errors
    from context_engine.plans.plan_json import draft_schema

    second = creation_prompt(made, draft_schema(), tokens)
    again = replace(saving, plan_id=made.plan.id if made.saved else "", submission_id=second.submission_id)
    tried = replace(again, auto=False)

    def check(draft: Any) -> str:
        try:
            return first_errors(
                engine.plans.factory.accept_draft(draft, tried, provenance="model", task=made.plan.task)
            )
        except CallError as error:
            return error.message

    climbed = engine.ladder.climb(second, assist, check=check, cancel=call.cancel)
    if climbed.draft is None:
        return made, climbed
    try:
        better = engine.plans.factory.accept_draft(climbed.draft, again, provenance="model", task=made.plan.task)
    except CallError as error:  # another draft was accepted meanwhile
        warnings = (*climbed.warnings, f"the model's plan was not kept: {error.message}")
        return made, replace(climbed, used="none", draft=None, warnings=warnings)
    return replace(better, base=made.base), climbed


def _plan_reply(
    engine: "Engine", made: "CreationResult", climbed: Climbed, began: float, used: str, shape: str
) -> Reply:
    """Return the reply for a plan."""
    from context_engine.plans.plan_markdown import render_plan

    warnings = [*made.warnings, *climbed.warnings]
    if shape == "markdown":
        return Reply("\n\n".join([render_plan(made.plan), *(f"warning: {warning}" for warning in warnings)]))
    reply: dict[str, Any] = {"ok": made.status != "draft_rejected", "status": made.status, "plan": {}}
    reply |= {"validation": made.checked.serialize(), "persistence": _persistence_row(made)}
    reply |= drop_empty(
        {
            "planning_context": _context_row(made),
            "rejected": [{"place": rejection.place, "reason": rejection.reason} for rejection in made.rejected],
            "next": climbed.next,
            "warnings": warnings,
        }
    )
    ms = round((time.perf_counter() - began) * 1_000)
    meta = {"tool": "create_plan", "ms": ms, "assist_used": used, "model": count_model_tokens(climbed)}
    reply["meta"] = drop_empty(meta | {"index_freshness": made.base.change.freshness if made.base else ""})
    room = engine.settings.result_chars_max - NOTE_CHARS - reply_size(compact_json(reply))
    return Reply(compact_json(reply | {"plan": _fit_created_plan(made.plan, room)}))


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
    from context_engine.plans.plan_json import serialize_plan

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


class _PlanStanding(NamedTuple):
    """A plan and its progress; `is_kept` says whether its steps can be moved."""

    plan: "Plan"
    execution: "Execution"
    is_kept: bool
    warnings: tuple[str, ...] = ()


@tool(
    touches="files",
    rare=("mode", "plan", "max_steps", "verify", "stop_on_failure", "additional_context", "assist", "strict"),
)
def execute_plan(
    engine: "Engine",
    call: Call,
    plan_id: Annotated[str, TextArg("Id or name.")] = "",
    mode: Annotated[str, ChoiceArg("Which steps.", MODES)] = "single_step",
    step_number: Annotated[int, IntegerArg("This one.", 0, 100_000)] = 0,
    changes: Annotated[Any, FileChanges("{path, change_type, content|diff|edits, new_path}")] = (),
    apply_changes: Annotated[bool, BooleanArg("Write them.")] = False,
    plan: Annotated[Any, Document("Instead of plan_id.")] = None,
    max_steps: Annotated[int, IntegerArg("Most packets.", 1, STEPS_MAX)] = 5,
    verify: Annotated[str, ChoiceArg("How far to look.", LEVELS)] = "syntax",
    stop_on_failure: Annotated[bool, BooleanArg("No further packets when a check fails.")] = True,
    additional_context: Annotated[str, TextArg("For a model, if one is asked.", 0, 10_000)] = "",
    assist: Annotated[str, ChoiceArg("Who may write the changes: a model, you (host), nobody.", ASSISTS)] = "auto",
    strict: Annotated[bool, BooleanArg("Refuse files that the step does not name.")] = False,
) -> Reply:
    """Carry out a plan: read work packets of ready steps, then send changes to preview, apply and verify."""
    began = time.perf_counter()
    stand = _load_standing(engine, plan, plan_id)
    if apply_changes and not stand.is_kept:
        raise InvalidArgument(
            "changes are applied to steps of a plan that is kept",
            next_steps=(NextStep("save_plan", "first"), NextStep("execute_plan", "with its plan_id")),
        )
    reply: dict[str, Any] = {"ok": True, "plan_id": stand.plan.id}
    climbed = Climbed()
    if not changes:
        changes, climbed = _changes_by_model(engine, call, stand, step_number, assist, additional_context)
    done = (
        _execute_changes(engine, call, stand, step_number, changes, apply_changes, verify, strict) if changes else None
    )
    if done is not None:
        reply |= {
            "results": [_result_row(stand.plan, done, apply_changes)],
            **drop_empty({"backup_id": done.backup_id}),
        }
        reply["ok"] = done.verified.passed
        stand = _load_standing(engine, plan, plan_id)
    goes_on = done is None or (mode != "single_step" and (done.verified.passed or not stop_on_failure))
    steps = _choose_steps(stand, mode, 0 if done else step_number)[:max_steps] if goes_on else []
    packets = packet_rows(engine, stand.plan, stand.execution, steps)
    warnings = [*stand.warnings, *(done.warnings if done else ()), *climbed.warnings]
    reply |= {"packets": packets, **_progress_row(stand)}
    reply |= drop_empty({"next": climbed.next, "warnings": warnings})
    ms = round((time.perf_counter() - began) * 1_000)
    meta = {"tool": "execute_plan", "ms": ms, "assist_used": climbed.used}
    reply["meta"] = meta | drop_empty({"model": count_model_tokens(climbed)})
    return Reply(_shorten_reply(reply, engine.settings.result_chars_max))


def _load_standing(engine: "Engine", plan: Any, plan_id: str) -> _PlanStanding:
    """Load the plan and its progress, saved or passed along. Raises: InvalidArgument, PlanNotFound."""
    from context_engine.plans.plan_events import fold_progress
    from context_engine.plans.plan_json import parse_plan

    if bool(plan_id.strip()) == (plan is not None):
        raise InvalidArgument(
            "plan_id or plan: one of the two is needed", next_steps=NextStep("list_plans", "to see the saved plans")
        )
    if plan_id.strip():
        loaded = engine.plans.repository.load(plan_id)
        execution = loaded.execution or fold_progress(loaded.plan, (), now=0.0)
        return _PlanStanding(loaded.plan, execution, True, loaded.warnings)
    sent = parse_plan(plan).plan
    try:
        return _load_standing(engine, None, sent.id) if sent.id else _unsaved_standing(sent, engine)
    except PlanNotFound:
        return _unsaved_standing(sent, engine)


def _unsaved_standing(plan: "Plan", engine: "Engine") -> _PlanStanding:
    """Return a plan that only the caller has, without progress. Raises: Cycle, DanglingDependency."""
    from context_engine.plans.plan_events import fold_progress
    from context_engine.plans.plan_validation import raise_fatal_errors, validate_plan

    checked = validate_plan(plan, engine.plans.paths)
    raise_fatal_errors(checked)
    return _PlanStanding(checked.plan, fold_progress(checked.plan, (), now=0.0), False)


def _target_step(stand: _PlanStanding, number: int) -> "PlanStep":
    """Return the step for the changes: the named one, else the only one in progress, else the next.

    Raises: InvalidArgument.
    """
    from context_engine.plans.model import find_step

    if number:
        return find_step(stand.plan, number)
    current = stand.execution.current or (stand.execution.next,)
    if len(current) != 1 or not current[0]:
        raise InvalidArgument(
            "it is not clear which step the changes are for",
            suggestion="Pass step_number.",
            next_steps=NextStep("view_progress", "to see the steps"),
        )
    return find_step(stand.plan, current[0])


def _execute_changes(
    engine: "Engine",
    call: Call,
    stand: _PlanStanding,
    number: int,
    changes: "Sequence[FileChange]",
    is_applied: bool,
    verify: str,
    strict: bool,
) -> "ExecutionResult":
    """Preview or write the changes."""
    step, executing = _target_step(stand, number), engine.plans.executor
    if not is_applied:
        return executing.preview(step, changes, strict=strict)
    return executing.apply(
        stand.plan,
        stand.execution,
        step,
        changes,
        level=cast("Any", verify),
        strict=strict,
        session=call.session,
        cancel=call.cancel,
    )


def _changes_by_model(
    engine: "Engine", call: Call, stand: _PlanStanding, number: int, assist: str, context: str
) -> "tuple[Sequence[FileChange], Climbed]":
    """Return the changes that a model makes for a named step; or how the caller passes its own."""
    from context_engine.context.refinement import SecondPass
    from context_engine.context.refinement_prompt import brief
    from context_engine.plans.work_packets import build_packet

    if not number or assist == "off":
        return (), Climbed()
    from context_engine.plans.work_packets import STEP_TASK, step_prompt_parts

    made = build_packet(
        stand.plan, _target_step(stand, number), engine.plans.sources().code, engine.memory.team().count
    )
    arguments: dict[str, Any] = {"plan_id": stand.plan.id, "step_number": number}
    kinds = FileChanges("").fields()
    schema = {"type": "object", "required": ["changes"], "properties": {"changes": kinds}}
    second = SecondPass(
        "execute_plan",
        brief(STEP_TASK, step_prompt_parts(made, context)),
        schema,
        arguments,
        "changes",
        is_stored=False,
    )
    climbed = engine.ladder.climb(second, assist, cancel=call.cancel)
    if climbed.draft is None:
        return (), climbed
    return FileChanges("").read("changes", climbed.draft["changes"]), climbed


def _choose_steps(stand: _PlanStanding, mode: str, number: int) -> "list[PlanStep]":
    """Return the steps for packets: the named one, the next one, all ready ones, or all that are left, in their order."""
    from context_engine.plans.dependency_graph import build_graph
    from context_engine.plans.model import find_step
    from context_engine.plans.plan_events import DONE

    if number:
        return [find_step(stand.plan, number)]
    if mode == "single_step":
        uids: Sequence[str] = [stand.execution.next or next(iter(stand.execution.current), "")]
    elif mode == "all_ready":
        uids = stand.execution.ready
    else:
        uids = [uid for uid in build_graph(stand.plan).order if stand.execution.steps[uid].status not in DONE]
    return [find_step(stand.plan, uid) for uid in uids if uid]


# -- replies ----------------------------------------------------------------------------------------------------------


def _result_row(plan: "Plan", done: "ExecutionResult", is_applied: bool) -> dict[str, Any]:
    """Return the result of the changes of one step."""
    from context_engine.plans.model import step_numbers

    checks = [drop_empty(check._asdict()) | {"passed": check.passed} for check in done.verified.checks]
    failed = [
        f"{f'{check.kind} {check.name}'.strip()}: {check.says}"
        for check in done.verified.checks
        if check.passed is False
    ]
    row: dict[str, Any] = {"step_number": step_numbers(plan)[done.step.uid], "success": done.verified.passed}
    row |= {"is_preview": not is_applied, "completed": done.completed}
    row["applied" if is_applied else "would_apply"] = [
        drop_empty(
            {
                "path": applied_change.path,
                "before_sha": applied_change.before_sha,
                "after_sha": applied_change.after_sha,
                "added": applied_change.added,
                "removed": applied_change.removed,
                "diff": applied_change.diff if not is_applied else "",
            }
        )
        for applied_change in done.applied
    ]
    error = "; ".join(failed)
    if error:
        error += f" - the changes are written; undo_edit with undo_id {done.backup_id} takes them back"
    return row | drop_empty({"verification": checks, "remaining_files": list(done.remaining), "error": error})


def _progress_row(stand: _PlanStanding) -> dict[str, Any]:
    """Return the progress of the plan."""
    from context_engine.plans.model import step_numbers
    from context_engine.plans.plan_execution import ready_numbers

    number, execution = step_numbers(stand.plan), stand.execution
    row = {"status": execution.status, "percentage": execution.percentage, "counts": dict(execution.counts)}
    row["current_steps"] = sorted(number[uid] for uid in execution.current)
    return {"next_ready_steps": list(ready_numbers(stand.plan, execution)), "progress": row}


def _shorten_reply(reply: dict[str, Any], chars_max: int) -> str:
    """Return the reply; of a long one the last packets are left out and named, then the longest diffs."""
    left_out: list[int] = []
    while reply_size(compact_json(reply)) > chars_max - NOTE_CHARS and reply["packets"]:
        left_out.insert(0, reply["packets"].pop()["step"])
    if left_out:
        warning = f"no room for the packets of steps {', '.join(map(str, left_out))}: ask for each by step_number"
        reply["warnings"] = [*reply.get("warnings", []), warning]
    for result in reply.get("results", ()):
        for row in sorted(result.get("would_apply", ()), key=lambda row: -len(row.get("diff", ""))):
            if reply_size(compact_json(reply)) > chars_max - NOTE_CHARS:
                row["diff"] = "left out: it has no room here"
    return compact_json(reply)
