"""The state folder `.context-engine/` at the top of a workspace, and atomic files in it.

The author of a repository may have put files there: anything but a regular file with one name, reached through no link,
is never read and never written. Only removing a file removes a link in its place, not what it leads to.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from context_engine.errors import DiskFull, StorageCorrupt, WriteFailed
from context_engine.storage.confined_folder import ConfinedFolder, UnsafePathError
from context_engine.storage.private_files import PRIVATE_FILE, PRIVATE_FOLDER, make_private_folder

STATE_FOLDER = ".context-engine"
DATABASES = ("journal.db", "state.db")
GIT_IGNORE = ".gitignore"
_DERIVED = "/locks/\n/secrets.key\n/plans/index.json\n/plans/.trash/\n/plans/*/events.head\n*.tmp\n"
_GIT_IGNORE_TEXT = (
    "# Written by Context Engine: what lies here for this machine alone.\n/.gitignore\n"
    + "".join(f"/{name}*\n" for name in DATABASES)
    + _DERIVED
)

FileStamp = tuple[int, int, int]
"""What changes when a file does: inode, bytes, mtime_ns."""
PublishFiles = Callable[[Mapping[Path, bytes | None]], None]
"""Sends changes of files to all machines of a team before they are made here; None means a deletion. If it fails,
nothing is written.
"""
UNSETTLED_NS = 20_000_000
"""A file system clock ticks every 4 to 10 ms: a file read sooner after a change may change again at the same time."""


class StateFolder:
    """The state folder of a workspace, or a folder in it. The folder around it is trusted, nothing inside. Thread-safe.

    In a workspace, memories and plans have the permissions of the user's other files, because git shares them. All else
    is readable by its user alone: databases, locks and keys there (by the mode that they are opened with), and whatever
    is outside of workspaces.

    Paths are relative to it, with `/`. Reading never fails: a problem is returned as a value, or as a missing file.
    Writing and deleting raise WriteFailed, DiskFull, and StorageCorrupt for anything that is not a plain file or
    folder.
    """

    __slots__ = ("_files", "_home", "_is_private", "path")

    def __init__(self, home: Path) -> None:
        """Create nothing. `home` is the state folder itself."""
        self.path = home
        self._home = self
        self._is_private = home.name != STATE_FOLDER
        self._files = ConfinedFolder(home.parent).folder(home.name)

    def folder(self, relative: str) -> StateFolder:
        """Return a folder inside this one."""
        inner = StateFolder.__new__(StateFolder)
        inner.path = self.path / relative
        inner._home = self._home
        inner._is_private = self._is_private
        with translate_os_errors(inner.path):
            inner._files = self._files.folder(relative)
        return inner

    # -- reading --

    def read(self, relative: str, *, bytes_max: int) -> bytes | str | None:
        """Return the content of a file, why it cannot be read, or None when it is not there."""
        try:
            return self._files.read_bytes(relative, bytes_max=bytes_max)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnsafePathError as error:
            return f"{error.filename} {error.strerror}"
        except OSError as error:
            return error.strerror or str(error)

    def exists(self, relative: str = "") -> bool:
        """Return whether there is something of that name."""
        return self._files.exists(relative)

    def folders(self) -> list[str]:
        """Return the names of the folders in it that are not hidden."""
        with suppress(OSError), self._files.scan() as found:
            return [entry.name for entry in found if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)]
        return []

    def files(self, relative: str = "") -> dict[str, os.stat_result]:
        """Return the plain files in it or in a folder of it. Called often, for thousands of files: a plain loop."""
        listed: dict[str, os.stat_result] = {}
        with suppress(OSError), self._files.scan(relative) as found:
            for entry in found:
                if entry.is_file(follow_symlinks=False):
                    with suppress(OSError):  # it went in this moment
                        listed[entry.name] = entry.stat(follow_symlinks=False)
        return listed

    def names(self, relative: str = "") -> set[str]:
        """Return the names of all that is in it or in a folder of it."""
        with suppress(OSError), self._files.scan(relative) as found:
            return {entry.name for entry in found}
        return set()

    def statuses(self, relative: str, names: Iterable[str]) -> list[os.stat_result]:
        """Return the status of a folder and of files in it; nothing when one of them is not there."""
        try:
            return self._files.statuses(relative, names)
        except OSError:
            return []

    def check_file(self, relative: str) -> os.stat_result | None:
        """Return the status of a file, None when it is missing. Raises: StorageCorrupt when it is not a plain file."""
        with translate_os_errors(self.path / relative), suppress(FileNotFoundError):
            return self._files.check_file(relative)
        return None

    # -- writing --

    def make(self) -> None:
        """Make the folder; the state folder of a workspace also gets its `.gitignore`."""
        home = self._home
        if not self._is_private and not home._files.exists(GIT_IGNORE):
            home.create(GIT_IGNORE, _GIT_IGNORE_TEXT.encode(), flush=False)
        with translate_os_errors(self.path):
            self._make_folders()

    def create(self, relative: str, data: bytes, *, flush: bool = True, mode: int | None = None) -> bool:
        """Write a new file and the folders above it; False when there is one of that name."""
        with translate_os_errors(self.path / relative):
            self._make_folders(relative.rpartition("/")[0])
            mode, owner = self._file_mode(mode), self._owner()
            return self._files.write_bytes(relative, data, replace=False, flush=flush, mode=mode, owner=owner)

    def replace(self, relative: str, data: bytes, *, flush: bool = True) -> None:
        """Write a file, whether it exists or not, and the folders above it."""
        with translate_os_errors(self.path / relative):
            self._make_folders(relative.rpartition("/")[0])
            self._files.write_bytes(relative, data, flush=flush, mode=self._file_mode(), owner=self._owner())

    def _make_folders(self, relative: str = "") -> None:
        if self._is_private:
            make_private_folder(self._files.top)
        mode = PRIVATE_FOLDER if self._is_private else 0o777
        self._files.make_folders(relative, mode=mode, owner=self._owner())

    def _file_mode(self, mode: int | None = None) -> int:
        return PRIVATE_FILE if self._is_private else mode or 0o666

    @contextmanager
    def open_descriptor(self, relative: str, flags: int, mode: int | None = None) -> Generator[int]:
        """Open a file until the block ends; where `flags` create it, the folders above it must exist."""
        with translate_os_errors(self.path / relative):
            descriptor = self.open(relative, flags, mode)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def open(self, relative: str, flags: int, mode: int | None = None) -> int:
        """Open a file; a new one belongs to the owner of the workspace. Raises: OSError."""
        descriptor = self._files.open(relative, flags, self._file_mode(mode))
        if flags & os.O_CREAT and (owner := self._owner()):
            with suppress(PermissionError):
                os.fchown(descriptor, *owner)
        return descriptor

    def map(self, relative: str) -> memoryview:
        """Return the content of a file, mapped into memory. Raises: OSError, ValueError (an empty file)."""
        descriptor = self._files.open(relative)
        try:
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(descriptor)

    def remove(self, relative: str) -> None:
        """Delete a file, if it exists."""
        with translate_os_errors(self.path / relative), suppress(FileNotFoundError):
            self._files.unlink(relative)

    def remove_empty(self, relative: str) -> None:
        """Delete a folder unless it contains something."""
        with suppress(OSError):
            self._files.remove_folder(relative)

    def remove_tree(self, relative: str) -> None:
        """Delete a folder and its content; links are deleted, not followed."""
        with translate_os_errors(self.path / relative):
            self._files.remove_tree(relative)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder; both parent folders must exist."""
        with translate_os_errors(self.path / old):
            self._files.rename(old, new)
            for folder in {old.rpartition("/")[0], new.rpartition("/")[0]}:
                self._files.flush(folder)

    def flush(self, relative: str = "") -> None:
        """Make the names in a folder survive a power cut, where the system can."""
        with translate_os_errors(self.path / relative):
            self._files.flush(relative)

    def _owner(self) -> tuple[int, int] | None:
        """Return the owner of the workspace for new files of the superuser, as a server in a container runs."""
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            return None
        try:
            facts = os.stat(self._files.top)
        except OSError:
            return None
        return facts.st_uid, facts.st_gid


@contextmanager
def translate_os_errors(path: Path) -> Generator[None]:
    """Raise errors of this package in place of the operating system's."""
    try:
        yield
    except (UnsafePathError, NotADirectoryError) as error:
        place = error.filename or path
        raise StorageCorrupt(
            f"{place} {error.strerror}, so it is not used: state is stored in plain files inside the workspace;"
            " nothing was written",
            suggestion=f"Check what {place} is and remove it: it may have come with a repository.",
            details={"path": str(path)},
        ) from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise DiskFull(
                f"no room left on the disk for {path}; nothing was written",
                suggestion="Free some space, then call again.",
                details={"path": str(path)},
            ) from error
        raise WriteFailed(
            f"{path} cannot be written: {error.strerror or error}; nothing was written",
            suggestion="Give this user permission to write there: what cannot be recorded could not be undone.",
            details={"path": str(path), "reason": "refused"},
        ) from error
