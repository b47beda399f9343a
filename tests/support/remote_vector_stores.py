"""A vector remote that is a dictionary, and the real one: the contract suite holds them to the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from context_engine.embedding.vector_rows import Keys, VectorRows, VectorSpace
from context_engine.errors import ContextEngineError
from context_engine.sharing.remote_vectors import Mask, RemoteVectorStore, align_rows, check_shape, key_bytes
from tests.support.databases import new_database


class DictionaryVectorStore:
    """Raises its `trouble` as long as it has one; `asked` names the calls in their order."""

    name = "memory"

    def __init__(self) -> None:
        self.rows: dict[tuple[str, VectorSpace], dict[bytes, tuple[float, bytes]]] = {}
        self.days: dict[tuple[str, VectorSpace, bytes], int] = {}
        self.trouble: ContextEngineError | None = None
        self.asked: list[str] = []

    def contains(self, repository: str, space: VectorSpace, keys: Keys) -> Mask:
        own = self._own("known", repository, space)
        return np.array([key in own for key in key_bytes(keys)], bool)

    def fetch(self, repository: str, space: VectorSpace, keys: Keys) -> tuple[VectorRows, Mask]:
        return align_rows(keys, space, self._own("fetch", repository, space))

    def put(self, repository: str, space: VectorSpace, keys: Keys, rows: VectorRows, day: int) -> int:
        check_shape(space, keys, rows)
        own = self._own("put", repository, space)
        before = len(own)
        for key, scale, numbers in zip(key_bytes(keys), rows.scales, rows.values, strict=True):
            own.setdefault(key, (float(scale), numbers.tobytes()))
            self.days.setdefault((repository, space, key), day)
        return len(own) - before

    def mark_used(self, repository: str, space: VectorSpace, keys: Keys, day: int, before: int) -> None:
        self._own("stamp", repository, space)
        for key in key_bytes(keys):
            if self.days.get((repository, space, key), before) < before:
                self.days[repository, space, key] = day

    def delete_unused(self, repository: str, before: int) -> int:
        self._own("tidy", repository, None)
        gone = [at for at, day in self.days.items() if at[0] == repository and day < before]
        for owner, space, key in gone:
            del self.days[owner, space, key], self.rows[owner, space][key]
        return len(gone)

    def count_by_space(self, repository: str) -> dict[VectorSpace, int]:
        return {space: len(own) for (owner, space), own in self.rows.items() if owner == repository and own}

    def check(self, repository: str, *, repair: bool = False) -> list[str]:
        return []

    def close(self) -> None:
        pass

    def _own(self, call: str, repository: str, space: VectorSpace | None) -> dict[bytes, tuple[float, bytes]]:
        self.asked.append(call)
        if self.trouble is not None:
            raise self.trouble
        return {} if space is None else self.rows.setdefault((repository, space), {})


@cache
def database() -> str:
    """One for all vector remotes of a run."""
    return new_database()


def on_postgres() -> RemoteVectorStore:
    """On a real PostgreSQL."""
    from context_engine.sharing.postgres_vectors import PostgresVectors

    return PostgresVectors(database())


REMOTE_STORES: dict[str, Callable[[], RemoteVectorStore]] = {
    "dictionary": cache(DictionaryVectorStore),
    "postgres": on_postgres,
}
