"""The embedder that is always available: a table with a row for each word piece; a text is the sum of its rows.

numpy is all it needs. It opens one file of this package and no socket. Words are split as identifiers are, punctuation
and order do not count; what a text repeats counts more, so a caller repeats what matters most.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from context_engine.embedding.embedder import Embedder, EmbedderConfig, Mode, raise_if_cancelled
from context_engine.embedding.table_file import (
    NAME,
    RECIPE,
    SHIPPED,
    BadTableError,
    compute_fingerprint,
    map_file,
    name_refusal,
    read_header,
)
from context_engine.embedding.vector_rows import RaggedArray
from context_engine.embedding.wordpiece import WordPieces

LEVEL_MAX = 7
"""Numbers from -7 to 7: symmetric, so that zero is zero. They are stored plus eight, in four bits."""


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A table whose rows stay packed until they are needed.

    `sha256` is that of its header, which contains that of the body.
    """

    pieces: list[str]
    scales: np.ndarray
    nibbles: np.ndarray
    facts: Mapping[str, Any]
    sha256: str

    @property
    def dimensions(self) -> int:
        """Numbers in a row."""
        return self.nibbles.shape[1] * 2

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return these rows as float32, shape `(len(numbers), dimensions)`."""
        packed_rows = self.nibbles[numbers]
        found = np.empty((len(numbers), self.dimensions), dtype=np.float32)
        found[:, 0::2] = packed_rows >> 4
        found[:, 1::2] = packed_rows & 15
        found -= LEVEL_MAX + 1
        found *= self.scales[numbers].astype(np.float32)[:, None]
        return found


def unpack_table(data: bytes | memoryview, width: int | None = None) -> StaticTable:
    """Return the table in these bytes, or the first numbers of its rows, without a copy. Raises: BadTableError."""
    facts, body, sha256 = read_header(memoryview(data))
    count, half = facts["rows"], facts["dimensions"] // 2
    scales_at = facts["piece_bytes"]
    rows_at = scales_at + 2 * count
    if len(body) != rows_at + count * half:
        raise BadTableError(f"it is cut short: {len(body):,} of {rows_at + count * half:,} bytes")
    if hashlib.sha256(body).hexdigest() != facts["sha256"]:
        raise BadTableError("its bytes are not those that were written (sha256 differs)")
    return StaticTable(
        str(body[:scales_at], "utf-8").split("\n"),
        np.frombuffer(body[scales_at:rows_at], dtype="<f2"),
        np.frombuffer(body[rows_at:], dtype=np.uint8).reshape(count, half)[:, : width and width // 2],
        facts,
        sha256,
    )


# -- static embedder ---------------------------------------------------------------------------------------------------

BLOCK_TEXTS = 256
"""Texts summed at once: their rows would be 100 MB; each distinct row is unpacked once for a block."""


def open_embedder(_: EmbedderConfig) -> Embedder:
    """Open the table of this package. Raises: StorageCorrupt."""
    return StaticEmbedder()


class StaticEmbedder:
    """One table, mapped into memory. Raises: StorageCorrupt if the file is cut short, changed, or not a table.

    With a `width`, an even number, only the first numbers of a row are used. It may be asked by many threads.
    """

    name = NAME

    def __init__(self, path: Path = SHIPPED, *, width: int | None = None) -> None:
        with name_refusal(path):
            self._table: StaticTable | None = unpack_table(map_file(path), width)
        self.dimensions = self._table.dimensions
        self.fingerprint = compute_fingerprint(self.name, RECIPE, self._table.sha256)
        self._pieces = WordPieces(self._table.pieces)

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:  # noqa: ARG002  (the promise names it)
        """Return one row of length 1 for each text, all zero if no piece of it is known; `mode` has no effect."""
        bags = [self._pieces.of(text) for text in texts]
        lengths = np.fromiter(map(len, bags), np.int64, len(bags))
        pieces = RaggedArray(np.concatenate([np.zeros(0, np.int32), *bags]), lengths)
        return self._sum_blocks(pieces, lambda block: block, cancel)

    def embed_words(self, parts: Sequence[str], words: RaggedArray, texts: RaggedArray) -> np.ndarray:
        """Return what `embed` returns, for texts that are split already: each part of a word is looked up once.

        `parts` are parts of identifiers or words; `words` has the numbers of the parts of each word, `texts` the
        numbers of the words of each text. No text is expected to have more than `TOKENS_MAX` pieces.
        """
        known = list(map(self._pieces.__getitem__, parts))
        lengths = np.fromiter(map(len, known), np.int64, len(known))
        of_parts = RaggedArray(np.fromiter(chain.from_iterable(known), np.int32), lengths)
        of_words = words.expand(of_parts)
        return self._sum_blocks(texts, lambda block: block.expand(of_words))

    def _sum_blocks(
        self,
        texts: RaggedArray,
        to_pieces: Callable[[RaggedArray], RaggedArray],
        cancel: threading.Event | None = None,
    ) -> np.ndarray:
        """Return the sums of the pieces of texts, some texts at a time."""
        if self._table is None:
            raise ValueError("the embedder was closed")
        found = [np.zeros((0, self.dimensions), dtype=np.float32)]
        for first in range(0, len(texts), BLOCK_TEXTS):
            raise_if_cancelled(cancel)
            found.append(sum_rows(self._table, to_pieces(texts.rows(first, first + BLOCK_TEXTS))))
        return np.concatenate(found)

    def close(self) -> None:
        """Release the table."""
        self._table = None


def sum_rows(table: StaticTable, bags: RaggedArray) -> np.ndarray:
    """Return the normalized sum of rows for each bag of piece numbers, shape `(len(bags), dimensions)`.

    A piece that a bag repeats is counted and read once.
    """
    rows, places = _unpacked_rows(table, bags.values)
    place_bits = len(rows).bit_length()
    keys, counts = np.unique(
        np.repeat(np.arange(len(bags)), bags.lengths) << place_bits | places,
        return_counts=True,
    )
    places = keys & ((1 << place_bits) - 1)
    bounds = np.searchsorted(keys >> place_bits, np.arange(len(bags) + 1)).tolist()
    weights = counts.astype(np.float32)
    found = np.zeros((len(bags), table.dimensions), dtype=np.float32)
    for bag, (start, stop) in enumerate(pairwise(bounds)):
        found[bag] = weights[start:stop] @ rows[places[start:stop]]
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return found / np.where(norms > 0, norms, 1)


def _unpacked_rows(table: StaticTable, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of these pieces, each once, and the place of the row of each.

    The table is small: no need to sort.
    """
    is_used = np.zeros(len(table.scales), dtype=bool)
    is_used[pieces] = True
    used = np.flatnonzero(is_used)
    place = np.zeros(len(table.scales), dtype=np.int32)
    place[used] = np.arange(len(used))
    return table.rows(used), place[pieces]
