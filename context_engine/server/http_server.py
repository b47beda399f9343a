"""`ctx serve --http`: streamable HTTP for any number of clients, with /health, /ready and /metrics beside it.

It listens on this machine only unless told otherwise, and then asks for a token; the guard stands before every path, and
behind it a shared's authenticator. Both eras of the protocol are served at /mcp: the newer one without sessions, the older one with
sessions that end when idle, or without where several servers stand side by side.
"""

from __future__ import annotations

import asyncio
import errno
import json
import re
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.subscriptions import ListenHandler
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from context_engine.errors import ContextEngineError, HostError, InvalidArgument
from context_engine.server import bearer_token, connections, logging_bridge, mcp_server, prometheus
from context_engine.server.client_sessions import SCOPE_KEY
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.grants import Grant
from context_engine.server.message_checks import SESSIONS_MAX, MessageMiddleware, SessionLimiter
from context_engine.server.origin_check import AllowedHosts, HttpRefusal, RequestGuard
from context_engine.server.projects import Projects
from context_engine.server.serve_options import ServeOptions
from context_engine.server.server_identity import VERSION
from context_engine.server.shared_server import SharedServer
from context_engine.server.shutdown import ShutdownCoordinator, wait_forever

if TYPE_CHECKING:
    from context_engine.engine import Engine

PATH = "/mcp"
BODY_BYTES_MAX = 4 * 1024 * 1024
"""The largest file a tool takes is far below; whatever is larger is refused before it is read."""
IDLE_S = 30 * 60
"""A session without a request for this long is over; its client is told to begin a new one."""
DRAIN_S = 0.6
"""Calls under way get this long when the server ends, unless somebody says otherwise."""
ENDING_S_MAX = 3_600.0
SENT_S = 0.2
"""And their replies this long to leave."""
LET_IN_S = 0.1
"""Who was let in just before the server ends has this long to say what he wants: his bytes may be on their way."""
WINDING_UP_S = 0.3
"""And the library this long to wind up; with what `Life` takes afterwards all of it stays under two seconds."""
BACKLOG = 1_024
"""Connections that the system keeps until they are accepted."""
ACCEPTED_AT_ONCE = 32
"""asyncio accepts so many before any of them is looked at, so no more can be open beyond the limit."""
STORE_AWAY = "the shared store cannot be asked, and there is no index here to answer from"
STORE_KEPT = "the shared store cannot be asked: what is here already answers"

_ADDRESS = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:/\s]*)):)?(?P<port>\d{1,5})")
_TROUBLE = {
    errno.EADDRINUSE: ("is taken by another process", "Choose another port, or 0 for any that is free."),
    errno.EACCES: ("is reserved for the system", "Choose a port above 1023."),
    errno.EADDRNOTAVAIL: ("is at an address that is not of this machine", "Bind to 127.0.0.1 or to 0.0.0.0."),
}


def serve_http(
    options: ServeOptions,
    projects: Projects,
    dispatcher: ToolDispatcher,
    shutdown: ShutdownCoordinator,
    *,
    shared: SharedServer | None = None,
) -> None:
    """Listen, tell where in one line on stderr, serve until a signal ends the process. A `shared` brings its own tokens.

    Raises: InvalidArgument, HostError before anything is served, with the next step.
    """
    host, port = parse_address(options.http or "")
    drain_s, notice_s = parse_seconds("--drain", options.drain, DRAIN_S), parse_seconds("--notice", options.notice, 0.0)
    hosts = AllowedHosts(host, tuple(options.http_hosts))
    asked_for = (
        bearer_token.BearerToken("", shared.token_location)
        if shared
        else bearer_token.choose_token(given=options.http_token, file=options.token_file, is_loopback=hosts.is_loopback)
    )
    listening = bind_socket(host, port)
    logging_bridge.install_bridge(dispatcher.log)
    projects.settle()  # clients come and go and share these projects: none of them is asked for its own
    projects.start()
    print(f"ctx: serving {endpoint_url(listening)} (token {asked_for.location})", file=sys.stderr, flush=True)  # noqa: T201
    names = projects.names if len(projects.names) > 1 else ()
    server = mcp_server.build_server(
        dispatcher,
        selection=options.shown._replace(projects=names),
        projects=projects,
        shutdown=shutdown,
        shared=shared,
    )
    guarded = create_application(
        *(server, dispatcher, projects, RequestGuard(hosts, asked_for.value)),
        shutdown=shutdown,
        shared=shared,
        stateless=bool(options.stateless),
    )
    hosting = create_http_server(guarded, server, shutdown=shutdown, timeout_s=drain_s, delay_s=notice_s)
    if hangup := getattr(signal, "SIGHUP", None):
        signal.signal(hangup, hosting.handle_exit)  # uvicorn takes the others itself
    hosting.run(sockets=[listening])
    shutdown.shut_down()
    wait_forever()  # a signal came first and is ending the process


