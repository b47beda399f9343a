"""Records: small text files of ours in the folder `.context-engine/`, which people may edit and git carries.

    <home>/<name>/<folder>/<file>.md        one record; nothing deeper, no links, nothing hidden
    <home>/locks/                           one writer at a time among all processes of this machine

A record appears whole or not at all, and one that somebody else has just made is never written over. This module knows nothing
of what stands in a record.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from context_engine.errors import DiskFull, InvalidPath, WriteFailed
from context_engine.store.locks import PathLocks
from context_engine.store.state import owned_like

SUFFIX = ".md"
BYTES_MAX = 262_144
"""Fifty times what may be written through us; a person's file beyond it is a document, not a record."""
_SAFE = ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
"""No link is followed, no child inherits, no pipe is waited for, no line end is changed; as far as the system knows them."""
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


Stamp = tuple[int, int, int]
"""What changes when a record does: inode, bytes, mtime_ns."""


class Records:
    """The records of one kind, below `<home>/<name>`. Thread-safe; any number of processes may hold one on the same folder.

    `flush=False` gives up on surviving a power cut, for records that can be had again.
    """

    def __init__(self, home: Path, name: str, *, flush: bool = True) -> None:
        """Nothing is created until something is written."""
        self.folder = home / name
        self._home = home
        self._flush = flush
        self._locks = PathLocks(home / "locks")

    # -- reading --

    def listing(self) -> dict[str, Stamp]:
        """Every record, by its path below the folder (`decisions/use-tabs--0c07398f.md`)."""
        found: dict[str, Stamp] = {}
        for folder in _entries(self.folder):
            if folder.is_dir(follow_symlinks=False) and not folder.name.startswith("."):
                found |= _stamps(folder)
        return found

    def folders(self) -> tuple[int, ...]:
        """What changes when a record is made, deleted or replaced, though not when it is written over in place: mtimes in ns."""
        inner = (entry for entry in _entries(self.folder) if entry.is_dir(follow_symlinks=False))
        with suppress(OSError):  # one of them went in this moment
            return os.stat(self.folder).st_mtime_ns, *(os.stat(entry.path).st_mtime_ns for entry in inner)
        return ()

    def read(self, name: str) -> bytes | str | None:
        """The content of a record, why it cannot be read, or None when it is not there any more."""
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY | sum(getattr(os, flag, 0) for flag in _SAFE))
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.strerror or str(error)
        with open(descriptor, "rb") as file:
            data = file.read(BYTES_MAX + 1)
        return data if len(data) <= BYTES_MAX else f"it has more than {BYTES_MAX:,} bytes"

    # -- writing --

    @contextmanager
    def writing(self) -> Generator[None]:
        """Be the only writer until the block ends. Raises: StorageBusy, WriteFailed, DiskFull."""
        with self._locks.held([self.folder.name]):
            yield

    def create(self, name: str, data: bytes) -> bool:
        """Write a new record; False when there is one of that name. Raises: WriteFailed, DiskFull, InvalidPath."""
        target = self._target(name)
        with _told(target), self._beside(target, data) as temp:
            try:
                os.link(temp, target)
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links; who writes holds the lock
                if target.exists():
                    return False
                os.replace(temp, target)
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write a record anew. Raises: WriteFailed, DiskFull, InvalidPath."""
        target = self._target(name)
        with _told(target), self._beside(target, data) as temp:
            with suppress(FileNotFoundError):
                os.chmod(temp, os.stat(target).st_mode & 0o777)
            os.replace(temp, target)

    def remove(self, name: str) -> None:
        """Delete a record, and its folder when that was the last one. Raises: WriteFailed, InvalidPath."""
        target = self._target(name)
        with _told(target):
            target.unlink(missing_ok=True)
        with suppress(OSError):  # there are others
            target.parent.rmdir()

    def _target(self, name: str) -> Path:
        """Where a record lies, and the folders above it made. A link that leads out of the home is not followed."""
        target = self.folder / name
        meant = Path(os.path.realpath(self._home), self.folder.name, name)
        if Path(os.path.realpath(target)) != meant:
            raise InvalidPath(
                f"{target} leads elsewhere by a link; nothing was written",
                suggestion="Replace the link by a folder: records are kept where they seem to be.",
                details={"path": str(target)},
            )
        with _told(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder, target.parent):
                owned_like(self._home.parent, folder)
        return target

    @contextmanager
    def _beside(self, target: Path, data: bytes) -> Generator[Path]:
        """A whole, flushed file beside a target, to be linked or renamed; the new name is flushed, too."""
        temp = target.parent / f".ctx-{os.urandom(6).hex()}.tmp"
        try:
            with open(temp, "xb") as file:
                file.write(data)
                file.flush()
                if self._flush:
                    os.fsync(file.fileno())
            owned_like(self._home.parent, temp)
            yield temp
            if self._flush:
                _flush_folder(target.parent)
        finally:
            temp.unlink(missing_ok=True)


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    """What lies in a folder; nothing when it is not there, or closed."""
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _stamps(folder: os.DirEntry[str]) -> dict[str, Stamp]:
    """The plain files of a folder that may be records. Asked at each call, for thousands of files: hence the plain loop."""
    found: dict[str, Stamp] = {}
    for entry in _entries(folder.path):
        name = entry.name
        if name.endswith(SUFFIX) and name[0] != "." and entry.is_file(follow_symlinks=False):
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:  # it went in this moment
                continue
            found[f"{folder.name}/{name}"] = facts.st_ino, facts.st_size, facts.st_mtime_ns
    return found


def _flush_folder(folder: Path) -> None:
    """Make a new name survive a power cut, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        with suppress(OSError):  # some file systems cannot; the file is written all the same
            os.fsync(descriptor)
        os.close(descriptor)


@contextmanager
def _told(target: Path) -> Generator[None]:
    """Turn what the operating system says into our words."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull(
                f"no room left on the disk for {target}; nothing was written",
                suggestion="Free some space, then call again.",
                details={"path": str(target)},
            ) from error
        raise WriteFailed(
            f"{target} cannot be written: {error.strerror or error}",
            suggestion="Give this user permission to write there; nothing was changed.",
            details={"path": str(target), "reason": "refused"},
        ) from error
