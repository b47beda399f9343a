"""Liveness of processes: each process with long-lasting work has a lock file, which the system frees when it dies.

    <home>/locks/alive-<name>.lock      locked as long as its process lives

Other processes see at once that a killed process is gone, where a time limit alone would make them wait. Cases that a
lock cannot detect need a lease: a stopped process, or one on another machine. Where a team shares reviews, the part of
a name after `@` identifies the machine and the folder of its process.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
from contextlib import suppress
from pathlib import Path

from context_engine.errors import ContextEngineError
from context_engine.storage.confined_folder import UnsafePathError
from context_engine.storage.locks import LockFile
from context_engine.storage.state_folder import StateFolder, translate_os_errors


class LivenessLock:
    """The liveness of one process (or of one Engine in it) under a unique name. Thread-safe."""

    def __init__(self, home: Path, name: str) -> None:
        """Nothing is created until it is shown."""
        self.name = name
        self._folder = StateFolder(home).folder("locks")
        self._lock = threading.Lock()
        self._held: LockFile | None = None

    def acquire(self) -> None:
        """Appear alive from now on until `release`. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        with self._lock:
            if self._held is not None:
                return
            self._folder.make()
            held = LockFile(self._folder, _file_name(self.name))
            with translate_os_errors(self._folder.path):
                held.acquire(0)
            self._held = held

    def release(self) -> None:
        """Appear dead. It can be acquired again."""
        with self._lock:
            if self._held is not None:
                self._remove_file(self._held, self.name)
                self._held = None

    def is_alive(self, name: str) -> bool:
        """Return whether the process of this name lives, as far as can be known; delete the file of a dead one."""
        if name == self.name:
            return self._held is not None
        if name.partition("@")[2] != self.name.partition("@")[2]:
            return bool(name)
        if not name:
            return False
        lock = LockFile(self._folder, _file_name(name))
        try:
            if not lock.acquire(0, create=False):
                return True
        except (FileNotFoundError, NotADirectoryError, UnsafePathError):  # what is no lock of ours shows nobody
            return False
        except OSError:  # it is there and closed to us: somebody else's, and so alive for all we know
            return True
        self._remove_file(lock, name)
        return False

    def _remove_file(self, lock: LockFile, name: str) -> None:
        """Delete the file of a lock that we have, and release it; Windows deletes only files that are not locked."""
        for let_go in (lock.release, lambda: None):
            with suppress(ContextEngineError):
                self._folder.remove(_file_name(name))
            let_go()


def _file_name(name: str) -> str:
    return f"alive-{name}.lock"


def home_id(home: Path) -> str:
    """Return a name for a home on this machine, which no home of another machine has."""
    return hashlib.blake2b(f"{platform.node()}\n{os.path.realpath(home)}".encode(), digest_size=6).hexdigest()
