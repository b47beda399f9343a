"""`ctx serve --http`: streamable HTTP for any number of clients, with /health, /ready and /metrics.

The server listens on this machine only, unless it is configured otherwise, and requires a token. /mcp serves all
protocol versions: those from 2026-07-28 without sessions, the older ones with sessions that end when idle. With
--stateless no version has sessions.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.server import authentication, connections, mcp_server, metrics
from context_engine.server.authentication import AllowedHosts, HttpRefusal, RequestGuard
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.framing import INVALID_REQUEST, duplicate_id_reply, error_reply, parse_line
from context_engine.server.mcp_server import SCOPE_KEY, VERSION, SharedAccess
from context_engine.server.projects import Projects
from context_engine.server.serve_options import ServeOptions
from context_engine.server.server_log import install_bridge
from context_engine.server.shutdown import ShutdownCoordinator, wait_forever
from context_engine.server.worker_threads import SESSION_HEADER, token_of

PATH = "/mcp"
BODY_BYTES_MAX = 4 * 1024 * 1024
"""The largest file that a tool accepts is far smaller. Larger bodies are refused before they are read."""
SESSIONS_MAX = 500
"""Concurrent sessions of older protocol versions; each takes about 50 KB and a task. Agents open one and keep it."""
SESSIONS_A_TOKEN_MAX = 100
"""The maximum for one token, or for all clients of a server without one; four more tokens can have as many."""
IDLE_S = 30 * 60
"""A session without a request for this long ends; its client has to start a new one."""
SENT_S = 0.2
"""How long their replies then have to be sent."""
LET_IN_SHARE = 0.25
"""Of the time that running calls get: how long a connection accepted at the end may take to send its request."""
LET_IN_STEP_S = 0.02
WINDING_UP_S = 0.3
"""How long the library has to finish. With the time of `ShutdownCoordinator` the whole end takes under two seconds."""
ACCEPTED_AT_ONCE = 32
"""asyncio accepts this many connections at once, so at most this many can exceed the limit."""
STORE_AWAY = "the shared store cannot be reached, and there is no local index to answer from"
STORE_KEPT = "the shared store cannot be reached: answers come from the local index"

_ADDRESS = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:/\s]*)):)?(?P<port>\d{1,5})")


def serve_http(
    options: ServeOptions,
    projects: Projects,
    dispatcher: ToolDispatcher,
    shutdown: ShutdownCoordinator,
    *,
    shared: SharedAccess | None = None,
) -> None:
    """Listen, print the address in one line on stderr, and serve until a signal ends the process.

    A `shared` server has its own tokens. Raises: InvalidArgument, HostError before anything is served.
    """
    host, port = parse_address(options.http or "")
    hosts = AllowedHosts(host, tuple(options.http_hosts))
    if options.no_token and not hosts.is_loopback:
        raise InvalidArgument(
            f"--no-token is for this machine alone, and other machines can reach {host}",
            suggestion="Leave out --no-token, or listen on 127.0.0.1.",
        )
    listening = connections.bind_socket(host, port)
    if shared:
        token = authentication.BearerToken("", shared.token_location)
    else:
        token = authentication.choose_token(given=options.http_token, file=options.token_file, is_open=options.no_token)
    install_bridge(dispatcher.log)
    projects.settle()  # clients share these projects, so none of them is asked for its own folders
    announcement = f"ctx: serving {endpoint_url(listening)} (token {token.location})"
    if token.is_new:
        announcement += f"\nctx: the new token is {token.value}; it is not printed again"
    print(announcement, file=sys.stderr, flush=True)  # noqa: T201
    projects.start()
    server = mcp_server.build_server(dispatcher, projects=projects, running=shutdown, shared=shared)
    application = create_application(
        *(server, dispatcher, projects, RequestGuard(hosts, token.value)),
        shutdown=shutdown,
        shared=shared,
        stateless=bool(options.stateless),
    )
    hosting = HttpServer(
        *(application, server),
        shutdown=shutdown,
        timeout_s=options.shutdown_timeout,
        delay_s=options.shutdown_delay,
    )
    if hangup := getattr(signal, "SIGHUP", None):
        signal.signal(hangup, hosting.handle_exit)  # uvicorn handles the others itself
    hosting.run(sockets=[listening])
    shutdown.shut_down()
    wait_forever()  # a signal came first and ends the process


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and port of `[HOST:]PORT`; the default host is this machine only.

    >>> parse_address("8000"), parse_address(":0"), parse_address("0.0.0.0:80"), parse_address("[::1]:8000")
    (('127.0.0.1', 8000), ('127.0.0.1', 0), ('0.0.0.0', 80), ('::1', 8000))

    Raises: InvalidArgument.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        raise InvalidArgument(
            f"--http {text!r} is not an address",
            suggestion="Write PORT, HOST:PORT or [IPV6]:PORT, such as 127.0.0.1:8000.",
        )
    host = found["six"] or found["host"] or "127.0.0.1"
    return "127.0.0.1" if host == "localhost" else host, int(found["port"])


def endpoint_url(listening: socket.socket) -> str:
    """Return the address of the MCP endpoint."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


