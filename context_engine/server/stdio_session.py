"""The session of one client over stdin and stdout, from the first byte to the last.

    session = StdioSession(claim_stdio(), bootstrap)
    session.read_messages()        # in a thread of its own, until the client closes
    session.begin_calls(caller)    # in another thread, once the tools are imported
    if session.wait_for_library():
        await session.run(server)  # once the library is imported

A session goes through phases, each with its own receiver of messages:

    _CatalogueReceiver    the bootstrap answers from its catalogue; other messages wait
    _RelayReceiver        a daemon answers; when it ends, the catalogue answers again
    _CallReceiver         a caller also runs plain calls of tools; the first message that needs the library calls for it
    _LibraryReceiver      the library answers, until the end

One thread reads, another writes. Each phase begins under the lock under which every message is received, so no message
is lost or comes twice.

The standard streams are claimed before anything heavy is imported. After that descriptor 0 reads nothing and descriptor
1 writes to stderr, so neither a print of a library nor a child process can reach the client. Messages go through a
`StreamWriter`, so no thread waits for a client that does not read. Only the standard library is imported before `run`.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys
import threading
import time
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from operator import eq

from context_engine.server.framing import LineFramer, duplicate_id_reply, error_reply, parse_line

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    import asyncio
    from typing import Any

    from anyio import CancelScope
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.lowlevel import Server
    from mcp.shared.message import SessionMessage

    from context_engine.server.bootstrap import BootstrapResponder
    from context_engine.server.daemon_relay import DaemonLink
    from context_engine.server.direct_calls import DirectCaller

LINE_BYTES_MAX = 16_000_000
"""A file of some megabytes fits, escaped. Longer lines are accidents, and are refused without being stored."""
REPLIES_BYTES_MAX = 4_000_000
"""Unread replies: a hundred of the longest. Beyond that calls wait."""
UNANSWERED_MAX = 256
"""Open requests; known clients have some dozen at most. Beyond that reading waits."""
LOOK_S = 0.1
"""How often to check, while reading waits, whether the client still exists."""
ENDLESS = "subscriptions/listen"
"""A request that is answered when the connection ends, so nothing waits for it."""
StdioPipes = namedtuple("StdioPipes", "incoming outgoing")  # noqa: PYI024 - annotations need `typing`, slow to import
"""The descriptors to read from the client and to write to it."""
READ_BYTES = 65_536
"""The capacity of a pipe on Linux: a read never returns more."""
LOG_BYTES_MAX = 1_000_000
"""The unread log lines that are kept; further ones are dropped."""
READER_CHECK_S = 1.0
"""How often an idle writer checks whether the other side still reads: no write fails to say so."""
INITIALIZE, INITIALIZED = "initialize", "notifications/initialized"
"""The messages that open a connection before protocol version 2026-07-28."""
INTERNAL_ERROR = -32603
LOG_MARK = b"#"
"""The beginning of a line of the log in the stream of a daemon; a message begins with a brace."""
JOIN_S = 0.1
"""How long `close` waits for the thread, since a blocked write cannot be interrupted."""


class StdioSession:
    """The session of the client. Thread-safe. `gone` is called when the client can receive no more replies."""

    def __init__(
        self, pipes: StdioPipes, bootstrap: BootstrapResponder, *, gone: Callable[[], None] = lambda: None
    ) -> None:
        self._incoming = pipes.incoming
        self._bootstrap = bootstrap
        self._out = StreamWriter(pipes.outgoing, bytes_max=REPLIES_BYTES_MAX, gone=gone)
        self._changed = threading.Condition()
        self._unanswered: list[dict[str, Any]] = []
        self._receiver: _Receiver = _CatalogueReceiver(bootstrap)
        self._take_notice: Callable[[dict[str, Any]], bool] = lambda _: False
        self._is_library_needed = self._has_ended = False
        self._opening: list[dict[str, Any]] = []  # what a library needs that takes the place of the daemon
        self._questions: set[Any] = set()  # ids of requests of the daemon to the client
        self._late: set[Any] = set()  # ids of those that a daemon asked which has gone

    @property
    def has_replied(self) -> threading.Event:
        """Set when the first reply is out."""
        return self._out.has_written

    def read_messages(self) -> None:
        """Read messages until the client closes its end of the pipe or ends."""
        framer = LineFramer(LINE_BYTES_MAX)
        for chunk in read_chunks(self._incoming):
            for line in framer.feed(chunk):
                if not self._has_room():
                    self._end_input()
                    return
                self.receive(line)
        self.receive(framer.rest())
        self._end_input()

    def receive(self, line: bytes) -> None:
        """Handle one line of the client."""
        message, refusal = parse_line(line, bytes_max=LINE_BYTES_MAX)
        if refusal:
            self._send_reply(refusal)
        elif message:
            with self._changed:
                if "method" not in message and message.get("id") in self._late:
                    self._late.discard(message.get("id"))
                    return
                if self._is_under_way(message):
                    self._send_reply(duplicate_id_reply(message))
                    return
                self._track_request(message)
                reply = self._respond(message)
                if reply is not None:
                    self._settle(partial(eq, reply["id"]))
                    self._send_reply(reply)

    def finish(self, seconds: float) -> None:
        """Wait for a bounded time until every request is answered and the answers are written."""
        until = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._is_settled() or self._out.is_full, seconds)
        if not self._out.is_full:
            self._out.drain(until - time.monotonic())

    def close(self) -> None:
        """End the writing thread; unwritten replies are dropped."""
        self._out.close()

    async def run(
        self, server: Server[Any], *, began: Callable[[], None] = lambda: None, ends_with_input: bool = False
    ) -> None:
        """Be the transport of the server of the library. `began` is called after the waiting messages are passed on."""
        import asyncio

        import anyio

        to_server, from_client = anyio.create_memory_object_stream["SessionMessage | Exception"]()
        to_client, from_server = anyio.create_memory_object_stream["SessionMessage"]()
        waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        async with to_server, from_server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass_to_server, waiting, to_server)
            tasks.start_soon(self._pass_to_client, from_server)
            self._hand_over(waiting, asyncio.get_running_loop())
            began()
            if ends_with_input:
                tasks.start_soon(self._cancel_at_end, tasks.cancel_scope)
            await server.run(from_client, to_client, server.create_initialization_options())
            tasks.cancel_scope.cancel()

    # -- receiving --

    def _respond(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Pass a message on, and return the reply that can be given at once. The lock is held."""
        if not _is_request(message) and self._take_notice(message):
            return None
        reply = self._receiver.receive(message)
        self._call_for_library()
        return reply

    def _end_input(self) -> None:
        """Let no thread wait for messages any more."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _track_request(self, message: dict[str, Any]) -> None:
        """Track the requests without an answer. The lock is held."""
        if "method" not in message:
            return
        if "id" in message:
            self._unanswered.append(message)
        elif message["method"] == "notifications/cancelled":
            canceled = str((message.get("params") or {}).get("requestId"))  # some clients turn 7 into "7" here
            self._settle(lambda ident: str(ident) == canceled)

    def _is_under_way(self, message: dict[str, Any]) -> bool:
        """Return whether a request has the id of another open one. The lock is held."""
        if not _is_request(message):
            return False
        return any(request["id"] == message["id"] for request in self._unanswered)

    def _settle(self, is_it: Callable[[str | int], bool]) -> None:
        """Remove the newest such request, which is answered or canceled. The lock is held."""
        for index in reversed(range(len(self._unanswered))):
            if is_it(self._unanswered[index]["id"]):
                del self._unanswered[index]
                self._changed.notify_all()
                return

    def _is_settled(self) -> bool:
        return all(request["method"] == ENDLESS for request in self._unanswered)

    def _has_room(self) -> bool:
        """Wait until there is room for one more request; return False when the client is gone before."""
        with self._changed:
            while self._is_full():
                self._changed.wait(LOOK_S)
                if self._is_full() and has_hung_up(self._incoming):
                    return False
        return True

    def _is_full(self) -> bool:
        requests = len(self._unanswered) + self._bootstrap.waiting
        return requests >= UNANSWERED_MAX or self._out.is_full or self._receiver.is_full

    def _send_reply(self, reply: dict[str, Any]) -> None:
        self._out.put(_encode(reply))

    # -- calls without the library --

    def begin_calls(self, caller: DirectCaller) -> None:
        """Let a caller run plain calls from now on, first those that wait."""
        with self._changed:
            self._receiver = _CallReceiver(self._bootstrap, caller)
            self._take_notice = caller.take_notice
            for call in self._bootstrap.take_calls():
                caller.start(call)
            self._call_for_library()

    def wait_for_library(self) -> bool:
        """Wait until a message needs the library; return False where the input ends before."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_library_needed or self._has_ended)
            return self._is_library_needed

    def keep_for_library(self, message: dict[str, Any]) -> None:
        """Let the library answer a request that was begun without it, unless it was canceled meanwhile."""
        with self._changed:
            if self._is_under_way(message):
                self._receiver.keep(message)
                self._call_for_library()

    def send_result(self, reply: dict[str, Any]) -> None:
        """Send the reply to a call, unless it was canceled meanwhile."""
        self._out.wait_for_room()
        with self._changed:
            if self._is_under_way({"method": "", **reply}):
                self._settle(partial(eq, reply["id"]))
                self._send_reply(reply)

    def send_progress(self, request_id: Any, params: dict[str, Any]) -> None:
        """Send a progress notification of a call that has no reply yet, unless too much is unread."""
        with self._changed:
            if not self._out.is_full and self._is_under_way({"method": "", "id": request_id}):
                self._send_reply({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def send_request(self, ident: str, method: str) -> None:
        """Send a request to the client."""
        self._send_reply({"jsonrpc": "2.0", "id": ident, "method": method})

    def _call_for_library(self) -> None:
        """Let `wait_for_library` return if a message waits for the library. The lock is held."""
        if self._receiver.calls_for_library and self._bootstrap.needs_library:
            self._is_library_needed = True
            self._changed.notify_all()

    # -- the daemon --

    def send_log(self, line: str) -> None:
        """Send a line of the log to the stdio server of this client, or drop it where too much is unread."""
        if not self._out.is_full:
            self._out.put(LOG_MARK + line.encode("utf-8", "backslashreplace"))

    def begin_relay(self, link: DaemonLink) -> None:
        """Pass the waiting messages on to a daemon, and from now on every message as it is received."""
        with self._changed:
            self._receiver = _RelayReceiver(self._bootstrap, link, self._opening, self._questions)
            for message in self._bootstrap.hand_over():
                self._receiver.receive(message)

    def relay_line(self, line: bytes) -> None:
        """Pass a line of the daemon on to the client, except replies that it has already."""
        message = json.loads(line)
        if "method" in message:
            reply_id = None
        else:
            reply_id = message.get("id")
        if reply_id is not None and self._bootstrap.is_repeat(reply_id):
            return
        if "method" in message and "id" in message:
            with self._changed:
                self._questions.add(message["id"])
        if self._out.is_full:
            self._out.wait_for_room()
        self._out.put(line + b"\n")
        if reply_id is not None:
            with self._changed:
                self._settle(partial(eq, reply_id))

    def end_relay(self) -> None:
        """Keep for the library what the daemon did not answer; refuse to repeat calls that it may have carried out."""
        with self._changed:
            self._receiver = _CatalogueReceiver(self._bootstrap)
            self._late, self._questions = self._questions, set()
            if any(request["method"] == INITIALIZE for request in self._unanswered):
                self._opening.clear()
            written = [request for request in self._unanswered if self._bootstrap.may_write(request)]
            for request in written:
                self._unanswered.remove(request)
                self._send_reply(interrupted_reply(request))
            self._bootstrap.take_back([*self._opening, *self._unanswered])
            self._changed.notify_all()

    # -- the library --

    def _hand_over(self, waiting: asyncio.Queue[dict[str, Any]], loop: asyncio.AbstractEventLoop) -> None:
        """Pass on the waiting messages, and from now on every message as it is received."""
        with self._changed:
            for message in self._bootstrap.hand_over():
                waiting.put_nowait(message)
            self._receiver = _LibraryReceiver(partial(loop.call_soon_threadsafe, waiting.put_nowait))

    async def _cancel_at_end(self, scope: CancelScope) -> None:
        """Cancel the server of the library when the client has left."""
        from anyio import to_thread

        def wait_for_end() -> None:
            with self._changed:
                self._changed.wait_for(lambda: self._has_ended)

        await to_thread.run_sync(wait_for_end, abandon_on_cancel=True)
        scope.cancel()

    async def _pass_to_server(
        self, waiting: asyncio.Queue[dict[str, Any]], to_server: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Pass the messages of the client to the library."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        while True:
            message = await waiting.get()
            try:
                parsed = jsonrpc_message_adapter.validate_python(message, by_name=False)
            except ValueError as error:  # `parse_line` refuses such messages; this makes sure of a reply
                await to_server.send(error)
            else:
                await to_server.send(SessionMessage(parsed))

    async def _pass_to_client(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Pass the messages of the library to the client, except replies that it has already."""
        from anyio import to_thread

        async for outgoing in from_server:
            message = outgoing.message
            if hasattr(message, "method"):
                reply_id = None
            else:
                reply_id = getattr(message, "id", None)
            if reply_id is not None and self._bootstrap.is_repeat(reply_id):
                continue
            if self._out.is_full:
                await to_thread.run_sync(self._out.wait_for_room, abandon_on_cancel=True)
            self._out.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            if reply_id is not None:
                with self._changed:
                    self._settle(partial(eq, reply_id))


# -- who receives the messages of the client ---------------------------------------------------------------------------


class _Receiver:
    """Receives the messages of the client in one phase of the session, whose lock is held during every call."""

    calls_for_library = False
    """Whether a message that waits begins the next phase."""

    @property
    def is_full(self) -> bool:
        """Whether reading waits, because what is behind this does not keep up."""
        return False

    def receive(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Take a message, and return the reply that can be given at once."""
        raise NotImplementedError

    def keep(self, message: dict[str, Any]) -> None:
        """Take a request that a caller began and cannot end without the library."""
        self.receive(message)


class _CatalogueReceiver(_Receiver):
    """The bootstrap answers from its catalogue, and keeps the other messages for the next phase."""

    def __init__(self, bootstrap: BootstrapResponder) -> None:
        self._bootstrap = bootstrap

    def receive(self, message: dict[str, Any]) -> dict[str, Any] | None:
        return self._bootstrap.respond(message)

    def keep(self, message: dict[str, Any]) -> None:
        self._bootstrap.keep(message)


class _CallReceiver(_CatalogueReceiver):
    """The same, but a caller runs the plain calls of tools."""

    calls_for_library = True

    def __init__(self, bootstrap: BootstrapResponder, caller: DirectCaller) -> None:
        super().__init__(bootstrap)
        self._caller = caller

    def receive(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if not _is_request(message) and message.get("method") != INITIALIZED:
            self._bootstrap.withdraw(message)
            return None
        call = self._bootstrap.read_call(message)
        if call is None:
            return self._bootstrap.respond(message)
        self._caller.start(call)
        return None


class _RelayReceiver(_Receiver):
    """A daemon answers; `opening` and `questions` keep what is needed when it ends."""

    def __init__(
        self, bootstrap: BootstrapResponder, link: DaemonLink, opening: list[dict[str, Any]], questions: set[Any]
    ) -> None:
        self._bootstrap = bootstrap
        self._link = link
        self._opening = opening
        self._questions = questions

    @property
    def is_full(self) -> bool:
        return self._link.is_full

    def receive(self, message: dict[str, Any]) -> None:
        method = message.get("method", "")
        if not method:
            self._questions.discard(message.get("id"))
        elif "id" in message and self._bootstrap.is_repeat(message["id"]):
            self._opening.append(message)
        elif method == INITIALIZE:
            self._opening.append(self._bootstrap.replay_of(message))
        elif method == INITIALIZED:
            self._opening.append(message)
        self._link.send(_encode(message))


class _LibraryReceiver(_Receiver):
    """The library answers."""

    def __init__(self, pass_on: Callable[[dict[str, Any]], object]) -> None:
        self._pass_on = pass_on

    def receive(self, message: dict[str, Any]) -> None:
        self._pass_on(message)


def _is_request(message: dict[str, Any]) -> bool:
    return "method" in message and "id" in message


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def interrupted_reply(request: dict[str, Any]) -> dict[str, Any]:
    """Return the error reply to a call that a daemon may or may not have carried out before it ended.

    >>> interrupted_reply({"id": 7, "params": {"name": "write_file"}})["error"]["message"].partition(":")[0]
    'the local process ended while it ran write_file, which may be done or not'
    """
    name = str((request.get("params") or {}).get("name"))[:80]
    text = (
        f"the local process ended while it ran {name}, which may be done or not: look at what it changes"
        " (read the file, list the records; undo_edit with list: true shows edits), then repeat it if it is missing"
    )
    return error_reply(INTERNAL_ERROR, text, request)


# -- the standard streams ----------------------------------------------------------------------------------------------


def claim_stdio() -> StdioPipes:
    """Claim stdin and stdout for the protocol. Call once, first."""
    incoming, outgoing = _duplicate(0), _duplicate(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # the client gave no stderr
        os.dup2(null, 1)
        os.dup2(null, 2)
    os.close(null)
    sys.stdin = io.StringIO()
    sys.stdout = sys.stderr = LogStream(StreamWriter(2, bytes_max=LOG_BYTES_MAX))
    return StdioPipes(incoming, outgoing)


def read_chunks(descriptor: int) -> Iterator[bytes]:
    """Yield the input as it arrives, until the other side closes or ends."""
    while True:
        try:
            chunk = os.read(descriptor, READ_BYTES)
        except OSError:  # a reset connection, where the pipe is a socket
            return
        if not chunk:
            return
        yield chunk


def has_hung_up(descriptor: int, *, reading: bool = True) -> bool:
    """Return whether the other side has closed, even with unread input; False where the system cannot report it.

    `reading`: it is enough that the other side of a socket writes no more.
    """
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0) if reading else 0)
    return any(event & ~select.POLLNVAL for _, event in poll.poll(0))


class StreamWriter:
    """The only thread that writes to a pipe, terminal or file: a message is one write. Thread-safe.

    The thread writes through its own duplicate of the descriptor. No other code knows its number, and the thread closes
    it as its last act. So no byte can reach a file that was given the same number later, whoever closes what and when.
    """

    def __init__(self, descriptor: int, *, bytes_max: int, gone: Callable[[], None] = lambda: None) -> None:
        """Start the thread. The caller keeps `descriptor` and may close it.

        `gone` is called when the other side does not exist any more.
        """
        self._bytes_max = bytes_max
        self._gone = gone
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._is_over = False
        self.has_written = threading.Event()
        """Set when the first message is out."""
        self._thread = threading.Thread(target=self._run, args=(_duplicate(descriptor),), name="writing", daemon=True)
        self._thread.start()

    def put(self, message: bytes) -> None:
        """Queue a message; never waits, see `is_full`. It is dropped after `close`, or when the other side is gone."""
        with self._changed:
            if self._is_over:
                return
            self._queue.append(message)
            self._bytes += len(message)
            self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        """Whether more than `bytes_max` are unread by the other side."""
        return self._bytes > self._bytes_max

    def wait_for_room(self) -> None:
        """Wait until it is not full."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_full)

    def drain(self, seconds: float) -> None:
        """Wait until everything is written, the other side is gone, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes, seconds)

    def close(self, seconds: float = 0.0) -> bool:
        """Wait for the other side to read the queue, drop the rest, end the thread. May be called twice.

        Return whether the thread has ended. A thread that is blocked in a write ends when the other side reads or
        closes. Until then its duplicate stays open.
        """
        self.drain(seconds)
        self._end()
        if self._thread is not threading.current_thread():  # `gone` may have called this
            self._thread.join(JOIN_S)
        return not self._thread.is_alive()

    def _run(self, descriptor: int) -> None:
        try:
            while (message := self._next(descriptor)) is not None:
                _write_whole(descriptor, message)
                self.has_written.set()
                self._count_out(message)
        except OSError:
            self._end()
            self._gone()
        finally:
            os.close(descriptor)

    def _next(self, descriptor: int) -> bytes | None:
        """Wait for the next message; None when the writer is closed. Raises: BrokenPipeError without a reader."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._queue or self._is_over, READER_CHECK_S):
                if has_hung_up(descriptor, reading=False):
                    raise BrokenPipeError
            if self._is_over:
                return None
            return self._queue.popleft()

    def _count_out(self, message: bytes) -> None:
        with self._changed:
            self._bytes = max(0, self._bytes - len(message))  # closing may have set it to 0
            self._changed.notify_all()

    def _end(self) -> None:
        """Drop the queue, and wake every waiting thread."""
        with self._changed:
            self._is_over = True
            self._queue.clear()
            self._bytes = 0
            self._changed.notify_all()


def _write_whole(descriptor: int, message: bytes) -> None:
    """Write a whole message: a signal may interrupt a write."""
    rest = memoryview(message)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class LogStream(io.TextIOBase):
    """The replacement of stderr: lines go to a stream writer, which drops them when the reader does not keep up.

    ``print`` writes a line and its end separately. So the text of each thread is kept until its line ends or is
    flushed. Lines are written, or dropped, as a whole.
    """

    def __init__(self, writer: StreamWriter) -> None:
        self._writer = writer
        self._partial = threading.local()

    def write(self, text: str) -> int:
        """Keep the text until a line ends, then write it."""
        self._partial.text = getattr(self._partial, "text", "") + text
        if "\n" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Pass on the text of this thread, or drop it where too much is unread."""
        text = getattr(self._partial, "text", "")
        self._partial.text = ""
        if text and not self._writer.is_full:
            self._writer.put(text.encode("utf-8", "backslashreplace"))

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the real stderr, for code below Python."""
        return 2

    def end(self, seconds: float) -> None:
        """Wait for the last lines to be read; further lines are dropped."""
        self._writer.close(seconds)


def _duplicate(descriptor: int) -> int:
    """Return a blocking copy that children do not inherit, above the three standard descriptors."""
    copy = os.dup(descriptor)
    os.set_inheritable(copy, False)
    if os.name == "posix":
        os.set_blocking(copy, True)
    return copy
