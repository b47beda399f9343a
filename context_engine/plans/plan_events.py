"""PURE. The event log of a plan: legal moves, and the progress and approvals that follow from the events.

`move_step` and `move_approval` are the only functions that change a status. Progress and approvals are folds over the
events and are never stored; an event that cannot have happened (git merged two branches of a log) changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from context_engine.errors import CallError, Conflict, NeedsApproval, NextStep, PreconditionFailed
from context_engine.plans.dependency_graph import StepGraph, build_graph, compute_timing
from context_engine.plans.model import LEVELS, Plan, PlanStep
from context_engine.storage import prepare_type
from context_engine.timestamps import parse_timestamp

StepStatus = Literal["pending", "ready", "in_progress", "completed", "failed", "skipped"]
PlanStatus = Literal[
    "draft",
    "ready",
    "needs_clarification",
    "needs_refinement",
    "approved",
    "executing",
    "completed",
    "failed",
    "stalled",
]
PlanningStatus = Literal["ready", "needs_clarification", "needs_refinement"]
ApprovalStatus = Literal["pending", "approved", "rejected", "modification_requested", "expired"]
ApprovalMove = Literal["approve", "reject", "request_modification"]

DONE: frozenset[str] = frozenset({"completed", "skipped"})
"""Statuses that satisfy a dependency."""
RETRIES_MAX = 3
"""How often a failed step may be retried, unless the settings say otherwise."""
HOUR_S = 3_600


class StepTransition(NamedTuple):
    """A move: its name, the statuses before it and the one after it, the advice if refused, and more by force."""

    move: str
    before: Collection[str]
    after: StepStatus
    otherwise: str
    forced: Collection[str] = ()


_NOT_STARTED = "Call start_step first, or repeat with force: true."
_WAITS = "view_progress says what it waits for; start that first, or repeat with force: true."
_FAIL_ADVICE = "Call start_step first, or repeat with skip: true."
_OPEN = ("pending", "ready", "in_progress", "failed")
_BEGUN = ("completed", "skipped", "failed", "in_progress")
MOVES: Mapping[str, StepTransition] = {
    "step_started": StepTransition("start", ("ready",), "in_progress", _WAITS, ("pending",)),
    "step_completed": StepTransition(
        "complete", ("in_progress",), "completed", _NOT_STARTED, ("pending", "ready", "failed")
    ),
    "step_failed": StepTransition("fail", ("in_progress",), "failed", _FAIL_ADVICE),
    "step_retried": StepTransition("retry", ("failed",), "pending", "Only a step that failed is tried again."),
    "step_released": StepTransition("release", ("in_progress",), "pending", "Only a step in progress can be released."),
    "step_skipped": StepTransition("skip", _OPEN, "skipped", "It is done already; view_progress shows what is left."),
    "step_reopened": StepTransition("reopen", _BEGUN, "pending", "It is open as it is."),
}
"""Kind of event -> the move that it records. `pending` covers `ready` wherever a move leads back: whether it is ready
follows from the other steps."""
APPROVAL_MOVES: Mapping[ApprovalMove, ApprovalStatus] = {
    "approve": "approved",
    "reject": "rejected",
    "request_modification": "modification_requested",
}
"""All from pending; a request and an approval may also expire, when the plan changes."""


def move_step(status: str, kind: str, *, forced: bool = False, what: str = "the step") -> StepStatus:
    """Return the status after an event of a kind. Raises: PreconditionFailed, with the call to make first.

    >>> move_step("ready", "step_started"), move_step("pending", "step_started", forced=True)
    ('in_progress', 'in_progress')
    """
    row = MOVES[kind]
    if status in row.before or (forced and status in row.forced):
        return row.after
    needed = " or ".join(sorted(status.replace("_", " ") for status in row.before))
    verb = "try again" if row.move == "retry" else row.move
    raise PreconditionFailed(
        f"{what} is {status.replace('_', ' ')}: to {verb} needs it to be {needed}",
        suggestion=row.otherwise,
        details={"status": status, "move": row.move, "needs": sorted(row.before)},
    )


def move_approval(status: str, move: ApprovalMove) -> ApprovalStatus:
    """Return the status of an approval after a move.

    Raises: Conflict when it was decided already, PreconditionFailed when it has expired.
    """
    if status == "pending":
        return APPROVAL_MOVES[move]
    if status == "expired":
        raise PreconditionFailed(
            "the request has expired: the plan changed since, or its time is over",
            next_steps=(NextStep("load_plan", "to read the plan"), NextStep("request_approval", "again")),
            details={"status": status},
        )
    again = NextStep("request_approval", "again once the plan has changed")
    raise Conflict(
        f"the request was decided already: {status.replace('_', ' ')}",
        next_steps=(NextStep("load_plan", "to see the decision"), again),
        details={"status": status},
    )


class PlanEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a plan: its place in the log, the time, the kind, the actor, the step (uid), and the rest."""

    seq: int
    at: str
    kind: str
    actor: str = ""
    step: str = ""
    data: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class CompletionReport:
    """The report on a completed step, and whether git is asked as well."""

    notes: str = ""
    files_modified: tuple[str, ...] = ()
    evidence: tuple[Mapping[str, Any], ...] = ()
    criteria_met: tuple[str, ...] = ()
    auto_detect_files: bool = True


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one step. `unmet` are its open dependencies, `blocked_by` the failed steps before it; all by uid."""

    uid: str
    status: StepStatus = "pending"
    unmet: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    actor: str = ""
    started_at: str = ""
    completed_at: str = ""
    duration_ms: int | None = None
    error: str = ""
    notes: str = ""
    attempts: int = 0
    retries_left: int = 0


@dataclass(frozen=True, slots=True)
class Execution:
    """The progress of a plan: the state of every step by uid, and what follows from them.

    `remaining` are the steps that are not done, each after those it depends on.
    `damage` explains why events may be missing, and what to do; it is empty when the log is complete.
    """

    status: PlanStatus
    steps: Mapping[str, StepState]
    ready: tuple[str, ...]
    current: tuple[str, ...]
    done: frozenset[str]
    remaining: tuple[str, ...]
    blocked: Mapping[str, tuple[str, ...]]
    percentage: float
    critical_path_remaining: tuple[str, ...]
    next: str
    damage: str = ""

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of steps in each status."""
        return Counter(state.status for state in self.steps.values())

    def serialize(self, plan: Plan, *, with_steps: bool = True) -> dict[str, Any]:
        """Return the progress as JSON values, with the fields of `PlanExecutionState`; steps by number."""
        number = plan.step_numbers()

        def numbers(uids: Iterable[str]) -> list[int]:
            return sorted(number[uid] for uid in uids)

        progress: dict[str, Any] = {"plan_id": plan.id, "plan_version": plan.version, "status": self.status}
        if self.damage:
            progress["damage"] = self.damage
        if with_steps:
            progress["steps"] = [_serialize_state(step, self.steps[step.uid], number) for step in plan.steps]
        return progress | {
            "current_steps": numbers(self.current),
            "ready_steps": numbers(self.ready),
            "blocked_steps": numbers(self.blocked),
            "blocked": [{"step": number[uid], "because": numbers(because)} for uid, because in self.blocked.items()],
            "counts": dict(sorted(self.counts.items())),
            "total": len(plan.steps),
            "percentage": self.percentage,
            "critical_path_remaining": [number[uid] for uid in self.critical_path_remaining],
            "next": number.get(self.next),
        }


