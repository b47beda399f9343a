"""The SQLite files of every package: a safe start, a check that a file is still the opened one, transactions, errors.

A database in the state folder may have been written by a stranger, and SQLite trusts the files next to a database: a
rollback journal can name any file of the machine, which is then deleted, and a view or a trigger can run for ever.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import zlib
from collections.abc import Callable, Collection, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import apsw
import msgspec

from context_engine.errors import ContextEngineError, DiskFull, StorageBusy, StorageCorrupt, WriteFailed
from context_engine.storage.index_folders import find_network_drive
from context_engine.storage.private_files import create_private, make_private_folder
from context_engine.storage.state_folder import StateFolder

Result = TypeVar("Result")

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
CLOSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST})
ROOM_BYTES = 65_536
"""SQLite needs 32 kB next to a database to read it at all; with less room it only reports `disk I/O error`."""
REFUSED = (apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, apsw.IOError)
"""What SQLite reports for a full or read-only disk: no reason to call the file damaged."""
_NO_LONGER = {apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE, apsw.SQLITE_IOERR_SHMOPEN}
_NO_LONGER |= {apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMMAP}
"""A file that cannot grow: a quota or a limit of its size, which SQLite does not distinguish from a broken disk."""
DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
BUSY_MS = 5_000
"""No transaction of ours takes this long."""
COMPANION_SUFFIXES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to a database."""
_SUPER_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The end of a rollback journal that names a file of several databases (https://sqlite.org/fileformat.html); ours never
do."""
_UNTRUSTED = (
    (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
    (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
)
"""As https://sqlite.org/security.html recommends; our databases have neither views nor triggers."""
_COMPUTES = re.compile(rb"\b(?:AS|CHECK|DEFAULT|VIRTUAL|WHERE)\b", re.IGNORECASE)
"""Words of a table that computes: SQLite would run its expressions with each row. Our tables never do."""
_PLAIN_INDEX = re.compile(rb'CREATE (?:UNIQUE )?INDEX "?\w+"? ON "?\w+"?\s*\([\w, "]+\)')


@contextmanager
def transaction(db: apsw.Connection) -> Generator[None]:
    """Write all changes of the block, or none of them. One writer at a time: others wait for the busy timeout.

    The lock of writers is taken first: SQLite does not wait for it in a transaction that has already read. A reader may
    have it for a moment, to read the head of the log again that was just being written.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(apsw.Error):  # a full disk has ended it already
            db.execute("ROLLBACK")
        raise


def open_frozen(path: Path) -> apsw.Connection | None:
    """Open a database for reading only: a full or read-only disk has no room for the files next to it.

    Return None when its log contains changes that need such files to be read. Open it again for the next look.
    """
    real = Path(os.path.realpath(path.parent), path.name)
    with suppress(FileNotFoundError):
        if os.stat(f"{real}-wal", follow_symlinks=False).st_size:
            return None
    address = f"{real.as_uri()}?immutable=1"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW)


def _restrict(db: apsw.Connection) -> None:
    for option, value in _UNTRUSTED:
        db.config(option, value)


def read_inode(path: Path) -> int:
    """Return the number that differs for another file of the same name; 0 when there is none."""
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return 0


class DatabaseHandle:
    """The connection to a database, opened when needed, and opened again when another file is in its place.

    Not thread-safe: its owner has a lock.
    """

    def __init__(self) -> None:
        """Open nothing yet."""
        self.connection: apsw.Connection | None = None
        self._inode = 0

    def current(self, path: Path) -> apsw.Connection | None:
        """Return the connection while its file is the one on the disk: another program may have deleted it."""
        if self.connection is not None and read_inode(path) != self._inode:
            self.close()
        return self.connection

    def open(self, path: Path, connect: Callable[[], apsw.Connection]) -> apsw.Connection:
        """Return the current connection, or the new one of `connect`. Raises: as `connect`."""
        db = self.current(path)
        if db is None:
            db = self.connection = connect()
            self._inode = read_inode(path)
        return db

    def close(self) -> None:
        """Close the file; it can be opened again afterwards."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class StateDatabase:
    """A database in the state folder of a workspace, readable by its owner alone. Thread-safe; also several processes.

    Nothing is opened or created until it is needed. Its methods raise WriteFailed, DiskFull, StorageBusy, and
    StorageCorrupt for a damaged file, a foreign database and a layout of another release.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        schema: str,
        *,
        version: int,
        settings: str,
        advice: StorageAdvice,
        creating: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Take the folder. `schema` creates the tables of the layout `version`; `creating` is entered to open it."""
        self.path = folder / name
        self._folder = StateFolder(folder)
        self._name, self._schema, self._version, self._settings = name, schema, version, settings
        self._advice = advice
        self._creating = creating
        self._lock = threading.RLock()
        self._handle = DatabaseHandle()

    @contextmanager
    def lock(self) -> Generator[None]:
        """Let no other thread use it in the block, and raise errors about the file as those of this package."""
        with self._lock, translate_errors(self.path, self._advice):
            yield

    @contextmanager
    def reading(self) -> Generator[apsw.Connection | None]:
        """Yield the connection, None where nothing is stored; on a full or read-only disk one that only reads."""
        with self.lock():
            try:
                db = self._open_stored()
            except (*REFUSED, WriteFailed, DiskFull):
                if self._folder.check_file(self._name) is None or (db := open_frozen(self.path)) is None:
                    raise
                with closing(db):
                    _restrict(db)
                    yield db
            else:
                yield db

    @contextmanager
    def writing(self, settings: str) -> Generator[apsw.Connection]:
        """Yield the connection in a transaction, with these settings of SQLite."""
        with self.lock():
            db = self.connect()
            db.execute(settings)
            with transaction(db):
                yield db

    def connect(self) -> apsw.Connection:
        """Return the connection, to a new file if there is none. The caller has locked it."""
        return self._handle.open(self.path, self._open)

    def close(self) -> None:
        """Close the file; it can be used again afterwards."""
        with self._lock:
            self._handle.close()

    def is_emptied(self) -> bool:
        """Return whether somebody emptied the file, which is not the same as a database without rows."""
        with self._lock:
            return self._handle.connection is None and self._is_empty()

    def _is_empty(self) -> bool:
        status = self._folder.check_file(self._name)
        return status is not None and status.st_size == 0 and not self._folder.exists(f"{self._name}-wal")

    def _open_stored(self) -> apsw.Connection | None:
        is_open = self._handle.current(self.path) is not None
        if not is_open and (not read_inode(self.path) or self._is_empty()):
            return None
        return self.connect()

    def _open(self) -> apsw.Connection:
        """Open the file if it is one of ours, or create it with its tables."""
        with self._creating():
            folder, name = self._folder, self._name
            folder.make()
            if folder.check_file(name) is None:
                with folder.open_descriptor(name, os.O_RDWR | os.O_CREAT, 0o600):
                    pass
            for end in COMPANION_SUFFIXES:
                folder.check_file(name + end)
            if _names_other_database(folder, f"{name}-journal"):
                raise _foreign_error(self.path, f"{name}-journal names a file of another database")
            path = Path(os.path.realpath(folder.path.parent), folder.path.name, name)
            db = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
            try:
                db.set_busy_timeout(BUSY_MS)
                _restrict(db)
                _check_layout(db, path, re.findall(r"CREATE TABLE (\w+)", self._schema))
                set_journal_mode(db, path, self._settings)
                _create_layout(db, self._schema, self._version)
            except BaseException:
                db.close()
                raise
            return db


def open_private_database(path: Path, schema: str, *, version: int, busy_ms: int = BUSY_MS) -> apsw.Connection:
    """Open a database outside of workspaces, readable by its owner alone; create it if missing. No link is followed.

    `schema` creates the tables of the layout `version`. Raises: OSError, apsw.Error, OtherLayoutError.
    """
    make_private_folder(path.parent)
    real = Path(os.path.realpath(path.parent), path.name)
    if not read_inode(real):
        create_private(real)
    db = apsw.Connection(os.fspath(real), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
    try:
        db.set_busy_timeout(busy_ms)
        set_journal_mode(db, path, "PRAGMA synchronous = NORMAL")
        _create_layout(db, schema, version)
    except BaseException:
        db.close()
        raise
    return db


class CacheDatabase:
    """A database of what can be made again: one that is damaged or of another layout is replaced by an empty one.

    Not thread-safe: its owner has a lock.
    """

    def __init__(self, path: Path, tables: str, *, version: int, busy_ms: int = BUSY_MS) -> None:
        """Open nothing yet. `tables` is the SQL that creates the layout `version`."""
        self.path = path
        self._tables, self._version = tables, version
        self._busy_ms = busy_ms
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
        return open_private_database(self.path, self._tables, version=self._version, busy_ms=self._busy_ms)


class OtherLayoutError(apsw.NotADBError):
    """A database has the layout of another release."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"the layout {found} is another one")
        self.found, self.known = found, known


def _create_layout(db: apsw.Connection, schema: str, version: int) -> None:
    """Create the tables in an empty file. Raises: OtherLayoutError."""
    found = _read_version(db)
    if not found:
        with transaction(db):
            found = _read_version(db)  # another process may have created them since
            if not found:
                db.execute(f"{schema}; PRAGMA user_version = {version}").fetchall()
    if found not in (0, version):
        raise OtherLayoutError(found, version)


def _read_version(db: apsw.Connection) -> int:
    return int(str(db.pragma("user_version")))


def set_journal_mode(db: apsw.Connection, path: Path, settings: str) -> None:
    """Use a write-ahead log, except on a network drive, which has no shared memory for one."""
    log = "TRUNCATE" if find_network_drive(path) else "WAL"
    db.execute(f"PRAGMA journal_mode = {log}; {settings}").fetchall()


def decompress(data: bytes, bytes_max: int) -> bytes:
    """Decompress data that may be hostile. Raises: zlib.error, also for a result larger than `bytes_max`."""
    stream = zlib.decompressobj()
    body = stream.decompress(data, bytes_max)
    if not stream.eof:
        raise zlib.error(f"it is cut off, or has more than {bytes_max:,} bytes")
    return body


def _check_layout(db: apsw.Connection, path: Path, tables: Collection[str]) -> None:
    """Refuse foreign tables, and tables that compute their content. Raises: StorageCorrupt."""
    listed = db.execute("SELECT CAST(name AS BLOB), CAST(coalesce(sql, '') AS BLOB) FROM sqlite_schema")
    rows = [(bytes(name).decode("utf-8", "replace"), sql) for name, sql in listed]  # a name may not be UTF-8
    found = {name for name, _ in rows if not name.startswith("sqlite")}
    if found and not found.issuperset(tables):
        raise _foreign_error(path, f"it is a database with other tables ({', '.join(sorted(found)[:3])})")
    for name, sql in rows:
        if isinstance(sql, bytes) and sql and _is_computing(sql):
            raise _foreign_error(path, f"{name!r} in it computes its content")


def _is_computing(sql: bytes) -> bool:
    r"""Return whether SQLite would run expressions of a table or an index. Views and triggers are switched off for all.

    >>> _is_computing(b"CREATE TABLE a(b TEXT)"), _is_computing(b"CREATE TABLE a(b TEXT AS (hex(zeroblob(9))))")
    (False, True)
    >>> _is_computing(b"CREATE INDEX a ON b(c)"), _is_computing(b"CREATE INDEX a ON b(hex(c))")
    (False, True)
    """
    if re.match(rb"CREATE (?:VIEW|TRIGGER)\b", sql):
        return False
    if sql.startswith(b"CREATE TABLE"):
        return bool(_COMPUTES.search(sql))
    return not _PLAIN_INDEX.fullmatch(sql)


def _names_other_database(folder: StateFolder, name: str) -> bool:
    if (status := folder.check_file(name)) is None or status.st_size < len(_SUPER_JOURNAL_MAGIC):
        return False
    with folder.open_descriptor(name, os.O_RDONLY) as descriptor:
        os.lseek(descriptor, -len(_SUPER_JOURNAL_MAGIC), os.SEEK_END)
        return os.read(descriptor, len(_SUPER_JOURNAL_MAGIC)) == _SUPER_JOURNAL_MAGIC


def _foreign_error(path: Path, why: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"{path} is not one of ours: {why}; it was not touched",
        suggestion="Check what it is and move it away: it may have come with a repository.",
        details={"path": str(path)},
    )


# -- errors ------------------------------------------------------------------------------------------------------------

# One table for every stored file: the errors of SQLite and of the system, as those of this package.


@dataclass(frozen=True, slots=True)
class StorageAdvice:
    """What a stored file contains, and the next step for each kind of problem with it; by default for the cache."""

    description: str
    damaged: str
    busy: str = "Call again in a moment."
    full: str = "Free some space, then call again."
    closed: str = "Set CTX_CACHE_FOLDER to a folder you may write to."


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
    if isinstance(error, OtherLayoutError):
        return newer_format_error(path, advice, error.found, error.known)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StorageBusy(f"another process keeps {advice.description} locked", suggestion=advice.busy)
    if _is_no_room(error, path):
        message = f"no room left on the disk of {path}, {advice.description}"
        return DiskFull(message, suggestion=advice.full, details={"path": str(path)})
    if isinstance(error, REFUSED) or _is_closed(error, path):
        return write_failed_error(path, advice, getattr(error, "strerror", "") or str(error))
    if isinstance(error, (*DAMAGED, zlib.error, msgspec.DecodeError)):
        return corrupt_error(path, advice, str(error))
    return None


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
    """Return the error for a file of another release, which stays as it is."""
    age, step = "a newer", "Update ctx, or let the newer one work alone in this workspace."
    if found < known:
        age, step = ("an older", "Move it away, and ctx makes a new one.")
    return StorageCorrupt(
        f"{path}, {advice.description}, has the format {found} of {age} release, and this one knows {known};"
        " it was not touched",
        suggestion=step,
        details={"path": str(path), "format": found, "known": known},
    )


def _is_no_room(error: Exception, path: Path) -> bool:
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    if isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _NO_LONGER:
        return True
    if isinstance(error, REFUSED):
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
