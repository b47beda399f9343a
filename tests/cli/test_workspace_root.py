"""Which folder is meant when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.cli.common_options import find_project, resolve_root


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "work" / "project"
    (project / "src" / "deep").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    return project


def test_the_nearest_folder_above_with_a_marker_is_the_project(project: Path) -> None:
    assert find_project(project / "src" / "deep") == project
    (project / "src" / ".git").mkdir()
    assert find_project(project / "src" / "deep") == project / "src"


def test_a_marker_in_the_home_folder_makes_no_project_of_everything(project: Path) -> None:
    (Path.home() / ".git").mkdir()
    assert find_project(project.parent) == project.parent


def test_a_named_root_is_taken_as_it_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "src")
    assert resolve_root(Path("deep")) == project / "src" / "deep"
    assert resolve_root(None) == project
