"""PURE. The permissions of a token of a shared server: a role, projects, an expiry time, a call rate.

Each role may do what the ones before it may. `read` changes nothing; `write` changes files, records and the index;
`admin` also empties the index and reads the metrics of all tokens. A project that a grant does not see does not exist
for its holder.

>>> grant = Grant("1f", "ci", "read", ("web", "/src/api"))
>>> grant.sees("web", "/src/web"), grant.sees("api", "/src/api"), grant.sees("till", "/src/till")
(True, True, False)
>>> required_role("files", destructive=True)
'write'
>>> forbids("read", "files", destructive=True), forbids("admin", "files", destructive=True)
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from context_engine.server.authentication import HttpRefusal
    from context_engine.server.dispatcher import ToolDispatcher

ROLES = ("read", "write", "admin")
EVERY_PROJECT = "*"
"""In place of projects: all of them, future ones included."""
SCOPE_KEY = "ctx.grant"
"""The key of the grant in the scope of a request that was let in."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions of one token. `projects` are names or paths; `expires_s` is a time, None for never.

    `per_minute` is the number of tools that it may call in a minute, 0 for any number.
    """

    id: str
    name: str
    role: str
    projects: tuple[str, ...]
    expires_s: float | None = None
    per_minute: int = 0

    @property
    def sees_all(self) -> bool:
        """Whether no project is hidden from it."""
        return EVERY_PROJECT in self.projects

    def sees(self, name: str, path: str) -> bool:
        """Return whether a project exists for it, by its exact name or path: no pattern, no folder above."""
        return self.sees_all or name in self.projects or path in self.projects

    def is_expired(self, now_s: float) -> bool:
        """Return whether it has expired."""
        return self.expires_s is not None and now_s >= self.expires_s


OWNER = Grant("", "owner", "admin", (EVERY_PROJECT,))
"""The grant of every client of a server with a single token, or without one."""


class VisibleProjects(Protocol):
    """The projects that one grant sees."""

    @property
    def names(self) -> tuple[str, ...]:
        """The values of the `project` argument."""

    @property
    def paths_by_name(self) -> dict[str, str]:
        """The visible projects as name -> path, the default first."""


class GrantSessions(Protocol):
    """The dispatchers of all grants that have sent a request."""

    def dispatcher(self, grant: Grant) -> ToolDispatcher:
        """Return the dispatcher of a grant, the same one each time."""

    def projects_of(self, grant: Grant) -> VisibleProjects:
        """Return the projects that a grant sees."""

    def metrics_by_role(self, grant: Grant) -> dict[str, dict[str, dict[str, Any]]]:
        """Return role -> metrics by tool, as far as a grant may read them."""


class RequestAuthenticator(Protocol):
    """The check of the tokens of a team."""

    def authenticate(self, path: str, headers: Mapping[str, str], address: str = "") -> Grant | HttpRefusal | None:
        """Return the grant of a request, or why it is refused; None for a path without a token."""


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """What a server that several users share adds: who asks, and a dispatcher for each of them.

    Its processes seal with `sealing_key` what a client carries from one request to the next. `token_location` describes
    where the tokens are.
    """

    sessions: GrantSessions
    authenticator: RequestAuthenticator
    sealing_key: bytes
    token_location: str


def required_role(touches: str, *, destructive: bool) -> str:
    """Return the lowest role that may use a tool. `call_tool` touches nothing; the tool that it calls is checked.

    >>> [required_role(touches, destructive=touches == "index") for touches in ("nothing", "records", "index")]
    ['read', 'write', 'admin']
    """
    if touches in ("nothing", "anything"):
        return "read"
    if touches == "index" and destructive:
        return "admin"
    return "write"


def forbids(role: str, touches: str, *, destructive: bool) -> bool:
    """Return whether a role may not use a tool."""
    return ROLES.index(role) < ROLES.index(required_role(touches, destructive=destructive))


# -- rate limits -------------------------------------------------------------------------------------------------------

# How often a tool may be called, and how long a call may take before it is reported as slow.
#
# Each limited tool has a bucket with the calls of some minutes. Each call takes one out, and the bucket fills at the
# rate of the tool. So an agent may read 150 files in a minute of honest work, and an endless loop is stopped.

CALLS_PER_MINUTE: Mapping[str, int] = {"search_memory": 30, "read_file": 100, "grep_codebase": 60}
"""The limits of seed 003, which calls the first one `context_search`. Other tools have none by default."""

LONGEST_S: Mapping[str, float] = {
    # seed 003's maximum times, and the same for what does the same work
    **dict.fromkeys(("search_memory", "search_code", "semantic_search", "cortex_search"), 5.0),
    **dict.fromkeys(("grep_codebase", "search_text", "scout"), 3.0),
    **dict.fromkeys(("read", "read_file", "read_fragment", "read_regions"), 0.5),
}
"""Longer calls are reported; other tools have no limit."""
LONGEST_WITH_DEPENDENCIES_S = 2.0
"""For `read_file` when it also reads what the file imports (seed 003)."""


@dataclass(slots=True)
class CallBucket:
    """The calls left for one tool at `since_s`."""

    per_minute: int
    size: float
    left: float
    since_s: float

    def wait_s(self, now_s: float) -> float:
        """Take one call out and return 0; if none is left, return the seconds until there is one."""
        self.left = min(self.size, self.left + max(0.0, now_s - self.since_s) * self.per_minute / 60)
        self.since_s = now_s
        if self.left < 1:
            return (1 - self.left) * 60 / self.per_minute
        self.left -= 1
        return 0.0


class RateLimiter:
    """The buckets of all limited tools; a rate of 0 and a burst of 0 minutes mean no limit. Not thread-safe.

    >>> limits = RateLimiter({"read_file": 60}, burst_minutes=1)
    >>> [limits.wait_s("read_file", now_s=0.0) for _ in range(61)][-2:]
    [0.0, 1.0]
    >>> limits.wait_s("read_file", now_s=1.0), limits.wait_s("trace", now_s=1.0)
    (0.0, 0.0)
    """

    def __init__(self, per_minute: Mapping[str, int], *, burst_minutes: float) -> None:
        self.per_minute = {tool: rate for tool, rate in per_minute.items() if rate and burst_minutes}
        self._burst_minutes = burst_minutes
        self._buckets: dict[str, CallBucket] = {}

    def wait_s(self, tool: str, now_s: float) -> float:
        """Count a call and return 0 if it is admitted, else return the seconds to wait."""
        rate = self.per_minute.get(tool)
        if rate is None:
            return 0.0
        size = max(1.0, rate * self._burst_minutes)
        return self._buckets.setdefault(tool, CallBucket(rate, size, size, now_s)).wait_s(now_s)


def parse_rates(stated: str) -> dict[str, int]:
    """Return the limits of `CALLS_PER_MINUTE` with the changes in the settings.

    >>> parse_rates("read_file=0, trace=20")
    {'search_memory': 30, 'read_file': 0, 'grep_codebase': 60, 'trace': 20}
    """
    pairs = (pair.partition("=") for pair in stated.replace(" ", "").split(",") if pair)
    return {**CALLS_PER_MINUTE, **{tool: int(rate) for tool, _, rate in pairs}}


def slow_after_s(tool: str, *, with_dependencies: bool) -> float:
    """Return the seconds after which a call is reported as slow."""
    if tool == "read_file" and with_dependencies:
        return LONGEST_WITH_DEPENDENCIES_S
    return LONGEST_S.get(tool, float("inf"))
