"""PURE. Plans as JSON: parse what callers send, serialize what tools reply, and seal what version files contain.

    serialize_plan(plan)                                the JSON of replies: with numbers, `blocks` and the graph
    parse_plan(serialize_plan(plan)).plan == plan

Input may be loose: steps without uids, step numbers as dependencies, one text instead of a list. Input that has no
clear meaning is refused with the path of the field. Dangling dependencies are kept here, and reported by
`plan_validation`.

A version file has a seal, a hash of all its other values: it shows any later change, whatever the layout and the line
ends.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from context_engine.errors import InvalidArgument, InvalidPlan, TooLarge
from context_engine.plans import model
from context_engine.plans.dependency_graph import StepGraph, build_graph, find_parallel, serialize_graph
from context_engine.plans.model import (
    NUMBER_DIGITS,
    Milestone,
    Plan,
    PlanQuestion,
    PlanStep,
    format_effort,
)
from context_engine.plans.plan_events import PlanEvent
from context_engine.text import suggest_nearest

StructType = TypeVar("StructType", bound=msgspec.Struct)

BYTES_MAX = 2_000_000
"""Of a plan as JSON: the limit in the contract of the tools."""
STEPS_MAX = 2_000
"""Twice the size of the largest required plan; with more, diagrams are unreadable, and relations grow quadratically."""
SHOWN_UNKNOWN_MAX = 10

_UID = re.compile(r"s([1-9][0-9]{0,8})")
_AT = re.compile(r" - at `\$(.*)`\Z", re.DOTALL)
_LISTS = frozenset(
    "files_to_modify files_to_create files_to_delete acceptance_criteria checks included excluded assumptions "
    "constraints mvp_features nice_to_have_features patterns_used candidates open_feedback depends_on blocks "
    "can_parallel_with steps_included".split()
)
"""Lists of texts; a single text counts as a list of one."""
_REFERENCES = frozenset("depends_on blocks can_parallel_with steps_included".split())
_WORDS = frozenset("priority likelihood provenance".split())
_LINES = frozenset("title goal name uid".split())
"""Fields of one line: white space in them is one blank."""
_ALONE = {"risks": "issue", "milestones": "name", "steps": "title", "questions": "text"}
"""Lists of objects -> the field for a text in place of an object."""
_DERIVED = frozenset("step_number blocks can_parallel_with dependency_graph questions_for_clarification".split())
"""Fields that `serialize_plan` derives."""
_NESTED: Mapping[str, type[msgspec.Struct]] = {
    "scope": model.PlanScope,
    "architecture": model.PlanArchitecture,
    "diagrams": model.PlanDiagram,
    "risks": model.PlanRisk,
    "milestones": model.Milestone,
    "steps": model.PlanStep,
    "testing_strategy": model.TestingStrategy,
    "questions": model.PlanQuestion,
    "evidence": model.PlanEvidence,
}


class PlanFinding(NamedTuple):
    """A finding about a plan. `steps` are numbers, `path` is the file or field it is about."""

    code: str
    message: str
    suggestion: str = ""
    steps: tuple[int, ...] = ()
    path: str = ""


class ParsedPlan(NamedTuple):
    """A parsed plan, and what was left out or corrected."""

    plan: Plan
    remarks: tuple[PlanFinding, ...] = ()


def parse_plan(value: object, *, before: Plan | None = None) -> ParsedPlan:
    """Read a plan.

    `before` is the version that it replaces: a step without a uid that has the title of one of its steps is it.

    Raises: InvalidArgument (with `path` and `expected`), TooLarge, InvalidPlan (a uid or number given twice).
    """
    sent = _decode_object(value)
    loose = _relax_object(sent, "")
    plan = _convert_plan(loose)
    rows = loose.get("steps") or []
    refs, renumbered = _read_numbers(rows)
    plan = msgspec.structs.replace(plan, steps=tuple(map(_without_derived_effort, plan.steps)))
    plan = _with_questions(plan, loose.get("questions_for_clarification"))
    plan = _resolve_references(_assign_uids(plan, before), refs)
    remarks = [*_unknown_fields(loose, Plan, ""), *renumbered, *_overruled_blocks(plan, rows, refs)]
    return ParsedPlan(plan, tuple(remarks))


def parse_part(
    kind: type[StructType], sent: Mapping[str, Any], base: StructType | None = None, *, where: str = ""
) -> StructType:
    """Parse a part of a plan, such as a step or a risk, from some of its fields; the others are as in `base`.

    Raises: InvalidArgument, also for an unknown field.
    """
    known = kind.__struct_fields__
    for key in sent:
        if key not in known:
            raise InvalidArgument(
                f"{where}.{str(key)[:60]} is not a field",
                suggestion=suggest_nearest(str(key)[:60], known).strip() or f"It takes {', '.join(known)}.",
                details={"argument": where, "valid": known},
            )
    given = _relax_object(sent, "")
    before = {} if base is None else msgspec.to_builtins(base)
    try:
        return msgspec.convert(before | given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise conversion_error(error, where) from None


def normalize_plan(plan: Plan, before: Plan | None = None) -> Plan:
    """Normalize a plan: each step has a unique uid and sorted dependencies.

    Raises: InvalidPlan when two steps have the same uid.
    """
    return _resolve_references(_assign_uids(plan, before), range(1, len(plan.steps) + 1))


def _assign_uids(plan: Plan, before: Plan | None) -> Plan:
    """Assign a uid to each step without one. Raises: InvalidPlan."""
    old = before.steps if before else ()
    used_uids = [step.uid for step in plan.steps if step.uid]
    _check_unique(used_uids, "uid", [step.uid for step in plan.steps])
    # A step without a uid inherits that of the step with the same title, unless another step has it.
    free = {_title_key(step): step.uid for step in reversed(old) if step.uid not in set(used_uids)}
    counts = [int(match[1]) for uid in (*used_uids, *(step.uid for step in old)) if (match := _UID.fullmatch(uid))]
    # No uid is ever given twice, not even that of a step removed long ago.
    minted = max(plan.uids_minted, before.uids_minted if before else 0, *counts, 0)
    steps = []
    for step in plan.steps:
        uid = step.uid or free.pop(_title_key(step), "")
        if not uid:
            minted += 1
            uid = f"s{minted}"
        steps.append(msgspec.structs.replace(step, uid=uid))
    return msgspec.structs.replace(plan, steps=tuple(steps), uids_minted=minted)


def sort_uids(uids: Iterable[str]) -> tuple[str, ...]:
    """Return unique uids in an order that does not depend on the positions of steps.

    >>> sort_uids(["s10", "s2", "api", "s2"])
    ('s2', 'api', 's10')
    """
    return tuple(sorted(set(uids), key=lambda uid: (len(uid), uid)))


def draft_schema() -> dict[str, Any]:
    """Return the JSON schema for drafts by an agent or a model, without derived fields."""
    level = {"type": "string", "enum": list(model.LEVELS)}
    step = _object_schema(
        uid=_described_schema("string", "As it was; empty for a new step."),
        title=_described_schema("string", "An order, on one line."),
        description={"type": "string"},
        files_to_modify=_TEXTS,
        files_to_create=_TEXTS,
        files_to_delete=_TEXTS,
        depends_on={"type": "array", "items": {"type": "integer"}, "description": "Numbers of steps; the first is 1."},
        priority=level,
        estimated_effort=_described_schema("string", "Such as 2-4 hours."),
        acceptance_criteria=_TEXTS,
        checks={"type": "array", "items": {"type": "string"}, "description": "Commands."},
    )
    return _object_schema(
        goal={"type": "string"},
        steps={"type": "array", "items": step},
        mvp_features=_TEXTS,
        nice_to_have_features=_TEXTS,
        risks={
            "type": "array",
            "items": _object_schema(issue={"type": "string"}, mitigation={"type": "string"}, likelihood=level),
        },
        questions_for_clarification=_TEXTS,
        testing_strategy=_object_schema(
            unit={"type": "string"}, integration={"type": "string"}, coverage_target={"type": "string"}
        ),
    )


_TEXTS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}


def _described_schema(kind: str, says: str) -> dict[str, Any]:
    return {"type": kind, "description": says}


def _object_schema(**fields: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these fields, which an endpoint can enforce."""
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


