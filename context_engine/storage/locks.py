"""Lock files, which the system frees when their process dies: one writer for a path at a time, and signs of life.

`PathLocks` admits one writer for a path among all threads and processes of this machine; paths share a fixed number of
files. `LivenessLock` shows that a process is alive. In a team the part of its name after `@` identifies the machine and
folder of the process. A lock cannot detect a stopped process, or one on another machine.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import time
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from context_engine.errors import ContextEngineError, StorageBusy
from context_engine.storage.confined_folder import UnsafePathError
from context_engine.storage.private_files import PRIVATE_FILE
from context_engine.storage.state_folder import StateFolder, translate_os_errors

LOCKS = 64
WAIT_S = 10.0
"""The longest plan takes a third of a second; a longer lock belongs to a process that is stopped in a debugger."""
POLL_S = 0.004
"""About the time of a small edit."""


class LockFile:
    """A file of the state folder that one process locks at a time. Not for two threads at once."""

    def __init__(self, folder: StateFolder, name: str) -> None:
        """Create nothing until it is acquired."""
        self._folder = folder
        self._name = name
        self._descriptor = -1

    def acquire(self, wait_s: float, *, create: bool = True) -> bool:
        """Acquire the lock; return False when another process has it for longer than `wait_s`.

        Raises: OSError, UnsafePathError.
        """
        until = time.monotonic() + wait_s
        while not self._try_lock(os.O_RDWR | (os.O_CREAT if create else 0)):
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        return True

    def release(self) -> None:
        """Release the lock, if this object has it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                unlock_descriptor(descriptor)  # a child that was just forked may still have it, too
            finally:
                os.close(descriptor)

    def _try_lock(self, flags: int) -> bool:
        descriptor = self._folder.open(self._name, flags, PRIVATE_FILE)
        try:
            # A file that was deleted between opening and locking guards nothing.
            if lock_descriptor(descriptor, blocking=False) and os.fstat(descriptor).st_nlink:
                self._descriptor = descriptor
                return True
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return False


class PathLocks:
    """The locks of one workspace, kept in `folder`. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Create nothing until a lock is acquired."""
        self._folder = StateFolder(folder.parent).folder(folder.name)
        self._here = [threading.Lock() for _ in range(LOCKS)]

    @contextmanager
    def hold(self, paths: Iterable[str], *, wait_s: float | None = None) -> Generator[None]:
        """Lock these paths, waiting for `wait_s` at most, WAIT_S by default.

        They are always locked in the same order, so that no callers wait for each other in a circle.

        Raises: StorageBusy, WriteFailed, DiskFull, StorageCorrupt.
        """
        wanted = sorted(set(paths))
        wait_s = WAIT_S if wait_s is None else wait_s
        with ExitStack() as stack:
            for number in sorted({_lock_number(path) for path in wanted}):
                if not self._here[number].acquire(timeout=wait_s):
                    raise _busy_error(wanted)
                stack.callback(self._here[number].release)
                stack.callback(self._acquire_file(number, wanted, wait_s).release)
            yield

    def _acquire_file(self, number: int, paths: list[str], wait_s: float) -> LockFile:
        """Acquire the lock among processes; only for the holder of the lock among threads."""
        lock = LockFile(self._folder, f"{number:02d}.lock")
        with translate_os_errors(self._folder.path):
            try:
                is_acquired = lock.acquire(wait_s)
            except FileNotFoundError:  # the first lock, or the folder was cleaned up
                self._folder.make()
                is_acquired = lock.acquire(wait_s)
        if not is_acquired:
            raise _busy_error(paths)
        return lock


def _lock_number(path: str) -> int:
    """Return the number of the lock for a path: the same for all spellings that any file system takes for one name."""
    plain = unicodedata.normalize("NFC", path).casefold()
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=2).digest()[0] % LOCKS


def _busy_error(paths: list[str]) -> StorageBusy:
    return StorageBusy(
        f"another call is editing {', '.join(paths[:3])}{' and more' * (len(paths) > 3)} right now",
        suggestion="Call again in a moment.",
        details={"paths": paths},
    )


class LivenessLock:
    """The liveness of one process (or of one Engine in it) under a unique name. Thread-safe."""

    def __init__(self, home: Path, name: str) -> None:
        """Create nothing until `acquire`."""
        self.name = name
        self._folder = StateFolder(home).folder("locks")
        self._lock = threading.Lock()
        self._own: LockFile | None = None

    def acquire(self) -> None:
        """Appear alive until `release`. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        with self._lock:
            if self._own is not None:
                return
            self._folder.make()
            lock = LockFile(self._folder, _file_name(self.name))
            with translate_os_errors(self._folder.path):
                lock.acquire(0)
            self._own = lock

    def release(self) -> None:
        """Appear dead. It can be acquired again."""
        with self._lock:
            if self._own is not None:
                self._remove_file(self._own, self.name)
                self._own = None

    def is_alive(self, name: str) -> bool:
        """Return whether the process of this name lives, as far as can be known; delete the file of a dead one."""
        if name == self.name:
            return self._own is not None
        if name.partition("@")[2] != self.name.partition("@")[2]:  # of another machine
            return bool(name)
        if not name:
            return False
        lock = LockFile(self._folder, _file_name(name))
        try:
            if not lock.acquire(0, create=False):
                return True
        except (FileNotFoundError, NotADirectoryError, UnsafePathError):  # not a lock of ours
            return False
        except OSError:  # it exists and is closed to this user, so its process may be alive
            return True
        self._remove_file(lock, name)
        return False

    def _remove_file(self, lock: LockFile, name: str) -> None:
        """Delete the file of an acquired lock, and release it; Windows deletes only files that are not locked."""
        for release in (lock.release, lambda: None):
            with suppress(ContextEngineError):
                self._folder.remove(_file_name(name))
            release()


def _file_name(name: str) -> str:
    return f"alive-{name}.lock"


def home_id(home: Path) -> str:
    """Return a name for a home on this machine, which no home of another machine has."""
    return hashlib.blake2b(f"{platform.node()}\n{os.path.realpath(home)}".encode(), digest_size=6).hexdigest()
