"""Changes in folders as the Linux kernel queues them: what was written before a `read` is in it, without waiting."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

EVENT = struct.Struct("iIII")
"""Watch, mask, cookie and length of the name that follows (inotify(7))."""
READ_BYTES = 1 << 16
MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
QUEUE_OVERFLOW, IGNORED, IS_FOLDER = 0x4000, 0x8000, 0x40000000
ONLY_FOLDERS, DONT_FOLLOW, EXCLUDE_UNLINKED = 0x1000000, 0x2000000, 0x4000000
CHANGES = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
MASK = CHANGES | ONLY_FOLDERS | DONT_FOLLOW | EXCLUDE_UNLINKED


class Inotify:
    """Watches folders, each without what is below it. `wake` may be called by any thread, the rest by one at a time."""

    is_exact = True
    """Whether `read` returns every change that was made before."""

    def __init__(self) -> None:
        """Open a queue of changes. Raises: OSError when the user has too many instances or open files."""
        self._descriptor = _check(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._folders: dict[int, str] = {}
        self._poll = select.poll()
        for descriptor in (self._descriptor, self._woken):
            self._poll.register(descriptor, select.POLLIN)

    def add(self, folder: str) -> None:
        """Watch a folder from now on; one that is gone is ignored. Raises: OSError without watches left."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            watch = _check(_libc().inotify_add_watch(self._descriptor, os.fsencode(folder), MASK))
            self._folders[watch] = folder

    def wait(self, timeout_s: float | None) -> None:
        """Wait for a change or `wake`."""
        self._poll.poll(None if timeout_s is None else timeout_s * 1_000)
        with suppress(BlockingIOError):
            os.eventfd_read(self._woken)

    def wake(self) -> None:
        """End a `wait`."""
        os.eventfd_write(self._woken, 1)

    def read(self) -> set[str]:
        """Return the absolute paths that changed since the last time; "" when the kernel has dropped some."""
        paths: set[str] = set()
        with suppress(BlockingIOError):
            while True:
                for watch, mask, name in _parse_events(os.read(self._descriptor, READ_BYTES)):
                    paths |= self._take_event(watch, mask, name)
        return paths

    def close(self) -> None:
        """Stop watching."""
        for descriptor in (self._descriptor, self._woken):
            os.close(descriptor)

    def _take_event(self, watch: int, mask: int, name: str) -> set[str]:
        if mask & QUEUE_OVERFLOW:
            return {""}
        if mask & IGNORED:
            self._folders.pop(watch, None)
            return set()
        folder = self._folders.get(watch)
        if folder is None:
            return set()
        path = os.path.join(folder, name) if name else folder
        if mask & MOVED_FROM and mask & IS_FOLDER:
            self._forget_below(path)
        return {path}

    def _forget_below(self, path: str) -> None:
        """Stop watching a folder that has another name now; under the new name it is added again."""
        for watch, folder in list(self._folders.items()):
            if folder == path or folder.startswith(f"{path}/"):
                del self._folders[watch]
                _libc().inotify_rm_watch(self._descriptor, watch)


def _parse_events(data: bytes) -> Iterator[tuple[int, int, str]]:
    start = 0
    while start < len(data):
        watch, mask, _, length = EVENT.unpack_from(data, start)
        start += EVENT.size
        yield watch, mask, os.fsdecode(data[start : start + length].rstrip(b"\0"))
        start += length


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
