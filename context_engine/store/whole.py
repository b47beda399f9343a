"""Files of ours that appear whole or not at all, below a home (`.context-engine/`) and never through a link out of it.

What is written lies beside its place first, flushed, and gets its name by a link that fails where there is one of that name
(`create`), or by a rename over what was there (`replace`).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from context_engine.errors import DiskFull, InvalidPath, WriteFailed
from context_engine.store.state import owned_like

Stamp = tuple[int, int, int]
"""What changes when a file does: inode, bytes, mtime_ns."""
Share = Callable[[Mapping[Path, bytes | None]], None]
"""Tells all machines of a team what is about to become of files, None that one is deleted; what cannot be told is not done."""
UNSETTLED_NS = 20_000_000
"""A file system's clock ticks every 4 to 10 ms: what was read so soon after a change may change again unseen."""
LEFT_S = 3_600.0
"""Nobody writes a file for so long: who began it was killed."""
PREFIX, SUFFIX = ".ctx-", ".tmp"
"""How a file is called until it is whole."""
_SAFE = ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
"""No link is followed, no child inherits, no pipe is waited for, no line end is changed; as far as the system knows them."""
SAFE = sum(getattr(os, flag, 0) for flag in _SAFE)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def read(path: Path, *, bytes_max: int) -> bytes | str | None:
    """The content of a file, why it cannot be read, or None when it is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | SAFE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error.strerror or str(error)
    try:
        with open(descriptor, "rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:  # a folder of that name, a broken disk
        return error.strerror or str(error)
    return data if len(data) <= bytes_max else f"it has more than {bytes_max:,} bytes"


def create(home: Path, target: Path, data: bytes, *, flush: bool = True) -> bool:
    """Write a new file; False when there is one of that name. Raises: WriteFailed, DiskFull, InvalidPath."""
    make_place(home, target)
    with told(target), _beside(home, target, data, flush=flush) as temp:
        try:
            os.link(temp, target)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links; who writes holds the lock
            if target.exists():
                return False
            os.replace(temp, target)
    return True


def replace(home: Path, target: Path, data: bytes, *, flush: bool = True) -> None:
    """Write a file anew, or for the first time. Raises: WriteFailed, DiskFull, InvalidPath."""
    make_place(home, target)
    with told(target), _beside(home, target, data, flush=flush) as temp:
        with suppress(FileNotFoundError):
            os.chmod(temp, os.stat(target).st_mode & 0o777)
        os.replace(temp, target)


def make_place(home: Path, target: Path) -> None:
    """Make the folders above a file. Raises: InvalidPath for a link that leads elsewhere, WriteFailed, DiskFull."""
    inside = target.relative_to(home)
    if Path(os.path.realpath(target)) != Path(os.path.realpath(home), inside):
        raise InvalidPath(
            f"{target} leads elsewhere by a link; nothing was written",
            suggestion="Replace the link by a folder: records are kept where they seem to be.",
            details={"path": str(target)},
        )
    with told(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in [*inside.parents][:-1]:
            owned_like(home.parent, home / folder)


def entries(folder: str | Path) -> list[os.DirEntry[str]]:
    """What lies in a folder; nothing when it is not there, or closed."""
    with suppress(OSError), os.scandir(folder) as found:
        return list(found)
    return []


def sweep(folder: Path, *, left_s: float = 0.0) -> None:
    """Delete what killed writers left beside their targets. Only for who holds the lock of all that write here.

    Others say with `left_s` how long nobody may have written to it.
    """
    for entry in entries(folder):
        if is_unfinished(entry.name):
            with suppress(OSError):
                if not left_s or entry.stat(follow_symlinks=False).st_mtime < time.time() - left_s:
                    os.unlink(entry.path)


def is_unfinished(name: str) -> bool:
    """Whether a file is called as one that is not whole yet.

    >>> is_unfinished(".ctx-5db4c072f591.tmp"), is_unfinished("v0001.json")
    (True, False)
    """
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def flush_folder(folder: Path) -> None:
    """Make a new name survive a power cut, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        with suppress(OSError):  # some file systems cannot; the file is written all the same
            os.fsync(descriptor)
        os.close(descriptor)


@contextmanager
def told(target: Path) -> Generator[None]:
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


@contextmanager
def _beside(home: Path, target: Path, data: bytes, *, flush: bool) -> Generator[Path]:
    """A whole, flushed file beside a target, to be linked or renamed; the new name is flushed, too."""
    temp = target.parent / f"{PREFIX}{os.urandom(6).hex()}{SUFFIX}"
    try:
        with open(temp, "xb") as file:
            file.write(data)
            file.flush()
            if flush:
                os.fsync(file.fileno())
        owned_like(home.parent, temp)
        yield temp
        if flush:
            flush_folder(target.parent)
    finally:
        temp.unlink(missing_ok=True)
