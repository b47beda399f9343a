"""Chunk files, all the way: exported at the terminal, served, asked over stdio, written anew, asked again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import planted
from tests.e2e.wire import DOCUMENTS, HERE, PATIENCE_S, Wire, told
from tests.support import preloaded
from tests.support.waiting import until

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SEED_SHAPE = {"id", "chunk_type", "title", "text", "tags", "metadata", "created_at", "updated_at"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, own_places: None) -> Path:
    """The workspace that the chunks are of."""
    return planted(tmp_path_factory.mktemp("chunks") / "till")


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    """Its chunk files, exported at the terminal."""
    folder = root.parent / "exported"
    done = ctx("chunk", "export", str(folder), "--root", str(root))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wire(root: Path, folder: Path) -> Iterator[Wire]:
    """A server of the workspace that serves them, too."""
    with Wire(root, options=[*DOCUMENTS, "--chunks-dir", str(folder)]) as wire:
        wire.shake_hands()
        until(lambda: told(wire, "index_status")["state"] == "ready")
        yield wire
        assert wire.end() == 0


def ctx(*words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "context_engine", *words]
    return preloaded.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def put(folder: Path, name: str, *chunks: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps(chunks))


def titles(wire: Wire, query: str, **asked: Any) -> list[str]:
    return [row["chunk"]["title"] for row in told(wire, "cortex_search", query=query, **asked)["results"]]


def news(wire: Wire) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, wire.log) if line["event"] == "chunks"]


def test_what_was_exported_is_found_by_words_and_meaning_in_the_shape_of_the_seed(wire: Wire) -> None:
    reply = told(wire, "cortex_search", query="where are passwords hashed", chunk_types=["definitions"])
    best = reply["results"][0]
    assert "def hash_password" in best["chunk"]["text"]
    assert best["chunk"]["metadata"]["file_path"] == "till/auth.py"
    assert best["combined_score"] == 1
    assert {*best["chunk"]} == SEED_SHAPE
    assert reply["engine"] == "hybrid"
    assert reply["total"] == len(reply["results"])
    assert {row["chunk"]["chunk_type"] for row in reply["results"]} == {"definitions"}
    assert "embedding" not in json.dumps(reply)


def test_tags_are_all_asked_for_and_an_unknown_one_finds_nothing_but_its_neighbours(wire: Wire) -> None:
    for row in told(wire, "cortex_search", query="order", tags=["code", "python"])["results"]:
        assert {"code", "python"} <= {*row["chunk"]["tags"]}
    unknown = told(wire, "cortex_search", query="order", tags=["pyton"])
    assert unknown["results"] == []
    assert "python" in unknown["near_tags"]


def test_the_status_names_the_folder_its_kinds_and_the_model(wire: Wire, folder: Path) -> None:
    state = told(wire, "index_status")["chunk_files"]
    assert state["folder"] == folder.name
    assert state["files"] == ["doc-chunks.json", "code-symbols.json", "code-definitions.json", "code-data.json"]
    assert state["chunks"]["definitions"] >= 5
    assert (state["model"], state["dimensions"], state["engine"]) == ("static", 384, "hybrid")
    assert state["watcher"] == "running"


def test_a_file_that_is_written_anew_answers_by_itself_and_a_broken_one_keeps_what_served(
    wire: Wire, folder: Path
) -> None:
    whole = (folder / "code-data.json").read_bytes()
    put(folder, "code-data.json", {"id": "n1", "title": "NEW_LIMIT", "text": f"NEW_LIMIT = 3  # token {KEY}"})
    until(lambda: "NEW_LIMIT" in titles(wire, "new limit"))
    assert KEY not in wire.text("cortex_search", query="new limit")

    (folder / "code-data.json").write_text('[{"id": "n2"')
    until(lambda: "freshness" in told(wire, "cortex_search", query="new limit"))
    assert "code-data.json" in told(wire, "index_status")["chunk_files"]["problem"]
    assert "NEW_LIMIT" in titles(wire, "new limit")

    (folder / "code-data.json").write_bytes(whole)
    until(lambda: "NEW_LIMIT" not in titles(wire, "new limit"))
    assert "problem" not in told(wire, "index_status")["chunk_files"]
    until(lambda: news(wire)[-1]["ok"])
    assert [line["ok"] for line in news(wire)] == [True, True, False, True]


@pytest.mark.parametrize("http", [(), ("--http", "127.0.0.1:0")])
def test_a_missing_folder_or_unfit_vectors_end_the_start_with_one_line(
    root: Path, tmp_path: Path, http: tuple[str, ...]
) -> None:
    put(tmp_path, "doc-chunks.json", {"id": "a", "text": "a", "embedding": [1, 0]})
    put(tmp_path, "code-data.json", {"id": "b", "text": "b", "embedding": [1, 0, 0]})
    for named, words in ((tmp_path / "none", "there is no folder"), (tmp_path, "vectors of 3 numbers where 2 belong")):
        with Wire(root, env={"CTX_LOG_LEVEL": "off"}, options=["--chunks-dir", str(named), *http]) as wire:
            assert wire.process.wait(timeout=PATIENCE_S) == 1
            until(lambda wire=wire: bool(wire.log))
            (line,) = wire.log
        assert line.startswith("ctx serve: ")
        assert words in line


def test_another_indexers_files_are_served_by_words_and_the_broken_one_is_left_out_with_a_warning(
    root: Path, tmp_path: Path
) -> None:
    chunk = {
        "id": "go-1",
        "chunk_type": "symbols",
        "text": "type AuthHandler struct",
        "tags": ["go"],
        "embedding": [1, 0],
    }
    head = {"model": "BAAI/bge-small-en-v1.5", "dimensions": 2}
    (tmp_path / "code-symbols.json").write_text(json.dumps({"_metadata": head, "chunks": [chunk]}))
    (tmp_path / "code-data.json").write_text("{")
    with Wire(root, env={"CTX_CHUNKS_DIR": str(tmp_path)}, options=DOCUMENTS) as wire:
        wire.shake_hands()
        reply = told(wire, "cortex_search", query="auth handler")
        assert [row["chunk"]["id"] for row in reply["results"]] == ["go-1"]
        assert reply["engine"] == "lexical"
        assert "bge-small" in reply["missing"]
        assert told(wire, "index_status")["chunk_files"]["skipped"][0]["path"] == "code-data.json"
        assert next(line["told"] for line in news(wire) if not line["ok"]).startswith("code-data.json is left out")
        assert wire.end() == 0
