"""Which files a text search looks at: what the walk finds, of any size, without those that do not begin as text.

While a watcher runs, what it hears is looked at again, path by path; without one the files are swept when the listing
is older than it may be, and walked only when names came or went.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter

from context_engine.errors import ContextEngineError
from context_engine.model import Skipped
from context_engine.repo import file_reader
from context_engine.repo.walker import Walk, WalkedFile, scan, walk
from context_engine.repo.watch import Watcher, changes_rules
from context_engine.storage import ConfinedFolder
from context_engine.text import decode

ANY_SIZE = 1 << 62
"""A search reads what nobody would index: generated files, long logs, minified bundles."""
WATCHED_REST_S = 30.0
"""A watcher does not hear what is written through a mapping of memory: a sweep now and then finds it."""
ANEW_PATHS = 200
"""When more than this changed (a branch switch), walking is quicker than looking at each."""
SETTLED_NS = 1_000_000_000
"""A file changed again within one tick of the file system's clock looks the same: after a second that cannot be."""

_path = attrgetter("path")
_time = attrgetter("mtime_ns")


class FileLister:
    """Keeps the listing of one root. Thread-safe. `stale_s`: how old it may be when nothing is watched."""

    def __init__(
        self, root: str | os.PathLike[str], *, stale_s: float, excludes_file: Callable[[], str | None] = lambda: None
    ) -> None:
        self._root = os.path.realpath(root)
        self._confined = ConfinedFolder(self._root)
        self._stale_s = stale_s
        self._find_excludes = excludes_file
        self._lock = threading.Lock()
        self._heard_lock = threading.Lock()
        self._heard: set[str] = set()
        self._watcher: Watcher | None = None
        self._was_watched = False
        self._looked_at = 0.0
        self._walk: Walk | None = None
        self._verdicts: dict[WalkedFile, tuple[str, str] | str] = {}
        self._encodings: dict[str, str] = {}
        self._listing: Walk | None = None

    def follow(self, watcher: Watcher) -> None:
        """Rely on a watcher as long as it runs; it reports through `note`."""
        self._watcher = watcher

    @property
    def is_followed(self) -> bool:
        """Whether a watcher reports edits, as in a process that lives long."""
        return self._watcher is not None and self._watcher.is_running

    def encoding_of(self, path: str) -> str:
        """Return the encoding of a listed file, as replies name it; empty for UTF-8."""
        return self._encodings.get(path, "")

    def read_settled(self, files: Iterable[WalkedFile], *, bytes_max: int) -> Iterator[tuple[WalkedFile, bytes | None]]:
        """Yield files with their UTF-8 text, without those that are not as listed, or could change and look the same.

        None is the text of a file that is longer than `bytes_max`, or cannot be read.
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
                    yield file, decode(data).text.encode("utf-8", "replace") if self.encoding_of(file.path) else data

    def note(self, paths: Iterable[str]) -> None:
        """Remember that these paths changed, appeared or vanished."""
        with self._heard_lock:
            self._heard.update(paths)

    def listing(self, check: Callable[[], None] = lambda: None) -> Walk:
        """Return the files to search as they are now, and what is left out; `check` may stop a long walk by raising.

        Raises: FileNotFound, AccessFailed when the root is gone or closed.
        """
        with self._lock:
            is_watched = self._watcher is not None and self._watcher.is_exact
            heard = self._take_heard()
            now = time.monotonic()
            rest_s = 0.0 if is_watched else self._stale_s
            if is_watched and self._was_watched:
                rest_s = WATCHED_REST_S
            try:
                if self._walk is None or ("" in heard or len(heard) > ANEW_PATHS or changes_rules(heard)):
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

    def is_unchanged(self, listing: Walk, files: Iterable[WalkedFile]) -> bool:
        """Return whether the content of these files is that of the listing. New names are not looked for."""
        sizes = {str(path): (size, mtime_ns) for path, size, mtime_ns in files}
        return listing.is_settled and scan(self._root, sizes).is_clean

    def why_not(self, path: str) -> Skipped | None:
        """Return why a file or folder that exists is not in the listing; None when nothing excludes it."""
        seen = walk(self._root, [path], bytes_max=ANY_SIZE, excludes_file=self._find_excludes())
        return next(
            (skipped for skipped in seen.skipped if skipped.path == path or path.startswith(f"{skipped.path}/")), None
        )

    def _take_heard(self) -> set[str]:
        """Return what was reported since the last time, with what the watcher still delays."""
        pending = self._watcher.pending if self._watcher else frozenset()
        with self._heard_lock:
            heard, self._heard = self._heard, set()
        return heard | pending

    def _begin(self, now: float, check: Callable[[], None]) -> None:
        self._walk = walk(self._root, [""], bytes_max=ANY_SIZE, excludes_file=self._find_excludes(), check=check)
        self._looked_at = now
        self._judge(self._walk.entries, check)
        self._verdicts = {entry: self._verdicts[entry] for entry in self._walk.entries}
        self._publish()

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
        seen = walk(self._root, gone, bytes_max=ANY_SIZE, excludes_file=self._find_excludes(), check=check)

        def stays(path: str) -> bool:
            return path not in gone and not path.startswith(below)

        entries: list[WalkedFile] = []
        gone_files: set[WalkedFile] = set()
        for entry in known.entries:
            entries.append(entry) if stays(entry.path) else gone_files.add(entry)
        gone_rows = tuple(row for row in known.skipped if not stays(row.path))
        if (gone_files, gone_rows) == (set(seen.entries), seen.skipped):
            return  # heard twice, or touched without a trace
        self._walk = replace(
            known,
            entries=tuple(sorted([*entries, *seen.entries])),
            skipped=tuple(sorted([*(row for row in known.skipped if stays(row.path)), *seen.skipped], key=_path)),
            folders={path: at for path, at in known.folders.items() if stays(path)} | dict(seen.folders),
        )
        for entry in gone_files.difference(seen.entries):
            del self._verdicts[entry]
        self._judge(seen.entries, check)
        self._publish()

    def _judge(self, entries: Iterable[WalkedFile], check: Callable[[], None]) -> None:
        """Judge new files by their content. When it is stopped, the next call goes on from there."""
        verdicts = self._verdicts
        with file_reader.open_root(self._confined) as top:
            for number, entry in enumerate(entries):
                if number % 1_000 == 0:
                    check()
                if entry not in verdicts:
                    verdicts[entry] = file_reader.judge_text(top, entry.path)

    def _publish(self) -> None:
        assert self._walk
        known, entries = self._walk, self._walk.entries
        no_text = {entry: why for entry, why in self._verdicts.items() if isinstance(why, tuple)}
        self._encodings = {entry.path: name for entry, name in self._verdicts.items() if name and isinstance(name, str)}
        newest = max(map(_time, entries), default=0)
        self._listing = replace(
            known,
            entries=tuple([entry for entry in entries if entry not in no_text]),
            skipped=(*known.skipped, *(Skipped(entry.path, *why) for entry, why in sorted(no_text.items()))),
            is_settled=newest < time.time_ns() - SETTLED_NS,
        )