def _serialize_state(step: PlanStep, state: StepState, number: Mapping[str, int]) -> dict[str, Any]:
    """Return one step as a row; empty values are left out."""
    row = msgspec.to_builtins(state)
    del row["blocked_by"]
    row = {"step_number": number[step.uid], "uid": step.uid, "title": step.title} | row
    row["unmet"] = sorted(number[uid] for uid in state.unmet)
    row["attempts"] = state.attempts if state.attempts > 1 else None
    row["retries_left"] = state.retries_left if state.status == "failed" else None
    return {key: value for key, value in row.items() if value not in (None, "", [])}


# -- progress ----------------------------------------------------------------------------------------------------------


def fold_progress(plan: Plan, events: Iterable[PlanEvent], *, retries_max: int = RETRIES_MAX) -> Execution:
    """Fold the events, in the order of the log, into the progress of the plan."""
    log = sorted(events, key=lambda event: event.seq)  # a merge by git may mix two branches of a log
    drawn = build_graph(plan)
    states = _derive_states(drawn, _replay_events(plan, log, retries_max))
    left = {step.uid: 0.0 if states[step.uid].status in DONE else step.weight for step in plan.steps}
    _, critical_path = compute_timing(drawn, left)
    done = frozenset(uid for uid, state in states.items() if state.status in DONE)
    return Execution(
        status=_execution_status(plan, states),
        steps=states,
        ready=tuple(uid for uid, state in states.items() if state.status == "ready"),
        current=tuple(uid for uid, state in states.items() if state.status == "in_progress"),
        done=done,
        remaining=tuple(uid for uid in drawn.order if uid not in done),
        blocked={uid: state.blocked_by for uid, state in states.items() if state.blocked_by},
        percentage=round(100 * len(done) / len(states), 1) if states else 0.0,
        critical_path_remaining=tuple(uid for uid in critical_path if uid not in done),
        next=_most_urgent(plan, drawn, left, states),
    )


