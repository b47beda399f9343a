"""Paths: what a caller types names one file inside the root, or is refused with the next step; secrets stay closed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.errors import AccessDenied, AccessFailed, ContextEngineError, FileNotFound, InvalidPath
from context_engine.model import RelPath
from context_engine.repo.paths import Root, is_sensitive, why_malformed
from tests.support.trees import ordinary_user, tree

POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")

FILES = {
    "a.py": "1",
    "README.md": "1",
    "src/app/main.py": "1",
    "src/app/models.py": "1",
    "src/environment.ts": "1",
    ".github/workflows/ci.yml": "1",
    ".gitignore": "1",
    ".env": "1",
    ".env.local": "1",
    ".env.example": "1",
    ".git/config": "1",
    "keys/server.pem": "1",
    "größe/a b.txt": "1",
    "empty/": "",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A root with a neighbor that must never be reached."""
    tree(tmp_path / "outside", {"secret.txt": "1", "src/x.py": "1"})
    return tree(tmp_path / "root", FILES)


@pytest.fixture
def root(place: Path) -> Root:
    return Root(place)


# -- what is accepted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("./a.py", "a.py"), ("src//app/./main.py", "src/app/main.py"), ("src/app/", "src/app"), ("./", ".")),
        *(("src\\app\\main.py", "src/app/main.py"), (".\\src/app", "src/app")),
        *((path, path) for path in ("größe/a b.txt", ".github/workflows/ci.yml", ".env.example", "src/environment.ts")),
    ],
)
def test_a_path_inside_is_named_with_slashes_from_the_root(root: Root, typed: str, meant: str) -> None:
    path = root.rel(typed)
    assert path == meant
    assert isinstance(path, RelPath)
    assert root.absolute(path).exists()


def test_an_absolute_path_inside_is_accepted(root: Root, place: Path) -> None:
    assert root.rel(str(place / "src" / "app" / "main.py")) == "src/app/main.py"
    assert root.rel(str(place)) == "."
    assert root.rel(f"{place}/") == "."


def test_a_link_inside_is_named_by_what_it_leads_to(root: Root, place: Path) -> None:
    (place / "link.py").symlink_to("src/app/main.py")
    (place / "folder").symlink_to(place / "src")
    assert root.rel("link.py") == "src/app/main.py"
    assert root.rel("folder/app/main.py") == "src/app/main.py"
    assert root.rel(str(place / "link.py")) == "src/app/main.py"


@POSIX
@pytest.mark.parametrize(
    "name", ["a:b", "~notes.txt", "-rf", "*", "a\nb", "...", "..a", "a..b", "con", "file", "$HOME"]
)
def test_odd_names_are_names(root: Root, place: Path, name: str) -> None:
    tree(place, {name: "1"})
    assert root.rel(name) == name


def test_a_file_that_is_about_to_be_written_need_not_exist(root: Root) -> None:
    assert root.rel("src/new.py", must_exist=False) == "src/new.py"
    assert root.rel("new/folder/new.py", must_exist=False) == "new/folder/new.py"
    assert root.rel("src", must_exist=False) == "src"


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "typed",
    [
        *("..", "../outside/secret.txt", "src/../../outside/secret.txt", "src/..", "a/../a.py", "./..", "src/../a.py"),
        *("..\\outside\\secret.txt", "src\\..\\..\\outside\\secret.txt", "..\\../outside", "\\..\\x"),
        *("/etc/passwd", "/", "//etc/passwd", "/dev/null", "/proc/self/environ", "\\\\server\\share", "//server/share"),
        *("C:\\Windows\\x", "C:/Windows", "c:", "\\\\?\\C:\\x", "//./COM1", "//?/C:/x"),
        *("", " ", "\t\n", "a\0b", "a.py\0", "\0", "\ud800", "a/\udcff"),
        *("file:///etc/passwd", "file:a.py", "http://example.org/a", "git+ssh://x/y", "~", "~/x", "~root/x"),
        *("x" * 5_000, "a/" * 3_000, "x" * 300),
    ],
)
@pytest.mark.parametrize("must_exist", [True, False])
def test_what_can_be_no_path_inside_is_refused_with_the_next_step(root: Root, typed: str, must_exist: bool) -> None:
    with pytest.raises(InvalidPath) as refusal:
        root.rel(typed, must_exist=must_exist)
    assert refusal.value.suggestion
    assert len(refusal.value.message) < 500


