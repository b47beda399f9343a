"""A folder of chunk files: read at the start, watched while its indexer writes, replaced in one step.

At the start a broken file is skipped and named. Later, as long as a file in use is broken or missing, everything stays
as it was, because the next write is likely to repair it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

from xxhash import xxh3_128_hexdigest

from context_engine.errors import ContextEngineError, FileNotFound, InvalidPath
from context_engine.model import ChunkKind, Skipped
from context_engine.repo import Root, Watcher, read_file, write_atomic
from context_engine.search.chunk_files import FILES, ChunkFile, ChunkSet, parse_chunk_file

FILE_BYTES_MAX = 500_000_000
"""100,000 chunks with vectors of 384 numbers take 400 MB of JSON; larger data belongs into a database."""

OnNews = Callable[[str], None]
Prepare = Callable[[ChunkSet], None]


def read_folder(folder: Path, *, dimensions: int | None = None, bytes_max: int = FILE_BYTES_MAX) -> ChunkSet:
    """Read all chunk files of a folder; unusable ones are named in `skipped`, missing ones are not.

    `dimensions`: what every vector must have; None: what the first one has.

    Raises: FileNotFound when there is no such folder, InvalidVectors.
    """
    return _FolderReader(folder, dimensions, bytes_max).read()


def write_folder(folder: Path, contents: Iterable[tuple[str, bytes]]) -> int:
    """Write chunk files, each as a whole or not at all, and make the folder if it is missing; return the bytes.

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
        write_atomic(folder / name, data)
        count += len(data)
    return count


class ChunkFolder:
    """The current chunks of one folder. Thread-safe; `current` never waits for a reload.

    `prepare` is called with a set before it is used; what it raises keeps the old state, or at the start refuses the
    folder. `on_news` gets a sentence about every reload. Both are called in the thread that noticed the change.
    """

    def __init__(
        self,
        folder: Path,
        *,
        dimensions: int | None = None,
        quiet_ms: int = Watcher.QUIET_MS,
        bytes_max: int = FILE_BYTES_MAX,
        prepare: Prepare = lambda _: None,
        on_news: OnNews = lambda _: None,
    ) -> None:
        """Read the folder. Raises: FileNotFound, InvalidVectors, and what `prepare` raises."""
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
        """The chunks in use. Keep the value for as long as one answer takes."""
        return self._current

    @property
    def watcher_problem(self) -> str:
        """Why changes are not noticed; empty while they are, or before `follow`."""
        return self._watcher.problem

    def follow(self) -> None:
        """Watch the folder from now on, and load what changed since it was read."""
        self._watcher.start()
        self.reload()

    def reload(self) -> bool:
        """Read the folder again and use it, if nothing in use is broken or missing in it; return whether it is used."""
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
        """Stop watching; the chunks stay usable."""
        self._watcher.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_change(self, paths: frozenset[str]) -> None:
        if not paths.isdisjoint(FILES.values()):
            self.reload()


class _FolderReader:
    """Reads one folder repeatedly; files that did not change are not parsed again."""

    def __init__(self, folder: Path, dimensions: int | None, bytes_max: int) -> None:
        self._folder = folder
        self._dimensions = dimensions
        self._bytes_max = bytes_max
        self._last: tuple[str, ChunkSet] | None = None

    def read(self) -> ChunkSet:
        """Return the current chunks; the same object as last time when the files are unchanged.

        Raises: FileNotFound, InvalidVectors.
        """
        if not self._folder.is_dir():
            raise FileNotFound(
                f"there is no folder {self._folder} to read chunks from",
                suggestion="write one with `ctx chunk export`, or name the folder that your indexer writes",
                details={"path": str(self._folder)},
            )
        root = Root(self._folder)
        found = {kind: data for kind in FILES if (data := self._read_file(root, kind)) is not None}
        mark = " ".join(f"{kind} {_hash(data)}" for kind, data in found.items())
        if self._last is None or self._last[0] != mark:
            files = [
                data if isinstance(data, Skipped) else parse_chunk_file(kind, data) for kind, data in found.items()
            ]
            skipped = [file for file in files if isinstance(file, Skipped)]
            taken = [file for file in files if isinstance(file, ChunkFile)]
            self._last = mark, ChunkSet.of(taken, skipped, dimensions=self._dimensions)
        return self._last[1]

    def _read_file(self, root: Root, kind: ChunkKind) -> bytes | Skipped | None:
        """Return the content of a file, or why it cannot be read; None when it is missing."""
        name = FILES[kind]
        try:
            return read_file(root, root.rel(name), bytes_max=self._bytes_max).data
        except FileNotFound:
            return None
        except ContextEngineError as error:  # too large, no text, closed to us, a link that leads elsewhere
            return Skipped(name, "unreadable", error.message)


def _hash(data: bytes | Skipped) -> str:
    return xxh3_128_hexdigest(str(data).encode() if isinstance(data, Skipped) else data)


def _describe_losses(old: ChunkSet, new: ChunkSet) -> str:
    """Return what a new state would lose of the old one, in words; empty when nothing."""
    why = {skipped.path: skipped.detail for skipped in new.skipped}
    lost = [f"{name}: {why.get(name, 'it is gone')}" for name in old.files if name not in new.files]
    return "; ".join(lost)


def _describe_reload(chunks: ChunkSet) -> str:
    left_out = "".join(f"; {skipped.path} is left out: {skipped.detail}" for skipped in chunks.skipped)
    return f"chunks are loaded again: {len(chunks.rows)} in {len(chunks.files)} files{left_out}"
