"""Mined commits on the disk: what was saved comes back, and what cannot be trusted counts as nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import WriteFailed
from context_engine.history import commit_facts
from context_engine.history.commit_facts import CommitTable, HeadCommits, HistoryFile
from context_engine.model import Commit, CommitFileChange
from tests.support.trees import ordinary_user

NAMES = st.sampled_from(["a.py", "b.py", "src/größe.py", "\udcff.txt", "x" * 300])
TOUCHES = st.builds(CommitFileChange, NAMES, st.one_of(st.just(""), NAMES), st.booleans())
COMMITS = st.builds(
    Commit,
    st.integers(0, 2**160 - 1).map("{:040x}".format),
    st.integers(-(2**40), 2**40),
    st.sampled_from(["Ann", "Bo", ""]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9),
    st.lists(TOUCHES, max_size=4).map(tuple),
)
HISTORIES = st.lists(COMMITS, max_size=9, unique_by=lambda commit: commit.hash)


def numbered(count: int, first: int = 0) -> list[Commit]:
    return [
        Commit(f"{number:040x}", number, "Ann", f"Step {number}", (CommitFileChange("a.py"),))
        for number in range(first, first + count)
    ]


def listed(*rows: int) -> HeadCommits:
    return HeadCommits(np.array(rows, np.int32))


def rows(facts: CommitTable) -> dict[str, list[int]]:
    return {head: each.rows.tolist() for head, each in facts.heads.items()}


@given(HISTORIES, HISTORIES)
def test_commits_are_kept_as_they_are_in_the_order_they_came(one: list[Commit], two: list[Commit]) -> None:
    facts = CommitTable.empty().with_commits(one).with_commits(two)
    assert facts.commits(range(len(facts.hashes))) == one + two


@given(HISTORIES)
def test_what_was_saved_is_what_is_loaded(tmp_path_factory: pytest.TempPathFactory, commits: list[Commit]) -> None:
    file = HistoryFile(tmp_path_factory.mktemp("history") / "one" / "history")
    order = HeadCommits(np.arange(len(commits), dtype=np.int32)[::-1], is_complete=False)
    file.save(CommitTable.empty().with_commits(commits).with_head("h" * 40, order))
    back = file.load()
    assert back.commits(range(len(back.hashes))) == commits
    assert rows(back) == {"h" * 40: order.rows.tolist()}
    assert not back.heads["h" * 40].is_complete
    assert [each.dtype for each in (back.at, back.path, back.is_gone)] == [np.int64, np.int32, bool]


@pytest.mark.parametrize("at", [0, 7, 8, 12, 40, -1])
def test_a_damaged_file_counts_as_none(tmp_path: Path, at: int) -> None:
    file = HistoryFile(tmp_path / "history")
    file.save(CommitTable.empty().with_commits(numbered(3)))
    raw = bytearray(file.path.read_bytes())
    raw[at] ^= 1
    file.path.write_bytes(raw)
    assert file.load().hashes == ()


@pytest.mark.parametrize("raw", [b"", b"ctxhist", b"ctxhist3", b"ctxhist3" + b"\0" * 8, b"something else entirely"])
def test_a_file_that_is_none_of_ours_counts_as_none(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "history").write_bytes(raw)
    assert HistoryFile(tmp_path / "history").load().hashes == ()


def test_saving_leaves_no_other_file(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "history")
    for count in (1, 2):
        file.save(CommitTable.empty().with_commits(numbered(count)))
    assert [path.name for path in tmp_path.iterdir()] == ["history"]


def test_a_folder_that_cannot_be_written_is_named() -> None:
    with ordinary_user() as folder:
        folder.chmod(0o500)
        with pytest.raises(WriteFailed, match="cannot be written"):
            HistoryFile(folder / "history").save(CommitTable.empty())


def test_the_heads_asked_for_last_are_remembered() -> None:
    facts = CommitTable.empty().with_commits(numbered(2))
    for head in "abcdefghij":
        facts = facts.with_head(head, listed(0))
    facts = facts.with_head("c", listed(1))
    assert list(facts.heads) == [*"defghij", "c"]
    assert rows(facts)["c"] == [1]


def test_facts_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a branch that is rewritten every day."""
    monkeypatch.setattr(CommitTable.trim, "__defaults__", (20,))
    facts = CommitTable.empty()
    for day in range(40):
        facts = facts.with_commits(numbered(3, first=3 * day))
        count = len(facts.hashes)
        facts = facts.with_head(f"day {day}", listed(count - 1, count - 2, count - 3))
    assert len(facts.hashes) <= 3 * commit_facts.LISTINGS_MAX
    assert [each.subject for each in facts.commits(facts.heads["day 39"].rows)] == ["Step 119", "Step 118", "Step 117"]