# -- where --------------------------------------------------------------------------------------------------------


def parse_address(text: str) -> tuple[str, int]:
    """`[HOST:]PORT` as host and port; without a host this machine only.

    >>> parse_address("8000"), parse_address(":0"), parse_address("0.0.0.0:80"), parse_address("[::1]:8000")
    (('127.0.0.1', 8000), ('127.0.0.1', 0), ('0.0.0.0', 80), ('::1', 8000))

    Raises: InvalidArgument.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65_535:
        raise InvalidArgument(
            f"--http {text!r} is no address", suggestion="Write PORT, HOST:PORT or [IPV6]:PORT, such as 127.0.0.1:8000."
        )
    host = found["six"] or found["host"] or "127.0.0.1"
    return "127.0.0.1" if host == "localhost" else host, int(found["port"])


def parse_seconds(option: str, text: str | None, unsaid: float) -> float:
    """How long something may take at the end. Raises: InvalidArgument.

    >>> parse_seconds("--drain", None, 0.6), parse_seconds("--drain", "20", 0.6)
    (0.6, 20.0)
    """
    try:
        seconds = unsaid if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= ENDING_S_MAX:
        raise InvalidArgument(
            f"{option} {text!r} is no time", suggestion=f"Write seconds, 0 to {ENDING_S_MAX:,.0f}, such as 20."
        )
    return seconds


def bind_socket(host: str, port: int) -> socket.socket:
    """A listening socket. Raises: HostError, naming the port and the next step."""
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        every = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(place[:2], family=family, backlog=BACKLOG, dualstack_ipv6=every)
    except socket.gaierror as error:
        raise HostError(
            f"{host} is no name of this machine: {error.strerror}", suggestion="Bind to 127.0.0.1 or to 0.0.0.0."
        ) from error
    except OSError as error:
        what, next_step = _TROUBLE.get(error.errno or 0, (f"cannot be used: {error.strerror}", "Choose another port."))
        raise HostError(f"port {port} of {host} {what}", suggestion=next_step) from error


def endpoint_url(listening: socket.socket) -> str:
    """Where clients find the protocol."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


# -- what ---------------------------------------------------------------------------------------------------------


def create_application(
    server: mcp_server.Server[Any],
    dispatcher: ToolDispatcher,
    projects: Projects,
    guard: RequestGuard,
    *,
    shutdown: ShutdownCoordinator | None = None,
    shared: SharedServer | None = None,
    stateless: bool = False,
) -> ASGIApp:
    """The four paths - the protocol, health, ready, metrics - with the guard before them, and a shared's authenticator.

    Until its reply is out a request is a call of `shutdown`, so that nobody is cut off in the middle when the server ends.
    """
    shutdown = shutdown or ShutdownCoordinator(lambda: None)

    def health(_: Request) -> Response:
        return _health_response(projects)

    def ready(_: Request) -> Response:
        return _readiness_response(projects, shutdown)

    def metrics(request: Request) -> Response:
        rows = shared.sessions.metrics_by_role(request.scope[SCOPE_KEY]) if shared else {}
        page = (
            prometheus.format_metrics_by_role(rows, VERSION)
            if shared
            else prometheus.format_metrics(dispatcher.metrics.rows(), VERSION)
        )
        return Response(page, media_type=prometheus.CONTENT_TYPE)

    paths = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY_BYTES_MAX,
        session_idle_timeout=IDLE_S,
        max_sessions=SESSIONS_MAX,
        stateless_http=stateless,
        # The guard asks more than the library would.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        custom_starlette_routes=[Route("/health", health), Route("/ready", ready), Route("/metrics", metrics)],
    )
    sessions = None if stateless else SessionLimiter(server.session_manager)
    checked = MessageMiddleware(paths, path=PATH, bytes_max=BODY_BYTES_MAX, sessions=sessions)
    return _GuardedApp(checked, guard, shared, shutdown)


