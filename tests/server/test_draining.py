"""How an HTTP server ends: nobody new is let in, what runs is finished within a limit, and open streams hold nobody up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import httpx2
import pytest

from context_engine.server import connections, http_server, mcp_server
from context_engine.server.authentication import AllowedHosts, RequestGuard
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.shutdown import ShutdownCoordinator
from tests.support.sharing import PATIENCE_S, message, request
from tests.support.tools_stand_in import StandIn
from tests.support.waiting import until

HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
LONG = request("tools/call", {"name": "index_workspace", "arguments": {}})


class States:
    """Projects in these states."""

    def __init__(self, states: Mapping[str, str]) -> None:
        self._states = states

    def states(self) -> Mapping[str, str]:
        return self._states

    def open_engines(self) -> list[Any]:
        return []


class Server:
    """A server in a thread of this process, told to end as a signal would tell it."""

    def __init__(self, engine: StandIn, drain_s: float, states: States, notice_s: float = 0.0) -> None:
        gate = ToolDispatcher(lambda _: engine)  # ty: ignore[invalid-argument-type] - a stand-in
        self.life = QuietCoordinator(lambda: None)
        server = mcp_server.build_server(gate, running=self.life)
        application = http_server.create_application(
            server, gate, cast("Any", states), RequestGuard(AllowedHosts("127.0.0.1")), shutdown=self.life
        )
        self._hosted = http_server.HttpServer(
            application, server, shutdown=self.life, timeout_s=drain_s, delay_s=notice_s
        )
        listening = connections.bind_socket("127.0.0.1", 0)
        self.base = http_server.endpoint_url(listening).removesuffix("/mcp")
        self.thread = threading.Thread(target=self._hosted.run, kwargs={"sockets": [listening]})
        self.thread.start()

    def end(self) -> None:
        self._hosted.should_exit = True


class QuietCoordinator(ShutdownCoordinator):
    """A life that cannot end this process."""

    def shut_down(self, status: int = 0) -> None:
        """Not here."""


@contextmanager
def served(
    engine: StandIn | None = None,
    *,
    drain_s: float = 0.6,
    states: Mapping[str, str] | None = None,
    notice_s: float = 0.0,
) -> Generator[Server]:
    server = Server(engine or StandIn(), drain_s, States(states or {"till": "open"}), notice_s)
    try:
        yield server
    finally:
        server.end()
        server.thread.join(20)
        assert not server.thread.is_alive()


def in_a_session(server: Server) -> dict[str, str]:
    """The headers of a session that is open."""
    reply = httpx2.post(f"{server.base}/mcp", json=request("initialize", OPENING), headers=HEADERS)
    return HEADERS | {"mcp-session-id": reply.headers["mcp-session-id"]}


def is_listening(server: Server) -> bool:
    """Whether somebody new is let in."""
    try:
        return httpx2.get(f"{server.base}/health").status_code > 0
    except httpx2.TransportError:
        return False


def begun(server: Server, replies: list[Any]) -> threading.Thread:
    """A call that is under way."""
    headers = in_a_session(server)

    def ask() -> None:
        try:
            replies.append(httpx2.post(f"{server.base}/mcp", json=LONG, headers=headers, timeout=30))
        except httpx2.TransportError as error:
            replies.append(error)

    calling = threading.Thread(target=ask)
    assert server.life.wait_until_idle(PATIENCE_S), "the request that opened the session winds up after its reply"
    calling.start()
    while server.life.wait_until_idle(0):
        pass
    return calling


def test_a_call_under_way_is_answered_though_the_server_is_told_to_end() -> None:
    hold, replies = threading.Event(), []
    with served(StandIn(hold=hold), drain_s=4 * PATIENCE_S) as server:
        calling = begun(server, replies)
        server.end()
        until(lambda: not is_listening(server))
        assert calling.is_alive()
        hold.set()
        calling.join(PATIENCE_S)
        server.thread.join(PATIENCE_S)
        assert not server.thread.is_alive(), "nobody waits for what is left of the time"
    assert replies[0].status_code == 200
    assert "result" in message(replies[0])


def test_a_stream_on_which_nothing_is_answered_holds_nobody_up() -> None:
    with served(drain_s=4 * PATIENCE_S) as server:
        headers = in_a_session(server)
        with httpx2.stream("GET", f"{server.base}/mcp", headers=headers, timeout=30) as stream:
            assert stream.status_code == 200
            server.end()
            server.thread.join(PATIENCE_S)
            assert not server.thread.is_alive()


def test_a_call_that_takes_longer_than_it_may_is_given_up() -> None:
    hold, replies = threading.Event(), []
    try:
        with served(StandIn(hold=hold), drain_s=0.1) as server:
            calling = begun(server, replies)
            server.end()
            server.thread.join(PATIENCE_S)
            assert not server.thread.is_alive()
            calling.join(PATIENCE_S)
    finally:
        hold.set()
    assert not (isinstance(replies[0], httpx2.Response) and "result" in message(replies[0]))


def test_a_server_that_gives_notice_is_not_ready_and_answers_all_the_same() -> None:
    with served(notice_s=2) as server:
        headers = in_a_session(server)
        assert httpx2.get(f"{server.base}/ready").status_code == 200
        server.end()
        while httpx2.get(f"{server.base}/ready").status_code == 200:
            pass
        assert "result" in message(httpx2.post(f"{server.base}/mcp", json=request("tools/list"), headers=headers))


def test_who_was_let_in_just_before_the_end_is_heard() -> None:
    with (
        served(drain_s=20) as server,
        socket.create_connection(("127.0.0.1", int(server.base.rpartition(":")[2]))) as early,
    ):
        httpx2.get(f"{server.base}/health")  # the connection before this one is in
        server.end()
        until(lambda: not is_listening(server))
        server.thread.join(0.5)  # a busy client is slow to send
        early.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        reply = early.recv(1000).lower()
    assert reply.startswith(b"http/1.1 200")
    assert b"connection: close" in reply, "nobody should send a second request after it"


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ({"till": "open"}, 200),
        ({"till": "open", "web": "failed"}, 200),
        ({"till": "open", "web": "opening"}, 503),
        ({"till": "failed"}, 503),
    ],
)
def test_a_server_is_ready_once_all_that_will_open_is_open(states: dict[str, str], status: int) -> None:
    with served(states=states) as server:
        reply = httpx2.get(f"{server.base}/ready")
    assert (reply.status_code, reply.json()["ready"]) == (status, status == 200)
    assert not any(name in reply.text for name in states)
