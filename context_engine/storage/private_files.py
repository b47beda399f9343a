"""Folders and files of this machine's user, which no other user can read: 0700 and 0600 from their first byte.

Everything outside of workspaces is made with these functions, since it may say something of closed repositories.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from filelock import FileLock

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS = 0o077


def temporary_name(digits: str = "") -> str:
    """Return a name for a file that is not complete yet: an unused one, or that of 12 hexadecimal digits."""
    return f".ctx-{digits or os.urandom(6).hex()}.tmp"


def is_temporary(name: str) -> bool:
    """Return whether a name is that of a file that is not complete yet.

    >>> is_temporary(".ctx-5db4c072f591.tmp"), is_temporary(".ctx-notes.tmp")
    (True, False)
    """
    random = name.removeprefix(".ctx-").removesuffix(".tmp")
    return len(name) == 21 and len(random) == 12 and not random.strip("0123456789abcdef")


def make_private_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder, and those above it that are missing. Raises: OSError."""
    folder = os.path.abspath(path)
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    if parent != folder:
        make_private_folder(parent)
    try:
        os.mkdir(folder, PRIVATE_FOLDER)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file as `os.open` does; for the `opener` of `open`. Raises: OSError."""
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), PRIVATE_FILE)


def replace_private(
    path: str | os.PathLike[str], data: bytes, *, finish: Callable[[int], None] | None = None, flush: bool = False
) -> None:
    """Write a file, whether it exists or not: as a whole or not at all. `finish` gets its descriptor at the end.

    Raises: OSError.
    """
    part = os.path.join(os.path.dirname(path), temporary_name())
    try:
        with open(part, "xb", opener=open_private) as file:
            file.write(data)
            file.flush()
            if finish:
                finish(file.fileno())
            if flush:
                os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def create_private(path: str | os.PathLike[str]) -> None:
    """Create an empty file unless there is one. SQLite gives the files next to a database its mode. Raises: OSError."""
    with open(path, "ab", opener=open_private):
        pass


def lock_private(path: str | os.PathLike[str], *, timeout: float = -1) -> FileLock:
    """Return the lock of a file, which is created when it is acquired."""
    from filelock import FileLock  # only for those who write

    return FileLock(path, timeout=timeout, mode=PRIVATE_FILE)


@contextmanager
def hold_private_lock(path: str | os.PathLike[str], *, wait_s: float, busy: Exception) -> Generator[None]:
    """Be the only process of this machine with the lock of a file, which is created with its folder.

    Raises: `busy` when another process has it for longer than `wait_s`; OSError.
    """
    from filelock import Timeout

    make_private_folder(os.path.dirname(path))
    lock = lock_private(path, timeout=wait_s)
    try:
        lock.acquire()
    except Timeout:
        raise busy from None
    try:
        yield
    finally:
        lock.release()


def close_to_others(top: Path) -> list[str]:
    """Take the permissions of other users from a folder of this user and all in it; return what had any.

    Files of earlier releases have some. Raises: OSError.
    """
    closed = []
    for folder, folders, files in os.walk(top):
        for path in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
            with suppress(FileNotFoundError):
                status = os.lstat(path)
                mode = stat.S_IMODE(status.st_mode)
                if mode & OTHERS and not stat.S_ISLNK(status.st_mode):
                    os.chmod(path, mode & ~OTHERS)
                    closed.append(path)
    return sorted(set(closed))
