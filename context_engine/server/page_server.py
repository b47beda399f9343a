"""A web page on this machine: a small HTTP server whose every path begins with a random token.

    server = PageServer(answer, read_events=reader, may_write=False)
    server.bind(port=0)
    print(server.address)
    server.run()

    421  another name in `Host`: a page of a stranger whose name points to this machine (DNS rebinding)
    403  a page of another origin, a write without the token in its header, or a write to a page that only reads
    401  a path that does not begin with the token, whatever follows

A browser is started with a ticket in place of the token, since other users of the machine can read the arguments of a
process. A ticket is good for one request, which leads to the page. The framing of requests and their limits are those
of `connections`, the check of host and origin is that of `authentication`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from context_engine.errors import BugError
from context_engine.server import connections
from context_engine.server.authentication import RANDOM_BYTES, AllowedHosts, HttpRefusal, RequestGuard
from context_engine.text import ParseError, read_json

HOST = "127.0.0.1"
BODY_BYTES_MAX = 256 * 1024
"""The longest body is the text of a memory."""
EVENTS_EVERY_S = 0.2
"""How often new events are looked for: five looks fit into the second that a call may take to be shown."""
KEEP_ALIVE_EVERY_S = 10.0
SHUTDOWN_S = 1
EVENTS_PATH = "api/events"
WRITE_PREFIX = "write/"
TOKEN_HEADER = "x-ctx-token"  # noqa: S105 - the name of a header
JSON = "application/json"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Scripts and styles come from this server alone, nothing is framed or sent elsewhere, and no text becomes HTML."""
HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request that passed all checks; `path` is that below the token, `arguments` the JSON object of its body."""

    path: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    is_write: bool = False


@dataclass(frozen=True, slots=True)
class PageResponse:
    """A response with its body."""

    body: bytes
    media_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[PageRequest], PageResponse]
"""Runs in a thread."""
ReadEvents = Callable[[], list[Any]]
"""Returns what happened since its last call; runs in a thread."""


class PageServer:
    """The server of one page. `open_events` returns a function that reads events, and one that closes it."""

    def __init__(
        self,
        answer: Answer,
        *,
        open_events: Callable[[], tuple[ReadEvents, Callable[[], None]]],
        may_write: bool = False,
        token: str = "",
    ) -> None:
        self.may_write = may_write
        self.token = token or secrets.token_urlsafe(RANDOM_BYTES)
        self._ticket = secrets.token_urlsafe(RANDOM_BYTES)
        self._answer = answer
        self._open_events = open_events
        self._guard = RequestGuard(AllowedHosts(HOST))
        self._listening: socket.socket | None = None
        self._server: uvicorn.Server | None = None

    @property
    def origin(self) -> str:
        """The origin of the page."""
        if self._listening is None:
            raise BugError("the page has no address yet", suggestion="Call bind first.")
        return f"http://{HOST}:{self._listening.getsockname()[1]}"

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"{self.origin}/{self.token}/"

    @property
    def ticket_address(self) -> str:
        """The address that leads to the page once."""
        return f"{self.origin}/{self._ticket}/"

    def bind(self, port: int) -> None:
        """Listen on a port of this machine; 0: any that is free. Raises: HostError."""
        self._listening = connections.bind_socket(HOST, port)

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or `stop`."""
        config = connections.create_config(
            *(self._handle, connections.Connections()),
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        self._server = uvicorn.Server(config)
        assert self._listening is not None
        self._server.run(sockets=[self._listening])

    def stop(self) -> None:
        """End `run`, from any thread."""
        if self._server is not None:
            self._server.should_exit = True

    # -- one request --

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, as ASGI defines it."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["path"]
        refusal = self._guard.find_refusal(path, headers)
        token, slash, rest = path.removeprefix("/").partition("/")
        if refusal is None and slash and _is_same(token, self._ticket):
            self._ticket = secrets.token_urlsafe(RANDOM_BYTES)
            moved = PageResponse(b"", "text/plain", 303, {"location": f"/{self.token}/"})
            await _send(send, moved)
        elif refusal is not None or not slash or not _is_same(token, self.token):
            await _send(send, _refuse(refusal or HttpRefusal(401, "Open the address that `ctx ui` printed.")))
        elif rest == EVENTS_PATH and scope["method"] == "GET":
            await self._stream(receive, send)
        else:
            response = await self._respond(scope["method"], rest, headers, receive)
            await _send(send, response, is_head=scope["method"] == "HEAD")

    async def _respond(self, method: str, path: str, headers: Mapping[str, str], receive: Any) -> PageResponse:
        is_write = path.startswith(WRITE_PREFIX)
        if method in ("GET", "HEAD") and not is_write:
            return await asyncio.to_thread(self._answer, PageRequest(path))
        if method != "POST":
            return _refuse(HttpRefusal(405, "Only GET and POST are served."))
        if is_write and (refusal := self._refuse_write(headers)):
            return _refuse(refusal)
        if headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return _refuse(HttpRefusal(415, "The body is JSON."))
        arguments = parse_body(await _read_body(receive))
        if arguments is None:
            return _refuse(HttpRefusal(400, f"The body is a JSON object of at most {BODY_BYTES_MAX:,} bytes."))
        return await asyncio.to_thread(self._answer, PageRequest(path, arguments, is_write))

    def _refuse_write(self, headers: Mapping[str, str]) -> HttpRefusal | None:
        """Return why a write is refused: other pages can neither read the token nor send its header."""
        if not self.may_write:
            return HttpRefusal(403, "This page only reads. Start it with `ctx ui --write`.")
        if not _is_same(headers.get(TOKEN_HEADER, ""), self.token):
            return HttpRefusal(403, f"A write needs the token in the header {TOKEN_HEADER}.")
        if headers.get("origin", "") != f"http://{headers.get('host', '')}":
            return HttpRefusal(403, "A write comes from the page itself.")
        return None

    async def _stream(self, receive: Any, send: Any) -> None:
        """Send events as they come, until the page closes the stream or the server ends."""
        kind = {**HEADERS, "content-type": "text/event-stream; charset=utf-8"}
        await send({"type": "http.response.start", "status": 200, "headers": _encode_headers(kind)})
        read_events, close = self._open_events()
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        silent_s = KEEP_ALIVE_EVERY_S
        try:
            while not gone.done() and not (self._server and self._server.should_exit):
                events = await asyncio.to_thread(read_events)
                silent_s = 0.0 if events else silent_s + EVENTS_EVERY_S
                lines = [f"data: {json.dumps(event)}\n\n" for event in events]
                if silent_s >= KEEP_ALIVE_EVERY_S:
                    lines, silent_s = [": alive\n\n"], 0.0
                if lines:
                    body = "".join(lines).encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                await asyncio.wait([gone], timeout=EVENTS_EVERY_S)
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            close()


def parse_body(body: bytes | None) -> Mapping[str, Any] | None:
    """Return the JSON object of a body; None if it is none."""
    try:
        value = read_json(body or b"", bytes_max=BODY_BYTES_MAX)
    except ParseError:
        return None
    if isinstance(value, dict):
        return value
    return None


def _is_same(given: str, secret: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _refuse(refusal: HttpRefusal) -> PageResponse:
    return PageResponse(json.dumps({"error": {"message": refusal.text}}).encode(), JSON, refusal.status)


def _encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


async def _read_body(receive: Any) -> bytes | None:
    """Return the body of a request; None for one that is too long or cut off."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or len(body) > BODY_BYTES_MAX:
            return None
        if not message.get("more_body"):
            return body


async def _send(send: Any, response: PageResponse, *, is_head: bool = False) -> None:
    size = {"content-length": str(len(response.body)), "content-type": f"{response.media_type}; charset=utf-8"}
    headers = _encode_headers({**HEADERS, **size, **response.headers})
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else response.body})


async def _wait_for_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
