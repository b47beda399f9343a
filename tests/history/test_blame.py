"""Blame says who wrote a line last, and starts no program that a repository names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from context_engine.history.code_history import Blame
from context_engine.repo.git import Git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "a.py", "one\ntwo\n", "2026-01-01T00:00:00Z")
    commit(tmp_path, "a.py", "one\nTWO\n\tauthor-time 1\n", "2026-02-01T00:00:00Z")
    return tmp_path


def git(root: Path, *args: str, date: str = "2026-01-01T00:00:00Z") -> str:
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = os.environ | who | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    return subprocess.run(["git", *args], cwd=root, env=env, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path, path: str, text: str, date: str) -> None:
    (root / path).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "change", date=date)


def test_each_line_has_the_commit_and_the_moment_it_was_written_in(repository: Path) -> None:
    blame = Blame(Git(repository))
    first, second = git(repository, "rev-list", "--reverse", "HEAD").split()
    assert [blame("a.py", line) for line in (1, 2, 3, 4)] == [
        (first, "2026-01-01T00:00:00Z"),
        (second, "2026-02-01T00:00:00Z"),
        (second, "2026-02-01T00:00:00Z"),
        None,
    ]


def test_lines_in_no_commit_and_files_git_does_not_know_are_nobodys(repository: Path, tmp_path: Path) -> None:
    (repository / "a.py").write_text("one\nTWO\nnew\n")
    (repository / "untracked.py").write_text("x\n")
    blame = Blame(Git(repository))
    assert blame("a.py", 1) is not None
    assert blame("a.py", 3) is blame("untracked.py", 1) is blame("no.py", 1) is None


@pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")
def test_no_program_of_the_repository_is_started(repository: Path) -> None:
    marker = repository / "started"
    program = repository / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat $1\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("*.py diff=evil\n")
    git(repository, "config", "diff.evil.textconv", str(program))
    assert Blame(Git(repository))("a.py", 1) is not None
    assert not marker.exists()
