"""The plan service of one workspace: stores, executes, approves, creates and refines plans.

engine.plans.repository.save(plan)
engine.plans.steps.start(plan_id, 1)
engine.plans.approvals.request(plan_id)
engine.plans.factory.create(PlanRequest("Retry failed requests"), SaveOptions())
engine.plans.executor.apply(...)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from context_engine.context import Workspace
from context_engine.edit import EditService
from context_engine.errors import (
    ApprovalNotFound,
    Conflict,
    ContextEngineError,
    FileNotFound,
    InvalidArgument,
    NeedsApproval,
    NextStep,
)
from context_engine.memory import KnowledgeService
from context_engine.plans.changeset import PlanSources
from context_engine.plans.model import Plan, PlanStep
from context_engine.plans.plan_creation import PlanFactory
from context_engine.plans.plan_diff import Diffstat, compute_diffstat
from context_engine.plans.plan_events import (
    AGENT,
    DECIDED,
    DECISIONS,
    HOUR_S,
    PERSON,
    REQUESTED,
    Approval,
    ApprovalDecision,
    PlanRules,
    move_approval,
)
from context_engine.plans.plan_execution import ChangeVerifier, PlanExecutor, Review, parse_commands
from context_engine.plans.plan_repository import PlanRepository
from context_engine.plans.plan_storage import PlanState, PlanStorage
from context_engine.plans.plan_validation import WorkspacePaths
from context_engine.plans.step_tracking import PlanWorkTree, StepTracker
from context_engine.repo import Git, Root
from context_engine.secrets import redact
from context_engine.storage import STATE_FOLDER, VersionedRecords
from context_engine.timestamps import Now, format_timestamp

if TYPE_CHECKING:
    from context_engine.storage import SharedRecords


@dataclass(frozen=True, slots=True)
class ApprovalResult:
    """A request for approval, its plan as it is now, and whether the request is new."""

    approval: Approval
    now: PlanState
    is_new: bool = False

    @property
    def plan(self) -> Plan:
        """The plan; with a new version when changes were asked for."""
        return self.now.plan

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """The steps that the request covers."""
        return tuple(step for step in self.plan.steps if self.approval.covers(step.uid))

    @property
    def diffstat(self) -> Diffstat:
        """What those steps are going to do with files."""
        return compute_diffstat(self.plan, self.steps)


class ApprovalService:
    """Requests for approval of the plans of one workspace. Thread-safe; other processes may work on them, too.

    A decision covers the version it was made about, and counts once. The event names who decided: `user` if a person
    was asked, else the agent that answered. What a caller claims about itself is not proof.
    """

    def __init__(self, storage: PlanStorage, repository: PlanRepository, rules: PlanRules) -> None:
        """Create the service; nothing is read yet."""
        self._storage = storage
        self._repository = repository
        self._rules = rules

    def request(
        self,
        which: str,
        *,
        steps: Sequence[int | str] = (),
        note: str = "",
        expires_in_hours: float | None = None,
        actor: str = "",
    ) -> ApprovalResult:
        """Request the approval of a plan as it is now, or of some of its steps; return a pending request for the same.

        Raises: PlanNotFound, InvalidArgument (a step that is not there), StorageCorrupt, StorageBusy, WriteFailed,
        DiskFull.
        """
        plan_id = self._repository.resolve_id(which)
        with self._storage.lock(plan_id):
            now = self._storage.read_state(plan_id)
            wanted = tuple(dict.fromkeys(now.plan.find_step(step).uid for step in steps))
            for known in now.approvals:
                if known.status == "pending" and known.steps == wanted:
                    return ApprovalResult(known, now)
            at = self._storage.now()
            made = Approval(
                id=self._storage.new_id("apr"),
                plan_id=now.plan.id,
                plan_version=now.version.version,
                plan_hash=now.version.content_hash,
                type="step_group" if len(wanted) > 1 else "step" if wanted else "full_plan",
                steps=wanted,
                summary="; ".join(now.plan.find_step(uid).title for uid in wanted) or now.plan.goal,
                note=note,
                created_at=format_timestamp(at),
                expires_at=format_timestamp(at + expires_in_hours * HOUR_S) if expires_in_hours else "",
            )
            event = self._storage.new_event(REQUESTED, actor=actor, data=msgspec.to_builtins(made))
            after = self._storage.append_events(now, event)
        return ApprovalResult(_find_approval(made.id, after), after, is_new=True)

    def respond(
        self, request_id: str, action: str, *, comment: str = "", modifications: str = "", by: str = AGENT
    ) -> ApprovalResult:
        """Record a decision about a request. `by` is `user` only if a person was asked.

        Requested changes become open feedback of the plan, in a new version. Raises: ApprovalNotFound, InvalidArgument,
        NeedsApproval (a person must decide), Conflict (decided already), PreconditionFailed (expired), and as
        `request`.
        """
        decision = next((known for known in DECISIONS if known == action), None)
        if decision is None:
            raise InvalidArgument(f"action is {action[:40]!r}", suggestion=f"It is one of {', '.join(DECISIONS)}.")
        if decision == "request_modification" and not modifications.strip():
            raise InvalidArgument(
                "modifications is empty",
                suggestion="Say what is to be different.",
                details={"argument": "modifications"},
            )
        if self._rules.person and by != PERSON:
            raise NeedsApproval(
                "a person must decide in this workspace (approvals_require_human)",
                suggestion="Ask the user, in a client that shows questions or with `ctx plan approve` at a terminal.",
                details={"request_id": request_id},
            )
        plan_id = self._find_plan(request_id)
        with self._storage.lock(plan_id):
            now = self._storage.read_state(plan_id)
            known = _find_approval(request_id, now)
            try:
                move_approval(known.status, decision)
            except Conflict as error:
                names = ("status", "decided_by", "decided_at", "comment")
                first = {name: getattr(known, name) for name in names}
                details = {"request_id": known.id, "decision": first}
                raise Conflict(error.message, suggestion=error.suggestion, details=details) from None
            data = msgspec.to_builtins(ApprovalDecision(known.id, decision, by, comment, modifications))
            after = self._storage.append_events(now, self._storage.new_event(DECIDED, actor=by, data=data))
        decided = _find_approval(request_id, after)
        if decision == "request_modification":  # `refine_plan` goes on from there
            plan = msgspec.structs.replace(after.plan, open_feedback=(*after.plan.open_feedback, decided.modifications))
            reason = f"changes asked for in {decided.id}"
            self._repository.save(plan, overwrite=True, author=decided.decided_by, reason=reason, allow_invalid=True)
            after = self._storage.read_state(plan_id)
        return ApprovalResult(decided, after)

    def get(self, request_id: str) -> ApprovalResult:
        """Return a request with its present status. Raises: ApprovalNotFound, StorageCorrupt."""
        now = self._storage.read_state(self._find_plan(request_id))
        return ApprovalResult(_find_approval(request_id, now), now)

    def _find_plan(self, request_id: str) -> str:
        """Return the id of the plan of a request. Raises: ApprovalNotFound."""
        for row in self._storage.rows():
            if request_id in row.requests:
                return row.id
        raise _unknown_request(request_id)


def _find_approval(request_id: str, now: PlanState) -> Approval:
    for approval in now.approvals:
        if approval.id == request_id:
            return approval
    raise _unknown_request(request_id)


def _unknown_request(request_id: str) -> ApprovalNotFound:
    steps = NextStep("load_plan", "to see the requests of a plan"), NextStep("request_approval", "to make one")
    shown = request_id[:80]
    return ApprovalNotFound(
        f"there is no request for approval {shown!r}", next_steps=steps, details={"request_id": shown}
    )


class PlanService:
    """The plans of one workspace. Thread-safe; nothing is read or created before it is needed."""

    def __init__(
        self,
        root: Root,
        git: Git,
        now: Now,
        *,
        workspace: Workspace,
        edits: EditService,
        knowledge: KnowledgeService,
        verify_commands: str = "",
        review: Review | None = None,
        approval_needed: bool = False,
        person_needed: bool = False,
        evidence_needed: bool = False,
        retries_max: int = 3,
        flush: bool = True,
        redact_text: Callable[[str], str] = lambda text: redact(text).text,
        shared_records: SharedRecords | None = None,
    ) -> None:
        """Connect the parts. With `flush=False` a power cut may lose the last writes.

        `shared_records` contains the plans that a team shares.
        """
        records = VersionedRecords(root.path / STATE_FOLDER, "plans", flush=flush, shared_records=shared_records)
        storage = PlanStorage(records, now=now, chance=os.urandom, redact_text=redact_text, retries_max=retries_max)
        tree, self.paths = PlanWorkTree(root, git), workspace_paths(root)
        rules = PlanRules(approval_needed, person_needed, evidence_needed)
        self.repository = PlanRepository(storage, tree, self.paths)
        self.steps = StepTracker(storage, self.repository.resolve_id, tree, rules)
        self.approvals = ApprovalService(storage, self.repository, rules)
        self._workspace = workspace
        self._knowledge = knowledge
        self.factory = PlanFactory(self.sources, self.repository, self.paths)
        self.executor = PlanExecutor(
            edits, self.steps, ChangeVerifier(root.path, parse_commands(verify_commands), review)
        )

    def sources(self) -> PlanSources:
        """Return the present sources of plans."""
        return PlanSources(self._workspace, self._knowledge.get_project_knowledge())


def workspace_paths(root: Root) -> WorkspacePaths:
    """Return the paths that plans of this workspace may name, checked at the time of the call."""

    def find_error(path: str, *, must_exist: bool) -> ContextEngineError | None:
        try:
            root.rel(path, must_exist=must_exist)
        except ContextEngineError as error:
            return error
        return None

    def nearest(path: str) -> str:
        error = find_error(path, must_exist=True)
        near = error.details.get("near") if isinstance(error, FileNotFound) else ()
        return near[0] if near else ""

    def refusal(path: str) -> str:
        error = find_error(path, must_exist=False)
        return error.message if error else ""

    return WorkspacePaths(lambda path: find_error(path, must_exist=True) is None, nearest, refusal)
