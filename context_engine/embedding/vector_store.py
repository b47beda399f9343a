"""The vectors that providers made on this machine, by the hash of their text: no text is embedded twice.

    vectors.db    in the user's cache: (space, key) -> scale, numbers

A space is one way to make vectors; those of two spaces are never mixed. All of it can be made again: a damaged file is
replaced by an empty one, and the vectors that were made first are dropped when there are too many.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import numpy as np
import numpy.typing as npt
from filelock import Timeout

from context_engine.embedding.embedder import raise_if_cancelled
from context_engine.embedding.vector_rows import Keys, VectorRows, quantize
from context_engine.errors import InvalidVectors
from context_engine.storage import CacheDatabase, database, lock_private, make_private_folder

BUSY_MS = 10_000
"""A write takes milliseconds; a longer wait is for one that drops vectors."""
LOOK_S = 0.5
"""Interval for checking whether another process has finished."""
DROPPED_SHARE = 10
"""A tenth of all vectors is dropped at once."""
ADVICE = database.StorageAdvice(
    "the vectors of this machine",
    damaged="Delete it: it is made again from the files.",
)
_TABLES = """
CREATE TABLE vector(
    id INTEGER PRIMARY KEY, space TEXT NOT NULL, key BLOB NOT NULL, scale REAL NOT NULL, numbers BLOB NOT NULL,
    UNIQUE(space, key)
)"""

Mask = npt.NDArray[np.bool_]
Result = TypeVar("Result")


class VectorStore:
    """The vectors of one space. Thread-safe; any number of processes may use the same file."""

    def __init__(self, path: Path, space: str, *, bytes_max: int) -> None:
        """Open nothing yet. `bytes_max` bounds all spaces of the file together."""
        self.space = space
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._database = CacheDatabase(path, _TABLES, version=1, busy_ms=BUSY_MS)

    def missing(self, keys: Keys) -> Mask:
        """Return which keys have no vector."""
        sql = "SELECT key FROM vector WHERE space = ? AND key IN carray(?)"
        known = {key for (key,) in self._select(sql, keys)}
        return np.array([key not in known for key in keys.tolist()], bool)

    def get(self, keys: Keys) -> tuple[VectorRows, Mask]:
        """Return which keys have a vector, and these vectors in their order, all of one width."""
        sql = "SELECT key, scale, numbers, id FROM vector WHERE space = ? AND key IN carray(?)"
        rows = self._select(sql, keys)
        if not rows:
            return VectorRows(np.zeros((0, 0), np.int8), np.zeros(0, np.float32)), np.zeros(len(keys), bool)
        width = len(max(rows, key=lambda row: row[3])[2])  # a model that changed its size makes the newest
        by_key = {key: (scale, numbers) for key, scale, numbers, _ in rows if len(numbers) == width}
        found = np.array([key in by_key for key in keys.tolist()], bool)
        kept = [by_key[key] for key in keys[found].tolist()]
        values = np.frombuffer(b"".join(numbers for _, numbers in kept), np.int8).reshape(len(kept), width)
        return VectorRows(values, np.array([scale for scale, _ in kept], np.float32)), found

    def put(self, keys: Keys, vectors: npt.NDArray[Any]) -> None:
        """Store a vector for each key, all of one call or none.

        Raises: InvalidVectors for numbers that are not finite, StorageBusy, DiskFull, WriteFailed.
        """
        if not np.isfinite(vectors).all():
            raise InvalidVectors("a vector has numbers that are not finite", suggestion="Choose another model.")
        rows = quantize(vectors)
        records = [
            (self.space, key, float(scale), numbers.tobytes())
            for key, scale, numbers in zip(keys.tolist(), rows.scales, rows.values, strict=True)
        ]

        def write(db: apsw.Connection) -> None:
            with database.transaction(db):
                db.executemany("INSERT OR REPLACE INTO vector VALUES (NULL, ?, ?, ?, ?)", records)
                self._drop_oldest(db)

        self._run(write)

    @contextmanager
    def sole_filler(self, cancel: threading.Event) -> Generator[None]:
        """Have the right to make vectors until the block ends: one process has it, so that no text is paid for twice.

        Raises: Cancelled while another process has it; WriteFailed.
        """
        path = self._database.path
        with database.translate_errors(path, ADVICE):
            make_private_folder(path.parent)
            lock = lock_private(f"{path}.lock", timeout=0)
            while not lock.is_locked:
                try:
                    lock.acquire()
                except Timeout:
                    cancel.wait(LOOK_S)
                    raise_if_cancelled(cancel)
        try:
            yield
        finally:
            lock.release()

    def close(self) -> None:
        """Close the file; it can be used again afterwards."""
        with self._lock:
            self._database.close()

    def _drop_oldest(self, db: apsw.Connection) -> None:
        """Drop the vectors that were made first while the file has too many bytes."""
        pages = db.pragma("page_count") - db.pragma("freelist_count")
        if pages * db.pragma("page_size") > self._bytes_max:
            ids = "SELECT id FROM vector ORDER BY id LIMIT (SELECT count(*) FROM vector) / ?"
            db.execute(f"DELETE FROM vector WHERE id IN ({ids})", (DROPPED_SHARE,))  # noqa: S608 - a text of ours

    def _select(self, sql: str, keys: Keys) -> list[tuple[Any, ...]]:
        if not len(keys):
            return []
        bindings = (self.space, apsw.carray(tuple(keys.tolist())))
        return self._run(lambda db: db.execute(sql, bindings).fetchall())

    def _run(self, work: Callable[[apsw.Connection], Result]) -> Result:
        with self._lock, database.translate_errors(self._database.path, ADVICE):
            return self._database.run(work)
