"""PURE. Which moves are legal, as tables: of a step, of an approval. `move_step` and `move_approval` are the only hands that turn.

`ready` is a step that waits for nothing any more; that follows from the others and is never written down (see `progress`). The
status of a plan follows from its steps, so it has no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from context_engine.errors import Conflict, PreconditionFailed

StepStatus = Literal["pending", "ready", "in_progress", "completed", "failed", "skipped"]
StepMove = Literal["start", "complete", "fail", "retry", "release", "skip", "reopen"]
PlanStatus = Literal[
    "draft", "ready", "needs_clarification", "approved", "executing", "completed", "failed", "stalled", "archived"
]
ApprovalStatus = Literal["pending", "approved", "rejected", "modification_requested", "expired"]
ApprovalMove = Literal["approve", "reject", "request_modification", "expire"]

DONE: frozenset[str] = frozenset({"completed", "skipped"})
"""What a step that waits is content with."""


class StepTransition(NamedTuple):
    """From which statuses a step may go, where to, from where else when it is forced, and what to do where it may not."""

    before: frozenset[str]
    after: StepStatus
    forced: frozenset[str]
    otherwise: str


STEP_MOVES: Mapping[StepMove, StepTransition] = {
    "start": StepTransition(
        frozenset({"ready"}),
        "in_progress",
        frozenset({"pending"}),
        "view_progress says what it waits for; start that first, or repeat with force: true.",
    ),
    "complete": StepTransition(
        frozenset({"in_progress"}),
        "completed",
        frozenset({"pending", "ready", "failed"}),
        "Call start_step first, or repeat with force: true.",
    ),
    "fail": StepTransition(
        frozenset({"in_progress"}), "failed", frozenset(), "Call start_step first, or skip it: skip: true."
    ),
    "retry": StepTransition(frozenset({"failed"}), "pending", frozenset(), "Only a step that failed is tried again."),
    "release": StepTransition(
        frozenset({"in_progress"}), "pending", frozenset(), "Only a step in progress can be released."
    ),
    "skip": StepTransition(
        frozenset({"pending", "ready", "in_progress", "failed"}),
        "skipped",
        frozenset(),
        "It is done already; view_progress shows what is left.",
    ),
    "reopen": StepTransition(
        frozenset({"completed", "skipped", "failed", "in_progress"}), "pending", frozenset(), "It is open as it is."
    ),
}
"""`pending` covers `ready` wherever a move leads back: whether it is ready follows."""

APPROVAL_MOVES: Mapping[ApprovalMove, ApprovalStatus] = {
    "approve": "approved",
    "reject": "rejected",
    "request_modification": "modification_requested",
    "expire": "expired",
}
"""All from pending; and what was approved may still expire, when the plan changes under it."""


def move_step(status: str, move: StepMove, *, forced: bool = False, what: str = "the step") -> StepStatus:
    """The status after a move. Raises: PreconditionFailed, which names the call to make first.

    >>> move_step("ready", "start"), move_step("pending", "start", forced=True)
    ('in_progress', 'in_progress')
    """
    row = STEP_MOVES[move]
    if status in row.before or (forced and status in row.forced):
        return row.after
    raise PreconditionFailed(
        f"{what} is {status.replace('_', ' ')}: {_VERBS[move]} needs it to be {_either(row.before)}",
        suggestion=row.otherwise,
        details={"status": status, "move": move, "needs": sorted(row.before)},
    )


def move_approval(status: str, move: ApprovalMove) -> ApprovalStatus:
    """The status of an approval after a move.

    Raises: Conflict when it was decided already, PreconditionFailed when it has expired.
    """
    if status == "pending" or (status == "approved" and move == "expire"):
        return APPROVAL_MOVES[move]
    if status == "expired":
        raise PreconditionFailed(
            "the request has expired: the plan changed since, or its time is over",
            suggestion="Read the plan with load_plan, then call request_approval again.",
            details={"status": status},
        )
    raise Conflict(
        f"the request was decided already: {status.replace('_', ' ')}",
        suggestion="load_plan shows the decision; request_approval asks anew once the plan has changed.",
        details={"status": status},
    )


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's leave for a plan or some of its steps (uids), exactly as they are in one version."""

    id: str
    plan_id: str
    plan_version: int
    plan_hash: str
    type: Literal["full_plan", "step", "step_group"]
    steps: tuple[str, ...] = ()
    summary: str = ""
    note: str = ""
    status: ApprovalStatus = "pending"
    created_at: str = ""
    expires_at: str = ""
    decided_at: str = ""
    decided_by: str = ""
    comment: str = ""
    modifications: str = ""

    def covers(self, uid: str) -> bool:
        """Whether it speaks of a step: of all of them, or of this one."""
        return self.type == "full_plan" or uid in self.steps


_VERBS: Mapping[StepMove, str] = {
    "start": "to start",
    "complete": "to complete",
    "fail": "to fail",
    "retry": "to try again",
    "release": "to release",
    "skip": "to skip",
    "reopen": "to reopen",
}


def _either(statuses: frozenset[str]) -> str:
    return " or ".join(sorted(status.replace("_", " ") for status in statuses))
