"""SQLite files in the user's cache, whose content can be made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from context_engine.storage.database import (
    COMPANION_SUFFIXES,
    DAMAGED,
    DatabaseHandle,
    open_in_cache,
    read_inode,
    transaction,
)
from context_engine.storage.private_files import make_private_folder

Result = TypeVar("Result")


class CacheDatabase:
    """A database of what can be made again: one that is damaged or of another layout is replaced by an empty one.

    Not thread-safe: its owner has a lock.
    """

    def __init__(
        self, path: Path, tables: str, *, version: int, busy_ms: int, settings: str = "PRAGMA synchronous = NORMAL"
    ) -> None:
        """Open nothing yet. `tables` is the SQL that creates the layout `version`."""
        self.path = path
        self._tables, self._version = tables, version
        self._busy_ms, self._settings = busy_ms, settings
        self._handle = DatabaseHandle()

    @property
    def is_created(self) -> bool:
        """Whether there is one on the disk."""
        return bool(read_inode(self.path))

    def run(self, work: Callable[[apsw.Connection], Result]) -> Result:
        """Return what some work with the database returns. Raises: OSError, apsw.Error."""
        try:
            return work(self._handle.open(self.path, self._connect))
        except DAMAGED:
            self.discard()
            return work(self._handle.open(self.path, self._connect))

    def close(self) -> None:
        """Close the file; it can be used again afterwards."""
        self._handle.close()

    def discard(self) -> None:
        """Delete it. Raises: OSError."""
        self._handle.close()
        for suffix in ("", *COMPANION_SUFFIXES):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def _connect(self) -> apsw.Connection:
        make_private_folder(self.path.parent)
        db = open_in_cache(self.path, busy_ms=self._busy_ms, settings=self._settings)
        try:
            with transaction(db):
                found = db.pragma("user_version")
                if not found:
                    db.execute(f"{self._tables}; PRAGMA user_version = {self._version}").fetchall()
            if found not in (0, self._version):
                raise apsw.NotADBError(f"the layout {found} is another one")
        except BaseException:
            db.close()
            raise
        return db
