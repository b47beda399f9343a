"""Which HTTP requests a server accepts: by their host, the origin of their page, and their token.

A page in a browser can reach a server on this machine by a name of its own that it points here (DNS rebinding). Such a
request has that name in `Host`, and the page in `Origin`; other clients send no `Origin`. A page may send requests to
the server that it came from, by name and port, and to no other.

>>> guard = RequestGuard(AllowedHosts("127.0.0.1"), token="s3cret")
>>> [guard.find_refusal("/mcp", {"host": host}).status for host in ("evil.example:8000", "localhost:8000")]
[421, 401]
>>> guard.find_refusal("/mcp", {"host": "localhost:8000", "authorization": "Bearer s3cret"}) is None
True
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from context_engine.errors import AccessFailed, HostError, InvalidArgument
from context_engine.storage import ConfinedFolder, make_private_folder, user_config_folder

if TYPE_CHECKING:
    from context_engine.server.serve_options import ServeOptions

OPEN_PATHS = ("/health", "/ready")
"""The paths without a token, for process supervisors; their replies contain no names."""
NAMES_OF_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
DEFAULT_PORTS = {"http": 80, "https": 443}
RANDOM_BYTES = 32
"""256 bits cannot be guessed at any rate."""
TOKEN_CHARS_MIN = 16
"""Shorter tokens are typed words."""
TOKEN_BYTES_MAX = 4_096
OTHERS_MAY = 0o077

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/@?#\s]+))(?::(\d{1,5}))?")
_ORIGIN = re.compile(r"(https?)://([^/?#\s]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """An HTTP response that refuses a request; `headers` are added to the usual ones."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


def unauthorized_refusal(text: str, *, is_invalid: bool) -> HttpRefusal:
    """Return the refusal of a request without a valid token."""
    detail = ', error="invalid_token"' if is_invalid else ""
    return HttpRefusal(401, text, {"www-authenticate": f'Bearer realm="ctx"{detail}'})


# -- host, origin and a single token ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The names of a server: those of this machine, the address that it is bound to, and those that it was given."""

    bound: str
    others: tuple[str, ...] = ()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.bound == "localhost" or _has_ip_property(self.bound, "is_loopback")

    def allows(self, host: str) -> bool:
        """Return whether a `Host` header, with its port, names this server.

        A server that is bound to every address accepts any IP address, because DNS cannot change what that means.
        """
        name, _ = split_host(host)
        if name in {*NAMES_OF_THIS_MACHINE, self.bound.lower(), *map(str.lower, self.others)}:
            return True
        is_bound_to_all = _has_ip_property(self.bound, "is_unspecified")
        return _has_ip_property(name, "is_loopback") or (is_bound_to_all and _has_ip_property(name, "version"))

    def allows_origin(self, origin: str, host: str) -> bool:
        """Return whether an `Origin` header is that of this server, by the name and port of `Host` or a given name.

        Another port of this machine is another server, whose pages are not ours.
        """
        page = _ORIGIN.fullmatch(origin)
        if page is None:
            return False
        name, port = split_host(page[2], default := DEFAULT_PORTS[page[1].lower()])
        if name in map(str.lower, self.others):
            return True
        return (name, port) == split_host(host, default) and self.allows(host)


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """The check of every request to a server; with an empty `token` it requires none."""

    hosts: AllowedHosts
    token: str = ""

    def find_refusal(self, path: str, headers: Mapping[str, str]) -> HttpRefusal | None:
        """Return why a request is refused, or None. Header names are in lower case."""
        if not self.hosts.allows(headers.get("host", "")):
            return HttpRefusal(421, "This server is not called by that name; --http-host adds one.")
        if "origin" in headers and not self.hosts.allows_origin(headers["origin"], headers["host"]):
            return HttpRefusal(403, "Pages of other origins may not use this server.")
        if not self.token or path in OPEN_PATHS:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
        if is_same and scheme.lower() == "bearer":
            return None
        text = "Send the header `Authorization: Bearer <token>`; `ctx serve --http` printed at its start where it is."
        return unauthorized_refusal(text, is_invalid="authorization" in headers)


