"""A draft as it is handed back: read, held against its schema, named by what it says."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.assist import accept_draft, compute_draft_id, find_problem, parse_draft
from context_engine.context.llm_endpoint import is_strict
from context_engine.errors import InvalidArgument

PLAN = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["title"],
                "properties": {"title": {"type": "string", "maxLength": 9}},
            },
        }
    },
    "required": ["steps"],
    "additionalProperties": False,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_value_and_the_same_value_as_text_are_the_same_draft(value: Any) -> None:
    schema = {"type": ["object", "array", "null", "boolean", "integer"]}
    if not isinstance(value, str):
        assert accept_draft(json.dumps(value), schema) == accept_draft(value, schema) == value
        assert accept_draft(f"```json\n{json.dumps(value, indent=1)}\n```", schema) == value
    assert compute_draft_id(value) == compute_draft_id(json.loads(json.dumps(value)))


@given(JSON)
def test_what_is_taken_keeps_to_its_schema_and_what_is_not_says_why(value: Any) -> None:
    valid = jsonschema.Draft202012Validator(PLAN).is_valid(value)
    assert (find_problem(value, PLAN) == "") == valid
    if not valid:
        with pytest.raises(InvalidArgument):
            accept_draft(value, PLAN)


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ({}, "'steps' is a required property"),
        ({"steps": [{"title": "a"}, {}]}, "steps[1]: 'title' is a required property"),
        ({"steps": [{"title": "x" * 10_000}]}, "steps[0].title: "),
        ({"steps": [{}] * 30}, "; and 25 more"),
        ({"steps": [], "extra": 1}, "'extra' was unexpected"),
    ],
)
def test_a_fault_is_told_with_its_place_and_at_a_readable_length(draft: Any, said: str) -> None:
    told = find_problem(draft, PLAN)
    assert said in told and len(told) < 600


def test_a_refusal_names_the_argument_and_the_next_step() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        accept_draft('{"steps": ', PLAN, "findings")
    assert refusal.value.message.startswith("findings is not valid JSON") and "schema" in refusal.value.suggestion
    assert refusal.value.details == {"argument": "findings"}


@pytest.mark.parametrize("text", ["NaN", '{"a": Infinity}', "", "[" * 100_000, "```\n```", "hello {}"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|nested|not JSON"):
        parse_draft(text)


def test_a_text_that_is_wanted_as_a_text_is_left_as_it_is() -> None:
    assert accept_draft('{"a": 1}', {"type": "string"}) == '{"a": 1}'


def test_a_schema_is_strict_only_when_all_its_objects_are() -> None:
    inner = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    assert is_strict({**inner, "properties": {"a": {"type": "array", "items": inner}}})
    assert not is_strict(PLAN)
    assert not is_strict({**inner, "properties": {"a": {"anyOf": [inner, {"type": "object"}]}}})
    assert not is_strict({**inner, "$defs": {"b": {"type": "object"}}})
