"""`--chunks-dir` opens behind the first replies: a name in a file is matched with a model here, and what fails is told once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import ContextEngineError, FileNotFound, InvalidPath, InvalidVectors
from context_engine.model import Query
from context_engine.server.chunk_server import ChunkFolderLoader, choose_folder, open_query_embedder
from context_engine.settings import Settings

CONFIGURED = Settings(
    cache_folder=Path("/c"),
    embedder="openai-compatible",
    embedding_model="bge-m3",
    embedding_address="http://127.0.0.1:1",
    embedding_key_variable="KEY",
    embedding_dimensions=7,
)


@pytest.mark.parametrize("model", ["BAAI/bge-small-en-v1.5", "openai-compatible:", ""])
def test_a_model_that_nobody_chose_is_not_at_hand(model: str) -> None:
    for settings in (Settings(), Settings(embedder="openai-compatible"), CONFIGURED):
        assert open_query_embedder(model, settings, {}) is None


def test_the_static_table_is_known_by_its_name() -> None:
    for settings in (Settings(), CONFIGURED):
        embedder = open_query_embedder("static", settings, {})
        assert embedder is not None
        assert embedder.name == "static"
        embedder.close()


@pytest.mark.parametrize("model", ["bge-m3", "openai-compatible:bge-m3"])
def test_what_the_person_configured_is_known_by_its_name(model: str) -> None:
    embedder = open_query_embedder(model, CONFIGURED, {"KEY": "k"})
    assert embedder is not None
    assert (embedder.name, embedder.dimensions) == ("openai-compatible:bge-m3", 7)
    assert open_query_embedder(model, Settings(), {"KEY": "k"}) is None


def test_a_folder_is_looked_for_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert choose_folder(str(tmp_path)) == tmp_path.resolve()
    with pytest.raises(FileNotFound):
        choose_folder(str(tmp_path / "none"))
    with pytest.raises(InvalidPath):
        choose_folder(str(tmp_path / "file"))


def opening(folder: Path, log: list[dict[str, Any]], failures: list[ContextEngineError]) -> ChunkFolderLoader:
    made = ChunkFolderLoader(folder, Settings(), {}, log=log.append, failed=failures.append)
    made.start()
    return made


def test_whoever_asks_waits_for_the_files_and_their_loading_is_logged(tmp_path: Path) -> None:
    log: list[dict[str, Any]] = []
    (tmp_path / "code-data.json").write_text(json.dumps([{"id": "a", "text": "pool"}]))
    (tmp_path / "doc-chunks.json").write_text("{")
    chunks = opening(tmp_path, log, [])
    assert [hit.row.id for hit in chunks.wait().search(Query("pool")).hits] == ["a"]
    chunks.close()
    assert {line["event"] for line in log} == {"chunks"}
    assert [line["ok"] for line in log] == [True, False, True]


def test_what_cannot_be_served_is_told_to_whoever_started_and_to_whoever_asks(tmp_path: Path) -> None:
    failures: list[ContextEngineError] = []
    rows = [{"id": "a", "text": "a", "embedding": [1]}, {"id": "b", "text": "b", "embedding": [1, 0]}]
    (tmp_path / "code-data.json").write_text(json.dumps(rows))
    chunks = opening(tmp_path, [], failures)
    for _ in range(2):
        with pytest.raises(InvalidVectors):
            chunks.wait()
    assert len(failures) == 1
    chunks.close()
