"""Who takes a result further: a table of what the caller wants, what there is, and what comes of it."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.assist import (
    ASSIST_MODES,
    NO_MODEL,
    BriefSection,
    SecondPass,
    SecondPassResult,
    SecondPassRunner,
    accept_draft,
    build_brief,
    compute_draft_id,
    find_problem,
    open_runner,
    parse_draft,
)
from context_engine.context.llm_endpoint import Check, ModelDraft, ModelTokens, is_strict
from context_engine.text import estimate_tokens
from tests.support.endpoints import only_connecting_to

SECOND = SecondPass("create_plan", "Order the steps.", {"type": "object"}, {"plan_id": "plan_1"})
COST = ModelTokens(100, 20)


class Stand:
    """A model that has its answer ready, and counts how often it is asked."""

    def __init__(self, answer: ModelDraft) -> None:
        self.answer = answer
        self.asked = 0
        self.is_closed = False

    def fill(
        self, brief: str, schema: Any, check: Check, cancel: threading.Event | None = None, **_: Any
    ) -> ModelDraft:
        self.asked += 1
        assert (brief, schema, check({})) == (SECOND.brief, SECOND.schema, "")
        return self.answer

    def close(self) -> None:
        self.is_closed = True


def able() -> Stand:
    return Stand(ModelDraft({"steps": []}, tokens=COST))


def unable() -> Stand:
    return Stand(ModelDraft(failure="assist: no answer in time", tokens=COST))


NEXT = SECOND.next()


@pytest.mark.parametrize(
    ("assist", "model", "expected"),
    [
        ("off", able, SecondPassResult()),
        ("off", None, SecondPassResult()),
        ("host", able, SecondPassResult(next=NEXT)),
        ("host", None, SecondPassResult(next=NEXT)),
        ("auto", None, SecondPassResult(next=NEXT)),
        ("model", None, SecondPassResult(next=NEXT, warnings=(NO_MODEL,))),
        ("auto", able, SecondPassResult("model", {"steps": []}, tokens=COST)),
        ("model", able, SecondPassResult("model", {"steps": []}, tokens=COST)),
        ("auto", unable, SecondPassResult(next=NEXT, warnings=("assist: no answer in time",), tokens=COST)),
        ("model", unable, SecondPassResult(next=NEXT, warnings=("assist: no answer in time",), tokens=COST)),
    ],
)
def test_each_rung_gives_what_it_has_and_never_fails(assist: str, model: Any, expected: SecondPassResult) -> None:
    stand = model() if model else None
    assert SecondPassRunner(stand).run(SECOND, assist) == expected
    assert stand is None or stand.asked == (assist in ("auto", "model"))


PASSES = st.builds(
    SecondPass,
    tool=st.sampled_from("ab"),
    brief=st.sampled_from("xy"),
    schema=st.sampled_from([{}, {"type": "object"}]),
    arguments=st.dictionaries(st.sampled_from("pq"), st.integers(0, 2), max_size=2),
    draft=st.sampled_from(["draft", "findings"]),
)


@given(PASSES, PASSES)
def test_the_same_pass_has_the_same_id_and_another_one_another(one: SecondPass, other: SecondPass) -> None:
    assert (one.submission_id == other.submission_id) == (one == other)


def test_without_an_address_nothing_is_ever_connected_to() -> None:
    with only_connecting_to():
        bare = open_runner("", "", "", wait_s=1)
        for assist in ASSIST_MODES:
            bare.run(SECOND, assist)
        bare.close()


@pytest.mark.parametrize(
    ("address", "model", "key", "why"),
    [
        ("http://127.0.0.1:1", "", "", "CTX_ASSIST_MODEL is not set"),
        ("", "writer", "", "CTX_ASSIST_ADDRESS is not set"),
        ("127.0.0.1:1", "writer", "", "not the address of an endpoint"),
        ("http://127.0.0.1:1", "writer", "two\nlines", "characters that no key has"),
    ],
)
def test_settings_that_cannot_work_are_told_to_whoever_climbs(address: str, model: str, key: str, why: str) -> None:
    with only_connecting_to():
        climbed = open_runner(address, model, key, wait_s=1).run(SECOND, "auto")
    assert why in climbed.warnings[0] and climbed.next == NEXT


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
    if isinstance(value, dict | list):
        for prose in ("```json\n{}\n```", "Sure [as asked]: {} I hope {{it}} helps", "<think>{{a}} or []</think> {}"):
            assert accept_draft(prose.format(json.dumps(value, indent=1)), schema) == value
    assert compute_draft_id(value) == compute_draft_id(json.loads(json.dumps(value)))


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


@pytest.mark.parametrize(
    "text", ["NaN", '{"a": Infinity}', "", "[" * 100_000, "```\n```", "hello {you}", '{"a": [{"b": 1}], ']
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|nested|not JSON|property name"):
        parse_draft(text)


def test_a_schema_is_strict_only_when_all_its_objects_are() -> None:
    inner = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    assert is_strict({**inner, "properties": {"a": {"type": "array", "items": inner}}})
    assert not is_strict(PLAN)
    assert not is_strict({**inner, "properties": {"a": {"anyOf": [inner, {"type": "object"}]}}})
    assert not is_strict({**inner, "$defs": {"b": {"type": "object"}}})


TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
LINES = st.text(st.sampled_from("ab Z9_.\n{}=\u00e4\u4ee3"), max_size=120)
PARTS = st.lists(st.builds(BriefSection, st.sampled_from(["Files", "Rules"]), st.lists(LINES, max_size=12)), max_size=4)


@given(LINES, PARTS, st.integers(20, 300))
def test_no_brief_is_over_its_tokens(task: str, parts: list[BriefSection], tokens_max: int) -> None:
    assert estimate_tokens(build_brief(task, parts, tokens_max=tokens_max)) <= tokens_max


@given(LINES, PARTS)
def test_with_room_everything_is_in_it_in_its_order(task: str, parts: list[BriefSection]) -> None:
    text = build_brief(task, parts, tokens_max=100_000)
    place = 0
    for line in (line for part in parts for line in part.lines):
        place = text.index(f"- {line}", place) + len(line)
    assert text.startswith(task) and "more" not in text


def test_nothing_secret_is_in_a_brief() -> None:
    text = build_brief(f"Use {TOKEN}.", [BriefSection("Files", [f"token = '{TOKEN}'"])])
    assert TOKEN not in text and text.count("[") >= 2
