"""The front: what it answers is what the library would have answered, and the hand-over loses and doubles nothing."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from mcp.server.lowlevel import Server
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from context_engine import tools
from context_engine.server import mcp_server
from context_engine.server.bootstrap import BootstrapResponder
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.instructions import format_instructions
from context_engine.server.profiles import PROFILES, ToolSelection
from context_engine.server.serve import CATALOGUE_FILE, read_catalogue
from context_engine.server.stdio_session import StdioPipes, StdioSession
from scripts import protocol_catalogue
from tests.support.tools_stand_in import StandIn

Message = dict[str, Any]
MODERN = MODERN_PROTOCOL_VERSIONS[-1]
HERE = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0


@cache
def written() -> dict[str, Any]:
    return read_catalogue()


def front(shown: ToolSelection | None = None) -> BootstrapResponder:
    return BootstrapResponder(written(), shown or ToolSelection(), private="private")


def server(shown: ToolSelection | None = None) -> Server[Any]:
    chosen = shown or ToolSelection()
    engine: Any = StandIn()
    return mcp_server.build_server(ToolDispatcher(lambda _="": engine, selection=chosen), selection=chosen)


def request(method: str, params: Any = None, ident: Any = 1) -> Message:
    return {"jsonrpc": "2.0", "id": ident, "method": method} | ({} if params is None else {"params": params})


def opening(version: str = "2025-06-18", ident: Any = 1, **more: Any) -> Message:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    return request("initialize", params | more, ident)


def enveloped(method: str, ident: Any = 1, meta: Any = None, **params: Any) -> Message:
    own = {"protocolVersion": MODERN, "clientInfo": {"name": "t", "version": "0"}, "clientCapabilities": {}}
    envelope = {f"io.modelcontextprotocol/{key}": value for key, value in own.items()}
    return request(method, {**params, "_meta": envelope | (meta or {})}, ident)


INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def cancelled(ident: Any) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ident}}


# -- a client at real pipes, with the real library behind -----------------------------------------------------------


class Client:
    """Speaks to a `Conversation` and collects every line it gets."""

    def __init__(self, shown: ToolSelection | None = None) -> None:
        incoming, self.to_server = os.pipe()
        self.from_server, outgoing = os.pipe()
        self.closing = [incoming, self.to_server, outgoing]
        self.conversation = StdioSession(StdioPipes(incoming, outgoing), front(shown))
        self.lines: list[str] = []
        self.arrived = threading.Condition()
        self.reading = threading.Thread(target=self.read, daemon=True)
        self.reading.start()

    def read(self) -> None:
        rest = b""
        while chunk := os.read(self.from_server, 65_536):
            *lines, rest = (rest + chunk).split(b"\n")
            with self.arrived:
                self.lines += [line.decode() for line in lines]
                self.arrived.notify_all()

    def say(self, message: Message) -> None:
        self.conversation.receive(json.dumps(message).encode())

    def wait_for(self, count: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.lines) >= count, PATIENCE_S), (count, self.lines)

    def close(self) -> None:
        """Close all pipes; thousands of conversations would use up the descriptors of the process."""
        self.conversation.close()
        for descriptor in self.closing:
            os.close(descriptor)
        self.reading.join(PATIENCE_S)
        os.close(self.from_server)


def lines_of(messages: Sequence[Message], before: int, shown: ToolSelection | None = None) -> list[str]:
    """What a client reads that says all this, when the hand-over comes after the first `before` of its messages."""
    client = Client(shown)
    asked = [message["id"] for message in messages if "id" in message and "method" in message]
    unasked = [message["params"]["requestId"] for message in messages if "cancelled" in message.get("method", "")]

    async def rest() -> None:
        for message in messages[before:]:
            await anyio.to_thread.run_sync(client.say, message)
        await anyio.to_thread.run_sync(client.wait_for, len([each for each in asked if each not in unasked]))
        tasks.cancel_scope.cancel()

    async def converse() -> None:
        nonlocal tasks
        async with anyio.create_task_group() as tasks:
            handed_over = anyio.Event()
            tasks.start_soon(lambda: client.conversation.run(server(shown), began=handed_over.set))
            await handed_over.wait()
            await rest()

    tasks: anyio.abc.TaskGroup
    for message in messages[:before]:
        client.say(message)
    anyio.run(converse)
    client.conversation.finish(1)
    client.close()
    return client.lines


def alone(messages: Sequence[Message], shown: ToolSelection | None = None) -> list[str]:
    """What the library says without any front."""
    return lines_of(messages, 0, shown)


def fronted(message: Message, after: Sequence[Message] = (), shown: ToolSelection | None = None) -> str | None:
    """What the front says to the last of some messages, as it goes over the wire."""
    one = front(shown)
    for earlier in after:
        one.respond(copy.deepcopy(earlier))
    reply = one.respond(message)
    return None if reply is None else json.dumps(reply, ensure_ascii=False, separators=(",", ":"))


# -- the same answers ---------------------------------------------------------------------------------------------


def test_the_catalogue_is_what_the_library_says_now() -> None:
    assert protocol_catalogue.format_catalogue(protocol_catalogue.build_catalogue()) == Path(CATALOGUE_FILE).read_text(
        encoding="utf-8"
    ), "run `make docs`"


def test_the_catalogue_holds_every_tool_in_order() -> None:
    assert [row["tool"]["name"] for row in written()["tools"]] == [tool.name for tool in tools.ALL]
    assert [row["touches"] for row in written()["tools"]] == [tool.touches for tool in tools.ALL]


SHOWN = {
    "core": ToolSelection(),
    "all": ToolSelection(("all",)),
    "seeds": ToolSelection(("seeds",)),
    "read-only": ToolSelection(tuple(PROFILES), read_only=True),
    "structured": ToolSelection(("core", "compat"), structured=True),
    "two projects": ToolSelection(("all",), projects=("web", "api")),
    "single tools": ToolSelection((), ("trace", "get_file"), exclude=("trace",)),
}


def answered_lists(shown: ToolSelection) -> list[str]:
    """Those that the front answers: with several projects only the tools, as the other lists name the projects then."""
    return list(protocol_catalogue.LISTS[: 1 if shown.projects else None])


def test_lists_that_name_the_projects_wait_for_the_library() -> None:
    two = ToolSelection(projects=("web", "api"))
    for method in protocol_catalogue.LISTS[1:]:
        assert fronted(request(method, ident=2), [opening(ident=1), INITIALIZED], two) is None


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, "2026-07-28", "1999-01-01", ""])
def test_the_older_era_gets_the_bytes_of_the_library(version: str, shown: ToolSelection) -> None:
    lists = [request(method, {}, ident=method) for method in answered_lists(shown)]
    said = [opening(version), INITIALIZED, request("ping", ident="a"), *lists]
    by_front = [fronted(message, said[:at], shown) for at, message in enumerate(said)]
    assert [line for line in by_front if line] == alone(said, shown)


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("version", MODERN_PROTOCOL_VERSIONS)
def test_the_newer_era_gets_the_bytes_of_the_library(version: str, shown: ToolSelection) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": version}
    lists = [enveloped(method, number, meta=meta) for number, method in enumerate(answered_lists(shown), 2)]
    said = [enveloped("server/discover", meta=meta), *lists]
    by_front = [fronted(message, said[:at], shown) for at, message in enumerate(said)]
    assert by_front == alone(said, shown)


SMALL_JSON = some.recursive(
    some.sampled_from([None, True, 0, 1, 1.5, "", "x", "light"]),
    lambda inner: (
        some.lists(inner, max_size=2) | some.dictionaries(some.sampled_from(["form", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
ICONS = some.lists(
    some.fixed_dictionaries({"src": some.just("a")}, optional={"theme": SMALL_JSON, "sizes": SMALL_JSON}), max_size=1
)
ABILITIES = some.fixed_dictionaries(
    {},
    optional={
        "roots": some.fixed_dictionaries({}, optional={"listChanged": some.booleans() | SMALL_JSON}),
        **{name: some.just({}) | SMALL_JSON for name in ("sampling", "elicitation", "experimental", "extensions")},
        "tasks": some.just({"requests": {"sampling": {"createMessage": {}}}}) | SMALL_JSON,
        "other": SMALL_JSON,
    },
)
WHO = some.fixed_dictionaries(
    {"name": some.just("t"), "version": some.just("0")},
    optional={"title": SMALL_JSON, "icons": ICONS | SMALL_JSON, "websiteUrl": SMALL_JSON, "more": SMALL_JSON},
)
PLAIN_META = some.fixed_dictionaries(
    {}, optional={"progressToken": some.integers() | SMALL_JSON, "own/key": SMALL_JSON}
)


def key(name: str) -> str:
    return f"io.modelcontextprotocol/{name}"


ENVELOPE = some.fixed_dictionaries(
    {
        key("protocolVersion"): some.sampled_from([MODERN, MODERN, MODERN, "2025-06-18", "2030-01-01", 7]),
        key("clientCapabilities"): ABILITIES | SMALL_JSON,
    },
    optional={
        key("clientInfo"): WHO | SMALL_JSON,
        key("logLevel"): some.sampled_from(["debug", "loud", 7]),
        "progressToken": SMALL_JSON,
    },
)
META = some.none() | PLAIN_META | ENVELOPE | SMALL_JSON
PARAMS = some.none() | some.fixed_dictionaries({}, optional={"_meta": META, "cursor": SMALL_JSON, "more": SMALL_JSON})
METHODS = some.sampled_from(["ping", "server/discover", *protocol_catalogue.LISTS])
OPENINGS = some.builds(
    lambda version, who, abilities, more: request(
        "initialize", {"protocolVersion": version, "clientInfo": who, "capabilities": abilities, **more}, ident=0
    ),
    some.sampled_from([*HANDSHAKE_PROTOCOL_VERSIONS, MODERN, "x", 5, None]),
    WHO | SMALL_JSON,
    ABILITIES | SMALL_JSON,
    some.fixed_dictionaries({}, optional={"_meta": META}),
)
REQUESTS = OPENINGS | some.builds(request, METHODS, PARAMS, some.just(1))
MANNERED = some.builds(request, METHODS, some.fixed_dictionaries({"_meta": ENVELOPE}), some.just(1))


@settings(max_examples=150, deadline=None)  # each example runs the library once; the law is checked, not its time
@given(some.sampled_from([[], [opening(ident=9), INITIALIZED]]), REQUESTS | MANNERED)
def test_whatever_the_front_answers_the_library_would_have_answered_so(before: list[Message], asked: Message) -> None:
    by_front = fronted(asked, before)
    if by_front is not None:
        assert alone([*before, asked])[-1] == by_front


# -- the hand-over ------------------------------------------------------------------------------------------------

OLDER = [
    opening(ident=0),
    INITIALIZED,
    request("tools/list", {"_meta": {"progressToken": 0}}, 1),
    request("tools/call", {"name": "find_symbol", "arguments": {"name": "login"}}, "two"),
    request("ping", ident=3),
    request("prompts/list", ident=4),
    request("no/such/method", ident=5),
    request("tools/call", {"name": "read_file", "arguments": {"path": "missing.py"}}, 6),
    opening("2024-11-05", ident=7),
    request("tools/list", ident=8),
]
NEWER = [
    enveloped("server/discover", 0),
    enveloped("tools/list", 1),
    enveloped("tools/call", 2, name="find_symbol", arguments={"name": "login"}),
    opening(ident=3),  # refused: the first request decided for the newer era
    enveloped("ping", 4),
    request("tools/list", ident=5),
    enveloped("server/discover", "six"),
]
UNMANNERED = [
    request("tools/list", ident=0),  # before initialize
    request("ping", ident=1),
    opening(ident=2),
    enveloped("tools/list", 3),  # of the other era
    request("tools/list", ident=4),
]
UNDECIDED = [enveloped("server/discover", 0), opening(ident=1), INITIALIZED, request("ping", ident=2)]
SCRIPTS = {"of two minds": UNDECIDED, "older era": OLDER, "newer era": NEWER, "without manners": UNMANNERED}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_whenever_the_hand_over_comes_the_client_reads_the_same(script: list[Message]) -> None:
    usual = sorted(alone(script))
    assert len(usual) == len([message for message in script if "id" in message])
    for before in range(1, len(script) + 1):
        assert sorted(lines_of(script, before)) == usual, f"after {before}"


SAID = some.lists(
    some.one_of(
        some.builds(opening, some.just("2025-06-18"), some.integers(0, 4)),
        some.builds(
            request, some.sampled_from(["ping", "tools/list", "tools/call"]), some.just({}), some.integers(0, 4)
        ),
        some.builds(enveloped, some.sampled_from(["server/discover", "tools/list"]), some.integers(0, 4)),
        some.builds(cancelled, some.integers(0, 4) | some.sampled_from(["0", "1"])),
        some.just(INITIALIZED),
    ),
    max_size=9,
)


class Peer:
    """Stands for the library: answers each request it sees, and keeps what it saw."""

    def __init__(self) -> None:
        self.saw: list[Message] = []

    def hear(self, message: Message) -> Message | None:
        self.saw.append(message)
        return {"id": message["id"], "by": "library"} if "id" in message else None


@given(SAID, some.integers(0, 9))
def test_each_request_is_answered_once_or_withdrawn_and_the_library_sees_them_in_order(
    said: list[Message], before: int
) -> None:
    one, peer = front(), Peer()
    early = [one.respond(message) for message in said[:before]]
    replies = [reply for reply in early if reply]
    kept = one.hand_over()
    replies += [
        reply for message in kept + said[before:] if (reply := peer.hear(message)) and not one.is_repeat(reply["id"])
    ]
    withdrawn = withdrawn_before(said[:before], early)
    asked = [message["id"] for at, message in enumerate(said) if "id" in message and at not in withdrawn]
    assert sorted(reply["id"] for reply in replies) == sorted(asked)
    assert one.hand_over() == []
    seen = [without_id(message) for message in peer.saw]
    places = iter([without_id(message) for message in said])
    assert all(message in places for message in seen), "in the order they were said"


def withdrawn_before(said: list[Message], replies: list[Message | None]) -> set[int]:
    """Places of requests that waited and were taken back: the newest of that id that is still waiting."""
    gone: set[int] = set()
    for at, message in enumerate(said):
        if message["method"] == "notifications/cancelled":
            wanted = str(message["params"]["requestId"])
            waiting = (
                place
                for place in reversed(range(at))
                if "id" in said[place] and not replies[place] and place not in gone and str(said[place]["id"]) == wanted
            )
            gone |= set(list(waiting)[:1])
    return gone


def without_id(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != "id"}


def test_a_request_that_is_cancelled_while_it_waits_never_reaches_the_library() -> None:
    one = front()
    for message in (opening(), request("tools/call", {"name": "trace"}, 7), cancelled("7"), request("x", ident=8)):
        one.respond(message)
    assert [message.get("method") for message in one.hand_over()] == ["initialize", "x"]


def test_of_two_requests_with_one_id_the_newer_is_taken_back() -> None:
    one = front()
    for message in (opening(), request("first", ident=7), request("second", ident=7), cancelled(7)):
        one.respond(message)
    assert [message.get("method") for message in one.hand_over()] == ["initialize", "first"]


def test_only_the_opening_is_replayed_and_its_id_is_nobody_elses() -> None:
    one = front()
    for message in (opening(ident=1), INITIALIZED, request("tools/list", ident=2), request("ping", ident=3)):
        one.respond(message)
    replayed, initialized = one.hand_over()
    assert (replayed["method"], initialized) == ("initialize", INITIALIZED)
    assert one.is_repeat(replayed["id"])
    assert not any(one.is_repeat(ident) for ident in (1, "1", 2, "private", None))


# -- the start ----------------------------------------------------------------------------------------------------

HEAVY = (
    *("typer", "click", "rich", "mcp", "mcp_types", "pydantic", "anyio", "asyncio", "numpy", "yaml", "msgspec", "apsw"),
    *("tree_sitter", "starlette", "uvicorn", "httpx", "ctypes", "subprocess", "dataclasses", "pathlib", "typing"),
    *("context_engine.tools", "context_engine.engine", "context_engine.settings", "context_engine.repo"),
)
SPY = """
import json, os, sys
write = os.write
def spied(descriptor, text):
    if bytes(text[:10]) == b'{"jsonrpc"':
        os.write = write
        with open(os.environ["SPY"], "w") as file:
            json.dump(sorted(sys.modules), file)
    return write(descriptor, text)
