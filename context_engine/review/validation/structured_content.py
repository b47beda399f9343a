"""Content with a shape of its own: diffs, plans, findings of a review."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from context_engine.context.fact_check import Claim, Ground, Lines, Quote, grounded
from context_engine.errors import CallError
from context_engine.review.finding import CATEGORIES
from context_engine.review.second_pass_findings import SCHEMA
from context_engine.review.validation.json_schemas import schema_remarks, told_at
from context_engine.review.validation.remark import Remark, Severity
from context_engine.text.diff import parsed

_SPAN = {
    "type": "object",
    "required": ["start", "end"],
    "properties": {"start": {"type": "integer", "minimum": 1}, "end": {"type": "integer", "minimum": 1}},
}
_FINDING = {
    "type": "object",
    "required": ["title", "body", "priority", "confidence_score", "code_location"],
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "body": {"type": "string"},
        "priority": {"type": "integer", "minimum": 0, "maximum": 3},
        "confidence_score": {"type": "number", "minimum": 0, "maximum": 1},
        "category": {"enum": list(CATEGORIES)},
        "code_location": {
            "type": "object",
            "required": ["line_range"],
            "properties": {
                "line_range": _SPAN,
                "file_path": {"type": "string"},
                "absolute_file_path": {"type": "string"},
            },
        },
    },
}
"""A finding as replies tell it; SCHEMA of `review.draft` is how a second pass hands one in."""


class PlanRemark(NamedTuple):
    """What whoever knows plans says of one: `at` is the place in it."""

    severity: Severity
    code: str
    message: str
    at: str = ""
    suggestion: str = ""


ReadPlan = Callable[[object], Iterable[PlanRemark]]


def diff_remarks(text: str) -> Iterator[Remark]:
    """Whether a diff can be read. Of a broken one the place is told."""
    try:
        parsed(text)
    except CallError as error:
        line = error.details.get("line", 0)
        yield Remark(
            1,
            "error",
            "syntax",
            error.code.lower().replace("_", "-"),
            error.message,
            line,
            int(line > 0),
            error.suggestion,
        )


def plan_remarks(value: object, read: ReadPlan) -> Iterator[Remark]:
    """Whether a plan has the fields of one, and its steps an order."""
    try:
        for said in read(value):
            yield Remark(
                1,
                said.severity,
                "schema",
                f"plan-{_rule(said.code)}",
                told_at(said.at, said.message),
                0,
                0,
                said.suggestion,
            )
    except CallError as error:
        at = str(error.details.get("path", ""))
        yield Remark(
            1, "error", "schema", f"plan-{_rule(error.code)}", told_at(at, error.message), 0, 0, error.suggestion
        )


def finding_remarks(value: Any, ground: Ground | None) -> Iterator[Remark]:
    """Whether findings have the fields of one, and stand on lines and code that are there."""
    rows = value.get("findings", [value]) if isinstance(value, Mapping) else value
    if not isinstance(rows, list):
        rows = [rows]
    sound = []
    for number, row in enumerate(rows):
        schema = (
            SCHEMA["properties"]["findings"]["items"] if isinstance(row, Mapping) and "file_path" in row else _FINDING
        )
        faults = list(schema_remarks(row, schema, rule="finding-schema", prefix=f"findings[{number}]"))
        sound += [] if faults else [(number, row)]
        yield from faults
    if ground is not None:
        claims = [_claim(row, f"findings[{number}]") for number, row in sound]
        for each in grounded(claims, ground).rejected:
            yield Remark(
                1,
                "error",
                "anchor",
                "finding-anchor",
                f"{each.place}: {each.reason}",
                0,
                0,
                "Anchor it to code that is there.",
            )


def _claim(row: Mapping[str, Any], at: str) -> Claim:
    if "file_path" in row:
        path, span = row["file_path"], (row["start_line"], row["end_line"])
    else:
        where = row["code_location"]
        path = where.get("file_path", "")
        span = where["line_range"]["start"], where["line_range"]["end"]
    quotes = [Quote(path, row["quote"])] if row.get("quote") and path else []
    return Claim(row, at, lines=[Lines(path, *span)] if path else [], quotes=quotes)


def _rule(code: str) -> str:
    return code.lower().replace("_", "-")
