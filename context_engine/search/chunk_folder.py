"""A folder of chunk files, read and written as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from xxhash import xxh3_128

from context_engine.errors import ContextEngineError, FileNotFound, InvalidPath
from context_engine.model import ChunkKind, Skipped
from context_engine.repo import Root, read_file, write_atomic
from context_engine.search.chunk_files import FILES, ChunkSet, parse_chunk_file

FILE_BYTES_MAX = 500_000_000
"""100,000 chunks with vectors of 384 numbers take 400 MB of JSON; larger data belongs into a database."""


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


def read_folder(folder: Path, *, bytes_max: int = FILE_BYTES_MAX) -> ChunkSet:
    """Read all chunk files of a folder; unusable ones are named in `skipped`, missing ones are not.

    Raises: FileNotFound when there is no such folder, InvalidVectors.
    """
    return combine_files(read_files(folder, bytes_max=bytes_max))


def read_files(folder: Path, *, bytes_max: int = FILE_BYTES_MAX) -> dict[ChunkKind, bytes | Skipped]:
    """Return the contents of the files that are there, or why one cannot be read. Raises: FileNotFound."""
    if not folder.is_dir():
        raise FileNotFound(
            f"there is no folder {folder} to read chunks from",
            suggestion="write one with `ctx chunk export`, or name the folder that your indexer writes",
            details={"path": str(folder)},
        )
    root = Root(folder)
    found: dict[ChunkKind, bytes | Skipped] = {}
    for kind, name in FILES.items():
        try:
            found[kind] = read_file(root, root.rel(name), bytes_max=bytes_max).data
        except FileNotFound:
            continue
        except ContextEngineError as error:  # too large, no text, closed to us, a link that leads elsewhere
            found[kind] = Skipped(name, "unreadable", error.message)
    return found


def hash_contents(contents: Mapping[ChunkKind, bytes | Skipped]) -> str:
    """Return a hash that differs when the contents of a folder do."""
    state = xxh3_128()
    for kind, data in contents.items():
        state.update(f"\0{kind}\0".encode())
        state.update(str(data).encode() if isinstance(data, Skipped) else data)
    return state.hexdigest()


def combine_files(contents: Mapping[ChunkKind, bytes | Skipped]) -> ChunkSet:
    """Return the chunks of files as one set. Raises: InvalidVectors."""
    files = [data if isinstance(data, Skipped) else parse_chunk_file(kind, data) for kind, data in contents.items()]
    skipped = [file for file in files if isinstance(file, Skipped)]
    return ChunkSet.of([file for file in files if isinstance(file, ChunkSet)], skipped)
