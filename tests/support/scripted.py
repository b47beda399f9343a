"""An embedder for tests that does as it is told: its vectors depend on the text alone; it can hang, fail and be counted."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import numpy as np

from context_engine.embedding.embedder import Mode, raise_if_cancelled

DIMENSIONS = 8


def vector(text: str) -> np.ndarray:
    """The vector of a text, of length 1: drawn by its hash."""
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")
    row = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return row / np.linalg.norm(row)


def vectors(texts: Sequence[str]) -> np.ndarray:
    return np.array([vector(text) for text in texts], np.float32).reshape(len(texts), DIMENSIONS)


class Scripted:
    """Keeps the embedder promise.

    While `gate` is closed it hangs, unless canceled; while there is `trouble` it raises it.
    """

    name = "scripted"
    dimensions = DIMENSIONS

    def __init__(self, *, fingerprint: str = "feed") -> None:
        self.fingerprint = fingerprint
        self.gate = threading.Event()
        self.gate.set()
        self.trouble: Exception | None = None
        self.asked: list[tuple[Mode, list[str]]] = []
        self.closed = threading.Event()

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:
        if self.closed.is_set():
            raise ValueError("this embedder is closed")
        self.asked.append((mode, list(texts)))
        while not self.gate.wait(0.005):
            raise_if_cancelled(cancel)
        if self.trouble is not None:
            raise self.trouble
        return vectors(texts)

    def close(self) -> None:
        self.closed.set()

    @property
    def texts(self) -> list[str]:
        """Every text it was given, in order."""
        return [text for _, texts in self.asked for text in texts]
