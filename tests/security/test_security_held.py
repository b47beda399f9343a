"""Rules of a repository that git matches in every combination: they hold no command, and the file with them is named."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.errors import ContextEngineError, TimedOut
from context_engine.plans.step_tracking import PlanWorkTree
from context_engine.repo import DiffRequest, Git, GitRevision, Root, cloning
from context_engine.review.finding import ReviewOptions
from tests.support.engines import indexed
from tests.support.trees import git, repository, tree

pytestmark = pytest.mark.hostile
HELD_S = 10.0
"""Each call takes a tenth of a second here; git alone takes hours."""
RULE = "*a" * 14 + "b"
LONG_NAME = "a" * 120 + ".py"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A clone with 30 bytes of ignore rules, and one file that they are tried on."""
    root = repository(tmp_path / "work", {"ok.py": "def alpha():\n    return 1\n"})
    return tree(root, {".gitignore": f"{RULE}\n", LONG_NAME: "def beta():\n    return 2\n"})


CALLS: dict[str, Callable[[Engine], object]] = {
    "a review with new files": lambda engine: (
        engine.reviews.review_git(DiffRequest("head", include_untracked=True), ReviewOptions())[0].files
    ),
    "the start of a step": lambda engine: PlanWorkTree(Root(engine.root), engine.git).take_baseline().dirty,
    "the files of the work tree": lambda engine: GitRevision(engine.git, GitRevision.WORK_TREE).paths(),
    "words in the work tree": lambda engine: GitRevision(
        engine.git, GitRevision.WORK_TREE, lambda path: (engine.root / path).read_bytes()
    ).files_with_words(["beta"]),
}


@pytest.mark.parametrize("call", CALLS)
def test_ignore_rules_that_hold_git_hold_no_call_of_ours(hostile: Path, call: str) -> None:
    with indexed(hostile, watch=False, flush=False) as engine:
        began = time.monotonic()
        assert LONG_NAME in str(CALLS[call](engine))
        assert time.monotonic() - began < HELD_S


def test_a_step_keeps_its_baseline_and_finds_what_it_changed(hostile: Path) -> None:
    work = PlanWorkTree(Root(hostile), Git(hostile))
    base = work.take_baseline()
    tree(hostile, {"new.py": "x = 1\n", "image.png": b"\x89PNG", "ok.py": "changed\n"})
    assert work.find_changes_since(base) == ({"new.py", "image.png", "ok.py"}, "")


@pytest.mark.parametrize("call", [("diff", "HEAD"), ("log", "-p", "-1"), ("blame", "--", LONG_NAME)], ids=" ".join)
def test_attributes_that_hold_git_end_a_command_with_an_error_that_names_them(
    tmp_path: Path, call: tuple[str, ...]
) -> None:
    root = repository(tmp_path / "work", {LONG_NAME: "x = 1\n", "sub/ok.py": "x = 1\n"})
    tree(root, {LONG_NAME: "x = 2\n", ".gitattributes": f"*.py diff=python\n\n{RULE} -diff\n"})
    began = time.monotonic()
    error = ended(Git(root), call)
    assert time.monotonic() - began < HELD_S
    if error is not None:  # git 2.41 matches them at once
        assert "line 3 of .gitattributes has a pattern of 14 stars" in error.message
        assert (error.retryable, "try again" in error.suggestion) == (False, False)


def test_a_step_that_has_no_baseline_says_at_its_end_why(tmp_path: Path) -> None:
    root = repository(tmp_path / "work", {LONG_NAME: "x = 1\n"})
    tree(root, {LONG_NAME: "x = 2\n", ".gitattributes": f"{RULE} -diff\n"})
    work = PlanWorkTree(Root(root), Git(root))
    base = work.take_baseline()
    assert base.commit or "line 1 of .gitattributes" in base.problem
    assert base.commit or "line 1 of .gitattributes" in work.find_changes_since(base)[1]


