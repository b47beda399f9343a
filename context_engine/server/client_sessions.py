"""The dispatchers of a shared server, one per grant: each token has its own projects, tools and counts.

    sessions = Visitors(dispatcher, projects, audit=audit.write)
    sessions.dispatcher(grant).call(name, arguments, Call())

Nothing behind such a dispatcher asks who called: what a token may not see cannot be reached through it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from context_engine.server.dispatcher import Log, ToolDispatcher
from context_engine.server.grants import ROLES, Grant
from context_engine.server.metrics import Metrics
from context_engine.server.project_scope import ScopedProjects
from context_engine.server.projects import Projects

SCOPE_KEY = "ctx.grant"
"""Where the door of the server leaves the grant for who answers the request."""


class ClientSessions:
    """The dispatchers of all grants that came by.

    Thread-safe. `audit` keeps a line of each call; without one the log does.
    """

    def __init__(self, dispatcher: ToolDispatcher, projects: Projects, *, audit: Log | None = None) -> None:
        self._dispatcher = dispatcher
        self._projects = projects
        self._audit = audit or dispatcher.log
        self._lock = threading.Lock()
        self._dispatchers: dict[Grant, ToolDispatcher] = {}
        self._by_role = {role: Metrics() for role in ROLES}

    def dispatcher(self, grant: Grant) -> ToolDispatcher:
        """The dispatcher of a grant, the same one each time."""
        with self._lock:
            if grant not in self._dispatchers:
                self._dispatchers[grant] = self._create_dispatcher(grant)
            return self._dispatchers[grant]

    def projects_of(self, grant: Grant) -> ScopedProjects:
        """The projects as a grant sees them."""
        return ScopedProjects(self._projects, grant.sees)

    def metrics_by_role(self, grant: Grant) -> dict[str, dict[str, dict[str, Any]]]:
        """Role -> the counts of its calls, by tool: everybody's for an admin of all projects, else one's own."""
        if grant.role == ROLES[-1] and grant.sees_all:
            return {role: metrics.rows() for role, metrics in self._by_role.items()}
        return {grant.role: self.dispatcher(grant).metrics.rows()}

    def log_refusal(self, line: dict[str, Any]) -> None:
        """Write an audit line about a refused request."""
        self._audit(line)

    def _create_dispatcher(self, grant: Grant) -> ToolDispatcher:
        seen = self.projects_of(grant)
        metrics = Metrics(within=self._by_role[grant.role])
        log = _create_grant_log(grant, seen, self._audit, self._dispatcher.log)
        return self._dispatcher.for_grant(
            seen.engine, grant, log=log, metrics=metrics, project_names=lambda: seen.names
        )


def _create_grant_log(grant: Grant, seen: ScopedProjects, audit: Log, log: Log) -> Callable[[dict[str, Any]], None]:
    """A log that adds whose call it was, on which of his projects; other events go where they always went."""

    def tell(line: dict[str, Any]) -> None:
        if line.get("event") not in ("call", "read"):
            log({"token": grant.name} | line)
            return
        project = seen.name_of(str(line.get("project", "")))
        told = {key: value for key, value in line.items() if key != "project"}
        audit({"token": grant.name, "role": grant.role} | told | ({"project": project} if project else {}))

    return tell
