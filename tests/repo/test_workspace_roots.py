"""Roots: a folder that was named is taken only if it can be one project, and a URI means the same path everywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from context_engine.errors import AccessFailed, FileNotFound, InvalidArgument, UnsuitableRoot
from context_engine.repo.workspace_roots import check_workspace_root, nearest_project, uri_to_path
from tests.support.trees import ordinary_user, repository, tree


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, so that the places above it are known."""
    place = tmp_path / "homes" / "me"
    place.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("USERPROFILE", str(place))
    return place


# -- the folder that was named ----------------------------------------------------------------------------------------


def test_a_folder_is_taken_by_its_real_path(home: Path) -> None:
    project = tree(home / "project", {"a": "1"})
    (home / "alias").symlink_to(project)
    assert (
        check_workspace_root(home / "alias")
        == check_workspace_root(str(project))
        == check_workspace_root("~/project")
        == project
    )


@pytest.mark.parametrize("named", ["/", "~", "~/..", "~/project/.."])
def test_the_whole_disk_and_the_home_folder_are_refused_with_what_to_do(home: Path, named: str) -> None:
    tree(home / "project", {})
    with pytest.raises(UnsuitableRoot) as refusal:
        check_workspace_root(named)
    assert "--root" in refusal.value.suggestion
    assert "CTX_ROOT" in refusal.value.suggestion


def test_somebody_who_insists_gets_it(home: Path) -> None:
    assert check_workspace_root("~", allow_any=True) == home
    assert check_workspace_root("/", allow_any=True) == Path(os.path.realpath("/"))


@pytest.mark.parametrize("named", ["nowhere", "a.py/below"])
def test_a_folder_that_is_not_there_is_not_found(home: Path, named: str) -> None:
    tree(home, {"a.py": "1"})
    with pytest.raises(FileNotFound):
        check_workspace_root(home / named)


@pytest.mark.skipif(os.name != "posix", reason="only here a folder can be closed so")
@pytest.mark.parametrize("mode", [0, 0o100, 0o400])
def test_a_closed_folder_is_refused_in_words(mode: int) -> None:
    with ordinary_user() as place:
        tree(place / "closed", {}).chmod(mode)
        with pytest.raises(AccessFailed) as failure:
            check_workspace_root(place / "closed")
    assert failure.value.suggestion


# -- the project around a place ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "marker",
    [
        *("pyproject.toml", "package.json", "go.mod", "Cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts"),
        *("CMakeLists.txt", "Makefile", "composer.json", "Gemfile", "mix.exs", ".context-engine/", ".git/"),
    ],
)
def test_a_marker_makes_a_project_of_the_folder_it_stands_in(home: Path, marker: str) -> None:
    project = tree(home / "code" / "project", {marker: "", "src/deep/a": "1"})
    assert nearest_project(project / "src" / "deep") == project
    assert nearest_project(project) == project


def test_the_top_of_a_repository_counts_before_a_package_inside_it(home: Path) -> None:
    repo = repository(home / "repo", {"packages/a/package.json": "{}"})
    assert nearest_project(repo / "packages" / "a") == repo


def test_a_marker_in_the_home_folder_or_above_makes_no_project_of_everything(home: Path, tmp_path: Path) -> None:
    tree(home, {".git/": "", "package.json": "{}", "notes/a.txt": "1"})
    tree(home.parent, {"Makefile": "", "Cargo.toml": ""})
    assert nearest_project(home / "notes") is None
    assert nearest_project(home) is None
    assert nearest_project("/") is None


# -- URIs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        *(("file:///home/me", "/home/me"), ("file:/home/me", "/home/me"), ("file://localhost/home/me", "/home/me")),
        *(("FILE:///home/me", "/home/me"), ("file:///home/a%20b/gr%C3%B6%C3%9Fe", "/home/a b/größe")),
        *(("file:///100%25", "/100%"), ("file:///a+b", "/a+b"), ("file:///%23tag%3F", "/#tag?"), ("file:///", "/")),
    ],
)
def test_a_file_uri_names_a_path(uri: str, path: str) -> None:
    assert uri_to_path(uri) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/Users/me", "c:\\Users\\me"),
        ("file:///C:/Users/me", "C:\\Users\\me"),
        ("file:///c|/old", "c:\\old"),
        ("file://c:/common/slip", "c:\\common\\slip"),
        ("file:///c%3A", "c:\\"),
        ("file:///c:/", "c:\\"),
        ("file:///c%3A/a%20b/%C3%A4", "c:\\a b\\ä"),
        ("file://server/share/x", "\\\\server\\share\\x"),
        ("file://localhost/c:/x", "c:\\x"),
    ],
)
def test_on_windows_it_names_a_drive_or_a_share(uri: str, path: str) -> None:
    assert uri_to_path(uri, windows=True) == path


@pytest.mark.parametrize(
    ("uri", "windows"),
    [
        *((uri, False) for uri in ("http://example.org/x", "/home/me", "", "file://server/share", "file:relative")),
        *(("file://[::1/home", False), ("file://[::1/home", True), ("file:///a%00b", False), ("file:///home/me", True)),
        *((uri, True) for uri in ("file:///cc:/x", "file:///c%3A%00/x", "vscode-remote://ssh/home")),
    ],
)
def test_what_names_no_path_is_refused(uri: str, windows: bool) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        uri_to_path(uri, windows=windows)
    assert refusal.value.suggestion
