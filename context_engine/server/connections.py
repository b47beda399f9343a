"""The connections of an HTTP server: their number, their time limits, and the accepted request heads.

A connection waits for its client until a request is complete, and again after the reply. One that waits too long is
closed. At the maximum number of connections, the one that has waited longest is closed for a new one. So clients that
connect and send nothing, or one byte a second, cannot keep others out.

A head is checked before h11 parses it, because h11 accepts forms on which a server and its proxy may disagree: lines
that end without CR, values that are folded over lines, duplicate headers.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.types import Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

from context_engine.errors import HostError

CONNECTIONS_MAX = 1_000
"""Two for each of 500 sessions: the open stream of a client, and a request at the same time."""
DESCRIPTORS_SHARE = 0.5
"""The share of the descriptors of this process; the other half is for the index, its databases and git."""
HEAD_S = 10.0
"""A client sends its head in one packet; this is enough for one that is sent again three times."""
BODY_S = 60.0
"""The largest body at 70 KB a second."""
REST_BYTES_MAX = 8 << 20
"""How much of a body is read after its reply, for clients that send all of it before they read: twice the largest
body. A connection that is closed with unread bytes may lose the reply."""
REST_S = 2.0
KEEP_ALIVE_S = 5
"""A connection without a further request stays open this long after a reply; the default of uvicorn."""
HEAD_BYTES_MAX = 16_384
"""Line and headers of a request; what h11 allows where they come in pieces."""
HEADERS_MAX = 100
"""Clients send 10 to 15, and proxies add some."""
ONCE = frozenset(
    b"host origin authorization content-length content-type transfer-encoding content-encoding mcp-session-id "
    b"mcp-protocol-version mcp-method last-event-id expect upgrade".split()
)
"""Headers that must not be repeated: this server, the library and a proxy might use different ones."""
VERSIONS = (b" HTTP/1.1", b" HTTP/1.0")
BACKLOG = 1_024
"""Connections that the system keeps until they are accepted."""
NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

_TROUBLE = {
    errno.EADDRINUSE: ("is taken by another process", "Choose another port, or 0 for any that is free."),
    errno.EACCES: ("is reserved for the system", "Choose a port above 1023."),
    errno.EADDRNOTAVAIL: ("is at an address that this machine does not have", "Bind to 127.0.0.1 or to 0.0.0.0."),
}
_HEAD_END = re.compile(rb"\r?\n\r?\n")


def _reply(status: int, text: str) -> bytes:
    """Return a complete response for a connection that is closed after it, when h11 has no request."""
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
    return f"{head}connection: close\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode()


FULL = _reply(503, "Too many connections are open, and all are in use. Try again in a moment.")
LATE = _reply(408, "The request did not come whole in time.")


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises: HostError."""
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        every = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(place[:2], family=family, backlog=BACKLOG, dualstack_ipv6=every)
    except socket.gaierror as error:
        raise HostError(
            f"{host} is not a name of this machine: {error.strerror}", suggestion="Bind to 127.0.0.1 or to 0.0.0.0."
        ) from error
    except OSError as error:
        what, next_step = _TROUBLE.get(error.errno or 0, (f"cannot be used: {error.strerror}", "Choose another port."))
        raise HostError(f"port {port} of {host} {what}", suggestion=next_step) from error


def stop_listening(server: asyncio.Server) -> Iterator[socket.socket]:
    """Stop listening, and yield the connections that the system has accepted but the server has not."""
    copies = [listening.dup() for listening in server.sockets]
    server.close()
    for copy in copies:
        with copy, suppress(BlockingIOError):
            while True:
                yield copy.accept()[0]


def connection_limit(descriptors: int | None = None) -> int:
    """Return how many connections may be open, of a process that may have so many descriptors; by default this one.

    >>> connection_limit(256), connection_limit(1_000_000)
    (128, 1000)
    """
    if descriptors is None:
        descriptors = CONNECTIONS_MAX * 2  # sockets are not counted among them on Windows
        if sys.platform != "win32":
            import resource

            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            descriptors = descriptors if soft == resource.RLIM_INFINITY else soft
    return max(1, min(CONNECTIONS_MAX, int(descriptors * DESCRIPTORS_SHARE)))


class Connections:
    """All connections of one server, and which of them wait for their clients, the longest wait first.

    For one event loop.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = connection_limit() if limit is None else limit
        self._open: set[Connection] = set()  # without those that are being closed
        self._waiting: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Count a connection, if necessary in place of a waiting one; return False where all are being answered."""
        if len(self) >= self.limit and not self.close_longest_waiting():
            return False
        self._open.add(connection)
        self.wait(connection)
        return True

    def wait(self, connection: Connection) -> None:
        """Note that it waits for its client, from now."""
        self._waiting.pop(connection, None)
        if connection in self._open:
            self._waiting[connection] = None

    def answer(self, connection: Connection) -> None:
        """Note that a request of it has come whole, and is being answered."""
        self._waiting.pop(connection, None)

    def leave(self, connection: Connection) -> None:
        """Forget one that is closed."""
        self._waiting.pop(connection, None)
        self._open.discard(connection)

    def close_longest_waiting(self) -> bool:
        """Close the connection that has waited longest for its client; return False where none waits."""
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        self.leave(longest)
        longest.transport.abort()
        return True

    def handle_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that asyncio reports: if no descriptor is left, close a waiting connection."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            self.close_longest_waiting()
        loop.default_exception_handler(context)