# -- the application ----------------------------------------------------------------------------------------------


def create_application(
    server: mcp_server.Server[Any],
    dispatcher: ToolDispatcher,
    projects: Projects,
    guard: RequestGuard,
    *,
    shutdown: ShutdownCoordinator | None = None,
    shared: SharedAccess | None = None,
    stateless: bool = False,
) -> ASGIApp:
    """Create the application: the protocol, /health, /ready and /metrics behind the guard and the tokens of a team.

    `shutdown` tracks each request until its reply is sent, so that the end of the server does not cut it off.
    """
    shutdown = shutdown or ShutdownCoordinator(lambda: None)

    def health(_: Request) -> Response:
        """Report that the server is up; the path is open to everyone, so the reply has no names and no paths."""
        try:
            counts = Counter(projects.states().values())
        except ContextEngineError:
            return JSONResponse({"status": "ending", "version": VERSION}, 503)
        return JSONResponse({"status": "ok", "version": VERSION, "projects": dict(counts)})

    def ready(_: Request) -> Response:
        try:
            counts, engines = Counter(projects.states().values()), projects.open_engines()
        except ContextEngineError:
            counts, engines = Counter(), []
        reached = set()
        for engine in engines:
            # asking makes the store notice its problem
            text = STORE_KEPT if engine.index.is_available() else STORE_AWAY
            reached.add(text if engine.index.store_problem else "")
        is_lost = reached == {STORE_AWAY}
        is_ready = bool(counts["open"]) and not counts["opening"] and not is_lost and not shutdown.is_ending
        report: dict[str, Any] = {"ready": is_ready, "projects": dict(counts)}
        if problems := sorted(reached - {""}):
            report["reason" if is_lost else "warning"] = "; ".join(problems)
        return JSONResponse(report, 200 if is_ready else 503)

    def show_metrics(request: Request) -> Response:
        roles = shared.metrics_of(request.scope[SCOPE_KEY]) if shared else {"": dispatcher.metrics.rows()}
        return Response(metrics.format_metrics(roles, VERSION), media_type=metrics.CONTENT_TYPE)

    paths = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY_BYTES_MAX,
        session_idle_timeout=IDLE_S,
        max_sessions=SESSIONS_MAX,
        stateless_http=stateless,
        # The guard checks more than the library would.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        custom_starlette_routes=[Route("/health", health), Route("/ready", ready), Route("/metrics", show_metrics)],
    )
    return _Gateway(paths, guard, shared, shutdown, None if stateless else SessionLimiter(server.session_manager))


class SessionLimiter:
    """The sessions of a server: at the maximum of a token, its longest unused session ends for a new one.

    Its client receives a 404 and opens another one, as the protocol requires. Where the server is full, the token with
    the most sessions loses one, so that no client can keep others out.
    """

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def make_room(self, scope: Scope) -> bool:
        """End a session if a new one needs its place; return False where every session is in use."""
        owners = {}
        for name in self._manager._server_instances:  # no public name (mcp 2.3)
            known = self._manager._session_owners.get(name)
            owners[name] = known["client_id"] if known else ""
        owner = token_of(scope)
        if list(owners.values()).count(owner) < SESSIONS_A_TOKEN_MAX:
            if len(owners) < SESSIONS_MAX:
                return True
            ((owner, _),) = Counter(owners.values()).most_common(1)
        ends = {}  # of sessions without an open request: when they would end
        for name, session in self._manager._server_instances.items():
            idle = session.idle_scope
            if owners[name] == owner and idle is not None and idle.deadline < float("inf"):
                ends[name] = idle.deadline
        if not ends:
            return False
        unused = min(ends, key=lambda name: ends[name])
        await self._manager._discard_session(unused, self._manager._server_instances[unused])
        return True