def _replay_events(plan: Plan, log: Iterable[PlanEvent], retries_max: int) -> dict[str, StepState]:
    """Replay the events. Those of a step that this version lacks wait for a version that has it."""
    states = {step.uid: StepState(uid=step.uid, retries_left=retries_max) for step in plan.steps}
    for event in log:
        if event.kind == "rolled_back":
            reopened = event.data.get("reopened")
            for uid in reopened if isinstance(reopened, list | tuple) else ():
                if isinstance(uid, str) and (old := states.get(uid)):
                    states[uid] = StepState(
                        uid=uid, attempts=old.attempts, retries_left=old.retries_left, notes=old.notes
                    )
        elif event.kind in MOVES and event.step in states:
            states[event.step] = _apply_event(states[event.step], event)
    return states


def _apply_event(state: StepState, event: PlanEvent) -> StepState:
    """Return the state after an event; an impossible one changes nothing.

    Whether a step was ready when it started was decided then, by the version of that time.
    """
    # `ready` is derived, so the replayed status of a step that starts is still `pending`.
    forced = bool(event.data.get("forced")) or event.kind == "step_started"
    try:
        status = move_step(state.status, event.kind, forced=forced)
    except PreconditionFailed:
        return state
    unstarted = {"started_at": "", "completed_at": "", "duration_ms": None}
    texts = {key: value for key in ("error", "notes") if isinstance(value := event.data.get(key), str) and value}
    changes: dict[str, Any] = unstarted | {"error": "", "actor": ""}  # step_reopened
    match event.kind:
        case "step_started":
            changes = unstarted | {"started_at": event.at, "error": "", "attempts": state.attempts + 1}
        case "step_completed" | "step_failed":
            started, ended = parse_timestamp(state.started_at), parse_timestamp(event.at)
            is_timed = started is not None and ended is not None
            ms = max(0, round((ended - started) * 1000)) if is_timed else None
            changes = {"completed_at": event.at, "duration_ms": ms, "error": ""} | texts
            changes |= {"error": ""} if event.kind == "step_completed" else {}
        case "step_retried":
            changes = unstarted | {"retries_left": max(0, state.retries_left - 1)}
        case "step_released":
            changes = {"started_at": "", "actor": ""}
        case "step_skipped":
            changes = {"completed_at": event.at, "notes": texts.get("notes", state.notes)}
    return msgspec.structs.replace(state, **{"status": status, "actor": event.actor or state.actor} | changes)


