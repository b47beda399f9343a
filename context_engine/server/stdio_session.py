"""The session of one client over two pipes or a socket, from the first byte to the last.

    session = StdioSession(claim_stdio())
    session.read_messages()        # in a thread of its own, until the client closes
    session.attach(peer)           # what answers: the daemon
    session.detach(may_write)      # the daemon has gone; its requests wait for what answers next
    await session.run(server)      # what answers: the protocol library, in this process

One thread reads, another writes, and what answers works in threads of its own. Messages that come before anything can
answer wait. A peer changes under the lock under which every message is received, so no message is lost or comes twice.
Only the standard library is imported before `run`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import eq

from context_engine.server.framing import LineFramer, duplicate_id_reply, error_reply, parse_line
from context_engine.server.stdio_streams import StdioPipes, StreamWriter, has_hung_up, read_chunks

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any, Protocol

    from anyio.streams.memory import MemoryObjectReceiveStream
    from mcp.server.lowlevel import Server
    from mcp.shared.message import SessionMessage

    class Peer(Protocol):
        """What answers the messages of the client."""

        @property
        def is_full(self) -> bool:
            """Whether it does not keep up with the client."""
            ...

        def send(self, message: dict[str, Any]) -> None:
            """Take a message; never waits."""
            ...


LINE_BYTES_MAX = 16_000_000
"""A file of some megabytes fits, escaped. Longer lines are accidents, and are refused without being stored."""
REPLIES_BYTES_MAX = 4_000_000
"""Unread replies: a hundred of the longest. Beyond that calls wait."""
UNANSWERED_MAX = 256
"""Open requests; known clients have some dozen at most. Beyond that reading waits."""
LOOK_S = 0.1
"""How often to check, while reading waits, whether the client still exists."""
LOAD_S = 10.0
"""The end waits at most this long for the protocol library where a client that still reads has asked something."""
ENDLESS = "subscriptions/listen"
"""A request that is answered when the connection ends, so nothing waits for it."""
INITIALIZE, INITIALIZED = "initialize", "notifications/initialized"
"""The messages that open a connection before protocol version 2026-07-28."""
INTERNAL_ERROR = -32603
LOG_MARK = b"#"
"""The beginning of a line of the log in the stream of a daemon; a message begins with a brace."""


class StdioSession:
    """The session of the client. Thread-safe. `gone` is called when the client can receive no more replies."""

    def __init__(self, pipes: StdioPipes, *, gone: Callable[[], None] = lambda: None) -> None:
        self._pipes = pipes
        self._out = StreamWriter(pipes.outgoing, bytes_max=REPLIES_BYTES_MAX, gone=gone)
        self._changed = threading.Condition()
        self._peer: Peer | None = None
        self._waiting: list[dict[str, Any]] = []  # until there is a peer
        self._unanswered: list[dict[str, Any]] = []
        self._opening: dict[str, dict[str, Any]] = {}  # what a library needs that takes the place of a daemon
        self._replay_id = os.urandom(8).hex()  # of the opening in its second life: the client has the reply
        self._questions: set[Any] = set()  # ids of requests of the peer to the client
        self._late: set[Any] = set()  # ids of those that a daemon asked which has gone
        self._has_ended = False
        self._ended: Callable[[], object] = lambda: None

    def read_messages(self) -> None:
        """Read messages until the client closes its end of the pipe or ends."""
        framer = LineFramer(LINE_BYTES_MAX)
        if self._read_lines(framer):
            self.receive(framer.rest())
        with self._changed:
            self._has_ended = True
            self._ended()

    def _read_lines(self, framer: LineFramer) -> bool:
        """Receive whole lines; return False for a client that has gone while reading had to wait."""
        for chunk in read_chunks(self._pipes.incoming):
            for line in framer.feed(chunk):
                with self._changed:
                    while self._is_full():
                        self._changed.wait(LOOK_S)
                        if self._is_full() and has_hung_up(self._pipes.incoming):
                            return False
                self.receive(line)
        return True

    def receive(self, line: bytes) -> None:
        """Handle one line of the client: track a message and hand it to the peer, unless it is refused or too late."""
        message, refusal = parse_line(line, bytes_max=LINE_BYTES_MAX)
        with self._changed:
            if refusal:
                self._send(refusal)
            elif message and self._accept(message):
                if self._peer is None:
                    self._waiting.append(message)
                else:
                    self._peer.send(message)

    def finish(self, seconds: float) -> None:
        """Wait for a bounded time until every request is answered and the answers are written."""
        until = time.monotonic() + seconds
        with self._changed:
            if not has_hung_up(self._pipes.outgoing, reading=False):
                self._changed.wait_for(lambda: self._peer is not None or self._is_settled(), LOAD_S)
                until = time.monotonic() + seconds
            self._changed.wait_for(lambda: self._is_settled() or self._out.is_full, seconds)
        if not self._out.is_full:
            self._out.drain(until - time.monotonic())

    def close(self) -> None:
        """End the writing thread; unwritten replies are dropped."""
        self._out.close()

    def send_log(self, line: str) -> None:
        """Send a line of the log to the stdio server of this client, or drop it where too much is unread."""
        if not self._out.is_full:
            self._out.put(LOG_MARK + line.encode("utf-8", "backslashreplace"))

    # -- what answers --

    def attach(self, peer: Peer) -> None:
        """Pass the waiting messages on to a peer, and from now on every message as it is received."""
        with self._changed:
            self._peer = peer
            for message in self._waiting:
                peer.send(message)
            self._waiting.clear()
            self._changed.notify_all()

    def deliver(self, line: bytes, *, reply_id: Any = None, question_id: Any = None) -> None:
        """Send a line of the peer to the client: a reply, a question that the client answers, or neither."""
        if reply_id == self._replay_id:
            return
        with self._changed:
            if question_id is not None:
                self._questions.add(question_id)
            self._out.put(line + b"\n")
            if reply_id is not None:
                self._settle(partial(eq, reply_id))

    def wait_for_room(self) -> None:
        """Wait until the client has read enough for another line."""
        self._out.wait_for_room()

    def detach(self, may_write: Callable[[dict[str, Any]], bool]) -> None:
        """Keep what a daemon that has gone did not answer; refuse to repeat calls that it may have carried out."""
        with self._changed:
            self._peer = None
            self._late, self._questions = self._questions, set()
            for request in [one for one in self._unanswered if may_write(one)]:
                self._unanswered.remove(request)
                self._send(interrupted_reply(request))
            opening = [*self._opening.values()]
            self._waiting = [request for request in self._unanswered if request not in opening]
            for message in reversed(opening):
                is_answered = message["method"] == INITIALIZE and message not in self._unanswered
                replay = {**message, "id": self._replay_id} if is_answered else message
                self._waiting.insert(0, replay)

    # -- the lock is held --

    def _accept(self, message: dict[str, Any]) -> bool:
        """Track a message; return False for one that is refused or came too late."""
        method, ident = message.get("method"), message.get("id")
        if method is None:
            self._questions.discard(ident)
            if ident in self._late:
                self._late.discard(ident)
                return False
        elif "id" in message:
            if any(request["id"] == ident for request in self._unanswered):
                self._send(duplicate_id_reply(message))
                return False
            self._unanswered.append(message)
        elif method == "notifications/cancelled":
            canceled = str((message.get("params") or {}).get("requestId"))  # some clients turn 7 into "7" here
            self._settle(lambda open_id: str(open_id) == canceled)
        if method in (INITIALIZE, INITIALIZED):
            self._opening[method] = message
        return True

    def _settle(self, is_it: Callable[[Any], bool]) -> None:
        """Remove the newest such request, which is answered or canceled."""
        for index in reversed(range(len(self._unanswered))):
            if is_it(self._unanswered[index]["id"]):
                del self._unanswered[index]
                self._changed.notify_all()
                return

    def _is_settled(self) -> bool:
        return all(request["method"] == ENDLESS for request in self._unanswered)

    def _is_full(self) -> bool:
        is_behind = self._peer is not None and self._peer.is_full
        return len(self._unanswered) + len(self._waiting) >= UNANSWERED_MAX or self._out.is_full or is_behind

    def _send(self, message: dict[str, Any]) -> None:
        self._out.put(encode(message) + b"\n")

    # -- the library --

    async def run(
        self, server: Server[Any], *, began: Callable[[], None] = lambda: None, ends_with_input: bool = False
    ) -> None:
        """Be the transport of the server of the library. `began` is called after the waiting messages are passed on.

        `ends_with_input`: return when the client has left, even if it has not read every answer.
        """
        import asyncio
        import math

        import anyio
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        loop = asyncio.get_running_loop()
        to_server, from_client = anyio.create_memory_object_stream["SessionMessage | Exception"](math.inf)
        to_client, from_server = anyio.create_memory_object_stream["SessionMessage"]()

        def take(message: dict[str, Any]) -> None:
            try:
                parsed: SessionMessage | Exception = SessionMessage(
                    jsonrpc_message_adapter.validate_python(message, by_name=False)
                )
            except ValueError as error:  # `parse_line` refuses such messages; this makes sure of a reply
                parsed = error
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                to_server.send_nowait(parsed)

        class Library:
            """The protocol library in this process, which takes messages in its event loop."""

            is_full = False

            def send(self, message: dict[str, Any]) -> None:
                loop.call_soon_threadsafe(take, message)

        async with to_server, from_server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass_to_client, from_server)
            self.attach(Library())
            with self._changed:
                if ends_with_input:
                    self._ended = lambda: loop.call_soon_threadsafe(tasks.cancel_scope.cancel)
                if self._has_ended:
                    self._ended()
            began()
            try:
                await server.run(from_client, to_client, server.create_initialization_options())
            finally:
                with self._changed:
                    self._ended = lambda: None
            tasks.cancel_scope.cancel()

    async def _pass_to_client(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Pass the messages of the library to the client."""
        from anyio import to_thread

        async for outgoing in from_server:
            message = outgoing.message
            if self._out.is_full:
                await to_thread.run_sync(self.wait_for_room, abandon_on_cancel=True)
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            ident = getattr(message, "id", None)
            if hasattr(message, "method"):
                self.deliver(line, question_id=ident)
            else:
                self.deliver(line, reply_id=ident)


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as a line, without its end."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


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