class HeadParser(h11.Connection):
    """h11, which sees only heads of the plain form.

    `refusal` is the status and text for a head that was refused.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES_MAX)
        self.refusal: tuple[int, str] = (400, "Invalid HTTP request received.")

    def next_event(self) -> Any:
        """Return h11's next event. Raises: RemoteProtocolError, also for a head that h11 would take."""
        if self.their_state is h11.IDLE and (trouble := find_head_problem(self.trailing_data[0])):
            self.refusal = trouble
            raise h11.RemoteProtocolError(trouble[1], error_status_hint=trouble[0])
        return super().next_event()


def find_head_problem(data: bytes) -> tuple[int, str] | None:
    r"""Return status and text of the refusal of a head, complete or not; None for a valid one.

    >>> find_head_problem(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), find_head_problem(b"GET / HTTP/1.1\nHost: a\n\n")
    (None, (400, 'Lines of a request end with CR and LF.'))
    """
    end = _HEAD_END.search(data)
    head = data[: end.start()] if end else data
    if len(head) > HEAD_BYTES_MAX:
        return 431, f"The head of a request has at most {HEAD_BYTES_MAX:,} bytes."
    if end is None:
        return None
    request, *lines = head.split(b"\r\n")
    if end[0] != b"\r\n\r\n" or any(b"\r" in line or b"\n" in line for line in (request, *lines)):
        return 400, "Lines of a request end with CR and LF."
    if not request.endswith(VERSIONS):
        return 400, "The first line of a request is METHOD PATH HTTP/1.1."
    if any(line[:1] in (b" ", b"\t") for line in lines):
        return 400, "A header must be on one line."
    if len(lines) > HEADERS_MAX:
        return 431, f"A request has at most {HEADERS_MAX} headers."
    counts = Counter(line.partition(b":")[0].strip().lower() for line in lines)
    if twice := sorted(name.decode() for name in ONCE if counts[name] > 1):
        return 400, f"The header {twice[0]} comes twice."
    if counts[b"content-length"] and counts[b"transfer-encoding"]:
        return 400, "A request has content-length or transfer-encoding, not both."
    return None


class Connection(H11Protocol):
    """A connection of uvicorn that is counted, and has a time limit for each request."""

    def __init__(self, among: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn: HeadParser = HeadParser()
        self._among = among
        self._awaited: str = ""
        self._rest_bytes: int | None = None  # what may still come of a body that was answered before its end
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a head, or turn the client away."""
        super().connection_made(transport)
        if not self._among.admit(self):
            transport.write(FULL)
            transport.close()
            return
        self._expect("head")

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._among.leave(self)
        self._expect("")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the connection is being closed."""
        if self.transport.is_closing():
            return
        if self._rest_bytes is None:
            super().data_received(data)
            return
        self._rest_bytes -= len(data)
        if self._rest_bytes < 0:
            self.transport.close()

    def handle_events(self) -> None:
        """Read what has come; then wait for the rest of it, or for the next request."""
        super().handle_events()
        if self.transport.is_closing():
            return
        their_state = self.conn.their_state
        self._expect("head" if their_state is h11.IDLE else "body" if their_state is h11.SEND_BODY else "")
        if their_state is not h11.SEND_BODY and self.cycle is not None and not self.cycle.response_complete:
            self._among.answer(self)

    def on_response_complete(self) -> None:
        """Wait for the next request; after a reply to a request whose body has not ended, close soon."""
        self._among.wait(self)
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._rest_bytes = REST_BYTES_MAX
            self.transport.write_eof()
            self.loop.call_later(REST_S, self.transport.close)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words for whatever is wrong
        """Say why a request is not taken, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_reply(*self.conn.refusal))
        self.transport.close()

    def _expect(self, awaited: str) -> None:
        """Wait so long, and no longer, for what the client has to send; the time begins when that changes."""
        if awaited == self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._awaited = awaited
        if awaited:
            self._deadline = self.loop.call_later(HEAD_S if awaited == "head" else BODY_S, self._close_late)

    def _close_late(self) -> None:
        """Close a connection whose request did not come in time; one that began to send receives the reason."""
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0] and self.conn.our_state is h11.IDLE:
            self.transport.write(LATE)
        self.transport.close()


async def read_body(headers: Mapping[str, str], receive: Receive, bytes_max: int) -> bytes | None:
    """Return the body of a request; None when it is too large, by its header or as it is read, or cut off."""
    stated = headers.get("content-length", "0")
    if not stated.isdecimal() or int(stated) > bytes_max:
        return None
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > bytes_max or message["type"] != "http.request":  # too large, or the client has gone
            return None
        if not message.get("more_body", False):
            return bytes(body)


def create_config(application: Any, among: Connections, **options: Any) -> uvicorn.Config:
    """Return the configuration of a server of uvicorn whose connections are counted and limited."""
    protocol: Any = partial(Connection, among)  # h11 is always installed; a faster parser would not help
    return uvicorn.Config(
        application,
        http=protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        **options,
    )
