"""Which files a text search looks at: what the walk finds, of any size, without those whose first bytes are no text.

A listing is kept as long as it is true. While a watcher runs, what it hears is looked at again, path by path; without
one the files are swept when the listing is older than it may be, and walked only when names came or went.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from context_engine.errors import ContextEngineError
from context_engine.model import Skipped
from context_engine.repo import file_reader
from context_engine.repo.walker import Walk, WalkedFile, scan, walk_paths
from context_engine.repo.watch import changes_rules
from context_engine.storage import ConfinedFolder

ANY_SIZE = 1 << 62
"""A search reads what nobody would index: generated files, long logs, minified bundles."""
WATCHED_REST_S = 30.0
"""A watcher loses events when its queue overflows: a sweep now and then finds what it missed."""
ANEW_PATHS = 200
"""When more than this changed (a branch switch), walking is quicker than looking at each."""
SETTLED_NS = 1_000_000_000
"""A file changed again within one tick of the file system's clock looks the same: after a second that cannot be."""


class WorkspaceWatcher(Protocol):
    """A watcher of the workspace: whether it notices everything, and what it has not reported yet."""

    @property
    def is_running(self) -> bool:
        """False when it stopped or never could run."""
        ...

    @property
    def pending(self) -> frozenset[str]:
        """Paths seen to change, still waiting for a quiet moment."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FileListing:
    """The files to search, sorted by path, and what the walk left out: `counts` by reason, `skipped` as of `Walk`."""

    files: tuple[WalkedFile, ...]
    folders: Mapping[str, int]
    skipped: tuple[Skipped, ...]
    counts: Mapping[str, int]
    is_settled: bool
    """Whether every change since must show in a file's time or size."""


