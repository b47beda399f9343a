"""Embedders behind an address: what they share, whatever protocol they use.

Each text is redacted before it is sent, sent once however often it occurs, and cut to what the model takes. Answers are
checked: as many rows as texts, all of one length, every number finite.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from context_engine import secrets
from context_engine.embedding.embedder import (
    TOKENS_MAX,
    EmbedderConfig,
    Mode,
    batches,
    compute_fingerprint,
    cut,
    encodable,
    normalize_rows,
    raise_if_cancelled,
)
from context_engine.embedding.http_endpoint import Endpoint, build_url, is_loopback
from context_engine.embedding.http_retry import EndpointSpec, RetryPolicy, extract_json_message
from context_engine.errors import EmbedderUnusable

RECIPE = 1
"""Increased when the same text is sent in another form, because that changes its vector."""
RETRY_POLICIES: dict[Mode, RetryPolicy] = {
    "query": RetryPolicy(answer_s=10, tries=2, wait_max_s=2),  # somebody waits for it, and search can go on by words
    "passage": RetryPolicy(answer_s=60, tries=6, wait_max_s=60),  # a cold model of some GB loads within a minute
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One protocol: its path, its question, where its answers have the vectors, and what the user can do."""

    provider: str
    path: str
    question: Callable[[Sequence[str], str, int], dict[str, Any]]
    """Texts, model and wanted dimensions (0 for its own) -> the body of a request."""
    vectors: Callable[[Any], list[Any]]
    """Returns the rows of an answer, in the order of the texts; KeyError, TypeError or ValueError if there are none."""
    start: str
    get_model: str


class RemoteEmbedder:
    """An `Embedder` behind an address. Opening one asks nothing; the first use does.

    `dimensions` is the configured number, else that of the first answer; from then on nothing else is accepted.
    """

    def __init__(self, choice: EmbedderConfig, dialect: Dialect, **world: Any) -> None:
        """`world` is passed to `Endpoint`: clock, randomness and waiting. Raises: EmbedderUnusable."""
        if not choice.model:
            raise EmbedderUnusable(
                f"{dialect.provider}: no model is configured",
                suggestion="Configure its name, as the endpoint knows it.",
            )
        url = build_url(choice.address, dialect.path, dialect.provider)
        place = EndpointSpec(
            dialect.provider, url, choice.model, dialect.start, dialect.get_model.format(model=choice.model)
        )
        self._endpoint = Endpoint(place, choice.key, **world)
        self._choice, self._dialect = choice, dialect
        self._dimensions = choice.dimensions
        self.name = f"{dialect.provider}:{choice.model}"
        self.tokens_max = choice.tokens_max or TOKENS_MAX
        self.is_local = is_loopback(url)
        self.fingerprint = compute_fingerprint(
            *(dialect.provider, RECIPE, url, choice.model, choice.dimensions, self.tokens_max),
            *(choice.query_prefix, choice.passage_prefix),
        )

    @property
    def dimensions(self) -> int:
        """Numbers in one vector; asks the endpoint if that is unknown. Raises: as `embed`."""
        if not self._dimensions:
            self.embed(["dimensions"], "query")
        return self._dimensions

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:
        """Return a row for each text, as `Embedder.embed`.

        A blank text is not sent, because some refuse it; its row is zero.

        A blank text is not sent, because some refuse it; its row is zero.
        """
        raise_if_cancelled(cancel)
        self._endpoint.open_client()  # a closed one says so, also when there is nothing to ask
        if mode == "query":
            prefix = self._choice.query_prefix
        else:
            prefix = self._choice.passage_prefix
        sent = [prepare_text(text, self.tokens_max) for text in texts]
        rows: dict[str, np.ndarray] = {}
        for batch in batches(list(dict.fromkeys(filter(None, sent)))):
            rows |= zip(batch, self._request_vectors([prefix + text for text in batch], mode, cancel), strict=True)
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for number, text in enumerate(sent):
            if text:
                vectors[number] = rows[text]
        return vectors

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def _request_vectors(self, batch: Sequence[str], mode: Mode, cancel: threading.Event | None) -> np.ndarray:
        """Return the vectors of one request, checked."""
        question = self._dialect.question(batch, self._choice.model, self._choice.dimensions)
        answer = self._endpoint.post(question, RETRY_POLICIES[mode], cancel)
        try:
            rows = parse_vectors(self._dialect.vectors(answer), len(batch), self._dimensions)
        except ValueError as error:
            raise self._not_vectors(str(error)) from None
        except (KeyError, TypeError, AttributeError):
            raise self._not_vectors(f"it says {extract_json_message(answer)}") from None
        self._dimensions = rows.shape[1]
        return rows

    def _not_vectors(self, reason: str) -> EmbedderUnusable:
        place = self._endpoint.info
        return EmbedderUnusable(
            f"{self.name}: {place.url} does not give the vectors that were asked for: {reason}",
            suggestion="Check address, model and dimensions. If the model there has changed, open it again.",
            details={"address": place.url, "model": place.model, "dimensions": self._dimensions},
        )


