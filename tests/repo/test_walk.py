"""The walk: the same files as git lists, by the same rules; all else is skipped with its reason, and a sweep says when it is old."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.errors import AccessFailed, FileNotFound
from context_engine.repo.walker import CACHE_TAG, ScanResult, scan, walk
from tests.support.trees import ALONE, commit, git, ordinary_user, repository, tree

POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")


def paths(root: Path, *, under: str = "", check: Callable[[], None] | None = None) -> list[str]:
    """The files that a walk finds."""
    return [str(entry.path) for entry in walk(root, [under], check=check).entries]


def reasons(root: Path) -> dict[str, str]:
    """What a walk leaves out: path -> reason."""
    return {each.path: each.reason for each in walk(root).skipped}


def listed_by_git(root: Path, excludes_file: str = "") -> list[str]:
    """The files of a work tree without commits that git does not ignore."""
    options = ["-c", f"core.excludesFile={excludes_file or os.devnull}"]
    done = subprocess.run(
        ["git", *options, "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=root, env=os.environ | ALONE, check=True, capture_output=True,
    )  # fmt: skip
    return sorted(os.fsdecode(done.stdout).split("\0")[:-1])


# -- what there is ----------------------------------------------------------------------------------------------------


def test_every_file_is_found_with_its_size_and_time_in_order(tmp_path: Path) -> None:
    root = tree(tmp_path, {"b.py": "22", "a/z.py": "1", "a-b/x": "", "a/deep/er/y.py": "4444", "empty/": ""})
    entries = walk(root).entries
    assert [(str(entry.path), entry.size) for entry in entries] == [
        ("a-b/x", 0), ("a/deep/er/y.py", 4), ("a/z.py", 1), ("b.py", 2)
    ]  # fmt: skip
    assert [entry.mtime_ns for entry in entries] == [(root / entry.path).stat().st_mtime_ns for entry in entries]


@pytest.mark.parametrize("root", ["nowhere", "a.py", "a.py/below"])
def test_a_root_that_is_no_folder_is_not_found(tmp_path: Path, root: str) -> None:
    tree(tmp_path, {"a.py": "1"})
    with pytest.raises(FileNotFound):
        walk(tmp_path / root)


@POSIX
def test_a_root_that_cannot_be_listed_is_an_error_a_person_can_mend() -> None:
    with ordinary_user() as place:
        tree(place / "closed", {"a.py": "1"}).chmod(0)
        with pytest.raises(AccessFailed) as failure:
            walk(place / "closed")
    assert failure.value.suggestion


# -- a part of it -----------------------------------------------------------------------------------------------------

PART = {
    ".gitignore": "*.log\n/out/\nsrc/gen/\n!keep.log\n",
    "src/.gitignore": "*.tmp\n",
    "src/a.py": "1",
    "src/a.tmp": "1",
    "src/a.log": "1",
    "src/keep.log": "1",
    "src/gen/x.py": "1",
    "src/deep/er/b.py": "1",
    "out/src/c.py": "1",
    "node_modules/m/d.js": "1",
    "d.py": "1",
}


@pytest.mark.parametrize(
    "under",
    [
        *("", ".", "src", "src/", "./src", "src/deep", "src/a.py", "src/a.tmp", "src/gen", "out/src", "out/src/c.py"),
        *"node_modules node_modules/m/d.js nowhere src/nowhere.py d.py/below src/keep.log src/a.log".split(),
    ],
)
def test_a_part_is_judged_by_the_rules_on_the_way_to_it(tmp_path: Path, under: str) -> None:
    root = tree(tmp_path, PART)
    inside = under.removeprefix("./").rstrip("/")
    expected = [path for path in paths(root) if inside in {"", "."} or f"{path}/".startswith(f"{inside}/")]
    assert paths(root, under=under) == expected


@pytest.mark.parametrize("under", ["..", "../other", "/etc", "src/../../other", "a\0b", ".git", ".git/config"])
def test_a_part_outside_is_nothing(tmp_path: Path, under: str) -> None:
    tree(tmp_path / "other", {"secret.py": "1"})
    root = repository(tmp_path / "root", {"src/a.py": "1"})
    assert paths(root, under=under) == []


# -- ignore rules: git is the oracle ----------------------------------------------------------------------------------

NAMES = ("a", "b", "ab", "a.c", "b.c", " ", "a b", "#a", "!a", "a]", "[a", "a\\b", "é", "A", "-")
PIECES = (
    *("a", "b", "c", ".c", "é", "A", " ", "#", "!", "-", "]", "/", "/", "*", "*", "**", "**/", "/**", "/**/", "?"),
    *("[ab]", "[!a]", "[^a]", "[a-b]", "[]a]", "[a", "[[:alpha:]]", "[[:space:]]", "[[:nope:]]", "[\\]a]", "[b-a]"),
    *("[a/b]", "[*]", "\\", "\\a", "\\*", "\\#", "\\!", "\\ ", "\t", "\r", "[!", "[]", "[^]a]", "[a-]", "[--a]"),
)


@pytest.mark.parametrize(
    "pattern",
    [
        *("a", "/a", "a/", "/a/", "a/b", "/a/b/", "*", "/*", "*/", "**", "/**", "**/", "**/a", "a/**", "a/**/b", "**/a/b"),
        *("*.c", "?", "a?", "[ab]", "[!a]*", "[^a]*", "[a-b]", "a**", "**a", "a/**b", "*a*", "**/*.c", "a*b", "a/*", "*/*"),
        *("a/*/b", "*/a", "/**/a", "a/**/", "**/**/a", "a/", "a//b", "//a", "./a", "a/.", "../a", "/", "//", "", " ", "  "),
        *("\\#a", "#a", "\\!a", "!a", "!!a", "a\\ b", "a\\", "\\a", "\\\\", "a\\\\b", "a ", "a\\ ", "a  ", " a", "a\t"),
        *("[a", "a]", "[]a]", "[!]a]", "[[:alpha:]]", "[[:alpha:][:digit:]]*", "[[:nope:]]", "[[:alpha", "[a-]", "[-a]"),
        *("[b-a]", "[\\]]", "a[]]", "[*]", "[a/]b", "a[/]b", "a[!b]b", "\\[a", "é", "[é]", "?\r", "a\r", "A", "[A-Z]"),
        *("***", "a***b", "*/**/*", "**/.c", "*.*.c", "a/**/**/b", "**b/a", "[!a-b]", "[a-a]", "\ufeffa", "-"),
    ],
)  # fmt: skip
def test_one_pattern_means_what_it_means_to_git(world: Path, pattern: str) -> None:
    for then in ("", "!b", "!/a/b", "!*/", "!a/"):
        tree(world, {".gitignore": f"{pattern}\n{then}\n"})
        assert paths(world) == listed_by_git(world), then


def test_two_stars_behind_a_letter_are_one(world: Path) -> None:
    """As gitignore(5) has it. Git itself compares the letters first and then takes the stars for a beginning."""
    tree(world, {".gitignore": "di**/e\nx**/c\n"})
    assert not [path for path in paths(world) if path.startswith("dir/e/")]
    assert "x/a/c/b" in paths(world)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which each name lies at several depths, as a file and as a folder."""
    root = repository(tmp_path_factory.mktemp("world"))
    tree(root, {f"{folder}{name}": "1" for name in NAMES for folder in ("", "dir/", "dir/e/")})
    return tree(root, {f"{top}/{below}": "1" for top in ("x", "x/y") for below in ("a/b", "a/c/b", "b/a/b", "c/a")})


