"""`ctx store`: what a person sees of looking after a store, the refusals included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from context_engine import tools
from context_engine.cli.app import app
from context_engine.errors import ContextEngineError
from tests.support.databases import new_database, reader_of
from tests.support.engines import open_engine
from tests.support.terminal import sit_down
from tests.support.trees import repository


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a name that no other test has, and an environment that names no store."""
    made = repository(tmp_path / "app", {"a.py": "def lion(): ...\n", "b.py": "def tiger(): ...\n"})
    for name in ("CTX_STORE_URL", "CTX_STORE_SHARES"):
        monkeypatch.delenv(name, raising=False)
    return sit_down(made, monkeypatch, STORE_REPOSITORY=tmp_path, EMBEDDER="none")


def ctx(*arguments: object, answer: str = "") -> Result:
    return CliRunner().invoke(app, ["store", *map(str, arguments)], input=answer)


def refusal(*arguments: object, answer: str = "") -> ContextEngineError:
    """The error of a command; `ctx` itself writes it to stderr as a line, and ends with 1."""
    error = ctx(*arguments, answer=answer).exception
    assert isinstance(error, ContextEngineError), error
    return error


def publish(root: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Index into a database, which is then the one that the environment names; nothing is published any more."""
    monkeypatch.setenv("CTX_STORE_URL", address)
    with open_engine(
        root, embedder="none", store_url=address, store_shares=True, store_repository=str(root.parent)
    ) as ci:
        ci.index.update()


def test_the_repositories_of_a_store_are_listed_and_can_be_removed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = new_database()
    assert "no repository is stored on" in ctx("list", "--store", address).stdout
    publish(root, address, monkeypatch)
    (entry,) = json.loads(ctx("list", "--store", address, "--json").stdout)
    assert (entry["repository"], entry["files"], entry["chunks"]) == (str(tmp_path), 2, 2)
    head, row = ctx("list", "--store", address).stdout.splitlines()
    assert head.split() == ["repository", "size", "files", "chunks", "committed", "schema"]
    assert row.split()[0] == str(tmp_path) and "just now" in row
    assert refusal("remove", tmp_path, "--store", address, answer="n\n").code == "NOT_CONFIRMED"
    assert refusal("remove", "nobody", "--store", address, "--yes").suggestion == f"it has those of: {tmp_path}"
    assert ctx("remove", tmp_path, "--store", address, answer="y\n").stdout.startswith(f"removed {tmp_path}, ")
    assert json.loads(ctx("list", "--store", address, "--json").stdout) == []


def test_without_a_store_there_is_nobody_to_list(root: Path) -> None:
    refused = refusal("list", "--root", root)
    assert "CTX_STORE_URL" in refused.suggestion


def test_a_reader_lists_and_removes_nothing(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = new_database()
    publish(root, address, monkeypatch)
    reader = reader_of(address)
    assert len(json.loads(ctx("list", "--store", reader, "--json").stdout)) == 1
    refused = refusal("remove", tmp_path, "--store", reader, "--yes")
    assert (refused.code, "grant" in refused.suggestion) == ("STORE_UNUSABLE", True)


# -- a store that does not answer --------------------------------------------------------------------------------------

DEAD = "postgresql://nobody:hunter2@127.0.0.1:9/team"
"""The port of `discard`, where nothing listens."""
STEP = "Check CTX_STORE_URL"


@pytest.fixture
def cut_off(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository with the address of a database that does not answer, and without an index for it."""
    pytest.importorskip("psycopg")
    monkeypatch.setenv("CTX_STORE_URL", DEAD)
    monkeypatch.setenv("CTX_DAEMON", "0")
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("command", [["search", "lion"], ["search", "lion", "--json"], ["index"], ["symbol", "lion"]])
def test_a_store_that_does_not_answer_is_said_once_with_the_next_step_and_answers_come_all_the_same(
    cut_off: Path, command: list[str]
) -> None:
    for count in (1, 0):  # with an index of its own nothing is missing
        done = CliRunner().invoke(app, command)
        assert (done.exit_code, done.exception) == (0, None)
        assert done.stderr.count("does not answer") == count
        assert (STEP in done.stderr) == bool(count)
        assert "hunter2" not in done.output
        assert "a.py" in done.stdout or "indexed" in done.stdout


def test_doctor_names_the_store_and_not_the_index_as_the_trouble(cut_off: Path) -> None:
    CliRunner().invoke(app, ["index"])
    rows = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    by_part = {row["part"]: row for row in rows["findings"]}
    assert by_part["store"]["verdict"] == "warning"
    assert by_part["store"]["step"].startswith(STEP)
    assert by_part["index"]["verdict"] == "ok"


def test_answers_need_no_store_and_the_tools_for_the_index_say_that_it_is_missing(cut_off: Path) -> None:
    with open_engine(cut_off, store_url=DEAD, embedder="none") as engine:
        engine.index.update()
        assert tools.call(engine, "search_code", {"query": "lion"}).text.startswith("lexical\n")
        row = json.loads(tools.call(engine, "index_status", {}).text)
        assert row["next"].startswith(STEP)
        assert STEP in json.loads(tools.call(engine, "index_workspace", {}).text)["warning"]