@POSIX
@pytest.mark.parametrize("target", ["../outside/secret.txt", "../outside", "../outside/new.txt", "/etc/passwd", "/"])
@pytest.mark.parametrize("must_exist", [True, False])
def test_a_link_that_leads_out_is_refused(root: Root, place: Path, target: str, must_exist: bool) -> None:
    (place / "src" / "link").symlink_to(Path(target) if target.startswith("/") else place / target)
    for typed in ("src/link", "src/link/", "src/link/x.py", str(place / "src" / "link")):
        with pytest.raises(InvalidPath):
            root.rel(typed, must_exist=must_exist)


@POSIX
def test_pipes_sockets_and_devices_are_refused_and_not_opened(root: Root, place: Path) -> None:
    os.mkfifo(place / "pipe")
    (place / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "sock"))
        for name in ("pipe", "sock", "null"):
            with pytest.raises(InvalidPath):
                root.rel(name)


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("src/app/mian.py", "src/app/main.py"),
        ("src/app/model.py", "src/app/models.py"),
        ("readme.md", "README.md"),
        ("src/App/main.py", "src/app"),
        ("scr/app/main.py", "src"),
    ],
)
def test_a_file_that_is_not_there_is_told_what_is(root: Root, typed: str, near: str) -> None:
    with pytest.raises(FileNotFound) as refusal:
        root.rel(typed)
    assert near in refusal.value.suggestion


def test_a_common_ending_makes_no_two_names_similar(root: Root, place: Path) -> None:
    (place / "context.go").touch()
    for typed, is_near in (("nonexist.go", False), ("contxt.go", True), ("context.gp", True)):
        with pytest.raises(FileNotFound) as refusal:
            root.rel(typed)
        assert ("context.go" in refusal.value.suggestion) is is_near


def test_a_hint_never_names_a_file_that_holds_secrets(root: Root) -> None:
    with pytest.raises(FileNotFound) as refusal:
        root.rel("keys/server.pen")
    assert "server.pem" not in str(refusal.value.as_dict())


# -- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *".env .env.local .env.production deploy/.env deploy/.env.staging .ENV .Env.Local .env/x".split(),
        *(".git", ".git/config", "sub/.git/HEAD", ".GIT/config", ".git./config", ".git /config", ".g\u200cit/config"),
        *"id_rsa .ssh/id_ed25519 .ssh/known_hosts home/.ssh/config a.pem a/b.key store.p12 x.KDBX".split(),
        *(".netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials", ".aws/credentials", ".envrc"),
        *(".docker/config.json", ".kube/config", "infra/terraform.tfstate", "release.keystore", ".gnupg/secring.gpg"),
        *("deploy\\.env", "a\\.git\\config", ".hg/hgrc", ".svn/entries", ".bash_history"),
    ],
)
def test_what_holds_secrets_is_closed(path: str) -> None:
    assert is_sensitive(path)


@pytest.mark.parametrize(
    "path",
    [
        *(".env.example", ".env.sample", ".env.template", "deploy/.env.example", ".ENV.Example"),
        *(".github/workflows/ci.yml", ".gitignore", ".gitattributes", ".gitmodules", ".gitlab-ci.yml", ".gitkeep"),
        *("src/environment.ts", "src/env.py", "env/config.py", "environments/prod.tf", "dotenv.md", "my.environment"),
        *"id_rsa.pub docs/id_rsa.md keys.py key src/key/index.ts pem/readme.md secrets.py a.keys".split(),
        *".docker/Dockerfile .aws/readme.md .kube/deploy.yaml config.json credentials src/credentials.rb".split(),
        *(".", "", "a.py", ".npmrc.md", "netrc", "git/config", ".gitx/config"),
    ],
)
def test_what_only_looks_like_it_stays_open(path: str) -> None:
    assert is_sensitive(path) is None


@pytest.mark.parametrize("must_exist", [True, False])
@pytest.mark.parametrize("typed", [".env", "./.env", ".git/config", ".git", "keys/server.pem", "new/.ssh/config"])
def test_a_closed_file_is_refused_with_what_may_be_done_instead(root: Root, typed: str, must_exist: bool) -> None:
    with pytest.raises(AccessDenied) as refusal:
        root.rel(typed, must_exist=must_exist)
    assert refusal.value.suggestion


