"""Stdio servers over the daemon: each client is served as by a process of its own, and none notices that it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.test_daemon import FILES
from tests.e2e.wire import Wire
from tests.support.daemons import DaemonHome
from tests.support.trees import tree
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests look at processes in /proc")
KILLS = int(os.environ.get("CTX_TEST_KILLS", "3"))
ALONE = {"CTX_DAEMON": "0"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree(tmp_path_factory.mktemp("work") / "till", FILES)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, shop: Path) -> Iterator[DaemonHome]:
    with DaemonHome(tmp_path_factory.mktemp("home")) as home:
        home.env["CTX_RATE_LIMITS_PER_MINUTE"] = "trace=1"  # five calls at once
        assert home.ctx("index", cwd=shop).returncode == 0
        home.start()
        yield home


def status(home: DaemonHome) -> Any:
    found = home.ask(kind="status")
    assert found
    return found


def serve(home: DaemonHome, root: Path, *options: str, **env: str) -> Wire:
    return Wire(root, env=home.env | env, options=options)


# -- the same server --------------------------------------------------------------------------------------------------


def converse(wire: Wire) -> list[str]:
    """The replies to a session of the older protocol, without times."""
    wire.shake_hands()
    wire.ask("tools/list")
    wire.ask("resources/list")
    wire.ask("resources/read", {"uri": "ctx://file/shop/till.py"})
    wire.ask("resources/read", {"uri": "ctx://absent"})
    wire.ask("prompts/list")
    wire.ask("no/such/method")
    wire.send("{")
    wire.call("find_symbol", name="add_up")
    wire.call("read_file", path="../outside")
    wire.call("call_tool", name="search_files", arguments={"query": "prices"})
    wire.ask("tools/call", {"name": "no_such_tool", "arguments": {}})
    wire.call("find_symbol", nam="x")
    return wire.lines


def converse_modern(wire: Wire) -> list[str]:
    wire.ask_modern("tools/call", {"name": "find_symbol", "arguments": {"name": "add_up"}})
    wire.ask_modern("server/discover")
    wire.ask_modern("tools/list")
    return wire.lines


@pytest.mark.parametrize("talk", [converse, converse_modern], ids=["older", "modern"])
def test_a_client_gets_the_same_lines_from_the_daemon_as_from_a_process_of_its_own(
    home: DaemonHome, shop: Path, talk: Callable[[Wire], list[str]]
) -> None:
    with serve(home, shop) as shared, serve(home, shop, **ALONE) as alone:
        lines = sorted(talk(shared)), sorted(talk(alone))
        assert status(home)["sessions"] == 1
        assert shared.end() == alone.end() == 0
    assert without_freshness(lines[0]) == without_freshness(lines[1])
    logged = [[re.sub(r'"at": "[^"]*", |"ms".*', "", line) for line in wire.log] for wire in (shared, alone)]
    assert logged[0] == logged[1] != []


def without_freshness(lines: list[str]) -> list[str]:
    """A server of its own looks for changes at its start, and says so for a moment."""
    return [re.sub(r"( · )?index building[ %0-9]*(\\\\n(?=@@))?", "", line) for line in lines]


def test_ten_clients_of_one_repository_share_one_engine_and_nothing_else(home: DaemonHome, shop: Path) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(serve(home, shop)) for _ in range(8)]
        reader = stack.enter_context(serve(home, shop, "--read-only"))
        few = stack.enter_context(serve(home, shop, CTX_EXCLUDE_TOOLS="find_symbol"))
        for client in (*clients, reader, few):
            client.shake_hands()
        for client in (*clients, reader):
            assert "shop/till.py" in client.text("find_symbol", name="add_up")
        assert "switched off" in few.call("find_symbol", name="add_up")["content"][0]["text"]
        assert "--read-only" in reader.call("write_file", path="new.py", content="")["content"][0]["text"]
        found = status(home)
        assert found["sessions"] == 10
        assert found["roots"] == [str(shop)]
    until(lambda: status(home)["sessions"] == 0)


def test_the_limits_of_one_client_are_not_those_of_another(home: DaemonHome, shop: Path) -> None:
    with serve(home, shop) as first, serve(home, shop) as second:
        first.shake_hands()
        second.shake_hands()
        replies = [first.call("trace", symbol="add_up")["content"][0]["text"] for _ in range(6)]
        assert ["RATE_LIMITED" in reply for reply in replies] == [False] * 5 + [True]
        assert "RATE_LIMITED" not in second.call("trace", symbol="add_up")["content"][0]["text"]


def test_the_folders_of_a_client_are_asked_through_the_relay(home: DaemonHome, shop: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "context_engine", "serve"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=home.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout

        def say(**message: Any) -> None:
            assert process.stdin
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()

        who = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "t", "version": "0"},
        }
        say(id=1, method="initialize", params=who)
        assert json.loads(process.stdout.readline())["id"] == 1
        say(method="notifications/initialized")
        say(id=2, method="tools/call", params={"name": "find_symbol", "arguments": {"name": "add_up"}})
        asked = json.loads(process.stdout.readline())
        assert asked["method"] == "roots/list"
        say(id=asked["id"], result={"roots": [{"uri": shop.as_uri()}]})
        reply = json.loads(process.stdout.readline())
        assert reply["id"] == 2
        assert "shop/till.py" in reply["result"]["content"][0]["text"]


# -- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.kills
def test_no_call_is_lost_when_the_daemon_is_killed(
    home: DaemonHome, tmp_path: Path, tried: Callable[..., None]
) -> None:
    for round_number in range(KILLS):
        tried()
        root = tree(tmp_path / f"work{round_number}", FILES)
        home.ctx("index", cwd=root)
        home.start()
        with serve(home, root) as wire:
            wire.shake_hands()
            wanted = wire.text("find_symbol", name="add_up")
            pid = status(home)["pid"]
            if round_number % 2 == 0:
                os.kill(pid, signal.SIGSTOP)
            calls = [("find_symbol", {"name": "add_up"}), ("write_file", {"path": "new.py", "content": "x = 1\n"})]
            for number, (tool, arguments) in enumerate(calls):
                call = {"name": tool, "arguments": arguments}
                wire.send({"jsonrpc": "2.0", "id": f"k{number}", "method": "tools/call", "params": call})
            time.sleep(0.003 * (round_number % 40))
            os.kill(pid, signal.SIGKILL)
            replies = {message["id"]: message for message in (wire.next(), wire.next())}
            assert replies["k0"]["result"]["content"][0]["text"].startswith(wanted.partition("\n2 other lines")[0])
            if "error" in replies["k1"]:
                assert "write_file, which may be done or not" in replies["k1"]["error"]["message"]
            else:
                assert (root / "new.py").exists()
            assert "shop/till.py" in wire.text("find_symbol", name="add_up")
            assert wire.ask("tools/list")["result"]["tools"]
            assert len(wire.lines) == len({json.loads(line).get("id") for line in wire.lines})
            assert wire.end() == 0
        until(lambda: not home.pids())
    home.start()
