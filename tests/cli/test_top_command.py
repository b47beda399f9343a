"""`ctx top`: the calls of all clients at the terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.server import ToolDispatcher, single_engine
from context_engine.tools import Call
from tests.support.trees import tree

WAIT_S = 60


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    places = {
        "CTX_CACHE_FOLDER": str(tmp_path / "cache"),
        "CTX_DATA_FOLDER": str(tmp_path / "data"),
        "CTX_WORKERS": "0",
    }
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    return os.environ | places


@pytest.fixture
def shop(env: dict[str, str], tmp_path: Path) -> Path:
    return tree(tmp_path / "shop", {"till.py": "def login(user):\n    return user\n"})


def ask(root: Path, name: str) -> None:
    with Engine.open(root) as engine:
        engine.index.update()
        ToolDispatcher(single_engine(engine)).call("find_symbol", {"name": name}, Call(client="some-agent"))


def run_top(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "context_engine", "top", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=WAIT_S)


def test_without_calls_the_exit_code_says_so(env: dict[str, str], shop: Path) -> None:
    assert run_top(env, "--once").returncode == 1


def test_the_newest_calls_are_lines_and_json(env: dict[str, str], shop: Path) -> None:
    ask(shop, "login")
    shown = run_top(env, "--once", "--root", str(shop))
    assert shown.returncode == 0, shown.stderr
    assert [word in shown.stdout for word in ("some-agent", "find_symbol")] == [True, True]
    (call,) = [json.loads(line) for line in run_top(env, "--once", "--json").stdout.splitlines()]
    assert (call["client"], call["folder"], call["asked"]) == ("some-agent", "shop", "")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_further_call_is_printed_as_it_happens_with_its_question(env: dict[str, str], shop: Path) -> None:
    command = [sys.executable, "-m", "context_engine", "top"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("time")
        ask(shop, "login")
        assert process.stdout.readline().rstrip().endswith("login")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