def test_attributes_that_hold_a_checkout_end_a_clone(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", {LONG_NAME: "x = 1\n"})
    (tmp_path / "rules").write_text(f"{RULE} text\n")
    blob = git(origin, "hash-object", "-w", str(tmp_path / "rules"))
    held = git(origin, "ls-tree", "HEAD").partition("\t")[0]
    rows = f"100644 blob {blob}\t.gitattributes\n{held}\t{LONG_NAME}\n"
    made = subprocess.run(["git", "mktree"], cwd=origin, input=rows.encode(), capture_output=True, check=True).stdout
    hash_of_commit = git(origin, "commit-tree", "-m", "rules", made.decode().strip())
    git(origin, "update-ref", "refs/heads/main", hash_of_commit)
    began = time.monotonic()
    try:
        cloning.clone(tmp_path / "clone", f"file://{origin}")
    except TimedOut as error:
        assert "line 1 of .gitattributes" in error.message  # noqa: PT017 - a newer git clones it
    assert time.monotonic() - began < HELD_S


def ended(here: Git, call: tuple[str, ...]) -> TimedOut | None:
    """The error of a command that had to be ended."""
    try:
        here.run(*call)
    except TimedOut as error:
        return error
    return None


def test_a_command_of_git_that_takes_too_long_is_not_called_retryable(tmp_path: Path) -> None:
    root = repository(tmp_path / "work", {"a.py": "x\n" * 9_000})
    tree(root, {"a.py": "y\n" * 9_000})
    with pytest.raises(TimedOut) as caught:
        Git(root).run("diff", "HEAD", timeout_s=0.0)
    assert not caught.value.retryable


# -- the same files as git lists, where git can ------------------------------------------------------------------------

NAMES = ("a.py", "b.log", "keep.log", "sub", "lib", "ä.txt", ".hidden", "node_modules", "x.png", ".env")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
RULES = st.lists(st.sampled_from(("*.log", "!keep.log", "sub/", "/lib", "a.*", "**/x.png", "lib/*", "!lib/a.py")))


@settings(max_examples=40)
@given(st.sets(PATHS, max_size=8), st.sets(PATHS, max_size=8), RULES, RULES)
def test_untracked_files_are_those_that_git_lists(
    tmp_path_factory: pytest.TempPathFactory, tracked: set[str], new: set[str], rules: list[str], inner: list[str]
) -> None:
    root = repository(tmp_path_factory.mktemp("work") / "r")
    write(root, tracked)
    git(root, "add", "--all")
    write(root, {*new, "sub/.gitignore", ".gitignore"} if inner else new)
    for folder, lines in (("", rules), ("sub", inner)):
        if lines and (root / folder).is_dir():
            (root / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    (root / "link").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    listed = git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    assert Git(root).untracked_paths() == sorted(filter(None, listed))


def write(root: Path, paths: set[str]) -> None:
    """Write these files, as far as one is not the folder of another."""
    for path in sorted(paths):
        try:
            tree(root, {path: path})
        except OSError:
            continue


def test_another_repository_inside_and_rules_from_above_and_of_the_user_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "GIT_CONFIG_GLOBAL", str(tree(tmp_path, {"config": f"[core]\nexcludesFile={tmp_path}/mine\n"}) / "config")
    )
    tree(tmp_path, {"mine": "*.mine\n"})
    root = repository(tmp_path / "work", {"in/a.py": "", ".gitignore": "*.log\n"})
    tree(root, {".git/info/exclude": "*.own\n", "out.py": ""})
    tree(root, {f"in/{name}": "" for name in ("b.py", "b.log", "b.mine", "b.own", "b.png")})
    repository(root / "in" / "other", {"c.py": ""})
    assert Git(root / "in").untracked_paths() == ["b.png", "b.py"]
    assert Git(root).untracked_paths() == ["in/b.png", "in/b.py", "out.py"]


def test_without_a_repository_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(ContextEngineError):
        Git(tmp_path).untracked_paths()