def prepare_text(text: str, tokens_max: int) -> str:
    """Return what is sent of a text: without secrets, cut to the model's window, encodable; empty if blank.

    >>> prepare_text("pass" + "word = 'hL9#kd82jsQp0x7Z'", 512)
    "password = '[masked secret]'"
    """
    sent = encodable(
        cut(secrets.redact(text, "broad").text, tokens_max)
    )  # in this order: half a key is known to nobody as a key
    if sent.strip():
        return sent
    return ""


def parse_vectors(rows: Sequence[Any], count: int, dimensions: int) -> np.ndarray:
    """Return the rows as vectors of length 1. Raises: ValueError that says what is wrong with them."""
    if len(rows) != count:
        raise ValueError(f"{count} texts were sent, {len(rows)} vectors came back")
    widths = sorted({len(row) for row in rows})
    wanted = dimensions or widths[0]
    if widths != [wanted] or not wanted:
        found = ", ".join(str(width) for width in islice((w for w in widths if w != wanted or not w), 3))
        raise ValueError(f"vectors of {found} numbers where all must have {wanted or 'at least one'}")
    if not all(type(number) in (int, float) for row in rows for number in row):
        raise ValueError("a vector has something that is not a number")
    try:
        vectors = np.array(rows, dtype=np.float64)
    except OverflowError:
        raise ValueError("a vector has a number that is too large") from None
    if not np.isfinite(vectors).all():
        raise ValueError("a vector has NaN or infinity")
    return normalize_rows(vectors)


# -- openai compatible ------------------------------------------------------------------------------------------------


def open_openai_compatible(choice: EmbedderConfig) -> RemoteEmbedder:
    """Open the endpoint at the configured address. Raises: EmbedderUnusable if address or model is missing or wrong."""
    return RemoteEmbedder(choice, OPENAI_COMPATIBLE)


def _openai_question(texts: Sequence[str], model: str, dimensions: int) -> dict[str, Any]:
    """Return the body with only what all of them know. `encoding_format` is left out, because some refuse it."""
    asked: dict[str, Any] = {"model": model, "input": list(texts)}
    if dimensions:
        return asked | {"dimensions": dimensions}
    return asked


def _openai_vectors(answer: Any) -> list[Any]:
    """Return the rows by their `index`; an answer may list them in any order."""
    rows = {row["index"]: row["embedding"] for row in answer["data"]}
    if len(rows) != len(answer["data"]) or (rows and sorted(rows) != list(range(len(rows)))):
        raise ValueError("its vectors are not numbered 0, 1, 2 ...")
    return [rows[number] for number in range(len(rows))]


OPENAI_COMPATIBLE = Dialect(
    provider="openai-compatible",
    path="/v1/embeddings",
    question=_openai_question,
    vectors=_openai_vectors,
    start="Start the server there, or correct the address.",
    get_model="Name a model that this endpoint has; `GET /v1/models` there lists them.",
)


# -- ollama -----------------------------------------------------------------------------------------------------------


OLLAMA_ADDRESS = "http://127.0.0.1:11434"
"""The default address of Ollama."""


def open_ollama(choice: EmbedderConfig) -> RemoteEmbedder:
    """Open Ollama at the configured address, or at the default. Raises: EmbedderUnusable if no model is configured."""
    return RemoteEmbedder(replace(choice, address=choice.address or OLLAMA_ADDRESS), OLLAMA)


def _ollama_question(texts: Sequence[str], model: str, dimensions: int) -> dict[str, Any]:
    """Return the body. `truncate` is the default, but stated: a text that is too long must not be an error."""
    asked: dict[str, Any] = {"model": model, "input": list(texts), "truncate": True}
    if dimensions:
        return asked | {"dimensions": dimensions}
    return asked


def _ollama_vectors(answer: Any) -> list[Any]:
    """Return the rows, in the order of the texts."""
    return list(answer["embeddings"])


OLLAMA = Dialect(
    provider="ollama",
    path="/api/embed",
    question=_ollama_question,
    vectors=_ollama_vectors,
    start="Start Ollama (`ollama serve`), or correct the address.",
    get_model="Run `ollama pull {model}`.",
)
