"""PURE. The permissions of a token of a shared server: a role, projects, an expiry time, a call rate.

Each role may do what the ones before it may. `read` changes nothing; `write` changes files, records and the index;
`admin` also empties the index and reads the metrics of all tokens.

>>> grant = Grant("1f", "ci", "read", ("web", "/src/api"))
>>> grant.sees("web", "/src/web"), grant.sees("api", "/src/api"), grant.sees("till", "/src/till")
(True, True, False)
>>> forbids("read", "files", destructive=True), forbids("admin", "files", destructive=True)
(True, False)
"""

from __future__ import annotations

from dataclasses import dataclass

ROLES = ("read", "write", "admin")
EVERY_PROJECT = "*"
"""In place of projects: all of them, future ones included."""


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
