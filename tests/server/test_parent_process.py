"""Whoever started the server: the nearest ancestor that is no wrapper, known by its number and its start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from context_engine.server import shutdown
from context_engine.server.shutdown import ProcessInfo, find_client, is_wrapper, list_ancestors, read_process

WRAPPERS = (
    *("/bin/sh -c ctx", "-bash", "env A=1 ctx", "/usr/bin/uv run ctx", "uvx ctx", "timeout 9 ctx", "sudo ctx"),
    *("node /usr/lib/node_modules/npm/bin/npx-cli.js x", "node /usr/bin/npx x", "python3 -m pipx run ctx"),
    *("python3.12 /home/me/.local/bin/uvx ctx", "C:\\Windows\\System32\\cmd.exe /c ctx", "npm exec x", ""),
)
CLIENTS = (
    *("claude", "/usr/bin/codex app-server", "node /usr/bin/gemini", "node --max-old-space-size=4096 /opt/agent.js"),
    *("python3 agent.py", "Code.exe --type=utility", "opencode", "/usr/bin/pytest", "node"),
)


@pytest.mark.parametrize("line", WRAPPERS)
def test_what_only_starts_something_else_is_a_wrapper(line: str) -> None:
    assert is_wrapper(line.split())


@pytest.mark.parametrize("line", CLIENTS)
def test_a_client_is_no_wrapper_whatever_runs_it(line: str) -> None:
    assert not is_wrapper(line.split())


def chain(lines: list[str]) -> Iterator[ProcessInfo]:
    """Ancestors with these command lines, nearest first, below the first process of the system."""
    yield from (ProcessInfo(100 - at, 99 - at, str(at), tuple(line.split())) for at, line in enumerate(lines))
    yield ProcessInfo(1, 0, "0", ("init",))


@given(some.lists(some.sampled_from(WRAPPERS), max_size=4), some.lists(some.sampled_from(CLIENTS), max_size=2))
def test_the_first_behind_all_wrappers_is_watched_and_never_the_first_of_the_system(
    wrappers: list[str], clients: list[str]
) -> None:
    found = find_client(chain([*wrappers, *clients]))
    assert (found.arguments if found else None) == (tuple(clients[0].split()) if clients else None)


def test_our_own_ancestors_begin_with_our_parent_and_end() -> None:
    told = list(list_ancestors(os.getpid()))
    assert told[0].pid == os.getppid()
    assert [one.pid for one in told[1:]] == [one.parent for one in told[:-1]]


def test_a_process_that_has_ended_is_not_there_also_while_nobody_has_noticed() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still in the table as a zombie
    assert read_process(child.pid) is None
    child.wait()
    assert read_process(child.pid) is None


@pytest.mark.skipif(not shutil.which("ps") or not Path("/proc/self").is_dir(), reason="compares ps with /proc")
def test_ps_says_the_same_as_proc() -> None:
    here, there = shutdown._read_proc(os.getppid()), shutdown._read_ps(os.getppid())
    assert here
    assert there
    assert (here.pid, here.parent) == (there.pid, there.parent)
    assert " ".join(here.arguments).split()[0] == there.arguments[0]
    assert shutdown._read_ps(2**22 + 1) is None


@pytest.mark.parametrize("system", ["says when", "is looked at"])
def test_the_end_of_whoever_started_us_is_told_once(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if system == "is looked at":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(shutdown, "EVERY_S", 3600.0 if system == "says when" and hasattr(os, "pidfd_open") else 0.01)
    client = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    while not (watched := read_process(client.pid)) or not watched.arguments:
        pass  # it is forked, but has not become `sleep` yet
    monkeypatch.setattr(shutdown, "list_ancestors", lambda _: iter([watched]))
    told = threading.Event()
    try:
        shutdown.watch_client(told.set)
        assert not told.wait(0.1)
        client.kill()
        assert told.wait(20)
    finally:
        client.kill()
        client.wait()
