"""`ctx store`: what a person sees of checking and repairing an index and looking after a store, the refusals included."""

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
from context_engine.errors import ContextEngineError
from context_engine.index.shared_store import SharedStore
from context_engine.model import Progress
from tests.index.test_index_repair import flipped
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


def test_bytes_are_told_as_sizes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.cli.console.PLAIN_EVERY_S", 0.0)
    run_with_progress(lambda tell, _: tell(Progress("reading", 1_500_000, 9_000_000)), "check", unit="bytes")
    assert capsys.readouterr().err == "reading: 1.5 MB of 9.0 MB\n"


# -- checking -----------------------------------------------------------------------------------------------------


def publish(root: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Index into a database, which is then the one that the environment names; nothing is published any more."""
    monkeypatch.setenv("CTX_STORE_URL", address)
    with open_engine(
        root, embedder="none", store_url=address, store_shares=True, store_repository=str(root.parent)
    ) as ci:
        ci.index.update()


def spoil_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index is on the database, and one segment of this machine's copy is damaged."""
    publish(root, database(), monkeypatch)
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
    publish(root, database(), monkeypatch)
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
    assert (mended["ok"], mended["files_read"]) == (True, 2)
    assert json.loads(ctx("check", "--root", root, "--json").stdout) == {
        "ok": True, "problems": [], "repaired": False, "files_read": 0, "fetched": 0,
    }  # fmt: skip


# -- who lies there -----------------------------------------------------------------------------------------------


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
    sql(address, "DROP OWNED BY ctx_looker; DROP ROLE ctx_looker")
