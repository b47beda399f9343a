"""History as git tells it: the same commits and files as git itself names, and clear answers where there are none."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from context_engine.errors import AccessFailed, Cancelled
from context_engine.history import git_log
from context_engine.history.git_log import list_commits, read_commits
from context_engine.model import Commit, CommitFileChange
from context_engine.repo.git import Git
from tests.support.trees import commit, git, repository, tree


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Three commits: two files, a change of one, a rename of the other."""
    root = repository(tmp_path / "repo", {"a.txt": "1\n" * 9, "b.txt": "2\n" * 9})
    commit(tree(root, {"a.txt": "1\n" * 8}), "Shorten a")
    git(root, "mv", "b.txt", "c.txt")
    commit(root, "Call b c")
    return root


def all_of(root: Path) -> list[Commit]:
    reader = Git(root)
    return [each for batch in read_commits(reader, list_commits(reader).hashes) for each in batch]


# -- what there is --------------------------------------------------------------------------------------------------


def test_commits_come_newest_first_with_what_they_touched(repo: Path) -> None:
    found = all_of(repo)
    assert [(each.subject, each.files) for each in found] == [
        ("Call b c", (CommitFileChange("c.txt", was="b.txt"),)),
        ("Shorten a", (CommitFileChange("a.txt"),)),
        ("first", (CommitFileChange("a.txt"), CommitFileChange("b.txt"))),
    ]
    assert [each.hash for each in found] == git(repo, "rev-list", "HEAD").split()
    assert {each.author for each in found} == {"A"}
    assert [str(each.at) for each in found] == git(repo, "log", "--format=%ct").split()


def test_messages_that_were_written_on_windows_have_plain_line_ends(repo: Path) -> None:
    git(
        repo,
        "commit",
        "-q",
        "--allow-empty",
        "--cleanup=verbatim",
        "-m",
        "Paint it\r\n\r\nFirst red.\r\nThen blue.\r\n",
    )
    assert all_of(repo)[0].subject == "Paint it"
    (message,) = git_log.read_messages(Git(repo), "-1", "HEAD", "--", timeout_s=30)
    assert (message.subject, message.body) == ("Paint it", "First red.\nThen blue.")


def test_a_file_that_was_renamed_and_changed_is_one_file(repo: Path) -> None:
    git(repo, "mv", "a.txt", "z.txt")
    commit(tree(repo, {"z.txt": "1\n" * 8 + "new\n"}), "Move and add")
    assert all_of(repo)[0].files == (CommitFileChange("z.txt", was="a.txt"),)


def test_merges_are_left_out_and_what_they_merge_is_not(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "-b", "side", "HEAD^")
    commit(tree(repo, {"side.txt": "s\n"}), "On the side")
    git(repo, "checkout", "--quiet", "main")
    git(repo, "merge", "--quiet", "--no-ff", "-m", "Merge side", "side")
    subjects = [each.subject for each in all_of(repo)]
    assert "On the side" in subjects
    assert "Merge side" not in subjects


@pytest.mark.parametrize(
    "name", ["größe.txt", "two words", "tab\there", "line\nbreak", "\x01mark", "-dash", ":(glob)*"]
)
def test_any_file_name_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    assert all_of(repository(tmp_path / "odd", {name: "x\n"}))[0].files == (CommitFileChange(name),)


def test_a_name_that_is_no_text_survives(tmp_path: Path) -> None:
    root = repository(tmp_path / "odd")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff.txt")).write_text("x\n")
    commit(root, "Latin \udcff")
    found = all_of(root)[0]
    assert found.files == (CommitFileChange("\udcff.txt"),)
    found.subject.encode()  # may be shown


def test_authors_go_by_the_names_of_the_mailmap(repo: Path) -> None:
    commit(tree(repo, {".mailmap": "Ann Author <a@example.org>\n"}), "Names")
    assert {each.author for each in all_of(repo)} == {"Ann Author"}


def test_a_submodule_is_no_file(repo: Path, tmp_path: Path) -> None:
    repository(tmp_path / "other", {"x": "1\n"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "other"), "sub")
    git(repo, "commit", "--quiet", "-m", "Take in other")
    assert all_of(repo)[0].files == (CommitFileChange(".gitmodules"),)


def test_settings_of_the_repository_change_nothing(repo: Path) -> None:
    before = all_of(repo)
    for setting in (
        "diff.renames=false",
        "diff.relative=true",
        "log.showRoot=false",
        "diff.noprefix=true",
        "core.quotepath=on",
    ):
        git(repo, "config", *setting.split("="))
    tree(repo, {"sub/": ""})
    assert all_of(repo) == before
    assert all_of(repo / "sub") == before


# -- how much of it -------------------------------------------------------------------------------------------------


def test_a_git_that_takes_longer_than_what_is_left_ends_it(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> bytes:
        raise AccessFailed("git log took longer than 1 s", suggestion="try again")

    reader = Git(repo)
    hashes = list_commits(reader).hashes
    monkeypatch.setattr(Git, "run", late)
    assert list(read_commits(reader, hashes)) == []


def test_reading_can_be_cancelled(repo: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        list(read_commits(Git(repo), ["0" * 40], cancel=cancel))


def test_a_commit_that_says_too_much_is_known_without_its_files(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"{number:03d}-{'x' * 40}.txt": "1\n" for number in range(40)}
    commit(tree(repo, many), "Many files")
    run = Git.run
    monkeypatch.setattr(Git, "run", lambda self, *words, **limits: run(self, *words, **limits, bytes_max=1_000))
    found = all_of(repo)
    assert [(each.subject, len(each.files)) for each in found] == [
        ("Many files", 0),
        ("Call b c", 1),
        ("Shorten a", 1),
        ("first", 2),
    ]


# -- where there is none --------------------------------------------------------------------------------------------


def test_without_git_on_the_machine_it_says_so(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "not installed" in list_commits(Git(repo)).reason


def test_a_bare_repository_has_no_work_tree_and_no_history_here(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(repo), "bare.git")
    assert "no git repository" in list_commits(Git(tmp_path / "bare.git")).reason


def test_a_repository_without_its_objects_says_what_git_says(repo: Path) -> None:
    for pack in (repo / ".git" / "objects").glob("??/*"):
        pack.unlink()
    found = list_commits(Git(repo))
    assert found.hashes == ()
    assert "git rev-list failed" in found.reason


def test_a_clone_without_file_contents_still_has_exact_renames(repo: Path, tmp_path: Path) -> None:
    git(repo, "mv", "a.txt", "z.txt")
    commit(tree(repo, {"z.txt": "1\n" * 8 + "new\n"}), "Move and add")
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", "--no-checkout", f"file://{repo}", "partial")
    found = all_of(tmp_path / "partial")
    assert found[0].files == (CommitFileChange("a.txt", is_gone=True), CommitFileChange("z.txt"))
    assert found[1].files == (CommitFileChange("c.txt", was="b.txt"),)
