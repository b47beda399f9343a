"""How a server process lives and ends: nothing but JSON-RPC on its stdout, and gone within two seconds."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from context_engine import __version__, tools
from tests.journeys.wire import Wire

ENDED_S = 2.0


def test_the_older_era_opens_with_initialize(repository: Path) -> None:
    with Wire(repository) as wire:
        answer = wire.shake_hands()
        assert answer["serverInfo"]["name"] == "ctx"
        assert answer["serverInfo"]["version"] == __version__
        assert answer["instructions"].startswith("Finds code in this repository.")
        listed = wire.ask("tools/list")["result"]["tools"]
        assert [each["name"] for each in listed] == [each.name for each in tools.ALL]
        assert wire.end() == 0


def test_the_newer_era_opens_with_discover(repository: Path) -> None:
    with Wire(repository) as wire:
        answer = wire.ask_modern("server/discover")["result"]
        assert "2026-07-28" in answer["supportedVersions"]
        listed = wire.ask_modern("tools/list")["result"]
        assert listed["resultType"] == "complete"
        assert listed["ttlMs"] > 0
        assert len(listed["tools"]) == len(tools.ALL)
        assert wire.end() == 0


def test_the_process_ends_when_its_input_does(repository: Path) -> None:
    with Wire(repository) as wire:
        wire.shake_hands()
        started = time.monotonic()
        assert wire.end() == 0
        assert time.monotonic() - started < ENDED_S


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_process_ends_on_a_signal_also_when_idle(repository: Path, number: signal.Signals) -> None:
    with Wire(repository) as wire:
        wire.shake_hands()
        started = time.monotonic()
        wire.process.send_signal(number)
        assert wire.process.wait(timeout=ENDED_S + 5) == 0
        assert time.monotonic() - started < ENDED_S


NOISE = '''
import os, sys

class Noisy:
    """Prints whenever something of the protocol library is imported, as some libraries do."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mcp", "anyio", "numpy", "tree_sitter"):
            print("noise from print")
            os.write(1, b"noise from below")
            os.system("echo noise from a child")
        return None

sys.meta_path.insert(0, Noisy())
'''


def test_no_print_of_any_library_reaches_the_client(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "noise").mkdir()
    (tmp_path / "noise" / "sitecustomize.py").write_text(NOISE)
    here = Path(__file__).resolve().parents[2]
    with Wire(repository, {"PYTHONPATH": f"{tmp_path / 'noise'}:{here}"}) as wire:
        wire.shake_hands()
        wire.ask("tools/list")
        wire.call("index_status")
        wire.end()
        assert wire.lines
        for line in wire.lines:
            assert json.loads(line)["jsonrpc"] == "2.0"
        assert any("noise from" in line for line in wire.log)


def test_malformed_input_does_not_end_the_server(repository: Path) -> None:
    with Wire(repository) as wire:
        wire.shake_hands()
        for line in ("{", "[]", "nonsense", '{"jsonrpc": "2.0"}', "\x00"):
            wire.send(line)
        assert "error" in wire.ask("no/such/method")
        assert len(wire.ask("tools/list")["result"]["tools"]) == len(tools.ALL)
        wire.end()


def test_a_root_that_cannot_be_a_workspace_is_told_with_each_call(tmp_path: Path) -> None:
    with Wire(tmp_path / "missing") as wire:
        wire.shake_hands()
        result = wire.call("codebase_retrieval", query="anything")
        assert result["isError"]
        error = json.loads(result["content"][0]["text"])["error"]
        assert "missing" in error["message"]
        wire.end()


def test_each_call_leaves_one_line_of_json_on_stderr(repository: Path) -> None:
    with Wire(repository) as wire:
        wire.shake_hands()
        wire.call("find_symbol")
        wire.end()
        calls = [line for line in (json.loads(text) for text in wire.log) if line["event"] == "call"]
        assert [(each["tool"], each["ok"], each["error"]) for each in calls] == [
            ("find_symbol", False, "INVALID_ARGUMENT")
        ]
