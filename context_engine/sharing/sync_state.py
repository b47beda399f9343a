"""What this machine has seen of a team's records: up to which revision, and each file as it was when both sides agreed.

    commons-<kind>.db    in the cache of the workspace; deleting it costs a look at every file

Who holds the file's one write transaction is alone among all processes of this machine; a killed holder is forgotten
with what it had not finished.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from context_engine.errors import StorageBusy
from context_engine.storage import FileStamp, database, storage_errors, translate_os_errors

KEPT = storage_errors.StorageAdvice(
    "what was seen of the team's records",
    busy="Call again in a moment.",
    full="Free some space, then call again.",
    closed="Set CTX_CACHE_FOLDER to a folder you may write to.",
    damaged="Delete it: it holds nothing that cannot be worked out again.",
)

_TABLES = """
CREATE TABLE IF NOT EXISTS cursor(only INTEGER PRIMARY KEY CHECK (only = 1), revision INT NOT NULL);
INSERT OR IGNORE INTO cursor VALUES (1, 0);
CREATE TABLE IF NOT EXISTS file(
    path TEXT PRIMARY KEY, sha TEXT NOT NULL, inode INT NOT NULL, bytes INT NOT NULL, mtime_ns INT NOT NULL) WITHOUT ROWID;
"""


class MergeBase(NamedTuple):
    """A file as it was when both sides had the same: what stood in it, and what changes when that does."""

    sha: str
    stamp: FileStamp


class SyncState:
    """What was seen of one kind of records. Thread-safe; any number of processes may hold one on the same file."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened or created until it is needed."""
        self._path = path
        self._here = threading.Lock()
        self._db: apsw.Connection | None = None
        self._inode = 0

    @contextmanager
    def lock(self, wait_s: float) -> Generator[None]:
        """Be alone with it until the block ends; what is noted inside is kept as a whole, or not.

        Raises: StorageBusy.
        """
        if not self._here.acquire(timeout=wait_s):
            raise _busy()
        try:
            with storage_errors.translate_errors(self._path, KEPT), database.transaction(self._opened(wait_s)):
                yield
        finally:
            self._here.release()

    # -- for who is alone --

    @property
    def revision(self) -> int:
        """Up to which revision everything was seen."""
        return int(str(self._now.execute("SELECT revision FROM cursor").fetchall()[0][0]))

    def files(self) -> dict[str, MergeBase]:
        """Every file that both sides agreed on."""
        rows = self._now.execute("SELECT * FROM file")
        return {path: MergeBase(sha, (inode, size, mtime_ns)) for path, sha, inode, size, mtime_ns in rows}

    def record_base(self, path: str, file: MergeBase) -> None:
        """Both sides have the same in a file."""
        self._now.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?)", (path, file.sha, *file.stamp))

    def forget(self, paths: Iterable[str]) -> None:
        """Neither side has these files any more."""
        self._now.executemany("DELETE FROM file WHERE path = ?", [(path,) for path in paths])

    def advance(self, revision: int) -> None:
        """Everything up to a revision was seen."""
        self._now.execute("UPDATE cursor SET revision = ?", (revision,))

    def reset(self) -> None:
        """Nothing was ever seen: the database is another one."""
        self._now.execute("DELETE FROM file; UPDATE cursor SET revision = 0")

    # -- the file --

    def close(self) -> None:
        """Let go of the file; it can be used again afterwards."""
        with self._here:
            if self._db is not None:
                self._db.close()
                self._db = None

    @property
    def _now(self) -> apsw.Connection:
        assert self._db is not None, "only for who is alone"
        return self._db

    def _opened(self, wait_s: float) -> apsw.Connection:
        if self._db is not None and database.read_inode(self._path) != self._inode:  # the cache was deleted
            self._db.close()
            self._db = None
        if self._db is None:
            with translate_os_errors(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._db = _made(self._path, round(wait_s * 1000))
            self._inode = database.read_inode(self._path)
        self._db.set_busy_timeout(round(wait_s * 1000))
        return self._db


def _made(path: Path, busy_ms: int) -> apsw.Connection:
    db = database.open_in_cache(path, busy_ms=busy_ms, settings="PRAGMA synchronous = NORMAL")
    try:
        db.execute(_TABLES)
    except apsw.Error:
        db.close()
        raise
    return db


def _busy() -> StorageBusy:
    return StorageBusy(
        "somebody else on this machine is writing the records of the team right now",
        suggestion="Call again in a moment; nothing was written.",
    )
