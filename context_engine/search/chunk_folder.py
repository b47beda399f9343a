"""A folder of chunk files, read and written as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from xxhash import xxh3_128_hexdigest

from context_engine.errors import ContextEngineError, FileNotFound, InvalidPath
from context_engine.model import ChunkKind, Skipped
from context_engine.repo import Root, read_file, write_atomic
from context_engine.search.chunk_files import FILES, ChunkFile, ChunkSet, parse_chunk_file

FILE_BYTES_MAX = 500_000_000
"""100,000 chunks with vectors of 384 numbers take 400 MB of JSON; larger data belongs into a database."""


def read_folder(folder: Path, *, dimensions: int | None = None, bytes_max: int = FILE_BYTES_MAX) -> ChunkSet:
    """Read all chunk files of a folder; unusable ones are named in `skipped`, missing ones are not.

    `dimensions`: what every vector must have; None: what the first one has.

    Raises: FileNotFound when there is no such folder, InvalidVectors.
    """
    return FolderReader(folder, dimensions, bytes_max).read()


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


class FolderReader:
    """Reads one folder repeatedly; files that did not change are not parsed again."""

    def __init__(self, folder: Path, dimensions: int | None = None, bytes_max: int = FILE_BYTES_MAX) -> None:
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
