"""A server that a team shares: its tokens, a dispatcher for each of them, and the audit log.

A server is shared where `--tokens` names a file, or where `ctx token create` created one and no single token is given.
A dispatcher of a grant never asks who called: what a token may not see cannot be reached through it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine.errors import AccessDenied, ContextEngineError, HostError, UnsuitableRoot
from context_engine.server import resources
from context_engine.server.authentication import OPEN_PATHS, HttpRefusal, unauthorized_refusal
from context_engine.server.dispatcher import ToolDispatcher, rate_limit_error
from context_engine.server.gain_store import GainStore
from context_engine.server.metrics import Metrics
from context_engine.server.projects import Projects, find_project_path
from context_engine.server.rate_limits import RateLimiter
from context_engine.server.serve_options import ServeOptions
from context_engine.server.server_log import Log, RepeatFilter, create_log, write_to_stderr
from context_engine.storage import open_private
from context_engine.team.token_file import ROLES, Grant, TokenFile, forbids, required_role

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.tools import Tool

AUDIT_FIELDS = ("token", "role", "event", "method", "tool", "via", "project", "status", "from", "ok", "error", "ms")
"""The fields of an audit line, in this order; other fields of the log are left out."""
REQUESTS_A_CALL = 6
"""A client of an older protocol version sends three requests to connect and one to leave. A call is one request, or two
with a ping."""
HINT = (
    "Send the header `Authorization: Bearer <token>`; the operator of this server creates one with `ctx token create`."
)
Sees = Callable[[str, str], bool]
"""Returns whether a project of this name and path exists for the caller."""


def create_shared_server(options: ServeOptions, dispatcher: ToolDispatcher, projects: Projects) -> SharedServer:
    """Create what a shared server needs besides the usual parts.

    Raises: HostError, StorageCorrupt, AccessFailed, InvalidArgument, each with the next step.
    """
    tokens = TokenFile(Path(options.tokens).expanduser().absolute() if options.tokens else None, now=time.time)
    audit = open_audit_log(options.audit_log) if options.audit_log else None
    return SharedServer(dispatcher, projects, tokens, audit=audit)


class SharedServer:
    """What the tokens of a team add to a server; `token_location` describes where they are. Thread-safe.

    It has a dispatcher for each grant that has sent a request. All processes of the team seal with one key what a
    client carries from one request to the next.
    """

    def __init__(
        self, dispatcher: ToolDispatcher, projects: Projects, tokens: TokenFile, *, audit: Log | None = None
    ) -> None:
        """`audit` receives a line for each call; by default the log does. Raises: as `TokenFile.sealing_key`."""
        self.audit: Log = audit or dispatcher.log
        self.sealing_key = tokens.sealing_key()
        self.authenticate = Authenticator(tokens, log=self.audit).authenticate
        self.token_location = f"in {tokens.path}, which has none yet: ctx token create NAME"
        if count := len(tokens.page().tokens):
            self.token_location = f"one of the {count} in {tokens.path}"
        self._dispatcher = dispatcher
        self._projects = projects
        self._lock = threading.Lock()
        self._dispatchers: dict[Grant, ToolDispatcher] = {}
        self._by_role = {role: Metrics() for role in ROLES}

    def dispatcher(self, grant: Grant) -> ToolDispatcher:
        """Return the dispatcher of a grant, the same one each time."""
        with self._lock:
            if grant not in self._dispatchers:
                scoped = ScopedProjects(self._projects, grant.sees)
                self._dispatchers[grant] = GrantDispatcher(
                    self._dispatcher,
                    scoped.engine,
                    grant,
                    log=self._create_log(grant, scoped),
                    metrics=Metrics(within=self._by_role[grant.role]),
                    project_names=lambda: scoped.names,
                )
            return self._dispatchers[grant]

    def metrics_of(self, grant: Grant) -> dict[str, dict[str, dict[str, Any]]]:
        """Return role -> metrics by tool: of all tokens for an admin of all projects, else of this grant alone."""
        if grant.role == ROLES[-1] and grant.sees_all:
            return {role: metrics.rows() for role, metrics in self._by_role.items()}
        return {grant.role: self.dispatcher(grant).metrics.rows()}

    def log_read(self, grant: Grant, method: str, params: Mapping[str, Any] | None, error: str, ms: float) -> None:
        """Write an audit line for a read that is not a tool call."""
        project = requested_project(method, params)
        line: dict[str, Any] = {"event": "read", "method": method, "project": project, "ok": not error}
        if error:
            line["error"] = error
        self.dispatcher(grant).log(line | {"ms": round(ms, 2)})

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


def requested_project(method: str, params: Mapping[str, Any] | None) -> str:
    """Return the project that a request other than a tool call names; empty when it names none.

    >>> requested_project("resources/read", {"uri": "ctx://status?project=web"})
    'web'
    """
    given = params or {}
    if method == "resources/read":
        return resources.project_in_uri(str(given.get("uri", "")))
    holder = given.get("context") if method == "completion/complete" else given
    named = holder.get("arguments") if isinstance(holder, Mapping) else None
    return str(named.get("project", "")) if isinstance(named, Mapping) else ""


class GrantDispatcher(ToolDispatcher):
    """The dispatcher of one token, with its own projects, role, rates, log and metrics. Its calls are not counted.

    The folder of chunk files belongs to no project, so only grants that see every project have it.
    """

    def __init__(
        self,
        base: ToolDispatcher,
        engine: Callable[[str], Engine],
        grant: Grant,
        *,
        log: Log,
        metrics: Metrics,
        project_names: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        super().__init__(
            engine,
            selection=base.selection,
            log=log,
            chunks=base.chunks if grant.sees_all else None,
            metrics=metrics,
            project_names=project_names,
            gain=GainStore(enabled=False),
            remote=base.remote,
        )
        self.grant = grant
        self._pace = RateLimiter({grant.name: grant.per_minute}, burst_minutes=1)

    def find_obstacle(self, tool: Tool) -> str:
        """Return the reason why a tool is off: an option of the server, or the role of the caller."""
        option = super().find_obstacle(tool)
        if not option and forbids(self.grant.role, tool.touches, destructive=tool.hints.destructive):
            return f"the role {self.grant.role}"
        return option

    def check_caller(self, tool: Tool) -> None:
        """Refuse a tool that the role may not use, and too many calls. Raises: AccessDenied, RateLimited."""
        role, destructive = self.grant.role, tool.hints.destructive
        if forbids(role, tool.touches, destructive=destructive):
            needed = required_role(tool.touches, destructive=destructive)
            raise AccessDenied(
                f"{tool.name} needs a token of the role {needed}, and this one is of the role {role}",
                suggestion="Ask the operator of the server for such a token, or do without the tool.",
                details={"tool": tool.name, "role": role, "needs": needed},
            )
        with self._lock:
            wait_s = self._pace.wait_s(self.grant.name, self.clock())
        if wait_s:
            raise rate_limit_error("this token", self.grant.per_minute, wait_s, {"token": self.grant.name})

    def sees(self, name: str, path: str) -> bool:
        """Return whether a project exists for the caller."""
        return self.grant.sees(name, path)


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
        return next((name for name, visible in self.paths_by_name.items() if visible == path), "")

    def _path(self, project: str) -> str:
        visible = self.paths_by_name
        if not visible:
            raise UnsuitableRoot(
                "no project is open to this token",
                suggestion="Ask the operator of the server for a token: ctx token create NAME --project PROJECT.",
            )
        return find_project_path(visible, project)


class Authenticator:
    """The check of the tokens of a team. Thread-safe. `log` receives a line for each refused request."""

    def __init__(
        self,
        tokens: TokenFile,
        *,
        log: Log,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._log = log
        self._now = now
        self._clock = clock
        self._rates: dict[Grant, RateLimiter] = {}
        self._lock = threading.Lock()
        self._repeats = RepeatFilter()

    def authenticate(self, path: str, headers: Mapping[str, str], address: str = "") -> Grant | HttpRefusal | None:
        """Return the grant of a request, or why it is refused; None for a path without a token.

        `address`, where the request comes from, is for the log.
        """
        if path in OPEN_PATHS:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else ""
        try:
            grant = self._tokens.find_grant(token)
        except ContextEngineError as error:
            self._log({"event": "tokens", "ok": False, "error": error.as_dict()})
            return HttpRefusal(503, "The tokens of this server cannot be read; its log has the reason.")
        if grant is None:
            refusal = unauthorized_refusal(HINT, is_invalid="authorization" in headers)
        elif grant.is_expired(self._now()):  # only its holder learns that it was valid
            refusal = unauthorized_refusal(f"This token has expired. {HINT}", is_invalid=True)
        elif (refusal := self._refuse_excess(grant)) is None:
            return grant
        self._log_refusal(refusal, path, grant.name if grant else "", address)
        return refusal

    def _log_refusal(self, refusal: HttpRefusal, path: str, token: str, address: str) -> None:
        """Log a refusal; of many with one token and address some are left out and counted."""
        left_out = self._repeats.admit((refusal.status, token, address), self._clock())
        if left_out is None:
            return
        line: dict[str, Any] = {"event": "refused", "ok": False, "status": refusal.status, "path": path[:100]}
        optional = {"token": token, "from": address, "left_out": left_out}
        self._log(line | {key: value for key, value in optional.items() if value})

    def _refuse_excess(self, grant: Grant) -> HttpRefusal | None:
        if not grant.per_minute:
            return None
        with self._lock:
            rate = grant.per_minute * REQUESTS_A_CALL
            limits = self._rates.setdefault(grant, RateLimiter({grant.id: rate}, burst_minutes=1))
            wait_s = math.ceil(limits.wait_s(grant.id, self._clock()))
        if not wait_s:
            return None
        return HttpRefusal(429, f"Too many requests with this token. Wait {wait_s} s.", {"retry-after": str(wait_s)})


def open_audit_log(location: str) -> Log:
    """Return an audit log in a file, or on stderr (`-`), which writes a JSON line for each call. Thread-safe.

    It contains neither arguments nor replies, and so no secret and no code. Each line is one write to a file that is
    opened for it. So several servers may share the file, and it can be moved away at any time. An error of writing is
    reported on stderr; calls continue. Raises: HostError when the file cannot be written.
    """
    file = None if location == "-" else Path(location).expanduser().absolute()

    def append(text: str) -> None:
        if file is None:
            write_to_stderr(text)
            return
        with open(file, "ab", buffering=0, opener=open_private) as target:
            target.write(text.encode("utf-8", "replace"))

    def write(text: str) -> None:
        try:
            append(text)
        except OSError as error:
            write_to_stderr(f"ctx: the audit log cannot be written ({error.strerror or error}): {text}")

    try:
        append("")
    except OSError as error:
        raise HostError(
            f"the audit log cannot be written to {file}: {error.strerror or error}",
            suggestion="Name a file in an existing folder, or - for stderr, with --audit-log.",
        ) from error
    log = create_log("info", write)
    return lambda line: log({key: line[key] for key in AUDIT_FIELDS if key in line})
