"""Blame says who wrote a line last, and starts no program that a repository names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from context_engine.history.code_history import Blame
from context_engine.repo.git import Git
from tests.support.trees import commit, git, repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    repository(tmp_path)
    commit(tmp_path, "change", {"a.py": "one\ntwo\n"}, date="2026-01-01T00:00:00.000Z")
    commit(tmp_path, "change", {"a.py": "one\nTWO\n\tauthor-time 1\n"}, date="2026-02-01T00:00:00.000Z")
    return tmp_path


def test_each_line_has_the_commit_and_the_moment_it_was_written_in(root: Path) -> None:
    blame = Blame(Git(root))
    first, second = git(root, "rev-list", "--reverse", "HEAD").split()
    assert [blame("a.py", line) for line in (1, 2, 3, 4)] == [
        (first, "2026-01-01T00:00:00.000Z"),
        (second, "2026-02-01T00:00:00.000Z"),
        (second, "2026-02-01T00:00:00.000Z"),
        None,
    ]


def test_lines_in_no_commit_and_files_git_does_not_know_are_nobodys(root: Path) -> None:
    (root / "a.py").write_text("one\nTWO\nnew\n")
    (root / "untracked.py").write_text("x\n")
    blame = Blame(Git(root))
    assert blame("a.py", 1) is not None
    assert blame("a.py", 3) is blame("untracked.py", 1) is blame("no.py", 1) is None


@pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")
def test_no_program_of_the_repository_is_started(root: Path) -> None:
    marker = root / "started"
    program = root / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat $1\n")
    program.chmod(0o755)
    (root / ".gitattributes").write_text("*.py diff=evil\n")
    git(root, "config", "diff.evil.textconv", str(program))
    assert Blame(Git(root))("a.py", 1) is not None
    assert not marker.exists()