@POSIX
def test_a_link_to_a_closed_file_is_closed_and_so_is_a_link_of_that_name(root: Root, place: Path) -> None:
    (place / "harmless.txt").symlink_to(".env")
    (place / "folder").symlink_to(".git")
    (place / ".env.prod").symlink_to("a.py")
    for typed in ("harmless.txt", "folder/config", "folder", ".env.prod", str(place / "harmless.txt")):
        with pytest.raises(AccessDenied):
            root.rel(typed)


def test_a_refusal_does_not_tell_whether_the_closed_file_exists(root: Root) -> None:
    said = []
    for typed in (".env.local", ".env.other"):
        with pytest.raises(AccessDenied) as refusal:
            root.rel(typed)
        said.append(refusal.value.message.replace(typed, ""))
    assert said[0] == said[1]


# -- Windows, from anywhere -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["CON", "con.txt", "src/nul", "aux.c", "COM1", "lpt9.log", "CON .txt", "a.py:stream", "src/a:b", "C:a.py"]
)
def test_windows_devices_and_streams_are_refused_there(text: str) -> None:
    assert why_malformed(text, windows=True)


# -- laws -------------------------------------------------------------------------------------------------------------

PARTS = (*"a.py src app link out loop self .env .git .. . new größe A.PY ~ C:".split(), "")
typed_paths = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=6).flatmap(
        lambda parts: st.sampled_from(("/", "\\", "//")).map(lambda separator: separator.join(parts))
    ),
    st.text(max_size=40),
    st.text(alphabet="./\\~:\0ab ", max_size=12),
)


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A root full of links: inside, outside, back to itself."""
    top = tmp_path_factory.mktemp("maze")
    tree(top / "outside", {"a.py": "1", "src/a.py": "1"})
    place = tree(
        top / "root", {"a.py": "1", "src/a.py": "1", "src/app/a.py": "1", ".env": "1", ".git/a.py": "1", "größe/x": "1"}
    )
    (place / "link").symlink_to("src")
    (place / "src" / "out").symlink_to(top / "outside")
    (place / "out").symlink_to(top / "outside" / "a.py")
    (place / "loop").symlink_to("loop")
    (place / "src" / "self").symlink_to(place)
    (place / "src" / "app" / "link").symlink_to(place / ".env")
    return Root(place)


@given(text=typed_paths, must_exist=st.booleans(), absolute=st.booleans())
@settings(max_examples=400, deadline=None)
def test_any_text_names_something_inside_or_is_refused(maze: Root, text: str, must_exist: bool, absolute: bool) -> None:
    typed = f"{maze.path}/{text}" if absolute else text
    path, refusal = outcome(maze, typed, must_exist)
    if path is None:
        assert isinstance(refusal, InvalidPath | AccessDenied | FileNotFound | AccessFailed)
        assert refusal.suggestion
        return
    real = os.path.realpath(maze.path / path)
    assert real == str(maze.path) or real.startswith(f"{maze.path}{os.sep}")
    assert not is_sensitive(os.path.relpath(real, maze.path))
    assert os.path.lexists(real) or not must_exist
    if not why_malformed(path):
        assert maze.rel(path, must_exist=must_exist) == path, "a checked path is a fixed point"


def outcome(root: Root, typed: str, must_exist: bool) -> tuple[RelPath | None, ContextEngineError | None]:
    try:
        return root.rel(typed, must_exist=must_exist), None
    except ContextEngineError as refusal:
        return None, refusal


@given(st.lists(st.sampled_from((*PARTS, ".ssh", "x.pem")), min_size=1, max_size=5))
def test_what_is_closed_is_closed_with_everything_below(parts: list[str]) -> None:
    closed = [bool(is_sensitive("/".join(parts[:count]))) for count in range(1, len(parts) + 1)]
    assert closed == sorted(closed)


def test_a_path_with_dots_is_told_what_it_means(root: Root) -> None:
    with pytest.raises(InvalidPath) as refusal:
        root.rel("src/app/../environment.ts")
    assert "'src/environment.ts'" in refusal.value.suggestion


@POSIX
def test_a_file_in_a_closed_folder_is_a_matter_for_a_person() -> None:
    with ordinary_user() as place:
        tree(place, {"src/app/main.py": "1"})
        (place / "src").chmod(0)
        with pytest.raises(AccessFailed) as failure:
            Root(place).rel("src/app/main.py")
    assert failure.value.suggestion


@pytest.mark.parametrize("text", ["console.py", "auxiliary/x", "com10", "C:\\work\\a.py", "c:/work", "nul-able.py"])
def test_other_names_pass_there(text: str) -> None:
    assert why_malformed(text, windows=True) is None
