"""One writer for a path at a time, among the threads of this process and among all processes of this machine.

The locks are files that the system frees when their holder dies. Paths share a fixed number of them, so that no folder
fills up with locks; two paths that happen to share one wait for each other, some milliseconds at most.
"""

from __future__ import annotations

import hashlib
import threading
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from context_engine.errors import StorageBusy
from context_engine.store.state import make_folder, owned_like, told

LOCKS = 64
WAIT_S = 10.0
"""The longest plan takes a third of a second; who holds a lock for longer is stopped in a debugger."""
POLL_S = 0.004
"""About what a small edit takes."""


class PathLocks:
    """The locks of one workspace, kept in `folder`. Thread-safe. `wait_s`: how long a path that is held is waited for."""

    def __init__(self, folder: Path, *, wait_s: float = WAIT_S) -> None:
        """Nothing is created until a lock is taken."""
        self._folder = folder
        self._wait_s = wait_s
        self._here = [threading.Lock() for _ in range(LOCKS)]
        self._everywhere: dict[int, FileLock] = {}

    @contextmanager
    def held(self, paths: Iterable[str], *, wait_s: float | None = None) -> Generator[None]:
        """Hold these paths. They are always taken in the same order, so that nobody waits in a circle.

        Raises: StorageBusy, WriteFailed, DiskFull.
        """
        wanted = sorted(set(paths))
        wait_s = self._wait_s if wait_s is None else wait_s
        make_folder(self._folder.parent)
        with ExitStack() as stack:
            for number in sorted({_number(path) for path in wanted}):
                if not self._here[number].acquire(timeout=wait_s):
                    raise _busy(wanted)
                stack.callback(self._here[number].release)
                stack.callback(self._among_all(number, wanted, wait_s).release)
            yield

    def _among_all(self, number: int, paths: list[str], wait_s: float) -> FileLock:
        """Take the lock among processes; only asked for by who holds the one among threads."""
        with told(self._folder):
            if number not in self._everywhere:
                self._folder.mkdir(exist_ok=True)
                path = self._folder / f"{number:02d}.lock"
                path.touch()
                owned_like(self._folder.parent, path)
                self._everywhere[number] = FileLock(path, thread_local=False)
            try:
                self._everywhere[number].acquire(timeout=wait_s, poll_interval=POLL_S)
            except Timeout:
                raise _busy(paths) from None
            except FileNotFoundError:  # somebody cleaned the folder up, and the lock with it
                del self._everywhere[number]
                return self._among_all(number, paths, wait_s)
        return self._everywhere[number]


def _number(path: str) -> int:
    """Which lock guards a path: the same for all spellings that any file system takes for one name."""
    plain = unicodedata.normalize("NFC", path).casefold()
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=2).digest()[0] % LOCKS


def _busy(paths: list[str]) -> StorageBusy:
    return StorageBusy(
        f"somebody else is editing {', '.join(paths[:3])}{' and more' * (len(paths) > 3)} right now",
        suggestion="Call again in a moment.",
        details={"paths": paths},
    )
