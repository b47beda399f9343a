"""A folder put away by one rename, so that it is there as a whole or not at all; and folders deleted for good."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from context_engine.store import whole

FOLDER = ".trash"
BYTES_MAX = 256_000_000
"""As of the longest log."""


def put_away(home: Path, folder: Path, stamp: str, share: whole.Share | None = None) -> Path:
    """Move a folder into the trash beside it; where it lies now. Moving it back undoes that. `share`: of a team's, see `versions`.

    Raises: WriteFailed, DiskFull, InvalidPath.
    """
    target = _free(folder.parent / FOLDER, f"{folder.name}-{stamp}")
    whole.make_place(home, target)
    if share:
        files = dict(_files(folder))
        share({**{target / name: data for name, data in files.items()}, **dict.fromkeys(map(folder.joinpath, files))})
    with whole.told(folder):
        folder.rename(target)
    whole.flush_folder(folder.parent)
    return target


def purge(folder: Path, share: whole.Share | None = None) -> None:
    """Delete a folder for good, with what it holds; links are deleted, not followed. Raises: WriteFailed."""
    if share:
        share({folder / name: None for name, _ in _files(folder)})
    with whole.told(folder):
        shutil.rmtree(folder)


def is_of(trashed: str, path: str) -> bool:
    """Whether a file of the trash is the one that was put away from a path.

    >>> is_of(".trash/plan_1-20261121T120000/v0001.json", "plan_1/v0001.json")
    True
    """
    folder, _, name = path.rpartition("/")
    _, was, was_name = trashed.rsplit("/", 2)
    return name == was_name and was.startswith(f"{folder}-")


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The plain files of a folder, with what stands in them."""
    for entry in whole.entries(folder):
        data = whole.read(Path(entry.path), bytes_max=BYTES_MAX) if entry.is_file(follow_symlinks=False) else None
        if isinstance(data, bytes):
            yield entry.name, data


def _free(trash: Path, name: str) -> Path:
    """A name that nothing in the trash has."""
    taken = {entry.name for entry in whole.entries(trash)}
    return trash / next(
        each for each in (name, *(f"{name}-{twin}" for twin in range(2, len(taken) + 3))) if each not in taken
    )
