"""PURE. Vectors as they are stored, one byte for each number, and the keys of their texts."""

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
