"""PURE. Plans as JSON: parse what callers send, serialize what tools reply, and seal what version files contain.

    serialize_plan(plan)                                the JSON of replies: with numbers, `blocks` and the graph
    parse_plan(serialize_plan(plan)).plan == plan

Input may be loose, as long as it can only mean one thing. Dangling dependencies are kept, for `plan_validation`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from context_engine.errors import InvalidArgument, InvalidPlan, TooLarge, conversion_error, invalid_field
from context_engine.plans.dependency_graph import build_graph, find_parallel, serialize_graph
from context_engine.plans.model import (
    FILE_FIELDS,
    LEVELS,
    NUMBER_DIGITS,
    Milestone,
    Plan,
    PlanArchitecture,
    PlanQuestion,
    PlanRisk,
    PlanScope,
    PlanStep,
    TestingStrategy,
    format_effort,
)
from context_engine.plans.plan_events import PlanEvent
from context_engine.storage import prepare_type
from context_engine.text import drop_empty, suggest_nearest

StructType = TypeVar("StructType", bound=msgspec.Struct)

BYTES_MAX = 2_000_000
"""Of a plan as JSON: the limit in the contract of the tools."""
STEPS_MAX = 2_000
"""Twice the size of the largest required plan; with more, diagrams are unreadable, and relations grow quadratically."""
SHOWN_UNKNOWN_MAX = 10
VOLATILE_FIELDS = ("id", "version", "created_at", "uids_minted")
"""Fields that may differ between two plans with the same content."""
WORK_FIELDS = ("uid", "title", "description", *FILE_FIELDS, "acceptance_criteria", "checks")
"""Fields of a step that describe its work."""
_ADVICE = "load_plan shows how a plan looks."
_ALONE = {PlanRisk: "issue", Milestone: "name", PlanStep: "title", PlanQuestion: "text"}
"""Part of a plan -> the field for a text in place of the object."""
_DERIVED = frozenset("step_number blocks can_parallel_with dependency_graph questions_for_clarification".split())
"""Fields that `serialize_plan` derives."""


PROMISED = frozenset(
    {
        *("id", "scope", "architecture", "milestones", "steps", "risks", "testing_strategy", "dependency_graph"),
        *("mvp_features", "nice_to_have_features", "questions_for_clarification", "description", "estimated_effort"),
        *("files_to_modify", "files_to_create", "depends_on", "blocks", "can_parallel_with", "acceptance_criteria"),
        *("nodes", "edges", "critical_path", "parallel_groups", "execution_order"),
        *PlanScope.__struct_fields__,
        *PlanArchitecture.__struct_fields__,
        *PlanRisk.__struct_fields__,
        *Milestone.__struct_fields__,
        *TestingStrategy.__struct_fields__,
    }
)
"""Fields of `EnhancedPlanOutput`: they are in a reply even if they are empty."""


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
    rows = sent.get("steps") or ()
    if isinstance(rows, str):
        raise invalid_field("plan", "steps", "must be a list, not a text", "a list of steps", _ADVICE)
    if isinstance(rows, Sequence) and len(rows) > STEPS_MAX:
        raise TooLarge(
            f"the plan has {len(rows):,} steps, at most {STEPS_MAX:,} are kept",
            suggestion="Split the task into several plans.",
            details={"steps": len(rows), "steps_max": STEPS_MAX},
        )
    unknown: list[str] = []
    try:
        plan = msgspec.convert(_loosen(sent, _type_of(Plan), "", unknown), prepare_type(Plan), strict=False)
    except msgspec.ValidationError as error:
        raise conversion_error(error, "plan", _ADVICE) from None
    numbers = _read_numbers(rows)
    plan = replace(
        plan,
        steps=tuple(map(_without_derived_effort, plan.steps)),
        questions=_identify_questions(plan, sent.get("questions_for_clarification")),
    )
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
    kind: type[StructType],
    sent: Mapping[str, Any],
    base: StructType | None = None,
    *,
    where: str = "",
    advice: str = "",
) -> StructType:
    """Parse a part of a plan, such as a step or an operation; fields that were not sent are as in `base`.

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
        return msgspec.convert(before | given, prepare_type(kind), strict=False)
    except msgspec.ValidationError as error:
        raise conversion_error(error, where, advice) from None


def normalize_plan(plan: Plan, before: Plan | None = None) -> Plan:
    """Normalize a plan: each step has a unique uid and sorted dependencies.

    Raises: InvalidPlan when two steps have the same uid.
    """
    return _resolve_references(_assign_uids(plan, before), range(1, len(plan.steps) + 1))


def _sort_uids(uids: Iterable[str]) -> tuple[str, ...]:
    """Return unique uids in an order that does not depend on the positions of steps.

    >>> _sort_uids(["s10", "s2", "api", "s2"])
    ('s2', 'api', 's10')
    """
    return tuple(sorted(set(uids), key=lambda uid: (len(uid), uid)))


