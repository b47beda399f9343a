"""The open projects as one token sees them: fewer names over the same Engines.

    seen = Seen(projects, grant.sees)
    seen.names, seen.engine("web")

A project that is hidden is not refused, it is not there: the sentence about it is the one about any name that nobody
has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from context_engine.errors import ContextEngineError, UnsuitableRoot
from context_engine.server.projects import Projects, find_project_path

if TYPE_CHECKING:
    from context_engine.engine import Engine

Sees = Callable[[str, str], bool]
"""Returns whether a project of this name, at this path, exists for the caller."""


class ScopedProjects:
    """The projects of a server as one token sees them. Thread-safe."""

    def __init__(self, projects: Projects, sees: Sees) -> None:
        self._projects = projects
        self._sees = sees

    @property
    def paths_by_name(self) -> dict[str, str]:
        """Name -> path of the projects that exist here, the default first."""
        return {name: path for name, path in self._projects.paths_by_name.items() if self._sees(name, path)}

    @property
    def names(self) -> tuple[str, ...]:
        """The valid values of the `project` argument."""
        return tuple(self.paths_by_name)

    def engine(self, project: str = "") -> Engine:
        """The Engine of a project, as `Projects.engine` gives it.

        Raises: as that, over the projects that exist here.
        """
        return self._projects.engine(self._path(project))

    def name_of(self, project: str) -> str:
        """The name of the project that a call means; empty when there is none such here."""
        try:
            path = self._path(project)
        except ContextEngineError:
            return ""
        return next((name for name, each in self.paths_by_name.items() if each == path), "")

    def _path(self, project: str) -> str:
        """The folder that is meant."""
        chosen = self.paths_by_name
        if not chosen:
            raise UnsuitableRoot(
                "no project is open to this token",
                suggestion="Ask who runs the server for a token of a project: ctx token create NAME --project PROJECT.",
            )
        return find_project_path(chosen, project)
