"""`ctx index`: the store that is named for one run, and a run that finds nothing changed."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from context_engine import engine_parts
from context_engine.cli.app import app
from context_engine.cli.index_commands import choose_store, index
from context_engine.engine import Engine
from context_engine.errors import Cancelled, InvalidArgument, StoreUnavailable
from context_engine.index import encoder
from context_engine.model import IndexReport
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


# -- nothing changed --------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An indexed repository, with static vectors and a file that is skipped for its content."""
    files = {f"part{number}.py": f"def lion{number}(): ...\n" for number in range(8)}
    root = repository(tmp_path / "app", {**files, "b.py": "x = 1\n", "c.txt": b"\0", ".gitignore": "*.log\n"})
    sit_down(root, monkeypatch)
    assert index(None, root) == 0
    return root


def unchanged(root: Path) -> IndexReport | None:
    return engine_parts.report_unchanged(root, Settings.load(root))


def test_a_run_that_finds_nothing_changed_reports_what_a_full_run_reports(indexed_tree: Path) -> None:
    (indexed_tree / "new.log").write_text("ignored")
    with Engine.open(indexed_tree) as engine:
        before = engine.index.store.metadata("walked_at")
        found = unchanged(indexed_tree)
        assert engine.index.store.metadata("walked_at") > before
        assert found is not None
        assert found == dataclasses.replace(engine.index.update(), seconds=found.seconds)


def damage(root: Path) -> None:
    """Turn one bit of the middle of a segment."""
    (segment,) = Settings.load(root).workspace_cache(root).rglob("*.seg")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)


def commit_elsewhere(root: Path) -> None:
    """Note a file that is gone as a watcher does: the segments stay as they are, and nothing is counted."""
    (root / "b.py").unlink()
    with Engine.open(root) as engine:
        assert engine.index.builder.index_paths(["b.py"])


def note_more(root: Path) -> None:
    """Note a count that this release does not know."""
    with Engine.open(root) as engine:
        store = engine.index.store
        store.set_metadata({"summary": json.dumps(json.loads(store.metadata("summary")) | {"lines": 7})})


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new file": lambda root: (root / "new.py").write_text("y = 2\n"),
    "a file that is gone": lambda root: (root / "b.py").unlink(),
    "a file of another time": lambda root: os.utime(root / "b.py", ns=(5, 5)),
    "a file of another size": lambda root: (root / "b.py").write_text("x = 12\n"),
    "a skipped file that is text now": lambda root: (root / "c.txt").write_text("words"),
    "a skipped file that is gone": lambda root: (root / "c.txt").unlink(),
    "an ignored file": lambda root: (root / ".gitignore").write_text("b.py\n"),
    "a damaged segment": damage,
    "a commit since": commit_elsewhere,
    "a summary of another release": note_more,
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changed_is_left_to_a_full_run_and_the_next_one_has_nothing_to_do(
    indexed_tree: Path, change: str
) -> None:
    CHANGES[change](indexed_tree)
    assert unchanged(indexed_tree) is None
    assert index(None, indexed_tree) == 0
    assert unchanged(indexed_tree) is not None
    with Engine.open(indexed_tree) as engine:
        assert engine.index.store.check() == []


def test_an_index_of_other_static_vectors_is_left_to_a_full_run(
    indexed_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "CHUNK_HEADS", encoder.CHUNK_HEADS + 1)
    assert unchanged(indexed_tree) is None


def test_a_run_that_finds_nothing_changed_imports_only_what_looks_for_changes(indexed_tree: Path) -> None:
    program = "import sys; sys.argv = ['ctx', 'index']; from context_engine.cli import main\n"
    program += "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=indexed_tree, capture_output=True, text=True, check=True)
    assert "10 files" in ended.stdout
    loaded = set(ended.stderr.split())
    unwanted = {"numpy", "pydantic", "typer", "yaml", "filelock", "tree_sitter", "context_engine.engine"}
    assert loaded & unwanted == set()
    ours = {name for name in loaded if name.startswith("context_engine.")}
    packages = {name.split(".")[1] for name in ours if name.count(".") > 1}
    assert packages == {"cli", "daemon", "embedding", "index", "repo", "secrets", "storage", "text"}
    assert len(ours) <= 60
