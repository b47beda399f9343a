"""Fuzz tests of what comes over the wire: HTTP heads, JSON-RPC over HTTP, JSON-RPC lines.

Whatever is sent, a client gets one well-formed reply or a clean end, soon, and the log has no error of ours.
`CTX_TEST_FUZZ_S=600 pytest tests/security/test_fuzz_wire.py` goes on for so many seconds a test.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from context_engine.server import connections
from context_engine.server.stdio_session import StdioSession
from context_engine.server.stdio_streams import StdioPipes
from tests.security.test_security_http import HEAD, OPENING, PATIENCE_S, POSTED, all_of, place
from tests.support.serving import logged_errors, serving

FUZZ_S = float(os.environ.get("CTX_TEST_FUZZ_S", "0"))
pytestmark = pytest.mark.abuse
QUICK = settings(
    max_examples=200 if FUZZ_S else 60,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
CALL = {
    "jsonrpc": "2.0",
    "id": 5,
    "method": "tools/call",
    "params": {"name": "find_symbol", "arguments": {"name": "x"}},
}
LIST = {"jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": {}}

# -- what is sent -------------------------------------------------------------------------------------------------

NAMES = some.sampled_from(
    b"host|origin|authorization|content-length|transfer-encoding|content-type|accept|expect|connection|upgrade|"
    b"mcp-session-id|mcp-protocol-version|mcp-method|x-a||a b|\x00|HOST|te|trailer|mcp-param-name".split(b"|")
)
VALUES = some.sampled_from(
    b"localhost|http://localhost|0|5|-1|1e3|99999999999999999999|chunked|gzip, chunked|application/json|*/*|close|"
    b"100-continue|keep-alive|websocket|2026-07-28|2025-06-18|text/event-stream|Bearer \xff|||\x00|a\x0bb".split(b"|")
) | some.binary(max_size=12)
LINES = some.builds(
    lambda name, between, value: name + between + value, NAMES, some.sampled_from([b": ", b":", b" :", b""]), VALUES
)
ENDS = some.sampled_from([b"\r\n"] * 8 + [b"\n", b"\r", b"\r\n "])
REQUESTS = some.sampled_from(
    b"GET /health HTTP/1.1|POST /mcp HTTP/1.1|GET /mcp HTTP/1.1|DELETE /mcp HTTP/1.1|OPTIONS * HTTP/1.1|HEAD /health HTTP/1.0|"
    b"GET http://localhost/health HTTP/1.1|GET  /health HTTP/1.1|get /health http/1.1|CONNECT a:1 HTTP/1.1|GET /%ff%00 HTTP/1.1|"
    b"PRI * HTTP/2.0|\x16\x03\x01".split(b"|")
) | some.binary(max_size=30)


@some.composite
def heads(draw: some.DrawFn) -> bytes:
    """Something like a request: mostly well-formed, never for long."""
    parts = [draw(REQUESTS), draw(ENDS)]
    if draw(some.booleans()):
        parts += [b"Host: localhost", draw(ENDS)]
    for line in draw(some.lists(LINES, max_size=6)):
        parts += [line, draw(ENDS)]
    return b"".join([*parts, b"\r\n", draw(some.binary(max_size=20))])


@some.composite
def messages(draw: some.DrawFn) -> bytes:
    """Something like a message: a good one with bytes taken out, put in or doubled, or any JSON in its places."""
    value = draw(some.sampled_from([CALL, LIST, OPENING]))
    places = some.sampled_from(["id", "method", "params", "jsonrpc", "result", "error", "_meta"])
    anything = some.recursive(
        some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
        lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
        max_leaves=6,
    )
    data = json.dumps(value | draw(some.dictionaries(places, anything, max_size=2))).encode()
    for _ in range(draw(some.integers(0, 3))):
        at, length = draw(some.integers(0, len(data))), draw(some.integers(0, 6))
        new = draw(
            some.binary(max_size=3) | some.sampled_from([data[at : at + length] * 3, b"{", b"[", b'"', b"\\u", b"NaN"])
        )
        data = data[:at] + new + data[at + length :]
    return data.replace(b"\n", b" ")


# -- what must come back ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base() -> Generator[str]:
    """A server."""
    with serving() as base:
        yield base


@pytest.fixture
def hasty() -> Generator[str]:
    """A server that waits for nobody: a request that is not whole by now will not be."""
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in (("HEAD_S", 0.05), ("BODY_S", 0.05), ("KEEP_ALIVE_S", 0)):
            patch.setattr(connections, name, seconds)
        with serving() as base:
            yield base


@pytest.fixture
def errors() -> Iterator[list[str]]:
    with logged_errors() as seen:
        yield seen


def fuzz(check: Callable[[], None]) -> None:
    """Once, or for as long as was asked for."""
    until = time.monotonic() + FUZZ_S
    check()
    while time.monotonic() < until:
        check()


def answered(base: str, data: bytes) -> bytes:
    """What comes back until the server closes."""
    with socket.create_connection(place(base), timeout=PATIENCE_S) as connection:
        try:
            connection.sendall(data)
            return all_of(connection)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise AssertionError(f"no reply to {data!r}") from error
            return b""  # reset: what we sent was not read to its end


def replies_in(data: bytes) -> list[int]:
    """The statuses of the replies that some bytes are; each has to be whole."""
    statuses = []
    while data:
        found = re.match(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[!-9;-~]+: [^\r\n]*\r\n)*)\r\n", data)
        assert found, data
        statuses.append(int(found[1]))
        data = data[found.end() :]
        size = re.search(rb"(?i)content-length: (\d+)", found[2])
        if size is None:  # in chunks, or to the end of the connection
            return statuses
        data = data[int(size[1]) :] if found[1] != b"304" else data
    return statuses


def test_any_head_gets_well_formed_replies_or_a_clean_end(
    hasty: str, base: str, errors: list[str], tried: Callable[..., None]
) -> None:
    @QUICK
    @given(heads())
    def check(data: bytes) -> None:
        tried()
        got = answered(hasty, data)
        if data.startswith(b"HEAD"):
            assert got.startswith((b"HTTP/1.1 ", b"")), got
        else:
            assert all(status < 500 for status in replies_in(got)), (data, got)
        assert errors == [], data

    fuzz(check)
    assert answered(base, HEAD + b"\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("version", ["", "2026-07-28"])
def test_any_message_over_http_gets_a_reply_in_json_and_no_error_of_ours(
    base: str, version: str, errors: list[str], tried: Callable[..., None]
) -> None:
    lines = [f"{name}: {value}" for name, value in POSTED.items()]
    lines += [f"mcp-protocol-version: {version}"] if version else []
    head = "\r\n".join(["POST /mcp HTTP/1.1", "Host: localhost", "Connection: close", *lines])

    @QUICK
    @given(messages())
    def check(body: bytes) -> None:
        tried()
        with socket.create_connection(place(base), timeout=PATIENCE_S) as connection:
            connection.sendall(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            got = all_of(connection)
        (status,) = replies_in(got)
        assert status < 500, (body, got)
        content = got.partition(b"\r\n\r\n")[2]
        if content and b"application/json" in got.partition(b"\r\n\r\n")[0].lower():
            assert json.loads(content)["jsonrpc"] == "2.0"
        assert errors == [], body

    fuzz(check)


class AnswersAll:
    is_full = False

    def __init__(self, session: StdioSession) -> None:
        self._session = session

    def send(self, message: dict[str, object]) -> None:
        reply = {"jsonrpc": "2.0", "id": message.get("id"), "result": {}}
        self._session.deliver(json.dumps(reply).encode(), reply_id=reply["id"])


def test_any_line_over_stdio_gets_at_most_one_reply_and_the_next_one_its_own(tried: Callable[..., None]) -> None:
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    conversation = StdioSession(StdioPipes(nothing, writing))
    conversation.attach(AnswersAll(conversation))
    ping = json.dumps({"jsonrpc": "2.0", "id": "our own", "method": "ping"}).encode()
    rest = b""

    def heard_back() -> list[dict[str, object]]:
        """The replies up to that of the ping."""
        nonlocal rest
        replies: list[dict[str, object]] = []
        while not replies or replies[-1].get("id") != "our own":
            while b"\n" not in rest:
                rest += os.read(reading, 65_536)
            line, _, rest = rest.partition(b"\n")
            replies.append(json.loads(line))
        return replies

    @QUICK
    @given(messages() | some.binary(max_size=40))
    def check(line: bytes) -> None:
        tried()
        conversation.receive(line)
        conversation.receive(ping)
        replies = heard_back()
        assert len(replies) <= 2
        assert all(each["jsonrpc"] == "2.0" and ("error" in each) != ("result" in each) for each in replies)

    try:
        fuzz(check)
    finally:
        conversation.close()
        for each in (reading, writing, nothing):
            os.close(each)
