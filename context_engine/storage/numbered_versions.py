"""The versions of a record, each an immutable file: `v0001.json`, `v0002.json`, ...

A version is written once: the second writer of a number gets False, and nothing is overwritten. This module knows
nothing of the content of a version.
"""

from __future__ import annotations

import re
from pathlib import Path

from context_engine.errors import StorageCorrupt
from context_engine.storage.state_folder import PublishFiles, StateFolder

BYTES_MAX = 16_000_000
"""Several times what callers may save."""
_NAME = re.compile(r"v(\d{4}|[1-9]\d{4,8})\.json")


class NumberedVersions:
    """The versions in one folder. Any number of processes may use the same folder.

    `flush=False` gives up surviving a power cut, for data that can be made again; `share` is set where a team shares
    them.
    """

    def __init__(self, files: StateFolder, *, flush: bool = True, share: PublishFiles | None = None) -> None:
        """Create nothing until a version is added."""
        self.folder = files.path
        self._files = files
        self._flush = flush
        self._share = share

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all versions, ascending."""
        return tuple(sorted(int(match[1]) for file in self._files.names() if (match := _NAME.fullmatch(file))))

    def path(self, number: int) -> Path:
        """Return the file of a version, whether it exists or not."""
        return self.folder / version_file_name(number)

    def read(self, number: int) -> bytes | None:
        """Return the content of a version; None when it is missing. Raises: StorageCorrupt, naming the file."""
        data = self._files.read(version_file_name(number), bytes_max=BYTES_MAX)
        if isinstance(data, str):
            raise corrupt_version_error(self.path(number), data)
        return data

    def add(self, number: int, data: bytes) -> bool:
        """Write a version; return False when the number is used. Raises: WriteFailed, DiskFull, StorageCorrupt."""
        name = version_file_name(number)
        if name in self._files.names():
            return False
        if self._share:
            self._share({self.folder / name: data})
        return self._files.create(name, data, flush=self._flush)


def version_file_name(number: int) -> str:
    """Return the file name of a version.

    >>> version_file_name(7), version_file_name(12345)
    ('v0007.json', 'v12345.json')
    """
    return f"v{number:04d}.json"


def corrupt_version_error(path: Path, why: str) -> StorageCorrupt:
    """Return the error for a version that differs from what was written."""
    return StorageCorrupt(
        f"{path.name} of {path.parent.name} is damaged: {why}",
        suggestion="Restore this file from git or a backup; all other versions can be read.",
        details={"path": str(path), "file": path.name},
    )


# -- trash -------------------------------------------------------------------------------------------------------------

# A trash folder: a record is moved there by one rename, as a whole or not at all, or deleted for good.

TRASH_FOLDER = ".trash"
TRASH_BYTES_MAX = 256_000_000
"""The size of the longest log."""


def move_to_trash(files: StateFolder, name: str, stamp: str, share: PublishFiles | None = None) -> str:
    """Move a folder into the trash next to it; return its new path. `share`: as in `numbered_versions`.

    Raises: WriteFailed, DiskFull, StorageCorrupt.
    """
    target = f"{TRASH_FOLDER}/{_free_name(files.names(TRASH_FOLDER), f'{name}-{stamp}')}"
    files.folder(TRASH_FOLDER).make()
    if share:
        here, there = files.folder(name), files.folder(target)
        contents = _read_files(here)
        share(
            {
                **{there.path / file: data for file, data in contents.items()},
                **dict.fromkeys(here.path / file for file in contents),
            }
        )
    files.rename(name, target)
    return target


def purge(files: StateFolder, name: str, share: PublishFiles | None = None) -> None:
    """Delete a folder and its content for good; links are deleted, not followed.

    Raises: WriteFailed, StorageCorrupt.
    """
    if share:
        folder = files.folder(name)
        share(dict.fromkeys(folder.path / file for file in _read_files(folder)))
    files.remove_tree(name)


def is_copy_of(trashed: str, path: str) -> bool:
    """Return whether a file of the trash is the one that was moved there from a path.

    >>> is_copy_of(".trash/plan_1-20261121T120000/v0001.json", "plan_1/v0001.json")
    True
    """
    folder, _, name = path.rpartition("/")
    _, was, was_name = trashed.rsplit("/", 2)
    return name == was_name and was.startswith(f"{folder}-")


def _read_files(folder: StateFolder) -> dict[str, bytes]:
    read = {name: folder.read(name, bytes_max=TRASH_BYTES_MAX) for name in folder.files()}
    return {name: data for name, data in read.items() if isinstance(data, bytes)}


def _free_name(taken: set[str], name: str) -> str:
    """Return a name that nothing in the trash has."""
    names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(free for free in names if free not in taken)
