"""Ollama by its own `/api/embed`; on this machine unless an address is configured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from context_engine.embedding.embedder import EmbedderConfig
from context_engine.embedding.remote_embedder import Dialect, RemoteEmbedder

ADDRESS = "http://127.0.0.1:11434"
"""Where Ollama listens unless it was told otherwise."""


def open_embedder(choice: EmbedderConfig) -> RemoteEmbedder:
    """Ollama at the configured address, or at its usual one. Raises: EmbedderUnusable when no model is configured."""
    return RemoteEmbedder(replace(choice, address=choice.address or ADDRESS), DIALECT)


def question(texts: Sequence[str], model: str, dimensions: int) -> dict[str, Any]:
    """`truncate` is its default, and said: a text that is too long must not be an error."""
    asked: dict[str, Any] = {"model": model, "input": list(texts), "truncate": True}
    return asked | {"dimensions": dimensions} if dimensions else asked


def vectors(answer: Any) -> list[Any]:
    """The rows, in the order of the texts."""
    return list(answer["embeddings"])


DIALECT = Dialect(
    provider="ollama",
    path="/api/embed",
    question=question,
    vectors=vectors,
    start="Start Ollama (`ollama serve`), or correct the address.",
    get_model="Run `ollama pull {model}`.",
)
