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
    SecondPass,
    SecondPassResult,
    SecondPassRunner,
    open_runner,
)
from context_engine.context.llm_endpoint import Check, ModelDraft, ModelTokens
from tests.support.endpoints import only_connecting_to

SECOND = SecondPass("create_plan", "Order the steps.", {"type": "object"}, {"plan_id": "plan_1"})
COST = ModelTokens(100, 20)


class Stand:
    """A model that has its answer ready, and counts how often it is asked."""

    def __init__(self, answer: ModelDraft) -> None:
        self.answer = answer
        self.asked = 0
        self.is_closed = False

    def fill(self, brief: str, schema: Any, check: Check, cancel: threading.Event | None = None) -> ModelDraft:
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


def test_the_next_step_is_a_call_that_can_be_made() -> None:
    step = SECOND.next()
    assert step["tool"] == "create_plan" and step["brief"] == SECOND.brief and step["schema"] == SECOND.schema
    assert [*step["arguments_template"]] == ["plan_id", "draft", "submission_id"]
    assert json.loads(json.dumps(step)) == step


def test_what_is_not_stored_has_no_submission_id_and_an_agent_may_have_a_brief_of_its_own() -> None:
    own = SecondPass("t", "long", {}, {}, "findings", is_stored=False, host_brief="short").next()
    assert own["brief"] == "short" and [*own["arguments_template"]] == ["findings"]


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


def test_a_ladder_lets_go_of_its_model() -> None:
    stand = able()
    SecondPassRunner(stand).close()
    assert stand.is_closed
