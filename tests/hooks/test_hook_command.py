"""`ctx hook` as a client runs it: a real process, with and without the daemon; whatever happens, it ends with 0."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.daemon import ask_daemon
from tests.e2e.wire import Wire
from tests.support.daemons import DaemonHome, is_running
from tests.support.trees import tree
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests look at processes in /proc")
FILES = {
    "pyproject.toml": "[project]\nname = 'shop'\n",
    "src/pool.py": '"""Connections."""\n\n\ndef acquire_connection(pool, timeout):\n    """Wait for an idle connection."""\n'
    "    return pool.idle.pop(timeout)\n",
    "src/render.py": "def render_page(template, values):\n    return template.format(**values)\n",
}
PROMPT = "acquire_connection of the pool waits longer than the timeout"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree(tmp_path_factory.mktemp("work") / "shop", FILES)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, shop: Path) -> Iterator[DaemonHome]:
    """A home with an index of the shop and a daemon."""
    with DaemonHome(tmp_path_factory.mktemp("warm")) as home:
        index(home, shop)
        home.start()
        yield home


def index(home: DaemonHome, root: Path, **env: str) -> None:
    """Index a project and trust it with hooks."""
    assert home.ctx("index", cwd=root, **env).returncode == 0
    assert home.ctx("setup", "--trust", cwd=root, **env).returncode == 0


def hook(
    home: DaemonHome, *words: str, given: Any, cwd: Path = Path("/"), **env: str
) -> subprocess.CompletedProcess[bytes]:
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    command = [sys.executable, "-m", "context_engine", "hook", *words]
    return subprocess.run(
        command, input=data, capture_output=True, cwd=cwd, env=home.env | env, timeout=60, check=False
    )


def context_of(run: subprocess.CompletedProcess[bytes]) -> str:
    assert (run.returncode, run.stderr) == (0, b"")
    return json.loads(run.stdout)["hookSpecificOutput"]["additionalContext"] if run.stdout else ""


def log_of(home: DaemonHome) -> str:
    file = home.folder / "daemon.log"
    return file.read_text() if file.exists() else ""


def prompt(shop: Path, text: str = PROMPT, session: str = "s") -> dict[str, str]:
    return {"session_id": session, "cwd": str(shop), "prompt": text}


def test_a_prompt_is_answered_alike_with_and_without_the_daemon(warm: DaemonHome, shop: Path) -> None:
    with_daemon = context_of(hook(warm, "UserPromptSubmit", "--client", "claude", given=prompt(shop, session="a")))
    without = context_of(hook(warm, "UserPromptSubmit", given=prompt(shop, session="b"), CTX_DAEMON="0"))
    assert "def acquire_connection(pool, timeout):" in with_daemon
    assert with_daemon == without


def test_the_daemon_remembers_what_a_session_was_given(warm: DaemonHome, shop: Path) -> None:
    first = context_of(hook(warm, "UserPromptSubmit", given=prompt(shop, session="c")))
    again = context_of(hook(warm, "UserPromptSubmit", given=prompt(shop, session="c")))
    assert "def acquire_connection" in first
    assert "shown above: src/pool.py:1-6" in again and "def acquire_connection" not in again


def hook_of_another_program(home: DaemonHome, given: Any) -> str:
    """Run a hook whose parent is another process than this one."""
    command = f"{sys.executable} -m context_engine hook UserPromptSubmit; true"
    data = json.dumps(given).encode()
    return context_of(
        subprocess.run(["sh", "-c", command], input=data, capture_output=True, env=home.env, timeout=60, check=False)
    )


@pytest.mark.parametrize("session", ["shared", ""])
def test_hooks_and_tools_of_one_client_show_nothing_twice(warm: DaemonHome, tmp_path: Path, session: str) -> None:
    body = "".join(f"    total = add_fee(total, {n})  # fee {n}\n" for n in range(12))
    files = {f"{name}.py": f"def {name}_order(total):\n{body}" for name in ("close", "reopen")}
    shop = tree(tmp_path / "shop", {"pyproject.toml": FILES["pyproject.toml"], **files})
    index(warm, shop)
    asked = prompt(shop, "why does close_order add the fee of the total twice?", session)
    with Wire(shop, env=warm.env, popen=subprocess.Popen) as client:
        client.shake_hands()
        assert "def close_order" in context_of(hook(warm, "UserPromptSubmit", given=asked))
        reply = client.text("search_code", query="close_order total")
        assert "close.py:1-13" in reply and "add_fee(total, 7)  # fee 7" not in reply.partition("reopen.py")[0]
        assert "add_fee(total, 7)" in client.text("read", items=["reopen.py"])
        again = context_of(
            hook(warm, "UserPromptSubmit", given=asked | {"prompt": "why does reopen_order add the fee?"})
        )
        assert "shown above: " in again and "reopen.py:1-13" in again and "def reopen_order" not in again
        assert "def close_order" in hook_of_another_program(warm, asked | {"session_id": "other"})
        context_of(hook(warm, "SessionStart", given=asked | {"source": "compact"}))
        assert "add_fee(total, 7)" in client.text("search_code", query="close_order add total")
        assert client.end() == 0


@pytest.mark.parametrize(
    "given", [b"", b"{", b"[]", b"\xff\xfe\x00", b"[" * 200_000, b'{"cwd": 7, "prompt": ["x"]}', b" " * 17_000_000],
    ids=["empty", "broken", "list", "bytes", "deep", "types", "huge"],
)  # fmt: skip
def test_bad_input_gets_no_reply_and_no_failure(warm: DaemonHome, given: bytes) -> None:
    assert context_of(hook(warm, "UserPromptSubmit", given=given)) == ""


@pytest.mark.parametrize(
    "words", [(), ("NoSuchEvent",), ("UserPromptSubmit", "--client", "emacs"), ("--what",), ("a", "b", "c")]
)
def test_a_wrong_command_line_does_not_block_the_client(warm: DaemonHome, shop: Path, words: tuple[str, ...]) -> None:
    assert context_of(hook(warm, *words, given=prompt(shop))) == ""
    assert "no hook" in log_of(warm)


@pytest.mark.parametrize("folder", ["/", "/nowhere/at/all", "", "\x00", "/proc/self"])
def test_a_folder_outside_of_any_project_gets_nothing(warm: DaemonHome, folder: str) -> None:
    assert context_of(hook(warm, "UserPromptSubmit", given={"session_id": "s", "cwd": folder, "prompt": PROMPT})) == ""


def test_a_project_without_an_index_gets_nothing_and_no_index(warm: DaemonHome, tmp_path: Path) -> None:
    root = tree(tmp_path / "new", FILES)
    assert context_of(hook(warm, "UserPromptSubmit", given=prompt(root))) == ""
    assert str(root) not in log_of(warm)
    assert "NOT_INDEXED" not in log_of(warm), "nothing is wrong there"
    status = warm.ask(kind="status")
    assert status
    assert str(root) not in status["roots"], "no Engine is opened for it"
    assert re.search(r"^state +absent$", warm.ctx("status", cwd=root).stdout, re.MULTILINE)


@pytest.mark.parametrize("is_served", [True, False])
def test_a_project_that_the_user_did_not_trust_gets_one_line_a_session(
    warm: DaemonHome, tmp_path: Path, is_served: bool
) -> None:
    root = tree(tmp_path / "strange", FILES)
    (root / ".context-engine").mkdir()
    (root / ".context-engine" / "trusted-projects").write_text(json.dumps(str(root)) + "\n")
    assert warm.ctx("index", cwd=root).returncode == 0
    env: dict[str, Any] = {} if is_served else {"CTX_DAEMON": "0"}
    events = ("SessionStart", "UserPromptSubmit", "UserPromptSubmit", "PostToolUse", "SubagentStart")
    given = prompt(root) | {"tool_name": "Read", "tool_input": {"file_path": str(root / "src" / "pool.py")}}
    said = [context_of(hook(warm, event, given=given, **env)) for event in events]
    again = [hook(warm, "SessionStart", given=given | {"source": source}, **env) for source in ("resume", "compact")]
    assert [*said[1:], *map(context_of, again)] == [""] * 6
    assert "ctx setup --trust" in said[0]
    assert "\n" not in said[0]
    assert "may quote this project" not in warm.ctx("doctor", cwd=root).stdout
    trusted = warm.ctx("setup", "--trust", cwd=root)
    assert str(root) in trusted.stdout + trusted.stderr
    assert "acquire_connection" in context_of(hook(warm, "UserPromptSubmit", given=prompt(root), **env))
    assert "may quote this project" in warm.ctx("doctor", cwd=root).stdout
    other = tree(tmp_path / "other", FILES)
    assert warm.ctx("index", cwd=other).returncode == 0
    assert context_of(hook(warm, "UserPromptSubmit", given=prompt(other), **env)) == ""


def test_a_trapped_repository_runs_no_program(warm: DaemonHome, tmp_path: Path) -> None:
    root = tree(tmp_path / "trapped", FILES)
    mark = tmp_path / "ran"
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {mark}"], cwd=root, check=True)
    (root / ".context-engine").mkdir()
    (root / ".context-engine" / "config.yml").write_text(f"embedder: remote\nverify_commands: touch {mark}\n")
    (root / "ctx").write_text(f"#!/bin/sh\ntouch {mark}\n")
    index(warm, root)
    assert not mark.exists()
    assert "acquire_connection" in context_of(hook(warm, "UserPromptSubmit", given=prompt(root)))
    given = {"cwd": str(root), "session_id": "s", "source": "startup"}
    assert "ctx" in context_of(hook(warm, "SessionStart", given=given, cwd=root))
    assert not mark.exists()


def test_without_a_daemon_the_hook_answers_and_starts_one(tmp_path: Path, shop: Path) -> None:
    with DaemonHome(tmp_path) as home:
        index(home, shop, CTX_DAEMON="0")
        assert "acquire_connection" in context_of(hook(home, "UserPromptSubmit", given=prompt(shop)))
        pid = home.wait_ready()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_running(pid))
        assert "acquire_connection" in context_of(hook(home, "UserPromptSubmit", given=prompt(shop)))

        def is_started_again() -> bool:  # not within a second of the last start
            hook(home, "UserPromptSubmit", given=prompt(shop))
            return home.ask(ready=True, kind="status") is not None

        until(is_started_again)


def test_a_stopped_daemon_keeps_no_prompt_waiting(tmp_path: Path, shop: Path) -> None:
    with DaemonHome(tmp_path) as home:
        pid = home.start()
        os.kill(pid, signal.SIGSTOP)
        assert context_of(hook(home, "UserPromptSubmit", given=prompt(shop))) == ""
        assert "did not answer in time" in log_of(home)
        os.kill(pid, signal.SIGCONT)


def test_the_log_has_neither_the_prompt_nor_code(warm: DaemonHome, shop: Path) -> None:
    hook(warm, "UserPromptSubmit", given=prompt(shop, "my password is hunter2 in acquire_connection"))
    hook(warm, "UserPromptSubmit", given=b'{"prompt": "hunter2"')
    assert "not JSON" in log_of(warm)
    assert "hunter2" not in log_of(warm)


@pytest.mark.parametrize("event", [[], ["claude"], "x", {"kind": "prompt"}, [1] * 14, ["claude"] * 14])
def test_a_request_that_no_client_sends_stops_no_daemon(warm: DaemonHome, event: Any) -> None:
    ask_daemon({"kind": "hook", "event": event, "folder": "/"}, 5.0, env=warm.env)
    assert warm.ask(kind="status")
