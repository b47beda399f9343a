"""The static embedder of the index: texts in, rows of one byte a number out, and a name for how they were made.

Its vectors cost a hundredth of parsing the text, so they are made when a file is indexed and are stored in its segment.
Nothing is opened before the first use, nor numpy imported. A table that cannot be used is not an error: there are no
vectors then, and `problem` says why.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine import embedding
from context_engine.embedding import SHIPPED, compute_fingerprint, read_fingerprint
from context_engine.errors import StorageCorrupt
from context_engine.index.embedding_text import TEXT_RECIPE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from context_engine.embedding import RaggedArray, StaticEmbedder, VectorRows

WIDTH = 256
"""How many of the first numbers of a vector are used. The table was trained so that fewer do nearly as well: 384 rank
no better, 128 lose 0.002 (evals/retrieval), and a third less has to be read and compared.
"""
CHUNK_HEADS = 2
"""How often the head is in an embedded text: static vectors alone rank at 0.713 without it, at 0.845 with it twice."""


class StaticEncoder:
    """One table at one width. Thread-safe."""

    def __init__(self, table: Path = SHIPPED, *, width: int = WIDTH) -> None:
        """Open nothing yet; a table of fewer numbers than `width` keeps them all."""
        self.problem = ""
        self._table = table
        self._width = width
        self._lock = threading.Lock()
        self._static: StaticEmbedder | None = None
        self._identity: str | None = None

    @property
    def identity(self) -> str:
        """What decides its rows - table, texts, width - in hex digits; empty when the table cannot be used.

        Known from the first bytes of the table, and verified for the whole by `open`.
        """
        with self._lock:
            if self._identity is None:
                try:
                    self._identity = self._make_identity(read_fingerprint(self._table))
                except StorageCorrupt as error:
                    self._refuse(error)
            return self._identity or ""

    def open(self) -> bool:
        """Load the table if that has not been tried; return whether it can be used. Takes 40 ms, once."""
        return self._load() is not None

    def rows(self, texts: Sequence[str]) -> VectorRows:
        """Return one row for each text, zeros where no word is known.

        Raises: StorageCorrupt when the table cannot be used.
        """
        return embedding.quantize(self._require_table().embed(texts, "passage"))

    def word_rows(self, parts: Sequence[str], words: RaggedArray, texts: RaggedArray) -> VectorRows:
        """Return the rows of texts that are split already; see `StaticEmbedder.embed_words`.

        Raises: StorageCorrupt when the table cannot be used.
        """
        return embedding.quantize(self._require_table().embed_words(parts, words, texts))

    def query(self, text: str) -> npt.NDArray[np.float32] | None:
        """Return the vector of a question, of length 1 (or zeros); None when the table cannot be used."""
        static = self._load()
        return None if static is None else static.embed([text], "query")[0]

    def _require_table(self) -> StaticEmbedder:
        static = self._load()
        if static is None:
            raise StorageCorrupt(self.problem, suggestion="ask `open` first")
        return static

    def _load(self) -> StaticEmbedder | None:
        with self._lock:
            if self._static is None and not self.problem:
                try:
                    self._static = embedding.StaticEmbedder(self._table, width=self._width)
                    self._identity = self._make_identity(self._static.fingerprint)
                except StorageCorrupt as error:
                    self._refuse(error)
            return self._static

    def _refuse(self, error: StorageCorrupt) -> None:
        self.problem, self._identity = error.message, ""

    def _make_identity(self, of_table: str) -> str:
        return compute_fingerprint(of_table, TEXT_RECIPE, CHUNK_HEADS, self._width)
