"""A program is run in one way: without a shell and without tokens, for so long and no longer, and nothing of it stays behind."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from context_engine.repo import subprocess_runner
from context_engine.repo.executables import find_program
from context_engine.repo.subprocess_runner import minimal_environment, run_program, temporary_files, without_secrets
from tests.support.children import HANGS
from tests.support.daemons import is_running
from tests.support.waiting import until

PYTHON = sys.executable
ON_LINUX = pytest.mark.skipif(not Path("/proc").is_dir(), reason="Linux tells which processes there are")
STARTS_ANOTHER = (
    f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {HANGS!r}]);print(c.pid, flush=True); "
)


def ran(code: str, folder: Path, *, limit_s: float = 30, merged: bool = False) -> subprocess_runner.ProgramResult:
    own = minimal_environment(os.environ)
    return run_program([PYTHON, "-c", code], folder, limit_s=limit_s, environment=own, merged=merged)


def test_it_runs_in_its_folder_and_has_nothing_to_read(tmp_path: Path) -> None:
    told = ran("import os, sys; print(os.getcwd(), sys.stdin.read()); sys.exit(3)", tmp_path)
    assert (told.exit, told.problem) == (3, "")
    assert told.out.decode().strip() == os.path.realpath(tmp_path)


def test_complaints_stand_apart_or_in_their_place(tmp_path: Path) -> None:
    code = "import sys; print('one', flush=True); print('two', file=sys.stderr, flush=True); print('three')"
    told = ran(code, tmp_path)
    assert (told.out.split(), told.err.split()) == ([b"one", b"three"], ["two"])
    assert ran(code, tmp_path, merged=True).out.split() == [b"one", b"two", b"three"]


@pytest.mark.skipif(os.name == "nt", reason="what may be run is told by its suffix there")
@pytest.mark.parametrize("path", [".", "tools", ""])
def test_a_program_is_not_taken_from_the_folder_one_happens_to_be_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    planted = tmp_path / path / "ruff"
    planted.parent.mkdir(exist_ok=True)
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    assert find_program("ruff") == ""
    monkeypatch.setenv("PATH", str(planted.parent))
    assert find_program("ruff") == str(planted)


@ON_LINUX
def test_a_program_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    told = ran(f"{STARTS_ANOTHER} {HANGS}", tmp_path, limit_s=1)
    assert (told.exit, told.problem) == (None, "took longer than 1.0 s")
    until(lambda: not is_running(int(told.out)))


@ON_LINUX
def test_what_a_program_leaves_behind_ends_with_it_and_nobody_waits_for_that(tmp_path: Path) -> None:
    told = ran(STARTS_ANOTHER, tmp_path, limit_s=50)
    assert (told.exit, told.problem) == (0, "")
    until(lambda: not is_running(int(told.out)))


@ON_LINUX
def test_a_program_may_clean_up_before_it_is_killed(tmp_path: Path) -> None:
    deaf = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit(0)));"
    told = ran(f"{deaf} print('here', flush=True); {HANGS}", tmp_path, limit_s=1)
    assert (told.exit, told.out.split()) == (None, [b"here", b"bye"])


@ON_LINUX
def test_a_program_that_nobody_waits_for_any_more_is_ended(tmp_path: Path) -> None:
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    words = [PYTHON, "-c", f"{STARTS_ANOTHER} {HANGS}"]
    told = run_program(words, tmp_path, limit_s=50, environment=minimal_environment(os.environ), cancel=cancel)
    assert (told.exit, told.problem) == (None, "was cancelled")
    until(lambda: not is_running(int(told.out)))


def test_a_program_that_will_not_stop_talking_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_runner, "WRITTEN_BYTES_MAX", 1_000_000)
    told = ran("while True: print('again and again' * 100)", tmp_path, limit_s=60)
    assert (told.exit, told.problem) == (None, "said more than 1 MB")
    assert len(told.out) <= subprocess_runner.OUTPUT_BYTES_MAX


@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "PGPASSWORD", "MYSQL_PWD", "npm_token"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "CTX_STORE_URL", "CI_JOB_TOKEN", "DB_PASSWD", "SIGNING_PRIVATE_KEY"),
    ],
)
def test_a_command_that_was_allowed_gets_all_but_secrets(name: str) -> None:
    others = {"PWD": "/src", "TOKENIZERS_PARALLELISM": "no", "KEYBOARD": "de", "DATABASE_URL": "test.db"}
    assert without_secrets({name: "x", **others}) == others


def test_a_folder_apart_holds_the_files_and_nothing_leads_out_of_it(tmp_path: Path) -> None:
    with temporary_files(tmp_path, {"a/b.txt": b"1", "../out.txt": b"2", "/etc/x": b"3", "a": b"4"}) as folder:
        assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")) == ["a", "a/b.txt"]
        assert not (folder.parent / "out.txt").exists()
    assert not folder.exists()
