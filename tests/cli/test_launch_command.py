"""How a client will start `ctx`: the same installation, later, from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.cli.clients import launch_command as launching
from context_engine.cli.clients.launch_command import (
    LaunchCommand,
    ProcessOrigin,
    find_launch_command,
    make_portable,
    starts_ctx,
)


def started(argv0: str = "/opt/ctx/bin/ctx", prefix: str = "/opt/ctx") -> ProcessOrigin:
    return ProcessOrigin(argv0=argv0, python=f"{prefix}/bin/python", prefix=prefix, scripts=f"{prefix}/bin")


def nowhere(_: str) -> None:
    return None


def test_it_is_the_script_that_was_run_links_and_all() -> None:
    link = "/home/me/.local/bin/ctx"  # what it leads to moves with each upgrade
    assert find_launch_command(started(link), {link}.__contains__, nowhere) == LaunchCommand(link)


def test_without_a_script_python_starts_the_module_and_it_is_said() -> None:
    found = find_launch_command(started(), set().__contains__, nowhere)
    assert found.command_line == ("/opt/ctx/bin/python", "-P", "-m", "context_engine")
    assert "no ctx script" in found.note


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("/home/me/.cache/uv/archive-v0/Xy1", ("/bin/uvx", "smart-context-engine")),
        ("/home/me/.cache/uv/environments-v2/ctx-1", ("/bin/uvx", "smart-context-engine")),
        (r"C:\Users\me\AppData\Local\uv\cache\archive-v0\Xy1", ("/bin/uvx", "smart-context-engine")),
        ("/home/me/.local/share/pipx/.cache/3f1", ("/bin/pipx", "run", "smart-context-engine")),
        ("/home/me/.cache/pipx/3f1", ("/bin/pipx", "run", "smart-context-engine")),
    ],
)
def test_what_runs_from_a_cache_is_started_through_what_filled_it(prefix: str, words: tuple[str, ...]) -> None:
    found = find_launch_command(started(f"{prefix}/bin/ctx", prefix), lambda _: True, lambda name: f"/bin/{name}")
    assert found.command_line == words
    assert "cache" in found.note


@pytest.mark.parametrize(
    ("runner", "prefix", "words"),
    [
        ("uvx", "/c/uv/archive-v0/X", ("--from", "file:///src/ctx", "ctx")),
        ("pipx", "/c/pipx/.cache/X", ("run", "--spec", "file:///src/ctx", "ctx")),
    ],
)
def test_what_came_from_no_index_is_named_by_where_it_came_from(
    runner: str, prefix: str, words: tuple[str, ...]
) -> None:
    here = ProcessOrigin(f"{prefix}/bin/ctx", f"{prefix}/bin/python", prefix, f"{prefix}/bin", "file:///src/ctx")
    found = find_launch_command(here, lambda _: True, nowhere)
    assert found.command_line == (runner, *words)
    assert starts_ctx(found.command_line)


def test_a_shared_file_names_it_by_name_where_the_path_leads_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "ctx"
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert make_portable(LaunchCommand(str(script))) == LaunchCommand("ctx")
    other = make_portable(LaunchCommand("/elsewhere/ctx"))
    assert other.command == "/elsewhere/ctx"
    assert "shared" in other.note


def test_another_program_of_a_similar_name_is_not_ours() -> None:
    assert not starts_ctx(["npx", "-y", "ctx-server"])
    assert not starts_ctx(["/usr/bin/ctxd"])
    assert not starts_ctx([])
    assert starts_ctx(["/usr/bin/python3", "-m", "context_engine", "serve"])
    assert launching.PACKAGE in launching.SCRIPTS
