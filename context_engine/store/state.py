"""The folder `.context-engine/` at the top of a workspace, as far as we write to it: what is ours alone and not for git."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from context_engine.errors import DiskFull, WriteFailed

FOLDER = ".context-engine"
DATABASES = ("journal.db", "state.db")
OURS = (
    *(name + end for name in DATABASES for end in ("", "-wal", "-shm", "-journal")),
    "locks",
    "plans",
    "secrets.key",
)
"""Names in it that nobody else may write to, by an edit of ours least of all."""
_DOOR = "# Written by Context Engine: what lies here for this machine alone.\n"
_DERIVED = "/locks/\n/secrets.key\n/plans/index.json\n/plans/.trash/\n*.tmp\n"
_NOT_FOR_GIT = _DOOR + "/.gitignore\n" + "".join(f"/{name}*\n" for name in DATABASES) + _DERIVED


def is_ours(path: str) -> bool:
    """Whether a path of the workspace is state of ours.

    >>> is_ours(".context-engine/journal.db"), is_ours(".context-engine/config.yml")
    (True, False)
    """
    folder, _, rest = path.casefold().partition("/")
    return folder == FOLDER and rest.split("/")[0] in OURS


def make_folder(folder: Path) -> None:
    """Make the state folder and its list of what git must not see. Raises: WriteFailed, DiskFull."""
    with told(folder):
        if (folder / ".gitignore").exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        owned_like(folder.parent, folder)
        with suppress(FileExistsError), open(folder / ".gitignore", "x", encoding="utf-8") as file:
            file.write(_NOT_FOR_GIT)
        owned_like(folder.parent, folder / ".gitignore")


def renew_ignored(folder: Path) -> None:
    """Add to that list what a former release did not know; a list that somebody made his own stays as it is.

    Raises: WriteFailed, DiskFull.
    """
    path = folder / ".gitignore"
    with told(folder), suppress(FileNotFoundError):
        said = path.read_text(encoding="utf-8", errors="replace")
        if said.startswith(_DOOR) and set(said.split()) < set(_NOT_FOR_GIT.split()):
            path.write_text(_NOT_FOR_GIT, encoding="utf-8")


def owned_like(model: Path, path: Path) -> None:
    """Give a file of ours to the owner of the workspace: a server in a container runs as the superuser, its user does not."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        facts = os.stat(model)
        with suppress(PermissionError):
            os.chown(path, facts.st_uid, facts.st_gid)


@contextmanager
def told(folder: Path) -> Generator[None]:
    """Turn the system's words for a full or closed disk into ours."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise full(folder) from error
        raise closed(folder, error.strerror or str(error)) from error


def full(folder: Path) -> DiskFull:
    """The error for a disk without room."""
    return DiskFull(
        f"no room left on the disk of {folder}, where edits are recorded; nothing was written",
        suggestion="Free some space, then call again.",
        details={"path": str(folder)},
    )


def closed(folder: Path, why: str) -> WriteFailed:
    """The error for a folder that cannot be written."""
    return WriteFailed(
        f"{folder}, where edits are recorded, cannot be written: {why}; nothing was written",
        suggestion="Give this user permission to write there: what cannot be recorded could not be undone.",
        details={"path": str(folder), "reason": "refused"},
    )
