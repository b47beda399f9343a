"""Records: small text files of ours in the folder `.context-engine/`, which people may edit and git carries.

    <home>/<name>/<folder>/<file>.md        one record; nothing deeper, no links, nothing hidden
    <home>/locks/                           one writer at a time among all processes of this machine

A record appears whole or not at all, and one that somebody else has just made is never written over. This module knows nothing
of what stands in a record.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from context_engine.store import whole
from context_engine.store.locks import PathLocks

SUFFIX = ".md"
BYTES_MAX = 262_144
"""Fifty times what may be written through us; a person's file beyond it is a document, not a record."""


Stamp = tuple[int, int, int]
"""What changes when a record does: inode, bytes, mtime_ns."""


class Records:
    """The records of one kind, below `<home>/<name>`. Thread-safe; any number of processes may hold one on the same folder.

    `flush=False` gives up on surviving a power cut, for records that can be had again.
    """

    def __init__(self, home: Path, name: str, *, flush: bool = True) -> None:
        """Nothing is created until something is written."""
        self.folder = home / name
        self._home = home
        self._flush = flush
        self._locks = PathLocks(home / "locks")

    # -- reading --

    def listing(self) -> dict[str, Stamp]:
        """Every record, by its path below the folder (`decisions/use-tabs--0c07398f.md`)."""
        found: dict[str, Stamp] = {}
        for folder in whole.entries(self.folder):
            if folder.is_dir(follow_symlinks=False) and not folder.name.startswith("."):
                found |= _stamps(folder)
        return found

    def folders(self) -> tuple[int, ...]:
        """What changes when a record is made, deleted or replaced, though not when it is written over in place: mtimes in ns."""
        inner = (entry for entry in whole.entries(self.folder) if entry.is_dir(follow_symlinks=False))
        with suppress(OSError):  # one of them went in this moment
            return os.stat(self.folder).st_mtime_ns, *(os.stat(entry.path).st_mtime_ns for entry in inner)
        return ()

    def read(self, name: str) -> bytes | str | None:
        """The content of a record, why it cannot be read, or None when it is not there any more."""
        return whole.read(self.folder / name, bytes_max=BYTES_MAX)

    # -- writing --

    @contextmanager
    def writing(self) -> Generator[None]:
        """Be the only writer until the block ends. Raises: StorageBusy, WriteFailed, DiskFull."""
        with self._locks.held([self.folder.name]):
            yield

    def create(self, name: str, data: bytes) -> bool:
        """Write a new record; False when there is one of that name. Raises: WriteFailed, DiskFull, InvalidPath."""
        return whole.create(self._home, self.folder / name, data, flush=self._flush)

    def replace(self, name: str, data: bytes) -> None:
        """Write a record anew. Raises: WriteFailed, DiskFull, InvalidPath."""
        whole.replace(self._home, self.folder / name, data, flush=self._flush)

    def remove(self, name: str) -> None:
        """Delete a record, and its folder when that was the last one. Raises: WriteFailed, InvalidPath."""
        target = self.folder / name
        whole.make_place(self._home, target)
        with whole.told(target):
            target.unlink(missing_ok=True)
        with suppress(OSError):  # there are others
            target.parent.rmdir()


def _stamps(folder: os.DirEntry[str]) -> dict[str, Stamp]:
    """The plain files of a folder that may be records. Asked at each call, for thousands of files: hence the plain loop."""
    found: dict[str, Stamp] = {}
    for entry in whole.entries(folder.path):
        name = entry.name
        if name.endswith(SUFFIX) and name[0] != "." and entry.is_file(follow_symlinks=False):
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:  # it went in this moment
                continue
            found[f"{folder.name}/{name}"] = facts.st_ino, facts.st_size, facts.st_mtime_ns
    return found
