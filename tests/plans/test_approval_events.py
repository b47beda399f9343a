"""An approval counts for what was asked, in the version that was asked about, once, and by whom it was given."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from context_engine.errors import (
    Conflict,
    InvalidArgument,
    NeedsApproval,
    PreconditionFailed,
)
from context_engine.plans.plan_events import Approval, PlanEvent, fold_approvals
from tests.support.desks import Desks, plan, step

THREE = plan(step("s1"), step("s2"), step("s3"))


@pytest.fixture
def here(tmp_path: Path) -> Desks:
    desks = Desks(tmp_path, approval_needed=True)
    desks.plans.repository.save(THREE, name="Cents")
    return desks


def again(here: Desks) -> Desks:
    """The same workspace after a restart."""
    return Desks(here.folder, approval_needed=True)


def status(here: Desks, request_id: str) -> str:
    return again(here).plans.approvals.get(request_id).approval.status


def changed(here: Desks, goal: str = "Other") -> None:
    """A new version of the plan."""
    loaded = here.plans.repository.load("Cents")
    here.plans.repository.save(msgspec.structs.replace(loaded.plan, goal=goal), overwrite=True)


# -- what it is for ----------------------------------------------------------------------------------------------------


def test_where_approval_is_required_a_step_starts_after_it_and_not_before(here: Desks) -> None:
    with pytest.raises(NeedsApproval, match="needs an approval"):
        here.plans.steps.start("Cents", 1)
    with pytest.raises(NeedsApproval):
        here.plans.steps.start("Cents", 1, force=True)
    asked = here.plans.approvals.request("Cents")
    with pytest.raises(NeedsApproval, match=asked.approval.id):
        here.plans.steps.start("Cents", 1)
    done = here.plans.approvals.respond(asked.approval.id, "approve")
    assert (done.approval.status, done.now.status) == ("approved", "approved")
    assert again(here).plans.steps.start("Cents", 1).state.status == "in_progress"


def test_approving_one_step_approves_that_step_and_not_the_plan(here: Desks) -> None:
    asked = here.plans.approvals.request("Cents", steps=[2])
    assert (asked.approval.type, asked.approval.steps) == ("step", ("s2",))
    done = here.plans.approvals.respond(asked.approval.id, "approve")
    assert done.now.status == "ready"
    here.plans.steps.start("Cents", 2)
    for other in (1, 3):
        with pytest.raises(NeedsApproval):
            here.plans.steps.start("Cents", other)


def test_approval_is_optional_unless_the_team_wants_it_and_a_no_counts_all_the_same(tmp_path: Path) -> None:
    here = Desks(tmp_path)
    here.plans.repository.save(THREE, name="Cents")
    here.plans.steps.start("Cents", 1)
    asked = here.plans.approvals.request("Cents", steps=[2])
    here.plans.approvals.respond(asked.approval.id, "reject", comment="too risky")
    with pytest.raises(NeedsApproval, match="too risky"):
        here.plans.steps.start("Cents", 2)
    here.plans.steps.start("Cents", 3)


def test_what_was_decided_last_counts(here: Desks) -> None:
    whole = here.plans.approvals.request("Cents")
    here.plans.approvals.respond(whole.approval.id, "approve")
    one = here.plans.approvals.request("Cents", steps=[2])
    here.plans.approvals.respond(one.approval.id, "reject")
    with pytest.raises(NeedsApproval):
        here.plans.steps.start("Cents", 2)
    here.plans.steps.start("Cents", 1)
    once_more = here.plans.approvals.request("Cents", steps=[2])
    here.plans.approvals.respond(once_more.approval.id, "approve")
    here.plans.steps.start("Cents", 2)


# -- what it is bound to -----------------------------------------------------------------------------------------------


def test_a_request_survives_a_restart_with_its_comment(here: Desks) -> None:
    asked = here.plans.approvals.request("Cents", note="before the release")
    assert status(here, asked.approval.id) == "pending"
    assert again(here).plans.approvals.get(asked.approval.id).approval == asked.approval
    again(here).plans.approvals.respond(asked.approval.id, "approve", comment="go ahead")
    (kept,) = again(here).plans.repository.load("Cents").approvals
    assert (kept.status, kept.comment, kept.note) == ("approved", "go ahead", "before the release")
    assert (kept.decided_by, kept.decided_at) == ("agent", "2026-11-21T12:00:00.000Z")


def test_a_new_version_lets_requests_and_approvals_expire(here: Desks) -> None:
    given = here.plans.approvals.request("Cents")
    here.plans.approvals.respond(given.approval.id, "approve", comment="fine")
    pending = here.plans.approvals.request("Cents", steps=[1])
    changed(here)
    assert [status(here, each.approval.id) for each in (given, pending)] == ["expired", "expired"]
    assert again(here).plans.approvals.get(given.approval.id).approval.comment == "fine"
    with pytest.raises(NeedsApproval):
        here.plans.steps.start("Cents", 1)
    with pytest.raises(PreconditionFailed, match="expired"):
        here.plans.approvals.respond(pending.approval.id, "approve")


def test_a_request_expires_when_its_time_is_over(here: Desks) -> None:
    asked = here.plans.approvals.request("Cents", expires_in_hours=2)
    here.at("2026-11-21T13:59:59Z")
    assert here.plans.approvals.get(asked.approval.id).approval.status == "pending"
    here.at("2026-11-21T14:00:00Z")
    with pytest.raises(PreconditionFailed, match="expired"):
        here.plans.approvals.respond(asked.approval.id, "approve")
    new = here.plans.approvals.request("Cents", expires_in_hours=2)
    assert new.is_new
    here.plans.approvals.respond(new.approval.id, "approve")
    here.at("2026-11-23T00:00:00Z")
    here.plans.steps.start("Cents", 1)


# -- deciding ----------------------------------------------------------------------------------------------------------


def test_a_second_decision_is_refused_with_the_first(here: Desks) -> None:
    asked = here.plans.approvals.request("Cents")
    here.plans.approvals.respond(asked.approval.id, "reject", comment="not now")
    with pytest.raises(Conflict) as caught:
        again(here).plans.approvals.respond(asked.approval.id, "approve")
    decision = caught.value.details["decision"]
    assert (decision["status"], decision["comment"], decision["decided_by"]) == ("rejected", "not now", "agent")
    assert status(here, asked.approval.id) == "rejected"


def test_requested_changes_become_open_feedback_in_a_new_version(here: Desks) -> None:
    asked = here.plans.approvals.request("Cents")
    with pytest.raises(InvalidArgument, match="modifications"):
        here.plans.approvals.respond(asked.approval.id, "request_modification")
    done = here.plans.approvals.respond(asked.approval.id, "request_modification", modifications="Do the bank first")
    assert (done.plan.version, done.plan.open_feedback) == (2, ("Do the bank first",))
    (kept,) = again(here).plans.repository.load("Cents").approvals
    assert (kept.status, kept.modifications) == ("modification_requested", "Do the bank first")


# -- the fold alone ----------------------------------------------------------------------------------------------------


def _asked(name: str, *steps: str, version: int = 1) -> PlanEvent:
    kind = "full_plan" if not steps else "step_group"
    made = Approval(id=name, plan_id="p", plan_version=version, plan_hash="h", type=kind, steps=steps)
    return PlanEvent(seq=1, at="2026-11-21T12:00:00Z", kind="approval_requested", data=msgspec.to_builtins(made))


def _decided(name: str, action: str) -> PlanEvent:
    data = {"id": name, "action": action, "decided_by": "agent"}
    return PlanEvent(seq=2, at="2026-11-21T12:00:00Z", kind="approval_decided", data=data)


def test_a_second_decision_in_a_log_changes_nothing() -> None:
    found = fold_approvals(
        [_asked("a"), _decided("a", "reject"), _decided("a", "approve"), _decided("b", "approve")], 1, "h", 0
    )
    assert [each.status for each in found] == ["rejected"]


def test_what_was_approved_of_is_the_content_and_not_the_number_of_a_version() -> None:
    """Two branches can each have a version 1; after a merge the log of the one may stand beside the plan of the other."""
    log = [_asked("a"), _decided("a", "approve"), _asked("b")]
    assert [each.status for each in fold_approvals(log, 1, "h", 0)] == ["approved", "pending"]
    assert [each.status for each in fold_approvals(log, 1, "other", 0)] == ["expired", "expired"]
