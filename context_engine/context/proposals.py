r"""PURE. A draft as somebody hands it back: JSON out of a text, held against its schema, told apart by what it says.

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
"""Of what a validator says: it repeats the whole value that is wrong."""
PROBLEMS_MAX = 5
"""Told at once; whoever mends these looks again."""
ID_CHARS = 12

NAMED = ("properties", "$defs")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = ("items", "not")
"""Where schemas stand inside a schema: by a name, in a list, alone. Ours hold objects there, never `true` or `false`."""

Schema = Mapping[str, Any]

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A\s*```\w*[ \t]*\r?\n(?P<inside>.*)```\s*+\Z", re.DOTALL)


def accept_draft(given: Any, schema: Schema, name: str = "draft") -> Any:
    """The draft, as a value or as JSON in a text, if it keeps to its schema.

    Raises: InvalidArgument, naming the place.
    """
    draft = given
    if isinstance(given, str) and schema.get("type") != "string":
        try:
            draft = parse_draft(given)
        except ValueError as error:
            raise _refused(name, f"is no JSON: {error}") from None
    if wrong := find_problem(draft, schema):
        raise _refused(name, f"does not keep to its schema: {wrong}")
    return draft


def _refused(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name} {why}",
        suggestion=f"Correct {name} and send it again; the schema stands in the reply that asked for it.",
        details={"argument": name},
    )


def parse_draft(text: str) -> Any:
    """The JSON of a text that may stand in a code fence, and behind a model's thoughts. Raises: ValueError.

    >>> parse_draft('<think>hm {</think> {"a": 1}')
    {'a': 1}
    """
    plain = _THOUGHT.sub("", text, count=1)
    if fenced := _FENCE.match(plain):
        plain = fenced["inside"]
    try:
        return read_json(plain)
    except ParseError as error:
        raise ValueError(str(error).removeprefix("not JSON: ")) from None


def find_problem(draft: Any, schema: Schema) -> str:
    """What is wrong with a draft, each fault with its place; empty when nothing is."""
    from jsonschema import Draft202012Validator  # only a second pass needs it, and it imports for a while

    try:
        errors = sorted(Draft202012Validator(schema).iter_errors(draft), key=lambda error: list(map(str, error.path)))
    except RecursionError:
        return "it is nested too deep"
    told = [
        f"{where}: {said}" if (where := format_location(error.path)) else said
        for error in errors
        if (said := _said(error))
    ]
    more = f"; and {len(told) - PROBLEMS_MAX} more" if len(told) > PROBLEMS_MAX else ""
    return "; ".join(told[:PROBLEMS_MAX]) + more


def _said(error: Any) -> str:
    """What a validator says of one fault, cut where it repeats a whole draft."""
    said = error.message
    return said if len(said) <= PROBLEM_CHARS_MAX else f"… {said[-PROBLEM_CHARS_MAX:]}"


def format_location(path: Iterable[str | int]) -> str:
    """A place in a draft, as people write it.

    >>> format_location(["steps", 2, "title"])
    'steps[2].title'
    """
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")


def compute_draft_id(draft: Any) -> str:
    """What names a draft by what it says, whatever the order of its fields.

    >>> compute_draft_id({"a": 1, "b": [2]}) == compute_draft_id({"b": [2], "a": 1}), compute_draft_id({"a": 1}) == compute_draft_id({"a": 2})
    (True, False)
    """
    text = json.dumps(draft, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"sub_{sha256(text.encode()).hexdigest()[:ID_CHARS]}"


def is_strict(schema: Schema) -> bool:
    """Whether every object in a schema names all its fields and wants them all: what some endpoints can hold a model to.

    >>> is_strict({"type": "object", "properties": {}, "required": [], "additionalProperties": False}), is_strict({"type": "object"})
    (True, False)
    """
    if schema.get("type") == "object" or "properties" in schema:
        closed = schema.get("additionalProperties") is False
        if not closed or {*schema.get("properties", {})} != {*schema.get("required", ())}:
            return False
    return all(is_strict(inner) for inner in _inner(schema))


def _inner(schema: Schema) -> Iterable[Schema]:
    """The schemas inside a schema."""
    yield from (each for name in NAMED for each in schema.get(name, {}).values())
    yield from (each for name in LISTED for each in schema.get(name, ()))
    yield from (schema[name] for name in SINGLE if name in schema)