class FileLister:
    """Keeps the listing of one root. Thread-safe. `stale_s`: how old it may be when nothing is watched."""

    def __init__(
        self, root: str | os.PathLike[str], *, stale_s: float, excludes_file: Callable[[], str | None] = lambda: None
    ) -> None:
        self._root = os.path.realpath(root)
        self._confined = ConfinedFolder(self._root)
        self._stale_s = stale_s
        self._find_excludes = excludes_file
        self._excludes_file: str | None = None
        self._lock = threading.Lock()
        self._heard_lock = threading.Lock()
        self._heard: set[str] = set()
        self._watcher: WorkspaceWatcher | None = None
        self._was_watched = False
        self._looked_at = 0.0
        self._walk: Walk | None = None
        self._verdicts: dict[WalkedFile, tuple[str, str] | None] = {}
        self._listing: FileListing | None = None

    def follow(self, watcher: WorkspaceWatcher) -> None:
        """Rely on a watcher as long as it runs; it reports through `note`."""
        self._watcher = watcher

    @property
    def is_followed(self) -> bool:
        """Whether a watcher reports edits, as in a process that lives long."""
        return self._watcher is not None and self._watcher.is_running

    def read_settled(self, files: Iterable[WalkedFile], *, bytes_max: int) -> Iterator[tuple[WalkedFile, bytes | None]]:
        """Yield files with their content, without those that are not as listed, or could change and look the same.

        None is the content of a file that is longer than `bytes_max`, or cannot be read.
        """
        with file_reader.open_root(self._confined) as top:
            for file in files:
                if file.mtime_ns >= time.time_ns() - SETTLED_NS:
                    continue
                try:
                    data, status = file_reader.contents_in(top, file.path, file.path, bytes_max=bytes_max)
                except ContextEngineError:
                    yield file, None
                    continue
                if (len(data), status.st_size, status.st_mtime_ns) == (file.size, file.size, file.mtime_ns):
                    yield file, data

    def note(self, paths: Iterable[str]) -> None:
        """Remember that these paths changed, appeared or vanished."""
        with self._heard_lock:
            self._heard.update(paths)

    def listing(self, check: Callable[[], None] = lambda: None) -> FileListing:
        """Return the files as they are now; `check` may stop a long walk by raising.

        Raises: FileNotFound, AccessFailed when the root is gone or closed.
        """
        with self._lock:
            is_watched = self._watcher is not None and self._watcher.is_running
            heard = self._take_heard()
            now = time.monotonic()
            if is_watched and self._was_watched:
                rest_s = WATCHED_REST_S
            else:
                rest_s = 0.0 if is_watched else self._stale_s
            try:
                if self._walk is None or _changes_all(heard):
                    self._begin(now, check)
                elif now - self._looked_at >= rest_s:
                    self._sweep(now, check)
                elif heard:
                    self._look_again(heard, check)
            except BaseException:
                self._walk = None  # what was heard is lost: the next call walks
                raise
            self._was_watched = is_watched
            assert self._listing  # the first call walks
            return self._listing

    def is_unchanged(self, listing: FileListing, paths: Iterable[WalkedFile], under: str) -> bool:
        """Return whether these files of a listing, and the names in the folders below `under`, are unchanged."""
        inside = f"{under}/" if under else ""
        folders = {path: at for path, at in listing.folders.items() if f"{path}/".startswith(inside)}
        sizes = {str(path): (size, mtime_ns) for path, size, mtime_ns in paths}
        return listing.is_settled and scan(self._root, sizes, folders).is_clean

    def why_not(self, path: str) -> Skipped | None:
        """Return why a file or folder that exists is not in the listing; None when nothing excludes it."""
        seen = walk_paths(self._root, [path], bytes_max=ANY_SIZE, excludes_file=self._excludes())
        return next(
            (skipped for skipped in seen.skipped if skipped.path == path or path.startswith(f"{skipped.path}/")), None
        )

    def _take_heard(self) -> set[str]:
        """Return what was reported since the last time, with what the watcher still delays."""
        pending = frozenset()
        if self._watcher is not None:
            pending = self._watcher.pending
        with self._heard_lock:
            heard, self._heard = self._heard, set()
        return heard | pending

    def _excludes(self) -> str | None:
        """Return git's own list of what to ignore everywhere, which is computed once."""
        if self._excludes_file is None:
            self._excludes_file = self._find_excludes() or ""
        return self._excludes_file or None

    def _begin(self, now: float, check: Callable[[], None]) -> None:
        self._walk = walk_paths(self._root, [""], bytes_max=ANY_SIZE, excludes_file=self._excludes(), check=check)
        self._looked_at = now
        self._publish(check)

    def _sweep(self, now: float, check: Callable[[], None]) -> None:
        """Check whether the files are as they were; walk only when names came or went."""
        assert self._walk
        swept = scan(self._root, self._walk.files(), self._walk.folders)
        if swept.needs_walk or swept.removed or len(swept.changed) > ANEW_PATHS:
            self._begin(now, check)
            return
        self._looked_at = now
        if swept.changed:
            self._look_again(swept.changed, check)

    def _look_again(self, paths: Iterable[str], check: Callable[[], None]) -> None:
        """Remove some paths from the listing, with what is below them, and add what is there now."""
        assert self._walk
        known, gone = self._walk, frozenset(paths)
        below = tuple(f"{path}/" for path in gone)
        seen = walk_paths(self._root, gone, bytes_max=ANY_SIZE, excludes_file=self._excludes(), check=check)

        def stays(path: str) -> bool:
            return path not in gone and not path.startswith(below)

        gone_files = tuple(entry for entry in known.entries if not stays(entry.path))
        gone_rows = tuple(row for row in known.skipped if not stays(row.path))
        if (gone_files, gone_rows) == (seen.entries, seen.skipped):
            return  # heard twice, or touched without a trace
        self._walk = replace(
            known,
            entries=tuple(sorted({*known.entries}.difference(gone_files).union(seen.entries))),
            skipped=tuple(sorted([*(row for row in known.skipped if stays(row.path)), *seen.skipped], key=_path)),
            counts=Counter(known.counts) - Counter(row.reason for row in gone_rows) + Counter(seen.counts),
            folders={path: at for path, at in known.folders.items() if stays(path)} | dict(seen.folders),
        )
        self._publish(check)

    def _publish(self, check: Callable[[], None]) -> None:
        """Judge new files by their content, and make the listing."""
        assert self._walk
        known, verdicts = self._verdicts, {}
        with file_reader.open_root(self._confined) as top:
            for number, entry in enumerate(self._walk.entries):
                if number % 1_000 == 0:
                    self._verdicts = known | verdicts  # when it is stopped here, the next call goes on from there
                    check()
                verdicts[entry] = known[entry] if entry in known else file_reader.why_not_text(top, entry.path)
        self._verdicts = verdicts
        no_text = [Skipped(entry.path, *why) for entry, why in verdicts.items() if why]
        newest = max((entry.mtime_ns for entry in verdicts), default=0)
        self._listing = FileListing(
            files=tuple([entry for entry, why in verdicts.items() if why is None]),
            folders=self._walk.folders,
            skipped=(*self._walk.skipped, *no_text),
            counts=Counter(self._walk.counts) + Counter(row.reason for row in no_text),
            is_settled=newest < time.time_ns() - SETTLED_NS,
        )


def _changes_all(heard: set[str]) -> bool:
    """Return whether a walk is due: other rules, another branch, or very many changes."""
    return len(heard) > ANEW_PATHS or changes_rules(heard)


def _path(row: Skipped) -> str:
    return row.path
