"""How far a plan is follows from what happened to it, and from nothing else; no log can make a plan unreadable."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.model import Plan
from context_engine.plans.plan_events import (
    Execution,
    PlanEvent,
    fold_progress,
    planning_status,
)
from tests.support.planned import events, plan_of, plans

BEGIN = {"started": "step_started", "completed": "step_completed", "failed": "step_failed", "skipped": "step_skipped", "retried": "step_retried", "released": "step_released", "reopened": "step_reopened"}  # fmt: skip


def log(*told: str, hours: float = 1) -> list[PlanEvent]:
    """`log("1 started", "1 completed")`: an event each hour from noon on."""
    rows = []
    for seq, each in enumerate(told, 1):
        number, what, *flags = each.split()
        minutes = round(12 * 60 + (seq - 1) * 60 * hours)
        at = f"2026-11-21T{minutes // 60:02}:{minutes % 60:02}:00.000Z"
        rows.append(PlanEvent(seq=seq, at=at, kind=BEGIN[what], step=f"s{number}", data=dict.fromkeys(flags, True)))
    return rows


def after(plan: Plan, *told: str, hours: float = 1) -> Execution:
    return fold_progress(plan, log(*told, hours=hours))


def statuses(execution: Execution) -> list[str]:
    return [state.status for state in execution.steps.values()]


# -- laws --------------------------------------------------------------------------------------------------------------


@given(plans().flatmap(lambda plan: st.tuples(st.just(plan), events([step.uid for step in plan.steps]))))
def test_any_log_can_be_read(told: tuple[Plan, list[PlanEvent]]) -> None:
    plan, happened = told
    found = fold_progress(plan, happened)
    assert sum(found.counts.values()) == len(plan.steps)
    assert found.status in (planning_status(plan), "executing", "completed", "failed", "stalled")
    assert not (plan.open_feedback and found.status == "ready"), "feedback is taken up before a plan is called ready"
    done = {uid for uid, state in found.steps.items() if state.status in ("completed", "skipped")}
    failed = {uid for uid, state in found.steps.items() if state.status == "failed"}
    assert found.percentage == pytest.approx(100 * len(done) / len(plan.steps) if plan.steps else 0, abs=0.1)
    for step in plan.steps:
        state = found.steps[step.uid]
        open_ones = set(step.depends_on) - done
        assert state.status != "ready" or not open_ones
        assert state.status != "pending" or (open_ones and set(state.unmet) == open_ones)
        assert set(state.blocked_by) <= failed
    assert found.next in (found.ready or ("",))


@given(plans(most=4).flatmap(lambda plan: st.tuples(st.just(plan), events([step.uid for step in plan.steps]))))
def test_progress_is_where_the_moves_lead_that_were_possible(told: tuple[Plan, list[PlanEvent]]) -> None:
    plan, happened = told
    where = dict.fromkeys((step.uid for step in plan.steps), "open")
    for event in happened:
        if event.step in where and event.kind.startswith("step_"):
            new = _plainly(where[event.step], event)
            where[event.step] = new or where[event.step]
    found = fold_progress(plan, happened)
    plain = {"pending": "open", "ready": "open", "in_progress": "running"}
    assert {uid: plain.get(state.status, state.status) for uid, state in found.steps.items()} == where


def _plainly(now: str, event: PlanEvent) -> str | None:
    """The same moves in other words: what becomes of one step, None when that cannot be."""
    forced = bool(event.data.get("forced"))
    match event.kind.removeprefix("step_"):
        case "started":
            return "running" if now == "open" else None
        case "completed":
            return "completed" if now == "running" or (forced and now in ("open", "failed")) else None
        case "failed":
            return "failed" if now == "running" else None
        case "retried":
            return "open" if now == "failed" else None
        case "released":
            return "open" if now == "running" else None
        case "skipped":
            return "skipped" if now in ("open", "running", "failed") else None
        case "reopened":
            return "open" if now != "open" else None
    raise AssertionError(event.kind)


@given(plans().flatmap(lambda plan: st.tuples(st.just(plan), events([step.uid for step in plan.steps]))), st.randoms())
def test_the_order_in_which_a_log_is_handed_over_does_not_count(
    told: tuple[Plan, list[PlanEvent]], chance: Any
) -> None:
    plan, happened = told
    shuffled = list(happened)
    chance.shuffle(shuffled)
    assert fold_progress(plan, shuffled) == fold_progress(plan, happened)


# -- the acceptance of the specification -------------------------------------------------------------------------------


def test_a_plan_goes_on_beside_a_failed_step() -> None:
    found = after(plan_of((), (), (1,)), "1 started", "1 failed")
    assert (found.status, found.ready) == ("executing", ("s2",))
    assert after(plan_of((), (), (1,)), "1 started", "1 failed", "2 started", "2 completed").status == "failed"


def test_a_plan_in_a_circle_is_stalled() -> None:
    assert after(plan_of((2,), (1,))).status == "stalled"


def test_a_rollback_opens_the_steps_that_it_names() -> None:
    told = [*log("1 started", "1 completed", "2 started", "2 completed"), PlanEvent(seq=5, at="2026-11-21T20:00:00Z", kind="rolled_back", data={"reopened": ["s2", "gone"]})]  # fmt: skip
    found = fold_progress(plan_of((), (1,)), told)
    assert statuses(found) == ["completed", "ready"]
    assert found.steps["s2"].attempts == 1


def test_steps_weigh_by_their_estimate() -> None:
    plan = plan_of((), ())
    heavy = msgspec.structs.replace(plan.steps[1], hours=3)
    plan = msgspec.structs.replace(plan, steps=(plan.steps[0], heavy))
    found = after(plan, "2 started", "2 completed")
    assert found.percentage == 50
    assert found.critical_path_remaining == ("s1",)


def plan_taking(*hours: float, waits: tuple[tuple[int, ...], ...]) -> Plan:
    plan = plan_of(*waits)
    steps = (msgspec.structs.replace(step, hours=h) for step, h in zip(plan.steps, hours, strict=True))
    return msgspec.structs.replace(plan, steps=tuple(steps))


def test_the_next_step_is_on_the_critical_path() -> None:
    assert after(plan_taking(1, 9, 1, 1, waits=((), (), (1,), (1,)))).next == "s2"


def test_beside_the_critical_path_it_is_the_one_that_most_wait_for() -> None:
    plan = plan_taking(1, 1, 1, 1, 1, 9, waits=((), (), (1,), (2,), (2,), ()))
    assert after(plan, "6 started").next == "s2"


def test_of_equals_it_is_the_more_important_and_then_the_first() -> None:
    plan = plan_of((), ())
    urgent = msgspec.structs.replace(plan.steps[1], priority="high")
    assert after(msgspec.structs.replace(plan, steps=(plan.steps[0], urgent))).next == "s2"
    assert after(plan).next == "s1"


# -- as it is told -----------------------------------------------------------------------------------------------------


def test_execution_state_has_every_field_of_the_seed() -> None:
    plan = plan_of((), (1,), (1,), (3,))
    told = after(plan, "1 started", "1 completed", "2 started", "3 started", "3 failed").serialize(plan)
    assert {"plan_id", "status", "steps", "current_steps", "ready_steps", "blocked_steps"} <= told.keys()
    assert (told["status"], told["current_steps"], told["ready_steps"], told["blocked_steps"]) == (
        "executing",
        [2],
        [],
        [4],
    )
    first, second, third, fourth = told["steps"]
    assert (first["step_number"], first["status"], first["duration_ms"]) == (1, "completed", 3_600_000)
    assert (first["started_at"], first["completed_at"]) == ("2026-11-21T12:00:00.000Z", "2026-11-21T13:00:00.000Z")
    assert (second["status"], "completed_at" in second) == ("in_progress", False)
    assert (third["status"], third["retries_left"]) == ("failed", 3)
    assert (fourth["status"], fourth["unmet"]) == ("pending", [3])
    assert told["blocked"] == [{"step": 4, "because": [3]}]
    assert told["counts"] == {"completed": 1, "failed": 1, "in_progress": 1, "pending": 1}
    assert (told["next"], told["total"], told["percentage"]) == (None, 4, 25.0)
