"""A value held against a JSON Schema that somebody sent: no other machine is asked, and no pattern of it can take forever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from context_engine.context.proposals import PROBLEM_CHARS_MAX, place
from context_engine.errors import InvalidArgument
from context_engine.review.validation.remark import Remark
from context_engine.text.safe_regex import compile_linear

Schema = Mapping[str, Any]
Search = Callable[[str, str], bool]


def schema_remarks(value: Any, schema: Schema, *, rule: str = "schema", prefix: str = "") -> Iterator[Remark]:
    """Where a value does not keep to a schema; what of the schema could not be tried.

    Raises: InvalidArgument, when the schema is none.
    """
    skipped: dict[str, None] = {}
    try:
        errors = _errors(value, schema, skipped)
    except RecursionError:
        yield Remark(1, "warning", "schema", rule, "it is nested deeper than it can be compared with its schema")
        return
    for error in errors:
        said = error.message if len(error.message) <= PROBLEM_CHARS_MAX else f"… {error.message[-PROBLEM_CHARS_MAX:]}"
        where = ".".join(filter(None, (prefix, place(error.absolute_path))))
        yield Remark(1, "error", "schema", rule, told_at(where, said), suggestion="Make it what the schema says.")
    for pattern in skipped:
        why = f"the pattern {pattern[:PROBLEM_CHARS_MAX]!r} of the schema was not tried"
        yield Remark(
            1, "warning", "schema", f"{rule}-pattern", why, suggestion="Write it in RE2's syntax: no look-around."
        )


def told_at(where: str, said: str) -> str:
    """What is wrong, with its place when there is one."""
    return f"{where}: {said}" if where else said


def _errors(value: Any, schema: Schema, skipped: dict[str, None]) -> list[Any]:
    """What the library finds, in order of place."""
    from jsonschema import Draft202012Validator, SchemaError  # some 50 ms that most contents need not
    from jsonschema.validators import extend, validator_for
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        careful = extend(kind, _keywords(_searching(skipped)))
        errors = careful(schema, registry=REGISTRY).iter_errors(value)
        return sorted(errors, key=lambda error: list(map(str, error.absolute_path)))
    except SchemaError as error:
        raise _refused(
            f"is no JSON Schema: {error.message[-PROBLEM_CHARS_MAX:]}", 'Send one like {"type": "object"}.'
        ) from None
    except Unresolvable as error:
        way_on = "Put what it refers to into its own $defs: no other machine is asked."
        raise _refused(f"refers to what it does not hold: {error}", way_on) from None


def _refused(why: str, suggestion: str) -> InvalidArgument:
    return InvalidArgument(f"schema {why}", suggestion=suggestion, details={"argument": "schema"})


def _searching(skipped: dict[str, None]) -> Search:
    """How patterns are tried: in linear time, or not at all. Python's own engine may take years for thirty letters."""
    compiled: dict[str, Any] = {}

    def search(pattern: str, text: str) -> bool:
        if pattern not in compiled and pattern not in skipped:
            try:
                compiled[pattern] = compile_linear(pattern)
            except ValueError:
                skipped[pattern] = None
        return pattern in skipped or compiled[pattern].search(text) is not None

    return search


def _keywords(search: Search) -> dict[str, Any]:
    """The keywords that hold patterns, tried by `search`."""
    from jsonschema import ValidationError

    def pattern(validator: Any, wanted: str, instance: Any, _schema: Schema) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not search(wanted, instance):
            yield ValidationError(f"{instance!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: Schema, instance: Any, _schema: Schema) -> Iterator[Any]:
        for name, value in instance.items() if validator.is_type(instance, "object") else ():
            for each, inner in wanted.items():
                if search(each, name):
                    yield from validator.descend(value, inner, path=name, schema_path=each)

    def additional_properties(validator: Any, wanted: Any, instance: Any, schema: Schema) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name in (
            name for name in instance if name not in known and not any(search(each, name) for each in patterns)
        ):
            if isinstance(wanted, Mapping):
                yield from validator.descend(instance[name], wanted, path=name)
            elif not wanted:
                yield ValidationError(f"{name!r} is not expected")

    return {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": additional_properties}
