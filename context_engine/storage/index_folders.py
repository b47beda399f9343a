"""Folders of this machine for indexes, data and configuration; one cache folder a workspace.

Nothing is created here, but for a cache in the folder for temporary files, where another user could be first.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import stat
import tempfile
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

import platformdirs

from context_engine.errors import HostError
from context_engine.storage.private_files import OTHERS, make_private_folder

NAME_A_CACHE = "Set CTX_CACHE_FOLDER to a folder of this machine that only you can open."


def user_cache_folder() -> Path:
    """Return the user's cache; on a network drive, where SQLite's log is not safe, a folder of this machine.

    Raises: HostError.
    """
    folder = Path(platformdirs.user_cache_dir("context-engine", appauthor=False))
    if find_network_drive(folder):
        return _own_folder(Path(tempfile.gettempdir()) / f"context-engine-{getpass.getuser()}")
    return folder


def _own_folder(folder: Path) -> Path:
    """Create a folder where every user may create one; refuse one that is not this user's alone. Raises: HostError."""
    try:
        make_private_folder(folder)
        status = os.lstat(folder)
    except OSError as error:
        raise HostError(f"{folder} cannot be made: {error.strerror}", suggestion=NAME_A_CACHE) from error
    is_own = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & OTHERS)
    if not (is_own and stat.S_ISDIR(status.st_mode)):
        raise HostError(f"{folder} is not a folder of yours alone", suggestion=NAME_A_CACHE)
    return folder


def user_data_folder() -> Path:
    """Return the folder for data that belongs to the user and to no workspace."""
    return Path(platformdirs.user_data_dir("context-engine", appauthor=False))


def user_config_folder() -> Path:
    """Return the folder for settings of all workspaces."""
    return Path(platformdirs.user_config_dir("context-engine", appauthor=False))


def readable_config_folder() -> Path | None:
    """Return the folder of the user's settings; None if it is missing or belongs to another user (sudo, container)."""
    folder = user_config_folder()
    return folder if os.access(folder, os.R_OK | os.X_OK) else None


def workspace_id(root: Path) -> str:
    """Return a name for the index of a root: its own name and a hash of its path."""
    digest = hashlib.blake2b(str(root).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{root.name or 'root'}-{digest}"


NETWORK_FILE_SYSTEMS = frozenset("nfs nfs4 cifs smb3 smbfs afs ceph glusterfs fuse.sshfs".split())
"""SQLite's log is not safe there."""
UNREPORTED_FILE_SYSTEMS = NETWORK_FILE_SYSTEMS | frozenset(
    "ncpfs 9p drvfs vboxsf davfs fuse.s3fs fuse.gcsfuse fuse.rclone fuse.glusterfs fuse.davfs2 fuse.vmhgfs-fuse".split()
)
"""What other machines, or the host of a virtual one, change there, the local kernel does not report."""


def find_network_drive(path: str | os.PathLike[str], kinds: Container[str] = NETWORK_FILE_SYSTEMS) -> str:
    """Return the type of the file system that a real path is on, if it is one of these; empty also where unknown."""
    best, kind = "", ""
    with suppress(OSError), open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:  # only Linux has this list
            _, place, file_system, *_ = line.split(" ")
            folder = place.replace("\\040", " ").rstrip("/")
            if len(folder) >= len(best) and f"{os.fspath(path)}/".startswith(f"{folder}/"):
                best, kind = folder, file_system
    return kind if kind in kinds else ""
