"""PURE. Which requests an HTTP server accepts: by their host, by the origin of the page, and by the token.

A page in a browser can reach a server on this machine by a name of its own that it points here (DNS rebinding). Such a
request carries that name in `Host`, and the page in `Origin`; a client that is no browser sends no `Origin`. A page may
ask the server that it came from, by name and port, and no other.

>>> guard = RequestGuard(AllowedHosts("127.0.0.1"), token="s3cret")
>>> guard.find_refusal("/mcp", {"host": "evil.example:8000"}).status, guard.find_refusal("/mcp", {"host": "localhost:8000"}).status
(421, 401)
>>> guard.find_refusal("/mcp", {"host": "localhost:8000", "authorization": "Bearer s3cret"}) is None
True
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

OPEN_PATHS = ("/health", "/ready")
"""The paths without a token, for process supervisors; their replies contain no names."""
NAMES_OF_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/@?#\s]+))(?::\d{1,5})?")
_ORIGIN = re.compile(r"(https?)://([^/?#\s]+)", re.IGNORECASE)
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """An HTTP answer instead of the one that was asked for; `headers` besides the usual ones."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The names a server may be called by: those of this machine, the address it is bound to, and those it was given."""

    bound: str
    others: tuple[str, ...] = ()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.bound == "localhost" or _has_ip_property(self.bound, "is_loopback")

    def allows(self, host: str) -> bool:
        """Whether a `Host` header, port and all, names this server.

        Bound to every address, any address in figures is one of its own: no name server can be made to lie about it.
        """
        name = host_name(host)
        if name in {*NAMES_OF_THIS_MACHINE, self.bound.lower(), *(each.lower() for each in self.others)}:
            return True
        return bool(name) and (
            _has_ip_property(name, "is_loopback")
            or (_has_ip_property(self.bound, "is_unspecified") and _has_ip_property(name, "version"))
        )

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether an `Origin` header names a page of this server itself: at the name and port of `Host`, or a name it was given.

        Another port of this machine is another server, whose pages are somebody else's.
        """
        page = _ORIGIN.fullmatch(origin)
        if page is None:
            return False
        port = DEFAULT_PORTS[page[1].lower()]
        is_same = (host_name(page[2]), host_port(page[2], port)) == (host_name(host), host_port(host, port))
        return host_name(page[2]) in {each.lower() for each in self.others} or (is_same and self.allows(host))


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """The door of one server; an empty `token` asks for none."""

    hosts: AllowedHosts
    token: str = ""

    def find_refusal(self, path: str, headers: Mapping[str, str]) -> HttpRefusal | None:
        """Why a request is not served, or None. Header names are in lower case."""
        if not self.hosts.allows(headers.get("host", "")):
            return HttpRefusal(421, "This server is not called by that name; --http-host adds one.")
        if "origin" in headers and not self.hosts.allows_origin(headers["origin"], headers["host"]):
            return HttpRefusal(403, "Pages of other origins may not use this server.")
        if not self.token or path in OPEN_PATHS or self._has_token(headers.get("authorization", "")):
            return None
        given = ', error="invalid_token"' if "authorization" in headers else ""
        text = (
            "Send the header `Authorization: Bearer <token>`; `ctx serve --http` said at its start where the token is."
        )
        return HttpRefusal(401, text, {"www-authenticate": f'Bearer realm="ctx"{given}'})

    def _has_token(self, authorization: str) -> bool:
        """Return whether the header has the token, in constant time."""
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
        return scheme.lower() == "bearer" and same


def host_name(host: str) -> str:
    """The name in a `Host` header in its plainest spelling; empty when it is none.

    >>> host_name("LOCALHOST.:8000"), host_name("[0:0:0:0:0:0:0:1]:80"), host_name("a@b"), host_name("")
    ('localhost', '::1', '', '')
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return ""
    if found[1] is None:
        return found[2].lower().removesuffix(".")
    try:
        return ipaddress.IPv6Address(found[1]).compressed
    except ValueError:
        return ""


def host_port(host: str, default: int) -> int:
    """The port in a `Host` header, or the default of its scheme.

    >>> host_port("[::1]:8000", 80), host_port("localhost", 443)
    (8000, 443)
    """
    after = host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""
    return int(after) if after.isdecimal() else default


def _has_ip_property(address: str, what: str) -> bool:
    """Return a property of an IP address; False for a host name."""
    try:
        return bool(getattr(ipaddress.ip_address(address), what))
    except ValueError:
        return False
