"""`ctx index --store URL --share`: what the environment says of the store, said for one run."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from context_engine.cli.app import app
from context_engine.cli.index_commands import choose_store, index
from context_engine.engine import Engine
from context_engine.errors import Cancelled, InvalidArgument, StoreUnavailable
from context_engine.settings import Settings
from tests.support.databases import new_database
from tests.support.engines import open_engine
from tests.support.terminal import sit_down
from tests.support.trees import repository

NOWHERE = "postgresql://127.0.0.1:9/team"


@cache
def database() -> str:
    return new_database()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and an environment that names no store."""
    made = repository(tmp_path / "app", {"a.py": "def lion(): ...\n"})
    for name in ("CTX_STORE_URL", "CTX_STORE_SHARES"):
        monkeypatch.delenv(name, raising=False)
    return sit_down(made, monkeypatch, STORE_REPOSITORY=tmp_path, EMBEDDER="none")


def published(tmp_path: Path) -> bool:
    """Whether another machine finds the repository in the database."""
    listed = CliRunner().invoke(app, ["store", "list", "--store", database(), "--json"]).stdout
    return str(tmp_path) in {row["repository"] for row in json.loads(listed)}


def test_what_is_indexed_into_a_named_store_is_shared_only_when_that_is_said(root: Path, tmp_path: Path) -> None:
    for share in (False, True):
        index(None, root, store=database(), share=share)
        assert published(tmp_path) == share


def test_the_options_go_before_the_environment_and_count_for_one_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTX_STORE_URL", NOWHERE)
    index(None, root)  # who does not share is indexed here while the database is away
    with pytest.raises(StoreUnavailable):
        index(None, root, share=True, force=True)
    index(None, root, store=" embedded ")
    with open_engine(root) as engine:
        assert engine.status().files == 1


@pytest.mark.parametrize("words", [("index",), ("search", "lion")])
def test_an_interrupted_first_build_says_that_the_store_failed(
    root: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CTX_STORE_URL", NOWHERE)

    def interrupt(engine: Engine, *_: object, **__: object) -> None:
        engine.index.update()
        raise Cancelled("indexing was interrupted")

    monkeypatch.setattr("context_engine.cli.index_commands.run_index", interrupt)
    monkeypatch.setattr("context_engine.cli.progress._index_for_question", interrupt)
    monkeypatch.setattr("context_engine.index.IndexService.is_complete", lambda _: False)
    result = CliRunner().invoke(app, [*words, "--root", str(root)])
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert "answers come from the index of this machine" in result.stderr


@given(address=st.sampled_from(["", "embedded", NOWHERE]), store=st.sampled_from(["", "embedded", NOWHERE]), shares=...)
def test_without_the_options_nothing_of_the_settings_changes(address: str, store: str, shares: bool) -> None:
    known = Settings(store_url=address, store_shares=shares, workers=3)
    told = choose_store(known, store, share=False)
    assert told == dataclasses.replace(known, store_url=store or address)
    if (store or address) == NOWHERE:
        assert choose_store(known, store, share=True) == dataclasses.replace(told, store_shares=True)
    else:
        with pytest.raises(InvalidArgument, match="needs a database"):
            choose_store(known, store, share=True)


@pytest.mark.parametrize("store", [[], ["--store", "embedded"]])
def test_sharing_without_a_database_is_refused_with_the_next_step(root: Path, store: list[str]) -> None:
    refused = CliRunner().invoke(app, ["index", "--root", str(root), "--share", *store])
    assert isinstance(refused.exception, InvalidArgument)
    assert "--store postgresql://" in refused.exception.suggestion
