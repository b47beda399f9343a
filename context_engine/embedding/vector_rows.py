"""PURE. Arrays of vectors: as they are stored, one byte for each number; rows of different lengths; keys of texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

KEY_BYTES = 16
"""Half of a SHA-256: among a billion texts two collide with probability 1e-21."""
LEVELS = 127
"""Steps on either side of zero in a signed byte."""

Keys = npt.NDArray[np.bytes_]


@dataclass(frozen=True, slots=True)
class VectorRows:
    """Stored vectors: row i is `values[i] * scales[i]`; int8 of shape (n, dimensions), float32 of shape (n,)."""

    values: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.scales)

    def floats(self) -> npt.NDArray[np.float32]:
        """Return the vectors as float32."""
        return self.values * self.scales[:, None]


def hash_texts(texts: Sequence[str]) -> Keys:
    """Return the key of each text: the first half of its SHA-256."""
    digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES] for text in texts]
    return np.frombuffer(b"".join(digests), f"S{KEY_BYTES}")


def quantize(rows: npt.NDArray[Any]) -> VectorRows:
    """Return each row in whole steps of a 127th of its greatest number. A row of zeros stays one.

    >>> quantize(np.array([[0.5, -1.0, 0.0]])).values.tolist()
    [[64, -127, 0]]
    """
    rows = np.asarray(rows, np.float32)
    scales = np.abs(rows).max(axis=1, initial=0.0) / np.float32(LEVELS)
    steps = np.rint(rows / np.where(scales > 0, scales, np.float32(1.0))[:, None])
    return VectorRows(np.clip(steps, -LEVELS, LEVELS).astype(np.int8), scales.astype(np.float32))


@dataclass(frozen=True, slots=True)
class RaggedArray:
    """The `values` of all rows, end to end, and the length of each row. Fewer than 2^31 values."""

    values: npt.NDArray[Any]
    lengths: npt.NDArray[np.signedinteger]

    def __len__(self) -> int:
        return len(self.lengths)

    def starts(self) -> npt.NDArray[np.signedinteger]:
        """Return the place of the first value of each row."""
        return np.cumsum(self.lengths) - self.lengths

    def rows(self, first: int, stop: int) -> RaggedArray:
        """Return the rows from `first` to before `stop`."""
        lengths = self.lengths[first:stop]
        start = int(self.lengths[:first].sum())
        return RaggedArray(self.values[start : start + int(lengths.sum())], lengths)

    def take(self, numbers: npt.NDArray[Any]) -> RaggedArray:
        """Return the rows with these numbers, in this order."""
        lengths = self.lengths[numbers]
        shifts = self.starts()[numbers] - np.cumsum(lengths) + lengths
        places = np.repeat(shifts.astype(np.int32), lengths)  # half the memory of the widest arrays of a batch
        places += np.arange(len(places), dtype=np.int32)
        return RaggedArray(self.values[places], lengths)

    def expand(self, inner: RaggedArray) -> RaggedArray:
        """Return the rows with each value replaced by the row of `inner` that has its number.

        >>> texts = RaggedArray(np.array([1, 0, 1]), np.array([2, 0, 1]))
        >>> words = RaggedArray(np.array([7, 8, 9]), np.array([1, 2]))
        >>> expanded = texts.expand(words)
        >>> expanded.values.tolist(), expanded.lengths.tolist()
        ([8, 9, 7, 8, 9], [3, 0, 2])
        """
        found = inner.take(self.values)
        ends = np.append(0, np.cumsum(found.lengths))
        return RaggedArray(found.values, np.diff(ends[np.append(0, np.cumsum(self.lengths))]))

    def replace(self, numbers: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> RaggedArray:
        """Return the rows with those of these numbers (ascending) replaced by a single value each.

        >>> rows = RaggedArray(np.array([7, 8, 9]), np.array([2, 1])).replace(np.array([0]), np.array([5]))
        >>> rows.values.tolist(), rows.lengths.tolist()
        ([5, 9], [1, 1])
        """
        lengths = self.lengths.copy()
        lengths[numbers] = 0
        kept = np.repeat(lengths > 0, self.lengths)
        at = (np.cumsum(lengths) - lengths)[numbers]
        lengths[numbers] = 1
        return RaggedArray(np.insert(self.values[kept], at, values), lengths)
