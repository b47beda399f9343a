"""One writer for a path at a time, among the threads of this process and among all processes of this machine.

The locks are files that the system frees when their holder dies. Paths share a fixed number of them, so that no folder
fills up with locks. Two paths that happen to share one wait for each other, some milliseconds at most.

"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from context_engine.errors import StorageBusy
from context_engine.storage.state_folder import StateFolder, translate_os_errors

LOCKS = 64
WAIT_S = 10.0
"""The longest plan takes a third of a second; a lock that is held longer belongs to a process stopped in a debugger."""
POLL_S = 0.004
"""About the time of a small edit."""


class LockFile:
    """A file of the state folder that one process locks at a time. Not for two threads at once."""

    def __init__(self, folder: StateFolder, name: str) -> None:
        """Nothing is created until it is acquired."""
        self._folder = folder
        self._name = name
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        """Whether this object has the lock."""
        return self._descriptor >= 0

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
        descriptor = self._folder.open(self._name, flags)
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
    """The locks of one workspace, kept in `folder`. Thread-safe. `wait_s`: how long to wait for a path in use."""

    def __init__(self, folder: Path, *, wait_s: float = WAIT_S) -> None:
        """Nothing is created until a lock is taken."""
        self._folder = StateFolder(folder.parent).folder(folder.name)
        self._wait_s = wait_s
        self._here = [threading.Lock() for _ in range(LOCKS)]

    @contextmanager
    def hold(self, paths: Iterable[str], *, wait_s: float | None = None) -> Generator[None]:
        """Lock these paths.

        They are always locked in the same order, so that no callers wait for each other in a circle.

        Raises: StorageBusy, WriteFailed, DiskFull, StorageCorrupt.
        """
        wanted = sorted(set(paths))
        wait_s = self._wait_s if wait_s is None else wait_s
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
                taken = lock.acquire(wait_s)
            except FileNotFoundError:  # the first one; or somebody cleaned the folder up
                self._folder.make()
                taken = lock.acquire(wait_s)
        if not taken:
            raise _busy_error(paths)
        return lock


def _lock_number(path: str) -> int:
    """Return the number of the lock for a path: the same for all spellings that any file system takes for one name."""
    plain = unicodedata.normalize("NFC", path).casefold()
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=2).digest()[0] % LOCKS


def _busy_error(paths: list[str]) -> StorageBusy:
    return StorageBusy(
        f"somebody else is editing {', '.join(paths[:3])}{' and more' * (len(paths) > 3)} right now",
        suggestion="Call again in a moment.",
        details={"paths": paths},
    )
