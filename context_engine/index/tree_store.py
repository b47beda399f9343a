"""Packed syntax trees on this machine by the hash of their text, so that no process parses a file that was parsed.

    trees/trees.db    in the cache of the workspace: (key, packed, used)

Everything in it can be made again from the files. A damaged tree is parsed again, and a database that is damaged or
of another release is replaced by an empty one. A problem of the disk makes answers slower, never wrong.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw

from context_engine.errors import ContextEngineError
from context_engine.storage import StateFolder, open_in_state, transaction

FILE = "trees.db"
BUSY_MS = 250
"""A reader never waits for a writer; a writer that waits for longer gives up, since the tree can be made again."""
SCHEMA_VERSION = 1
KEPT_SHARE = 0.8
"""The share of the allowed bytes that is kept when there were more: the trees that were used last."""
DAY_S = 86_400
"""How exactly the last use is known; each day a tree that is used is written once more."""

Result = TypeVar("Result")

_SCHEMA = f"""
CREATE TABLE tree(key BLOB PRIMARY KEY, packed BLOB NOT NULL, used INT NOT NULL);
PRAGMA user_version = {SCHEMA_VERSION};
"""


class TreeStore:
    """The packed trees of one workspace. Thread-safe; any number of processes may use the same folder.

    `bytes_max` returns how many bytes of trees may be kept. `clock` is in seconds since 1970.
    """

    def __init__(self, folder: Path, bytes_max: Callable[[], int], *, clock: Callable[[], float] = time.time) -> None:
        """Open and create nothing before the first use."""
        self._folder = StateFolder(folder.parent).folder(folder.name)
        self._bytes_max = bytes_max
        self._clock = clock
        self._lock = threading.Lock()
        self._db: apsw.Connection | None = None

    def get(self, key: bytes) -> bytes | None:
        """Return a packed tree; None if it is not stored."""
        rows = self._run(lambda db: db.execute("SELECT packed FROM tree WHERE key = ?", (key,)).fetchall(), make=False)
        packed = rows[0][0] if rows else None
        return packed if isinstance(packed, bytes) else None

    def find_missing(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return those keys that are not stored."""
        rows = self._run(lambda db: db.execute("SELECT key FROM tree").fetchall(), make=False)
        known = {key for (key,) in rows or ()}
        return [key for key in keys if key not in known]

    def put(self, trees: Mapping[bytes, bytes], used: Iterable[bytes] = ()) -> bool:
        """Store packed trees, and note that others were used; return whether it was done."""
        today = int(self._clock() / DAY_S)
        rows = [(*row, today) for row in trees.items()]
        noted = [(today, key, today) for key in used]

        def write(db: apsw.Connection) -> bool:
            with transaction(db):
                db.executemany("INSERT OR REPLACE INTO tree VALUES (?, ?, ?)", rows)
                db.executemany("UPDATE tree SET used = ? WHERE key = ? AND used < ?", noted)
                self._drop_oldest(db)
            return True

        return self._run(write, make=True) is not None

    def clear(self) -> None:
        """Delete all trees."""
        with self._lock, suppress(OSError, ContextEngineError):
            self._discard()

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _drop_oldest(self, db: apsw.Connection) -> None:
        allowed = self._bytes_max()
        rows = db.execute("SELECT key, length(packed) FROM tree ORDER BY used, key").fetchall()
        sizes = {key: int(str(size)) for key, size in rows}
        kept = sum(sizes.values())
        if kept > allowed:
            for key, size in sizes.items():
                if kept <= allowed * KEPT_SHARE:
                    return
                db.execute("DELETE FROM tree WHERE key = ?", (key,))
                kept -= size

    def _run(self, work: Callable[[apsw.Connection], Result], *, make: bool) -> Result | None:
        """Return what some work with the database returns; None if there is none, or the disk refuses it."""
        with self._lock, suppress(apsw.Error, OSError, ContextEngineError):
            for _ in range(2):
                try:
                    db = self._open(make=make)
                    return work(db) if db is not None else None
                except (apsw.CorruptError, apsw.NotADBError):
                    self._discard()
        return None

    def _open(self, *, make: bool) -> apsw.Connection | None:
        """Return the database. Raises: apsw.Error, OSError, ContextEngineError."""
        if make or self._db is None:
            exists = self._folder.check_file(FILE) is not None
            if not exists:  # none yet, or the cache was deleted
                self._close()
            if self._db is None and (exists or make):
                self._db = self._connect()
        return self._db

    def _connect(self) -> apsw.Connection:
        db = open_in_state(self._folder, FILE, tables=("tree",), busy_ms=BUSY_MS, settings="PRAGMA synchronous = OFF")
        try:
            with transaction(db):
                version = db.pragma("user_version")
                if not version:
                    db.execute(_SCHEMA)
            if version not in (0, SCHEMA_VERSION):
                raise apsw.NotADBError(f"version {version}")
        except BaseException:
            db.close()
            raise
        return db

    def _discard(self) -> None:
        self._close()
        for end in ("", "-wal", "-shm", "-journal"):
            self._folder.remove(FILE + end)