def _health_response(projects: Projects) -> Response:
    """That we live, our version, and how many projects are in which state; no name and no path, since anybody may ask."""
    try:
        told = {"status": "ok", "version": VERSION, "projects": dict(Counter(projects.states().values()))}
    except ContextEngineError:
        told = {"status": "ending", "version": VERSION}
    return Response(json.dumps(told), 200 if told["status"] == "ok" else 503, media_type="application/json")


def _readiness_response(projects: Projects, shutdown: ShutdownCoordinator) -> Response:
    """Whether requests should be sent here: nothing is opening any more, and something that is open can answer.

    No name, no path, no address: anybody may ask. A proxy that asks is also who finds out that a store is back.
    """
    try:
        counts, engines = Counter(projects.states().values()), projects.open_engines()
    except ContextEngineError:
        counts, engines = Counter(), []
    reached = {_describe_store_problem(each) for each in engines}
    is_lost = reached == {STORE_AWAY}
    is_ready = bool(counts["open"]) and not counts["opening"] and not is_lost and not shutdown.is_ending
    told: dict[str, Any] = {"ready": is_ready, "projects": dict(counts)}
    if troubles := sorted(reached - {""}):
        told["reason" if is_lost else "warning"] = "; ".join(troubles)
    return Response(json.dumps(told), 200 if is_ready else 503, media_type="application/json")


def _describe_store_problem(engine: Engine) -> str:
    """What is to be said of the store that a project shares with others: nothing when it answers."""
    has_index = engine.index.is_available()  # asks the store, which then knows its problem
    if not engine.index.store_problem:
        return ""
    return STORE_KEPT if has_index else STORE_AWAY


class _GuardedApp:
    """An application that answers only those whom the guard lets pass, and the authenticator of a shared where there is one."""

    def __init__(
        self, app: ASGIApp, guard: RequestGuard, shared: SharedServer | None, shutdown: ShutdownCoordinator
    ) -> None:
        self._app = app
        self._guard = guard
        self._shared = shared
        self._shutdown = shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application's answer, or the refusal."""
        with self._shutdown.track(threading.Event()) if _ends_by_itself(scope) else nullcontext():
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        who = (
            self._authenticate(scope["path"], Headers(scope=scope), _client_address(scope))
            if scope["type"] == "http"
            else None
        )
        if isinstance(who, HttpRefusal):
            await Response(who.text + "\n", who.status, who.headers, "text/plain")(scope, receive, send)
        else:
            await self._app({**scope, **_identity_scope(who)} if who else scope, receive, send)

    def _authenticate(self, path: str, headers: Headers, address: str) -> Grant | HttpRefusal | None:
        refusal = self._guard.find_refusal(path, headers)
        return refusal or (self._shared.authenticator.authenticate(path, headers, address) if self._shared else None)


def _ends_by_itself(scope: Scope) -> bool:
    """Whether a request comes to an end by itself: not one that opens a stream for whatever may happen some day."""
    if scope["type"] != "http" or scope["method"] == "GET":
        return False
    return Headers(scope=scope).get("mcp-method") != "subscriptions/listen"


def _client_address(scope: Scope) -> str:
    """Where a request comes from: what a proxy says, if it is one that uvicorn was told to believe, else its other end."""
    return (scope.get("client") or ("",))[0][:100]


def _identity_scope(grant: Grant) -> dict[str, Any]:
    """What a request carries from here on: its grant, and for the library whose sessions are whose."""
    known = AccessToken(token="", client_id=grant.id, scopes=[grant.role])  # the token itself stays outside
    return {SCOPE_KEY: grant, "user": AuthenticatedUser(known)}


