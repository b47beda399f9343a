"""Changes out of git: every target names the versions it says, and no repository makes git start a program."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest

from context_engine.errors import GitUnavailable, InvalidArgument, PreconditionFailed, RefNotFound
from context_engine.repo.git import Git
from context_engine.repo.git_diffs import ChangeContents, DiffReader, DiffRequest, GitDiff
from context_engine.repo.paths import Root
from context_engine.text.diff_reader import parse_diff
from tests.support.trees import commit, git, repository, tree


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"a.py": "one\ntwo\n", "b.py": "b\n", "src/c.py": "c\n"})


def diffs(root: Path) -> DiffReader:
    return DiffReader(Git(root), Root(root))


def taken(root: Path, target: str = "staged", **asked: Any) -> GitDiff:
    return diffs(root).read_diff(DiffRequest(target, **asked))


def paths(root: Path, target: str = "staged", **asked: Any) -> list[str]:
    return [each.path for each in taken(root, target, **asked).files]


def versions(root: Path, found: GitDiff, **limits: Any) -> ChangeContents:
    return diffs(root).versions(found, **limits)


# -- which versions ---------------------------------------------------------------------------------------------------


def test_staged_unstaged_and_head_are_told_apart(repo: Path) -> None:
    tree(repo, {"a.py": "one\nTWO\n"})
    git(repo, "add", "a.py")
    tree(repo, {"b.py": "B\n", "new.py": "n\n"})
    assert paths(repo, "staged") == ["a.py"]
    assert paths(repo, "unstaged") == ["b.py"]
    assert paths(repo, "head") == ["a.py", "b.py"]
    assert paths(repo, "unstaged", include_untracked=True) == ["b.py", "new.py"]
    assert paths(repo, "staged", include_untracked=True) == ["a.py"]


def test_the_new_side_of_the_stage_is_the_stage_and_not_the_work_tree(repo: Path) -> None:
    tree(repo, {"a.py": "staged\n"})
    git(repo, "add", "a.py")
    tree(repo, {"a.py": "on disk\n"})
    for target, new in (("staged", b"staged\n"), ("unstaged", b"on disk\n"), ("head", b"on disk\n")):
        found = taken(repo, target)
        contents = versions(repo, found)
        assert contents.new == {"a.py": new}
        assert contents.old == {"a.py": b"staged\n" if target == "unstaged" else b"one\ntwo\n"}
        assert found.commit == ""


def test_a_commit_is_compared_with_its_first_parent(repo: Path) -> None:
    tree(repo, {"a.py": "1\n"})
    second = commit(repo, "second")
    tree(repo, {"b.py": "2\n"})
    commit(repo, "third")
    found = taken(repo, second)
    assert [each.path for each in found.files] == ["a.py"]
    assert (found.commit, found.base_commit) == (second, git(repo, "rev-parse", f"{second}^"))
    assert paths(repo, "HEAD") == ["b.py"]
    assert paths(repo, "HEAD~1") == ["a.py"]


def test_before_the_first_commit_all_that_is_staged_is_new(tmp_path: Path) -> None:
    root = repository(tmp_path / "new")
    tree(root, {"a": "1\n"})
    git(root, "add", "a")
    assert paths(root, "staged") == ["a"]
    assert paths(root, "head") == ["a"]


def test_a_branch_is_compared_with_where_it_left_the_default_branch(repo: Path) -> None:
    left = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "--quiet", "-b", "feature/größe")
    tree(repo, {"a.py": "1\n"})
    commit(repo, "one")
    tree(repo, {"b.py": "2\n"})
    commit(repo, "two")
    git(repo, "checkout", "--quiet", "main")
    tree(repo, {"main.py": "m\n"})
    commit(repo, "main goes on")
    found = taken(repo, "feature/größe")
    assert [each.path for each in found.files] == ["a.py", "b.py"]
    assert found.merge_base == left
    assert paths(repo, "main...feature/größe") == ["a.py", "b.py"]
    assert paths(repo, "feature/größe", base="main") == ["a.py", "b.py"]
    assert paths(repo, "main..feature/größe") == ["a.py", "b.py", "main.py"]
    assert paths(repo, "feature/größe..") == ["a.py", "b.py", "main.py"]


def test_histories_that_never_met_have_no_merge_base(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--orphan", "other")
    tree(repo, {"x": "1"})
    commit(repo, "other")
    with pytest.raises(PreconditionFailed, match="no common history") as caught:
        taken(repo, "other")
    assert "other" in caught.value.suggestion


def test_renames_and_modes_are_told(repo: Path) -> None:
    tree(repo, {"b.py": "line\n" * 30})
    commit(repo, "longer")
    git(repo, "mv", "b.py", "moved.py")
    (repo / "a.py").chmod(0o755)
    git(repo, "add", "--all")
    changed = {each.path: each for each in taken(repo).files}
    assert (changed["moved.py"].kind, changed["moved.py"].old_path) == ("renamed", "b.py")
    assert (changed["a.py"].hunks, changed["a.py"].new_mode) == ((), "100755")
    assert versions(repo, taken(repo)).new == versions(repo, taken(repo, "head")).new
    assert versions(repo, taken(repo)).old == {"a.py": b"one\ntwo\n", "b.py": b"line\n" * 30}


# -- what is missing --------------------------------------------------------------------------------------------------


def test_nothing_staged_is_a_refusal_that_says_what_there_is(repo: Path) -> None:
    tree(repo, {"a.py": "1\n", "b.py": "2\n"})
    with pytest.raises(PreconditionFailed, match="nothing is staged") as caught:
        taken(repo)
    assert "2 files are changed and not staged: target 'unstaged'" in caught.value.suggestion


def test_a_name_that_is_no_ref_is_refused_with_the_nearest(repo: Path) -> None:
    git(repo, "branch", "feature-login")
    with pytest.raises(RefNotFound) as caught:
        taken(repo, "feature-logn")
    assert caught.value.details["nearest"] == ["feature-login"]


@pytest.mark.parametrize("name", ["-x", "--output=stolen", "--upload-pack=x...HEAD", "HEAD..--output=stolen", "-1"])
def test_a_ref_that_begins_with_a_dash_is_refused(repo: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        taken(repo, name)
    with pytest.raises(InvalidArgument):
        taken(repo, "HEAD", base="--output=stolen")
    assert not list(repo.rglob("stolen*"))


def test_without_a_repository_git_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(GitUnavailable, match="not in a git repository"):
        taken(tree(tmp_path / "plain", {"a": "1"}))


def test_where_a_shallow_clone_ends_nobody_knows_what_changed(repo: Path, tmp_path: Path) -> None:
    tree(repo, {"a.py": "1\n"})
    commit(repo, "second")
    git(tmp_path, "clone", "--quiet", "--depth=1", repo.as_uri(), "cut")
    with pytest.raises(PreconditionFailed, match="shallow"):
        taken(tmp_path / "cut", "HEAD")


# -- odd files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "with blank.py",
        "größe.py",
        'quo"te.py',
        "new\nline.py",
        "tab\there.py",
        "back\\slash.py",
        "-dash.py",
        " b/x b/ x",
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_any_name_of_a_file_is_read_back(repo: Path, name: str) -> None:
    tree(repo, {name: "1\n2\n"})
    assert paths(repo, "unstaged", include_untracked=True) == [name]
    git(repo, "add", "--all")
    assert paths(repo, "staged") == [name]
    commit(repo, "named")
    tree(repo, {name: "1\nzwei\n"})
    found = taken(repo, "unstaged")
    assert [each.path for each in found.files] == [name]
    contents = versions(repo, found)
    assert (contents.old, contents.new) == ({name: b"1\n2\n"}, {name: b"1\nzwei\n"})


def test_a_new_file_is_shown_as_git_would_show_it(repo: Path) -> None:
    for name, content in {"t.txt": b"a\nb\n", "n.txt": b"no newline", "e.txt": b"", "b.bin": b"\0\1\2"}.items():
        tree(repo, {name: content})
        [ours] = taken(repo, "unstaged", include_untracked=True).files
        git(repo, "add", "--intent-to-add", name)
        theirs = parse_diff(git(repo, "diff", "--", name) + "\n")[0]
        git(repo, "reset", "--quiet", "--hard")
        assert (ours.hunks, ours.kind, ours.is_binary, ours.new_has_newline, ours.path) == (
            *(theirs.hunks, theirs.kind, theirs.is_binary, theirs.new_has_newline, theirs.path),
        )


def test_untracked_secrets_links_and_ignored_files_are_not_read_out(repo: Path) -> None:
    tree(repo, {".gitignore": "*.log\n", ".env": "TOKEN=1\n", "x.log": "x"})
    (repo / "out").symlink_to("/etc/passwd")
    found = taken(repo, "unstaged", include_untracked=True)
    assert [(each.path, each.reason) for each in found.left_out] == [(".env", "sensitive")]
    assert "TOKEN" not in found.text
    assert "root:" not in found.text
    added = {each.path: [line.text for line in each.added_lines] for each in found.files}
    assert added["out"] == ["/etc/passwd"]


def test_a_submodule_and_a_pointer_of_lfs_are_listed(repo: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", {"x": "1"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    tree(repo, {"big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 5\n"})
    git(repo, "add", "--all")
    found = taken(repo)
    changed = {each.path: each for each in found.files}
    assert changed["sub"].is_submodule
    assert changed["big.bin"].is_lfs
    contents = versions(repo, found)
    assert [(each.path, each.reason) for each in contents.left_out] == [("sub", "submodule")]


def test_a_file_that_becomes_a_link_is_one_file(repo: Path) -> None:
    (repo / "a.py").unlink()
    (repo / "a.py").symlink_to("b.py")
    git(repo, "add", "--all")
    found = taken(repo)
    (change,) = found.files
    assert (change.kind, change.old_mode, change.new_mode, change.is_symlink) == ("modified", "100644", "120000", True)
    assert [line.text for line in change.added_lines] == ["b.py"]
    contents = versions(repo, found)
    assert (contents.old, contents.new) == ({"a.py": b"one\ntwo\n"}, {"a.py": b"b.py"})


def test_of_a_folder_that_nobody_ignored_only_so_much_is_read(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.repo.git_diffs.UNTRACKED_MAX", 2)
    tree(repo, {f"new/{number}": "x\n" for number in range(5)})
    found = taken(repo, "unstaged", include_untracked=True)
    assert [each.path for each in found.files] == ["new/0", "new/1"]
    assert [(each.path, each.reason, each.detail) for each in found.left_out] == [
        ("new/2", "too_many", "3 more untracked files")
    ]


def test_in_the_middle_of_a_merge_the_conflict_is_seen_from_our_side(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "-b", "side")
    tree(repo, {"a.py": "side\n"})
    commit(repo, "side")
    git(repo, "checkout", "--quiet", "main")
    tree(repo, {"a.py": "main\n"})
    commit(repo, "main")
    with pytest.raises(CalledProcessError):
        git(repo, "merge", "side")
    for target in ("unstaged", "head"):
        found = taken(repo, target)
        assert paths(repo, target) == ["a.py"]
        assert ">>>>>>> side" in [line.text for each in found.files for line in each.added_lines]
        assert b">>>>>>> side" in versions(repo, found).new["a.py"]
    assert paths(repo, "staged") == ["a.py"]
    assert versions(repo, taken(repo, "staged")).new == {}
    assert {each.kind for each in taken(repo, "staged").files} == {"unmerged"}


# -- a repository with programs of its own -----------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="the traps are shell scripts")
def test_no_program_that_a_repository_names_is_started(repo: Path, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{traces}'\ncat\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    tree(
        repo,
        {
            ".gitattributes": "*.py diff=own filter=own\n*.txt filter=odd=name\n*.md filter=long\n",
            "t.txt": "t\n",
            "d.md": "d\n",
        },
    )
    commit(repo, "attributes")
    for name in (
        "diff.external",
        "core.fsmonitor",
        "diff.own.textconv",
        "diff.own.command",
        "core.pager",
        "gpg.program",
    ):
        git(repo, "config", name, str(program))
    for name in ("filter.own.clean", "filter.own.smudge", "filter.odd=name.clean", "filter.long.process"):
        git(repo, "config", name, str(program))
    git(repo, "config", "filter.long.required", "true")
    git(repo, "config", "core.hooksPath", str(tmp_path))
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (tmp_path / hook).symlink_to(program)
    traces.unlink(missing_ok=True)
    tree(repo, {"a.py": "1\n", "t.txt": "T\n", "d.md": "D\n", "new.py": "n\n"})
    assert paths(repo, "unstaged", include_untracked=True) == ["a.py", "d.md", "t.txt", "new.py"]
    assert paths(repo, "head") == ["a.py", "d.md", "t.txt"]
    versions(repo, taken(repo, "head"))
    with pytest.raises(PreconditionFailed, match="nothing is staged"):
        taken(repo, "staged")
    assert taken(repo, "HEAD").files
    assert not traces.exists(), traces.read_text()
    with suppress(CalledProcessError):  # its filter breaks it
        git(repo, "diff", "--ext-diff")
    assert traces.exists(), "the trap must work where nobody is careful"


def test_the_users_own_taste_in_diffs_changes_nothing(repo: Path) -> None:
    tree(repo, {"a.py": "1\n"})
    before = taken(repo, "unstaged").text
    for name, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "color.ui": "always",
        "color.diff": "always",
        "diff.context": "0",
        "diff.algorithm": "patience",
        "diff.submodule": "log",
        "diff.relative": "true",
        "diff.renames": "false",
        "diff.wordRegex": ".",
        "diff.orderFile": "nowhere",
        "core.quotepath": "true",
        "core.abbrev": "4",
    }.items():
        git(repo, "config", name, value)
    assert taken(repo, "unstaged").text == before


def test_a_diff_leaves_the_index_of_the_user_alone(repo: Path) -> None:
    index = repo / ".git" / "index"
    tree(repo, {"a.py": "1\n"})
    os.utime(repo / "b.py", (0, 0))
    before = index.read_bytes()
    assert paths(repo, "unstaged", include_untracked=True) == ["a.py"]
    assert paths(repo, "head") == ["a.py"]
    assert index.read_bytes() == before
