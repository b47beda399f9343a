r"""PURE. Drafts that a model or an agent sends: read as JSON, checked against a schema, identified by content.

>>> schema = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
>>> accept_draft('```json\n{"title": "Retry"}\n```', schema), find_problem({"title": 3}, schema)
({'title': 'Retry'}, "title: 3 is not of type 'string'")
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from context_engine.errors import InvalidArgument
from context_engine.text import ParseError, read_json

PROBLEM_CHARS_MAX = 200
"""Characters of a validator's message, which may repeat the whole wrong value."""
PROBLEMS_MAX = 5
"""Problems in one message; others show up when these are corrected."""
ID_CHARS = 12

NAMED = ("properties", "$defs")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = ("items", "not")
"""Keywords with schemas inside: by name, in a list, or one. Ours contain objects there, never `true` or `false`."""

Schema = Mapping[str, Any]

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A\s*```\w*[ \t]*\r?\n(?P<inside>.*)```\s*+\Z", re.DOTALL)


def accept_draft(given: Any, schema: Schema, name: str = "draft") -> Any:
    """Return a draft, given as a value or as JSON text, if it matches its schema.

    Raises: InvalidArgument, naming the place.
    """
    draft = given
    if isinstance(given, str) and schema.get("type") != "string":
        try:
            draft = parse_draft(given)
        except ValueError as error:
            raise _draft_error(name, f"is not valid JSON: {error}") from None
    if problem := find_problem(draft, schema):
        raise _draft_error(name, f"does not match its schema: {problem}")
    return draft


def _draft_error(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name} {why}",
        suggestion=f"Correct {name} and send it again; the schema is in the reply that asked for it.",
        details={"argument": name},
    )


def parse_draft(text: str) -> Any:
    """Return the JSON of a text, which may be in a code fence and after a model's thoughts. Raises: ValueError.

    >>> parse_draft('<think>hm {</think> {"a": 1}')
    {'a': 1}
    """
    answer = _THOUGHT.sub("", text, count=1)
    if fenced := _FENCE.match(answer):
        answer = fenced["inside"]
    try:
        return read_json(answer)
    except ParseError as error:
        raise ValueError(str(error).removeprefix("not JSON: ")) from None


def find_problem(draft: Any, schema: Schema) -> str:
    """Return what is wrong with a draft, each problem with its location; empty if it matches its schema."""
    from jsonschema import Draft202012Validator  # slow to import, and only for second passes

    try:
        errors = sorted(Draft202012Validator(schema).iter_errors(draft), key=lambda error: list(map(str, error.path)))
    except RecursionError:
        return "it is nested too deep"
    problems = [_format_problem(error) for error in errors]
    more = ""
    if len(problems) > PROBLEMS_MAX:
        more = f"; and {len(problems) - PROBLEMS_MAX} more"
    return "; ".join(problems[:PROBLEMS_MAX]) + more


def _format_problem(error: Any) -> str:
    message, location = error.message, format_location(error.path)
    if len(message) > PROBLEM_CHARS_MAX:
        message = f"… {message[-PROBLEM_CHARS_MAX:]}"
    if location:
        return f"{location}: {message}"
    return message


def format_location(path: Iterable[str | int]) -> str:
    """Format a location in a draft.

    >>> format_location(["steps", 2, "title"])
    'steps[2].title'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def compute_draft_id(draft: Any) -> str:
    """Return an id that depends on the content of a draft, but not on the order of its fields.

    >>> compute_draft_id({"a": 1, "b": [2]}) == compute_draft_id({"b": [2], "a": 1})
    True
    """
    text = json.dumps(draft, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"sub_{sha256(text.encode()).hexdigest()[:ID_CHARS]}"


def is_strict(schema: Schema) -> bool:
    """Return whether every object in a schema lists and requires all its fields; some endpoints enforce such schemas.

    >>> is_strict({"type": "object", "properties": {}, "required": [], "additionalProperties": False})
    True
    >>> is_strict({"type": "object"})
    False
    """
    if schema.get("type") == "object" or "properties" in schema:
        is_closed = schema.get("additionalProperties") is False
        if not is_closed or {*schema.get("properties", {})} != {*schema.get("required", ())}:
            return False
    return all(is_strict(inner) for inner in _inner_schemas(schema))


def _inner_schemas(schema: Schema) -> Iterable[Schema]:
    for name in NAMED:
        yield from schema.get(name, {}).values()
    for name in LISTED:
        yield from schema.get(name, ())
    yield from (schema[name] for name in SINGLE if name in schema)
