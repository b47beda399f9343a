"""Reports which paths changed, in batches: everything of one burst of edits at once, when it has become quiet.

Only folders that the walk enters are watched. What changes before `is_running` is true is not reported: callers scan
for it. On Linux `pending` holds every change made before it is asked; elsewhere that takes some 0.1 s.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from context_engine.errors import ContextEngineError
from context_engine.repo.git import Git
from context_engine.repo.ignore_rules import IGNORE_FILES
from context_engine.repo.paths import is_under
from context_engine.repo.walker import NEVER, walk
from context_engine.storage import UNREPORTED_FILE_SYSTEMS, find_network_drive

QUIET_MS = 500
"""An editor's save is several events within some 10 ms, a formatter's run over many files has gaps of 100 to 300."""
BATCH_S_MAX = 5.0
"""A build that never pauses must not delay edits for ever."""
STEP_MS = 50
"""How often a batch that waits for quiet is looked at, and the events of other systems than Linux."""
START_WAIT_S = 1.0
STOP_WAIT_S = 0.9
HEAD = ".git/HEAD"
"""How a change of branch is reported, wherever the repository keeps its HEAD."""


EVENT = struct.Struct("iIII")
"""Watch, mask, cookie and length of the name that follows (inotify(7))."""
READ_BYTES = 1 << 16
MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
QUEUE_OVERFLOW, IGNORED, IS_FOLDER = 0x4000, 0x8000, 0x40000000
ONLY_FOLDERS, DONT_FOLLOW, EXCLUDE_UNLINKED = 0x1000000, 0x2000000, 0x4000000
CHANGES = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
MASK = CHANGES | ONLY_FOLDERS | DONT_FOLLOW | EXCLUDE_UNLINKED


class Batch:
    """The paths of one burst. Pure: the time is passed in.

    >>> burst = Batch(quiet_s=0.5, longest_s=5)
    >>> burst.add({"a.py"}, now=10.0)
    >>> burst.is_due(10.4), burst.is_due(10.5), sorted(burst.take()), burst.is_due(99.0)
    (False, True, ['a.py'], False)
    """

    def __init__(self, *, quiet_s: float, longest_s: float) -> None:
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._first = self._last = 0.0
        self.paths: frozenset[str] = frozenset()

    def add(self, paths: Iterable[str], now: float) -> None:
        """Add some paths that changed just now; without any, nothing changes."""
        new = frozenset(paths)
        if new:
            self._first = self._first if self.paths else now
            self._last = now
            self.paths |= new

    def is_due(self, now: float) -> bool:
        """Return whether it has been quiet long enough, or noisy too long."""
        return bool(self.paths) and (now - self._last >= self._quiet_s or now - self._first >= self._longest_s)

    def take(self) -> frozenset[str]:
        """Return the paths so far, and empty the batch."""
        taken, self.paths = self.paths, frozenset()
        return taken


def changes_rules(paths: Collection[str]) -> bool:
    """Return whether changed paths include other ignore rules or another branch, so that only a walk is right again."""
    return HEAD in paths or any(path.rpartition("/")[2] in IGNORE_FILES for path in paths)


class Inotify:
    """Changes in folders, each without what is below it, as the Linux kernel queues them.

    What was written before a `read` is in it, without waiting. `wake` may be called by any thread, the rest by one at a
    time.
    """

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


class RecursiveListener:
    """The changes below a root, as macOS and Windows report them some 0.1 s later. Used by one thread at a time."""

    is_exact = False

    def __init__(self, *folders: str) -> None:
        from watchfiles import watch  # its 70 ms are only spent where a workspace is watched

        self._stopping = threading.Event()
        self._heard: set[str] = set()
        self._events = watch(
            *folders,
            watch_filter=None,
            debounce=STEP_MS,
            step=STEP_MS,
            stop_event=self._stopping,
            rust_timeout=STEP_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=False,  # scans before an answer are the cheaper way to poll
            ignore_permission_denied=True,
        )
        self.wait(None)

    def add(self, folder: str) -> None:
        """Do nothing: what is below the root is watched."""

    def wait(self, timeout_s: float | None) -> None:  # noqa: ARG002 - a look takes `STEP_MS`
        """Wait for a change, as long as one look takes."""
        self._heard |= {path for _, path in next(self._events, ())}

    def wake(self) -> None:
        """End the watch."""
        self._stopping.set()

    def read(self) -> set[str]:
        """Return the absolute paths that changed since the last time."""
        heard, self._heard = self._heard, set()
        return heard

    def close(self) -> None:
        """Stop watching."""
        self._events.close()


class _StoppedEarly(Exception):  # noqa: N818 - it ends the thread, it is not an error
    """The watcher was stopped in the middle of something."""


Listener = Inotify | RecursiveListener


class Watcher:
    """Watches one root in a thread of its own and calls `on_batch`, there, with relative POSIX paths.

    A batch holds files and folders that were made, changed, renamed (both names) or deleted; of a deleted folder
    perhaps only its own path. `problem` is empty, or says in a sentence why nothing is watched any more. Events are
    sorted out by the thread, and by callers of `pending`.
    """

    QUIET_MS = QUIET_MS

    def __init__(
        self, root: str | Path, on_batch: Callable[[frozenset[str]], None], *, quiet_ms: int = QUIET_MS
    ) -> None:
        self.problem = ""
        self._root = os.path.realpath(root)
        self._prefix = self._root.rstrip(os.sep) + os.sep
        self._on_batch = on_batch
        self._git_dir = ""
        self._folders: set[str] = set()
        self._has_other_rules = False
        self._batch = Batch(quiet_s=quiet_ms / 1_000, longest_s=BATCH_S_MAX)
        self._reporting: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._settled = threading.Event()
        self._is_listening = False
        self._listener: Listener | None = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name="ctx-watcher", daemon=True)

    def start(self) -> None:
        """Begin to watch, once. Returns when it runs or has failed; on a very large tree before: see `is_running`."""
        if self._thread.ident or self._stopping.is_set():
            return
        self.problem = _why_deaf(self._root)
        if not self.problem:
            self._thread.start()
            self._settled.wait(START_WAIT_S)

    def stop(self) -> None:
        """End within a second; what was not handed over yet is dropped. A receiver at work is not interrupted."""
        self._stopping.set()
        with self._lock:
            if self._listener:
                self._listener.wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(STOP_WAIT_S)

    @property
    def is_running(self) -> bool:
        """Whether every change is being noticed right now."""
        return self._is_listening and self._thread.is_alive() and not self._stopping.is_set()

    @property
    def is_exact(self) -> bool:
        """Whether it runs and `pending` holds every change that was made before it was asked, as on Linux."""
        return self.is_running and self._listener is not None and self._listener.is_exact

    @property
    def pending(self) -> frozenset[str]:
        """Paths that have changed and were not reported yet, because it is not quiet."""
        with self._lock:
            if self.is_exact and self._listener:
                known = self._batch.paths
                try:
                    self._take_events(self._listener)
                except Exception as error:  # noqa: BLE001 - it is the thread's, which ends by it
                    self._failure = error
                if self._failure or self._batch.paths is not known:
                    self._listener.wake()
            return self._batch.paths | self._reporting

    # -- the thread --

    def _follow(self) -> None:
        try:
            self._listen()
        except _StoppedEarly:
            return
        except Exception as error:  # noqa: BLE001 - a thread has no caller; `problem` has the error
            self.problem = _in_words(error)
        finally:
            with self._lock:
                self._is_listening = False
                if self._listener:
                    self._listener.close()
                    self._listener = None
            self._settled.set()

    def _listen(self) -> None:
        if sys.platform == "linux":  # there a recursive watch follows links and enters ignored folders
            listener = self._listener = Inotify()
        else:
            listener = self._listener = RecursiveListener(self._root, *filter(None, [self._find_git_dir()]))
        self._enter_all(listener)
        self._is_listening = True
        self._settled.set()
        wait_s: float | None = None
        while True:
            listener.wait(wait_s)
            self._check()
            with self._lock:
                self._take_events(listener)
                is_due = self._batch.is_due(time.monotonic())
                paths = self._reporting = self._batch.take() if is_due else frozenset()
                wait_s = STEP_MS / 1_000 if self._batch.paths else None
            if self._has_other_rules or self._opens_folders(paths):  # at once, and when git has made its files
                self._enter_all(listener)
            if paths:
                self._on_batch(paths)
                self._reporting = frozenset()

    def _check(self) -> None:
        if self._stopping.is_set():
            raise _StoppedEarly
        if self._failure:
            raise self._failure

    # -- which folders --

    def _enter_all(self, listener: Listener) -> None:
        self._has_other_rules = False
        if self._find_git_dir():
            listener.add(self._git_dir)
        is_new = True
        while is_new:  # once more for folders that were made before they could be watched
            seen = walk(self._root, check=self._check)
            with self._lock:
                is_new = self._watch_folders(listener, seen.folders)

    def _find_git_dir(self) -> str:
        found = Git(self._root).repository
        self._git_dir = found.git_dir if found and os.path.isdir(found.git_dir) else ""
        return self._git_dir

    def _enter(self, listener: Listener, folder: str) -> None:
        """Watch a new folder and those below it; the files in them count as changed."""
        is_new = True
        while is_new:
            seen = walk(self._root, [folder], check=self._check)
            self._batch.add((str(entry.path) for entry in seen.entries), time.monotonic())
            is_new = self._watch_folders(listener, seen.folders)

    def _watch_folders(self, listener: Listener, folders: Iterable[str]) -> bool:
        """Watch folders; return whether one of them was not watched yet."""
        new = [folder for folder in folders if folder not in self._folders]
        for folder in new:
            listener.add(self._absolute(folder))
        self._folders.update(new)
        return bool(new)

    # -- what is heard --

    def _take_events(self, listener: Listener) -> None:
        """Sort out what was heard; new folders are watched at once, other rules by the thread."""
        changes = listener.read()
        if changes and not os.path.isdir(self._root):
            raise FileNotFoundError(self._root)
        if "" in changes:  # events were dropped: as after a change of branch, only a walk is right
            paths = [HEAD]
        else:
            paths = [heard for path in changes if (heard := self._relative_path(path))]
        self._batch.add(paths, time.monotonic())
        self._has_other_rules |= "" in changes or self._opens_folders(paths)
        folders = [path for path in paths if path in self._folders or self._is_folder(path)]
        for folder in folders:
            self._folders = {known for known in self._folders if not is_under(known, folder)}
        for folder in filter(self._is_folder, folders):
            self._enter(listener, folder)

    def _opens_folders(self, paths: Collection[str]) -> bool:
        """Return whether after these changes the walk may enter other folders, or there is a repository."""
        is_new_repository = HEAD in paths and not self._git_dir
        return is_new_repository or any(path.rpartition("/")[2] in IGNORE_FILES for path in paths)

    def _is_folder(self, path: str) -> bool:
        absolute = self._absolute(path)
        return os.path.isdir(absolute) and not os.path.islink(absolute)

    def _relative_path(self, path: str) -> str:
        """Return the path as it is reported, relative to the root; empty for one that does not matter."""
        folder, name = os.path.split(path)
        if self._git_dir and folder == self._git_dir:
            return HEAD if name == "HEAD" else ""
        if path == f"{self._prefix}.git" and not self._git_dir:
            return HEAD
        if name in NEVER:
            return ""
        if folder == self._root:
            return name
        rel = folder.removeprefix(self._prefix).replace(os.sep, "/")
        return f"{rel}/{name}" if folder.startswith(self._prefix) and rel in self._folders else ""

    def _absolute(self, rel: str) -> str:
        return os.path.join(self._prefix, *rel.split("/")) if rel else self._root


def _why_deaf(root: str) -> str:
    """Return why the system would not report every change below this folder; empty when it would."""
    if not os.path.isdir(root):
        return f"Edits are not followed: there is no folder {root}."
    if kind := find_network_drive(root, UNREPORTED_FILE_SYSTEMS):
        return f"Edits are not followed: on a network file system ({kind}) changes by other machines are not reported."
    return ""


def _in_words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "Edits are no longer followed: the folder is gone."
    number = error.errno if isinstance(error, OSError) else 0
    if number == errno.ENOSPC:
        limit = "raise fs.inotify.max_user_watches to 524288."
        return f"Edits are not followed: this system watches too few folders at once; {limit}"
    if number == errno.EMFILE:
        return "Edits are not followed: too many open files or watchers; raise fs.inotify.max_user_instances."
    if isinstance(error, ContextEngineError):
        return f"Edits are not followed: {error.message}"
    return f"Edits are not followed: {type(error).__name__}: {error}"
