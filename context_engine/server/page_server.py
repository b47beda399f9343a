"""A web page on this machine: a small HTTP server whose every path begins with a random token.

    class NotesPage(PageServer): ...    # `answer` and `read_events` say what it shows
    page = NotesPage(may_write=False)
    page.bind(port=0)
    print(page.address)
    page.run()

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
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from context_engine.errors import BugError
from context_engine.server import connections
from context_engine.server.authentication import RANDOM_BYTES, AllowedHosts, RequestGuard
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


class PageResponse(NamedTuple):
    """A response with its body."""

    body: bytes
    media_type: str = JSON
    status: int = 200


class PageServer(ABC):
    """The server of one page, which only reads unless it `may_write`."""

    def __init__(self, *, may_write: bool = False) -> None:
        self._may_write = may_write
        self._token = secrets.token_urlsafe(RANDOM_BYTES)
        self._ticket = secrets.token_urlsafe(RANDOM_BYTES)
        self._guard = RequestGuard(AllowedHosts(HOST))
        self._listening: socket.socket | None = None
        self._server: uvicorn.Server | None = None

    @abstractmethod
    def answer(self, path: str, arguments: Mapping[str, Any], *, is_write: bool) -> PageResponse:
        """Answer a request that passed all checks; runs in a thread.

        `path` is that below the token, `arguments` the JSON object of the body.
        """

    @abstractmethod
    def read_events(self, seen: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events that a page has not seen, the oldest first, and note them in `seen`; runs in a thread."""

    @property
    def origin(self) -> str:
        """The origin of the page."""
        if self._listening is None:
            raise BugError("the page has no address yet", suggestion="Call bind first.")
        return f"http://{HOST}:{self._listening.getsockname()[1]}"

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"{self.origin}/{self._token}/"

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
        if scope["type"] == "http":
            response = await self._respond(Request(scope, receive))
            response.headers.update(HEADERS)
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        refusal = self._guard.find_refusal(request.scope["path"], request.headers)
        if refusal is not None:
            return _refuse(refusal.status, refusal.text)
        token, slash, path = request.scope["path"].removeprefix("/").partition("/")
        if slash and _is_same(token, self._ticket):
            self._ticket = secrets.token_urlsafe(RANDOM_BYTES)
            return RedirectResponse(f"/{self._token}/", 303)
        if not slash or not _is_same(token, self._token):
            return _refuse(401, "Open the address that `ctx ui` printed.")
        is_write = path.startswith(WRITE_PREFIX)
        if path == EVENTS_PATH and request.method == "GET":
            return StreamingResponse(self._stream_events(), media_type="text/event-stream")
        if request.method in ("GET", "HEAD") and not is_write:
            return await self._ask(path, {})
        if request.method != "POST":
            return _refuse(405, "Only GET and POST are served.")
        if is_write and (problem := self._find_write_problem(request.headers)):
            return _refuse(403, problem)
        if request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return _refuse(415, "The body is JSON.")
        body = await connections.read_body(request.headers, request.receive, BODY_BYTES_MAX)
        try:
            arguments = read_json(body or b"")
        except ParseError:
            arguments = None
        if not isinstance(arguments, dict):
            return _refuse(400, f"The body is a JSON object of at most {BODY_BYTES_MAX:,} bytes.")
        return await self._ask(path, arguments, is_write=is_write)

    async def _ask(self, path: str, arguments: Mapping[str, Any], *, is_write: bool = False) -> Response:
        body, media_type, status = await asyncio.to_thread(self.answer, path, arguments, is_write=is_write)
        return Response(body, status, media_type=f"{media_type}; charset=utf-8")

    def _find_write_problem(self, headers: Mapping[str, str]) -> str:
        """Return why a write is refused: other pages can neither read the token nor send its header."""
        if not self._may_write:
            return "This page only reads. Start it with `ctx ui --write`."
        if not _is_same(headers.get(TOKEN_HEADER, ""), self._token):
            return f"A write needs the token in the header {TOKEN_HEADER}."
        if headers.get("origin", "") != f"http://{headers.get('host', '')}":
            return "A write comes from the page itself."
        return ""

    async def _stream_events(self) -> AsyncGenerator[str]:
        """Yield events as they come, until the page closes the stream or the server ends."""
        seen: dict[str, Any] = {}
        silent_s = KEEP_ALIVE_EVERY_S
        while not (self._server and self._server.should_exit):
            events = await asyncio.to_thread(self.read_events, seen)
            silent_s = 0.0 if events else silent_s + EVENTS_EVERY_S
            for event in events:
                yield f"data: {json.dumps(event)}\n\n"
            if silent_s >= KEEP_ALIVE_EVERY_S:
                silent_s = 0.0
                yield ": alive\n\n"
            await asyncio.sleep(EVENTS_EVERY_S)


def _is_same(given: str, secret: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _refuse(status: int, text: str) -> Response:
    return JSONResponse({"error": {"message": text}}, status)