class _Gateway:
    """An application that passes on requests of known callers, and messages that are one message with an unused id.

    The library accepts JSON that two readers would read differently, such as duplicate names and NaN. It answers a
    second request with the id of an open one by a stream that never ends. Both are refused here.
    """

    def __init__(
        self,
        app: ASGIApp,
        guard: RequestGuard,
        shared: SharedAccess | None,
        shutdown: ShutdownCoordinator,
        sessions: SessionLimiter | None,
    ) -> None:
        self._app = app
        self._guard = guard
        self._shared = shared
        self._shutdown = shutdown
        self._sessions = sessions
        self._under_way: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # a request that opens a stream for future events does not end by itself
        ends = scope["method"] != "GET" and headers.get("mcp-method") != "subscriptions/listen"
        with self._shutdown.track(threading.Event()) if ends else nullcontext():
            known = self._identify(scope, headers)
            if isinstance(known, HttpRefusal):
                await PlainTextResponse(known.text + "\n", known.status, known.headers)(scope, receive, send)
            elif scope["method"] == "POST" and scope["path"] == PATH:
                await self._pass_message({**scope, **known}, headers, receive, send)
            else:
                await self._app({**scope, **known}, receive, send)

    def _identify(self, scope: Scope, headers: Headers) -> Mapping[str, Any] | HttpRefusal:
        """Return what the scope of a request gets, or why it is refused: its grant, and the owner of its sessions."""
        path, address = scope["path"], (scope.get("client") or ("",))[0][:100]
        refusal = self._guard.find_refusal(path, headers)
        grant = refusal or (self._shared.authenticate(path, headers, address) if self._shared else None)
        if grant is None or isinstance(grant, HttpRefusal):
            return grant or {}
        token = AccessToken(token="", client_id=grant.id, scopes=[])  # the token itself is not passed on
        return {SCOPE_KEY: grant, "user": AuthenticatedUser(token)}

    async def _pass_message(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        body = await connections.read_body(headers, receive, BODY_BYTES_MAX)
        if body is None:
            await PlainTextResponse("Payload too large\n", 413)(scope, receive, send)
            return
        message, trouble = parse_line(body) if body.strip() else (None, None)
        message = message or {}
        session, ident, status = headers.get(SESSION_HEADER), None, 400
        if trouble is None and session is None and message.get("method") == "initialize":
            if self._sessions and not await self._sessions.make_room(scope):
                text = "too many sessions are open, and a request of each is under way: end one, or try again later"
                trouble, status = error_reply(INVALID_REQUEST, text, message), 503
        elif trouble is None and session is not None and "method" in message and "id" in message:
            ident = (session, str(message["id"]))  # the library keeps them as texts: 7 and "7" are one to it
            trouble = duplicate_id_reply(message) if ident in self._under_way else None
        if trouble is not None:
            await JSONResponse(trouble, status)(scope, receive, send)
            return
        if ident is None:
            await self._app(scope, _replay_body(body, receive), send)
            return
        self._under_way.add(ident)
        try:
            await self._app(scope, _replay_body(body, receive), send)
        finally:
            self._under_way.discard(ident)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that returns the whole body again, and then the following messages."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


# -- running and ending -------------------------------------------------------------------------------------------


class HttpServer(uvicorn.Server):
    """uvicorn with a bounded end: by itself it does not know the open streams, and waits forever for their tasks.

    It runs the application until SIGINT or SIGTERM. At the end /ready fails for `delay_s`, then the server accepts no
    new connections, running calls have `timeout_s`, and then open streams are closed.
    """

    def __init__(
        self,
        application: ASGIApp,
        server: mcp_server.Server[Any],
        *,
        shutdown: ShutdownCoordinator | None = None,
        timeout_s: float = 0.6,
        delay_s: float = 0.0,
    ) -> None:
        self._connections = connections.Connections()
        timeout: Any = timeout_s + SENT_S  # fractions of a second work as well
        super().__init__(
            connections.create_config(
                *(application, self._connections),
                lifespan="on",
                backlog=ACCEPTED_AT_ONCE,
                timeout_graceful_shutdown=timeout,
            )
        )
        self._listening: Any = server.get_request_handler("subscriptions/listen")
        self._shutdown = shutdown
        self._timeout_s = timeout_s
        self._delay_s = delay_s
        AppStatus.disable_automatic_graceful_drain()  # it would cut off every streamed reply at the signal

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with a long backlog, and survive a lack of file descriptors."""
        asyncio.get_running_loop().set_exception_handler(self._connections.handle_loop_error)
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(connections.BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the open subscriptions, then shut down without waiting for streams that answer no call."""
        if self._shutdown:
            self._shutdown.is_ending = True  # /ready reports it, and the server keeps serving for a while
            await asyncio.sleep(self._delay_s)
            deadline = threading.Timer(self._timeout_s + SENT_S + WINDING_UP_S, self._shutdown.shut_down)
            deadline.daemon = True
            deadline.start()
        await self._accept_pending()
        self._listening.handler.close()
        cutting = asyncio.create_task(self._cancel_requests())
        await super().shutdown(sockets)
        cutting.cancel()

    async def _accept_pending(self) -> None:
        """Stop listening, and read from accepted connections: uvicorn would close those that have sent nothing yet."""
        self.server_state.default_headers.append((b"connection", b"close"))
        loop = asyncio.get_running_loop()
        protocol: Any = self.config.http_protocol_class
        protocols: Any = self.server_state.connections
        arguments = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        for connection in [accepted for server in self.servers for accepted in connections.stop_listening(server)]:
            await loop.connect_accepted_socket(lambda: protocol(**arguments), connection)  # as uvicorn does
        until = loop.time() + LET_IN_SHARE * self._timeout_s
        while (  # noqa: ASYNC110 - no event says that a connection has sent its first byte
            any(connection.cycle is None for connection in protocols) and loop.time() < until
        ):
            await asyncio.sleep(LET_IN_STEP_S)

    async def _cancel_requests(self) -> None:
        """Cancel the remaining requests once the last call is answered or has timed out."""
        if self._shutdown is None:
            return
        await asyncio.to_thread(self._shutdown.wait_until_idle, self._timeout_s)
        await asyncio.sleep(SENT_S)
        for task in list(self.server_state.tasks):
            task.cancel()
