"""The remote vector store: a database in which a team shares the vectors that a model has made.

For each repository and vector space it keeps rows under the keys of the texts that they were made from. A row comes
back bit for bit, so that all machines that fetch it rank alike. Every call names the repository, and no call reaches
the rows of another one: whether another repository has embedded a text must not be visible (docs/decisions/0041).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from context_engine.embedding import KEY_BYTES, LEVELS, Keys, VectorRows, VectorSpace
from context_engine.errors import InvalidVectors

MESSAGE_BYTES = 4_000_000
"""The size of one message: 8,000 vectors of 384 numbers on PostgreSQL. Servers refuse messages of 32 MB and more."""
SCALE_MAX = float(np.finfo(np.float32).max) / (LEVELS + 1)

Mask = npt.NDArray[np.bool_]


class RemoteVectorStore(Protocol):
    """A database that several machines share. Thread-safe.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is. A message
    contains thousands of keys. Days are counted since 1970-01-01.
    """

    name: str
    """Its address without a password."""

    def contains(self, repository: str, space: VectorSpace, keys: Keys) -> Mask:
        """Return which keys have a row."""
        ...

    def fetch(self, repository: str, space: VectorSpace, keys: Keys) -> tuple[VectorRows, Mask]:
        """Return a row for each key, zeros where none is stored or it is damaged, and which keys have one."""
        ...

    def put(self, repository: str, space: VectorSpace, keys: Keys, rows: VectorRows, day: int) -> int:
        """Store a row for each key, used on a day; return how many were new. The first row under a key stays.

        Raises: InvalidVectors for rows of another size than the space has, DiskFull.
        """
        ...

    def mark_used(self, repository: str, space: VectorSpace, keys: Keys, day: int, before: int) -> None:
        """Store the day of use of these keys, where the stored day is before `before`."""
        ...

    def delete_unused(self, repository: str, before: int) -> int:
        """Delete the rows of all spaces whose last use was before a day; return how many."""
        ...

    def count_by_space(self, repository: str) -> dict[VectorSpace, int]:
        """Count the rows by space."""
        ...

    def check(self, repository: str, *, repair: bool = False) -> list[str]:
        """Read all rows of a repository and return their problems, as text.

        `repair` deletes what is damaged, and publishers send it again.
        """
        ...

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        ...


def split_messages(count: int, row_bytes: int) -> Iterator[slice]:
    """Yield the slices in which `count` rows are sent.

    >>> list(split_messages(5, MESSAGE_BYTES // 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    rows_max = max(1, MESSAGE_BYTES // row_bytes)
    return (slice(start, start + rows_max) for start in range(0, count, rows_max))


def key_bytes(keys: Keys) -> list[bytes]:
    """Return each key with all its bytes: numpy drops zeros at the end of a string."""
    return keys.view(f"V{KEY_BYTES}").tolist()


def align_rows(keys: Keys, space: VectorSpace, found: Mapping[bytes, tuple[float, bytes]]) -> tuple[VectorRows, Mask]:
    """Return the found rows in the order of the keys. What cannot be a row of the space counts as not found."""
    rows = VectorRows(np.zeros((len(keys), space.dimensions), np.int8), np.zeros(len(keys), np.float32))
    is_found = np.zeros(len(keys), bool)
    for index, key in enumerate(key_bytes(keys)):
        scale, numbers = found.get(key, (0.0, b""))
        if len(numbers) == space.dimensions and is_scale(scale):
            rows.values[index], rows.scales[index] = np.frombuffer(numbers, np.int8), scale
            is_found[index] = True
    return rows, is_found


def is_scale(scale: float) -> bool:
    """Whether a scale is valid: its product with the numbers of a row must be finite."""
    return 0.0 <= scale <= SCALE_MAX


def check_shape(space: VectorSpace, keys: Keys, rows: VectorRows) -> None:
    """Check that there is a row of the right size for each key. Raises: InvalidVectors."""
    if rows.values.shape != (len(keys), space.dimensions) or not all(map(is_scale, rows.scales.tolist())):
        raise InvalidVectors(
            f"vectors have the shape {rows.values.shape}, but {(len(keys), space.dimensions)} is needed to share them",
            suggestion="use the same model everywhere, with the same number of dimensions",
        )
