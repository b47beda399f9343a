"""A folder of chunk files, served: read at the start, followed while its indexer writes, replaced in one step.

At the start a broken file is left out and named. Later it is not: as long as a file that serves is broken or missing,
all stays as it was, because the next write is likely to mend it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

from xxhash import xxh3_128_hexdigest

from context_engine.errors import ContextEngineError, FileNotFound, InvalidPath
from context_engine.index.chunk_files import FILES, ChunkFile, ChunkSet, parse_chunk_file
from context_engine.model import ChunkKind, Skipped
from context_engine.repo import file_reader, file_writer
from context_engine.repo.paths import Root
from context_engine.repo.watch import QUIET_MS, Watcher

FILE_BYTES_MAX = 500_000_000
"""100,000 chunks with vectors of 384 numbers take 400 MB of JSON; what is larger belongs into a database."""

OnNews = Callable[[str], None]
Prepare = Callable[[ChunkSet], None]


def read_folder(folder: Path, *, dimensions: int | None = None, bytes_max: int = FILE_BYTES_MAX) -> ChunkSet:
    """All chunk files of a folder; those that cannot be taken are named in `skipped`, those that are not there are not.

    `dimensions`: what every vector must have; None: what the first one has.

    Raises: FileNotFound when there is no such folder, InvalidVectors.
    """
    return _FolderReader(folder, dimensions, bytes_max).read()


def write_folder(folder: Path, contents: Iterable[tuple[str, bytes]]) -> int:
    """Write chunk files, each whole or not at all, and make the folder if need be; how many bytes.

    Raises: InvalidPath when it is a file, WriteFailed.
    """
    if folder.is_file():
        raise InvalidPath(
            f"{folder} is a file, not a folder", suggestion="name a folder; it is made if it is not there"
        )
    with suppress(OSError):  # why it cannot be made, the first file says better
        folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, data in contents:
        file_writer.write_atomic(folder / name, data)
        count += len(data)
    return count


class ChunkFolder:
    """The chunks of one folder as they are now. Thread-safe; `current` never waits for a reload.

    `prepare` makes ready what is about to serve; what it raises keeps the old state, or at the start refuses the
    folder. `on_news` hears a sentence about every reload. Both are called in the thread that noticed the change.
    """

    def __init__(
        self,
        folder: Path,
        *,
        dimensions: int | None = None,
        quiet_ms: int = QUIET_MS,
        bytes_max: int = FILE_BYTES_MAX,
        prepare: Prepare = lambda _: None,
        on_news: OnNews = lambda _: None,
    ) -> None:
        """Reads the folder. Raises: FileNotFound, InvalidVectors, and what `prepare` raises."""
        self._reading = _FolderReader(folder, dimensions, bytes_max)
        self._prepare = prepare
        self._on_news = on_news
        self._lock = threading.Lock()
        self._watcher = Watcher(folder, self._on_change, quiet_ms=quiet_ms)
        self._current = self._reading.read()
        prepare(self._current)
        self.problem = ""
        """Why the newest state of the files is not what is served; empty when it is."""

    @property
    def current(self) -> ChunkSet:
        """What serves. Hold it for as long as one answer takes."""
        return self._current

    @property
    def watcher_problem(self) -> str:
        """Why changes are not noticed; empty while they are, or before `follow`."""
        return self._watcher.problem

    def follow(self) -> None:
        """Notice changes from now on, and what has changed since the folder was read."""
        self._watcher.start()
        self.reload()

    def reload(self) -> bool:
        """Read the folder anew and serve that, if nothing of what serves is broken or missing in it; whether it serves."""
        with self._lock:
            before = self.problem
            try:
                new = self._reading.read()
                self.problem = _describe_losses(self._current, new)
                if new is self._current and not before:
                    return True
                if not self.problem:
                    self._prepare(new)
            except ContextEngineError as error:
                self.problem = error.message
            if self.problem:
                self._on_news(f"chunks are served as they were: {self.problem}")
                return False
            self._current = new
            self._on_news(_describe_reload(new))
            return True

    def close(self) -> None:
        """Stop to follow; what serves goes on serving."""
        self._watcher.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_change(self, paths: frozenset[str]) -> None:
        if not paths.isdisjoint(FILES.values()):
            self.reload()


class _FolderReader:
    """Reads one folder again and again.

    Of four files seldom more than one was written anew: only that is taken apart.
    """

    def __init__(self, folder: Path, dimensions: int | None, bytes_max: int) -> None:
        self._folder = folder
        self._dimensions = dimensions
        self._bytes_max = bytes_max
        self._taken: dict[ChunkKind, tuple[str, ChunkFile | Skipped]] = {}
        self._last: tuple[list[str], ChunkSet] | None = None

    def read(self) -> ChunkSet:
        """The chunks as the files are now; the very set of last time when they are as they were.

        Raises: FileNotFound, InvalidVectors.
        """
        if not self._folder.is_dir():
            raise FileNotFound(
                f"there is no folder {self._folder} to take chunks from",
                suggestion="write one with `ctx chunk export`, or name the folder that your indexer writes",
                details={"path": str(self._folder)},
            )
        root = Root(self._folder)
        self._taken = {kind: taken for kind in FILES if (taken := self._take(root, kind)) is not None}
        marks = [f"{kind} {mark}" for kind, (mark, _) in self._taken.items()]
        if self._last and self._last[0] == marks:
            return self._last[1]
        found = [each for _, each in self._taken.values()]
        skipped = [each for each in found if isinstance(each, Skipped)]
        files_taken = [each for each in found if isinstance(each, ChunkFile)]
        self._last = marks, ChunkSet.of(files_taken, skipped, dimensions=self._dimensions)
        return self._last[1]

    def _take(self, root: Root, kind: ChunkKind) -> tuple[str, ChunkFile | Skipped] | None:
        """One file with a mark of its content; None when it is not there. Raises: InvalidVectors."""
        name = FILES[kind]
        try:
            data = file_reader.read(root, root.rel(name), bytes_max=self._bytes_max).data
        except FileNotFound:
            return None
        except ContextEngineError as error:  # too large, no text, closed to us, a link that leads elsewhere
            return error.message, Skipped(name, "unreadable", error.message)
        mark = xxh3_128_hexdigest(data)
        known = self._taken.get(kind)
        return known if known and known[0] == mark else (mark, parse_chunk_file(kind, data))


def _describe_losses(old: ChunkSet, new: ChunkSet) -> str:
    """What a new state would take away from the old one, in words; empty when nothing."""
    why = {skipped.path: skipped.detail for skipped in new.skipped}
    lost = [f"{name}: {why.get(name, 'it is gone')}" for name in old.files if name not in new.files]
    return "; ".join(lost)


def _describe_reload(chunks: ChunkSet) -> str:
    left_out = "".join(f"; {each.path} is left out: {each.detail}" for each in chunks.skipped)
    return f"chunks are loaded anew: {len(chunks.rows)} in {len(chunks.files)} files{left_out}"
