"""`--chunks-dir` opens behind the first replies: a name in a file is matched with a model here, and what fails is told once."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.server.chunk_server import open_query_embedder
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
