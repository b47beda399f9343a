"""`ctx serve --http`: streamable HTTP for any number of clients, with /health and /metrics beside it.

It listens on this machine only unless told otherwise, and then asks for a token; the guard stands before every path. Both
eras of the protocol are served at /mcp: the newer one without sessions, the older one with sessions that end when idle.
"""

from __future__ import annotations

import errno
import json
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.subscriptions import ListenHandler
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from context_engine.errors import ContextEngineError, HostError, InvalidArgument
from context_engine.server import mcp, prometheus, records, token
from context_engine.server.about import VERSION
from context_engine.server.gate import Gate
from context_engine.server.guard import Guard, Hosts
from context_engine.server.life import Life, wait_forever
from context_engine.server.options import Options
from context_engine.server.projects import Projects

PATH = "/mcp"
BODY_BYTES_MAX = 4 * 1024 * 1024
"""The largest file a tool takes is far below; whatever is larger is refused before it is read."""
SESSIONS_MAX = 500
"""Sessions of the older era at once; each holds some 50 KB and a task. Agents open one and keep it."""
IDLE_S = 30 * 60
"""A session without a request for this long is over; its client is told to begin a new one."""
GRACE_S = 0.6
"""Replies under way get this long when the server ends."""
ENDING_S = 0.9
"""And the library this long to wind up; with what `Life` takes afterwards all of it stays under two seconds."""
BACKLOG = 128

_ADDRESS = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:/\s]*)):)?(?P<port>\d{1,5})")
_TROUBLE = {
    errno.EADDRINUSE: ("is taken by another process", "Choose another port, or 0 for any that is free."),
    errno.EACCES: ("is reserved for the system", "Choose a port above 1023."),
    errno.EADDRNOTAVAIL: ("is at an address that is not of this machine", "Bind to 127.0.0.1 or to 0.0.0.0."),
}


def serve(options: Options, projects: Projects, gate: Gate, life: Life) -> None:
    """Listen, tell where in one line on stderr, serve until a signal ends the process.

    Raises: InvalidArgument, HostError before anything is served, with the next step.
    """
    host, port = address(options.http or "")
    hosts = Hosts(host, tuple(options.http_hosts))
    asked_for = token.chosen(given=options.http_token, file=options.token_file, is_loopback=hosts.is_loopback)
    listening = bound(host, port)
    records.take(gate.log)
    projects.settle()  # clients come and go and share these projects: none of them is asked for its own
    projects.start()
    print(f"ctx: serving {url(listening)} (token {asked_for.place})", file=sys.stderr, flush=True)  # noqa: T201
    names = projects.names if len(projects.names) > 1 else ()
    server = mcp.build(gate, shown=options.shown._replace(projects=names), projects=projects, life=life)
    guarded = application(server, gate, projects, Guard(hosts, asked_for.value))
    hosted(guarded, server, late=life.leave).run(sockets=[listening])
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


def application(server: mcp.Server[Any], gate: Gate, projects: Projects, guard: Guard) -> ASGIApp:
    """The three paths - the protocol, health, metrics - with the guard before them."""

    def health(_: Request) -> Response:
        return _health(projects)

    def metrics(_: Request) -> Response:
        return Response(prometheus.told(gate.metrics.rows(), VERSION), media_type=prometheus.CONTENT_TYPE)

    paths = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY_BYTES_MAX,
        session_idle_timeout=IDLE_S,
        max_sessions=SESSIONS_MAX,
        # The guard asks more than the library would.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        custom_starlette_routes=[Route("/health", health), Route("/metrics", metrics)],
    )
    return _Guarded(paths, guard)


def _health(projects: Projects) -> Response:
    """That we live, our version, and how many projects are in which state; no name and no path, since anybody may ask."""
    try:
        told = {"status": "ok", "version": VERSION, "projects": dict(Counter(projects.states().values()))}
    except ContextEngineError:
        told = {"status": "ending", "version": VERSION}
    return Response(json.dumps(told), 200 if told["status"] == "ok" else 503, media_type="application/json")


class _Guarded:
    """An application that answers only those whom the guard lets pass."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application's answer, or the refusal."""
        refusal = self._guard.refusal(scope["path"], Headers(scope=scope)) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await Response(refusal.text + "\n", refusal.status, refusal.headers, "text/plain")(scope, receive, send)


# -- how ----------------------------------------------------------------------------------------------------------


def hosted(guarded: ASGIApp, server: mcp.Server[Any], *, late: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """What serves the application on a socket until SIGINT or SIGTERM. `late` is called when its own end takes too long."""
    config = uvicorn.Config(
        guarded,
        http="h11",  # always there; a faster parser would serve clients that send a request a second no better
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,  # ty: ignore[invalid-argument-type] - parts of a second work as well
    )
    entry = server.get_request_handler("subscriptions/listen")
    assert entry is not None
    assert isinstance(entry.handler, ListenHandler)
    return _Server(config, entry.handler, late)


class _Server(uvicorn.Server):
    """uvicorn, which knows nothing of our streams, and waits for ever for a task that does not end."""

    def __init__(self, config: uvicorn.Config, streams: ListenHandler, late: Callable[[], None]) -> None:
        super().__init__(config)
        self._streams = streams
        self._late = late

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell those who listen that it is over, then as ever, but not for long."""
        self._streams.close()
        patience = threading.Timer(ENDING_S, self._late)
        patience.daemon = True
        patience.start()
        await super().shutdown(sockets)
