"""Git: what is read from its files agrees with git itself, and no repository makes the command line do more than asked."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from context_engine.errors import AccessFailed, InvalidArgument, TooLarge, UnsupportedHost
from context_engine.repo.git import Git, origin_name
from context_engine.repo.git_files import GitHead, common_dir_of, repository_of
from tests.support.trees import commit, git, repository, tree


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"a.txt": "1\n", "src/b.txt": "2\n"})


# -- HEAD, without a process ----------------------------------------------------------------------------------------


def test_head_is_the_branch_and_its_commit(repo: Path) -> None:
    assert Git(repo).head() == GitHead("main", git(repo, "rev-parse", "HEAD"))


def test_a_repository_above_the_root_counts(repo: Path) -> None:
    assert Git(repo / "src").head() == Git(repo).head()
    found = repository_of(str(repo / "src"))
    assert found and found.top == str(repo)


def test_a_folder_without_a_repository_has_no_head(tmp_path: Path) -> None:
    plain = Git(tree(tmp_path / "plain", {"a": "1"}))
    assert (plain.head(), plain.repository) == (None, None)


@pytest.mark.parametrize("content", ["", "nonsense", "gitdir: nowhere", "gitdir: ../../../../etc"])
def test_a_git_file_that_leads_nowhere_is_no_repository(tmp_path: Path, content: str) -> None:
    assert Git(tree(tmp_path / "odd", {".git": content})).head() is None


def test_a_detached_head_has_a_commit_without_a_branch(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    assert Git(repo).head() == GitHead(None, git(repo, "rev-parse", "HEAD"))


def test_packed_refs_are_read(repo: Path) -> None:
    git(repo, "tag", "-a", "v1", "-m", "a tag adds a peeled line to the list")
    git(repo, "pack-refs", "--all", "--prune")
    assert not (repo / ".git" / "refs" / "heads" / "main").exists()
    assert Git(repo).head() == GitHead("main", git(repo, "rev-parse", "HEAD"))


@pytest.mark.parametrize("said", ["ref: ../../secret", "ref: refs/../../secret", "rubbish", ""])
def test_a_head_that_points_elsewhere_is_not_followed(repo: Path, said: str) -> None:
    tree(repo, {"secret": "a" * 40, ".git/HEAD": said})
    assert Git(repo).head() is None


def test_a_linked_work_tree_has_its_own_head_and_shares_the_rest(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(linked))
    second = commit(linked, "second")
    assert Git(linked).head() == GitHead("side", second)
    assert Git(repo).head() != Git(linked).head()
    git_dir = repo / ".git"
    assert Git(linked).repository == (str(linked), str(git_dir / "worktrees" / "linked"), str(git_dir))
    assert common_dir_of(str(linked)) == common_dir_of(str(repo)) == str(repo / ".git")


def test_a_look_at_head_starts_no_process(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at before every answer: starting git takes milliseconds."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", refused)
    monkeypatch.setattr(subprocess, "Popen", refused)
    head = Git(repo).head()
    assert head is not None
    assert head.branch == "main"


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", ["HEAD", "main", "HEAD~0", "v1"])
def test_a_ref_becomes_the_commit_it_names(repo: Path, ref: str) -> None:
    git(repo, "tag", "-a", "v1", "-m", "annotated")
    assert Git(repo).commit(ref) == git(repo, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "ref", ["", "nowhere", "--help", "--output=x", "-n1", "HEAD:a.txt", "a\0b", "HEAD\nHEAD", "f" * 40]
)
def test_what_names_no_commit_is_refused_and_never_read_as_an_option(repo: Path, ref: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        Git(repo).commit(ref)
    assert refusal.value.suggestion
    assert not (repo / "x").exists()


def test_without_git_the_error_says_so(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsupportedHost, match="not installed"):
        Git(repo).run("status")
    assert Git(repo).excludes_file() is None


def test_a_path_is_never_a_pattern(repo: Path) -> None:
    tree(repo, {":(exclude)a": "x", "*": "y"})
    assert Git(repo).run("ls-files", "-o", "--", "*").decode() == "*\n"
    assert Git(repo).run("ls-files", "-o", "--", ":(exclude)a").decode() == ":(exclude)a\n"


def test_variables_of_a_surrounding_git_do_not_lead_astray(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other", {"x": "1"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert Git(repo).run("ls-files").decode().split() == ["a.txt", "src/b.txt"]


def test_no_other_machine_is_reached(repo: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", {"x": "1"})
    git(repo, "config", "protocol.allow", "always")
    with pytest.raises(AccessFailed, match="not allowed"):
        Git(repo).run("fetch", str(other))


# -- the user's own ignore file ---------------------------------------------------------------------------------------


def test_the_ignore_file_of_the_user_is_the_configured_one(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tree(
        tmp_path / "mine", {"config": f"[core]\n\texcludesFile = {tmp_path}/mine/ignored\n", "ignored": "*.x\n"}
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine / "config"))
    assert Git(repo).excludes_file() == str(mine / "ignored")
    assert Git(tmp_path / "mine").excludes_file() == str(mine / "ignored")


def test_or_the_one_in_its_usual_place(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert Git(repo).excludes_file() is None
    tree(tmp_path / "xdg", {"git/ignore": "*.x\n"})
    assert Git(repo).excludes_file() == str(tmp_path / "xdg" / "git" / "ignore")


SAME = [
    "https://github.com/team/app",
    "https://github.com/team/app.git",
    "https://me:secret@GitHub.com/team/app/",
    "git@github.com:team/app.git",
    "ssh://git@github.com:22/team/app",
    "git://github.com/team/app",
]


@pytest.mark.parametrize("address", SAME)
def test_however_its_address_is_written(address: str) -> None:
    assert origin_name(address) == "github.com/team/app"


def test_clones_agree_and_folders_below_the_top_are_told_apart(tmp_path: Path) -> None:
    names = []
    for place in ("one", "two"):
        root = repository(tmp_path / place / "checkout", {"packages/web/a.py": "x"})
        git(root, "remote", "add", "origin", SAME[3])
        names += [Git(root).shared_name(), Git(root / "packages" / "web").shared_name()]
    assert names == ["github.com/team/app", "github.com/team/app/packages/web"] * 2


def test_what_comes_from_nowhere_is_called_like_its_folder(tmp_path: Path) -> None:
    assert Git(repository(tmp_path / "app")).shared_name() == "app"
    assert Git(tree(tmp_path / "loose", {"a.py": "x"})).shared_name() == "loose"


def test_before_the_first_commit_there_is_a_branch_without_one(tmp_path: Path) -> None:
    assert Git(repository(tmp_path / "new")).head() == GitHead("main", None)


def test_symbolic_refs_in_a_circle_have_no_commit(repo: Path) -> None:
    tree(repo / ".git", {"HEAD": "ref: refs/heads/x\n", "refs/heads/x": "ref: refs/heads/x\n"})
    head = Git(repo).head()
    assert head is not None
    assert head.commit is None


def test_a_submodule_is_a_repository_of_its_own(repo: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", {"x": "1"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    assert Git(repo / "sub").head() == GitHead("main", git(other, "rev-parse", "HEAD"))
    assert common_dir_of(str(repo / "sub")) != common_dir_of(str(repo))


def test_an_answer_over_the_limit_is_refused(repo: Path) -> None:
    with pytest.raises(TooLarge):
        Git(repo).run("log", bytes_max=10)


@pytest.mark.skipif(os.name != "posix", reason="the sleeper is a shell script")
def test_a_git_that_hangs_is_ended_with_all_it_started(repo: Path) -> None:
    git(repo, "config", "alias.wait", "!sleep 300 & sleep 300")
    began = time.perf_counter()
    with pytest.raises(AccessFailed, match="longer than"):
        Git(repo).run("wait", timeout_s=0.2)
    assert time.perf_counter() - began < 120
