"""Mining: what is checked out decides which commits count, whatever was done to the history, and none is read twice."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import Cancelled, DiskFull
from context_engine.history import git_log
from context_engine.history.commit_facts import CommitTable, HistoryFile
from context_engine.history.mining import HistoryMiner, MinedHistory
from context_engine.repo.git import Git
from tests.support.trees import commit, git, repository, tree


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Three commits: first, second, third."""
    root = repository(tmp_path / "repo", {"a.txt": "1\n"})
    for subject in ("second", "third"):
        commit(tree(root, {"a.txt": f"{subject}\n"}), subject)
    return root


@pytest.fixture
def file(tmp_path: Path) -> HistoryFile:
    return HistoryFile(tmp_path / "cache" / "history")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Every command that git was given."""
    commands: list[tuple[str, ...]] = []
    run = Git.run

    def noted(self: Git, *words: str, **limits: Any) -> bytes:
        commands.append(words)
        return run(self, *words, **limits)

    monkeypatch.setattr(Git, "run", noted)
    return commands


def subjects(mined: MinedHistory) -> list[str]:
    return [each.subject for each in mined.facts.commits(mined.facts.heads[mined.head].rows)]


def read_by(commands: list[tuple[str, ...]]) -> int:
    """How many commits were read of git."""
    return sum(bool(re.fullmatch("[0-9a-f]{40}", word)) for words in commands if words[0] == "log" for word in words)


def test_what_is_known_starts_no_process(repo: Path, file: HistoryFile, asked: list) -> None:
    miner = HistoryMiner(Git(repo), file)
    first = miner.mine()
    asked.clear()
    assert miner.mine().facts is first.facts
    assert subjects(HistoryMiner(Git(repo), file).mine()) == subjects(first)
    assert asked == []


def test_a_rewritten_history_counts_as_it_is_now(repo: Path, file: HistoryFile, asked: list) -> None:
    miner = HistoryMiner(Git(repo), file)
    miner.mine()
    asked.clear()
    git(repo, "reset", "--quiet", "--hard", "HEAD^")
    commit(repo, "third, better")
    assert subjects(miner.mine()) == ["third, better", "second", "first"]
    assert read_by(asked) == 1


def test_work_trees_of_one_repository_share_what_was_read(
    repo: Path, file: HistoryFile, asked: list, tmp_path: Path
) -> None:
    HistoryMiner(Git(repo), file).mine()
    git(repo, "worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"))
    commit(tmp_path / "linked", "over there")
    asked.clear()
    assert subjects(HistoryMiner(Git(tmp_path / "linked"), file).mine()) == ["over there", "third", "second", "first"]
    assert read_by(asked) == 1


def test_a_clone_that_is_deepened_gains_what_it_lacked(repo: Path, file: HistoryFile, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{repo}", "shallow")
    miner = HistoryMiner(Git(shallow), file)
    mined = miner.mine()
    assert (subjects(mined), mined.facts.heads[mined.head].is_complete) == (["third"], False)
    git(shallow, "fetch", "--quiet", "--unshallow")
    mined = miner.mine()
    assert (subjects(mined), mined.facts.heads[mined.head].is_complete) == (["third", "second", "first"], True)


def test_what_did_not_fit_into_the_time_is_read_the_next_time(
    repo: Path, file: HistoryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_log, "BATCH", 1)
    ticks = iter([0.0, 1.0, 2.0, 11.0])
    monkeypatch.setitem(git_log.read_commits.__kwdefaults__ or {}, "clock", lambda: next(ticks, 0.0))
    miner = HistoryMiner(Git(repo), file, seconds=10)
    mined = miner.mine()
    assert (subjects(mined), mined.facts.heads[mined.head].is_complete) == (["third", "second"], False)
    assert mined.problem == "only the newest 2 commits are read"
    mined = miner.mine()
    assert (subjects(mined), mined.problem) == (["third", "second", "first"], "")


def test_only_the_newest_commits_count(repo: Path, file: HistoryFile) -> None:
    miner = HistoryMiner(Git(repo), file, most=2)
    for mined in (miner.mine(), miner.mine()):
        assert (subjects(mined), mined.problem) == (["third", "second"], "only the newest 2 commits are read")


def test_what_was_read_before_a_cancel_is_kept(repo: Path, file: HistoryFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_log, "BATCH", 1)
    cancel = threading.Event()
    run = Git.run

    def cancelling(self: Git, *words: str, **limits: Any) -> bytes:
        if words[0] == "log":
            cancel.set()
        return run(self, *words, **limits)

    monkeypatch.setattr(Git, "run", cancelling)
    with pytest.raises(Cancelled):
        HistoryMiner(Git(repo), file).mine(cancel=cancel)
    assert [each.subject for each in file.load().commits([0])] == ["third"]


def test_without_a_repository_there_is_a_reason_and_no_file(tmp_path: Path, file: HistoryFile) -> None:
    mined = HistoryMiner(Git(tmp_path), file).mine()
    assert (mined.facts.hashes, "no git repository" in mined.problem, file.path.exists()) == ((), True, False)


def test_a_disk_that_takes_nothing_is_told_and_does_not_matter(
    repo: Path, file: HistoryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: HistoryFile, facts: CommitTable) -> None:
        raise DiskFull("no room left", suggestion="free some space")

    monkeypatch.setattr(HistoryFile, "save", full)
    mined = HistoryMiner(Git(repo), file).mine()
    assert (subjects(mined), mined.problem) == (["third", "second", "first"], "no room left")


def test_a_damaged_file_is_mined_anew(repo: Path, file: HistoryFile) -> None:
    HistoryMiner(Git(repo), file).mine()
    file.path.write_bytes(file.path.read_bytes()[:-1])
    assert subjects(HistoryMiner(Git(repo), file).mine()) == ["third", "second", "first"]
    assert len(file.load().hashes) == 3


def test_objects_that_are_missing_are_a_problem_and_no_error(repo: Path, file: HistoryFile) -> None:
    tree_of_first = git(repo, "rev-parse", "HEAD~2^{tree}")
    (repo / ".git" / "objects" / tree_of_first[:2] / tree_of_first[2:]).unlink()
    assert "git log failed" in HistoryMiner(Git(repo), file).mine().problem


def test_what_another_process_read_is_not_lost(repo: Path, file: HistoryFile, tmp_path: Path) -> None:
    here, there = HistoryMiner(Git(repo), file), HistoryMiner(Git(tmp_path / "linked"), file)
    here.mine()
    git(repo, "worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"))
    commit(tmp_path / "linked", "over there")
    there.mine()
    commit(repo, "over here")
    here.mine()
    assert len(file.load().heads) == 3
