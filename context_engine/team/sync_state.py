"""What this machine has seen of a team's records: the revision, and each file as it was when both sides agreed.

    commons-<kind>-<mark>.db    in the cache of the workspace; without it every file is compared again

The file's write transaction is the lock among the processes of this machine. A killed owner releases it, and what it
had not finished is rolled back.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from context_engine.errors import StorageBusy
from context_engine.storage import FileStamp, database, make_private_folder, translate_os_errors

ADVICE = database.StorageAdvice(
    "the state of the team's records",
    busy="Call again in a moment.",
    full="Free some space, then call again.",
    closed="Set CTX_CACHE_FOLDER to a folder you may write to.",
    damaged="Delete it: it contains nothing that cannot be derived again.",
)

_TABLES = """
CREATE TABLE IF NOT EXISTS cursor(only INTEGER PRIMARY KEY CHECK (only = 1), revision INT NOT NULL);
INSERT OR IGNORE INTO cursor VALUES (1, 0);
CREATE TABLE IF NOT EXISTS file(
    path TEXT PRIMARY KEY, sha TEXT NOT NULL, inode INT NOT NULL, bytes INT NOT NULL, mtime_ns INT NOT NULL
) WITHOUT ROWID;
"""


class MergeBase(NamedTuple):
    """A file as it was when both sides agreed: the hash of its content, and a stamp that changes with it."""

    sha: str
    stamp: FileStamp


class SyncState:
    """What was seen of one kind of records. Thread-safe; several processes may use one file."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened or created until it is needed."""
        self._path = path
        self._lock = threading.Lock()
        self._database = database.DatabaseHandle()

    @contextmanager
    def lock(self, wait_s: float) -> Generator[None]:
        """Lock it until the block ends; the changes of the block are stored together, or not at all.

        Raises: StorageBusy.
        """
        if not self._lock.acquire(timeout=wait_s):
            raise StorageBusy(
                "another process of this machine is writing the records of the team right now",
                suggestion="Call again in a moment; nothing was written.",
            )
        try:
            with database.translate_errors(self._path, ADVICE), database.transaction(self._open(wait_s)):
                yield
        finally:
            self._lock.release()

    # -- with the lock --

    @property
    def revision(self) -> int:
        """The revision up to which everything was seen."""
        return int(str(self._locked_db.execute("SELECT revision FROM cursor").fetchall()[0][0]))

    def files(self) -> dict[str, MergeBase]:
        """Return every file that both sides agreed on."""
        rows = self._locked_db.execute("SELECT * FROM file")
        return {path: MergeBase(sha, (inode, size, mtime_ns)) for path, sha, inode, size, mtime_ns in rows}

    def note(self, path: str, file: MergeBase | None) -> None:
        """Note that both sides have the same content in a file; None: that neither side has the file."""
        self._locked_db.execute("DELETE FROM file WHERE path = ?", (path,))
        if file is not None:
            self._locked_db.execute("INSERT INTO file VALUES (?, ?, ?, ?, ?)", (path, file.sha, *file.stamp))

    def advance(self, revision: int) -> None:
        """Note that everything up to a revision was seen."""
        self._locked_db.execute("UPDATE cursor SET revision = ?", (revision,))

    def reset(self) -> None:
        """Forget everything, because the database is another one."""
        self._locked_db.execute("DELETE FROM file; UPDATE cursor SET revision = 0")

    # -- the file --

    def close(self) -> None:
        """Close the file; it can be used again afterwards."""
        with self._lock:
            self._database.close()

    @property
    def _locked_db(self) -> apsw.Connection:
        assert self._database.connection is not None, "only with the lock"
        return self._database.connection

    def _open(self, wait_s: float) -> apsw.Connection:
        busy_ms = round(wait_s * 1000)

        def create() -> apsw.Connection:
            with translate_os_errors(self._path):
                make_private_folder(self._path.parent)
                db = database.open_in_cache(self._path, busy_ms=busy_ms, settings="PRAGMA synchronous = NORMAL")
            try:
                db.execute(_TABLES)
            except apsw.Error:
                db.close()
                raise
            return db

        db = self._database.open(self._path, create)
        db.set_busy_timeout(busy_ms)
        return db
