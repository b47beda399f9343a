"""Embedders behind an address: OpenAI's protocol, which most servers speak, and Ollama's.

Each text is redacted before it is sent, sent once however often it occurs, and cut to what models take. Answers are
checked: as many rows as texts, all of one length, every number finite.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from context_engine import secrets
from context_engine.embedding.embedder import (
    TOKENS_MAX,
    BatchEmbedder,
    EmbedderConfig,
    Mode,
    cut,
    normalize_rows,
)
from context_engine.embedding.http_endpoint import (
    Endpoint,
    EndpointSpec,
    RetryPolicy,
    build_url,
    extract_json_message,
)
from context_engine.embedding.table_file import compute_fingerprint
from context_engine.errors import EmbedderUnusable

RECIPE = 1
"""Increased when the same text is sent in another form, because that changes its vector."""
RETRY_POLICIES: dict[Mode, RetryPolicy] = {
    "query": RetryPolicy(answer_s=5, tries=1, wait_max_s=0),  # somebody waits for it, and search can go on by words
    "passage": RetryPolicy(answer_s=60, tries=6, wait_max_s=60),  # a cold model of some GB loads within a minute
}


@dataclass(frozen=True, slots=True)
class Protocol:
    """One protocol: its path, what its requests say in addition to the usual, where its answers have the vectors."""

    provider: str
    path: str
    extra: dict[str, Any]
    read_rows: Callable[[Any], list[Any]]
    """Returns the rows of an answer, in the order of the texts; KeyError, TypeError or ValueError if there are none."""
    start: str
    get_model: str


def open_openai_compatible(config: EmbedderConfig) -> RemoteEmbedder:
    """Open the endpoint at the configured address. Raises: EmbedderUnusable if address or model is missing or wrong."""
    return RemoteEmbedder(config, OPENAI_COMPATIBLE)


def open_ollama(config: EmbedderConfig) -> RemoteEmbedder:
    """Open Ollama at the configured address, or at its default. Raises: EmbedderUnusable if no model is configured."""
    return RemoteEmbedder(replace(config, address=config.address or OLLAMA_ADDRESS), OLLAMA)


class RemoteEmbedder(BatchEmbedder):
    """An `Embedder` behind an address. Opening one asks nothing; the first use does.

    `dimensions` is the configured number, else that of the first answer; from then on nothing else is accepted.
    """

    def __init__(self, config: EmbedderConfig, protocol: Protocol, **options: Any) -> None:
        """`options` are passed to `Endpoint`. Raises: EmbedderUnusable."""
        if not config.model:
            raise EmbedderUnusable(
                f"{protocol.provider}: no model is configured",
                suggestion="Set CTX_EMBEDDING_MODEL to its name, as the endpoint knows it.",
            )
        url = build_url(config.address, protocol.path, protocol.provider)
        get_model = protocol.get_model.format(model=config.model)
        spec = EndpointSpec(protocol.provider, url, config.model, protocol.start, get_model)
        self._endpoint = Endpoint(spec, config.key, **options)
        self._protocol = protocol
        facts = (protocol.provider, RECIPE, url, config.model, config.dimensions, TOKENS_MAX)
        fingerprint = compute_fingerprint(*facts, config.query_prefix, config.passage_prefix)
        super().__init__(f"{protocol.provider}:{config.model}", fingerprint, config)
        self._dimensions = config.dimensions

    def close(self) -> None:
        """Close the connections."""
        super().close()
        self._endpoint.close()

    def _prepare(self, text: str) -> str:
        return cut(secrets.redact(text, "broad").text)  # first: half a key is known to nobody as a key

    def _embed_batch(self, batch: list[str], mode: Mode, cancel: threading.Event | None) -> np.ndarray:
        """Return the vectors of one request, checked. The number of dimensions is only stated if it is configured."""
        question: dict[str, Any] = {"model": self._config.model, "input": batch, **self._protocol.extra}
        if self._config.dimensions:
            question["dimensions"] = self._config.dimensions
        answer = self._endpoint.post(question, RETRY_POLICIES[mode], cancel)
        try:
            return parse_vectors(self._protocol.read_rows(answer), len(batch), self._dimensions)
        except ValueError as error:
            raise self._not_vectors(str(error)) from None
        except (KeyError, TypeError, AttributeError):
            raise self._not_vectors(f"it says {extract_json_message(answer)}") from None

    def _not_vectors(self, reason: str) -> EmbedderUnusable:
        spec = self._endpoint.spec
        return EmbedderUnusable(
            f"{self.name}: {spec.url} does not give the vectors that were asked for: {reason}",
            suggestion="Check address, model and dimensions.",
            details={"address": spec.url, "model": spec.model, "dimensions": self._dimensions},
        )


def parse_vectors(rows: Sequence[Any], count: int, dimensions: int) -> np.ndarray:
    """Return the rows as vectors of length 1. Raises: ValueError that says what is wrong with them."""
    if len(rows) != count:
        raise ValueError(f"{count} texts were sent, {len(rows)} vectors came back")
    widths = sorted({len(row) for row in rows})
    wanted = dimensions or widths[0]
    if widths != [wanted] or not wanted:
        wrong = [str(width) for width in widths if width != wanted or not width]
        raise ValueError(f"vectors of {', '.join(wrong[:3])} numbers where all must have {wanted or 'at least one'}")
    if not all(type(number) in (int, float) for row in rows for number in row):
        raise ValueError("a vector has something that is not a number")
    try:
        vectors = np.array(rows, dtype=np.float64)
    except OverflowError:
        raise ValueError("a vector has a number that is too large") from None
    if not np.isfinite(vectors).all():
        raise ValueError("a vector has NaN or infinity")
    return normalize_rows(vectors)


def _read_openai_rows(answer: Any) -> list[Any]:
    """Return the rows by their `index`; an answer may list them in any order."""
    rows = {row["index"]: row["embedding"] for row in answer["data"]}
    if len(rows) != len(answer["data"]) or (rows and sorted(rows) != list(range(len(rows)))):
        raise ValueError("its vectors are not numbered 0, 1, 2 ...")
    return [rows[number] for number in range(len(rows))]


OPENAI_COMPATIBLE = Protocol(
    provider="openai-compatible",
    path="/v1/embeddings",
    extra={},  # `encoding_format` is left out, because some refuse it
    read_rows=_read_openai_rows,
    start="Start the server there, or correct the address.",
    get_model="Name a model that this endpoint has; `GET /v1/models` there lists them.",
)

OLLAMA_ADDRESS = "http://127.0.0.1:11434"
"""The default address of Ollama."""

OLLAMA = Protocol(
    provider="ollama",
    path="/api/embed",
    extra={"truncate": True},  # the default, but stated: a text that is too long must not be an error
    read_rows=lambda answer: list(answer["embeddings"]),
    start="Start Ollama (`ollama serve`), or correct the address.",
    get_model="Run `ollama pull {model}`.",
)
