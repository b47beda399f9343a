"""One client at the two pipes, heard from the first moment: by the front until the protocol library is there, then by it.

    conversation = Conversation(pipes, front)
    conversation.listen()               # a thread of its own, until the client closes
    await conversation.converse(server) # another thread, when the library is loaded

One thread reads for good, another writes; the hand-over happens under the lock that every message is heard under, so no
message is lost and none comes twice. Stdlib only until `converse`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from operator import eq

from context_engine.server.framing import LineFramer, duplicate_id_reply, parse_line
from context_engine.server.stdio_streams import StdioPipes, StreamWriter, has_hung_up, read_chunks

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    import asyncio
    from typing import Any

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.lowlevel import Server
    from mcp.shared.message import SessionMessage

    from context_engine.server.bootstrap import BootstrapResponder

LINE_BYTES_MAX = 16_000_000
"""A file of some megabytes fits, escaped. Longer lines are accidents, and are refused without being stored."""
REPLIES_BYTES_MAX = 4_000_000
"""Replies that wait for a client that does not read: a hundred of the longest. Then calls wait."""
UNANSWERED_MAX = 256
"""Requests under way at once; no client was seen to have more than some dozen. Then reading waits."""
LOOK_S = 0.1
"""How often to look, while reading waits, whether the client is still there."""
ENDLESS = "subscriptions/listen"
"""A request whose answer comes when the connection ends: nothing waits for it."""


class StdioSession:
    """Thread-safe. `gone` is called when the client cannot be answered any more."""

    def __init__(
        self, pipes: StdioPipes, bootstrap: BootstrapResponder, *, gone: Callable[[], None] = lambda: None
    ) -> None:
        self._incoming = pipes.incoming
        self._bootstrap: BootstrapResponder = bootstrap
        self._out = StreamWriter(pipes.outgoing, bytes_max=REPLIES_BYTES_MAX, gone=gone)
        self._changed = threading.Condition()
        self._unanswered: list[tuple[str | int, str]] = []  # id and method
        self._hand_on: Callable[[dict[str, Any]], object] | None = None

    @property
    def has_replied(self) -> threading.Event:
        """Set when the first reply is out."""
        return self._out.has_written

    def read_messages(self) -> None:
        """Read messages until the client closes its end of the pipe or ends."""
        cutter = LineFramer(LINE_BYTES_MAX)
        for chunk in read_chunks(self._incoming):
            for line in cutter.feed(chunk):
                if not self._has_room():
                    return
                self.receive(line)
        self.receive(cutter.rest())

    def receive(self, line: bytes) -> None:
        """One line of the client."""
        message, refusal = parse_line(line, bytes_max=LINE_BYTES_MAX)
        if refusal:
            self._send_reply(refusal)
        elif message:
            with self._changed:
                if self._is_under_way(message):
                    self._send_reply(duplicate_id_reply(message))
                    return
                self._track_request(message)
                reply = self._hand_on(message) if self._hand_on else self._bootstrap.respond(message)
                if isinstance(reply, dict):
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
        """End the thread that writes; what is not out by now is dropped."""
        self._out.close()

    async def run(self, server: Server[Any], *, began: Callable[[], None] = lambda: None) -> None:
        """Be the transport of the library's server. Calls `began` when it has been handed all that waited."""
        import asyncio

        import anyio

        to_server, from_client = anyio.create_memory_object_stream["SessionMessage | Exception"]()
        to_client, from_server = anyio.create_memory_object_stream["SessionMessage"]()
        waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        async with to_server, from_server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._bring, waiting, to_server)
            tasks.start_soon(self._send, from_server)
            self._hand_over(waiting, asyncio.get_running_loop())
            began()
            await server.run(from_client, to_client, server.create_initialization_options())
            tasks.cancel_scope.cancel()

    # -- hearing --

    def _track_request(self, message: dict[str, Any]) -> None:
        """Keep count of who waits for an answer. The lock is held."""
        if "method" not in message:
            return
        if "id" in message:
            self._unanswered.append((message["id"], message["method"]))
        elif message["method"] == "notifications/cancelled":
            withdrawn = str((message.get("params") or {}).get("requestId"))  # some clients turn 7 into "7" here
            self._settle(lambda ident: str(ident) == withdrawn)

    def _is_under_way(self, message: dict[str, Any]) -> bool:
        """Whether this is a request with the id of another one that is not answered yet. The lock is held."""
        if "method" not in message or "id" not in message:
            return False
        return any(ident == message["id"] for ident, _ in self._unanswered)

    def _settle(self, is_it: Callable[[str | int], bool]) -> None:
        """The newest such request is answered, or will never be. The lock is held."""
        for place in reversed(range(len(self._unanswered))):
            if is_it(self._unanswered[place][0]):
                del self._unanswered[place]
                self._changed.notify_all()
                return

    def _is_settled(self) -> bool:
        return all(method == ENDLESS for _, method in self._unanswered)

    def _has_room(self) -> bool:
        """Wait until there is room for one more request; False when the client is gone before."""
        with self._changed:
            while self._is_full():
                self._changed.wait(LOOK_S)
                if self._is_full() and has_hung_up(self._incoming):
                    return False
        return True

    def _is_full(self) -> bool:
        under_way = len(self._unanswered) + self._bootstrap.waiting
        return under_way >= UNANSWERED_MAX or self._out.is_full

    def _send_reply(self, reply: dict[str, Any]) -> None:
        self._out.put(json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    # -- the library --

    def _hand_over(self, waiting: asyncio.Queue[dict[str, Any]], loop: asyncio.AbstractEventLoop) -> None:
        """All that waits, and from now on every message as it is heard."""
        with self._changed:
            for message in self._bootstrap.hand_over():
                waiting.put_nowait(message)
            self._hand_on = partial(loop.call_soon_threadsafe, waiting.put_nowait)

    async def _bring(
        self, waiting: asyncio.Queue[dict[str, Any]], to_server: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Pass the messages of the client to the library."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        while True:
            message = await waiting.get()
            try:
                spoken = jsonrpc_message_adapter.validate_python(message, by_name=False)
            except ValueError as error:  # `parse_line` refuses such messages; the client must get a reply all the same
                await to_server.send(error)
            else:
                await to_server.send(SessionMessage(spoken))

    async def _send(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Pass the messages of the library to the client, except replies that it already has."""
        from anyio import to_thread

        async for said in from_server:
            message = said.message
            reply_id = None if hasattr(message, "method") else getattr(message, "id", None)
            if reply_id is not None and self._bootstrap.is_repeat(reply_id):
                continue
            if self._out.is_full:
                await to_thread.run_sync(self._out.wait_for_room, abandon_on_cancel=True)
            self._out.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            if reply_id is not None:
                with self._changed:
                    self._settle(partial(eq, reply_id))
