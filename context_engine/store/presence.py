"""Who is alive: each process that works on something lasting shows itself by a lock that the system frees when it dies.

    <home>/locks/alive-<name>.lock      held for as long as its process lives

Others see at once that a killed process is gone, where a time limit alone would have them wait. What a lock cannot tell -
a process that was stopped and never goes on, one on another machine - a lease must. Where a team has reviews in common a name says
behind an `@` on which machine, and in which folder, its process is.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from context_engine.store.state import make_folder, owned_like, told


class Presence:
    """The presence of one process (or of one Engine in it) under a name that nobody else has. Thread-safe."""

    def __init__(self, home: Path, name: str) -> None:
        """Nothing is created until it is shown."""
        self.name = name
        self._folder = home / "locks"
        self._lock = threading.Lock()
        self._held: FileLock | None = None

    def show(self) -> None:
        """Be seen from now on until `end`. Raises: WriteFailed, DiskFull."""
        with self._lock:
            if self._held is not None:
                return
            make_folder(self._folder.parent)
            with told(self._folder):
                self._folder.mkdir(exist_ok=True)
                path = self._path(self.name)
                path.touch()
                owned_like(self._folder.parent, path)
                held = FileLock(path, thread_local=False)
                held.acquire(timeout=0)
                self._held = held

    def end(self) -> None:
        """Be gone. It can be shown again."""
        with self._lock:
            if self._held is not None:
                self._held = _left(self._held, self._path(self.name))

    def is_alive(self, name: str) -> bool:
        """Whether whoever goes by this name is still there, as far as can be known; what a dead one left is cleaned away."""
        if name == self.name:
            return self._held is not None
        if name.partition("@")[2] != self.name.partition("@")[2]:
            return bool(name)
        path = self._path(name)
        if not name or not path.exists():
            return False
        lock = FileLock(path, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        except OSError:  # it is there and closed to us: somebody else's, and so alive for all we know
            return True
        _left(lock, path)
        return False

    def _path(self, name: str) -> Path:
        return self._folder / f"alive-{name}.lock"


def place(home: Path) -> str:
    """A name for a home on this machine, which no home of another machine has."""
    return hashlib.blake2b(f"{platform.node()}\n{os.path.realpath(home)}".encode(), digest_size=6).hexdigest()


def _left(lock: FileLock, path: Path) -> None:
    """Delete the file of a lock that is held, and let go of it; Windows deletes only what nobody holds."""
    for let_go in (lock.release, lambda: None):
        with suppress(OSError):
            path.unlink(missing_ok=True)
        let_go()
