"""The link of a stdio server to the daemon, which runs the protocol server of this client over its shared Engines.

    link = open_link(options, env)
    if link is not None:
        link.relay(session)       # returns when the daemon has gone; the session then waits for the library

The client's messages go to the daemon as they are, and the daemon's lines to the client. A line that begins with `#`
is a line of the log. Only a small part of the standard library is imported.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping

from context_engine.daemon import DaemonClient, is_switched_off, start_daemon
from context_engine.server.framing import LineFramer
from context_engine.server.serve_options import CLIENT_VARIABLE
from context_engine.server.stdio_session import LINE_BYTES_MAX, LOG_MARK, REPLIES_BYTES_MAX, encode
from context_engine.server.stdio_streams import StreamWriter, read_chunks

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any

    from context_engine.server.serve_options import ServeOptions
    from context_engine.server.stdio_session import StdioSession

START_S = 5.0
"""A new daemon listens before it imports anything large, within half a second on an idle machine."""
READY_S = 30.0
"""A daemon that listens and is not ready after this time is of no use; alone, this process needs two seconds."""
POLL_S = 0.02


class DaemonLink:
    """The connection of one stdio server to the daemon, which answers its messages."""

    def __init__(self, client: DaemonClient) -> None:
        """Use `open_link`. The link closes the client."""
        self._client = client
        self._descriptor = client.wait_without_limit()
        self._writer = StreamWriter(self._descriptor, bytes_max=REPLIES_BYTES_MAX)

    @property
    def is_full(self) -> bool:
        """Whether the daemon does not keep up with the client."""
        return self._writer.is_full

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message for the daemon; never waits."""
        self._writer.put(encode(message) + b"\n")

    def relay(self, session: StdioSession) -> None:
        """Pass messages both ways until the daemon goes; the session then keeps what was not answered."""
        session.attach(self)
        framer = LineFramer(LINE_BYTES_MAX)
        for chunk in read_chunks(self._descriptor):
            for line in framer.feed(chunk):
                if line.startswith(LOG_MARK):
                    sys.stderr.write(line[1:].decode("utf-8", "replace") + "\n")
                    continue
                message = json.loads(line)
                session.wait_for_room()
                kind = "question_id" if "method" in message else "reply_id"
                session.deliver(line, **{kind: message.get("id")})
        from context_engine.server.dispatcher import may_write  # the tools are imported: they are needed from now on

        session.detach(lambda request: request["method"] == "tools/call" and may_write(request.get("params") or {}))
        self._writer.close()
        self._client.close()


def open_link(options: ServeOptions, env: Mapping[str, str]) -> DaemonLink | None:
    """Return a link to the daemon, which is started where there is none; None where this process must serve alone."""
    client = None if is_switched_off(env) or options.chunks_dir else _connect(env)
    if client is None:
        return None
    folder = os.getcwd()
    request = {
        "kind": "session",
        "patient": True,
        "folder": folder,
        "client": os.getppid(),
        "roots": [os.path.join(folder, os.path.expanduser(root)) for root in options.roots],
        "project": env.get(CLIENT_VARIABLE, ""),
        "given_names": options.given_names,
        "selection": options.selection._asdict(),
    }
    try:
        client.send(request)
        if client.receive(time.monotonic() + READY_S) == {"state": "ready"}:
            return DaemonLink(client)
    except (OSError, ValueError):
        pass
    client.close()
    return None


def _connect(env: Mapping[str, str]) -> DaemonClient | None:
    """Connect to the daemon, or start it and wait until it listens."""
    until = time.monotonic() + START_S
    has_started = False
    while True:
        try:
            return DaemonClient.connect(env)
        except OSError:
            if time.monotonic() > until or (not has_started and not start_daemon(env)):
                return None
            has_started = True
            time.sleep(POLL_S)
