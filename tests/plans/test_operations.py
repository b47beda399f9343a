"""Operations change a copy of a plan, all or none; numbers are those from before, uids stay, what is done is not touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import CallError, InvalidArgument, PreconditionFailed
from context_engine.plans.model import Milestone, Plan, PlanQuestion, PlanStep
from context_engine.plans.operations import (
    OPERATIONS_MAX,
    OperationsResult,
    apply_operations,
    check_done_steps,
)
from context_engine.plans.plan_json import normalize_plan, parse_plan, serialize_plan
from tests.support.planned import FILES, plan_of, plans


def done(plan: Plan, *operations: Mapping[str, Any], closed: tuple[str, ...] = (), force: bool = False) -> Plan:
    return apply_operations(plan, operations, closed=closed, force_reopen=force).plan


def uids(plan: Plan) -> list[str]:
    return [step.uid for step in plan.steps]


def waits(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {step.uid: step.depends_on for step in plan.steps}


STEPS = st.integers(0, 8) | st.sampled_from(["s1", "s3", "s99", "2"])
ANY = st.one_of(
    st.builds(lambda step: {"op": "remove_step", "step": step}, STEPS),
    st.builds(lambda step, to: {"op": "move_step", "step": step, "to": to}, STEPS, STEPS),
    st.builds(lambda step, other: {"op": "move_step", "step": step, "before": other}, STEPS, STEPS),
    st.builds(lambda after: {"op": "add_step", "title": "New", "after": after, "depends_on": [after]}, STEPS),
    st.builds(lambda step: {"op": "split_step", "step": step, "into": ["One", {"title": "Two", "files_to_modify": [FILES[0]]}]}, STEPS),
    st.builds(lambda steps: {"op": "merge_steps", "steps": steps}, st.lists(STEPS, max_size=3)),
    st.builds(lambda step, on: {"op": "set_dependencies", "step": step, "depends_on": on}, STEPS, st.lists(STEPS, max_size=2)),
    st.builds(lambda step, title: {"op": "update_step", "step": step, "title": title}, STEPS, st.sampled_from(["x", ""])),
    st.builds(lambda step, hours: {"op": "set_estimate", "step": step, "hours": hours}, STEPS, st.sampled_from([2, -1])),
    st.builds(lambda path: {"op": "exclude", "path": path}, st.sampled_from(["src/**", "*.py", "nothing"])),
    st.sampled_from([{"op": "add_risk", "issue": "slow"}, {"op": "set_goal", "goal": "g"}, {"op": "set_scope", "excluded": ["x"]}, {"op": "fly"}]),
)  # fmt: skip


def test_a_step_that_an_operation_adds_is_never_a_done_one() -> None:
    new = {"op": "add_step", "title": "New"}
    assert uids(done(plan_of((), ()), new, {"op": "remove_step", "step": "s3"}, closed=("s3",))) == ["s1", "s2"]


@given(plans(), st.lists(ANY, max_size=5), st.sets(st.sampled_from(["s1", "s2", "s3"])))
def test_whatever_is_asked_a_plan_comes_out_or_a_refusal(
    plan: Plan, operations: list[dict[str, Any]], closed: set[str]
) -> None:
    try:
        found = apply_operations(plan, operations, closed=closed)
    except CallError as refused:
        assert refused.suggestion  # noqa: PT017 - either outcome is right; each has its own law
        return
    assert len(set(uids(found.plan))) == len(found.plan.steps)
    assert found.plan == normalize_plan(found.plan)
    assert parse_plan(serialize_plan(found.plan)).plan == found.plan
    assert len(found.applied) == len(operations)
    assert found.plan.uids_minted >= plan.uids_minted
    old = {step.uid: step for step in plan.steps}
    for step in found.plan.steps:
        if step.uid in closed and step.uid in old:
            kept = msgspec.structs.replace(step, depends_on=old[step.uid].depends_on)
            assert kept == old[step.uid], "a step that is done keeps its work"


def test_numbers_are_those_from_before_the_first_operation() -> None:
    operations = [
        {"op": "remove_step", "step": 1},
        {"op": "update_step", "step": 3, "title": "Third"},
        {"op": "remove_step", "step": 2},
    ]
    plan = done(plan_of((), (), ()), *operations)
    assert [(step.uid, step.title) for step in plan.steps] == [("s3", "Third")]


def test_a_new_step_gets_a_uid_that_no_step_ever_had() -> None:
    plan = done(
        plan_of((), ()),
        {"op": "remove_step", "step": 2},
        {"op": "add_step", "title": "New", "before": 1, "depends_on": []},
    )
    assert uids(plan) == ["s3", "s1"]
    again = done(plan, {"op": "remove_step", "step": 1}, {"op": "add_step", "title": "Newer"})
    assert uids(again) == ["s1", "s4"]


def test_a_new_step_stands_where_it_is_said() -> None:
    plan = plan_of((), ())
    for where, place in (({}, 2), ({"to": 1}, 0), ({"after": 1}, 1), ({"before": "s2"}, 1), ({"to": "3"}, 2)):
        assert uids(done(plan, {"op": "add_step", "title": "New", **where})).index("s3") == place


def test_a_step_is_split_into_parts_that_follow_each_other() -> None:
    start = plan_of((), (1,), (2,))
    step = msgspec.structs.replace(start.steps[1], files_to_modify=("a", "b"), hours=2)
    start = msgspec.structs.replace(
        start, steps=(start.steps[0], step, start.steps[2]), milestones=(Milestone("M", ("s2",)),)
    )
    plan = done(start, {"op": "split_step", "step": 2, "into": ["One", {"title": "Two", "files_to_modify": ["b"]}]})
    assert [(each.uid, each.title, each.files_to_modify) for each in plan.steps[1:3]] == [
        ("s2", "One", ("a",)),
        ("s4", "Two", ("b",)),
    ]
    assert waits(plan) == {"s1": (), "s2": ("s1",), "s4": ("s2",), "s3": ("s4",)}
    assert plan.steps[1].hours == plan.steps[2].hours == 1
    assert plan.milestones[0].steps_included == ("s2", "s4")


def test_merged_steps_do_the_work_of_all() -> None:
    start = plan_of((), (1,), (1,), (2, 3))
    extra = {"acceptance_criteria": ("x",), "hours": 1.0, "priority": "high"}
    rows = [start.steps[0], msgspec.structs.replace(start.steps[1], files_to_modify=("a",)), msgspec.structs.replace(start.steps[2], files_to_modify=("a", "b"), **extra), start.steps[3]]  # fmt: skip
    plan = done(
        msgspec.structs.replace(start, steps=tuple(rows), milestones=(Milestone("M", ("s3",)),)),
        {"op": "merge_steps", "steps": [3, 2]},
    )
    assert waits(plan) == {"s1": (), "s2": ("s1",), "s4": ("s2",)}
    merged = plan.steps[1]
    assert (merged.title, merged.files_to_modify, merged.acceptance_criteria) == ("Step 2; Step 3", ("a", "b"), ("x",))
    assert (merged.priority, merged.hours) == ("high", 1)
    assert plan.milestones[0].steps_included == ("s2",)


def test_files_join_a_step_and_leave_it() -> None:
    plan = done(plan_of(()), {"op": "set_files", "step": 1, "files_to_modify": ["a"], "files_to_create": ["b"]})
    plan = done(plan, {"op": "set_files", "step": 1, "add": ["a", "c"], "remove": ["b"]})
    assert (plan.steps[0].files_to_modify, plan.steps[0].files_to_create) == (("a", "c"), ())
    with pytest.raises(InvalidArgument, match="does not touch 'd'"):
        done(plan, {"op": "set_files", "step": 1, "remove": ["d"]})


def test_a_moved_step_keeps_what_it_waits_for() -> None:
    plan = done(plan_of((), (1,), (2,)), {"op": "move_step", "step": 3, "to": 1})
    assert uids(plan) == ["s3", "s1", "s2"]
    assert waits(plan)["s3"] == ("s2",)
    assert uids(done(plan, {"op": "move_step", "step": "s3", "after": "s2"})) == ["s1", "s2", "s3"]


def test_dependencies_are_set_added_and_taken_away() -> None:
    plan = plan_of((), (), (1,))
    assert waits(done(plan, {"op": "set_dependencies", "step": 3, "add": [2]}))["s3"] == ("s1", "s2")
    assert waits(done(plan, {"op": "set_dependencies", "step": 3, "remove": [1]}))["s3"] == ()
    assert waits(done(plan, {"op": "set_dependencies", "step": 3, "depends_on": [2]}))["s3"] == ("s2",)


def test_a_question_is_answered_by_its_id_or_its_words() -> None:
    plan = plan_of(questions=(PlanQuestion("q1", "Which one?"), PlanQuestion("q2", "Why?")))
    found = done(
        plan,
        {"op": "answer_question", "question": "q1", "answer": "the left"},
        {"op": "answer_question", "question": "why?", "answer": "because"},
    )
    assert [each.answer for each in found.questions] == ["the left", "because"]
    assert found.open_questions == ()
    with pytest.raises(InvalidArgument) as refused:
        done(plan, {"op": "answer_question", "question": "q3", "answer": "x"})
    assert "q1: Which one?" in refused.value.suggestion


def test_excluded_files_leave_the_steps_and_empty_steps_leave_the_plan() -> None:
    rows = [{"title": "a", "files_to_modify": ["docs/a.md"]}, {"title": "b", "files_to_modify": ["docs/b.md", "src/b.py"], "depends_on": 1}, {"title": "c", "depends_on": 1}]  # fmt: skip
    plan = done(parse_plan({"goal": "g", "steps": rows}).plan, {"op": "exclude", "path": "docs/**"})
    assert [(step.uid, step.files_to_modify, step.depends_on) for step in plan.steps] == [
        ("s2", ("src/b.py",), ()),
        ("s3", (), ()),
    ]
    assert plan.scope.excluded == ("docs/**",)


def test_excluding_files_leaves_what_is_done_as_it_is() -> None:
    rows = [
        {"title": "a", "files_to_modify": ["docs/a.md", "src/a.py"]},
        {"title": "b", "files_to_modify": ["docs/b.md", "src/b.py"]},
    ]
    plan = done(parse_plan({"goal": "g", "steps": rows}).plan, {"op": "exclude", "path": "docs/**"}, closed=("s1",))
    assert [step.files_to_modify for step in plan.steps] == [("docs/a.md", "src/a.py"), ("src/b.py",)]


def test_the_rest_of_a_plan_is_changed() -> None:
    plan = done(
        plan_of(),
        {"op": "add_risk", "issue": "It is slow", "likelihood": "high"},
        {"op": "set_scope", "constraints": ["no network"]},
        {"op": "set_goal", "goal": "Ship  it\nsoon"},
    )
    assert (plan.risks[0].issue, plan.risks[0].likelihood) == ("It is slow", "high")
    assert (plan.scope.constraints, plan.goal) == (("no network",), "Ship it soon")


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        ({"op": "remove_steps", "step": 1}, "Did you mean remove_step?"),
        ({"op": "fly"}, "add_step"),
        ({}, "add_step"),
        ({"op": "remove_step"}, "step"),
        ({"op": "remove_step", "stp": 1}, "Did you mean step?"),
        ({"op": "remove_step", "step": 9}, "from 1 to 2"),
        ({"op": "remove_step", "step": True}, "int | str"),
        ({"op": "update_step", "step": 1}, "title"),
        ({"op": "update_step", "step": 1, "priority": "urgent"}, "step.priority"),
        ({"op": "add_step", "title": ""}, "step.title"),
        ({"op": "add_step", "title": "x", "uid": "s1"}, "Leave uid out"),
        ({"op": "add_step", "title": "x", "to": 9}, "1 to 3"),
        ({"op": "split_step", "step": 1, "into": ["one"]}, "into"),
        ({"op": "merge_steps", "steps": [1, "s1"]}, '"steps": [2, 3]'),
        ({"op": "move_step", "step": 1}, "before"),
        ({"op": "move_step", "step": 1, "after": 1}, "another step"),
        ({"op": "set_dependencies", "step": 1}, "depends_on"),
        ({"op": "set_files", "step": 1}, "files_to_modify"),
        ({"op": "set_estimate", "step": 1, "effort": "soon"}, "hours"),
        ({"op": "set_estimate", "step": 1, "hours": -1}, "hours"),
        ({"op": "set_scope"}, "excluded"),
        ({"op": "set_goal", "goal": " "}, "for"),
        ({"op": "add_risk"}, "issue"),
    ],
)  # fmt: skip
def test_an_operation_that_cannot_be_meant_is_refused_with_its_place(operation: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        done(plan_of((), ()), {"op": "set_goal", "goal": "other"}, operation)
    assert says in refused.value.suggestion
    assert refused.value.details["operation"] == 1


def test_a_step_that_an_operation_before_has_removed_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="was removed"):
        done(
            plan_of((), ()), {"op": "remove_step", "step": 1}, {"op": "set_files", "step": 1, "files_to_create": ["a"]}
        )


def test_what_is_no_operation_or_too_many_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not an object"):
        apply_operations(plan_of(()), ["remove step 1"])
    with pytest.raises(InvalidArgument, match="at most"):
        apply_operations(plan_of(()), [{"op": "set_goal", "goal": "x"}] * (OPERATIONS_MAX + 1))


# -- what is done ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove_step", "step": 1},
        {"op": "update_step", "step": 1, "title": "x"},
        {"op": "split_step", "step": 1, "into": ["a", "b"]},
        {"op": "merge_steps", "steps": [1, 2]},
        {"op": "set_dependencies", "step": 1, "depends_on": [2]},
        {"op": "set_files", "step": 1, "files_to_create": ["a"]},
        {"op": "set_estimate", "step": 1, "hours": 1},
    ],
)
def test_a_step_that_is_done_is_changed_only_by_force(operation: dict[str, Any]) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        done(plan_of((), ()), operation, closed=("s1",))
    assert "force_reopen" in refused.value.suggestion
    assert refused.value.details["steps"] == [1]
    found: OperationsResult = apply_operations(plan_of((), ()), [operation], closed=("s1",), force_reopen=True)
    assert found.reopened == (() if operation["op"] == "remove_step" else ("s1",))


def test_a_draft_leaves_what_is_done_as_it_is() -> None:
    before = plan_of((), (1,))
    kept = msgspec.structs.replace(before, steps=(before.steps[0], PlanStep(uid="s9", title="Other")))
    assert check_done_steps(before, kept, {"s1"}) == ()
    changed = msgspec.structs.replace(before, steps=(msgspec.structs.replace(before.steps[0], title="Other"),))
    with pytest.raises(PreconditionFailed):
        check_done_steps(before, changed, {"s1"})
    with pytest.raises(PreconditionFailed):
        check_done_steps(before, msgspec.structs.replace(before, steps=()), {"s1"})
    assert check_done_steps(before, changed, {"s1", "s2"}, force_reopen=True) == ("s1",)
