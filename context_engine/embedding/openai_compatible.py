"""The provider `openai-compatible`: `/v1/embeddings` of LM Studio, llama.cpp, vLLM, TEI, Jina, Voyage, OpenAI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from context_engine.embedding.embedder import EmbedderConfig
from context_engine.embedding.remote_embedder import Dialect, RemoteEmbedder


def open_embedder(choice: EmbedderConfig) -> RemoteEmbedder:
    """Open the endpoint at the configured address. Raises: EmbedderUnusable if address or model is missing or wrong."""
    return RemoteEmbedder(choice, DIALECT)


def question(texts: Sequence[str], model: str, dimensions: int) -> dict[str, Any]:
    """Return the body with only what all of them know. `encoding_format` is left out, because some refuse it."""
    asked: dict[str, Any] = {"model": model, "input": list(texts)}
    return asked | {"dimensions": dimensions} if dimensions else asked


def vectors(answer: Any) -> list[Any]:
    """Return the rows by their `index`; an answer may list them in any order."""
    rows = {row["index"]: row["embedding"] for row in answer["data"]}
    if len(rows) != len(answer["data"]) or (rows and sorted(rows) != list(range(len(rows)))):
        raise ValueError("its vectors are not numbered 0, 1, 2 ...")
    return [rows[number] for number in range(len(rows))]


DIALECT = Dialect(
    provider="openai-compatible",
    path="/v1/embeddings",
    question=question,
    vectors=vectors,
    start="Start the server there, or correct the address.",
    get_model="Name a model that this endpoint has; `GET /v1/models` there lists them.",
)