def draft_schema() -> dict[str, Any]:
    """Return the JSON schema for drafts by an agent or a model, without derived fields.

    An endpoint can enforce it: every object has exactly these fields.
    """
    text, level = {"type": "string"}, {"type": "string", "enum": list(LEVELS)}
    texts = _list_of(text)
    step = _object_of(
        uid={**text, "description": "As it was; empty for a new step."},
        title={**text, "description": "An order, on one line."},
        description=text,
        **dict.fromkeys(FILE_FIELDS, texts),
        depends_on={**_list_of({"type": "integer"}), "description": "Numbers of steps; the first is 1."},
        priority=level,
        estimated_effort={**text, "description": "Such as 2-4 hours."},
        acceptance_criteria=texts,
        checks={**texts, "description": "Commands."},
    )
    return _object_of(
        goal=text,
        steps=_list_of(step),
        mvp_features=texts,
        nice_to_have_features=texts,
        risks=_list_of(_object_of(issue=text, mitigation=text, likelihood=level)),
        questions_for_clarification=texts,
        testing_strategy=_object_of(unit=text, integration=text, coverage_target=text),
    )


def _list_of(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _object_of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


# -- from loose input to a plan ----------------------------------------------------------------------------------------


def _decode_object(value: object) -> Mapping[str, Any]:
    try:
        if isinstance(value, str | bytes):
            check_size(len(value) if isinstance(value, bytes) else len(value.encode()))
            value = msgspec.json.decode(value)
        else:
            check_size(len(msgspec.json.encode(value)))
    except UnicodeEncodeError:
        why = "contains half a character (a lone surrogate)"
        raise invalid_field("plan", "", why, "whole characters", _ADVICE) from None
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError, OverflowError) as error:
        why = f"is not valid JSON: {str(error)[:200]}"
        raise invalid_field("plan", "", why, "a JSON object", _ADVICE) from None
    if not isinstance(value, Mapping):
        raise invalid_field("plan", "", f"must be an object, not {type(value).__name__}", "a JSON object", _ADVICE)
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
        case msgspec.inspect.StructType() if isinstance(value, Mapping):
            types = {field.name: field.type for field in kind.fields}
            ignored = {*types, *_DERIVED, kind.tag_field}
            unknown += [f"{path}{str(key)[:60]}" for key in value if key not in ignored]
            named = [(key, part) for key, part in value.items() if key in types and part is not None]
            known = {key: _loosen(part, types[key], f"{path}{key}.", unknown) for key, part in named}
            return {"id": ""} | known if kind.cls is PlanQuestion else known
        case msgspec.inspect.VarTupleType(item_type=item):
            rows = [value] if isinstance(value, str) or _is_number(value) else value
            if not isinstance(rows, Sequence):
                return rows
            alone, at = _ALONE.get(getattr(item, "cls", None)), path.removesuffix(".")
            rows = [row for row in rows if row not in ("", None)]
            rows = [{alone: row} if alone and isinstance(row, str) else row for row in rows]
            return [_loosen(row, item, f"{at}[{place}].", unknown) for place, row in enumerate(rows)]
        case msgspec.inspect.LiteralType() if isinstance(value, str):
            return value.strip().lower()
        case msgspec.inspect.StrType(max_length=None, pattern=None):
            if isinstance(value, str):
                return value.strip() if path.endswith("].") else value
            is_short = _is_number(value) and abs(value) < 10**NUMBER_DIGITS
            return f"{value:g}" if is_short else value
        case msgspec.inspect.StrType() if isinstance(value, str):
            return " ".join(value.split())
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _without_derived_effort(step: PlanStep) -> PlanStep:
    """Return a step without an effort in words that only repeats its hours."""
    is_derived = step.hours is not None and step.estimated_effort == format_effort(step.hours)
    return replace(step, estimated_effort="") if is_derived else step


def _assign_uids(plan: Plan, before: Plan | None) -> Plan:
    """Assign a uid to each step without one. Raises: InvalidPlan."""
    old = before.steps if before else ()
    used = {step.uid for step in plan.steps if step.uid}
    _check_unique([step.uid or None for step in plan.steps], "uid")
    # A step without a uid inherits that of the step with the same title, unless another step has it.
    free = {step.title.casefold(): step.uid for step in reversed(old) if step.uid not in used}
    counts = [int(uid[1:]) for uid in (*used, *(step.uid for step in old)) if _is_minted(uid)]
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


def _is_minted(uid: str) -> bool:
    """Return whether a uid may have been given by `_assign_uids`: `s` and a number."""
    return uid.startswith("s") and uid[1:].isascii() and uid[1:].isdecimal() and len(uid) <= 10


