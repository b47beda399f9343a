"""Reports which paths changed, in batches: everything of one burst of edits at once, when it has become quiet.

Only folders that the walk enters are watched, so a build that fills an ignored folder stays unheard. What changes
before `is_running` is true, and what the system drops when its queue overflows, is not reported: callers sweep for it.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable
from pathlib import Path

from context_engine.errors import ContextEngineError
from context_engine.repo.git import Git
from context_engine.repo.ignore_rules import IGNORE_FILES
from context_engine.repo.walker import NEVER, walk

QUIET_MS = 500
"""An editor's save is several events within some 10 ms, a formatter's run over many files has gaps of 100 to 300."""
BATCH_S_MAX = 5.0
"""A build that never pauses must not delay edits for ever."""
STEP_MS = 50
"""How often the system's events are looked at; stopping takes at most one step."""
FEW = 4
"""So many watchers of a process look that often; more share these looks, for each makes whoever answers wait (decision
0044)."""
NAME = "ctx-watcher"
START_WAIT_S = 1.0
STOP_WAIT_S = 0.9
REST_FACTOR = 10
"""Registering new folders may take a tenth of the time, no more: a checkout makes hundreds of them."""

HEAD = ".git/HEAD"
"""How a change of branch is reported, wherever the repository keeps its HEAD."""

NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs afs ceph 9p drvfs vboxsf davfs fuse.sshfs fuse.s3fs fuse.gcsfuse fuse.rclone "
    "fuse.glusterfs fuse.davfs2 fuse.vmhgfs-fuse".split()
)
"""What other machines change there, the local kernel does not report."""

Events = Generator[Collection[tuple[object, str]], None, None]
"""What `watchfiles` yields: one set of (kind, absolute path) a step, empty when nothing happened."""


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


class Watcher:
    """Watches one root in a thread of its own and calls `on_batch`, there, with relative POSIX paths.

    A batch holds files and folders that were made, changed, renamed (both names) or deleted; of a deleted folder
    perhaps only its own path. `problem` is empty, or says in a sentence why nothing is watched any more.
    """

    QUIET_MS = QUIET_MS

    def __init__(
        self, root: str | Path, on_batch: Callable[[frozenset[str]], None], *, quiet_ms: int = QUIET_MS
    ) -> None:
        self.problem = ""
        self._root = os.path.realpath(root)
        self._on_batch = on_batch
        self._quiet_s = quiet_ms / 1_000
        self._run: _WatchThread | None = None

    def start(self) -> None:
        """Begin to watch. Returns when it runs or has failed; on a very large tree before that: see `is_running`."""
        if self._run is not None and self._run.thread.is_alive():
            return
        self.problem = _why_deaf(self._root)
        if not self.problem:
            run = self._run = _WatchThread(self, self._root, self._on_batch, self._quiet_s)
            run.thread.start()
            run.settled.wait(START_WAIT_S)  # by a name of its own: `stop` may come meanwhile

    def stop(self) -> None:
        """End within a second; what was not handed over yet is dropped. A receiver at work is not interrupted."""
        run, self._run = self._run, None
        if run is not None:
            run.stopping.set()
            if run.thread is not threading.current_thread():
                run.thread.join(STOP_WAIT_S)

    @property
    def is_running(self) -> bool:
        """Whether every change is being noticed right now."""
        run = self._run
        return run is not None and run.is_listening and run.thread.is_alive()

    @property
    def pending(self) -> frozenset[str]:
        """Paths that have changed and were not reported yet, because it is not quiet."""
        run = self._run
        if run is not None:
            return run.batch.paths
        return frozenset()


def rest_s(watchers: int) -> float:
    """Return how long each of so many watchers waits between two looks; the system keeps the events meanwhile.

    >>> rest_s(1), rest_s(4), rest_s(8), rest_s(50)
    (0.0, 0.0, 0.05, 0.575)
    """
    return max(0.0, watchers / FEW - 1) * STEP_MS / 1_000


class _StoppedEarly(Exception):  # noqa: N818 - it ends the thread, it is not an error
    """The watcher was stopped in the middle of something."""


