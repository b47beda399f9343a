"""A server that a team shares: its tokens, their authentication, a dispatcher for each grant, and the audit log.

A server is shared where `--tokens` names a file, or where `ctx token create` created one and no single token is given.
A dispatcher of a grant never asks who called: what a token may not see cannot be reached through it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.errors import ContextEngineError, UnsuitableRoot
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.grants import ROLES, Grant, SharedAccess
from context_engine.server.metrics import Metrics
from context_engine.server.projects import Projects, find_project_path
from context_engine.server.serve_options import ServeOptions
from context_engine.server.server_log import AuditLog, Log
from context_engine.team.team_authentication import Authenticator
from context_engine.team.token_file import TokenFile

if TYPE_CHECKING:
    from context_engine.engine import Engine

Sees = Callable[[str, str], bool]
"""Returns whether a project of this name and path exists for the caller."""


def create_shared_server(options: ServeOptions, dispatcher: ToolDispatcher, projects: Projects) -> SharedAccess:
    """Create what a shared server needs besides the usual parts.

    Raises: HostError, StorageCorrupt, AccessFailed, InvalidArgument, each with the next step.
    """
    tokens = TokenFile(Path(options.tokens).expanduser().absolute() if options.tokens else None, now=time.time)
    key = tokens.sealing_key()
    audit: Log | None = AuditLog(options.audit_log, now=time.time).write if options.audit_log else None
    sessions = ClientSessions(dispatcher, projects, audit=audit)
    count = len(tokens.page().tokens)
    if count:
        location = f"one of the {count} in {tokens.path}"
    else:
        location = f"in {tokens.path}, which has none yet: ctx token create NAME"
    return SharedAccess(sessions, Authenticator(tokens, log=sessions.audit), key, location)


class ClientSessions:
    """The dispatchers of all grants that have sent a request. Thread-safe.

    `audit` receives a line for each call; by default the log does.
    """

    def __init__(self, dispatcher: ToolDispatcher, projects: Projects, *, audit: Log | None = None) -> None:
        self.audit: Log = audit or dispatcher.log
        self._dispatcher = dispatcher
        self._projects = projects
        self._lock = threading.Lock()
        self._dispatchers: dict[Grant, ToolDispatcher] = {}
        self._by_role = {role: Metrics() for role in ROLES}

    def dispatcher(self, grant: Grant) -> ToolDispatcher:
        """Return the dispatcher of a grant, the same one each time."""
        with self._lock:
            if grant not in self._dispatchers:
                self._dispatchers[grant] = self._create_dispatcher(grant)
            return self._dispatchers[grant]

    def projects_of(self, grant: Grant) -> ScopedProjects:
        """Return the projects that a grant sees."""
        return ScopedProjects(self._projects, grant.sees)

    def metrics_by_role(self, grant: Grant) -> dict[str, dict[str, dict[str, Any]]]:
        """Return role -> metrics by tool: of all tokens for an admin of all projects, else of this grant alone."""
        if grant.role == ROLES[-1] and grant.sees_all:
            return {role: metrics.rows() for role, metrics in self._by_role.items()}
        return {grant.role: self.dispatcher(grant).metrics.rows()}

    def _create_dispatcher(self, grant: Grant) -> ToolDispatcher:
        scoped = self.projects_of(grant)
        return self._dispatcher.for_grant(
            scoped.engine,
            grant,
            log=self._create_log(grant, scoped),
            metrics=Metrics(within=self._by_role[grant.role]),
            project_names=lambda: scoped.names,
        )

    def _create_log(self, grant: Grant, scoped: ScopedProjects) -> Log:
        """Return a log that adds the token and the name of the project; only calls and reads go to the audit log."""

        def write(line: dict[str, Any]) -> None:
            if line.get("event") not in ("call", "read"):
                self._dispatcher.log({"token": grant.name} | line)
                return
            project = scoped.name_of(str(line.get("project", "")))
            rest = {key: value for key, value in line.items() if key != "project"}
            named = {"project": project} if project else {}
            self.audit({"token": grant.name, "role": grant.role} | rest | named)

        return write


class ScopedProjects:
    """The projects of a server that one token sees. Thread-safe.

    A hidden project is not refused, it does not exist: the error is the one for an unknown name.
    """

    def __init__(self, projects: Projects, sees: Sees) -> None:
        self._projects = projects
        self._sees = sees

    @property
    def paths_by_name(self) -> dict[str, str]:
        """The visible projects as name -> path, the default first."""
        return {name: path for name, path in self._projects.paths_by_name.items() if self._sees(name, path)}

    @property
    def names(self) -> tuple[str, ...]:
        """The values of the `project` argument."""
        return tuple(self.paths_by_name)

    def engine(self, project: str = "") -> Engine:
        """Return the Engine of a visible project. Raises: as `Projects.engine` does."""
        return self._projects.engine(self._path(project))

    def name_of(self, project: str) -> str:
        """Return the name of the project of a call; empty if no visible one has that name or path."""
        try:
            path = self._path(project)
        except ContextEngineError:
            return ""
        names = [name for name, visible in self.paths_by_name.items() if visible == path]
        if names:
            return names[0]
        return ""

    def _path(self, project: str) -> str:
        visible = self.paths_by_name
        if not visible:
            raise UnsuitableRoot(
                "no project is open to this token",
                suggestion="Ask the operator of the server for a token: ctx token create NAME --project PROJECT.",
            )
        return find_project_path(visible, project)
