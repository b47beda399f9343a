"""PURE. Requests for approval, out of the events that tell of them, and whether a step may start.

A request is bound to one version of a plan and to its content. A later version lets it expire, what was approved of too: nobody
has seen what is to be done now. The decision stays readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from context_engine.errors import CallError, NeedsApproval
from context_engine.plans.model import Plan, PlanStep, step_numbers
from context_engine.plans.plan_lifecycle import Approval, ApprovalMove, move_approval
from context_engine.plans.plan_progress import PlanEvent
from context_engine.storage import timestamps

REQUESTED, DECIDED = "approval_requested", "approval_decided"
BLOCKING = ("rejected", "modification_requested")


class PlanRules(NamedTuple):
    """What a team asks for: an approval before a step starts, a person to give it, and proof before a step is done."""

    approval: bool = False
    person: bool = False
    evidence: bool = False


class ApprovalDecision(msgspec.Struct, frozen=True):
    """What somebody decided about a request; `decided_by` is `user`, `agent`, or who says to be it."""

    id: str
    action: ApprovalMove
    decided_by: str
    comment: str = ""
    modifications: str = ""


def fold_approvals(events: Iterable[PlanEvent], version: int, content_hash: str, now: float) -> tuple[Approval, ...]:
    """Every request as it stands at a moment, those last that something happened to last.

    `version` is the plan's newest and `content_hash` what it says: two branches of a repository can each have a version 2.
    """
    found: dict[str, Approval] = {}
    for event in events:
        if event.kind == REQUESTED:
            asked = msgspec.convert(event.data, Approval)
            found[asked.id] = asked
        elif event.kind == DECIDED:
            said = msgspec.convert(event.data, ApprovalDecision)
            if said.id in found:
                found[said.id] = _apply_decision(found.pop(said.id), said, event.at)
    return tuple(_expire(each, version, content_hash, now) for each in found.values())


def _apply_decision(asked: Approval, said: ApprovalDecision, at: str) -> Approval:
    """The request with its decision; one that may not be taken any more changes nothing."""
    try:
        status = move_approval(asked.status, said.action)
    except CallError:
        return asked
    told = {"decided_by": said.decided_by, "comment": said.comment, "modifications": said.modifications}
    return msgspec.structs.replace(asked, status=status, decided_at=at, **told)


def _expire(each: Approval, version: int, content_hash: str, now: float) -> Approval:
    late = bool(each.expires_at) and (timestamps.seconds(each.expires_at) or 0.0) <= now
    is_past = (each.plan_version, each.plan_hash) != (version, content_hash)
    if (each.status == "pending" and late) or (each.status in ("pending", "approved") and is_past):
        return msgspec.structs.replace(each, status="expired")
    return each


def find_deciding(known: Sequence[Approval], version: int, uid: str) -> Approval | None:
    """The request that has the say about a step: the one decided last, else one that is pending. None: nobody was asked."""
    about = [each for each in known if each.plan_version == version and each.covers(uid)]
    decided = [each for each in about if each.status == "approved" or each.status in BLOCKING]
    pending = [each for each in about if each.status == "pending"]
    return (decided or pending or [None])[-1]


def is_approved(known: Sequence[Approval], plan: Plan) -> bool:
    """Whether every step of a plan, as it is now, has been approved of."""
    found = [find_deciding(known, plan.version, step.uid) for step in plan.steps]
    return bool(found) and all(each is not None and each.status == "approved" for each in found)


def check_approved(known: Sequence[Approval], plan: Plan, step: PlanStep, *, required: bool) -> None:
    """Refuse to start a step that somebody said no to, or nobody said yes to where that is `required`.

    Raises: NeedsApproval.
    """
    said = find_deciding(known, plan.version, step.uid)
    if said is not None and said.status == "approved":
        return
    number = step_numbers(plan)[step.uid]
    details = {"plan_id": plan.id, "step": number, "request_id": said.id if said else None}
    if said is not None and said.status in BLOCKING:
        raise NeedsApproval(
            f"step {number} was not approved of: {said.status.replace('_', ' ')}"
            + (f" ({said.comment})" if said.comment else ""),
            suggestion="Change the plan with refine_plan, then ask again with request_approval.",
            details=details,
        )
    if required:
        waits = said is not None
        raise NeedsApproval(
            f"step {number} waits for {said.id}"
            if said
            else f"step {number} needs an approval of version {plan.version}",
            suggestion="Have it decided with respond_approval." if waits else "Ask for it with request_approval.",
            details=details,
        )
