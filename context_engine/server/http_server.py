"""`ctx serve --http`: streamable HTTP for any number of clients, with /health, /ready and /metrics beside it.

It listens on this machine only unless told otherwise, and then asks for a token; the guard stands before every path, and
behind it a team's doorman. Both eras of the protocol are served at /mcp: the newer one without sessions, the older one with
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
from context_engine.server.dispatcher import Gate
from context_engine.server.grants import Grant
from context_engine.server.message_checks import SESSIONS_MAX, MessageMiddleware, Sessions
from context_engine.server.origin_check import Guard, Hosts, Refusal
from context_engine.server.projects import Projects
from context_engine.server.serve_options import Options
from context_engine.server.server_identity import VERSION
from context_engine.server.shared_server import Team
from context_engine.server.shutdown import Life, wait_forever

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


def serve(options: Options, projects: Projects, gate: Gate, life: Life, *, team: Team | None = None) -> None:
    """Listen, tell where in one line on stderr, serve until a signal ends the process. A `team` brings its own tokens.

    Raises: InvalidArgument, HostError before anything is served, with the next step.
    """
    host, port = address(options.http or "")
    drain_s, notice_s = seconds_of("--drain", options.drain, DRAIN_S), seconds_of("--notice", options.notice, 0.0)
    hosts = Hosts(host, tuple(options.http_hosts))
    asked_for = (
        bearer_token.Token("", team.place)
        if team
        else bearer_token.chosen(given=options.http_token, file=options.token_file, is_loopback=hosts.is_loopback)
    )
    listening = bound(host, port)
    logging_bridge.take(gate.log)
    projects.settle()  # clients come and go and share these projects: none of them is asked for its own
    projects.start()
    print(f"ctx: serving {url(listening)} (token {asked_for.place})", file=sys.stderr, flush=True)  # noqa: T201
    names = projects.names if len(projects.names) > 1 else ()
    server = mcp_server.build(
        gate, shown=options.shown._replace(projects=names), projects=projects, life=life, team=team
    )
    guarded = application(
        *(server, gate, projects, Guard(hosts, asked_for.value)),
        life=life,
        team=team,
        stateless=bool(options.stateless),
    )
    hosting = hosted(guarded, server, life=life, drain_s=drain_s, notice_s=notice_s)
    if hangup := getattr(signal, "SIGHUP", None):
        signal.signal(hangup, hosting.handle_exit)  # uvicorn takes the others itself
    hosting.run(sockets=[listening])
    life.leave()
    wait_forever()  # a signal came first and is ending the process


# -- where --------------------------------------------------------------------------------------------------------


def address(text: str) -> tuple[str, int]:
    """`[HOST:]PORT` as host and port; without a host this machine only.

    >>> address("8000"), address(":0"), address("0.0.0.0:80"), address("[::1]:8000")
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


def seconds_of(option: str, text: str | None, unsaid: float) -> float:
    """How long something may take at the end. Raises: InvalidArgument.

    >>> seconds_of("--drain", None, 0.6), seconds_of("--drain", "20", 0.6)
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


def bound(host: str, port: int) -> socket.socket:
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


def url(listening: socket.socket) -> str:
    """Where clients find the protocol."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


# -- what ---------------------------------------------------------------------------------------------------------


def application(
    server: mcp_server.Server[Any],
    gate: Gate,
    projects: Projects,
    guard: Guard,
    *,
    life: Life | None = None,
    team: Team | None = None,
    stateless: bool = False,
) -> ASGIApp:
    """The four paths - the protocol, health, ready, metrics - with the guard before them, and a team's doorman.

    Until its reply is out a request is a call of `life`, so that nobody is cut off in the middle when the server ends.
    """
    life = life or Life(lambda: None)

    def health(_: Request) -> Response:
        return _health(projects)

    def ready(_: Request) -> Response:
        return _ready(projects, life)

    def metrics(request: Request) -> Response:
        rows = team.visitors.rows(request.scope[SCOPE_KEY]) if team else {}
        page = prometheus.told_by_role(rows, VERSION) if team else prometheus.told(gate.metrics.rows(), VERSION)
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
    sessions = None if stateless else Sessions(server.session_manager)
    checked = MessageMiddleware(paths, path=PATH, bytes_max=BODY_BYTES_MAX, sessions=sessions)
    return _Guarded(checked, guard, team, life)


def _health(projects: Projects) -> Response:
    """That we live, our version, and how many projects are in which state; no name and no path, since anybody may ask."""
    try:
        told = {"status": "ok", "version": VERSION, "projects": dict(Counter(projects.states().values()))}
    except ContextEngineError:
        told = {"status": "ending", "version": VERSION}
    return Response(json.dumps(told), 200 if told["status"] == "ok" else 503, media_type="application/json")


def _ready(projects: Projects, life: Life) -> Response:
    """Whether requests should be sent here: nothing is opening any more, and something that is open can answer.

    No name, no path, no address: anybody may ask. A proxy that asks is also who finds out that a store is back.
    """
    try:
        counts, engines = Counter(projects.states().values()), projects.opened()
    except ContextEngineError:
        counts, engines = Counter(), []
    reached = {_reached(each) for each in engines}
    is_lost = reached == {STORE_AWAY}
    is_ready = bool(counts["open"]) and not counts["opening"] and not is_lost and not life.is_ending
    told: dict[str, Any] = {"ready": is_ready, "projects": dict(counts)}
    if troubles := sorted(reached - {""}):
        told["reason" if is_lost else "warning"] = "; ".join(troubles)
    return Response(json.dumps(told), 200 if is_ready else 503, media_type="application/json")


