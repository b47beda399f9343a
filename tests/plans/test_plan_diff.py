"""Two versions of a plan are compared step by step, and what is told is enough to get from one to the other."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.model import Plan, PlanQuestion, PlanScope, PlanStep
from context_engine.plans.plan_diff import (
    Diffstat,
    FileDiffstat,
    comparable_value,
    compare_plans,
    compute_diffstat,
)
from context_engine.plans.plan_json import hash_content
from tests.support.desks import plan, step
from tests.support.planned import apply_changes, plan_of, plans


@given(plans(), plans())
def test_the_changes_lead_from_one_version_to_the_other(one: Plan, other: Plan) -> None:
    found = compare_plans(one, other)
    before = comparable_value(one)
    assert apply_changes(before, found.changes) == comparable_value(other)
    assert before == comparable_value(one), "the value that was given stays as it is"
    assert apply_changes(comparable_value(other), compare_plans(other, one).changes) == comparable_value(one)


@given(plans(), plans())
def test_nothing_differs_exactly_when_both_say_the_same(one: Plan, other: Plan) -> None:
    assert (not compare_plans(one, other).changes) == (hash_content(one) == hash_content(other))
    assert not compare_plans(one, one).changes
    assert compare_plans(one, one).summary == "nothing changed"


@given(plans().flatmap(lambda plan: st.tuples(st.just(plan), st.permutations(plan.steps))))
def test_steps_that_only_stand_elsewhere_are_moved_and_not_modified(told: tuple[Plan, list[PlanStep]]) -> None:
    plan, order = told
    found = compare_plans(plan, msgspec.structs.replace(plan, steps=tuple(order)))
    assert (found.modified, found.added, found.removed) == ({}, (), ())
    moved = set(found.moved)
    kept = [step.uid for step in order if step.uid not in moved]
    assert kept == [step.uid for step in plan.steps if step.uid not in moved]
    assert bool(moved) == (tuple(order) != plan.steps)


def test_what_changes_in_the_graph_is_told() -> None:
    before, after = plan_of((), (1,), (2,)), plan_of((), (1,), (1,))
    told = compare_plans(before, after).serialize()
    assert told["graph_changes"] == {
        "edges_added": [{"from": "s1", "to": "s3"}],
        "edges_removed": [{"from": "s2", "to": "s3"}],
        "critical_path_before": ["s1", "s2", "s3"],
        "critical_path_after": ["s1", "s2"],
        "duration_delta_h": None,
    }


def test_a_difference_of_hours_needs_estimates() -> None:
    plans = [plan_of((), (1,), (2,)), plan_of((), (1,), (1,))]
    before, after = (
        msgspec.structs.replace(plan, steps=tuple(msgspec.structs.replace(step, hours=2) for step in plan.steps))
        for plan in plans
    )
    assert compare_plans(before, after).graph_changes()["duration_delta_h"] == -2.0
    assert compare_plans(before, plans[1]).graph_changes()["duration_delta_h"] is None


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (plan_of((), (), ()), "1 step added (3)"),
        (plan_of(()), "1 step removed (2)"),
        (plan_of((), (1,)), "step 2 changed (depends_on)"),
        (
            plan_of((), (), scope=PlanScope(excluded=("docs",)), questions=(PlanQuestion("q1", "Why?"),)),
            "scope, questions",
        ),
        (plan_of(*[()] * 9), "7 steps added"),
    ],
)
def test_what_changed_is_said_in_one_sentence(after: Plan, said: str) -> None:
    assert compare_plans(plan_of((), ()), after).summary == said


# -- what steps mean to do with files comes to the same as doing it to a small world of files ------------------------------


def told(made: Plan, *uids: str) -> Diffstat:
    return compute_diffstat(made, [each for each in made.steps if not uids or each.uid in uids])


def test_a_summary_reads_like_that_of_git() -> None:
    made = plan(
        step("s1", files_to_create=("new.py",), files_to_modify=("a.py",)),
        step("s2", "s1", files_to_modify=("new.py", "a.py", "c.py")),
        step("s3", "s2", files_to_delete=("b.py",)),
    )
    assert told(made).summary == "1 file created, 2 modified, 1 deleted"
    assert told(made).files[0] == FileDiffstat("a.py", "modify", (1, 2))
    assert told(made, "s2").summary == "3 files modified"
