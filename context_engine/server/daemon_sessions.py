"""The sessions of stdio servers in the daemon: for each client a protocol server of its own, over shared Engines.

Options, limits, masks, questions and the state of a session belong to the client, as in a process of its own.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from context_engine.server.profiles import ToolSelection
from context_engine.server.serve import open_projects, serve_session
from context_engine.server.serve_options import CLIENT_VARIABLE, ServeOptions
from context_engine.server.shutdown import RunningCalls
from context_engine.server.stdio_session import StdioSession
from context_engine.server.stdio_streams import StdioPipes

if TYPE_CHECKING:
    from context_engine.context import ShownLinesBySession
    from context_engine.daemon import DaemonConnection, EnginePool


IMPORT_AFTER_S = 3.0
"""The library of the protocol takes 0.4 s of a core to import. The command that started the daemon is answered first;
no later client waits for the library."""


class SessionServer:
    """Serves the clients of stdio servers, each in the thread of its connection."""

    def __init__(self, pool: EnginePool, shown: ShownLinesBySession) -> None:
        """`shown` has what the hooks of the clients gave, and gets what their tools show."""
        self._pool = pool
        self._shown = shown
        self._sessions: set[StdioSession] = set()
        importing = threading.Timer(IMPORT_AFTER_S, import_module, ("context_engine.server.mcp_server",))
        importing.daemon = True
        importing.start()

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
        session = StdioSession(StdioPipes(descriptor, descriptor))
        running = RunningCalls()
        projects, dispatcher = open_projects(
            options,
            os.environ | {CLIENT_VARIABLE: str(request["project"])},
            here=str(request["folder"]),
            write_log=session.send_log,
            lease=partial(self._pool.lease, is_busy=lambda: running.are_any),
            shown=partial(self._shown.get_of_client, int(request["client"])),
        )
        listening = threading.Thread(target=session.read_messages, name="listening", daemon=True)
        self._sessions.add(session)
        try:
            listening.start()
            serve_session(session, projects, dispatcher, running=running, ends_with_input=True)
        finally:
            self._sessions.discard(session)
            running.cancel_all()
            projects.close()
            session.close()
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
            listening.join()  # before its descriptor is closed


def read_options(request: Mapping[str, Any]) -> ServeOptions:
    """Return the options of `ctx serve` that a stdio server sends. Raises: KeyError, TypeError, ValueError."""
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in request["selection"].items()}
    names = tuple((str(path), str(name)) for path, name in request["given_names"])
    return ServeOptions(tuple(map(str, request["roots"])), ToolSelection(**given), given_names=names)
