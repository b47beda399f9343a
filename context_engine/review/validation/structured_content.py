"""Check content with a structure: diffs, plans, findings of a review, and values with a JSON Schema of the caller.

No other machine is asked for a schema, and no pattern of one takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from context_engine.context import Claim, RepositoryFacts, check_claims, format_problem
from context_engine.errors import CallError, InvalidArgument
from context_engine.review.second_pass import SCHEMA, make_claim
from context_engine.review.validation.validation_request import report
from context_engine.text import compile_linear, parse_diff

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.repo import Root

Schema = Mapping[str, Any]

PATTERN_CHARS_MAX = 200
_DRAFTED: Schema = SCHEMA["properties"]["findings"]["items"]
"""A finding as a second pass sends it."""
_TEXT = {"type": "string"}
_LINE = {"type": "integer", "minimum": 1}
_RANGE = {"type": "object", "required": ["start", "end"], "properties": {"start": _LINE, "end": _LINE}}
_FINDING = {
    "type": "object",
    "required": ["title", "body", "priority", "confidence_score", "code_location"],
    "properties": {
        **{name: _DRAFTED["properties"][name] for name in ("priority", "confidence_score", "category")},
        "title": {"type": "string", "minLength": 1},
        "body": _TEXT,
        "code_location": {
            "type": "object",
            "required": ["line_range"],
            "properties": {"line_range": _RANGE, "file_path": _TEXT, "absolute_file_path": _TEXT},
        },
    },
}
"""A finding as replies contain it."""


def check_diff(text: str) -> Iterator[Finding]:
    """Report why a diff cannot be read, and where."""
    try:
        parse_diff(text)
    except CallError as error:
        line = error.details.get("line", 0)
        place = (line, int(line > 0))
        yield report(_rule_name(error.code), error.message, place, family="diff", advice=error.suggestion)


def check_plan(value: object, root: Root) -> Iterator[Finding]:
    """Report what is wrong with a plan: its fields, the order of its steps, the files it names."""
    from context_engine.plans import parse_plan, validate_plan, workspace_paths  # 20 ms, only for plans

    def remark(code: str, path: str, message: str, advice: str, severity: str = "error") -> Finding:
        text = f"{path}: {message}" if path else message
        return report(f"plan-{_rule_name(code)}", text, family="plan", advice=advice, severity=severity)

    try:
        plan, remarks = parse_plan(value)
        result = validate_plan(plan, workspace_paths(root), remarks=remarks)
    except CallError as error:
        yield remark(error.code, str(error.details.get("path", "")), error.message, error.suggestion)
        return
    for severity, found in (("error", result.errors), ("warning", result.warnings), ("info", result.autofixes)):
        for one in found:
            yield remark(one.code, one.path, one.message, one.suggestion, severity)


def check_findings(value: Any, facts: RepositoryFacts | None) -> Iterator[Finding]:
    """Report findings without the fields of one, or on lines and code that do not exist."""
    rows = value.get("findings", [value]) if isinstance(value, Mapping) else value
    claims = []
    for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
        place = f"findings[{number}]"
        is_draft = isinstance(row, Mapping) and "file_path" in row
        schema = _DRAFTED if is_draft else _FINDING
        errors = list(find_schema_errors(row, schema, rule="finding-schema", prefix=place))
        yield from errors
        if not errors:
            claims.append(_claim(row, place))
    for rejected in check_claims(claims, facts).rejected if facts else ():
        yield report("finding-anchor", f"{rejected.place}: {rejected.reason}")


def _claim(row: Mapping[str, Any], place: str) -> Claim:
    if "file_path" in row:
        return make_claim(row, place)
    span, path = row["code_location"]["line_range"], row["code_location"].get("file_path", "")
    if not path:
        return Claim(row, place)
    return make_claim({**row, "file_path": path, "start_line": span["start"], "end_line": span["end"]}, place)


def _rule_name(code: str) -> str:
    return code.lower().replace("_", "-")


def find_schema_errors(value: Any, schema: Schema, *, rule: str = "schema", prefix: str = "") -> Iterator[Finding]:
    """Report where a value violates a schema, and the patterns of the schema that could not be tried.

    Raises: InvalidArgument, when the schema is not a JSON Schema.
    """
    skipped: dict[str, None] = {}
    try:
        errors = _validate(value, schema, skipped)
    except RecursionError:
        message = "it is nested too deep to be compared with its schema"
        yield report(rule, message, family="schema", severity="warning", advice="")
        return
    for error in errors:
        yield report(rule, format_problem(error, prefix), family="schema")
    for pattern in skipped:
        message = f"the pattern {pattern[:PATTERN_CHARS_MAX]!r} of the schema was not tried"
        advice = "Write it in RE2's syntax: no look-around."
        yield report(f"{rule}-pattern", message, family="schema", severity="warning", advice=advice)


def _validate(value: Any, schema: Schema, skipped: dict[str, None]) -> list[Any]:
    from jsonschema import Draft202012Validator, SchemaError  # some 50 ms that most contents do not need
    from jsonschema.validators import extend, validator_for
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        errors = extend(kind, _make_keywords(skipped))(schema, registry=REGISTRY).iter_errors(value)
        return sorted(errors, key=lambda error: list(map(str, error.absolute_path)))
    except SchemaError as error:
        problem = f"is not a JSON Schema: {error.message[-PATTERN_CHARS_MAX:]}"
        advice = 'Send one like {"type": "object"}.'
    except Unresolvable as error:
        problem = f"refers to something that it does not contain: {error}"
        advice = "Put what it refers to into its own $defs: no other machine is asked."
    raise InvalidArgument(f"schema {problem}", suggestion=advice, details={"argument": "schema"})


def _make_search(skipped: dict[str, None]) -> Callable[[str, str], bool]:
    @cache
    def compile_pattern(pattern: str) -> Any:
        try:
            return compile_linear(pattern)
        except ValueError:
            skipped[pattern] = None
            return re.compile("")

    return lambda pattern, text: compile_pattern(pattern).search(text) is not None


def _make_keywords(skipped: dict[str, None]) -> dict[str, Any]:
    """Return the keywords that contain patterns, which are tried in linear time or skipped.

    Python's own engine may take years for thirty letters.
    """
    from jsonschema import ValidationError

    search = _make_search(skipped)

    def pattern(validator: Any, wanted: str, instance: Any, _schema: Schema) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not search(wanted, instance):
            yield ValidationError(f"{instance!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: Schema, instance: Any, _schema: Schema) -> Iterator[Any]:
        for name, value in instance.items() if validator.is_type(instance, "object") else ():
            for expression, inner in wanted.items():
                if search(expression, name):
                    yield from validator.descend(value, inner, path=name, schema_path=expression)

    def additional_properties(validator: Any, wanted: Any, instance: Any, schema: Schema) -> Iterator[Any]:
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, value in instance.items() if validator.is_type(instance, "object") else ():
            is_known = name in known or any(search(pattern, name) for pattern in patterns)
            if not is_known and isinstance(wanted, Mapping):
                yield from validator.descend(value, wanted, path=name)
            elif not is_known and not wanted:
                yield ValidationError(f"{name!r} is not expected")

    return {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": additional_properties}
