"""Which projects a server opens: what was named, what the client told, what is around it; in that order."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import CallError, UnsuitableRoot
from context_engine.server.projects import Projects, initial_folders, name_folders

PARTS = st.lists(st.sampled_from(["a", "b", "web"]), min_size=1, max_size=4)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three projects and a folder that is none."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "kept"))
    for name in ("web", "api", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    (tmp_path / "home").mkdir()
    (tmp_path / "plain").mkdir()
    return tmp_path


def made(*named: Path, here: Path | str = "") -> Projects:
    return Projects([str(each) for each in named], here=str(here), log=lambda line: None, follow=False)


def test_one_named_project_answers_calls_that_name_none(work: Path) -> None:
    projects = made(work / "web", here=work / "api")
    assert projects.engine().root == work / "web"
    assert projects.engine("web") is projects.engine(str(work / "web")) is projects.engine()
    projects.close()


def test_a_package_inside_a_cache_of_tools_is_no_project(work: Path) -> None:
    kept = work / ".cache" / "uv" / "thing"
    kept.mkdir(parents=True)
    (kept / "pyproject.toml").touch()
    with pytest.raises(UnsuitableRoot):
        made(here=kept).engine()


def test_the_same_folder_by_another_name_is_one_project(work: Path) -> None:
    (work / "link").symlink_to(work / "web")
    assert initial_folders([str(work / "link"), str(work / "web")], {}) == (str(work / "web"),)


def test_a_folder_that_does_not_exist_is_told_with_every_call(work: Path) -> None:
    projects = made(work / "gone")
    for _ in range(2):
        with pytest.raises(CallError, match="gone"):
            projects.engine()
    assert projects.states() == {"gone": "failed"}


def test_after_closing_nothing_opens_any_more(work: Path) -> None:
    projects = made(work / "web")
    projects.close()
    with pytest.raises(CallError, match="ending"):
        projects.engine()


@given(st.lists(PARTS.map(lambda parts: "/" + "/".join(parts)), min_size=1, max_size=5, unique=True))
def test_names_are_apart_and_end_the_path_they_stand_for(paths: list[str]) -> None:
    named = name_folders(paths)
    assert list(named.values()) == paths
    assert all(path.endswith(name) for name, path in named.items())
