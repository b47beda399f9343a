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
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from context_engine.errors import InvalidArgument, InvalidPlan, TooLarge
from context_engine.plans.dependency_graph import StepGraph, build_graph, find_parallel, serialize_graph
from context_engine.plans.model import (
    LEVELS,
    NUMBER_DIGITS,
    Milestone,
    Plan,
    PlanQuestion,
    PlanRisk,
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
_ALONE = {PlanRisk: "issue", Milestone: "name", PlanStep: "title", PlanQuestion: "text"}
"""Part of a plan -> the field for a text in place of the object."""
_DERIVED = frozenset("step_number blocks can_parallel_with dependency_graph questions_for_clarification".split())
"""Fields that `serialize_plan` derives."""


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
    unknown: list[str] = []
    loose = _loosen(sent, _type_of(Plan), "", unknown)
    rows = sent.get("steps") or ()
    if isinstance(rows, str):
        raise _invalid_field("steps", "must be a list, not a text", "a list of steps")
    if isinstance(rows, Sequence) and len(rows) > STEPS_MAX:
        raise TooLarge(
            f"the plan has {len(rows):,} steps, at most {STEPS_MAX:,} are kept",
            suggestion="Split the task into several plans.",
            details={"steps": len(rows), "steps_max": STEPS_MAX},
        )
    try:
        plan = msgspec.convert(loose, Plan, strict=False)
    except msgspec.ValidationError as error:
        raise conversion_error(error, "plan") from None
    numbers = _read_numbers(rows)
    # An effort in words that only repeats the hours is derived.
    steps = (
        replace(step, estimated_effort="")
        if step.hours is not None and step.estimated_effort == format_effort(step.hours)
        else step
        for step in plan.steps
    )
    plan = replace(plan, steps=tuple(steps))
    plan = _with_questions(plan, sent.get("questions_for_clarification"))
    plan = _resolve_references(_assign_uids(plan, before), numbers)
    remarks = [
        PlanFinding("UNKNOWN_FIELD", f"{path} is not a field of a plan and was left out", path=path)
        for path in unknown[:SHOWN_UNKNOWN_MAX]
    ]
    if numbers != list(range(1, len(numbers) + 1)):
        message = "steps are numbered 1, 2, 3 in the order in which they were sent"
        remarks.append(PlanFinding("RENUMBERED", message))
    return ParsedPlan(plan, tuple(remarks))


def parse_part(
    kind: type[StructType], sent: Mapping[str, Any], base: StructType | None = None, *, where: str = ""
) -> StructType:
    """Parse a part of a plan, such as a step or a risk, from some of its fields; the others are as in `base`.

    Raises: InvalidArgument, also for an unknown field.
    """
    unknown: list[str] = []
    given = _loosen(sent, _type_of(kind), "", unknown)
    if unknown:
        known = kind.__struct_fields__
        raise InvalidArgument(
            f"{where}.{unknown[0]} is not a field",
            suggestion=suggest_nearest(unknown[0], known).strip() or f"It takes {', '.join(known)}.",
            details={"argument": where, "valid": known},
        )
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


def sort_uids(uids: Iterable[str]) -> tuple[str, ...]:
    """Return unique uids in an order that does not depend on the positions of steps.

    >>> sort_uids(["s10", "s2", "api", "s2"])
    ('s2', 'api', 's10')
    """
    return tuple(sorted(set(uids), key=lambda uid: (len(uid), uid)))


def draft_schema() -> dict[str, Any]:
    """Return the JSON schema for drafts by an agent or a model, without derived fields.

    An endpoint can enforce it: every object has exactly these fields.
    """
    text, level = {"type": "string"}, {"type": "string", "enum": list(LEVELS)}
    texts = {"type": "array", "items": text}

    def form(**fields: Any) -> dict[str, Any]:
        return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}

    step = form(
        uid={**text, "description": "As it was; empty for a new step."},
        title={**text, "description": "An order, on one line."},
        description=text,
        files_to_modify=texts,
        files_to_create=texts,
        files_to_delete=texts,
        depends_on={"type": "array", "items": {"type": "integer"}, "description": "Numbers of steps; the first is 1."},
        priority=level,
        estimated_effort={**text, "description": "Such as 2-4 hours."},
        acceptance_criteria=texts,
        checks={**texts, "description": "Commands."},
    )
    return form(
        goal=text,
        steps={"type": "array", "items": step},
        mvp_features=texts,
        nice_to_have_features=texts,
        risks={"type": "array", "items": form(issue=text, mitigation=text, likelihood=level)},
        questions_for_clarification=texts,
        testing_strategy=form(unit=text, integration=text, coverage_target=text),
    )


# -- from loose input to an object ------------------------------------------------------------------------------


