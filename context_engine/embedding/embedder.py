"""The embedder promise: what every provider keeps, whatever it is made of, and what it is made from.

A provider is a row of `embedding/embedder_registry.py`: a name, where its maker stands, what must be installed for it.
The maker takes a `Choice` and gives an `Embedder`. Nothing here opens a file or a socket; numpy is all it needs.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from context_engine.errors import Cancelled

Mode = Literal["query", "passage"]
"""What a text is for: some models put other words before a question than before what answers it."""


class Embedder(Protocol):
    """Texts in, vectors out.

    Every provider passes `tests/contracts/test_embedders.py`; one may be used by many threads.
    """

    @property
    def name(self) -> str:
        """The provider, and the model where there is a choice of them: `static`, `openai-compatible:bge-m3`."""
        ...

    @property
    def dimensions(self) -> int:
        """Numbers in one vector. A remote provider asks its endpoint once if it was not told."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hex digits that change with whatever changes vectors: provider, model, hash of the weights, text recipe.

        Vectors of different fingerprints are never compared. The same configuration has the same one in every process.
        """
        ...

    @property
    def tokens_max(self) -> int:
        """How much of one text counts, in tokens of the model.

        What is longer is cut here; callers may split it before.
        """
        ...

    @property
    def is_local(self) -> bool:
        """Whether every text stays on this machine."""
        ...

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:
        """One vector for each text, in their order.

        float32, shape `(len(texts), dimensions)`, no NaN; each row has length 1, or is all zero where the model knows
        nothing of the text. No texts give `(0, dimensions)`. A text has the same vector whatever stands beside it, up
        to 1e-5. Any string is a text: empty, a megabyte, lone surrogates.

        Raises: Cancelled soon after `cancel` is set; EmbedderFailed when a remote provider does not deliver; ValueError
        after `close()`.
        """
        ...

    def close(self) -> None:
        """Let go of memory, files and connections. Closing twice is closing once."""
        ...


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """What a user chose, as plain values: all that a maker may know. Empty means: as the provider thinks best."""

    provider: str
    model: str = ""
    address: str = ""
    """Where a remote provider is asked, as `http://127.0.0.1:11434`; no other address is ever contacted."""
    key: str = field(default="", repr=False)
    """What opens the door there. It comes from the environment, never from a file of the workspace, and is never shown."""
    dimensions: int = 0
    tokens_max: int = 0
    query_prefix: str = ""
    """Words that the model wants before a question, as `search_query: `; likewise before what answers one."""
    passage_prefix: str = ""
    models_folder: Path | None = None
    """Where `ctx model pull` puts what it made."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One row of the registry: nothing of it is imported before somebody chooses it."""

    name: str
    maker: str
    """`module:function`, called with a `Choice`; empty for the row that embeds nothing."""
    summary: str
    needs: str = ""
    """What to do when a module of it is missing, as one runs it: `pip install 'smart-context-engine[model2vec]'`."""


def compute_fingerprint(*facts: object) -> str:
    """32 hex digits for the facts that decide a vector, the same in every process; their order counts.

    >>> compute_fingerprint("static", 1) == compute_fingerprint("static", "1"), compute_fingerprint("ab", "c") == compute_fingerprint("a", "bc")
    (True, False)
    """
    stated = "\0".join(str(fact) for fact in facts)
    return hashlib.sha256(stated.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def normalize_rows(rows: np.ndarray) -> np.ndarray:
    """The rows as float32 with length 1; rows of nothing but zeros stay as they are.

    >>> normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[np.float32(0.6), np.float32(0.8)], [0.0, 0.0]]
    True
    """
    wide = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return (wide / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def raise_if_cancelled(cancel: threading.Event | None) -> None:
    """Ask between two batches. Raises: Cancelled, once the event is set."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("embedding was cancelled", suggestion="Call again; vectors that are stored are not made twice.")
