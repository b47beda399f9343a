"""What waits for what is put in order; a circle is named, and nothing can make this hang."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from context_engine.plans.dependency_graph import (
    build_graph,
    compute_closure,
    compute_timing,
    serialize_graph,
)
from context_engine.plans.model import Plan
from tests.support.planned import plan_of, plans


def chains(plan: Plan) -> list[tuple[str, ...]]:
    """Every chain of steps that wait for each other, by trying all of them."""
    waits = {step.uid: step.depends_on for step in plan.steps}

    def back(uid: str) -> list[tuple[str, ...]]:
        return [(*chain, uid) for other in waits[uid] for chain in back(other)] or [(uid,)]

    return [chain for uid in waits for chain in back(uid)]


@given(plans())
def test_every_step_comes_after_all_that_it_waits_for(plan: Plan) -> None:
    order = build_graph(plan).order
    assert sorted(order) == sorted(step.uid for step in plan.steps)
    place = {uid: number for number, uid in enumerate(order)}
    assert all(place[other] < place[step.uid] for step in plan.steps for other in step.depends_on)


@given(plans())
def test_a_step_stands_in_the_first_generation_that_it_can(plan: Plan) -> None:
    level = {uid: number for number, uids in enumerate(build_graph(plan).levels) for uid in uids}
    for step in plan.steps:
        assert level[step.uid] == max((level[other] + 1 for other in step.depends_on), default=0)


@given(plans())
def test_the_critical_path_is_a_longest_chain(plan: Plan) -> None:
    hours = {step.uid: step.weight for step in plan.steps}
    duration_h, critical_path = compute_timing(build_graph(plan), hours)
    longest = max((sum(hours[uid] for uid in chain) for chain in chains(plan)), default=0.0)
    assert duration_h == pytest.approx(longest)
    assert sum(hours[uid] for uid in critical_path) == pytest.approx(longest)
    waits = {step.uid: step.depends_on for step in plan.steps}
    assert all(one in waits[other] for one, other in pairwise(critical_path))


@given(plans(acyclic=False))
def test_a_circle_is_named_and_each_of_it_waits_for_the_next(plan: Plan) -> None:
    circle = build_graph(plan).cycle
    waits = {step.uid: step.depends_on for step in plan.steps}
    assert bool(circle) == any(uid in _reached(waits, uid) for uid in waits)
    if circle:
        assert circle[0] == circle[-1]
        assert all(other in waits[one] for one, other in pairwise(circle))
        number = {step.uid: n for n, step in enumerate(plan.steps)}
        assert number[circle[0]] == min(number[uid] for uid in circle)


def _reached(waits: dict[str, tuple[str, ...]], uid: str) -> set[str]:
    found: set[str] = set()
    stack = [uid]
    while stack:
        for other in waits[stack.pop()]:
            if other not in found:
                found.add(other)
                stack.append(other)
    return found


@given(plans(acyclic=False))
def test_a_graph_is_made_of_any_plan(plan: Plan) -> None:
    drawn = build_graph(plan)
    assert sorted(drawn.order) == sorted(step.uid for step in plan.steps)
    told = serialize_graph(plan, drawn)
    assert sorted(told["execution_order"]) == list(range(1, len(plan.steps) + 1))


@given(plans())
def test_a_group_can_be_done_side_by_side(plan: Plan) -> None:
    drawn = build_graph(plan)
    files = {step.uid: step.files for step in plan.steps}
    waits = {step.uid: step.depends_on for step in plan.steps}
    for group in drawn.groups:
        assert len(group) > 1
        for one in group:
            assert _reached(waits, one).isdisjoint(group)
            assert all(files[one].isdisjoint(files[other]) for other in group if other != one)


@given(plans())
def test_what_a_step_reaches_is_counted_in_bits(plan: Plan) -> None:
    drawn = build_graph(plan)
    bits = compute_closure(drawn.order, drawn.depends)
    waits = {step.uid: step.depends_on for step in plan.steps}
    assert {uid: reached.bit_count() for uid, reached in bits.items()} == {
        uid: len(_reached(waits, uid)) for uid in waits
    }


def test_a_graph_is_told_in_numbers() -> None:
    told = serialize_graph(plan := plan_of((), (1,), (1,), (2, 3)), build_graph(plan))
    assert told["nodes"][1] == {"id": "s2", "step_number": 2}
    assert told["edges"] == [{"from": 1, "to": 2}, {"from": 1, "to": 3}, {"from": 2, "to": 4}, {"from": 3, "to": 4}]
    assert (told["levels"], told["execution_order"]) == ([[1], [2, 3], [4]], [1, 2, 3, 4])
    assert (told["critical_path"], told["parallel_groups"]) == ([1, 2, 4], [[2, 3]])
    assert told.keys().isdisjoint({"slack", "duration_h"})
