"""Numbers about files out of commits: laws in plainer words than the code, over small histories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.history.commit_facts import CommitTable, HeadCommits, HistoryFile
from context_engine.history.file_history import HALF_LIFE_S, TOGETHER_FILES_MAX, FileHistory
from context_engine.history.mining import HistoryMiner
from context_engine.model import Commit, CommitFileChange
from context_engine.repo.git import Git
from tests.support.trees import commit, git, repository, tree

FILES = ("a", "b", "c", "d/e")
SMALL = st.lists(st.sets(st.sampled_from(FILES), min_size=1), max_size=9)


def history(
    *touched: Sequence[CommitFileChange | str],
    days: Sequence[float] = (),
    subjects: Sequence[str] = (),
    under: str = "",
) -> FileHistory:
    """Commits newest first, each by what it touched, `days` before the newest."""
    rows = [
        [touch if isinstance(touch, CommitFileChange) else CommitFileChange(touch) for touch in each]
        for each in touched
    ]
    ages = days or range(len(rows))
    told = subjects or [f"Step {number}" for number in range(len(rows))]
    commits = [
        Commit(f"{number:040x}", int(2e9 - age * 86_400), "AB"[number % 2], subject, tuple(each))
        for number, (each, age, subject) in enumerate(zip(rows, ages, told, strict=True))
    ]
    facts = CommitTable.empty().with_commits(commits[::-1])  # rows stand in the order in which they were read
    order = np.arange(len(commits), dtype=np.int32)[::-1].copy()
    return FileHistory(facts.with_head("head", HeadCommits(order)), "head", under=under)


# -- counting ---------------------------------------------------------------------------------------------------------


@given(SMALL)
def test_a_file_has_the_commits_that_touched_it(touched: list[set[str]]) -> None:
    found = history(*map(sorted, touched))
    expected = [sum(path in each for each in touched) for path in FILES]
    assert found.frequency(FILES).tolist() == expected
    assert [record.commits if (record := found.record(path)) else 0 for path in FILES] == expected


@given(SMALL)
def test_a_commit_loses_half_its_weight_in_a_half_life(touched: list[set[str]]) -> None:
    ages = [HALF_LIFE_S / 86_400 * number for number in range(len(touched))]
    recent = history(*map(sorted, touched), days=ages).recency(FILES)
    for path, value in zip(FILES, recent, strict=True):
        assert value == pytest.approx(sum(0.5**age for age, each in enumerate(touched) if path in each), abs=1e-9)


@given(SMALL)
def test_partners_are_counted_as_one_would_by_hand(touched: list[set[str]]) -> None:
    found = history(*map(sorted, touched))
    for path in FILES:
        of_it = [each for each in touched if path in each]
        expected = {other: sum(other in each for each in of_it) for other in FILES if other != path}
        assert {partner.path: partner.together for partner in found.list_cochanged(path, support=1)} == {
            other: count for other, count in expected.items() if count
        }
        assert all(
            partner.confidence == partner.together / len(of_it) for partner in found.list_cochanged(path, support=1)
        )


def test_a_commit_of_many_files_says_nothing_of_pairs() -> None:
    many = [f"f{number}" for number in range(TOGETHER_FILES_MAX + 1)]
    found = history(many, many[:TOGETHER_FILES_MAX])
    assert [partner.together for partner in found.list_cochanged("f0", support=1)] == [1] * (TOGETHER_FILES_MAX - 1)
    assert found.list_cochanged("f10", support=1) == []
    assert found.frequency(["f0"]).tolist() == [2]


def test_only_what_is_nearly_always_changed_too_is_said_aloud() -> None:
    both = [("a", "b")] * 5
    assert [each.path for each in history(*both).list_usual_cochanges("a")] == ["b"]
    assert history(*both[1:]).list_usual_cochanges("a") == []  # four times are too few
    assert [each.path for each in history(*both, ("a",)).list_usual_cochanges("a")] == ["b"]  # five of six
    assert history(*both, ("a",), ("a",)).list_usual_cochanges("a") == []  # five of seven


def test_a_file_that_is_gone_is_nobodys_partner_and_not_hot() -> None:
    found = history((CommitFileChange("b", is_gone=True),), ("a", "b"), ("a", "b"), ("c",))
    assert found.list_cochanged("a", support=1) == []
    assert found.list_hot_files(9) == ["a", "c"]


def test_hot_files_are_those_changed_most_these_days() -> None:
    found = history(("new",), ("new",), ("old",), ("old",), ("old",), ("also",), days=[0, 1, 900, 901, 902, 903])
    assert found.list_hot_files(2) == ["new", "old"]


def test_a_record_says_who_and_when() -> None:
    record = history(("a",), ("a",), ("a",), days=[0, 10, 20]).record("a")
    assert record is not None
    assert record.authors == (("A", 2), ("B", 1))
    assert record.last_at == int(2e9)


def test_numbers_do_not_depend_on_the_clock() -> None:
    """Decay counts from the newest commit: a history of long ago ranks as it did then."""
    early = history(("a",), ("b",), days=[9_000, 9_000 + HALF_LIFE_S / 86_400])
    assert early.recency(["a", "b"]).tolist() == pytest.approx([1, 0.5])


# -- like tasks -------------------------------------------------------------------------------------------------------

TASKS = ("keep the order of headers", "draw a logo", "a logo in colour", "sort the cookies of a jar")


def test_files_of_a_commit_that_said_the_same_are_found() -> None:
    found = history(("http.py",), ("logo.svg",), ("logo.svg",), ("jar.py",), subjects=TASKS)
    assert found.find_similar_changes("keep the headers in order") == {"http.py": 1.0}
    assert found.find_similar_changes("nobody ever said anything of the kind") == {}


def test_what_a_like_commit_changed_counts_by_its_present_name_if_it_is_there() -> None:
    touched = [
        (CommitFileChange("gone.py", is_gone=True), CommitFileChange("new.py", was="old.py")),
        ("old.py", "gone.py"),
    ]
    assert history(*touched, subjects=("move", "order headers")).find_similar_changes("order headers") == {
        "new.py": 1.0
    }


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_renamed_file_keeps_its_past() -> None:
    found = history(("new",), (CommitFileChange("new", was="old"),), ("old", "with"), ("old", "with"))
    record = found.record("new")
    assert record is not None
    assert record.commits == 4
    assert [each.path for each in found.list_cochanged("with")] == ["new"]
    assert found.map_renames == {"old": "new"}
    assert found.record("old") is None


def test_a_file_renamed_twice_is_one_file() -> None:
    found = history((CommitFileChange("c", was="b"),), ("b",), (CommitFileChange("b", was="a"),), ("a",))
    assert found.frequency(["a", "b", "c"]).tolist() == [0, 0, 4]
    assert found.map_renames == {"a": "c", "b": "c"}


def test_a_new_file_under_an_old_name_is_another_file() -> None:
    found = history(("a",), ("a",), (CommitFileChange("b", was="a"),), ("a",))
    assert found.frequency(["a", "b"]).tolist() == [2, 2]
    assert found.map_renames == {}  # `a` is there again, and means itself


def test_two_files_that_swapped_names_keep_their_own_past() -> None:
    found = history((CommitFileChange("a", was="b"), CommitFileChange("b", was="a")), ("a",), ("a",), ("b",))
    assert found.frequency(["a", "b"]).tolist() == [2, 3]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), max_size=9))
def test_any_renames_lose_no_touch(steps: list[tuple[str, str]]) -> None:
    """However files were called, each commit counts once for one file."""
    found = history(*[(CommitFileChange(now, was=was) if was != now else CommitFileChange(now),) for was, now in steps])
    assert found.frequency(found.paths).sum() == len(steps)


def test_in_a_folder_of_the_repository_paths_begin_there() -> None:
    touched = [
        ("src/a", "src/b", "top"),
        (CommitFileChange("src/b", was="src/old"),),
        (CommitFileChange("src/a", was="elsewhere"),),
        ("srcs/x",),
    ]
    found = history(*touched, under="src")
    assert found.paths == ("a", "b")
    assert found.map_renames == {"old": "b"}
    assert found.frequency(["a", "b", "top"]).tolist() == [2, 2, 0]
    assert [each.path for each in found.list_cochanged("a", support=1)] == ["b"]


# -- with git itself --------------------------------------------------------------------------------------------------


def test_what_git_log_follow_says_is_what_is_counted(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", {"first.txt": "line\n" * 20, "other.txt": "x\n"})
    commit(tree(root, {"first.txt": "line\n" * 21}), "Longer")
    git(root, "mv", "first.txt", "second.txt")
    commit(root, "Another name")
    commit(tree(root, {"second.txt": "line\n" * 22, "first.txt": "something new\n"}), "Longer still, and a new first")
    mined = HistoryMiner(Git(root), HistoryFile(tmp_path / "history")).mine()
    found = FileHistory(mined.facts, mined.head)
    for path in ("second.txt", "other.txt"):
        followed = git(root, "log", "--follow", "--format=%h", "--", path).split()
        assert found.frequency([path]).tolist() == [len(followed)]