def _derive_states(drawn: StepGraph, states: Mapping[str, StepState]) -> dict[str, StepState]:
    """Derive the open dependencies of each step, and all failed steps that block it."""
    place = {uid: number for number, uid in enumerate(states)}
    found: dict[str, StepState] = {}
    for uid in drawn.order:
        state = states[uid]
        if state.status == "pending":
            unmet = tuple(other for other in drawn.depends[uid] if states[other].status not in DONE)
            because = {other for other in unmet if states[other].status == "failed"}
            because.update(*(found[other].blocked_by for other in unmet if other in found))
            state = msgspec.structs.replace(
                state,
                status="pending" if unmet else "ready",
                unmet=unmet,
                blocked_by=tuple(sorted(because, key=place.__getitem__)),
            )
        found[uid] = state
    return {uid: found[uid] for uid in states}


def _execution_status(plan: Plan, states: Mapping[str, StepState]) -> PlanStatus:
    """Return `executing` while anything runs or can run; `failed` when nothing can and something failed.

    Before anything has begun it is the status of the plan.
    """
    there = {state.status for state in states.values()}
    if there and there <= DONE:
        return "completed"
    if there & {"ready", "in_progress"} or not there:
        is_begun = any(state.attempts or state.status in DONE for state in states.values())
        return "executing" if is_begun else planning_status(plan)
    return "failed" if "failed" in there else "stalled"


def _most_urgent(plan: Plan, drawn: StepGraph, left: Mapping[str, float], states: Mapping[str, StepState]) -> str:
    """Return the most urgent ready step: by critical path, dependents, priority and number."""
    chain: dict[str, float] = {}  # the hours of the longest chain that starts with a step
    for uid in reversed(drawn.order):
        chain[uid] = left[uid] + max((chain.get(other, 0.0) for other in drawn.needed_by[uid]), default=0.0)
    longest = max(chain.values(), default=0.0)
    urgency = {
        step.uid: (chain[step.uid] < longest, -len(drawn.needed_by[step.uid]), LEVELS.index(step.priority), place)
        for place, step in enumerate(plan.steps)
        if states[step.uid].status == "ready"
    }
    return min(urgency, key=urgency.__getitem__, default="")


def plan_status(plan: Plan, execution: Execution, *, approved: bool = False) -> PlanStatus:
    """Return one status for a list of plans; progress takes precedence over planning."""
    if execution.status == "needs_clarification" and not (plan.steps or plan.open_questions):
        return "draft"
    return "approved" if approved and execution.status == "ready" else execution.status


def planning_status(plan: Plan) -> PlanningStatus:
    """Return whether a plan can be followed, or has feedback or questions that the caller has to take up first."""
    if plan.open_feedback:
        return "needs_refinement"
    if plan.open_questions or not plan.steps:
        return "needs_clarification"
    return "ready"


# -- approvals ---------------------------------------------------------------------------------------------------------

DECISIONS: tuple[ApprovalMove, ...] = get_args(ApprovalMove)
PERSON = "user"
AGENT = "agent"
APPROVAL_HOURS_MAX = 24 * 365
REQUESTED, DECIDED = "approval_requested", "approval_decided"
BLOCKING = ("rejected", "modification_requested")


