"""Paths: what a caller may name, what is refused, and that every refusal says what to do instead."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.errors import AccessDenied, AccessFailed, ContextEngineError, FileNotFound, InvalidPath
from context_engine.model import RelPath
from context_engine.workspace.paths import Root, Roots, is_sensitive, malformed, near_names, plain_name
from tests.trees import tree

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    files = {"src/main.py": "1", "src/sub/deep.py": "1", "README.md": "1", ".github/ci.yml": "1", "a b/ü.txt": "1"}
    return Root(tree(tmp_path / "project", files))


def refusal(root: Root, text: str, **options: bool) -> ContextEngineError:
    """What is said of a path that is refused; each refusal names the next step and the path."""
    with pytest.raises(ContextEngineError) as caught:
        root.rel(text, **options)
    assert caught.value.suggestion
    assert "path" in caught.value.details
    return caught.value


# -- what is accepted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("src/main.py", "src/main.py"),
        ("./src/main.py", "src/main.py"),
        ("src//main.py", "src/main.py"),
        ("src/./main.py", "src/main.py"),
        ("src/sub/", "src/sub"),
        ("src\\main.py", "src/main.py"),
        (".\\src\\sub\\deep.py", "src/sub/deep.py"),
        (".", "."),
        ("./", "."),
        ("a b/ü.txt", "a b/ü.txt"),
        (".github/ci.yml", ".github/ci.yml"),
    ],
)
def test_a_path_inside_is_accepted_and_written_in_one_way(root: Root, text: str, path: str) -> None:
    found = root.rel(text)
    assert (found, type(found)) == (path, RelPath)


def test_an_absolute_path_inside_is_accepted(root: Root) -> None:
    assert root.rel(str(root.path / "src" / "main.py")) == "src/main.py"
    assert root.rel(str(root.path)) == root.rel(f"{root.path}/") == "."
    assert root.rel(f"/{root.path}//src/main.py") == "src/main.py"


@POSIX
def test_a_root_may_be_named_through_a_link(root: Root, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root.path)
    assert Root(link).path == root.path
    assert root.rel(str(link / "src/main.py")) == "src/main.py"
    assert root.rel(str(link)) == "."


def test_the_path_of_a_checked_name_leads_back_to_it(root: Root) -> None:
    for text in ("src/main.py", "."):
        assert root.rel(str(root.absolute(root.rel(text)))) == root.rel(text)


@POSIX
def test_a_link_inside_is_named_by_what_it_leads_to(root: Root) -> None:
    (root.path / "alias.py").symlink_to("src/main.py")
    (root.path / "folder").symlink_to("src")
    assert root.rel("alias.py") == root.rel("folder/main.py") == "src/main.py"


@POSIX
def test_a_backslash_in_a_name_is_a_letter_where_such_a_file_exists(root: Root) -> None:
    tree(root.path, {"odd\\name.py": "1"})
    assert root.rel("odd\\name.py") == "odd\\name.py"


def test_a_file_still_to_be_written_has_a_path(root: Root) -> None:
    assert root.rel("src/new/file.py", must_exist=False) == "src/new/file.py"
    assert root.rel(str(root.path / "new.py"), must_exist=False) == "new.py"


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["../other.py", "src/../../x", "..", "src\\..\\..\\x", "..\\x", "src/.."])
def test_two_dots_are_refused(root: Root, text: str) -> None:
    assert isinstance(refusal(root, text), InvalidPath)
    assert isinstance(refusal(root, text, must_exist=False), InvalidPath)


def test_two_dots_that_stay_inside_are_refused_with_the_path_they_mean(root: Root) -> None:
    assert "'README.md'" in refusal(root, "src/../README.md").suggestion


@pytest.mark.parametrize("text", ["/etc/passwd", "/", "//etc/passwd", "/proc/self/environ", "/dev/zero", "/nowhere"])
def test_an_absolute_path_outside_is_refused_whether_or_not_it_exists(root: Root, text: str) -> None:
    assert isinstance(refusal(root, text), InvalidPath)
    assert isinstance(refusal(root, text, must_exist=False), InvalidPath)


def test_a_folder_whose_name_only_begins_like_the_root_is_outside(root: Root) -> None:
    neighbour = tree(root.path.with_name(root.path.name + "-other"), {"a.py": "1"})
    assert isinstance(refusal(root, str(neighbour / "a.py")), InvalidPath)


@pytest.mark.parametrize(
    "text",
    ["", "  ", "a\0b", "file:///etc/passwd", "FILE:/x", "https://example.org/a", "~/x", "~", "a" * 5_000, "\udcff"]
    + ["C:\\Users\\x", "C:/Users/x", "c:", "\\\\server\\share\\x", "\\\\?\\C:\\x", "//?/C:/x", "//./pipe/x"],
)
def test_what_is_no_path_of_this_system_is_refused(root: Root, text: str) -> None:
    assert isinstance(refusal(root, text), InvalidPath)
    assert isinstance(refusal(root, text, must_exist=False), InvalidPath)


@pytest.mark.parametrize("text", ["a" * 300, "x/" * 1_500 + "y"])
def test_a_name_that_the_file_system_cannot_hold_is_refused(root: Root, text: str) -> None:
    assert isinstance(refusal(root, text), InvalidPath | FileNotFound)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("C:\\work\\a.py", True),
        ("C:a.py", False),
        ("C:", False),
        ("src\\con", False),
        ("NUL.txt", False),
        ("src/aux .c", False),
        ("com1", False),
        ("console.py", True),
        ("src/a.py:hidden", False),
        ("a.py::$DATA", False),
        ("src/null.py", True),
    ],
)
def test_windows_has_names_of_its_own_that_are_no_files(text: str, accepted: bool) -> None:
    assert (malformed(text, windows=True) is None) == accepted


@POSIX
def test_a_link_that_leads_out_is_refused(root: Root, tmp_path: Path) -> None:
    tree(tmp_path / "outside", {"secret.txt": "1"})
    (root.path / "file").symlink_to(tmp_path / "outside" / "secret.txt")
    (root.path / "folder").symlink_to(tmp_path / "outside")
    (root.path / "up").symlink_to("..")
    for text in ("file", "folder", "folder/secret.txt", "folder/new.txt", "up", "up/outside/secret.txt"):
        assert isinstance(refusal(root, text), InvalidPath)
        assert isinstance(refusal(root, text, must_exist=False), InvalidPath)


@POSIX
def test_a_link_that_leads_back_to_itself_is_refused(root: Root) -> None:
    (root.path / "loop").symlink_to("loop")
    assert isinstance(refusal(root, "loop"), InvalidPath)


@POSIX
def test_pipes_sockets_and_devices_are_refused(root: Root) -> None:
    os.mkfifo(root.path / "pipe")
    assert "named pipe" in refusal(root, "pipe").message
    here = os.getcwd()
    os.chdir(root.path)  # the path of a socket may have 107 characters only
    try:
        with socket.socket(socket.AF_UNIX) as plug:
            plug.bind("plug")
            assert "socket" in refusal(root, "plug").message
    finally:
        os.chdir(here)
    assert isinstance(refusal(Root("/dev"), "null"), InvalidPath)


@POSIX
@pytest.mark.skipif(IS_ROOT, reason="nothing is closed to the superuser")
def test_a_path_behind_a_closed_folder_says_who_can_mend_it(root: Root) -> None:
    (root.path / "src").chmod(0)
    try:
        assert isinstance(refusal(root, "src/main.py"), AccessFailed)
    finally:
        (root.path / "src").chmod(0o755)


def test_a_missing_file_suggests_names_that_are_near(root: Root) -> None:
    assert refusal(root, "src/mian.py").details["near"] == ["src/main.py"]
    assert refusal(root, "scr/main.py").details["near"] == ["src"]
    assert refusal(root, "readme.md").suggestion == "Did you mean README.md?"
    assert "list_directory 'src'" in refusal(root, "src/zzzzzz.toml").suggestion
    assert isinstance(refusal(root, "README.md/below"), FileNotFound)


def test_near_names_never_give_a_secret_away(root: Root) -> None:
    tree(root.path, {"server.key": "1", "id_rsa": "1"})
    assert refusal(root, "server.kez").details["near"] == []
    assert refusal(root, "id_rse").details["near"] == []


# -- secrets ----------------------------------------------------------------------------------------------------------

SECRET = (
    *(".env", ".env.local", ".env.production", "deploy/.env", ".ENV", ".Env.Local", ".env.", ".env ", ".envrc"),
    *(".env.example.local", ".git", ".git/config", "sub/.git/HEAD", ".GIT/config", ".git\u200c/config", ".git./x"),
    *(".ssh/config", "home/.ssh/known_hosts", ".gnupg/x", "id_rsa", "keys/ID_RSA", "id_ed25519", "tls/server.pem"),
    *("server.key", "a.p12", "a.PFX", "a.jks", "debug.keystore", "a.ppk", ".netrc", "_netrc", ".pgpass", ".npmrc"),
    *(".pypirc", ".htpasswd", ".git-credentials", ".aws/credentials", ".aws/config", ".docker/config.json"),
    *(".kube/config", ".cargo/credentials.toml", "terraform.tfstate", ".bash_history", "x\\.ssh\\id", ".svn/wc.db"),
)
OPEN = (
    *(".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "deploy/.env.example"),
    *(".github/workflows/ci.yml", ".gitignore", ".gitattributes", ".gitmodules", "git/x", "src/environment.ts"),
    *("tests/test_env.py", "env/x.py", "id_rsa.pub", "src/id_rsa_test.py", "keys.py", "monkey.py", "key", "pem"),
    *("docs/ssh.md", "ssh/client.go", "aws/credentials", "credentials.py", "config.json", "docker/config.json"),
    *("kube/config", "src/netrc.py", "npmrc", "envrc.md", ".envoy/config.yaml", "a.keys", "public_key.py"),
)


@pytest.mark.parametrize("path", SECRET)
def test_what_holds_secrets_is_refused_before_anybody_looks_whether_it_exists(root: Root, path: str) -> None:
    assert is_sensitive(path)
    assert isinstance(refusal(root, path), AccessDenied)
    assert isinstance(refusal(root, path, must_exist=False), AccessDenied)


@pytest.mark.parametrize("path", OPEN)
def test_what_only_looks_like_a_secret_stays_open(root: Root, path: str) -> None:
    tree(root.path, {path: "1"})
    assert is_sensitive(path) is None
    assert root.rel(path) == path


@POSIX
def test_a_link_to_a_secret_is_refused(root: Root) -> None:
    tree(root.path, {".env": "1", ".ssh/config": "1"})
    (root.path / "harmless.txt").symlink_to(".env")
    (root.path / "folder").symlink_to(".ssh")
    for text in ("harmless.txt", "folder", "folder/config"):
        assert isinstance(refusal(root, text), AccessDenied)


def test_a_secret_folder_above_the_root_does_not_count(tmp_path: Path) -> None:
    root = Root(tree(tmp_path / ".ssh" / "project", {"a.py": "1"}))
    assert root.rel("a.py") == "a.py"


names = st.text(st.sampled_from("aAeEnNvVgGiItT.-_/"), min_size=1, max_size=12)


@given(names)
def test_neither_case_nor_dots_at_the_end_of_a_part_open_a_secret(path: str) -> None:
    dressed = "/".join(f"{part}. " for part in path.split("/"))
    assert bool(is_sensitive(path)) == bool(is_sensitive(path.swapcase())) == bool(is_sensitive(dressed))


@given(names, names)
def test_a_secret_stays_one_wherever_it_lies(above: str, path: str) -> None:
    if is_sensitive(path):
        assert is_sensitive(f"{above}/{path}")
        assert is_sensitive(f"{path}/{above}") or not is_sensitive(path.rpartition("/")[0] or "a")


@given(names)
def test_a_plain_name_is_plain(name: str) -> None:
    assert plain_name(plain_name(name)) == plain_name(name)


# -- the law ----------------------------------------------------------------------------------------------------------

parts = st.sampled_from(("src", "main.py", "sub", "..", ".", "", "link", "out", ".env", "new", "a b", "é", "\\", "..\\"))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(parts, max_size=6).map("/".join), st.booleans(), st.booleans())
def test_whatever_is_accepted_lies_inside_and_is_no_secret(root: Root, text: str, absolute: bool, must_exist: bool) -> None:
    if os.name == "posix" and not (root.path / "link").is_symlink():
        (root.path / "link").symlink_to("src")
        (root.path / "out").symlink_to("../..")
    try:
        path = root.rel(f"{root.path}/{text}" if absolute else text, must_exist=must_exist)
    except (InvalidPath, AccessDenied, FileNotFound):
        return
    real = os.path.realpath(root.absolute(path))
    assert os.path.commonpath([real, root.path]) == str(root.path)
    assert real == str(root.absolute(path)), "a checked path has no link left in it"
    assert ".env" not in path.split("/")
    assert not must_exist or os.path.exists(real)
    assert root.rel(path, must_exist=must_exist) == path


# -- several roots ----------------------------------------------------------------------------------------------------


def test_a_path_belongs_to_the_first_root_that_has_it(tmp_path: Path) -> None:
    one = tree(tmp_path / "one", {"both.py": "1", "only_one.py": "1"})
    two = tree(tmp_path / "two", {"both.py": "1", "only_two.py": "1"})
    roots = Roots([one, two, one])
    assert [each.path for each in roots.all] == [one, two]
    assert [roots.rel(text).root.path for text in ("both.py", "only_one.py", "only_two.py")] == [one, one, two]
    assert roots.rel(str(two / "both.py")) == (roots.all[1], "both.py")


def test_what_no_root_has_is_refused_as_the_nearest_of_them_says(tmp_path: Path) -> None:
    roots = Roots([tree(tmp_path / "one", {"a.py": "1"}), tree(tmp_path / "two", {"b.py": "1"})])
    with pytest.raises(FileNotFound):
        roots.rel("c.py")
    with pytest.raises(FileNotFound):
        roots.rel(str(tmp_path / "two" / "c.py"))
    with pytest.raises(InvalidPath):
        roots.rel("/etc/passwd")
    with pytest.raises(AccessDenied):
        roots.rel(".env")
    with pytest.raises(InvalidPath):
        Roots([])


def test_the_best_of_near_names_comes_first() -> None:
    assert near_names("setings.py", ["settings.py", "sitting.py", "other.py"])[0] == "settings.py"
    assert near_names("x", []) == []
