"""Steps and approvals move along a table, and a refusal names the call to make first."""

from __future__ import annotations

import pytest

from context_engine.errors import PreconditionFailed
from context_engine.plans.plan_events import STEP_MOVES, Approval, move_step

STATUSES = ("pending", "ready", "in_progress", "completed", "failed", "skipped")
LEGAL = {
    ("ready", "start"): "in_progress",
    ("in_progress", "complete"): "completed",
    ("in_progress", "fail"): "failed",
    ("in_progress", "release"): "pending",
    ("failed", "retry"): "pending",
    **{(status, "skip"): "skipped" for status in ("pending", "ready", "in_progress", "failed")},
    **{(status, "reopen"): "pending" for status in ("completed", "skipped", "failed", "in_progress")},
}
FORCED = {("pending", "start"), ("pending", "complete"), ("ready", "complete"), ("failed", "complete")}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("move", STEP_MOVES)
def test_a_step_moves_as_the_table_says_and_no_other_way(status: str, move: str) -> None:
    if (status, move) in LEGAL:
        assert move_step(status, move) == LEGAL[status, move]  # ty: ignore[invalid-argument-type]
        return
    with pytest.raises(PreconditionFailed) as refused:
        move_step(status, move, what="step 3")  # ty: ignore[invalid-argument-type]
    assert refused.value.message.startswith(f"step 3 is {status.replace('_', ' ')}")
    assert refused.value.suggestion


def test_a_step_that_waits_cannot_start() -> None:
    with pytest.raises(PreconditionFailed) as refused:
        move_step("pending", "start")
    assert "view_progress" in refused.value.suggestion


def test_an_approval_of_a_step_speaks_of_that_step() -> None:
    step = Approval(id="apr_1", plan_id="plan_1", plan_version=1, plan_hash="x", type="step", steps=("s1",))
    assert step.covers("s1")
    assert not step.covers("s2")
    whole = Approval(id="apr_1", plan_id="plan_1", plan_version=1, plan_hash="x", type="full_plan")
    assert whole.covers("s2")
