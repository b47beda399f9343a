"""Check content with a structure of its own: diffs, plans, findings of a review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from context_engine.context import Claim, ClaimedLines, ClaimedQuote, RepositoryFacts, check_claims
from context_engine.errors import CallError
from context_engine.review.finding import CATEGORIES
from context_engine.review.second_pass_findings import SCHEMA
from context_engine.review.validation.json_schemas import add_place, find_schema_errors
from context_engine.review.validation.validation_request import make_finding
from context_engine.text import parse_diff

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.plans import PlanFinding
    from context_engine.repo.paths import Root

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
"""A finding as replies contain it; SCHEMA of `second_pass_findings` is the one that a second pass sends."""


def check_diff(text: str) -> Iterator[Finding]:
    """Report why a diff cannot be read, and where."""
    try:
        parse_diff(text)
    except CallError as error:
        line = error.details.get("line", 0)
        place = (line, int(line > 0))
        yield make_finding(1, "error", "syntax", _rule_name(error.code), error.message, place, error.suggestion)


def check_plan(value: object, root: Root) -> Iterator[Finding]:
    """Report what is wrong with a plan: its fields, the order of its steps, the files it names."""
    from context_engine.plans import (
        parse_plan,  # 20 ms, only for those who validate a plan
        validate_plan,
        workspace_paths,
    )

    try:
        plan, remarks = parse_plan(value)
        result = validate_plan(plan, workspace_paths(root), remarks=remarks)
    except CallError as error:
        message = add_place(str(error.details.get("path", "")), error.message)
        yield make_finding(1, "error", "schema", f"plan-{_rule_name(error.code)}", message, advice=error.suggestion)
        return
    groups: tuple[tuple[str, Sequence[PlanFinding]], ...] = (
        ("error", result.errors),
        ("warning", result.warnings),
        ("info", result.autofixes),
    )
    for severity, group in groups:
        for remark in group:
            rule, message = f"plan-{_rule_name(remark.code)}", add_place(remark.path, remark.message)
            yield make_finding(1, severity, "schema", rule, message, advice=remark.suggestion)


def check_findings(value: Any, facts: RepositoryFacts | None) -> Iterator[Finding]:
    """Report findings without the fields of one, or on lines and code that do not exist."""
    rows = value.get("findings", [value]) if isinstance(value, Mapping) else value
    if not isinstance(rows, list):
        rows = [rows]
    claims = []
    for number, row in enumerate(rows):
        place = f"findings[{number}]"
        is_draft = isinstance(row, Mapping) and "file_path" in row
        schema = SCHEMA["properties"]["findings"]["items"] if is_draft else _FINDING
        errors = list(find_schema_errors(row, schema, rule="finding-schema", prefix=place))
        if not errors:
            claims.append(_claim(row, place))
        yield from errors
    if facts is None:
        return
    for rejected in check_claims(claims, facts).rejected:
        message, advice = f"{rejected.place}: {rejected.reason}", "Anchor it to code that exists."
        yield make_finding(1, "error", "anchor", "finding-anchor", message, advice=advice)


def _claim(row: Mapping[str, Any], place: str) -> Claim:
    if "file_path" in row:
        path, span = row["file_path"], (row["start_line"], row["end_line"])
    else:
        location = row["code_location"]
        path = location.get("file_path", "")
        span = location["line_range"]["start"], location["line_range"]["end"]
    quotes = [ClaimedQuote(path, row["quote"])] if row.get("quote") and path else []
    return Claim(row, place, lines=[ClaimedLines(path, *span)] if path else [], quotes=quotes)


def _rule_name(code: str) -> str:
    return code.lower().replace("_", "-")
