"""A program is run without a shell, for so long and no longer, and of what it says the end is kept."""

from __future__ import annotations

import doctest
import os
import sys
import time
from pathlib import Path

import pytest

from context_engine.workspace import running
from context_engine.workspace.running import program, run

PYTHON = sys.executable


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_example_holds() -> None:
    assert doctest.testmod(running).failed == 0


def test_it_runs_in_its_folder_and_gets_what_it_is_to_read(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), sys.stdin.read()); sys.exit(3)"
    ran = run([PYTHON, "-c", code], tmp_path, limit_s=30, stdin=b"told")
    assert (ran.code, ran.tail.strip()) == (3, f"{os.path.realpath(tmp_path)} told")


def test_no_shell_reads_its_words(tmp_path: Path) -> None:
    ran = run([PYTHON, "-c", "import sys; print(sys.argv[1:])", "; touch x", "$HOME", "*"], tmp_path, limit_s=30)
    assert ran.tail.strip() == "['; touch x', '$HOME', '*']"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="what may be run is told by its suffix there")
def test_a_program_is_not_taken_from_the_folder_one_happens_to_be_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "ruff"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert program("ruff") == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program("ruff") == str(planted)


def test_only_the_end_of_what_it_says_is_kept_from_the_beginning_of_a_line(tmp_path: Path) -> None:
    ran = run([PYTHON, "-c", "for n in range(9999): print('line', n)"], tmp_path, limit_s=30)
    assert ran.tail.startswith("…\nline ")
    assert ran.tail.endswith("line 9998\n")
    assert len(ran.tail) <= running.TAIL_BYTES + 1


def test_what_is_not_there_cannot_be_started(tmp_path: Path) -> None:
    ran = run(["no-such-program-anywhere"], tmp_path, limit_s=30)
    assert (ran.code, "cannot be started" in ran.why_not) == (None, True)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="Linux tells which processes there are")
def test_a_program_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    code = f"import subprocess, time; c = subprocess.Popen([{PYTHON!r}, '-c', 'import time; time.sleep(60)']); print(c.pid, flush=True); time.sleep(60)"
    ran = run([PYTHON, "-c", code], tmp_path, limit_s=1)
    assert (ran.code, ran.why_not) == (None, "it was ended after 1 s")
    child = int(ran.tail)
    until = time.monotonic() + 10
    while is_alive(child) and time.monotonic() < until:
        os.sched_yield()
    assert not is_alive(child)
