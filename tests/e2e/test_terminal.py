"""A person at the terminal, on a repository nobody indexed before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from context_engine import __version__
from tests.support import preloaded

HERE = Path(__file__).resolve().parents[2]


def ctx(*words: str, cwd: Path | None = None, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run `ctx` as a process of its own."""
    command = [sys.executable, "-m", "context_engine", *words]
    env = os.environ | {"PYTHONPATH": str(HERE)}
    return preloaded.run(
        command, cwd=cwd, env=env, input=given, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_version_comes_at_once() -> None:
    before = os.times()
    assert ctx("--version").stdout == f"ctx {__version__}\n"
    after = os.times()
    # processor time, because a busy machine takes longer by the clock; 0.02 s without what a search imports
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.5


def test_the_first_search_indexes_and_says_so(repository: Path) -> None:
    found = ctx("search", "where are passwords hashed", cwd=repository)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("@@ till/auth.py:")
    assert "def hash_password" in found.stdout
    assert "\x1b[" not in found.stdout
    assert "no index" in found.stderr
    again = ctx("search", "where are passwords hashed", cwd=repository / "till")
    assert again.stdout == found.stdout
    assert "no index" not in again.stderr


@pytest.mark.parametrize(
    ("words", "tool", "arguments"),
    [
        ("search where are passwords hashed", "search_code", {"query": "where are passwords hashed"}),
        ("search zyxwvut", "search_code", {"query": "zyxwvut"}),
        ("symbol hash_password", "symbols", {"name": "hash_password"}),
        ("symbol absent_name", "symbols", {"name": "absent_name"}),
        ("trace read_file", "symbols", {"name": "read_file", "relation": "callers"}),
        ("read till/files.py till/auth.py#login absent.py", "read", {"items": ["till/files.py", "till/auth.py#login", "absent.py"]}),
    ],
)  # fmt: skip
def test_a_pipe_gets_what_the_tool_replies(
    repository: Path, words: str, tool: str, arguments: dict[str, object]
) -> None:
    (repository / "till/files.py").write_text("def read_file(path): ...\n\n\nlist_plans = read_file, read_file(1)\n")
    ctx("index", cwd=repository)
    replied = ctx("call", tool, json.dumps(arguments), cwd=repository).stdout
    piped = ctx(*words.split(), cwd=repository)
    commands = {"list_directory '.'": "ctx read .", "search_code": "ctx search", "index_status": "ctx status"}
    for tool_name, command in commands.items():
        replied = replied.replace(tool_name, f"`{command}`")
    assert piped.stdout == replied
    assert piped.returncode == ("absent" in words or "zyxwvut" in words)


def test_indexing_reports_what_it_did(repository: Path) -> None:
    first = ctx("index", str(repository))
    assert first.returncode == 0, first.stderr
    assert "7 files in" in first.stdout or "8 files in" in first.stdout
    assert "0 added, 0 changed, 0 removed" in ctx("index", cwd=repository).stdout
    assert "0 changed, 0 removed" in ctx("index", "--force", cwd=repository).stdout


def test_what_an_agent_edited_is_listed_and_taken_back(repository: Path) -> None:
    edit = {"path": "web/cart.ts", "edits": [{"target": "class Cart", "replace": "class Basket"}]}
    before = (repository / "web/cart.ts").read_text()
    ctx("call", "edit_file", json.dumps(edit), cwd=repository)
    assert "edited web/cart.ts" in ctx("undo", "--list", cwd=repository).stdout
    assert ctx("undo", cwd=repository).stdout.startswith("undone: edit 1\nweb/cart.ts · sha256 ")
    assert (repository / "web/cart.ts").read_text() == before
    refused = ctx("undo", cwd=repository)
    assert (refused.returncode, "nothing to undo" in refused.stderr) == (2, True)


def test_call_prints_the_text_of_a_tool(repository: Path) -> None:
    shown = ctx("call", "read_file", '{"path": "till/orders.py", "endLine": "1"}', "--root", str(repository))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split("\n")[1:3] == ["@@ 1", '"""Orders and what they cost."""']
    piped = ctx("call", "list_directory", "-", "--root", str(repository), given='{"depth": 1}')
    assert "till/" in piped.stdout


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_exits_130(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    for number in range(8_000):
        (tmp_path / f"part_{number}.py").write_text(f"def part_{number}(x):\n    return x + {number}\n" * 60)
    process = preloaded.Popen(
        [sys.executable, "-m", "context_engine", "index", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(HERE)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr
    assert "of" in process.stderr.readline()  # the first line of progress: it is at work
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "goes on from there" in said