# -- from loose input to an object ------------------------------------------------------------------------------


def _decode_object(value: object) -> Mapping[str, Any]:
    """Decode the object that was sent. Raises: InvalidArgument, TooLarge."""
    try:
        if isinstance(value, str | bytes):
            _check_size(len(value) if isinstance(value, bytes) else len(value.encode()))
            value = msgspec.json.decode(value)
        else:
            _check_size(len(msgspec.json.encode(value)))
    except UnicodeEncodeError:
        raise _invalid_field("", "contains half a character (a lone surrogate)", "whole characters") from None
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise _invalid_field("", f"is not valid JSON: {str(error)[:200]}", "a JSON object") from None
    if not isinstance(value, Mapping):
        names = {list: "a list", str: "a text", bool: "a flag", int: "a number", float: "a number"}
        raise _invalid_field("", f"must be an object, not {names.get(type(value), 'nothing')}", "object")
    return value


def _check_size(count: int) -> None:
    if count > BYTES_MAX:
        raise TooLarge(
            f"the plan has {count:,} bytes, at most {BYTES_MAX:,} are kept",
            suggestion="Say less in descriptions and evidence, or split the task into several plans.",
            details={"bytes": count, "bytes_max": BYTES_MAX},
        )


def _relax_object(sent: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the object with loose values converted; null values are dropped."""
    found: dict[str, Any] = {"id": ""} if where == "questions" else {}
    for key, value in sent.items():
        if value is not None and isinstance(key, str):
            found[key] = _relax_value(key, value, where)
    return found


def _relax_value(key: str, value: Any, where: str) -> Any:
    if key in _LISTS:
        return _relax_texts(key, value)
    if key in _ALONE and isinstance(value, Sequence) and not isinstance(value, str):
        rows = ({_ALONE[key]: row} if isinstance(row, str) else row for row in value)
        return [_relax_object(row, key) if isinstance(row, Mapping) else row for row in rows]
    if key in _NESTED and isinstance(value, Mapping):
        return _relax_object(value, key)
    if isinstance(value, str) and key in _WORDS:
        return value.strip().lower()
    if isinstance(value, str) and key in _LINES:
        return " ".join(value.split())
    if where == "testing_strategy" and _is_number(value):
        return f"{value:g}"
    return value


def _relax_texts(key: str, value: Any) -> Any:
    """Return a list of texts from one text or from numbers; blank items are dropped."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        rows = [value]
    else:
        rows = value
    if not isinstance(rows, Sequence):
        return rows
    if key in _REFERENCES:
        rows = [f"{row:g}" if _is_number(row) and abs(row) < 10**NUMBER_DIGITS else row for row in rows]
    return [row.strip() if isinstance(row, str) else row for row in rows if row != "" and row is not None]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _convert_plan(loose: Mapping[str, Any]) -> Plan:
    """Convert the object to a plan. Raises: InvalidArgument, TooLarge."""
    rows = loose.get("steps")
    if isinstance(rows, Sequence) and len(rows) > STEPS_MAX:
        raise TooLarge(
            f"the plan has {len(rows):,} steps, at most {STEPS_MAX:,} are kept",
            suggestion="Split the task into several plans.",
            details={"steps": len(rows), "steps_max": STEPS_MAX},
        )
    try:
        return msgspec.convert(loose, Plan, strict=False)
    except msgspec.ValidationError as error:
        raise conversion_error(error, "plan") from None


def conversion_error(error: msgspec.ValidationError, where: str) -> InvalidArgument:
    """Return what is wrong with a value, by the path of its field."""
    at, text = _AT.search(str(error)), _AT.sub("", str(error))
    wanted = text.removeprefix("Expected ").replace("`", "").split(", got")[0]
    return _invalid_field(
        (at[1] if at else "").removeprefix("."), f"is wrong: {_translate_message(text)}", wanted, where
    )


_TYPE_WORDS = {
    "`str`": "a text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`array`": "a list",
    "`object`": "an object",
    "`null`": "nothing",
}


def _translate_message(text: str) -> str:
    """Translate a message of msgspec into plain words.

    >>> _translate_message("Expected `str`, got `int`")
    'expected a text, got a whole number'
    """
    for theirs, ours in _TYPE_WORDS.items():
        text = text.replace(theirs, ours)
    return text[0].lower() + text[1:].replace("`", "")


def _invalid_field(path: str, why: str, expected: str, where: str = "plan") -> InvalidArgument:
    if path and not path.startswith("["):
        field = f"{where}.{path}"
    else:
        field = f"{where}{path}"
    return InvalidArgument(
        f"{field} {why}",
        suggestion=f"Send {field} as {expected}; load_plan shows how a plan looks.",
        details={"argument": where, "path": path, "expected": expected},
    )


# -- numbers, uids, questions -----------------------------------------------------------------------------------------


def _read_numbers(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[int, ...], list[PlanFinding]]:
    """Return the number that other steps use for each step: its own, else its position. Raises: InvalidPlan."""
    given_numbers = [row.get("step_number", place) for place, row in enumerate(rows, 1)]
    for place, number in enumerate(given_numbers):
        if not _is_number(number) or number != int(number):
            raise _invalid_field(
                f"steps[{place}].step_number", f"must be a whole number, not {number!r:.40}", "a whole number"
            )
    _check_unique(given_numbers, "step_number", given_numbers)
    if list(given_numbers) == list(range(1, len(given_numbers) + 1)):
        return tuple(given_numbers), []
    return tuple(int(number) for number in given_numbers), [
        PlanFinding("RENUMBERED", "steps are numbered 1, 2, 3 in the order in which they were sent")
    ]


def _check_unique(names: Sequence[object], what: str, rows: Sequence[object]) -> None:
    """Check that no name occurs twice. Raises: InvalidPlan for the first that does."""
    seen = set()
    for name in names:
        if name in seen:
            places = [place for place, row in enumerate(rows, 1) if row == name]
            raise InvalidPlan(
                f"steps {places[0]} and {places[1]} have the same {what}, {name!r}",
                suggestion=f"Give each step a {what} of its own, or none: then it gets one.",
                details={what: name, "steps": places},
            )
        seen.add(name)


def _resolve_references(plan: Plan, given_numbers: Sequence[int]) -> Plan:
    """Resolve references to uids; the number of a missing step stays as it is."""
    uids = {str(number): step.uid for number, step in zip(given_numbers, plan.steps, strict=True)}
    steps = tuple(
        msgspec.structs.replace(step, depends_on=sort_uids(uids.get(ref, ref) for ref in step.depends_on))
        for step in plan.steps
    )
    milestones = tuple(
        _resolve_milestone(milestone, uids, {step.uid for step in plan.steps}) for milestone in plan.milestones
    )
    return msgspec.structs.replace(plan, steps=steps, milestones=milestones)


def _resolve_milestone(milestone: Milestone, uids: Mapping[str, str], known: Collection[str]) -> Milestone:
    """Return the milestone without missing steps."""
    included = (uids.get(ref, ref) for ref in milestone.steps_included)
    return msgspec.structs.replace(milestone, steps_included=sort_uids(uid for uid in included if uid in known))


def _without_derived_effort(step: PlanStep) -> PlanStep:
    """Drop an effort in words that only repeats the hours."""
    if step.hours is not None and step.estimated_effort == format_effort(step.hours):
        return msgspec.structs.replace(step, estimated_effort="")
    return step


def _with_questions(plan: Plan, texts: object) -> Plan:
    """Add the questions that are only texts, and give each question an id."""
    if isinstance(texts, Sequence):
        listed = [text.strip() for text in texts if isinstance(text, str)]
    else:
        listed = []
    known_texts = {question.text for question in plan.questions}
    questions = [
        *plan.questions,
        *(PlanQuestion("", text) for text in dict.fromkeys(listed) if text and text not in known_texts),
    ]
    _check_unique(
        [question.id for question in questions if question.id], "question id", [question.id for question in questions]
    )
    used_ids, made = {question.id for question in questions}, []
    for number, question_row in enumerate(questions, 1):
        made.append(msgspec.structs.replace(question_row, id=question_row.id or _free_id(number, used_ids)))
        used_ids.add(made[-1].id)
    return msgspec.structs.replace(plan, questions=tuple(made))


def _free_id(number: int, used_ids: set[str]) -> str:
    while f"q{number}" in used_ids:
        number += 1
    return f"q{number}"


def _title_key(step: PlanStep) -> str:
    return step.title.casefold()


# -- findings ---------------------------------------------------------------------------------------------------------


def _unknown_fields(sent: Mapping[str, Any], kind: type[msgspec.Struct], where: str) -> list[PlanFinding]:
    """Report unknown fields, the first few."""
    known = {*kind.__struct_fields__, *_DERIVED}
    found = [
        PlanFinding(
            "UNKNOWN_FIELD", f"{where}{key[:60]} is not a field of a plan and was left out", path=f"{where}{key[:60]}"
        )
        for key in sent
        if key not in known
    ]
    for key, value in sent.items():
        if key in known and key in _NESTED:
            rows = value if isinstance(value, Sequence) else [value]
            for place, row in enumerate(rows):
                if rows is value:
                    at = f"{where}{key}[{place}]."
                else:
                    at = f"{where}{key}."
                found += _unknown_fields(row, _NESTED[key], at) if isinstance(row, Mapping) else []
                if len(found) >= SHOWN_UNKNOWN_MAX:
                    return found[:SHOWN_UNKNOWN_MAX]
    return found[:SHOWN_UNKNOWN_MAX]


def _overruled_blocks(plan: Plan, rows: Sequence[Mapping[str, Any]], given_numbers: Sequence[int]) -> list[PlanFinding]:
    """Report each `blocks` that contradicts `depends_on`: it is derived from the dependencies."""
    uids = {str(number): step.uid for number, step in zip(given_numbers, plan.steps, strict=True)}
    waits = {step.uid: set(step.depends_on) for step in plan.steps}
    found = []
    for number, (step, row) in enumerate(zip(plan.steps, rows, strict=True), 1):
        blocked = [uids.get(ref, ref) for ref in row.get("blocks", ())]
        wrong = [uid for uid in blocked if step.uid not in waits.get(uid, ())]
        if wrong:
            others = tuple(place for place, other in enumerate(plan.steps, 1) if other.uid in wrong)
            listed = ", ".join(map(str, others or wrong))
            found.append(
                PlanFinding(
                    "BLOCKS_OVERRULED",
                    f"step {number} says that it blocks {listed}, which does not depend on it",
                    "blocks follows from depends_on: say there what a step waits for.",
                    (number, *others),
                )
            )
    return found


VOLATILE_FIELDS = ("id", "version", "created_at", "uids_minted")
"""Fields that may differ between two plans with the same content."""
_WORK_FIELDS = (
    *("uid", "title", "description", "files_to_modify", "files_to_create", "files_to_delete"),
    *("acceptance_criteria", "checks"),
)
"""Fields of a step that describe its work."""
_OMITTED_IF_EMPTY = ("task", "base_commit", "created_at")
"""Internal fields that are left out of replies when they are empty."""


def serialize_plan(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON values, with the field names of `EnhancedPlanOutput`."""
    content = msgspec.to_builtins(plan)
    drawn, number = build_graph(plan), plan.step_numbers()
    content["steps"] = [
        _serialize_step(step, row, drawn, number) for step, row in zip(plan.steps, content["steps"], strict=True)
    ]
    content["milestones"] = [_serialize_milestone(milestone, number) for milestone in plan.milestones]
    content["dependency_graph"] = serialize_graph(plan, drawn)
    content["questions_for_clarification"] = [question.text for question in plan.open_questions]
    for key in _OMITTED_IF_EMPTY:
        if not content[key]:
            del content[key]
    return {key: content[key] for key in ("id", "version", "goal")} | content


def carry_forward(target: Plan, current: Plan) -> Plan:
    """Carry an earlier version forward as the next one of the same plan: uids given since then are not reused."""
    minted = max(target.uids_minted, current.uids_minted)
    return msgspec.structs.replace(target, id=current.id, created_at=current.created_at, uids_minted=minted)


def hash_content(plan: Plan) -> str:
    """Hash the content of a plan, independent of its id and version."""
    content = msgspec.to_builtins(plan)
    return _digest({key: value for key, value in content.items() if key not in VOLATILE_FIELDS})


def hash_step(step: PlanStep) -> str:
    """Hash the work of a step: while it stays the same, progress stays valid, whatever the dependencies."""
    content = msgspec.to_builtins(step)
    return _digest({key: content[key] for key in _WORK_FIELDS})


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _serialize_step(step: PlanStep, row: dict[str, Any], drawn: StepGraph, number: dict[str, int]) -> dict[str, Any]:
    """Return a step with its number and derived fields."""
    # A reference to a missing step stays as it was written.
    row["depends_on"] = [number.get(uid, int(uid) if uid.isdecimal() else uid) for uid in step.depends_on]
    row["depends_on"].sort(key=str if any(isinstance(dependency, str) for dependency in row["depends_on"]) else None)
    row["blocks"] = sorted(number[uid] for uid in drawn.needed_by[step.uid])
    row["can_parallel_with"] = sorted(number[uid] for uid in find_parallel(drawn, step.uid))
    if step.hours is not None:
        row["estimated_effort"] = step.estimated_effort or format_effort(step.hours)
    for key in ("files_to_delete", "checks", "evidence", "hours"):
        if row[key] in (None, []):
            del row[key]
    return {"step_number": number[step.uid]} | row


def _serialize_milestone(milestone: Milestone, number: dict[str, int]) -> dict[str, Any]:
    included = sorted(number[uid] for uid in milestone.steps_included if uid in number)
    return {"name": milestone.name, "steps_included": included, "estimated_time": milestone.estimated_time}


ChangeType = Literal["created", "refined", "modified", "approved", "executed", "rolled_back"]
SEAL_CHARS = 32
"""128 bits: enough to notice any accident."""


class PlanVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a version. `name` and `tags` are the plan's at that time; `content_hash` identifies its content.

    `events` are appended to the log; only the last of them names the version.
    """

    plan_id: str
    version: int
    created_at: str
    change_type: ChangeType
    content_hash: str
    change_summary: str = ""
    author: str = ""
    provenance: str = ""
    name: str = ""
    tags: tuple[str, ...] = ()
    reason: str = ""
    rolled_back_from: int = 0
    rolled_back_to: int = 0
    events: tuple[PlanEvent, ...]


def encode_version(version: PlanVersion, plan: Plan) -> bytes:
    """Encode a version and its plan without derived fields, one field per line for git."""
    content = {**msgspec.to_builtins(version), "plan": msgspec.to_builtins(plan)}
    return msgspec.json.format(msgspec.json.encode({**content, "seal": _seal(content)}), indent=1) + b"\n"


def decode_version(data: bytes) -> tuple[PlanVersion, Plan]:
    """Decode a version. Raises: ValueError, whose text continues `it is damaged:`."""
    content = _decode_sealed(data)
    return msgspec.convert(content, PlanVersion), msgspec.convert(
        content["plan"], Plan
    )  # a ValidationError is a ValueError


def decode_metadata(data: bytes) -> PlanVersion:
    """Decode a version without its plan. Raises: ValueError."""
    return msgspec.convert(_decode_sealed(data), PlanVersion)


def _decode_sealed(data: bytes) -> dict[str, Any]:
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(content, dict) or not {"plan", "seal"} <= content.keys():
        raise ValueError("it is not a version of a plan")
    if content.pop("seal") != _seal(content):
        raise ValueError("it was changed after it was written")
    return content


def _seal(content: Mapping[str, Any]) -> str:
    # Key order, indentation and line ends do not count: git and editors may change them.
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:SEAL_CHARS]
