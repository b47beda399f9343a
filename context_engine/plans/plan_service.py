"""The plan service of one workspace: stores, executes, approves, creates and refines plans.

engine.plans.repository.save(plan)
engine.plans.steps.start(plan_id, 1)
engine.plans.approvals.request(plan_id)
engine.plans.factory.create(PlanRequest("Retry failed requests"), SaveOptions())
engine.plans.refiner.refine(RefinementRequest(plan_id, feedback="remove step 4"))
engine.plans.executor.apply(...)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from context_engine.context import Workspace
from context_engine.edit import EditService
from context_engine.errors import ContextEngineError, FileNotFound
from context_engine.memory import KnowledgeService
from context_engine.plans.approval_service import ApprovalService
from context_engine.plans.changeset import PlanSources
from context_engine.plans.plan_creation import PlanFactory, PlanRefiner
from context_engine.plans.plan_events import PlanRules, RetryLimits
from context_engine.plans.plan_execution import ChangeVerifier, PlanExecutor, Review, parse_commands
from context_engine.plans.plan_repository import PlanRepository
from context_engine.plans.plan_storage import PlanIndex, PlanStorage
from context_engine.plans.plan_validation import WorkspacePaths
from context_engine.plans.step_tracking import PlanWorkTree, StepTracker
from context_engine.repo import Git, Root
from context_engine.secrets import redact
from context_engine.sharing import VersionedRecords
from context_engine.storage import STATE_FOLDER
from context_engine.timestamps import Now

if TYPE_CHECKING:  # for those who have a team
    from context_engine.sharing import SharedRecords


class PlanDependencies(NamedTuple):
    """The workspace of the plans, its edits, its sources, the time, and the rules of the team.

    `flush=False`: a power cut may lose the last writes. `shared_records` contains the plans that a team shares.
    """

    root: Root
    git: Git
    now: Now
    workspace: Workspace
    edits: EditService
    knowledge: KnowledgeService
    verify_commands: str = ""
    objections: Review | None = None
    approval_needed: bool = False
    person_needed: bool = False
    evidence_needed: bool = False
    retries_max: int = 3
    lease_hours: float = 0.0
    flush: bool = True
    redact_text: Callable[[str], str] = lambda text: redact(text).text
    shared_records: SharedRecords | None = None


class PlanService:
    """The plans of one workspace. Thread-safe; nothing is read or created before it is needed."""

    def __init__(self, place: PlanDependencies) -> None:
        records = VersionedRecords(
            place.root.path / STATE_FOLDER, "plans", flush=place.flush, shared_records=place.shared_records
        )
        tree = PlanWorkTree(place.root, place.git)
        self.paths = workspace_paths(place.root)
        policy = RetryLimits(place.retries_max, place.lease_hours)
        rules = PlanRules(place.approval_needed, place.person_needed, place.evidence_needed)
        storage = PlanStorage(records, now=place.now, chance=os.urandom, redact_text=place.redact_text, policy=policy)
        index = PlanIndex(storage)
        self.repository = PlanRepository(storage, index, tree, self.paths)
        self.steps = StepTracker(storage, self.repository.resolve_id, tree, rules)
        self.approvals = ApprovalService(storage, index, self.repository, rules)
        self._workspace = place.workspace
        self._knowledge = place.knowledge
        self.factory = PlanFactory(self.sources, self.repository, self.paths)
        self.refiner = PlanRefiner(self.repository, self.paths, self.factory, place.workspace)
        verifier = ChangeVerifier(place.root.path, parse_commands(place.verify_commands), place.objections)
        self.executor = PlanExecutor(place.edits, self.steps, verifier)

    def sources(self) -> PlanSources:
        """Return the present sources of plans."""
        return PlanSources(self._workspace, self._knowledge.get_project_knowledge(), self._knowledge.history())


def workspace_paths(root: Root) -> WorkspacePaths:
    """Return the paths that plans of this workspace may name, checked at the time of the call."""

    def exists(path: str) -> bool:
        return not _path_error(root, path, must_exist=True)

    def nearest(path: str) -> str:
        error = _path_error(root, path, must_exist=True)
        if isinstance(error, FileNotFound):
            near = error.details.get("near")
        else:
            near = ()
        if near:
            return near[0]
        return ""

    def refusal(path: str) -> str:
        error = _path_error(root, path, must_exist=False)
        if error:
            return error.message
        return ""

    return WorkspacePaths(exists, nearest, refusal)


def _path_error(root: Root, path: str, *, must_exist: bool) -> ContextEngineError | None:
    try:
        root.rel(path, must_exist=must_exist)
    except ContextEngineError as error:
        return error
    return None
