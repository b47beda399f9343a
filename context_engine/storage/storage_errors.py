"""Translate the errors of SQLite and the system into those of this package: one table for every stored file."""

from __future__ import annotations

import errno
import shutil
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec

from context_engine.errors import ContextEngineError, DiskFull, StorageBusy, StorageCorrupt, WriteFailed

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
CLOSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST})
ROOM_BYTES = 65_536
"""SQLite needs 32 kB next to a database to read it at all; with less room it only reports `disk I/O error`."""
REFUSED = (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.IOError)
"""What SQLite reports for a full or read-only disk: no reason to call the file damaged."""
_NO_LONGER = frozenset(
    {
        apsw.SQLITE_IOERR_WRITE,
        apsw.SQLITE_IOERR_TRUNCATE,
        apsw.SQLITE_IOERR_SHMOPEN,
        apsw.SQLITE_IOERR_SHMSIZE,
        apsw.SQLITE_IOERR_SHMMAP,
    }
)
"""A file that cannot grow: a quota or a limit of its size, which SQLite does not distinguish from a broken disk."""
DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)


@dataclass(frozen=True, slots=True)
class StorageAdvice:
    """What a stored file contains, and the next step for each kind of problem with it."""

    description: str
    busy: str
    full: str
    closed: str
    damaged: str


@contextmanager
def translate_errors(path: Path, advice: StorageAdvice) -> Generator[None]:
    """Raise an error of this package in place of that of SQLite, the system or a decoder about a stored file."""
    try:
        yield
    except (apsw.Error, OSError, zlib.error, msgspec.DecodeError) as error:
        ours = translate_error(error, path, advice)
        if ours is None:
            raise
        raise ours from error


def translate_error(error: Exception, path: Path, advice: StorageAdvice) -> ContextEngineError | None:
    """Return the error to raise instead; None for an error that is not about the disk or the file."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StorageBusy(f"another process keeps {advice.description} locked", suggestion=advice.busy)
    if _is_no_room(error, path):
        return disk_full_error(path, advice)
    if isinstance(error, REFUSED) or _is_closed(error, path):
        return write_failed_error(path, advice, getattr(error, "strerror", "") or str(error))
    if isinstance(error, (*DAMAGED, zlib.error, msgspec.DecodeError)):
        return corrupt_error(path, advice, str(error))
    return None


def disk_full_error(path: Path, advice: StorageAdvice) -> DiskFull:
    """Return the error for a full disk."""
    return DiskFull(
        f"no room left on the disk of {path}, {advice.description}", suggestion=advice.full, details={"path": str(path)}
    )


def write_failed_error(path: Path, advice: StorageAdvice, why: str) -> WriteFailed:
    """Return the error for a place that cannot be written."""
    return WriteFailed(
        f"{path}, {advice.description}, cannot be written: {why}",
        suggestion=advice.closed,
        details={"path": str(path), "reason": "refused"},
    )


def corrupt_error(path: Path, advice: StorageAdvice, why: str) -> StorageCorrupt:
    """Return the error for a file that differs from what was written."""
    return StorageCorrupt(
        f"{path}, {advice.description}, cannot be read: {why}", suggestion=advice.damaged, details={"path": str(path)}
    )


def newer_format_error(path: Path, advice: StorageAdvice, found: int, known: int) -> StorageCorrupt:
    """Return the error for a file of a newer release, which stays as it is."""
    return StorageCorrupt(
        f"{path}, {advice.description}, has the format {found} of a newer release, and this one knows {known};"
        " it was not touched",
        suggestion="Update ctx, or let the newer one work alone in this workspace.",
        details={"path": str(path), "format": found, "known": known},
    )


def _is_no_room(error: Exception, path: Path) -> bool:
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    if isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _NO_LONGER:
        return True
    return isinstance(error, REFUSED) and _has_no_room(path)


def _has_no_room(path: Path) -> bool:
    for folder in (path, *path.parents):
        with suppress(OSError):
            return shutil.disk_usage(folder).free < ROOM_BYTES
    return False


def _is_closed(error: Exception, path: Path) -> bool:
    """Return whether the system refuses this file or folder, and not a file of the user that was read meanwhile."""
    if not isinstance(error, OSError) or not error.filename:
        return False
    named = Path(str(error.filename))
    if error.errno == errno.ENOENT:  # a folder cannot be made there, as in /proc
        return named in path.parents
    if error.errno not in CLOSED:
        return False
    return named.is_relative_to(path) or path.is_relative_to(named) or named.is_relative_to(path.parent)