def _decode_object(value: object) -> Mapping[str, Any]:
    """Decode the object that was sent. Raises: InvalidArgument, TooLarge."""
    try:
        if isinstance(value, str | bytes):
            check_size(len(value) if isinstance(value, bytes) else len(value.encode()))
            value = msgspec.json.decode(value)
        else:
            check_size(len(msgspec.json.encode(value)))
    except UnicodeEncodeError:
        raise _invalid_field("", "contains half a character (a lone surrogate)", "whole characters") from None
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise _invalid_field("", f"is not valid JSON: {str(error)[:200]}", "a JSON object") from None
    if not isinstance(value, Mapping):
        names = {list: "a list", str: "a text", bool: "a flag", int: "a number", float: "a number"}
        raise _invalid_field("", f"must be an object, not {names.get(type(value), 'nothing')}", "object")
    return value


def check_size(count: int) -> None:
    """Check the bytes of a plan. Raises: TooLarge."""
    if count > BYTES_MAX:
        raise TooLarge(
            f"the plan has {count:,} bytes, at most {BYTES_MAX:,} are kept",
            suggestion="Say less in descriptions and evidence, or split the task into several plans.",
            details={"bytes": count, "bytes_max": BYTES_MAX},
        )


_type_of = cache(msgspec.inspect.type_info)