def _reached(engine: Engine) -> str:
    """What is to be said of the store that a project shares with others: nothing when it answers."""
    has_index = engine.has_index()  # asks the store, which then knows its problem
    if not engine.store_problem:
        return ""
    return STORE_KEPT if has_index else STORE_AWAY


class _Guarded:
    """An application that answers only those whom the guard lets pass, and the doorman of a team where there is one."""

    def __init__(self, app: ASGIApp, guard: Guard, team: Team | None, life: Life) -> None:
        self._app = app
        self._guard = guard
        self._team = team
        self._life = life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application's answer, or the refusal."""
        with self._life.running(threading.Event()) if _is_answered(scope) else nullcontext():
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        who = self._who(scope["path"], Headers(scope=scope), _address(scope)) if scope["type"] == "http" else None
        if isinstance(who, Refusal):
            await Response(who.text + "\n", who.status, who.headers, "text/plain")(scope, receive, send)
        else:
            await self._app({**scope, **_identity(who)} if who else scope, receive, send)

    def _who(self, path: str, headers: Headers, address: str) -> Grant | Refusal | None:
        refusal = self._guard.refusal(path, headers)
        return refusal or (self._team.doorman.who(path, headers, address) if self._team else None)


def _is_answered(scope: Scope) -> bool:
    """Whether a request comes to an end by itself: not one that opens a stream for whatever may happen some day."""
    if scope["type"] != "http" or scope["method"] == "GET":
        return False
    return Headers(scope=scope).get("mcp-method") != "subscriptions/listen"


def _address(scope: Scope) -> str:
    """Where a request comes from: what a proxy says, if it is one that uvicorn was told to believe, else its other end."""
    return (scope.get("client") or ("",))[0][:100]


def _identity(grant: Grant) -> dict[str, Any]:
    """What a request carries from here on: its grant, and for the library whose sessions are whose."""
    known = AccessToken(token="", client_id=grant.id, scopes=[grant.role])  # the token itself stays outside
    return {SCOPE_KEY: grant, "user": AuthenticatedUser(known)}


# -- how ----------------------------------------------------------------------------------------------------------


def hosted(
    guarded: ASGIApp,
    server: mcp_server.Server[Any],
    *,
    life: Life | None = None,
    drain_s: float = DRAIN_S,
    notice_s: float = 0.0,
) -> uvicorn.Server:
    """What serves the application on a socket until SIGINT or SIGTERM, and then finishes the calls of a `life`.

    For `notice_s` /ready says so; nobody new is let in; what runs has `drain_s`; then open streams are cut off.
    """
    among = connections.Connections()
    config = uvicorn.Config(
        guarded,
        # h11 is always there; a faster parser would serve clients that send a request a second no better
        http=connections.protocol(among),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=connections.KEEP_ALIVE_S,
        timeout_graceful_shutdown=drain_s + SENT_S,  # ty: ignore[invalid-argument-type] - parts of a second work as well
    )
    entry = server.get_request_handler("subscriptions/listen")
    assert entry is not None
    assert isinstance(entry.handler, ListenHandler)
    return _Server(config, entry.handler, life, drain_s, notice_s, among)


class _Server(uvicorn.Server):
    """uvicorn, which knows nothing of our streams, and waits for ever for a task that does not end."""

    def __init__(
        self,
        config: uvicorn.Config,
        streams: ListenHandler,
        life: Life | None,
        drain_s: float,
        notice_s: float,
        among: connections.Connections,
    ) -> None:
        super().__init__(config)
        self._connections = among
        self._streams = streams
        self._life = life
        self._drain_s = drain_s
        self._notice_s = notice_s
        AppStatus.disable_automatic_graceful_drain()  # it would cut off each reply that comes as a stream, at the signal

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with room for many who wait to be accepted, and for days on which no descriptor is left."""
        asyncio.get_running_loop().set_exception_handler(self._connections.survive_full)
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell those who listen that it is over, then as ever; but nobody waits for a stream on which no call is answered."""
        if self._life:
            await self._give_notice(self._life)
        await self._hear_the_last()
        self._streams.close()
        cutting = asyncio.create_task(self._cut_off())
        await super().shutdown(sockets)
        cutting.cancel()

    async def _give_notice(self, life: Life) -> None:
        """For a while tell who asks that it will end, and serve on; from then on there is a limit to everything."""
        life.announce_end()
        await asyncio.sleep(self._notice_s)
        patience = threading.Timer(self._drain_s + SENT_S + WINDING_UP_S, life.leave)
        patience.daemon = True
        patience.start()

    async def _hear_the_last(self) -> None:
        """Let nobody in any more, and hear those who are: uvicorn hangs up on whoever has not said anything yet."""
        self.server_state.default_headers.append((b"connection", b"close"))
        loop = asyncio.get_running_loop()
        for connection in [each for server in self.servers for each in _closed(server)]:
            await loop.connect_accepted_socket(self._protocol, connection)
        await asyncio.sleep(LET_IN_S)

    def _protocol(self) -> asyncio.Protocol:
        """What uvicorn makes for each connection."""
        made: Any = self.config.http_protocol_class
        return made(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def _cut_off(self) -> None:
        """Once the last call is answered, or its time is over: end what is still connected."""
        if self._life is None:
            return
        await asyncio.to_thread(self._life.wait_until_idle, self._drain_s)
        await asyncio.sleep(SENT_S)
        for task in list(self.server_state.tasks):
            task.cancel()


def _closed(server: asyncio.Server) -> Iterator[socket.socket]:
    """Stop listening; those who stood at the door, whom the system would turn away although it has let them in."""
    listening = [each.dup() for each in server.sockets]
    server.close()
    for each in listening:
        with each, suppress(BlockingIOError):
            while True:
                yield each.accept()[0]
