"""`ctx store`: what a person sees of moving, mending and looking after a store, the refusals included."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from context_engine.cli.app import app
from context_engine.cli.console import run_with_progress
from context_engine.engine import Engine
from context_engine.errors import Cancelled, ContextEngineError
from context_engine.index.index_service import IndexService
from context_engine.index.shared_store import SharedStore
from context_engine.model import Progress
from tests.index.test_index_archive import flipped
from tests.support.databases import new_database, sql
from tests.support.engines import cache_for, open_engine
from tests.support.trees import repository


@cache
def database() -> str:
    return new_database()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An indexed repository of a name that no other test has, and an environment that names no store."""
    made = repository(tmp_path / "app", {"a.py": "def lion(): ...\n", "b.py": "def tiger(): ...\n"})
    for name in ("CTX_STORE_URL", "CTX_STORE_SHARES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(cache_for(made)))
    monkeypatch.setenv("CTX_STORE_REPOSITORY", str(tmp_path))
    monkeypatch.setenv("CTX_EMBEDDER", "none")
    monkeypatch.setenv("CTX_WORKERS", "0")
    with open_engine(made, embedder="none") as engine:
        engine.index.update()
    return made


def ctx(*arguments: object, answer: str = "") -> Result:
    return CliRunner().invoke(app, ["store", *map(str, arguments)], input=answer)


def refusal(*arguments: object, answer: str = "") -> ContextEngineError:
    """The error of a command; `ctx` itself writes it to stderr as a line, and ends with 1."""
    error = ctx(*arguments, answer=answer).exception
    assert isinstance(error, ContextEngineError), error
    return error


def shared(engine: Engine) -> SharedStore:
    store: Any = engine.index.store
    return store


# -- moving -------------------------------------------------------------------------------------------------------


def test_an_index_moves_into_a_database_and_the_way_on_is_told(root: Path) -> None:
    moved = ctx("migrate", database(), "--root", root)
    assert (moved.exit_code, moved.stdout) == (0, "moved 2 files, 2 chunks\n")
    assert "set CTX_STORE_URL" in moved.stderr


def test_what_is_there_is_replaced_only_when_that_is_said(root: Path) -> None:
    assert ctx("migrate", database(), "--root", root).exit_code == 0
    refused = refusal("migrate", database(), "--root", root)
    assert (refused.code, "--replace" in refused.suggestion) == ("PRECONDITION_FAILED", True)
    assert "already" in refused.message
    assert ctx("migrate", database(), "--root", root, "--replace").exit_code == 0


def test_back_from_the_database_to_this_machine(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx("migrate", database(), "--root", root)
    monkeypatch.setenv("CTX_STORE_URL", database())
    assert "this machine already" in refusal("migrate", "embedded", "--root", root).message
    back = ctx("migrate", "embedded", "--root", root, "--replace")
    assert (back.stdout, "unset CTX_STORE_URL" in back.stderr) == ("moved 2 files, 2 chunks\n", True)


def test_a_move_that_is_interrupted_says_how_to_go_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise Cancelled("move was interrupted")

    monkeypatch.setattr(IndexService, "move_to", interrupted)
    broken = ctx("migrate", database(), "--root", root)
    assert broken.exit_code == 130
    assert "goes on from there" in broken.stderr


@pytest.mark.parametrize(
    ("address", "code", "step"),
    [
        ("nonsense", "INVALID_ARGUMENT", "postgresql://"),
        ("embedded", "INVALID_ARGUMENT", "name a database"),
        ("postgresql://127.0.0.1:9/team", "STORE_UNAVAILABLE", "whether the database runs"),
        ("https://127.0.0.1:9", "STORE_UNAVAILABLE", "whether the database runs"),
        ("http://key@db.example:6333", "INVALID_ARGUMENT", "https://"),
    ],
)
def test_where_an_index_cannot_move_the_next_step_is_named(root: Path, address: str, code: str, step: str) -> None:
    refused = refusal("migrate", address, "--root", root)
    assert (refused.code, step in refused.suggestion) == (code, True)


def test_bytes_are_told_as_sizes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.cli.console.PLAIN_EVERY_S", 0.0)
    run_with_progress(lambda tell, _: tell(Progress("sending", 1_500_000, 9_000_000)), "move", unit="bytes")
    assert capsys.readouterr().err == "sending: 1.5 MB of 9.0 MB\n"


# -- checking -----------------------------------------------------------------------------------------------------


def spoil_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index is on the database, and one segment of this machine's copy is damaged."""
    ctx("migrate", database(), "--root", root)
    monkeypatch.setenv("CTX_STORE_URL", database())
    with Engine.open(root) as engine:
        place = shared(engine).path(shared(engine).segment_refs()[0].name)
    content = place.read_bytes()
    place.unlink()
    place.write_bytes(flipped(content))


def test_damage_of_this_machine_is_told_and_mended_from_the_database(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_here(root, monkeypatch)
    looked = ctx("check", "--root", root)
    assert (looked.exit_code, "damaged on this machine" in looked.stdout) == (1, True)
    assert "ctx store check --repair" in looked.stderr
    mended = ctx("check", "--root", root, "--repair")
    assert (mended.exit_code, mended.stdout.splitlines()[-1]) == (0, "repaired: segments fetched again: 1")
    assert ctx("check", "--root", root).stdout == "the index is sound\n"


def test_damage_of_the_database_is_mended_by_who_shares(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx("migrate", database(), "--root", root)
    monkeypatch.setenv("CTX_STORE_URL", database())
    with Engine.open(root) as engine:
        name = shared(engine).repository
    sql(database(), f"DELETE FROM context_engine.piece WHERE repository = '{name}'")
    refused = ctx("check", "--root", root, "--repair", "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["repaired"] is False
    told_of = ctx("check", "--root", root, "--repair")
    assert "CTX_STORE_SHARES=1" in told_of.stderr
    monkeypatch.setenv("CTX_STORE_SHARES", "1")
    mended = json.loads(ctx("check", "--root", root, "--repair", "--json").stdout)
    assert (mended["ok"], mended["restored"], mended["files_read"]) == (True, 1, 0)
    assert json.loads(ctx("check", "--root", root, "--json").stdout) == {
        "ok": True, "problems": [], "repaired": False, "files_read": 0, "fetched": 0, "restored": 0,
    }  # fmt: skip


# -- who lies there -----------------------------------------------------------------------------------------------


def test_who_lies_on_a_store_is_listed_and_can_be_removed(root: Path, tmp_path: Path) -> None:
    address = new_database()
    assert "no repository is stored on" in ctx("list", "--store", address).stdout
    ctx("migrate", address, "--root", root)
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


def test_who_may_only_read_lists_and_removes_nothing(root: Path, tmp_path: Path) -> None:
    address = new_database()
    ctx("migrate", address, "--root", root)
    sql(
        address,
        "DROP ROLE IF EXISTS ctx_looker; CREATE ROLE ctx_looker LOGIN;"
        "GRANT USAGE ON SCHEMA context_engine TO ctx_looker;"
        "GRANT SELECT ON ALL TABLES IN SCHEMA context_engine TO ctx_looker",
    )
    reader = address.replace("postgres:@", "ctx_looker:@")
    assert len(json.loads(ctx("list", "--store", reader, "--json").stdout)) == 1
    refused = refusal("remove", tmp_path, "--store", reader, "--yes")
    assert (refused.code, "grant" in refused.suggestion) == ("STORE_UNUSABLE", True)
    assert refusal("migrate", reader, "--root", root, "--replace").code == "STORE_UNUSABLE"
    sql(address, "DROP OWNED BY ctx_looker; DROP ROLE ctx_looker")