os.write = spied
from context_engine.cli import main
main()
"""


@pytest.mark.parametrize("first", [opening(), enveloped("server/discover")], ids=["initialize", "server/discover"])
def test_nothing_heavy_is_loaded_when_the_first_reply_leaves(first: Message, tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(HERE), "HOME": str(tmp_path), "SPY": str(tmp_path / "modules.json")}
    ended = subprocess.run(
        [sys.executable, "-c", SPY, "serve", "--root", str(tmp_path)],
        input=json.dumps(first) + "\n", env=env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(ended.stdout)["result"]["instructions"] == format_instructions(PROFILES["core"])
    loaded = json.loads((tmp_path / "modules.json").read_text())
    plain = subprocess.run(
        [sys.executable, "-c", "import json, sys; print(json.dumps(sorted(sys.modules)))"],
        env=env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    ours = set(loaded) - set(json.loads(plain.stdout))  # what `site` loads is not ours: an editable install needs paths
    assert "context_engine.server.bootstrap" in ours
    assert [name for name in HEAVY if name in ours] == []


def test_the_first_paragraph_of_the_instructions_says_it_all() -> None:
    for profile in PROFILES:
        first, _, rest = format_instructions(PROFILES[profile]).partition("\n\n")
        assert len(first) <= 240
        assert len(first + rest) < 1_000
