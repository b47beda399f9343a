"""A session over pipes: nothing is lost or comes twice, whenever what answers begins and whenever it goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from context_engine.server.dispatcher import ToolDispatcher, may_write
from context_engine.server.projects import Projects
from context_engine.server.serve import serve_session
from context_engine.server.shutdown import RunningCalls
from context_engine.server.stdio_session import StdioSession
from context_engine.server.stdio_streams import StdioPipes
from tests.support.tools_stand_in import StandIn

Message = dict[str, Any]
MODERN = MODERN_PROTOCOL_VERSIONS[-1]
HERE = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
LOGIN = {"name": "find_symbol", "arguments": {"name": "login"}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(method: str, params: Any = None, ident: Any = 1) -> Message:
    return {"jsonrpc": "2.0", "id": ident, "method": method} | ({} if params is None else {"params": params})


def opening(version: str = "2025-06-18", ident: Any = 1, **more: Any) -> Message:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    return request("initialize", params | more, ident)


def enveloped(method: str, ident: Any = 1, **params: Any) -> Message:
    own = {"protocolVersion": MODERN, "clientInfo": {"name": "t", "version": "0"}, "clientCapabilities": {}}
    envelope = {f"io.modelcontextprotocol/{key}": value for key, value in own.items()}
    return request(method, {**params, "_meta": envelope}, ident)


def cancelled(ident: Any) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ident}}


class PipedSession:
    """A session over real pipes, which a test speaks to as a client."""

    def __init__(self) -> None:
        incoming, self._to_server = os.pipe()
        from_server, outgoing = os.pipe()
        self._own = [incoming, outgoing]
        self.session = StdioSession(StdioPipes(incoming, outgoing))
        self._lines = os.fdopen(from_server, encoding="utf-8", newline="\n")
        self._threads: list[threading.Thread] = []
        self._start(self.session.read_messages)

    def serve(self, engine: Any = None, projects: Projects | None = None) -> None:
        """Answer with the protocol library from now on, as `ctx serve` does."""
        found: Any = engine or StandIn()
        known = projects or Projects(["/nowhere"], log=lambda line: None, follow=False)
        dispatcher = ToolDispatcher(lambda _: found)
        self._start(
            lambda: serve_session(
                *(self.session, known, dispatcher),
                running=RunningCalls(),
                ends_with_input=True,
            )
        )

    def say(self, *messages: Message) -> None:
        for message in messages:
            os.write(self._to_server, json.dumps(message).encode() + b"\n")

    def hear(self) -> Message:
        return json.loads(self._lines.readline())

    def end(self) -> None:
        self.session.finish(PATIENCE_S)
        os.close(self._to_server)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self.session.close()
        for descriptor in self._own:
            os.close(descriptor)
        self._lines.close()

    def _start(self, work: Callable[[], object]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()


# -- the library ------------------------------------------------------------------------------------------------------

OLDER = [
    opening(ident=0),
    INITIALIZED,
    request("tools/list", {"_meta": {"progressToken": 0}}, 1),
    request("tools/call", LOGIN, "two"),
    request("ping", ident=3),
    request("no/such/method", ident=5),
    request("tools/call", {"name": "read_file", "arguments": {"path": "missing.py"}}, 6),
]
NEWER = [
    enveloped("server/discover", 0),
    enveloped("tools/list", 1),
    enveloped("tools/call", 2, **LOGIN),
    opening(ident=3),  # refused: the first request decided for the newer protocol
    request("tools/list", ident=5),
]


@pytest.mark.parametrize("script", [OLDER, NEWER], ids=["older", "newer"])
def test_whenever_the_library_is_loaded_the_client_reads_the_same(script: list[Message]) -> None:
    def converse(before: int) -> list[str]:
        one = PipedSession()
        one.say(*script[:before])
        one.serve()
        one.say(*script[before:])
        replies = [one.hear() for message in script if "id" in message]
        one.end()
        return sorted(json.dumps(reply) for reply in replies)

    usual = converse(0)
    assert [converse(before) for before in (1, 3, len(script))] == [usual] * 3


def test_a_canceled_call_is_not_answered_and_its_tool_learns_of_it() -> None:
    engine = StandIn(hold=threading.Event())
    one = PipedSession()
    one.serve(engine)
    params = {"name": "index_workspace", "arguments": {}, "_meta": {"progressToken": "mine"}}
    one.say(opening(ident=0), INITIALIZED, request("tools/call", params, 7))
    assert one.hear()["id"] == 0
    assert one.hear()["method"] == "notifications/progress", "it has begun"
    one.say(cancelled(7))
    assert engine.cancelled.wait(PATIENCE_S)
    one.say(request("ping", ident=8))
    assert [ident for ident in iter(lambda: one.hear().get("id"), 8) if ident] == []
    one.end()


# -- a daemon that goes -----------------------------------------------------------------------------------------------


class Peer:
    """Keeps what it is sent."""

    is_full = False

    def __init__(self) -> None:
        self.saw: list[Message] = []

    def send(self, message: Message) -> None:
        self.saw.append(message)


class ToldSession:
    """A session whose messages a test hands over itself, without a thread that reads."""

    def __init__(self) -> None:
        self._nothing = os.open(os.devnull, os.O_RDONLY)
        reading, self._writing = os.pipe()
        self._lines = os.fdopen(reading, encoding="utf-8")
        self.session = StdioSession(StdioPipes(self._nothing, self._writing))

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.session.receive(json.dumps(message).encode())

    def answer(self, *idents: Any) -> None:
        for ident in idents:
            reply = {"jsonrpc": "2.0", "id": ident, "result": {}}
            self.session.deliver(json.dumps(reply).encode(), reply_id=ident)

    def end(self) -> list[Message]:
        """Return what the client has read."""
        self.session._out.close(PATIENCE_S)
        os.close(self._writing)
        os.close(self._nothing)
        with self._lines:
            return [json.loads(line) for line in self._lines]


def writes(message: Message) -> bool:
    return message["method"] == "tools/call" and may_write(message["params"])


def test_the_next_peer_gets_the_opening_again_and_what_only_read_and_the_client_one_reply_to_each() -> None:
    one, daemon, library = ToldSession(), Peer(), Peer()
    one.say(opening(ident=0))
    one.session.attach(daemon)
    write = {"name": "write_file", "arguments": {"path": "a", "content": ""}}
    calls = [request("tools/call", LOGIN, 2), request("tools/call", write, 3), request("tools/list", ident=4)]
    one.say(INITIALIZED, *calls)
    one.answer(0, 4)
    one.session.detach(writes)
    one.say(request("ping", ident=5))
    one.session.attach(library)
    (replayed, *rest) = library.saw
    assert replayed == opening(ident=replayed["id"])
    assert replayed["id"] not in (0, 2, 3, 4, 5)
    assert rest == [INITIALIZED, calls[0], request("ping", ident=5)]
    one.answer(replayed["id"], 2, 5)
    heard = one.end()
    assert [message["id"] for message in heard] == [0, 4, 3, 2, 5]
    assert "write_file, which may be done or not" in heard[2]["error"]["message"]


def test_an_opening_without_an_answer_is_sent_again_under_its_own_id() -> None:
    one, library = ToldSession(), Peer()
    one.session.attach(Peer())
    one.say(opening(ident=0), INITIALIZED, request("tools/list", ident=1))
    one.session.detach(writes)
    one.session.attach(library)
    assert library.saw == [opening(ident=0), INITIALIZED, request("tools/list", ident=1)]
    one.end()


def test_the_answer_to_a_question_of_a_daemon_that_has_gone_reaches_nobody() -> None:
    one, library = ToldSession(), Peer()
    one.session.attach(Peer())
    one.session.deliver(json.dumps(request("roots/list", ident=1)).encode(), question_id=1)
    one.session.detach(writes)
    one.session.attach(library)
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}
    one.say(answer)
    assert library.saw == []
    one.say(answer)
    assert library.saw == [answer], "the second one answers a question of the library"
    one.end()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (LOGIN, False),
        ({"name": "write_file", "arguments": {}}, True),
        ({"name": "call_tool", "arguments": {"name": "write_file", "arguments": {}}}, True),
        ({"name": "call_tool", "arguments": {"name": "get_file", "arguments": {}}}, False),
        ({"name": "no_such_tool"}, False),
        ({"name": ["a", "list"]}, False),
        ({}, False),
    ],
)
def test_a_call_may_write_as_the_hints_of_its_tool_say(call: Message, expected: bool) -> None:
    assert may_write(call) is expected


SAID = some.lists(
    some.builds(request, some.sampled_from(["ping", "tools/list"]), some.just({}), some.integers(0, 4))
    | some.builds(cancelled, some.integers(0, 4) | some.sampled_from(["0", "1"])),
    max_size=9,
)


@given(SAID, some.integers(0, 9), some.integers(0, 9), some.sets(some.integers(0, 4)))
def test_each_open_request_reaches_the_last_peer_once_in_order(
    said: list[Message], begins: int, goes: int, answered: set[int]
) -> None:
    one, daemon, library = ToldSession(), Peer(), Peer()
    one.say(*said[:begins])
    one.session.attach(daemon)
    one.say(*said[begins : begins + goes])
    seen = [message["id"] for message in daemon.saw if "id" in message]
    one.answer(*answered.intersection(seen))
    one.session.detach(writes)
    one.say(*said[begins + goes :])
    one.session.attach(library)
    again = [message["id"] for message in library.saw if "id" in message]
    replies = [message["id"] for message in one.end() if "result" in message]
    assert sorted(replies) == sorted(answered.intersection(seen))
    own = {message["id"] for message in said[begins + goes :] if "id" in message}
    assert [ident for ident in again if again.count(ident) > 1 and ident not in own] == []
    places = iter([message for message in said if "id" in message])
    assert all(message in places for message in library.saw if "id" in message), "in the order they were said"


# -- the start --------------------------------------------------------------------------------------------------------

HEAVY = (
    *("typer", "click", "rich", "mcp", "mcp_types", "pydantic", "anyio", "asyncio", "numpy", "yaml", "msgspec", "apsw"),
    *("tree_sitter", "starlette", "uvicorn", "httpx", "ctypes", "subprocess", "dataclasses", "pathlib", "typing"),
    *("context_engine.tools", "context_engine.engine", "context_engine.settings", "context_engine.repo"),
)
SPY = """
import json, sys
from context_engine.server import daemon_relay
def spied(options, env):
    print(json.dumps(sorted(sys.modules)), file=sys.stderr, flush=True)
    raise SystemExit
daemon_relay.open_link = spied
from context_engine.cli import main
main()
"""


def test_nothing_heavy_is_loaded_before_a_daemon_is_asked(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(HERE), "HOME": str(tmp_path)}
    command = [sys.executable, "-c"]
    serving = [*command, SPY, "serve", "--root", str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(serving, stdin=pipe, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        loaded = json.loads(process.stderr.readline())
        process.kill()
    plain = subprocess.run(
        [*command, "import json, sys; print(json.dumps(sorted(sys.modules)))"],
        env=env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    ours = set(loaded) - set(json.loads(plain.stdout))  # what `site` loads is not ours: an editable install needs paths
    assert "context_engine.server.stdio_session" in ours
    assert [name for name in HEAVY if name in ours] == []
