"""What one Engine does with plans: kept on the desk, carried out step by step, approved of; put together for one workspace.

engine.plans.desk.save(plan)
engine.plans.steps.start(plan_id, 1)
engine.plans.approvals.request(plan_id)
engine.plans.making.created(Asked("Retry failed requests"), Saving())
engine.plans.refining.refined(Asked(plan_id, feedback="remove step 4"))
engine.plans.executing.applied(...)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from context_engine.context.project_knowledge import Team
from context_engine.errors import ContextEngineError, FileNotFound
from context_engine.history.file_history import History
from context_engine.plans.approval_events import Approving
from context_engine.plans.approvals import Rules
from context_engine.plans.change_verification import Review, Verifier, allowed
from context_engine.plans.drift import WorkTree
from context_engine.plans.plan_creation import Making
from context_engine.plans.plan_execution import Executing, Files
from context_engine.plans.plan_index import Register
from context_engine.plans.plan_progress import Policy
from context_engine.plans.plan_refinement import Refining
from context_engine.plans.plan_repository import Desk
from context_engine.plans.plan_sources import Code, Sources
from context_engine.plans.plan_storage import Keeper
from context_engine.plans.plan_validation import Ground
from context_engine.plans.step_tracking import Tracking
from context_engine.repo.git import Git
from context_engine.repo.paths import Root
from context_engine.secrets import mask
from context_engine.sharing.versioned_records import Dossiers
from context_engine.storage.state_folder import FOLDER
from context_engine.storage.timestamps import Now

if TYPE_CHECKING:  # for those who have a team
    from context_engine.sharing.shared_records import Commons


class House(Code, Files, Protocol):
    """The Engine, as far as plans are made of what it knows and carried out by what it does with files."""

    def team(self) -> Team:
        """What a team knows."""
        ...

    def history(self) -> History | None:
        """The history of the files."""
        ...

    def syntax(self, path: str, before: bytes | None, after: bytes | None) -> str:
        """Whether a file still parses."""
        ...


class Place(NamedTuple):
    """What plans need of the Engine: the workspace, its repository, the time, and how the team wants to work.

    `flush=False` gives up on surviving a power cut; `commons` is where a team has its plans in common.
    """

    root: Root
    git: Git
    now: Now
    house: House
    verify_commands: str = ""
    objections: Review | None = None
    approval_needed: bool = False
    person_needed: bool = False
    evidence_needed: bool = False
    retries_max: int = 3
    lease_hours: float = 0.0
    flush: bool = True
    scrub: Callable[[str], str] = lambda text: mask(text).text
    commons: Commons | None = None


class Planning:
    """The plans of one workspace. Thread-safe; nothing is read or created before it is needed."""

    def __init__(self, place: Place) -> None:
        dossiers = Dossiers(place.root.path / FOLDER, "plans", flush=place.flush, commons=place.commons)
        tree = WorkTree(place.root, place.git)
        self.ground = ground(place.root)
        policy = Policy(place.retries_max, place.lease_hours)
        rules = Rules(place.approval_needed, place.person_needed, place.evidence_needed)
        keeper = Keeper(dossiers, now=place.now, chance=os.urandom, scrub=place.scrub, policy=policy)
        register = Register(keeper)
        self.desk = Desk(keeper, register, tree, self.ground)
        self.steps = Tracking(keeper, self.desk.id_of, tree, rules)
        self.approvals = Approving(keeper, register, self.desk, rules)
        self._house = place.house
        self.making = Making(self.sources, self.desk, self.ground)
        self.refining = Refining(self.desk, self.ground, self.making, lambda: self._house)
        verifier = Verifier(place.root.path, place.house.syntax, allowed(place.verify_commands), place.objections)
        self.executing = Executing(place.house, self.steps, verifier)

    def sources(self) -> Sources:
        """What plans are made of, as it is at this moment."""
        return Sources(self._house, self._house.team(), self._house.history())


def ground(root: Root) -> Ground:
    """Which paths a plan of this workspace may speak of, as they are at the moment of asking."""

    def exists(path: str) -> bool:
        return not _trouble(root, path, must_exist=True)

    def nearest(path: str) -> str:
        error = _trouble(root, path, must_exist=True)
        near = error.details.get("near") if isinstance(error, FileNotFound) else ()
        return near[0] if near else ""

    def refusal(path: str) -> str:
        error = _trouble(root, path, must_exist=False)
        return error.message if error else ""

    return Ground(exists, nearest, refusal)


def _trouble(root: Root, path: str, *, must_exist: bool) -> ContextEngineError | None:
    try:
        root.rel(path, must_exist=must_exist)
    except ContextEngineError as error:
        return error
    return None
