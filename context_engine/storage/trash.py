"""A trash folder: a record is moved there by one rename, as a whole or not at all, or deleted for good."""

from __future__ import annotations

from context_engine.storage.state_folder import PublishFiles, StateFolder

TRASH_FOLDER = ".trash"
BYTES_MAX = 256_000_000
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
    """Return the content of the plain files of a folder."""
    read = {name: folder.read(name, bytes_max=BYTES_MAX) for name in folder.files()}
    return {name: data for name, data in read.items() if isinstance(data, bytes)}


def _free_name(taken: set[str], name: str) -> str:
    """Return a name that nothing in the trash has."""
    names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(free for free in names if free not in taken)
