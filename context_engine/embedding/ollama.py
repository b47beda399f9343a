"""The provider `ollama`: Ollama by its own `/api/embed`, on this machine unless an address is configured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from context_engine.embedding.embedder import EmbedderConfig
from context_engine.embedding.remote_embedder import Dialect, RemoteEmbedder

ADDRESS = "http://127.0.0.1:11434"
"""The default address of Ollama."""


def open_embedder(choice: EmbedderConfig) -> RemoteEmbedder:
    """Open Ollama at the configured address, or at the default. Raises: EmbedderUnusable if no model is configured."""
    return RemoteEmbedder(replace(choice, address=choice.address or ADDRESS), DIALECT)


def question(texts: Sequence[str], model: str, dimensions: int) -> dict[str, Any]:
    """Return the body. `truncate` is the default, but stated: a text that is too long must not be an error."""
    asked: dict[str, Any] = {"model": model, "input": list(texts), "truncate": True}
    return asked | {"dimensions": dimensions} if dimensions else asked


def vectors(answer: Any) -> list[Any]:
    """Return the rows, in the order of the texts."""
    return list(answer["embeddings"])


DIALECT = Dialect(
    provider="ollama",
    path="/api/embed",
    question=question,
    vectors=vectors,
    start="Start Ollama (`ollama serve`), or correct the address.",
    get_model="Run `ollama pull {model}`.",
)