def _read_numbers(rows: Sequence[Any]) -> list[int]:
    """Return the number that other steps use for each step: its own, else its position.

    Raises: InvalidArgument, InvalidPlan.
    """
    numbers = []
    for place, row in enumerate((row for row in rows if row not in ("", None)), 1):
        number = (row.get("step_number") if isinstance(row, Mapping) else 0) or place
        if not _is_number(number) or number != int(number):
            why = f"must be a whole number, not {number!r:.40}"
            raise invalid_field("plan", f"steps[{place - 1}].step_number", why, "a whole number", _ADVICE)
        numbers.append(int(number))
    _check_unique(numbers, "step_number")
    return numbers


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
    steps = (replace(step, depends_on=_sort_uids(uids.get(ref, ref) for ref in step.depends_on)) for step in plan.steps)
    milestones = []
    for milestone in plan.milestones:
        included = {uids.get(ref, ref) for ref in milestone.steps_included}
        milestones.append(replace(milestone, steps_included=_sort_uids(included & known)))
    return replace(plan, steps=tuple(steps), milestones=tuple(milestones))


def _identify_questions(plan: Plan, texts: object) -> tuple[PlanQuestion, ...]:
    """Return the questions of a plan and those that are only texts, each with an id."""
    listed = [texts] if isinstance(texts, str) else texts if isinstance(texts, Sequence) else ()
    known = {question.text for question in plan.questions}
    new = dict.fromkeys(text.strip() for text in listed if isinstance(text, str))
    questions = [*plan.questions, *(PlanQuestion("", text) for text in new if text and text not in known)]
    _check_unique([question.id or None for question in questions], "question id")
    used = {question.id for question in questions}
    free = (name for name in map("q{}".format, count(1)) if name not in used)
    return tuple(question if question.id else replace(question, id=next(free)) for question in questions)


# -- from a plan to JSON -----------------------------------------------------------------------------------------------


def serialize_plan(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON values, with all fields of `EnhancedPlanOutput`, and of others those with a value."""
    content = msgspec.to_builtins(plan)
    drawn, number = build_graph(plan), plan.step_numbers()
    for step, row in zip(plan.steps, content["steps"], strict=True):
        # A reference to a missing step stays as it was written.
        waits = [number.get(uid, int(uid) if uid.isdecimal() else uid) for uid in step.depends_on]
        row["depends_on"] = sorted(waits, key=str if any(isinstance(other, str) for other in waits) else None)
        row["blocks"] = sorted(number[uid] for uid in drawn.needed_by[step.uid])
        row["can_parallel_with"] = sorted(number[uid] for uid in find_parallel(drawn, step.uid))
        if step.hours is not None:
            row["estimated_effort"] = step.estimated_effort or format_effort(step.hours)
    content["steps"] = [{"step_number": place} | row for place, row in enumerate(content["steps"], 1)]
    for row in content["milestones"]:
        row["steps_included"] = sorted(number[uid] for uid in row["steps_included"] if uid in number)
    content["dependency_graph"] = serialize_graph(plan, drawn)
    content["questions_for_clarification"] = [question.text for question in plan.open_questions]
    return without_empty({key: content[key] for key in ("id", "version", "goal")} | content, PROMISED)


def without_empty(value: Any, kept: Collection[str] = ()) -> Any:
    """Return JSON values without their empty fields but those in `kept`; zero and False stay.

    >>> without_empty({"steps": [{"title": "Write", "checks": []}], "scope": {"excluded": []}, "version": 0})
    {'steps': [{'title': 'Write'}], 'version': 0}
    """
    if isinstance(value, Mapping):
        rows = {key: without_empty(part, kept) for key, part in value.items()}
        filled = drop_empty(rows)
        return {key: part for key, part in rows.items() if key in filled or key in kept}
    return [without_empty(part, kept) for part in value] if isinstance(value, list | tuple) else value


def hash_content(plan: Plan) -> str:
    """Hash the content of a plan, independent of its id and version."""
    content = msgspec.to_builtins(plan)
    return _digest({key: value for key, value in content.items() if key not in VOLATILE_FIELDS})


def hash_step(step: PlanStep) -> str:
    """Hash the work of a step: while it stays the same, progress stays valid, whatever the dependencies."""
    content = msgspec.to_builtins(step)
    return _digest({key: content[key] for key in WORK_FIELDS})


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


# -- version files: a seal, the hash of all other values, shows any later change but that of layout and line ends ------

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
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(content, dict) or not {"plan", "seal"} <= content.keys():
        raise ValueError("it is not a version of a plan")
    if content.pop("seal") != _seal(content):
        raise ValueError("it was changed after it was written")
    # A ValidationError is a ValueError.
    return msgspec.convert(content, prepare_type(PlanVersion)), msgspec.convert(content["plan"], prepare_type(Plan))


def _seal(content: Mapping[str, Any]) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:SEAL_CHARS]
