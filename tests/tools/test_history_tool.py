"""`history`, which `ctx history` shows: the commits behind a path, some lines or a symbol, and what a commit changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from context_engine import tools
from context_engine.cli.app import app
from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from tests.support.engines import cache_for, open_engine
from tests.support.trees import commit, git, repository

FIRST = "def open_door():\n    return 1\n\n\ndef close_door():\n    return 2\n"
KEY = "AKIA" + "QX7ZJ2LMNB4TR5WE"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = repository(tmp_path_factory.mktemp("history") / "repo", {})
    commit(folder, "Add doors", {"app/doors.py": FIRST}, date="2026-03-01T00:00:00Z")
    commit(
        folder,
        "Return three\n\nTwo was taken by the windows.",
        {"app/doors.py": FIRST.replace("2", "3")},
        date="2026-03-02T00:00:00Z",
    )
    commit(
        folder,
        "Add a key",
        {"settings.py": f'AWS_KEY = "{KEY}"\nAWS_REGION = "eu"\n', ".env": "TOKEN=hunter2abc\n"},
        date="2026-03-03T00:00:00Z",
    )
    git(folder, "mv", "app/doors.py", "app/gates.py")
    commit(folder, "Rename doors to gates", date="2026-03-09T00:00:00Z")
    return folder


@pytest.fixture(scope="module")
def engine(root: Path) -> Iterator[Engine]:
    with open_engine(root) as opened:
        opened.index.update()
        yield opened


def asked(engine: Engine, target: str, **more: Any) -> dict[str, Any]:
    return json.loads(tools.call(engine, "history", {"target": target, "format": "json", **more}).text)


def subjects(row: dict[str, Any]) -> list[str]:
    return [one["subject"] for one in row["commits"]]


def test_a_file_is_followed_through_its_renames(engine: Engine) -> None:
    assert subjects(asked(engine, "app/gates.py")) == ["Rename doors to gates", "Return three", "Add doors"]


def test_a_deleted_path_a_folder_and_the_repository_have_a_history(engine: Engine) -> None:
    assert subjects(asked(engine, "app/doors.py"))[-1] == "Add doors"
    assert subjects(asked(engine, "app")) == ["Rename doors to gates", "Return three", "Add doors"]
    assert subjects(asked(engine, "", limit=2)) == ["Rename doors to gates", "Add a key"]
    assert asked(engine, "", limit=2)["more"]


def test_each_line_names_the_commit_that_wrote_it_and_its_reason(engine: Engine) -> None:
    row = asked(engine, "app/gates.py:5-6")
    assert [(one["subject"], one["lines"]) for one in row["commits"]] == [("Return three", "6"), ("Add doors", "5")]
    assert row["commits"][0]["body"] == "Two was taken by the windows."
    text = tools.call(engine, "history", {"target": "app/gates.py:6"}).text
    assert "(line 6)" in text
    assert "    Two was taken by the windows." in text


def test_a_symbol_means_the_lines_of_its_definition(engine: Engine) -> None:
    assert subjects(asked(engine, "close_door")) == ["Return three", "Add doors"]
    assert subjects(asked(engine, "open_door")) == ["Add doors"]


def test_lines_that_no_commit_has_are_named(engine: Engine, root: Path) -> None:
    path = root / "app" / "gates.py"
    before = path.read_text()
    try:
        path.write_text("# new\n" + before)
        row = asked(engine, "app/gates.py:1-2")
    finally:
        path.write_text(before)
    assert row["uncommitted"] == "1"
    assert subjects(row) == ["Add doors"]


def test_lines_of_a_file_that_the_work_tree_lacks_are_those_of_the_last_commit(engine: Engine, root: Path) -> None:
    path = root / "app" / "gates.py"
    before = path.read_text()
    here = asked(engine, "app/gates.py:5-6")
    path.unlink()
    try:
        gone = asked(engine, "./app/gates.py:5-6")
        with pytest.raises(ContextEngineError, match=r"no commit has app/never\.py"):
            asked(engine, "app/never.py:5")
    finally:
        path.write_text(before)
    assert gone["commits"] == here["commits"]
    assert "the work tree has no such file" in gone["note"]


def test_a_commit_lists_its_files_with_their_counts(engine: Engine) -> None:
    row = asked(engine, "HEAD~2")
    assert row["files"] == [{"path": "app/doors.py", "added": 1, "removed": 1}]
    (renamed,) = asked(engine, "HEAD")["files"]
    assert (renamed["path"], renamed["was"]) == ("app/gates.py", "app/doors.py")


def test_a_diff_shows_neither_secrets_nor_files_that_hold_them(engine: Engine, root: Path) -> None:
    commit_hash = git(root, "rev-parse", "HEAD~1")
    for form in ("text", "json"):
        text = tools.call(engine, "history", {"target": commit_hash, "diff": True, "format": form}).text
        assert "AWS_REGION" in text
        assert KEY not in text
        assert "hunter2abc" not in text
        assert "masked" in text


def refused(engine: Engine, target: str) -> ContextEngineError:
    with pytest.raises(ContextEngineError) as raised:
        tools.call(engine, "history", {"target": target})
    return raised.value


def test_an_unknown_target_names_what_is_near(engine: Engine) -> None:
    assert "close_door" in refused(engine, "close_dor").message
    assert "6 lines" in refused(engine, "app/gates.py:900").message
    assert refused(engine, "no/such.py").code == "FILE_NOT_FOUND"


def test_a_folder_without_commits_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.py").write_text("x = 1\n")
    with open_engine(tmp_path / "plain") as opened:
        assert "no git repository" in refused(opened, "").message


def test_the_command_shows_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(cache_for(root)))
    shown = CliRunner().invoke(app, ["history", "app/gates.py:6", "--root", str(root)])
    assert shown.exit_code == 0
    assert "Return three" in shown.output
