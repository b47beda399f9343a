"""What every SQLite file of ours has in common: one transaction, a file that is still the one that was opened, a private start."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from context_engine.store import state
from context_engine.store.place import is_network_drive


@contextmanager
def transaction(db: apsw.Connection) -> Generator[None]:
    """All that is written inside, or nothing of it. One writer at a time: it waits as long as the connection was told to."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(apsw.Error):  # a full disk has ended it already
            db.execute("ROLLBACK")
        raise


def inode(path: Path) -> int:
    """What tells a file from another one of the same name; 0 when there is none."""
    try:
        return os.stat(path).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return 0


def private(path: Path, *, busy_ms: int, settings: str) -> apsw.Connection:
    """Open a database in the state folder of a workspace, readable by its owner alone; made if there is none.

    Raises: WriteFailed, DiskFull; and what SQLite says of the file.
    """
    with state.told(path.parent):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
        state.owned_like(path.parent, path)
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(busy_ms)
    log = "TRUNCATE" if is_network_drive(path) else "WAL"  # a network drive has no shared memory, which WAL needs
    db.execute(f"PRAGMA journal_mode = {log}; {settings}").fetchall()
    return db