GLUED = re.compile(r"/?[^*?\[\\]*[^*?\[\\/]\*\*")
"""Here git does not do what its manual says: see `test_two_stars_behind_a_letter_are_one`."""


class World(NamedTuple):
    """What Hypothesis makes up: files by folder and name, ignore files by folder, and the two outside the tree."""

    files: set[tuple[str, str]]
    rules: dict[str, str]
    exclude: str
    mine: str


patterns = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join).filter(lambda p: not GLUED.match(p))
ignore_files = st.lists(patterns, min_size=1, max_size=5).map(lambda lines: "\n".join(lines) + "\n")
folders = st.lists(st.sampled_from(("a", "b", "ab", "é", "a b")), max_size=3).map("/".join)
worlds = st.builds(
    World,
    files=st.sets(st.tuples(folders, st.sampled_from(NAMES)), min_size=1, max_size=12),
    rules=st.dictionaries(folders, ignore_files, max_size=3),
    exclude=st.just("") | ignore_files,
    mine=st.just("") | ignore_files,
)


def build(root: Path, files: set[tuple[str, str]], rules: Mapping[str, str]) -> None:
    """Write a generated world over the last; a name that is both a file and a folder becomes the one that comes first."""
    for entry in root.iterdir():
        if entry.is_dir() and entry.name != ".git":
            shutil.rmtree(entry)
        elif entry.name != ".git":
            entry.unlink()
    wanted = {f"{folder}/{name}".lstrip("/"): "1" for folder, name in files}
    wanted |= {f"{folder}/.gitignore".lstrip("/"): text for folder, text in rules.items()}
    for path, content in sorted(wanted.items()):
        try:
            tree(root, {path: content})
        except OSError:  # a part of the path is a file already: this world goes without
            continue


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds)
def test_any_rules_over_any_tree_leave_the_files_that_git_lists(empty: Path, world: World) -> None:
    build(empty, world.files, world.rules)
    tree(empty / ".git", {"info/exclude": world.exclude, "mine": world.mine})
    excludes = str(empty / ".git" / "mine")
    found = walk(empty, excludes_file=excludes)
    assert [str(entry.path) for entry in found.entries] == listed_by_git(empty, excludes)
    for part in {path for path, _ in world.files} | {str(entry.path) for entry in found.entries[:3]}:
        inside = [each for each in found.entries if not part or f"{each.path}/".startswith(f"{part}/")]
        assert walk(empty, [part], excludes_file=excludes).entries == tuple(inside), part


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that `build` fills anew."""
    return repository(tmp_path_factory.mktemp("empty"))


def test_rules_hold_below_a_root_inside_the_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    tree(repo, {".gitignore": "*.log\n/sub/inner/out\ninner/b.py\n", "sub/.gitignore": "/inner/*.tmp\n!keep.log\n"})
    tree(
        repo,
        {f"sub/inner/{each}": "1" for each in ("a.py", "b.py", "a.log", "a.tmp", "keep.log", "out/c.py", "x/b.py")},
    )
    tree(repo / ".git", {"info/exclude": "x/\n"})
    inner = repo / "sub" / "inner"
    assert paths(inner) == listed_by_git(inner) == ["a.py", "b.py", "keep.log"]


def test_a_root_that_an_outer_repository_ignores_is_walked_by_its_own_rules(tmp_path: Path) -> None:
    home = repository(tmp_path / "home")
    project = tree(home / "work" / "project", {".gitignore": "*.log\n", "a.py": "1", "src/b.py": "1", "c.log": "1"})
    tree(home, {".gitignore": "*\n"})
    assert paths(project) == [".gitignore", "a.py", "src/b.py"]
    tree(home, {".gitignore": "/work/\n"})
    assert paths(project) == [".gitignore", "a.py", "src/b.py"]


# -- other ignore files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".ignore", ".contextignore", ".augmentignore"])
def test_other_ignore_files_are_read_like_git_reads_its_own(tmp_path: Path, name: str) -> None:
    root = tree(
        tmp_path, {name: "*.log\n!keep.log\n/out/\n", "a.log": "1", "keep.log": "1", "out/x": "1", "b/out/x": "1"}
    )
    assert paths(root) == [name, "b/out/x", "keep.log"]


@pytest.mark.parametrize(
    ("stronger", "weaker", "below"),
    [
        (".ignore", ".gitignore", ""),
        (".ignore", ".gitignore", "sub/"),
        (".contextignore", ".gitignore", "sub/"),
        (".contextignore", ".ignore", "sub/"),
        (".augmentignore", ".gitignore", "sub/"),
        (".augmentignore", ".contextignore", ""),  # these two are of one kind: below, the deeper folder wins
    ],
)
def test_one_kind_overrules_the_other_even_from_above(tmp_path: Path, stronger: str, weaker: str, below: str) -> None:
    root = tree(tmp_path, {stronger: "!a.py\nb.py\n", f"{below}{weaker}": "a.py\n!b.py\n"})
    tree(root, {"sub/a.py": "1", "sub/b.py": "1"})
    assert [path for path in paths(root) if path.endswith(".py")] == ["sub/a.py"]


def test_our_own_state_and_version_control_are_neither_walked_nor_told(tmp_path: Path) -> None:
    root = tree(tmp_path, {f"{name}/x": "1" for name in (".git", ".hg", ".svn", ".jj", ".context-engine")})
    assert (paths(root), reasons(root)) == ([], {})


def test_every_ignored_thing_names_the_rule(tmp_path: Path) -> None:
    root = repository(tmp_path)
    tree(
        root,
        {
            ".gitignore": "# c\n*.log\n",
            "sub/.gitignore": "\n/x/\n",
            "a.log": "1",
            "sub/x/y": "1",
            "node_modules/z": "1",
        },
    )
    tree(root, {".git/info/exclude": "mine\n", "mine": "1"})
    assert [(each.path, each.detail) for each in walk(root).skipped] == [
        ("a.log", ".gitignore:2: *.log"),
        ("mine", ".git/info/exclude:1: mine"),
        ("node_modules", "built in: node_modules/"),
        ("sub/x", "sub/.gitignore:2: /x/"),
    ]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe*\x00.\x00", b"\x00\x00", b"\xe9*\n", "\ufeff*.log\r\n".encode(), b"*.log"]
)
def test_an_odd_ignore_file_breaks_nothing(tmp_path: Path, content: bytes) -> None:
    root = repository(tmp_path)
    tree(root, {".gitignore": content, "a.py": "1", "b.log": "1"})
    assert paths(root) == listed_by_git(root)


def test_a_huge_ignore_file_is_reported_and_not_read(tmp_path: Path) -> None:
    root = tree(tmp_path, {".gitignore": "x" * 80 + "\n", "a.py": "1"})
    with (root / ".gitignore").open("ab") as file:
        file.truncate(2_000_000_000)
    began = time.thread_time()
    assert paths(root) == ["a.py"]
    assert time.thread_time() - began < 1
    assert reasons(root)[".gitignore"] == "too_large"


def test_a_pattern_made_to_be_slow_is_not(tmp_path: Path) -> None:
    slow = ("*a" * 12 + "b", "**/*a*a*a*a*a*a*a*a*b", "a/" + "**/" * 12 + "b", "[a-z]*" * 12 + "!", "a/**/" * 12 + "b")
    root = tree(tmp_path, {".gitignore": "\n".join(slow), "a" * 120: "1"})
    tree(root, {"/".join("a" * 30) + "/c": "1"})
    began = time.thread_time()
    walk(root)
    assert time.thread_time() - began < 1


@POSIX
def test_an_ignore_file_that_is_a_pipe_or_a_link_does_not_hold(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    tree(root, {"a.log": "1", "sub/b.log": "1"})
    os.mkfifo(root / ".gitignore")
    (root / "sub" / ".gitignore").symlink_to(tree(tmp_path, {"rules": "*.log\n"}) / "rules")
    assert paths(root) == ["a.log", "sub/b.log"]


# -- repositories in repositories --------------------------------------------------------------------------------------


def test_a_repository_inside_is_walked_by_its_own_rules(tmp_path: Path) -> None:
    outer = repository(tmp_path)
    tree(outer, {".gitignore": "*.log\n", ".contextignore": "*.ctx\n", "a.log": "1"})
    inner = repository(outer / "vendor" / "inner")
    tree(
        inner,
        {".gitignore": "*.tmp\n", "b.log": "1", "b.tmp": "1", "b.ctx": "1", ".git/info/exclude": "c.py\n", "c.py": "1"},
    )
    assert paths(outer) == [".contextignore", ".gitignore", "vendor/inner/.gitignore", "vendor/inner/b.log"]


@pytest.mark.parametrize("place", ["zz-linked", "aa-linked"])
def test_a_second_work_tree_inside_the_first_is_not_walked_again(tmp_path: Path, place: str) -> None:
    repo = repository(tmp_path, {"m/a.py": "1"})
    git(repo, "worktree", "add", "--quiet", "--detach", str(repo / place))
    assert paths(repo) == ["m/a.py"]
    assert reasons(repo) == {place: "nested_worktree"}


def test_of_two_work_trees_side_by_side_one_is_walked(tmp_path: Path) -> None:
    top = tmp_path / "top"
    repo = repository(top / "b-main", {"a.py": "1"})
    git(repo, "worktree", "add", "--quiet", "--detach", str(top / "a-linked"))
    git(repo, "worktree", "add", "--quiet", "--detach", str(top / "c-linked"))
    assert paths(top) == ["b-main/a.py"]
    assert reasons(top) == {"a-linked": "nested_worktree", "c-linked": "nested_worktree"}


def test_a_linked_work_tree_is_walked_when_it_is_the_root(tmp_path: Path) -> None:
    repo = repository(tmp_path / "main", {"a.py": "1", ".gitignore": "*.log\n"})
    tree(repo / ".git", {"info/exclude": "*.mine\n"})
    git(repo, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    tree(tmp_path / "linked", {"b.mine": "1", "b.log": "1"})
    assert paths(tmp_path / "linked") == [".gitignore", "a.py"]


# -- links -------------------------------------------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("../a.py", "linked"),
        ("../other", "linked"),
        ("..", "loop"),
        (".", "loop"),
        ("../../outside.py", "outside"),
        ("/etc/passwd", "outside"),
        ("../nowhere", "unreadable"),
        ("link", "unreadable"),
        ("../.env", "sensitive"),
        ("../.git/config", "sensitive"),
    ],
)
def test_a_link_is_not_followed_and_says_where_it_leads(tmp_path: Path, target: str, reason: str) -> None:
    tree(tmp_path, {"outside.py": "1"})
    root = tree(tmp_path / "root", {"a.py": "1", "other/b.py": "1", ".env": "1", ".git/config": "1", "sub/c.py": "1"})
    (root / "sub" / "link").symlink_to(target)
    assert reasons(root)["sub/link"] == reason
    assert paths(root) == ["a.py", "other/b.py", "sub/c.py"]


# -- special files, closed places, and what changes meanwhile ----------------------------------------------------------


@POSIX
def test_pipes_and_sockets_are_skipped_and_never_opened(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "1"})
    os.mkfifo(root / "pipe.py")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket.py"))
        assert reasons(root) == {"pipe.py": "special", "socket.py": "special"}
    assert paths(root) == ["a.py"]


@POSIX
def test_closed_folders_are_skipped_and_the_rest_is_walked() -> None:
    with ordinary_user() as place:
        tree(
            place,
            {"closed/a.py": "1", "open/b.py": "1", "listed/c.py": "1", "rules/.gitignore": "*", "rules/d.py": "1"},
        )
        (place / "closed").chmod(0)
        (place / "listed").chmod(0o400)  # its names can be read, nothing behind them
        (place / "rules" / ".gitignore").chmod(0)
        found, told = paths(place), reasons(place)
    assert found == ["open/b.py", "rules/.gitignore", "rules/d.py"]
    assert told == {"closed": "unreadable", "listed/c.py": "unreadable", "rules/.gitignore": "unreadable"}


def test_a_folder_whose_parent_becomes_a_link_during_the_walk_is_not_entered_either(tmp_path: Path) -> None:
    outside = tree(tmp_path / "outside", {"deep/private.py": "1"})
    root = tree(tmp_path / "root", {"b/deep/y.py": "1"})
    rounds = iter(range(10))

    def replace_b_after_it_was_listed() -> None:
        if next(rounds) == 2:
            (root / "b").rename(tmp_path / "elsewhere")
            (root / "b").symlink_to(outside)

    found = walk(root, check=replace_b_after_it_was_listed)
    assert found.entries == ()
    assert [(each.path, each.reason) for each in found.skipped] == [("b/deep", "vanished")]


def test_folders_nested_without_end_are_cut(tmp_path: Path) -> None:
    place, descriptor = "d/" * 250, os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(250):  # longer than a path may be, so step by step
            os.mkdir("d", dir_fd=descriptor)
            below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
    finally:
        os.close(descriptor)
    assert len(place) < 4096
    assert [row.reason for row in walk(tmp_path).skipped] == ["loop"]


# -- what a name tells -------------------------------------------------------------------------------------------------

READABLE = ".env.example .github/workflows/ci.yml .gitignore src/env.py keys.py id_rsa.pub a.keys a.png.md".split()
SECRET = ".env .env.local deploy/.env.production id_rsa a/b.pem .ssh/config .aws/credentials .ENV x.PEM".split()


def test_files_that_hold_secrets_are_skipped_and_their_neighbours_are_not(tmp_path: Path) -> None:
    binary = "a.png b.PNG a.tar.gz liba.so a.sqlite3".split()
    root = tree(tmp_path, dict.fromkeys([*READABLE, *SECRET, *binary], "1"))
    tree(root, {".gitignore": "\n"})
    assert paths(root) == sorted(READABLE)
    found = reasons(root)
    assert {path for path, reason in found.items() if reason == "binary"} == set(binary)
    assert set(found.values()) == {"sensitive", "binary"}


@pytest.mark.skipif(os.name != "posix" or os.uname().sysname != "Linux", reason="other systems refuse the name")
def test_a_name_that_is_no_text_is_skipped(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/caf\xe9.py", os.O_CREAT | os.O_WRONLY))
    tree(tmp_path, {"café.py": "1", "a\nb.py": "1"})
    found = walk(tmp_path)
    assert [str(entry.path) for entry in found.entries] == ["a\nb.py", "café.py"]
    assert [each.reason for each in found.skipped] == ["unreadable"]


# -- sizes and kinds of folders ----------------------------------------------------------------------------------------


def test_a_huge_file_is_skipped_without_being_opened(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": "1" * 100, "b.py": "1" * 101})
    with (root / "huge.sql").open("wb") as file:
        file.truncate(2_000_000_000)
    assert paths(root) == ["a.py", "b.py"]
    assert [(each.path, each.reason) for each in walk(root, bytes_max=100).skipped] == [
        ("b.py", "too_large"),
        ("huge.sql", "too_large"),
    ]


def test_virtual_environments_and_marked_caches_are_skipped_unless_taken_back(tmp_path: Path) -> None:
    root = tree(
        tmp_path, {"env/pyvenv.cfg": "", "env/lib/a.py": "1", "cache/CACHEDIR.TAG": CACHE_TAG + b"\n", "cache/b": "1"}
    )
    tree(root, {"not/CACHEDIR.TAG": "something else", "not/c": "1"})
    assert paths(root) == ["not/CACHEDIR.TAG", "not/c"]
    assert reasons(root) == {"env": "ignored", "cache": "ignored"}
    tree(root, {".contextignore": "!env/\n!cache/\n"})
    assert {"env/lib/a.py", "cache/b"} <= set(paths(root))


def test_a_tracked_file_that_an_ignore_rule_names_is_ignored(tmp_path: Path) -> None:
    """Here we differ from git, which asks its index: see decision record index."""
    root = repository(tmp_path, {"a.py": "1", "b.log": "1"})
    tree(root, {".gitignore": "*.log\n"})
    commit(root, "ignored afterwards")
    assert paths(root) == [".gitignore", "a.py"]


FILES = {"a.py": "1", "src/b.py": "22", "src/deep/c.py": "333", ".gitignore": "*.log\n"}


def swept(root: Path, change: object = None) -> ScanResult:
    """What a sweep says after a change."""
    before = walk(root)
    if callable(change):
        change()
    return scan(root, before.files(), before.folders)


def test_an_edit_whose_time_was_put_back_shows_by_its_size(tmp_path: Path) -> None:
    root = tree(tmp_path, FILES)
    status = (root / "a.py").stat()

    def edit() -> None:
        (root / "a.py").write_text("12")
        os.utime(root / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))

    assert swept(root, edit).changed == {"a.py"}


def test_a_changed_ignore_file_asks_for_a_walk(tmp_path: Path) -> None:
    root = tree(tmp_path, FILES)
    found = swept(root, lambda: (root / ".gitignore").write_text("*.py\n"))
    assert found.changed == {".gitignore"}
    assert found.needs_walk


def test_a_file_that_became_a_folder_is_a_change(tmp_path: Path) -> None:
    root = tree(tmp_path, FILES)

    def swap() -> None:
        (root / "a.py").unlink()
        (root / "a.py").mkdir()

    found = swept(root, swap)
    assert "a.py" in found.changed | found.removed
    assert found.needs_walk


law_names = st.sampled_from(["a", "b/c", "b/d", "e/f/g"])


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(law_names, st.binary(max_size=3)), st.dictionaries(law_names, st.binary(max_size=3)))
def test_a_sweep_is_clean_exactly_when_a_walk_finds_the_same(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, bytes], then: dict[str, bytes]
) -> None:
    """The law. Files are only ever written anew, so that a time never stays the same over an edit."""
    root = tree(tmp_path_factory.mktemp("law"), first)
    before = walk(root)
    for number, (path, content) in enumerate(sorted(then.items())):
        tree(root, {path: content})
        os.utime(root / path, ns=(0, number + 1))
    after = walk(root)
    found = scan(root, before.files(), before.folders)
    changed = {path for path in before.files() if after.files()[path] != before.files()[path]}
    assert found.changed == changed
    assert found.removed == frozenset()
    assert found.needs_walk or set(after.files()) == set(before.files())