def split_host(host: str, default_port: int = 0) -> tuple[str, int]:
    """Return the name in a `Host` header in its plainest spelling, and its port; an empty name for an invalid header.

    >>> split_host("LOCALHOST.:8000"), split_host("[0:0:0:0:0:0:0:1]", 80), split_host("a@b")
    (('localhost', 8000), ('::1', 80), ('', 0))
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return "", default_port
    port = int(found[3]) if found[3] else default_port
    if found[1] is None:
        return found[2].lower().removesuffix("."), port
    try:
        return ipaddress.IPv6Address(found[1]).compressed, port
    except ValueError:
        return "", port


def _has_ip_property(address: str, name: str) -> bool:
    """Return a property of an IP address; False for a host name."""
    try:
        return bool(getattr(ipaddress.ip_address(address), name))
    except ValueError:
        return False


# -- where the single token comes from --------------------------------------------------------------------------------


class BearerToken(NamedTuple):
    """The token that clients must send, and its location in words; an empty value means no token."""

    value: str
    location: str
    is_new: bool = False


def choose_token(*, given: str | None, file: str | None, is_open: bool = False) -> BearerToken:
    """Return the required token: the given one, that of the file, none if the server is open, else our own.

    Raises: InvalidArgument for an invalid token or a missing file, AccessFailed, HostError.
    """
    if given:
        return BearerToken(_check_token(given, "CTX_HTTP_TOKEN"), "in the variable CTX_HTTP_TOKEN")
    if file:
        return BearerToken(_check_token(_read_token(Path(file).expanduser()), file), f"in {file}")
    if is_open:
        return BearerToken("", "not asked for: every user of this machine can read and write these files")
    own = default_bearer_file()
    is_new = not own.exists() and _create_bearer_file(own)
    if os.name == "posix" and own.stat().st_mode & OTHERS_MAY:
        raise HostError(
            f"other users can read the token in {own}",
            suggestion="Delete the file: a new token is created at the next start.",
        )
    return BearerToken(_check_token(_read_token(own), str(own)), f"in {own}", is_new)


def default_bearer_file() -> Path:
    """Return the path of the token file that the server creates itself."""
    return user_config_folder() / "http-token"


def default_token_file() -> Path:
    """Return the path of the tokens of a team when none is named."""
    return default_bearer_file().with_name("tokens.json")


def _create_bearer_file(path: Path) -> bool:
    """Create a token that only this user can read; return False where another server was first, whose token stays."""
    token = secrets.token_urlsafe(RANDOM_BYTES) + "\n"
    try:
        make_private_folder(path.parent)
        return ConfinedFolder(path.parent).write_bytes(path.name, token.encode(), replace=False, mode=0o600)
    except OSError as error:
        raise HostError(
            f"the token cannot be written to {path}: {error.strerror or error}",
            suggestion="Name a file with --token-file, or put a token into CTX_HTTP_TOKEN.",
        ) from error


def _read_token(path: Path) -> str:
    try:
        with path.open("rb") as source:
            return source.read(TOKEN_BYTES_MAX).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        raise InvalidArgument(
            f"there is no token file {path}",
            suggestion='Create one: python -c "import secrets; print(secrets.token_urlsafe(32))" > FILE',
        ) from None
    except OSError as error:
        raise AccessFailed(
            f"the token file {path} cannot be read: {error.strerror or error}",
            suggestion="Let the user that runs the server read it.",
        ) from error


def _check_token(value: str, source: str) -> str:
    if len(value) < TOKEN_CHARS_MIN or not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidArgument(
            f"the token in {source} is invalid",
            suggestion=f"Use {TOKEN_CHARS_MIN} or more ASCII characters and no blank; delete the file for a new one.",
        )
    return value


def is_shared(options: ServeOptions) -> bool:
    """Return whether the options ask for the tokens of a team. Raises: InvalidArgument for options that conflict."""
    ways = {
        "--no-token": options.no_token,
        "CTX_HTTP_TOKEN": options.http_token,
        "--token-file": options.token_file if not options.http_token else None,
        "--tokens": options.tokens,
    }
    used = [name for name, value in ways.items() if value]
    if len(used) > 1 and ("--tokens" in used or "--no-token" in used):
        advice = "Leave one of them out."
        if used[0] != "--no-token":
            used, advice = used[::-1], "A token of the role admin for every project does what a single token does."
        raise InvalidArgument(f"{used[0]} and {used[1]} exclude each other", suggestion=advice)
    shared = bool(options.http and (options.tokens or (not used and default_token_file().exists())))
    if options.audit_log and not shared:
        raise InvalidArgument(
            "--audit-log is for a server that a team shares", suggestion="Create tokens first: ctx token create NAME."
        )
    return shared