class PlanRules(NamedTuple):
    """The rules of a team: an approval before a step starts, given by a person, and evidence for a completed step."""

    approval: bool = False
    person: bool = False
    evidence: bool = False


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A request for approval, and the decision about it: of a plan or some of its steps (uids), in one version."""

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
        """Return whether it covers a step: all of them, or this one."""
        return self.type == "full_plan" or uid in self.steps


class ApprovalDecision(msgspec.Struct, frozen=True):
    """A decision about a request; `decided_by` is `user`, `agent`, or the name that was given."""

    id: str
    action: ApprovalMove
    decided_by: str
    comment: str = ""
    modifications: str = ""


def fold_approvals(events: Iterable[PlanEvent], version: int, content_hash: str, now: float) -> tuple[Approval, ...]:
    """Fold the events into all requests with their present status, the most recently changed last.

    `version` is the newest of the plan and `content_hash` its content: two git branches can each have a version 2.
    A later version expires requests and approvals, because no one has reviewed it.
    """
    found: dict[str, Approval] = {}
    for event in events:
        if event.kind == REQUESTED:
            approval = msgspec.convert(event.data, prepare_type(Approval))
            found[approval.id] = approval
        elif event.kind == DECIDED:
            decision = msgspec.convert(event.data, prepare_type(ApprovalDecision))
            if decision.id in found:
                found[decision.id] = _apply_decision(found.pop(decision.id), decision, event.at)
    return tuple(_expire(value, version, content_hash, now) for value in found.values())


def _apply_decision(approval: Approval, decision: ApprovalDecision, at: str) -> Approval:
    """Apply a decision to a request; an illegal decision changes nothing."""
    try:
        status = move_approval(approval.status, decision.action)
    except CallError:
        return approval
    details = {"decided_by": decision.decided_by, "comment": decision.comment, "modifications": decision.modifications}
    return msgspec.structs.replace(approval, status=status, decided_at=at, **details)


def _expire(approval: Approval, version: int, content_hash: str, now: float) -> Approval:
    late = bool(approval.expires_at) and (parse_timestamp(approval.expires_at) or 0.0) <= now
    is_past = (approval.plan_version, approval.plan_hash) != (version, content_hash)
    if (approval.status == "pending" and late) or (approval.status in ("pending", "approved") and is_past):
        return msgspec.structs.replace(approval, status="expired")
    return approval


def find_deciding(known: Sequence[Approval], version: int, uid: str) -> Approval | None:
    """Return the request that decides about a step: the one decided last, else a pending one.

    None: nothing was requested.
    """
    about = [approval for approval in known if approval.plan_version == version and approval.covers(uid)]
    decided = [approval for approval in about if approval.status in ("approved", *BLOCKING)]
    pending = [approval for approval in about if approval.status == "pending"]
    return (decided or pending or [None])[-1]


def is_approved(known: Sequence[Approval], plan: Plan) -> bool:
    """Return whether every step of the plan, as it is now, is approved."""
    found = [find_deciding(known, plan.version, step.uid) for step in plan.steps]
    return bool(found) and all(approval is not None and approval.status == "approved" for approval in found)


def check_approved(known: Sequence[Approval], plan: Plan, step: PlanStep, *, required: bool) -> None:
    """Refuse to start a step that was rejected, or that lacks an approval where one is `required`.

    Raises: NeedsApproval.
    """
    decision = find_deciding(known, plan.version, step.uid)
    if decision is not None and decision.status == "approved":
        return
    number = plan.step_numbers()[step.uid]
    details = {"plan_id": plan.id, "step": number, "request_id": decision.id if decision else None}
    if decision is not None and decision.status in BLOCKING:
        comment = f" ({decision.comment})" if decision.comment else ""
        raise NeedsApproval(
            f"step {number} was not approved: {decision.status.replace('_', ' ')}{comment}",
            next_steps=(NextStep("refine_plan", "to change the plan"), NextStep("request_approval", "again")),
            details=details,
        )
    if required:
        message, advice = f"needs an approval of version {plan.version}", "Ask for it with request_approval."
        if decision is not None:
            message, advice = f"waits for {decision.id}", "Have it decided with respond_approval."
        raise NeedsApproval(f"step {number} {message}", suggestion=advice, details=details)