def _loosen(value: Any, kind: Any, path: str, unknown: list[str]) -> Any:
    """Return a value as its type wants it, where only one meaning is possible; add the paths of unknown fields.

    A single text is a list of one, a number in a list is a text, blanks and nulls are left out, and words are in lower
    case. A type with a limit of its length is a line.
    """
    match kind:
        case msgspec.inspect.StructType():
            return _loosen_object(value, kind, path, unknown) if isinstance(value, Mapping) else value
        case msgspec.inspect.VarTupleType(item_type=item):
            rows = [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else value
            if not isinstance(rows, Sequence):
                return rows
            at = path.removesuffix(".")
            kept = [row for row in rows if row not in ("", None)]
            return [_loosen(row, item, f"{at}[{place}].", unknown) for place, row in enumerate(_objects(kept, item))]
        case msgspec.inspect.LiteralType():
            return value.strip().lower() if isinstance(value, str) else value
        case msgspec.inspect.StrType(max_length=most, pattern=pattern):
            is_line = bool(most or pattern)
            if isinstance(value, str):
                return " ".join(value.split()) if is_line else value.strip() if path.endswith("].") else value
            is_short = _is_number(value) and abs(value) < 10**NUMBER_DIGITS
            return f"{value:g}" if is_short and not is_line else value
    return value


def _loosen_object(sent: Mapping[str, Any], kind: Any, path: str, unknown: list[str]) -> dict[str, Any]:
    types = {field.name: field.type for field in kind.fields}
    found: dict[str, Any] = {"id": ""} if kind.cls is PlanQuestion else {}
    for key, value in sent.items():
        if key in types and value is not None:
            found[key] = _loosen(value, types[key], f"{path}{key}.", unknown)
        elif key not in types and key not in _DERIVED:
            unknown.append(f"{path}{str(key)[:60]}")
    return found


def _objects(rows: Sequence[Any], item: Any) -> Sequence[Any]:
    """Return the rows with an object in place of a text, where the list is one of objects with a main field."""
    name = _ALONE.get(getattr(item, "cls", None))
    return [{name: row} if name and isinstance(row, str) else row for row in rows]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPE_WORDS = {
    "`str`": "a text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`array`": "a list",
    "`object`": "an object",
    "`null`": "nothing",
}


def conversion_error(error: msgspec.ValidationError, where: str) -> InvalidArgument:
    """Return what is wrong with a value, by the path of its field, in plain words."""
    at, text = _AT.search(str(error)), _AT.sub("", str(error))
    wanted = text.removeprefix("Expected ").replace("`", "").split(", got")[0]
    for theirs, ours in _TYPE_WORDS.items():
        text = text.replace(theirs, ours)
    plain = text[0].lower() + text[1:].replace("`", "")
    return _invalid_field((at[1] if at else "").removeprefix("."), f"is wrong: {plain}", wanted, where)


def _invalid_field(path: str, why: str, expected: str, where: str = "plan") -> InvalidArgument:
    field = f"{where}.{path}" if path and not path.startswith("[") else f"{where}{path}"
    return InvalidArgument(
        f"{field} {why}",
        suggestion=f"Send {field} as {expected}; load_plan shows how a plan looks.",
        details={"argument": where, "path": path, "expected": expected},
    )


# -- numbers, uids, questions -----------------------------------------------------------------------------------------


def _assign_uids(plan: Plan, before: Plan | None) -> Plan:
    """Assign a uid to each step without one. Raises: InvalidPlan."""
    old = before.steps if before else ()
    used = {step.uid for step in plan.steps if step.uid}
    _check_unique([step.uid or None for step in plan.steps], "uid")
    # A step without a uid inherits that of the step with the same title, unless another step has it.
    free = {step.title.casefold(): step.uid for step in reversed(old) if step.uid not in used}
    counts = [int(match[1]) for uid in (*used, *(step.uid for step in old)) if (match := _UID.fullmatch(uid))]
    # No uid is ever given twice, not even that of a step removed long ago.
    minted = max(plan.uids_minted, before.uids_minted if before else 0, *counts, 0)
    steps = []
    for step in plan.steps:
        uid = step.uid or free.pop(step.title.casefold(), "")
        if not uid:
            minted += 1
            uid = f"s{minted}"
        steps.append(replace(step, uid=uid))
    return replace(plan, steps=tuple(steps), uids_minted=minted)


def _read_numbers(rows: Sequence[Any]) -> list[int]:
    """Return the number that other steps use for each step: its own, else its position.

    Raises: InvalidArgument, InvalidPlan.
    """
    rows = [row for row in rows if row not in ("", None)]
    numbers = [
        row.get("step_number") or place if isinstance(row, Mapping) else place for place, row in enumerate(rows, 1)
    ]
    for place, number in enumerate(numbers):
        if not _is_number(number) or number != int(number):
            why = f"must be a whole number, not {number!r:.40}"
            raise _invalid_field(f"steps[{place}].step_number", why, "a whole number")
    _check_unique(numbers, "step_number")
    return [int(number) for number in numbers]


def _check_unique(names: Sequence[object], what: str) -> None:
    """Check that no name occurs twice. Raises: InvalidPlan for the first that does."""
    seen: dict[object, int] = {}
    for place, name in enumerate(names, 1):
        if name is not None and name in seen:
            raise InvalidPlan(
                f"steps {seen[name]} and {place} have the same {what}, {name!r}",
                suggestion=f"Give each step a {what} of its own, or none: then it gets one.",
                details={what: name, "steps": [seen[name], place]},
            )
        seen[name] = place


def _resolve_references(plan: Plan, numbers: Sequence[int]) -> Plan:
    """Resolve references to uids; the number of a missing step stays as it is, but not in a milestone."""
    uids = {str(number): step.uid for number, step in zip(numbers, plan.steps, strict=True)}
    known = {step.uid for step in plan.steps}
    steps = (replace(step, depends_on=sort_uids(uids.get(ref, ref) for ref in step.depends_on)) for step in plan.steps)
    milestones = []
    for milestone in plan.milestones:
        included = {uids.get(ref, ref) for ref in milestone.steps_included}
        milestones.append(replace(milestone, steps_included=sort_uids(included & known)))
    return replace(plan, steps=tuple(steps), milestones=tuple(milestones))


def _with_questions(plan: Plan, texts: object) -> Plan:
    """Add the questions that are only texts, and give each question an id."""
    listed = [texts] if isinstance(texts, str) else texts if isinstance(texts, Sequence) else ()
    known = {question.text for question in plan.questions}
    new = dict.fromkeys(text.strip() for text in listed if isinstance(text, str))
    questions = [*plan.questions, *(PlanQuestion("", text) for text in new if text and text not in known)]
    _check_unique([question.id or None for question in questions], "question id")
    used = {question.id for question in questions}
    made = []
    for number, question in enumerate(questions, 1):
        name, free = question.id, number
        while not name or (not question.id and name in used):
            name, free = f"q{free}", free + 1
        used.add(name)
        made.append(replace(question, id=name))
    return replace(plan, questions=tuple(made))


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
    for row in content["milestones"]:
        row["steps_included"] = sorted(number[uid] for uid in row["steps_included"] if uid in number)
    content["dependency_graph"] = serialize_graph(plan, drawn)
    content["questions_for_clarification"] = [question.text for question in plan.open_questions]
    for key in _OMITTED_IF_EMPTY:
        if not content[key]:
            del content[key]
    return {key: content[key] for key in ("id", "version", "goal")} | content


def carry_forward(target: Plan, current: Plan) -> Plan:
    """Carry an earlier version forward as the next one of the same plan: uids given since then are not reused."""
    minted = max(target.uids_minted, current.uids_minted)
    return replace(target, id=current.id, created_at=current.created_at, uids_minted=minted)


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
    row["depends_on"].sort(key=str if any(isinstance(other, str) for other in row["depends_on"]) else None)
    row["blocks"] = sorted(number[uid] for uid in drawn.needed_by[step.uid])
    row["can_parallel_with"] = sorted(number[uid] for uid in find_parallel(drawn, step.uid))
    if step.hours is not None:
        row["estimated_effort"] = step.estimated_effort or format_effort(step.hours)
    for key in ("files_to_delete", "checks", "evidence", "hours"):
        if row[key] in (None, []):
            del row[key]
    return {"step_number": number[step.uid]} | row


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
    # A ValidationError is a ValueError.
    return msgspec.convert(content, PlanVersion), msgspec.convert(content["plan"], Plan)


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
