"""The HTTP server under clients that say nothing, too much, or what two readers would read differently.

Real sockets.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from context_engine.server import connections, http_server
from context_engine.server.authentication import AllowedHosts, RequestGuard
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.framing import INVALID_REQUEST, PARSE_ERROR
from context_engine.server.server_log import LINES_MAX, LoggingBridge
from context_engine.team.shared_server import Authenticator
from tests.e2e.test_random_calls import CALLS, check, odd_calls
from tests.server.test_stdio_session import Peer, ToldSession
from tests.support import preloaded
from tests.support.serving import logged_errors, serving
from tests.support.tools_stand_in import StandIn
from tests.support.trees import tree
from tests.support.waiting import until

HERE = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
pytestmark = pytest.mark.abuse
CHILD_HEAD_S = 60.0
"""What `child` waits for the head of a request: longer than a busy machine needs to answer another one."""
POSTED = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
NEWER = {"mcp-protocol-version": "2026-07-28"}
OPENING = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}


@pytest.fixture(scope="module")
def base() -> Generator[str]:
    """One server for whoever does not need one of their own."""
    with serving() as base:
        yield base


def place(base: str) -> tuple[str, int]:
    host, port = base.removeprefix("http://").rsplit(":", 1)
    return host, int(port)


@contextmanager
def half_open(
    base: str, count: int, said: bytes = b"GET /health HTTP/1.1\r\nHost: lo"
) -> Generator[list[socket.socket]]:
    """So many connections whose request does not end."""
    opened = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection(place(base), timeout=PATIENCE_S))
            opened[-1].sendall(said)
        yield opened
    finally:
        for each in opened:
            each.close()


def sent(base: str, data: bytes) -> bytes:
    """Everything that comes back for some bytes, until the server closes."""
    with socket.create_connection(place(base), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        return all_of(connection)


def all_of(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def sent_before_closed(connection: socket.socket, data: bytes, bytes_max: int) -> int:
    """How many bytes could be sent until the server closed, at most `bytes_max`."""
    count = 0
    with suppress(ConnectionError):
        while count < bytes_max:
            connection.sendall(data)
            count += len(data)
    return count


def post(base: str, message: Any, **headers: str) -> httpx2.Response:
    content = message if isinstance(message, bytes) else json.dumps(message).encode()
    return httpx2.post(f"{base}/mcp", content=content, headers=POSTED | headers, timeout=PATIENCE_S)


def opened_session(base: str, **headers: str) -> str:
    reply = post(base, OPENING, **headers)
    assert reply.status_code == 200, reply.text
    return reply.headers["mcp-session-id"]


# -- connections --------------------------------------------------------------------------------------------------


@pytest.fixture
def child(tmp_path: Path) -> Generator[tuple[str, Path, int]]:
    """A server in a process that may have 256 descriptors: its address, the file of its log, its number."""
    root, log = tree(tmp_path / "work", {"src/a.py": "def alpha(): ...\n"}), tmp_path / "log"
    start = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); sys.argv[0] = 'ctx'; "
    start += f"from context_engine.server import connections; connections.HEAD_S = {CHILD_HEAD_S}; "
    words = ["serve", "--root", str(root), "--http", "0", "--no-token"]
    env = os.environ | {"PYTHONPATH": str(HERE), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with log.open("wb") as out:
        process = preloaded.Popen(
            [sys.executable, "-c", start + "runpy.run_module('context_engine', run_name='__main__')", *words],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env,
        )  # fmt: skip
    try:
        found = until(lambda: re.search(r"serving (http://\S+)/mcp", log.read_text()) or process.poll() is not None)
        assert isinstance(found, re.Match), log.read_text()
        yield found[1], log, process.pid
    finally:
        process.kill()
        process.wait()


def descriptors(pid: int) -> int:
    """How many descriptors a process has, where the system says."""
    folder = Path(f"/proc/{pid}/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


@pytest.mark.skipif(sys.platform == "win32", reason="limits of descriptors are for POSIX")
def test_three_hundred_half_open_connections_on_256_descriptors_keep_nobody_out(
    child: tuple[str, Path, int], tried: Callable[..., None]
) -> None:
    base, log, pid = child
    tried(300)
    assert httpx2.get(f"{base}/health", timeout=PATIENCE_S).status_code == 200
    before = log.stat().st_size
    with half_open(base, 300):
        took = []
        for _ in range(5):
            began = time.monotonic()
            assert httpx2.get(f"{base}/health", timeout=PATIENCE_S).status_code == 200
            took.append(time.monotonic() - began)
        assert descriptors(pid) < 256
    assert min(took) < CHILD_HEAD_S / 4  # nobody had to wait for the others to be closed
    assert log.stat().st_size - before < 20_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux changes the limits of another process")
def test_a_server_without_a_free_descriptor_takes_one_from_a_connection_that_waits(
    child: tuple[str, Path, int],
) -> None:
    import resource

    base, log, pid = child
    assert httpx2.get(f"{base}/health", timeout=PATIENCE_S).status_code == 200
    before = log.stat().st_size
    in_use = descriptors(pid)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 12, 256))  # fewer than it believes
    began = time.monotonic()
    with half_open(base, 40):
        assert httpx2.get(f"{base}/health", timeout=PATIENCE_S).status_code == 200
    assert time.monotonic() - began < CHILD_HEAD_S  # by then they would have been closed anyway
    assert log.stat().st_size - before < 20_000


def test_a_request_that_does_not_come_whole_in_time_is_closed_and_hears_why(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    monkeypatch.setattr(connections, "BODY_S", 0.2)
    with half_open(base, 1) as (began,), half_open(base, 1, b"") as (silent,):
        assert all_of(began).startswith(b"HTTP/1.1 408 ")
        assert all_of(silent) == b""
    slow = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with half_open(base, 1, slow) as (body,):
        assert all_of(body) == b""


def test_bytes_that_keep_dripping_do_not_lengthen_the_time(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    with half_open(base, 1) as (connection,):
        connection.settimeout(0.02)
        until = time.monotonic() + PATIENCE_S
        got = b""
        while time.monotonic() < until:
            try:
                connection.sendall(b"c")
                got = connection.recv(100)
                break
            except TimeoutError:
                continue
            except OSError:  # closed between two bytes
                break
        assert time.monotonic() < until
        assert got[:13] in (b"", b"HTTP/1.1 408 ")


@pytest.mark.parametrize("path", ["/mcp", "/nothing"])
@pytest.mark.parametrize("size", [65_536, 1_000], ids=["large chunks", "small chunks"])
def test_a_body_without_an_end_is_refused_and_cut_off(base: str, path: str, size: int) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunks = (b"%x\r\n" % size + b" " * size + b"\r\n") * (65_536 // size)
    status = "404" if path == "/nothing" else "413"
    with socket.create_connection(place(base), timeout=PATIENCE_S) as connection:
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        heard: list[bytes] = []
        listening = threading.Thread(target=lambda: heard.append(all_of(connection)))
        listening.start()
        count = sent_before_closed(connection, chunks, 100 << 20)
        listening.join(PATIENCE_S)
    assert count < 40 << 20  # what the server reads, and what is in the buffers of the system
    assert heard[0].startswith(f"HTTP/1.1 {status} ".encode())


def test_a_body_that_pauses_without_an_end_is_closed_after_the_reply(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REST_S", 0.2)
    head = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection(place(base), timeout=PATIENCE_S) as connection:
        connection.sendall(head)
        assert all_of(connection).startswith(b"HTTP/1.1 404 ")
        assert sent_before_closed(connection, b" ", 8 << 20) < 8 << 20


def test_a_whole_body_of_a_request_that_is_refused_early_does_not_cost_the_reply(base: str) -> None:
    reply = httpx2.post(f"{base}/nothing", content=b" " * (4 << 20), timeout=PATIENCE_S)
    assert reply.status_code == 404


def test_where_no_more_may_be_open_the_longest_wait_makes_room() -> None:
    closed = []
    among = connections.Connections(limit=3)
    made: list[Any] = [_Waiting(number, closed) for number in range(5)]
    assert all(among.admit(each) for each in made[:3])
    among.answer(made[0])
    assert among.admit(made[3])
    assert closed == [1]
    among.answer(made[2])
    among.answer(made[3])
    assert not among.admit(made[4])
    among.leave(made[0])
    assert among.admit(made[4])
    assert len(among) == 3


class _Waiting:
    """Stands for a connection."""

    def __init__(self, number: int, closed: list[int]) -> None:
        self.transport = self
        self._number = number
        self._closed = closed

    def abort(self) -> None:
        self._closed.append(self._number)


def test_who_comes_when_all_connections_are_in_use_is_told_so(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 1)
    with serving() as small:
        session = opened_session(small)
        head = f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n"
        with half_open(small, 1, head.encode()) as (stream,):
            assert stream.recv(100).startswith(b"HTTP/1.1 200 ")
            with socket.create_connection(place(small), timeout=PATIENCE_S) as second:
                assert all_of(second).startswith(b"HTTP/1.1 503 ")


# -- heads --------------------------------------------------------------------------------------------------------

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("head", "status", "word"),
    [
        (HEAD.replace(b"\r\n", b"\n") + b"\n", 400, b"CR and LF"),
        (HEAD + b"X-One: a\nX-Two: b\r\n\r\n", 400, b"CR and LF"),
        (HEAD + b"X-One: a\rX-Two: b\r\n\r\n", 400, b"CR and LF"),
        (HEAD + b"Authorization: Bearer\r\n  folded\r\n\r\n", 400, b"one line"),
        (HEAD + b"X-One: a\r\n\tfolded\r\n\r\n", 400, b"one line"),
        (HEAD + b"Host: localhost\r\n\r\n", 400, b"host comes twice"),
        (HEAD + b"Origin: http://a\r\norigin: http://b\r\n\r\n", 400, b"origin comes twice"),
        (HEAD + b"Authorization: Bearer a\r\nAUTHORIZATION: Bearer b\r\n\r\n", 400, b"authorization comes twice"),
        (HEAD + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n", 400, b"content-length comes twice"),
        (HEAD + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, b"not both"),
        (HEAD + b"Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n\r\n", 400, b"mcp-session-id comes twice"),
        (HEAD + b"".join(b"X-%d: a\r\n" % number for number in range(101)) + b"\r\n", 431, b"at most 100 headers"),
        (HEAD + b"".join(b"X%d:\r\n" % number for number in range(10_000)) + b"\r\n", 431, b"at most"),
        (HEAD + b"X-Long: " + b"x" * 20_000 + b"\r\n\r\n", 431, b"at most"),
        (HEAD + b"X-Long: " + b"x" * 20_000, 431, b"at most"),
        (b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", 400, b"first line"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400, b"first line"),
        (b"GET /he\x00alth HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, b"Invalid"),
    ],
)
def test_a_head_that_two_servers_would_read_differently_is_refused(
    base: str, head: bytes, status: int, word: bytes
) -> None:
    reply = sent(base, head)
    assert reply.startswith(b"HTTP/1.1 %d " % status), reply
    assert word in reply
    assert reply.lower().count(b"http/1.1 ") == 1


def test_the_second_of_two_requests_at_once_is_looked_at_as_well(base: str) -> None:
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    reply = sent(base, whole + whole + whole.replace(b"\r\n", b"\n"))
    assert [each[:3] for each in reply.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"]
    posted = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"
    reply = sent(base, posted + whole.replace(b"\r\n", b"\n"))
    assert [each[:3] for each in reply.split(b"HTTP/1.1 ")[1:]] == [b"404", b"400"]


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("http://localhost:8931", "localhost:8931", True),
        ("http://LOCALHOST.:8931", "localhost:8931", True),
        ("http://[::1]:8931", "[::1]:8931", True),
        ("http://localhost", "localhost:80", True),
        ("https://ctx.example", "127.0.0.1:8931", True),
        ("https://ctx.example", "ctx.example", True),
        ("http://localhost:6274", "localhost:8931", False),
        ("http://127.0.0.1:8931", "localhost:8931", False),
        ("http://localhost:8931", "localhost", False),
        ("https://localhost", "localhost:80", False),
        ("https://evil.example", "127.0.0.1:8931", False),
        ("null", "127.0.0.1:8931", False),
    ],
)
def test_a_page_may_ask_only_the_server_that_it_came_from(origin: str, host: str, allowed: bool) -> None:
    guard = RequestGuard(AllowedHosts("127.0.0.1", others=("ctx.example",)))
    refusal = guard.find_refusal("/mcp", {"host": host, "origin": origin})
    assert (refusal is None) is allowed


# -- messages -----------------------------------------------------------------------------------------------------

ERAS = pytest.mark.parametrize("era", [{}, NEWER], ids=["legacy", "newer"])


@ERAS
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":-Infinity,"method":"ping"}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":1}}}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":' + b"7" * 101 + b',"method":"ping"}', PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 70 + b"1" + b"}" * 71, PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 3_000 + b"]" * 3_000 + b"}}", PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST),
    ],
)
def test_json_that_two_readers_would_read_differently_is_refused(
    base: str, era: dict[str, str], body: bytes, code: int
) -> None:
    reply = post(base, body, **era)
    assert reply.status_code == 400
    assert (reply.json()["id"], reply.json()["error"]["code"]) == (None, code)


@ERAS
def test_a_quarter_of_a_million_names_are_refused_at_once(base: str, era: dict[str, str]) -> None:
    names = ",".join(f'"n{number}":1' for number in range(250_000))
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"trace","arguments":{' + names + "}}}"
    began = time.process_time()
    reply = post(base, body.encode(), **era)
    assert reply.status_code == 400
    assert "at most 20,000 names" in reply.json()["error"]["message"]
    assert time.process_time() - began < 2.0


def test_more_arguments_than_any_tool_takes_are_refused_with_what_it_takes() -> None:
    gate = ToolDispatcher(lambda _: StandIn())  # ty: ignore[invalid-argument-type]
    from context_engine.tools import Call

    outcome = gate.call("trace", {f"n{number}": 1 for number in range(201)}, Call())
    assert outcome.error is not None
    assert outcome.error.code == "INVALID_ARGUMENT"
    assert "at most 200 arguments" in outcome.error.message


def test_a_second_request_with_the_id_of_one_under_way_gets_an_error_and_the_first_its_answer() -> None:
    hold = threading.Event()
    answers: queue.SimpleQueue[httpx2.Response] = queue.SimpleQueue()
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "index_workspace", "arguments": {}}}
    with serving(StandIn(hold=hold)) as base:
        session = {"mcp-session-id": opened_session(base)}
        asking = [threading.Thread(target=lambda: answers.put(post(base, call, **session))) for _ in range(2)]
        for each in asking:
            each.start()
        try:
            refusals = [answers.get(timeout=PATIENCE_S)]  # whichever came second; the other waits for `hold`
            refusals += [post(base, call | {"id": again}, **session) for again in (7, "7")]
        finally:
            hold.set()
        for refused, ident in zip(refusals, (7, 7, "7"), strict=True):
            assert refused.status_code == 400
            assert refused.json()["id"] == ident
            assert refused.json()["error"]["code"] == INVALID_REQUEST
            assert "7" in refused.json()["error"]["message"]
        answered = answers.get(timeout=PATIENCE_S)
        assert answered.status_code == 200
        assert '"id":7' in answered.text
        until(lambda: post(base, call, **session).status_code == 200)  # the id is free again
        for each in asking:
            each.join(PATIENCE_S)


def test_in_the_newer_era_each_post_is_a_conversation_of_its_own_and_both_are_answered(base: str) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    ask = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}}
    headers = {**NEWER, "mcp-method": "tools/list"}
    answers: list[httpx2.Response] = []
    asking = [threading.Thread(target=lambda: answers.append(post(base, ask, **headers))) for _ in range(2)]
    for each in asking:
        each.start()
    for each in asking:
        each.join(PATIENCE_S)
    assert [each.status_code for each in answers] == [200, 200]


def test_over_stdio_a_second_request_with_the_id_of_one_under_way_gets_an_error() -> None:
    one, peer = ToldSession(), Peer()
    one.session.attach(peer)
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "trace", "arguments": {}}}
    one.say(*(call | {"id": ident} for ident in (7, 7, 8)))
    (reply,) = one.end()
    assert (reply["id"], reply["error"]["code"]) == (7, INVALID_REQUEST)
    assert "7" in reply["error"]["message"]
    assert [each["id"] for each in peer.saw] == [7, 8]


@pytest.mark.slow
@pytest.mark.parametrize("era", [{}, NEWER], ids=["legacy", "newer"])
def test_no_value_of_an_argument_over_http_ends_in_an_error_of_ours(
    child: tuple[str, Path, int], era: dict[str, str], tried: Callable[..., None]
) -> None:
    base, log, _ = child
    headers = {"mcp-session-id": opened_session(base)} if not era else {}
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    calls = odd_calls()
    for number, (name, arguments) in enumerate(random.Random(413).sample(calls, min(CALLS // 4, len(calls)))):
        tried()
        params = {"name": name, "arguments": arguments} | ({"_meta": meta} if era else {})
        named = era and era | {"mcp-method": "tools/call", "mcp-name": name}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        reply = post(base, message, **headers, **named)
        told = reply.text.partition("data: ")[2] if reply.text.startswith("event:") else reply.text
        assert json.loads(told)["id"] == number, told
        check(json.loads(told))
    assert "Traceback" not in log.read_text()


# -- sessions -----------------------------------------------------------------------------------------------------


def as_named(app: Any) -> Any:
    """An application that takes the header `x-token` for the token of a team."""

    async def named(scope: Any, receive: Any, send: Any) -> None:
        known = dict(scope.get("headers", ())).get(b"x-token", b"").decode()
        user = {"user": AuthenticatedUser(AccessToken(token="", client_id=known, scopes=[]))}
        await app({**scope, **user} if known else scope, receive, send)

    return named


def is_open(base: str, session: str, **headers: str) -> bool:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    status = post(base, ping, **{"mcp-session-id": session}, **headers).status_code
    assert status in (200, 404)
    return status == 200


def test_a_token_at_its_number_of_sessions_loses_its_own_oldest_and_nobody_elses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "SESSIONS_A_TOKEN_MAX", 3)
    one, two = {"x-token": "one"}, {"x-token": "two"}
    with serving(wrap=as_named) as base:
        other = opened_session(base, **two)
        first, second, third, fourth = (opened_session(base, **one) for _ in range(4))
        assert [is_open(base, each, **one) for each in (first, second, third, fourth)] == [False, True, True, True]
        assert is_open(base, other, **two)
        opened_session(base, **one)
        assert not is_open(base, second, **one)  # by now the one that was not used for longest


def test_clients_without_a_token_share_the_bound_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SESSIONS_A_TOKEN_MAX", 3)
    with serving() as base:
        opened = [opened_session(base) for _ in range(4)]
        assert [is_open(base, session) for session in opened] == [False, True, True, True]


def test_a_full_server_takes_a_session_from_the_token_that_has_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SESSIONS_MAX", 4)
    greedy, late = {"x-token": "greedy"}, {"x-token": "late"}
    with serving(wrap=as_named) as base:
        held = [opened_session(base, **greedy) for _ in range(4)]
        assert is_open(base, opened_session(base, **late), **late)
        assert [is_open(base, each, **greedy) for each in held] == [False, True, True, True]


def test_no_session_ends_while_a_request_of_it_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SESSIONS_MAX", 1)
    with serving() as base:
        session = opened_session(base)
        head = f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n"
        with half_open(base, 1, head.encode()) as (stream,):
            assert stream.recv(100).startswith(b"HTTP/1.1 200 ")
            refused = post(base, OPENING)
            assert refused.status_code == 503
            assert "too many sessions" in refused.json()["error"]["message"]
        until(lambda: post(base, OPENING).status_code == 200)


# -- the log ------------------------------------------------------------------------------------------------------


def test_ten_thousand_warnings_of_a_library_are_a_few_lines_and_a_number() -> None:
    lines: list[dict[str, Any]] = []
    now = [0.0]
    logger = logging.Logger("library")
    logger.addHandler(LoggingBridge(lines.append, clock=lambda: now[0]))
    for moment in (0.0, 61.0):
        now[0] = moment
        for number in range(10_000):
            logger.warning("Invalid HTTP request %d", number)
    assert len(lines) == 2 * LINES_MAX
    assert lines[LINES_MAX]["left_out"] == 10_000 - LINES_MAX


def test_refusals_of_one_client_are_a_few_lines_and_those_of_another_are_still_seen() -> None:
    lines: list[dict[str, Any]] = []

    class Nobody:
        def find_grant(self, _: str) -> None:
            return None

    doorman = Authenticator(cast("Any", Nobody()), log=lines.append, clock=lambda: 0.0)
    for _ in range(5_000):
        assert doorman.authenticate("/mcp", {}, "192.0.2.1")
    assert doorman.authenticate("/mcp", {}, "192.0.2.2")
    assert [each["from"] for each in lines] == ["192.0.2.1"] * LINES_MAX + ["192.0.2.2"]


def test_clients_that_go_in_the_middle_leave_no_error_behind(base: str) -> None:
    posted = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with logged_errors() as errors:
        for said in (b"", b"GET /hea", posted):
            with half_open(base, 20, said):
                pass
        assert httpx2.get(f"{base}/health", timeout=PATIENCE_S).status_code == 200
    assert errors == []
