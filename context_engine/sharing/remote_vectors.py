"""The remote vector store: what a database must be able to do to hold the vectors of a team, and which one an address means.

For each repository and space it keeps rows under the keys of the texts they were made from, as `store.vectors` does on
one machine. A row comes back as it was put, bit for bit, so that all who fetch it rank alike. Every call names the
repository, and no call reaches another one's: whether somebody else has embedded a text is nobody's business
(docs/decisions/0041).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Protocol

import numpy as np
import numpy.typing as npt

from context_engine.embedding import KEY_BYTES, LEVELS, Keys, VectorRows, VectorSpace
from context_engine.errors import InvalidVectors

MESSAGE_BYTES = 4_000_000
"""What is sent or fetched at once: 8,000 vectors of 384 numbers by PostgreSQL. Servers refuse messages of 32 MB and
more."""
SCALE_MAX = float(np.finfo(np.float32).max) / (LEVELS + 1)
KINDS: dict[str, tuple[str, str]] = {
    "postgresql": ("context_engine.sharing.postgres_vectors", "PostgresVectors"),
    "postgres": ("context_engine.sharing.postgres_vectors", "PostgresVectors"),
    "qdrant": ("context_engine.sharing.qdrant_vectors", "QdrantVectors"),
    "https": ("context_engine.sharing.qdrant_vectors", "QdrantVectors"),
    "http": ("context_engine.sharing.qdrant_vectors", "QdrantVectors"),
}
"""Scheme of an address -> (module, class), as `store.opening` has them for indexes."""

Mask = npt.NDArray[np.bool_]


class RemoteVectorStore(Protocol):
    """A database that several machines share. Thread-safe.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is. Thousands of
    keys travel in one message. Days are counted since 1970-01-01.
    """

    name: str
    """Its address without a password."""

    def contains(self, repository: str, space: VectorSpace, keys: Keys) -> Mask:
        """Return which keys have a row."""
        ...

    def fetch(self, repository: str, space: VectorSpace, keys: Keys) -> tuple[VectorRows, Mask]:
        """A row for each key, and which were found; the others are zeros. What is damaged is not found."""
        ...

    def put(self, repository: str, space: VectorSpace, keys: Keys, rows: VectorRows, day: int) -> int:
        """Keep a row for each key, used on a day; how many were new. The first one put under a key stays.

        Raises: InvalidVectors for rows of another size than the space has, DiskFull.
        """
        ...

    def mark_used(self, repository: str, space: VectorSpace, keys: Keys, day: int, before: int) -> None:
        """These were used on a day; only those whose last day lies before another one are written."""
        ...

    def delete_unused(self, repository: str, before: int) -> int:
        """Drop what was used before a day and never since, in all spaces of the repository; how many rows."""
        ...

    def count_by_space(self, repository: str) -> dict[VectorSpace, int]:
        """Count the rows by space."""
        ...

    def check(self, repository: str, *, repair: bool = False) -> list[str]:
        """What is wrong with the rows of a repository, in words; empty when they are sound. Looks at all of them.

        A `repair` drops what is damaged: who shares gives it anew.
        """
        ...

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        ...


def open_vector_store(address: str) -> RemoteVectorStore:
    """The remote vector store at an address that `store.opening` has opened an index at. Raises: InvalidArgument."""
    module, name = KINDS[address.partition("://")[0]]
    opened: Callable[[str], RemoteVectorStore] = getattr(import_module(module), name)
    return opened(address)


def split_messages(count: int, row_bytes: int) -> Iterator[slice]:
    """Return the slices in which so many rows are sent.

    >>> list(split_messages(5, MESSAGE_BYTES // 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    at_once = max(1, MESSAGE_BYTES // row_bytes)
    return (slice(start, start + at_once) for start in range(0, count, at_once))


def key_bytes(keys: Keys) -> list[bytes]:
    """Each key in all its bytes: numpy drops zeros at the end of a string."""
    return keys.view(f"V{KEY_BYTES}").tolist()


def align_rows(keys: Keys, space: VectorSpace, found: Mapping[bytes, tuple[float, bytes]]) -> tuple[VectorRows, Mask]:
    """What was found under some keys as rows in their order; whatever cannot be a row of the space was not found."""
    rows = VectorRows(np.zeros((len(keys), space.dimensions), np.int8), np.zeros(len(keys), np.float32))
    is_found = np.zeros(len(keys), bool)
    for place, key in enumerate(key_bytes(keys)):
        scale, numbers = found.get(key, (0.0, b""))
        if len(numbers) == space.dimensions and is_scale(scale):
            rows.values[place], rows.scales[place] = np.frombuffer(numbers, np.int8), scale
            is_found[place] = True
    return rows, is_found


def is_scale(scale: float) -> bool:
    """Whether the numbers of a row may be multiplied by it: what comes of that must be finite."""
    return 0.0 <= scale <= SCALE_MAX


def check_shape(space: VectorSpace, keys: Keys, rows: VectorRows) -> None:
    """Raises: InvalidVectors unless there is a row of the space's size for each key."""
    if rows.values.shape != (len(keys), space.dimensions) or not all(map(is_scale, rows.scales.tolist())):
        raise InvalidVectors(
            f"vectors of shape {rows.values.shape} were to be shared where {(len(keys), space.dimensions)} belongs",
            suggestion="use the same model everywhere, with the same number of dimensions",
        )