class _WatchThread:
    """One thread's time between `start` and `stop`."""

    def __init__(self, owner: Watcher, root: str, on_batch: Callable[[frozenset[str]], None], quiet_s: float) -> None:
        self._owner = owner
        self._root = root
        self._prefix = root.rstrip(os.sep) + os.sep
        self._on_batch = on_batch
        self._git_dir = ""
        self._folders: set[str] = set()
        self._unheard: set[str] = set()  # new folders that are not registered yet
        self._rests_until = 0.0
        self.batch = Batch(quiet_s=quiet_s, longest_s=BATCH_S_MAX)
        self.is_listening = False
        self.settled = threading.Event()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._follow, name=NAME, daemon=True)

    def _follow(self) -> None:
        try:
            self._listen()
        except _StoppedEarly:
            return
        except Exception as error:  # noqa: BLE001 - a thread has no caller; `problem` has the error
            self._owner.problem = _in_words(error)
        finally:
            self.is_listening = False
            self.settled.set()

    def _listen(self) -> None:
        events = self._register({""}, None)
        self.is_listening = True
        self.settled.set()
        while (changes := next(events, None)) is not None:  # the events end when `stopping` is set
            self._take(changes)
            now = time.monotonic()
            due = self.batch.is_due(now)
            if self._unheard and (due or now >= self._rests_until):
                news, self._unheard = self._unheard, set()
                events = self._register(news, events)
            if due:
                self._check()
                self._on_batch(self.batch.take())
            elif not changes:
                self.stopping.wait(rest_s(sum(thread.name == NAME for thread in threading.enumerate())))

    def _check(self) -> None:
        if self.stopping.is_set():
            raise _StoppedEarly

    # -- which folders --

    def _register(self, news: set[str], events: Events | None) -> Events:
        """Watch these folders too. The old watch ends only when the new one runs, so that no change is lost."""
        began = time.monotonic()
        self._survey(news)
        wider = self._open(events)
        if events is not None and wider is not events:
            self._take(next(events, ()))
            events.close()
        known = set(self._folders)
        self._survey(news)  # what was made while the new watch was being opened
        self._unheard |= self._folders - known
        ended = time.monotonic()
        self._rests_until = ended + (ended - began) * REST_FACTOR
        return wider

    def _survey(self, news: set[str]) -> None:
        """Find the folders that the walk enters; files in new ones count as changed. "" stands for all folders."""
        if "" in news:
            self._folders |= set(walk(self._root, check=self._check).folders)
            git_dir = Git(self._root).git_dir()
            self._git_dir = str(git_dir) if git_dir else ""
            return
        for folder in sorted(news):
            if os.path.isdir(self._absolute(folder)):
                seen = walk(self._root, under=folder, check=self._check)
                self._folders |= set(seen.folders)
                self.batch.add((str(entry.path) for entry in seen.entries), time.monotonic())

    def _open(self, events: Events | None) -> Events:
        """Register the folders with the system. Events count from when this returns."""
        from watchfiles import watch  # its 70 ms are only spent where a workspace is watched

        one_by_one = sys.platform == "linux"  # there a recursive watch follows links and enters ignored folders
        if events is not None and not one_by_one:
            return events
        self._folders = {folder for folder in self._folders if os.path.isdir(self._absolute(folder))}
        if "" not in self._folders:
            raise FileNotFoundError(self._root) if not os.path.isdir(self._root) else OSError("it cannot be listed")
        if one_by_one:
            paths = [self._absolute(folder) for folder in self._folders]
        else:
            paths = [self._root]
        opened = watch(
            *paths,
            *([self._git_dir] if os.path.isdir(self._git_dir) else []),
            watch_filter=None,
            debounce=STEP_MS,
            step=STEP_MS,
            stop_event=self.stopping,
            rust_timeout=STEP_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=False,  # sweeps before an answer are the cheaper way to poll
            recursive=not one_by_one,
            ignore_permission_denied=True,
        )
        self._take(next(opened, ()))
        return opened

    # -- what is heard --

    def _take(self, changes: Collection[tuple[object, str]]) -> None:
        """Sort out the events of one look."""
        paths = [heard for _, path in changes if (heard := self._relative_path(path))]
        if changes and not os.path.isdir(self._root):
            raise FileNotFoundError(self._root)
        for path in paths:
            if path.rpartition("/")[2] in IGNORE_FILES or (path == HEAD and not self._git_dir):
                self._unheard.add("")  # other rules, other folders
            elif os.path.isdir(absolute := self._absolute(path)) and not os.path.islink(absolute):
                self._unheard.add(path)
        self.batch.add(paths, time.monotonic())

    def _relative_path(self, path: str) -> str:
        """Return the path as it is reported, relative to the root; empty for one that does not matter."""
        folder, name = os.path.split(path)
        if self._git_dir and folder == self._git_dir:
            if name == "HEAD":
                return HEAD
            return ""
        if path == f"{self._prefix}.git":
            if not self._git_dir:
                return HEAD
            return ""
        if name in NEVER:
            return ""
        if folder == self._root:
            return name
        if not folder.startswith(self._prefix):
            return ""
        rel = folder[len(self._prefix) :].replace(os.sep, "/")
        if rel in self._folders:
            return f"{rel}/{name}"
        return ""

    def _absolute(self, rel: str) -> str:
        if rel:
            return os.path.join(self._prefix, *rel.split("/"))
        return self._root


def _why_deaf(root: str) -> str:
    """Return why the system would not report every change below this folder; empty when it would."""
    if not os.path.isdir(root):
        return f"Edits are not followed: there is no folder {root}."
    kind = _file_system(root)
    if kind in NETWORK_FILE_SYSTEMS:
        return f"Edits are not followed: on a network file system ({kind}) changes by other machines are not reported."
    return ""


def _file_system(path: str) -> str:
    """Return the type of the file system of a real path; empty where it is unknown."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            rows = [line.split(" ") for line in mounts]
    except OSError:  # only Linux has this list
        return ""
    best = ("", "")
    for _, place, kind, *_ in rows:
        folder = place.replace("\\040", " ").rstrip("/")
        if f"{path}/".startswith(f"{folder}/") and len(folder) >= len(best[0]):
            best = (folder, kind)
    return best[1]


def _in_words(error: Exception) -> str:
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return "Edits are no longer followed: the folder is gone."
    if "watch limit" in text or "os error 28" in text:
        return (
            "Edits are not followed: this system watches too few folders at once; "
            "raise fs.inotify.max_user_watches to 524288."
        )
    if "os error 24" in text or os.strerror(errno.EMFILE) in text:
        return "Edits are not followed: too many open files or watchers; raise fs.inotify.max_user_instances."
    if isinstance(error, ContextEngineError):
        return f"Edits are not followed: {error.message}"
    return f"Edits are not followed: {type(error).__name__}: {text}"
