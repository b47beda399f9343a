"""A workspace with a desk, for tests: its plans, with a clock that stands still until it is told otherwise."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from context_engine.context.project_knowledge import ProjectKnowledge
from context_engine.errors import Conflict, FileNotFound, NotIndexed, StorageBusy
from context_engine.plans.model import Plan, PlanStep
from context_engine.plans.plan_repository import PlanRepository
from context_engine.plans.plan_service import PlanService
from context_engine.repo.git import Git
from context_engine.repo.paths import Root
from context_engine.timestamps import make_clock

if TYPE_CHECKING:
    from context_engine.tools.tool import Call, Reply, Tool

NOON = "2026-11-21T12:00:00Z"
PLANS = ".context-engine/plans"


class Nobody:
    """No services: nothing here makes plans or changes files; of the files there are it knows the text."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.files = self.symbols = self.search = self

    def get_project_knowledge(self) -> ProjectKnowledge:
        return ProjectKnowledge()

    def history(self) -> None:
        return None

    def find(self, *_: Any, **__: Any) -> Any:
        raise NotIndexed("there is no index here")

    def read(self, path: str) -> Any:
        found = self._root / path
        if not found.is_file():
            raise FileNotFound(f"there is no {path}")
        text = found.read_text()
        return SimpleNamespace(text=text, lines=text.count("\n"), sha256="0" * 64)

    def outline(self, path: str) -> Any:
        return SimpleNamespace(lines=self.read(path).lines, symbols=())


class Desks:
    """One process that has a workspace open: `plans`, and the time, which `at` sets.

    Another one on the same folder is another process.
    """

    def __init__(self, root: Path, **wishes: Any) -> None:
        self.folder = root
        self._at = make_clock(NOON)
        nobody: Any = Nobody(root)
        said: dict[str, Any] = {"flush": False} | wishes
        self.shared_records = said.get("shared_records")
        said |= {"workspace": nobody, "edits": nobody, "knowledge": nobody}
        self.plans = PlanService(Root(root), Git(root), self.now, **said)
        self.settings = SimpleNamespace(result_chars_max=36_000)
        self.search = self

    def now(self) -> float:
        return self._at()

    def at(self, moment: str) -> None:
        self._at = make_clock(moment)

    def write(self, path: str, text: str) -> Path:
        """A file of the workspace, as an editor leaves it."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        return target

    def git(self, *words: str) -> str:
        """What a git command says, run by a person in the workspace."""
        named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *named, *words], cwd=self.folder, check=True, capture_output=True, text=True, encoding="utf-8"
        ).stdout

    def lie(self, path: str = "") -> Path:
        """Where something of the plans lies."""
        return self.folder / PLANS / path

    def run(self, tool: Tool, call: Call | None = None, /, **arguments: object) -> Reply:
        from context_engine.tools.tool import Call  # many processes of tests call no tool

        return tool.call(self, arguments, call or Call())


def change_goal(repository: PlanRepository, said: str) -> None:
    """Make a version of the plan `shared` on whatever is the newest one; somebody else may be quicker."""
    while True:
        loaded = repository.load("shared")
        changed = msgspec.structs.replace(loaded.plan, goal=said)
        with suppress(Conflict, StorageBusy):
            repository.save(changed, overwrite=True, expected_version=loaded.version.version)
            return


def step(uid: str, *after: str, **told: Any) -> PlanStep:
    """A step that waits for others."""
    said: dict[str, Any] = {"title": f"Do {uid}"} | told
    return PlanStep(uid=uid, depends_on=tuple(after), **said)


def plan(*steps: PlanStep, **told: Any) -> Plan:
    """A plan; without steps of its own one step, and two that wait for it."""
    listed = steps or (step("s1"), step("s2", "s1"), step("s3", "s1"))
    said: dict[str, Any] = {"goal": "Money in cents", "steps": listed} | told
    return Plan(**said)
