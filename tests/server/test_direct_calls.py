"""Calls without the protocol library get the replies that it would give, and other messages reach it once."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.profiles import ToolSelection
from context_engine.server.projects import Projects
from context_engine.server.serve import serve_session
from context_engine.server.shutdown import RunningCalls
from context_engine.server.stdio_session import StdioPipes, StdioSession
from tests.e2e.wire import Wire
from tests.server.test_bootstrap import (
    INITIALIZED,
    MODERN,
    PATIENCE_S,
    SCRIPTS,
    Message,
    alone,
    cancelled,
    enveloped,
    front,
    opening,
    request,
)
from tests.support.tools_stand_in import StandIn
from tests.support.trees import tree

LOGIN = {"name": "find_symbol", "arguments": {"name": "login"}}
STRUCTURED = ToolSelection(("core", "compat"), structured=True)


class PipedSession:
    """A session over real pipes, served as `ctx serve` does."""

    def __init__(
        self, shown: ToolSelection | None = None, engine: Any = None, projects: Projects | None = None
    ) -> None:
        self._incoming, self._to_server = os.pipe()
        self._from_server, self._outgoing = os.pipe()
        self.session = StdioSession(StdioPipes(self._incoming, self._outgoing), front(shown))
        selection = shown or ToolSelection()
        found: Any = engine or StandIn()
        dispatcher = ToolDispatcher(lambda _: found, selection=selection)
        known = projects or Projects(["/work"], log=lambda line: None)
        self._threads = [
            threading.Thread(target=self.session.read_messages, daemon=True),
            threading.Thread(
                target=lambda: serve_session(
                    self.session, known, dispatcher, selection, running=RunningCalls(), ends_with_input=True
                ),
                daemon=True,
            ),
        ]
        self._lines = os.fdopen(self._from_server, encoding="utf-8", newline="\n")
        for thread in self._threads:
            thread.start()

    def say(self, *messages: Message) -> None:
        for message in messages:
            os.write(self._to_server, json.dumps(message).encode() + b"\n")

    def hear(self) -> str:
        """The next line of the server, without its end."""
        return self._lines.readline().removesuffix("\n")

    def end(self) -> None:
        self.session.finish(PATIENCE_S)
        os.close(self._to_server)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self.session.close()
        os.close(self._incoming)
        os.close(self._outgoing)
        self._lines.close()


def heard(messages: Sequence[Message], shown: ToolSelection | None = None) -> list[str]:
    """The lines that a client of these messages reads."""
    one = PipedSession(shown)
    one.say(*messages)
    lines = [one.hear() for message in messages if "id" in message and "method" in message]
    one.end()
    return lines


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_client_reads_what_it_would_read_of_the_library_alone(script: list[Message]) -> None:
    assert sorted(heard(script)) == sorted(alone(script))


CALLS = {
    "a definition": LOGIN,
    "an error of the tool": {"name": "read_file", "arguments": {"path": "missing.py"}},
    "an unknown tool": {"name": "no_such_tool", "arguments": {}},
    "an unknown argument": {"name": "find_symbol", "arguments": {"nam": "x"}},
    "an older name through another tool": {"name": "call_tool", "arguments": {"name": "get_file", "arguments": {}}},
    "no arguments": {"name": "index_status"},
    "a progress token": LOGIN | {"_meta": {"progressToken": "a"}},
    "arguments that are null": {"name": "index_status", "arguments": None},
    "a name that is a number": {"name": 7},
    "more than a call has": LOGIN | {"task": {"ttl": 5}},
    "a token that is a list": LOGIN | {"_meta": {"progressToken": []}},
}


@pytest.mark.parametrize("shown", [ToolSelection(), STRUCTURED], ids=["text", "structured"])
@pytest.mark.parametrize("params", CALLS.values(), ids=CALLS)
def test_each_call_gets_the_bytes_of_the_library_in_every_version(params: Message, shown: ToolSelection) -> None:
    for version in ("2024-11-05", "2025-11-25"):
        said = [opening(version, ident=0), INITIALIZED, request("tools/call", params, "one")]
        assert heard(said, shown) == alone(said, shown)
    modern = [enveloped("tools/call", 1, **{key: value for key, value in params.items() if key != "_meta"})]
    assert heard(modern, shown) == alone(modern, shown)


PARAMS = some.fixed_dictionaries(
    {"name": some.sampled_from(["find_symbol", "index_status", "x", 5])},
    optional={
        "arguments": some.sampled_from([{}, {"name": "login"}, {"name": 3}, [], None, "text"]),
        "_meta": some.sampled_from([{}, {"progressToken": 1}, {"progressToken": None}, {"own/key": []}, [], None]),
        "inputResponses": some.sampled_from([{}, None]),
        "cursor": some.just("next"),
    },
)


@settings(max_examples=40, deadline=None)  # each example runs the library once; the law is checked, not its time
@given(PARAMS, some.sampled_from(["2025-03-26", "2025-06-18", MODERN]))
def test_no_parameters_get_another_reply_than_from_the_library(params: Message, version: str) -> None:
    if version == MODERN:
        meta = params.get("_meta")
        rest = {key: value for key, value in params.items() if key != "_meta"}
        said = [enveloped("tools/call", 1, meta=meta if isinstance(meta, dict) else {}, **rest)]
    else:
        said = [opening(version, ident=0), INITIALIZED, request("tools/call", params, 1)]
    assert heard(said) == alone(said)


def test_a_session_of_calls_never_imports_the_protocol_library(tmp_path: Path) -> None:
    tree(tmp_path, {"web/app.py": "def add_up():\n    return 1\n"})
    spy = (
        "import sys, threading\n"
        "sys.argv = ['ctx', 'serve', '--root', sys.argv[1]]\n"
        "from context_engine.server.shutdown import ShutdownCoordinator\n"
        "leave = ShutdownCoordinator.shut_down\n"
        "def spied(self, status=0):\n"
        "    print(sorted({name.split('.')[0] for name in sys.modules} & {'mcp', 'mcp_types', 'pydantic'}), file=sys.stderr)\n"
        "    leave(self, status)\n"
        "ShutdownCoordinator.shut_down = spied\n"
        "from context_engine.cli import main\n"
        "main()\n"
    )
    env = {"CTX_DAEMON": "0", "CTX_CACHE_FOLDER": str(tmp_path / "cache")}
    for read, imported in ((False, "[]"), (True, "['mcp', 'mcp_types', 'pydantic']")):
        with Wire(tmp_path / "web", env, popen=_Spied.with_program(spy)) as wire:
            wire.shake_hands()
            wire.ask("tools/list")
            assert "app.py" in wire.text("find_symbol", name="add_up")
            wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}})
            if read:
                assert "add_up" in json.dumps(wire.ask("resources/read", {"uri": "ctx://file/app.py"}))
                assert "app.py" in wire.text("find_symbol", name="add_up")
            assert wire.end() == 0
            wire.process.wait()
        assert imported in "".join(wire.log).splitlines()


class _Spied(subprocess.Popen[Any]):
    """Runs a program in the place of `-m context_engine serve`."""

    program = ""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        root = command[command.index("--root") + 1]
        super().__init__([command[0], "-c", self.program, root], **options)

    @classmethod
    def with_program(cls, program: str) -> type[_Spied]:
        return type("_WithProgram", (cls,), {"program": program})


def test_a_canceled_call_is_not_answered_and_its_tool_learns_of_it() -> None:
    engine = StandIn(hold=threading.Event())
    one = PipedSession(engine=engine)
    one.say(opening(ident=0), INITIALIZED, request("tools/call", {"name": "index_workspace", "arguments": {}}, 7))
    assert json.loads(one.hear())["id"] == 0
    one.say(cancelled("7"))
    assert engine.cancelled.wait(PATIENCE_S)
    one.say(request("ping", ident=8))
    assert json.loads(one.hear())["id"] == 8
    one.end()


def test_a_long_call_reports_its_progress_until_its_reply() -> None:
    hold = threading.Event()
    engine = StandIn(hold=hold)
    one = PipedSession(engine=engine)
    params = {"name": "index_workspace", "arguments": {}, "_meta": {"progressToken": "mine"}}
    one.say(opening(ident=0), INITIALIZED, request("tools/call", params, 7))
    assert json.loads(one.hear())["id"] == 0
    report = json.loads(one.hear())
    assert report["method"] == "notifications/progress"
    assert report["params"]["progressToken"] == "mine"
    assert report["params"]["progress"] > 0
    hold.set()
    while (line := json.loads(one.hear())).get("id") != 7:
        assert line["method"] == "notifications/progress"
    one.end()


def test_the_folders_of_an_older_client_are_requested_without_the_library(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "old").mkdir()
    projects = Projects([], here=str(tmp_path / "old"), log=lambda line: None, follow=False)
    one = PipedSession(projects=projects)
    one.say(opening(ident=0, capabilities={"roots": {}}), INITIALIZED, request("tools/call", LOGIN, 1))
    assert json.loads(one.hear())["id"] == 0
    asked = json.loads(one.hear())
    assert asked["method"] == "roots/list"
    roots = [{"uri": "http://x"}, {"uri": 5}, {"uri": (tmp_path / "web").as_uri()}]
    one.say({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}})
    assert json.loads(one.hear())["id"] == 1
    assert projects.paths_by_name == {"web": str(tmp_path / "web")}
    one.say({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, request("tools/call", LOGIN, 2))
    asked = json.loads(one.hear())
    assert asked["method"] == "roots/list"
    one.say({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}})
    assert json.loads(one.hear())["id"] == 2
    one.end()
    projects.close()
