"""The interface of embedders, the table of their providers, and what providers of other programs share.

A provider is chosen by name and is not imported before. Nothing here opens a file or a socket; numpy is all it needs.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Literal, Protocol

import numpy as np

from context_engine.errors import Cancelled, EmbedderUnusable
from context_engine.text import CHARS_PER_TOKEN, estimate_tokens, suggest_nearest

Mode = Literal["query", "passage"]
"""Use of a text: some models want other words before a question than before a passage."""


class Embedder(Protocol):
    """Turns texts into vectors.

    Every provider passes `tests/contracts/test_embedders.py`; one embedder may be used by many threads.
    """

    @property
    def name(self) -> str:
        """The provider, and the model if there is a choice of them: `static`, `openai-compatible:bge-m3`."""

    @property
    def dimensions(self) -> int:
        """Numbers in one vector. Unless it is configured, a provider has to embed a text to know it."""

    @property
    def fingerprint(self) -> str:
        """Hex digits, equal in every process, that change with everything that changes vectors.

        Vectors of different fingerprints are never compared.
        """

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:
        """Return one vector for each text, in their order: float32, shape `(len(texts), dimensions)`.

        Each row has length 1, or is all zero where the model knows nothing of the text. A text has the same vector
        whatever other texts come with it, up to 1e-5. Any string is a text: empty, a megabyte, lone surrogates.

        Raises: Cancelled soon after `cancel` is set; EmbedderFailed and EmbedderUnusable when a provider does not
        deliver; ValueError after `close()`.
        """

    def close(self) -> None:
        """Free memory, files and connections. Closing twice is allowed."""


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """The user's choice as plain values. An empty value leaves it to the provider."""

    provider: str
    model: str = ""
    address: str = ""
    """Address of an endpoint, such as `http://127.0.0.1:11434`; no other one is ever contacted."""
    key: str = field(default="", repr=False)
    """Key of the endpoint. It comes from the environment, never from a file of the workspace, and is never shown."""
    dimensions: int = 0
    query_prefix: str = ""
    """Words that the model wants before a question, such as `search_query: `; `passage_prefix` before a passage."""
    passage_prefix: str = ""

    def prefix(self, mode: Mode) -> str:
        """Return the words before a text."""
        return self.query_prefix if mode == "query" else self.passage_prefix


PROVIDERS: Mapping[str, str] = {
    "static": "context_engine.embedding.static_embedder:open_embedder",
    "openai-compatible": "context_engine.embedding.remote_embedder:open_openai_compatible",
    "ollama": "context_engine.embedding.remote_embedder:open_ollama",
    "sentence-transformers": "context_engine.embedding.library_embedder:open_sentence_transformers",
    "model2vec": "context_engine.embedding.library_embedder:open_model2vec",
}
"""Name -> `module:function`, which takes an `EmbedderConfig` and returns an `Embedder`."""


def open_embedder(config: EmbedderConfig) -> Embedder:
    """Open the chosen embedder; no model is loaded and no address contacted yet.

    Raises: EmbedderUnusable for an unknown name, and for whatever is wrong with the configuration.
    """
    if config.provider not in PROVIDERS:
        raise EmbedderUnusable(
            f"there is no embedder {config.provider[:60]!r}",
            suggestion=suggest_nearest(config.provider, PROVIDERS).strip() or f"There are {', '.join(PROVIDERS)}.",
        )
    return resolve_name(PROVIDERS[config.provider])(config)


def normalize_rows(rows: np.ndarray) -> np.ndarray:
    """Return the rows as float32 with length 1; rows of zeros stay as they are.

    >>> normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[np.float32(0.6), np.float32(0.8)], [0.0, 0.0]]
    True
    """
    wide = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return (wide / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def raise_if_cancelled(cancel: threading.Event | None) -> None:
    """Check between two batches. Raises: Cancelled, once the event is set."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("embedding was cancelled", suggestion="Call again; vectors that are stored are not made twice.")


ITEMS_MAX = 32
"""Texts in one request: text-embeddings-inference refuses more by default, all others take more."""
TOKENS_MAX = 512
"""Tokens of one text: the window of most open models; some refuse longer texts."""


def cut(text: str, tokens_max: int = TOKENS_MAX) -> str:
    r"""Return a beginning of a text with at most `tokens_max` estimated tokens, as UTF-8 can encode it.

    >>> cut("abcdefghijkl", 2), cut("中文字符", 2), cut("a\ud800b")
    ('abcdefgh', '中文', 'a?b')
    """
    text = text[: tokens_max * CHARS_PER_TOKEN]
    while (tokens := estimate_tokens(text)) > tokens_max:
        text = text[: len(text) * tokens_max // tokens]
    return text.encode("utf-8", "replace").decode()


class BatchEmbedder(ABC):
    """An `Embedder` that asks another program for some texts at once.

    A text is embedded once however often it occurs; a blank one never, because some refuse it, and has a row of zeros.
    """

    def __init__(self, name: str, fingerprint: str, config: EmbedderConfig) -> None:
        self.name, self.fingerprint, self._config = name, fingerprint, config
        self._dimensions = 0
        self._is_closed = False

    @property
    def dimensions(self) -> int:
        """Numbers in one vector; embeds a text if that is unknown. Raises: as `embed`."""
        if not self._dimensions:
            self.embed(["dimensions"], "query")
        return self._dimensions

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:
        """Return a row for each text, as `Embedder.embed`."""
        raise_if_cancelled(cancel)
        if self._is_closed:
            raise ValueError("the embedder is closed")
        given = [self._prepare(text) for text in texts]
        unique = list(dict.fromkeys(text for text in given if text.strip()))
        vectors: dict[str, np.ndarray] = {}
        for first in range(0, len(unique), ITEMS_MAX):
            raise_if_cancelled(cancel)
            batch = unique[first : first + ITEMS_MAX]
            rows = self._embed_batch([self._config.prefix(mode) + text for text in batch], mode, cancel)
            self._dimensions = rows.shape[1]
            vectors |= zip(batch, rows, strict=True)
        nothing = np.zeros(self.dimensions, np.float32)
        found = [vectors.get(text, nothing) for text in given]
        return np.array(found, np.float32).reshape(len(texts), self.dimensions)

    def _prepare(self, text: str) -> str:
        """Return what is embedded of a text, without the words before it."""
        return cut(text)

    @abstractmethod
    def _embed_batch(self, batch: list[str], mode: Mode, cancel: threading.Event | None) -> np.ndarray:
        """Return the vectors of at most `ITEMS_MAX` texts, of length 1."""

    def close(self) -> None:
        """Free memory, files and connections."""
        self._is_closed = True
