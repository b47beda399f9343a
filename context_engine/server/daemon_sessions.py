"""The sessions of stdio servers in the daemon: for each client a protocol server of its own, over shared Engines.

Options, limits, masks, questions and the state of a session belong to the client, as in a process of its own.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp.server.lowlevel import Server

from context_engine.server.bootstrap import BootstrapResponder
from context_engine.server.mcp_server import build_server
from context_engine.server.profiles import ToolSelection
from context_engine.server.projects import CLIENT_VARIABLE
from context_engine.server.serve import open_projects
from context_engine.server.serve_options import ServeOptions
from context_engine.server.shutdown import RunningCalls
from context_engine.server.stdio_session import StdioPipes, StdioSession

if TYPE_CHECKING:
    from context_engine.daemon import DaemonConnection, EnginePool


class SessionServer:
    """Serves the clients of stdio servers, each in the thread of its connection."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self._sessions: set[StdioSession] = set()

    @property
    def count(self) -> int:
        """The number of clients that are served."""
        return len(self._sessions)

    def serve(self, request: Mapping[str, Any], connection: DaemonConnection) -> None:
        """Serve one client until it leaves. Raises: KeyError, TypeError, ValueError for what no stdio server sends."""
        options = read_options(request)
        connection.send({"state": "ready"})
        connection.socket.settimeout(None)
        descriptor = connection.socket.fileno()
        unused = BootstrapResponder({}, options.selection, private=os.urandom(8).hex())  # the library is loaded
        session = StdioSession(StdioPipes(descriptor, descriptor), unused)
        running = RunningCalls()
        projects, dispatcher, _ = open_projects(
            options,
            os.environ | {CLIENT_VARIABLE: str(request["project"])},
            here=str(request["folder"]),
            write_log=session.send_log,
            lease=partial(self._pool.lease, is_busy=lambda: running.are_any),
        )
        server = build_server(dispatcher, selection=options.selection, projects=projects, running=running)
        listening = threading.Thread(target=session.read_messages, name="listening", daemon=True)
        self._sessions.add(session)
        try:
            anyio.run(_converse, session, server, listening, projects.start)
        finally:
            self._sessions.discard(session)
            running.cancel_all()
            projects.close()
            session.close()
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
            if listening.ident is not None:
                listening.join()  # before its descriptor is closed


async def _converse(
    session: StdioSession, server: Server[Any], listening: threading.Thread, start: Callable[[], None]
) -> None:
    """Run the protocol server until the client has left."""

    async def wait_for_end() -> None:
        await anyio.to_thread.run_sync(listening.join, abandon_on_cancel=True)
        tasks.cancel_scope.cancel()

    def begin() -> None:
        listening.start()
        start()
        tasks.start_soon(wait_for_end)

    async with anyio.create_task_group() as tasks:
        await session.run(server, began=begin)
        tasks.cancel_scope.cancel()


def read_options(request: Mapping[str, Any]) -> ServeOptions:
    """Return the options of `ctx serve` that a stdio server sends. Raises: KeyError, TypeError, ValueError."""
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in request["selection"].items()}
    names = tuple((str(path), str(name)) for path, name in request["given_names"])
    return ServeOptions(tuple(map(str, request["roots"])), ToolSelection(**given), given_names=names)