# -- how ----------------------------------------------------------------------------------------------------------


def create_http_server(
    guarded: ASGIApp,
    server: mcp_server.Server[Any],
    *,
    shutdown: ShutdownCoordinator | None = None,
    timeout_s: float = DRAIN_S,
    delay_s: float = 0.0,
) -> uvicorn.Server:
    """What serves the application on a socket until SIGINT or SIGTERM, and then finishes the calls of a `shutdown`.

    For `notice_s` /ready says so; nobody new is let in; what runs has `drain_s`; then open streams are cut off.
    """
    among = connections.Connections()
    config = uvicorn.Config(
        guarded,
        # h11 is always there; a faster parser would serve clients that send a request a second no better
        http=connections.protocol_factory(among),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=connections.KEEP_ALIVE_S,
        timeout_graceful_shutdown=timeout_s + SENT_S,  # ty: ignore[invalid-argument-type] - parts of a second work as well
    )
    entry = server.get_request_handler("subscriptions/listen")
    assert entry is not None
    assert isinstance(entry.handler, ListenHandler)
    return _GracefulServer(config, entry.handler, shutdown, timeout_s, delay_s, among)


class _GracefulServer(uvicorn.Server):
    """uvicorn, which knows nothing of our streams, and waits for ever for a task that does not end."""

    def __init__(
        self,
        config: uvicorn.Config,
        streams: ListenHandler,
        shutdown: ShutdownCoordinator | None,
        drain_s: float,
        notice_s: float,
        among: connections.Connections,
    ) -> None:
        super().__init__(config)
        self._connections = among
        self._streams = streams
        self._shutdown = shutdown
        self._drain_s = drain_s
        self._notice_s = notice_s
        AppStatus.disable_automatic_graceful_drain()  # it would cut off each reply that comes as a stream, at the signal

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with room for many who wait to be accepted, and for days on which no descriptor is left."""
        asyncio.get_running_loop().set_exception_handler(self._connections.handle_loop_error)
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell those who listen that it is over, then as ever; but nobody waits for a stream on which no call is answered."""
        if self._shutdown:
            await self._announce_shutdown(self._shutdown)
        await self._accept_pending()
        self._streams.close()
        cutting = asyncio.create_task(self._cancel_requests())
        await super().shutdown(sockets)
        cutting.cancel()

    async def _announce_shutdown(self, shutdown: ShutdownCoordinator) -> None:
        """For a while tell who asks that it will end, and serve on; from then on there is a limit to everything."""
        shutdown.announce()
        await asyncio.sleep(self._notice_s)
        patience = threading.Timer(self._drain_s + SENT_S + WINDING_UP_S, shutdown.shut_down)
        patience.daemon = True
        patience.start()

    async def _accept_pending(self) -> None:
        """Let nobody in any more, and hear those who are: uvicorn hangs up on whoever has not said anything yet."""
        self.server_state.default_headers.append((b"connection", b"close"))
        loop = asyncio.get_running_loop()
        for connection in [each for server in self.servers for each in _stop_listening(server)]:
            await loop.connect_accepted_socket(self._create_protocol, connection)
        await asyncio.sleep(LET_IN_S)

    def _create_protocol(self) -> asyncio.Protocol:
        """What uvicorn makes for each connection."""
        made: Any = self.config.http_protocol_class
        return made(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def _cancel_requests(self) -> None:
        """Once the last call is answered, or its time is over: end what is still connected."""
        if self._shutdown is None:
            return
        await asyncio.to_thread(self._shutdown.wait_until_idle, self._drain_s)
        await asyncio.sleep(SENT_S)
        for task in list(self.server_state.tasks):
            task.cancel()


def _stop_listening(server: asyncio.Server) -> Iterator[socket.socket]:
    """Stop listening; those who stood at the door, whom the system would turn away although it has let them in."""
    listening = [each.dup() for each in server.sockets]
    server.close()
    for each in listening:
        with each, suppress(BlockingIOError):
            while True:
                yield each.accept()[0]
