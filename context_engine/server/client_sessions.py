"""The gates of a shared server, one for each grant: whoever comes meets the projects, tools and counts of his own token.

    visitors = Visitors(gate, projects, audit=audit.write)
    visitors.gate(grant).call(name, arguments, Call())

Nothing behind such a gate asks who called: what a token may not see cannot be reached through it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from context_engine.server.dispatcher import Gate, Log
from context_engine.server.grants import ROLES, Grant
from context_engine.server.metrics import Metrics
from context_engine.server.project_scope import Seen
from context_engine.server.projects import Projects

SCOPE_KEY = "ctx.grant"
"""Where the door of the server leaves the grant for who answers the request."""


class Visitors:
    """The gates of all grants that came by. Thread-safe. `audit` keeps a line of each call; without one the log does."""

    def __init__(self, gate: Gate, projects: Projects, *, audit: Log | None = None) -> None:
        self._gate = gate
        self._projects = projects
        self._audit = audit or gate.log
        self._lock = threading.Lock()
        self._gates: dict[Grant, Gate] = {}
        self._by_role = {role: Metrics() for role in ROLES}

    def gate(self, grant: Grant) -> Gate:
        """The gate of a grant, the same one each time."""
        with self._lock:
            if grant not in self._gates:
                self._gates[grant] = self._made(grant)
            return self._gates[grant]

    def seen(self, grant: Grant) -> Seen:
        """The projects as a grant sees them."""
        return Seen(self._projects, grant.sees)

    def rows(self, grant: Grant) -> dict[str, dict[str, dict[str, Any]]]:
        """Role -> the counts of its calls, by tool: everybody's for an admin of all projects, else one's own."""
        if grant.role == ROLES[-1] and grant.sees_all:
            return {role: metrics.rows() for role, metrics in self._by_role.items()}
        return {grant.role: self.gate(grant).metrics.rows()}

    def refused(self, line: dict[str, Any]) -> None:
        """Keep a line about somebody who was not let in."""
        self._audit(line)

    def _made(self, grant: Grant) -> Gate:
        seen = self.seen(grant)
        metrics = Metrics(within=self._by_role[grant.role])
        log = _told_of(grant, seen, self._audit, self._gate.log)
        return self._gate.beside(seen.engine, grant, log=log, metrics=metrics, names=lambda: seen.names)


def _told_of(grant: Grant, seen: Seen, audit: Log, log: Log) -> Callable[[dict[str, Any]], None]:
    """A log that adds whose call it was, on which of his projects; other events go where they always went."""

    def tell(line: dict[str, Any]) -> None:
        if line.get("event") not in ("call", "read"):
            log({"token": grant.name} | line)
            return
        project = seen.named(str(line.get("project", "")))
        told = {key: value for key, value in line.items() if key != "project"}
        audit({"token": grant.name, "role": grant.role} | told | ({"project": project} if project else {}))

    return tell
