"""A plan reads as it was written; what somebody else wrote is understood where it can only be meant one way, else refused by field."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from context_engine.context.llm_endpoint import is_strict
from context_engine.errors import CallError, InvalidArgument, InvalidPlan, TooLarge
from context_engine.plans.model import Plan, PlanStep
from context_engine.plans.plan_json import (
    BYTES_MAX,
    STEPS_MAX,
    draft_schema,
    hash_content,
    hash_step,
    normalize_plan,
    parse_plan,
    serialize_plan,
)
from tests.support.planned import plan_of, plans

TWO = {"goal": "Ship", "steps": [{"title": "Write"}, {"title": "Test", "depends_on": [1]}]}


def told_of(plan: Plan) -> dict[str, Any]:
    return json.loads(json.dumps(serialize_plan(plan)))


def steps(*rows: Any, **fields: Any) -> Plan:
    return parse_plan({"goal": "Ship", "steps": list(rows), **fields}).plan


# -- what is written --------------------------------------------------------------------------------------------------


@given(plans(acyclic=False))
def test_a_plan_reads_as_it_was_written(plan: Plan) -> None:
    told = told_of(plan)
    assert parse_plan(told).plan == plan
    assert parse_plan(told).remarks == ()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["goal", "steps", "title", "depends_on", "uid", "hours", "risks", "questions", "id", "evidence"]), inner, max_size=5), max_leaves=15))  # fmt: skip
def test_whatever_is_sent_is_read_or_refused(value: object) -> None:
    refusal = None
    try:
        plan = parse_plan(value).plan
    except CallError as error:
        refusal = error
    assert refusal.suggestion if refusal else parse_plan(told_of(plan)).plan == plan


# -- what is understood -----------------------------------------------------------------------------------------------


def test_a_draft_may_say_things_loosely() -> None:
    plan = steps(
        "Look around",
        {"title": "  Write\n it ", "files_to_modify": "src/a.py", "depends_on": "1", "priority": "HIGH", "hours": 2},
        {"title": "Test", "depends_on": [2.0, "1"], "description": None, "acceptance_criteria": ["", " passes "]},
        risks=["It is slow"],
        testing_strategy={"coverage_target": 90},
        questions=["Why?"],
    )
    assert [step.title for step in plan.steps] == ["Look around", "Write it", "Test"]
    assert plan.steps[1].files_to_modify == ("src/a.py",)
    assert plan.steps[1].priority == "high"
    assert plan.steps[1].hours == 2
    assert plan.steps[2].depends_on == ("s1", "s2")
    assert plan.steps[2].acceptance_criteria == ("passes",)
    assert (plan.risks[0].issue, plan.testing_strategy.coverage_target) == ("It is slow", "90")
    assert [(each.id, each.text) for each in plan.questions] == [("q1", "Why?")]


def test_a_step_is_referred_to_by_the_number_it_states() -> None:
    read = parse_plan(
        {
            "goal": "g",
            "steps": [{"step_number": 20, "title": "b", "depends_on": [10]}, {"step_number": 10, "title": "a"}],
        }
    )
    assert [(step.title, step.depends_on) for step in read.plan.steps] == [("b", ("s2",)), ("a", ())]
    assert [remark.code for remark in read.remarks] == ["RENUMBERED"]


def test_a_dependency_on_a_step_that_is_not_there_stays_visible() -> None:
    plan = steps({"title": "a", "depends_on": [9]})
    assert plan.steps[0].depends_on == ("9",)
    assert serialize_plan(plan)["steps"][0]["depends_on"] == [9]


def test_a_field_that_no_plan_has_is_named() -> None:
    read = parse_plan({"goal": "g", "colour": 1, "steps": [{"title": "a", "tilte": "b"}], "scope": {"in": []}})
    assert [remark.path for remark in read.remarks] == ["colour", "steps[0].tilte", "scope.in"]


# -- uids -------------------------------------------------------------------------------------------------------------


def test_a_step_keeps_its_uid_in_a_draft_that_does_not_know_it() -> None:
    before = steps({"title": "Write"}, {"title": "Test"}, {"title": "Ship"})
    after = parse_plan(
        {"goal": "g", "steps": [{"title": "ship"}, {"title": "Think"}, {"title": "Write"}]}, before=before
    ).plan
    assert [step.uid for step in after.steps] == ["s3", "s4", "s1"]


def test_no_uid_is_given_twice() -> None:
    before = steps({"title": "Write"}, {"title": "Test"})
    without = msgspec.structs.replace(before, steps=before.steps[:1])
    after = normalize_plan(msgspec.structs.replace(without, steps=(*without.steps, PlanStep(title="Test again"))))
    assert [step.uid for step in after.steps] == ["s1", "s3"]


@given(plans(), plans())
def test_a_draft_never_takes_two_steps_for_one(before: Plan, draft: Plan) -> None:
    rows = [{"title": step.title} for step in draft.steps]
    uids = [step.uid for step in parse_plan({"goal": "g", "steps": rows}, before=before).plan.steps]
    assert len(set(uids)) == len(rows)


def test_a_step_is_found_by_number_and_by_uid() -> None:
    plan = plan_of((), ())
    assert plan.find_step(2) == plan.find_step("2") == plan.find_step("s2") == plan.steps[1]
    for wrong in (0, 3, "s9", "9" * 5000, "-1"):
        with pytest.raises(InvalidArgument) as refused:
            plan.find_step(wrong)
        assert "1 to 2" in refused.value.suggestion


# -- hashes -----------------------------------------------------------------------------------------------------------


@given(plans(), plans())
def test_plans_have_one_hash_when_they_say_the_same(one: Plan, other: Plan) -> None:
    again = msgspec.structs.replace(one, id="plan_x", version=9, created_at="2026-11-21", uids_minted=99)
    assert hash_content(again) == hash_content(one)
    fields = [field for field in Plan.__struct_fields__ if field not in ("id", "version", "created_at", "uids_minted")]
    same = all(getattr(one, field) == getattr(other, field) for field in fields)
    assert (hash_content(one) == hash_content(other)) == same


def test_the_work_of_a_step_does_not_change_with_what_it_waits_for() -> None:
    step = PlanStep(uid="s1", title="Write", depends_on=("s2",))
    assert hash_step(msgspec.structs.replace(step, depends_on=(), priority="high")) == hash_step(step)
    assert hash_step(msgspec.structs.replace(step, files_to_modify=("a",))) != hash_step(step)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "path", "expected"),
    [
        ({"steps": []}, "", "goal"),
        ({"goal": " "}, "goal", "length"),
        ({"goal": "g", "steps": [{"title": "a"}, {"description": "b"}]}, "steps[1]", "title"),
        ({"goal": "g", "steps": [{"title": 3}]}, "steps[0].title", "str"),
        ({"goal": "g", "steps": {"a": 1}}, "steps", "array"),
        ({"goal": "0", "steps": "00"}, "steps", "list"),
        ({"goal": "g", "steps": [{"title": "a", "priority": "urgent"}]}, "steps[0].priority", "urgent"),
        ({"goal": "g", "steps": [{"title": "a", "hours": -1}]}, "steps[0].hours", ">= 0"),
        ({"goal": "g", "steps": [{"title": "a", "uid": "../x"}]}, "steps[0].uid", "regex"),
        ({"goal": "g", "steps": [{"title": "a", "uid": "7"}]}, "steps[0].uid", "regex"),
        ({"goal": "g", "steps": [{"title": "a", "depends_on": [True]}]}, "steps[0].depends_on[0]", "str"),
        ({"goal": "g", "steps": [{"title": "a", "step_number": "x"}]}, "steps[0].step_number", "number"),
        ({"goal": "g", "confidence_score": 2}, "confidence_score", "1.0"),
        ({"goal": "g", "confidence_score": float("nan")}, "confidence_score", ""),
        ("not json", "", "object"),
        ("[1]", "", "object"),
        ("[" * 100_000, "", "object"),
        ({"goal": "half \ud800"}, "", "characters"),
        ({"goal": object()}, "", "object"),
        (7, "", "object"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_belongs_there(sent: object, path: str, expected: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_plan(sent)
    assert refused.value.details["path"] == path
    assert expected in refused.value.message + refused.value.details["expected"]
    assert "load_plan" in refused.value.suggestion


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([{"title": "a", "uid": "x"}, {"title": "b", "uid": "x"}], "uid"),
        ([{"title": "a", "step_number": 2}, {"title": "b", "step_number": 2}], "step_number"),
    ],
)
def test_a_name_given_twice_is_refused(rows: list[dict[str, Any]], what: str) -> None:
    with pytest.raises(InvalidPlan) as refused:
        parse_plan({"goal": "g", "steps": rows})
    assert refused.value.details["steps"] == [1, 2]
    assert what in refused.value.message


def test_what_is_too_large_is_refused_by_its_size() -> None:
    with pytest.raises(TooLarge) as refused:
        parse_plan({"goal": "g" * 3_000_000})
    assert refused.value.details["bytes_max"] == BYTES_MAX
    with pytest.raises(TooLarge) as refused:
        parse_plan({"goal": "g", "steps": ["a"] * (STEPS_MAX + 1)})
    assert refused.value.details["steps_max"] == STEPS_MAX


# -- the schema -------------------------------------------------------------------------------------------------------


def test_the_schema_of_drafts_holds_whoever_fills_it_to_a_plan() -> None:
    assert is_strict(draft_schema())
    Draft202012Validator.check_schema(draft_schema())
    sample = {key: _sample(value) for key, value in draft_schema()["properties"].items()}
    read = parse_plan(sample)
    assert read.remarks == ()
    assert read.plan.steps[0].files_to_create == ("x",)


def _sample(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {key: _sample(value) for key, value in schema["properties"].items()}
    return {"array": lambda: [_sample(schema["items"])], "integer": lambda: 1, "string": lambda: "x"}[schema["type"]]()
