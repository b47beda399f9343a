"""Every endpoint that speaks OpenAI's `/v1/embeddings`: LM Studio, llama.cpp, vLLM, TEI, Jina, Voyage, OpenAI itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from context_engine.embedding.embedder import EmbedderConfig
from context_engine.embedding.remote_embedder import Dialect, RemoteEmbedder


def open_embedder(choice: EmbedderConfig) -> RemoteEmbedder:
    """The endpoint at the configured address. Raises: EmbedderUnusable when address or model is missing or wrong."""
    return RemoteEmbedder(choice, DIALECT)


def question(texts: Sequence[str], model: str, dimensions: int) -> dict[str, Any]:
    """Only what all of them know. `encoding_format` is left out: plain numbers are the default, and some refuse it."""
    asked: dict[str, Any] = {"model": model, "input": list(texts)}
    return asked | {"dimensions": dimensions} if dimensions else asked


def vectors(answer: Any) -> list[Any]:
    """The rows by their `index`; an answer may list them in any order."""
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
