"""A folder put away by one rename, so that it is there as a whole or not at all; and folders deleted for good."""

from __future__ import annotations

import shutil
from pathlib import Path

from context_engine.store import whole

FOLDER = ".trash"


def put_away(home: Path, folder: Path, stamp: str) -> Path:
    """Move a folder into the trash beside it; where it lies now. Moving it back undoes that.

    Raises: WriteFailed, DiskFull, InvalidPath.
    """
    target = _free(folder.parent / FOLDER, f"{folder.name}-{stamp}")
    whole.make_place(home, target)
    with whole.told(folder):
        folder.rename(target)
    whole.flush_folder(folder.parent)
    return target


def purge(folder: Path) -> None:
    """Delete a folder for good, with what it holds; links are deleted, not followed. Raises: WriteFailed."""
    with whole.told(folder):
        shutil.rmtree(folder)


def _free(trash: Path, name: str) -> Path:
    """A name that nothing in the trash has."""
    taken = {entry.name for entry in whole.entries(trash)}
    return trash / next(
        each for each in (name, *(f"{name}-{twin}" for twin in range(2, len(taken) + 3))) if each not in taken
    )
