"""Checks before the protocol library receives a POST: it is one message, and its id is not in use.

The library accepts JSON that two readers would read differently, such as duplicate names and NaN. It answers a second
request with the id of an open one by a stream that never ends. Both are refused here.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from context_engine.server.framing import INVALID_REQUEST, duplicate_id_reply, error_reply, parse_line

SESSIONS_MAX = 500
"""Concurrent sessions of older protocol versions; each takes about 50 KB and a task. Agents open one and keep it."""
SESSIONS_A_TOKEN_MAX = 100
"""The maximum for one token of a shared server; four more tokens can have as many."""
SESSION_HEADER = "mcp-session-id"


class SessionLimiter:
    """The sessions of a server: at the maximum of a token, its longest unused session ends for a new one.

    Its client receives a 404 and opens another one, as the protocol requires. Where the server is full, the token with
    the most sessions loses one, so that no client can keep others out.
    """

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def make_room(self, scope: Scope) -> bool:
        """End a session if a new one needs its place; return False where every session is in use."""
        user = scope.get("user")
        if isinstance(user, AuthenticatedUser):
            owner = authorization_context(user)["client_id"]
        else:
            owner = ""
        owners = {name: self._owner(name) for name in self._manager._server_instances}  # no public name (mcp 2.3)
        own = [name for name, other in owners.items() if other == owner]
        if owner and len(own) >= SESSIONS_A_TOKEN_MAX:
            return await self._end_unused(own)
        if len(owners) < SESSIONS_MAX:
            return True
        (most, _), *_ = Counter(owners.values()).most_common(1)
        return await self._end_unused([name for name, other in owners.items() if other == most])

    def _owner(self, name: str) -> str:
        """Return the token that opened a session; empty on a server with a single token or none."""
        known = self._manager._session_owners.get(name)
        if known:
            return known["client_id"]
        return ""

    async def _end_unused(self, names: list[str]) -> bool:
        """End the longest unused of these sessions; return False where all of them have open requests."""
        ends = {name: self._ends(name) for name in names}
        unused = min(ends, key=lambda name: ends[name])
        if ends[unused] == float("inf"):
            return False
        await self._manager._discard_session(unused, self._manager._server_instances[unused])
        return True

    def _ends(self, name: str) -> float:
        """Return when an unused session would end; never while it has an open request."""
        idle = self._manager._server_instances[name].idle_scope
        if idle is None:
            return float("inf")
        return idle.deadline


class MessageMiddleware:
    """A middleware that passes on valid messages with an unused id, and answers all others."""

    def __init__(self, app: ASGIApp, *, path: str, bytes_max: int, sessions: SessionLimiter | None = None) -> None:
        """Wrap an application. `path` is that of the protocol; `sessions` is None on a stateless server."""
        self._app = app
        self._path = path
        self._bytes_max = bytes_max
        self._sessions = sessions
        self._under_way: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let it be answered."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        body = await self._read(scope, receive)
        if body is None:
            await Response("Payload too large\n", 413, media_type="text/plain")(scope, receive, send)
            return
        if body.strip():
            message, trouble = parse_line(body)
        else:
            message, trouble = (None, None)
        if trouble:
            await _error_response(trouble)(scope, receive, send)
            return
        await self._hand_on(message or {}, scope, _replay_body(body, receive), send)

    async def _hand_on(self, message: dict[str, Any], scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a message, unless its id is in use or there is no room for the session that it opens."""
        session = Headers(scope=scope).get(SESSION_HEADER)
        opens = session is None and message.get("method") == "initialize"
        if opens and self._sessions and not await self._sessions.make_room(scope):
            text = "too many sessions are open, and a request of each is under way: end one, or try again later"
            await _error_response(error_reply(INVALID_REQUEST, text, message), 503)(scope, receive, send)
            return
        if session is None or "method" not in message or "id" not in message:
            await self._app(scope, receive, send)
            return
        name = (session, str(message["id"]))  # the library keeps them as texts: 7 and "7" are one to it
        if name in self._under_way:
            await _error_response(duplicate_id_reply(message))(scope, receive, send)
            return
        self._under_way.add(name)
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way.discard(name)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body of a request; None when it is too large, by its header or as it is read."""
        stated = Headers(scope=scope).get("content-length", "0")
        if not stated.isdecimal() or int(stated) > self._bytes_max:
            return None
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":  # the client has disconnected
                return b"".join(parts)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._bytes_max:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that returns the whole body again, and then the following messages."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if left:
            return left.pop()
        return await receive()

    return replay


def _error_response(reply: dict[str, Any], status: int = 400) -> Response:
    return Response(json.dumps(reply), status, media_type="application/json")
