"""What a planner may ask: the code, what the team knows, and the past of its files. It looks at nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from context_engine.context.gather import Workspace
from context_engine.context.project_knowledge import Partner, Team
from context_engine.model import Direction, Filter, RelPath, TextLine, TextPart, TextQuery, Trace


class PlanWorkspace(Workspace, Protocol):
    """What plans ask of an Engine beyond what prompts do."""

    def trace(self, target: str, direction: Direction = "callers", *, depth: int = 1, limit: int = 100) -> Trace:
        """Who uses a symbol, with path:line evidence."""
        ...

    def grep(
        self, query: TextQuery, parts: Sequence[TextPart], *, context: int = 0, chars_max: int = 300
    ) -> dict[RelPath, list[TextLine]]:
        """The lines of some files that match."""
        ...


class Record(Protocol):
    """One file's past. `recent` counts its commits, each the less the older it is."""

    @property
    def commits(self) -> int:
        """How many there are."""
        ...

    @property
    def recent(self) -> float:
        """How lively it is."""
        ...

    @property
    def authors(self) -> Sequence[tuple[str, int]]:
        """Who committed, and how often, most first."""
        ...


class Past(Protocol):
    """The history of the files."""

    def record(self, path: str) -> Record | None:
        """What happened to a file; None when no commit knows it."""
        ...

    def usually_with(self, path: str) -> Sequence[Partner]:
        """What is nearly always changed together with a file."""
        ...

    def hot(self, limit: int) -> Sequence[object]:
        """The files that are changed most these days."""
        ...


@dataclass(frozen=True, slots=True)
class PlanSources:
    """All of it; a part that is missing makes a plan poorer, never impossible."""

    code: PlanWorkspace
    team: Team
    past: Past | None = None


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A task, and how far the plan for it may go. Without `with_scope` only the caller's own globs say what it is about."""

    task: str
    files_max: int = 8
    chosen: Filter = field(default_factory=Filter)
    mvp_only: bool = False
    with_diagrams: bool = False
    with_scope: bool = True
