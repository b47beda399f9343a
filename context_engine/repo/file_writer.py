"""Write files of the user, whole or not at all: every reader gets the old content or the new one.

A file is written next to its target with its owner, mode and attributes, flushed, and renamed onto it. Where that would
break a hard link or change the owner, or the folder is closed, it is overwritten in place (the journal repairs what a
crash leaves). Every name is relative to its folder, which is opened through no link and must be the one that was looked
at; a transaction keeps its folders open, so that it finds its temporary files when one is renamed meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Self

from context_engine.errors import AccessFailed, BinaryFile, InvalidPath, StaleFile, TooLarge, WriteFailed
from context_engine.repo import file_reader
from context_engine.repo.executables import is_within
from context_engine.repo.paths import Root
from context_engine.storage import ConfinedFolder, OpenFolder, UnsafePathError, is_temporary, temporary_name, write_all
from context_engine.text import decode, encode

FOLDERS_OPEN_MAX = 64
"""Folders that one transaction keeps open: a quarter of the files that a process may open on macOS."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_SUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""The answers of file systems without hard links, extended attributes or flushing of folders."""


class ParentFolder:
    """The folder of a file, opened for each use or kept open by `keep_open`.

    `identity` is its device and inode; None while it does not exist.
    """

    __slots__ = ("_root", "identity", "opened", "path")

    def __init__(self, root: ConfinedFolder, path: str) -> None:
        self._root = root
        self.path = path
        self.identity: tuple[int, int] | None = None
        self.opened: OpenFolder | None = None

    @contextmanager
    def open(self) -> Generator[OpenFolder]:
        """Open the folder. Raises: OSError; StaleFile when another folder has its name by now."""
        if self.opened is not None:
            yield self.opened
            return
        with self.enter() as folder:
            yield folder

    def enter(self) -> OpenFolder:
        """Open the folder that has the name now, if it is the one that was looked at. Raises: as `open`."""
        folder = self._root.open_folder(self.path)
        try:
            self.identity = self.identity or folder.identity()
            if folder.identity() != self.identity:
                raise _stale(self.path, f"another folder is called {self.path} by now")
        except BaseException:
            folder.close()
            raise
        return folder


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A file as it was when it was read, and the steps that replace it. Without a file `status` is None, `data` empty.

    `may_write`: it is not write-protected. `may_replace`: names in its folder may be exchanged.
    """

    path: str
    target: str  # absolute, no link in it
    folder: ParentFolder
    data: bytes = b""
    status: os.stat_result | None = None
    may_write: bool = True
    may_replace: bool = True

    @classmethod
    def unread(cls, root: Root, path: str) -> Self:
        """Return a file that has not been looked at yet."""
        return cls(path, os.fspath(root.absolute(path)), ParentFolder(root.confined, path.rpartition("/")[0]))

    @classmethod
    def read(cls, root: Root, path: str, *, bytes_max: int) -> Self:
        """Read a file that is to be written; it need not exist. Raises: InvalidPath, AccessFailed, TooLarge."""
        return cls.unread(root, path).read_again(bytes_max=bytes_max)

    def read_again(self, *, bytes_max: int) -> Self:
        """Read the file once more, in the folder where it was. Raises: as `read`."""
        try:
            with self.folder.open() as folder:
                folder.stat(self.name)
                data, status = file_reader.contents_in(folder, self.name, self.path, bytes_max=bytes_max)
                return replace(
                    self,
                    data=data,
                    status=status,
                    may_write=bool(status.st_mode & 0o222) and _is_allowed(folder, self.name, os.W_OK),
                    may_replace=_is_allowed(folder, os.curdir, os.W_OK | os.X_OK),
                )
        except TooLarge as error:
            suggestion = "Change it with a program made for files of that size."
            raise TooLarge(error.message, suggestion=suggestion, details=error.details) from None
        except (FileNotFoundError, NotADirectoryError):  # no file or no folder yet
            return replace(self, data=b"", status=None)
        except UnsafePathError as error:
            raise _behind_link(self.path) from error
        except OSError as error:
            raise AccessFailed(
                f"the folder of {self.path} cannot be opened: {error.strerror}",
                suggestion="Give this user permission to enter it.",
                details={"path": self.path},
            ) from error

    temporary_name = staticmethod(temporary_name)

    @property
    def exists(self) -> bool:
        """Whether there was a file."""
        return self.status is not None

    @property
    def mode(self) -> int | None:
        """Its permissions."""
        return stat.S_IMODE(self.status.st_mode) if self.status else None

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    @property
    def is_overwritten_in_place(self) -> bool:
        """Whether the file keeps its place on the disk: for its other names or owner, or its closed folder."""
        if self.status is None:
            return False
        if self.status.st_nlink > 1 or not self.may_replace:
            return True
        return hasattr(os, "geteuid") and os.geteuid() not in {0, self.status.st_uid}

    def check_may_write(self) -> None:
        """Refuse a write-protected file: replacing it would bypass the protection. Raises: WriteFailed."""
        if self.status is not None and not self.may_write:
            raise WriteFailed(
                f"{self.path} is write-protected; nothing was written",
                suggestion="Ask the user whether it may be changed; they can make it writable.",
                details={"path": self.path},
            )

    def check_unchanged(self) -> None:
        """Refuse a file that is no longer the one that was read, or no longer in its place.

        Raises: StaleFile, InvalidPath.
        """
        status = None
        is_gone = suppress(FileNotFoundError, NotADirectoryError)
        with _translate_errors(self.path), is_gone, self.folder.enter() as folder:
            status = folder.stat(self.name)
        if _identity_and_time(status) != _identity_and_time(self.status):
            raise _stale(self.path, f"{self.path} has just been changed by another program")

    # -- replacing it --

    def stage(self, data: bytes, temporary: str, *, flush: bool, mode: int | None = None) -> None:
        """Write the new content next to the file, under a temporary name, with the owner and mode of the file.

        `mode` is for a new file that existed before. Raises: WriteFailed.
        """
        with _translate_errors(self.path), self.folder.open() as folder:

            def finish(descriptor: int) -> None:
                if self.status is not None:
                    _copy_metadata(descriptor, folder, temporary, self)
                elif mode is not None:
                    _set_mode(descriptor, folder, temporary, mode)

            is_new = not self.exists and mode is None
            folder.create(temporary, data, 0o666 if is_new else 0o600, finish, flush=flush)

    def put(self, temporary: str) -> None:
        """Rename the staged content onto the file; a new file never replaces one that has appeared meanwhile.

        Raises: WriteFailed, StaleFile.
        """
        with _translate_errors(self.path), self.folder.open() as folder:
            if self.exists:
                folder.rename(temporary, self.name)
                return
            try:
                is_new = folder.rename_new(temporary, self.name)
            except OSError:  # a file system without hard links
                folder.rename(temporary, self.name)
                is_new = True
            if not is_new:
                raise StaleFile(
                    f"{self.path} has just been made by another program; nothing was written",
                    suggestion="Read it, then decide whether to overwrite it.",
                    details={"path": self.path},
                )

    def write_over(self, data: bytes, *, flush: bool) -> None:
        """Overwrite the file in place. What does not fit on the disk fails before a byte of the old content is lost.

        Raises: WriteFailed; then the old content is back, unless the disk refuses that too. StaleFile when it is
        another file.
        """
        with _translate_errors(self.path), self.folder.open() as folder:
            descriptor = folder.open(self.name, os.O_WRONLY)
            try:
                self.check_same(os.fstat(descriptor))
                try:
                    os.lseek(descriptor, len(self.data), os.SEEK_SET)
                    write_all(descriptor, data[len(self.data) :])
                    _overwrite(descriptor, data[: len(self.data)], len(data))
                    if flush:
                        os.fsync(descriptor)
                except OSError:
                    _overwrite(descriptor, self.data, len(self.data))
                    raise
            finally:
                os.close(descriptor)

    def is_torn(self, old: bytes, new: bytes) -> bool:
        """Return whether the file is what a crash leaves of `write_over`: each byte is the old or new one there."""
        data = self.data
        if not min(len(old), len(new)) <= len(data) <= max(len(old), len(new)):
            return False
        return all(data[at : at + 1] in (old[at : at + 1], new[at : at + 1]) for at in range(len(data)))

    def check_same(self, status: os.stat_result) -> None:
        """Refuse an open file that is not the one that was read. Raises: StaleFile."""
        if self.status is None or (status.st_dev, status.st_ino) != (self.status.st_dev, self.status.st_ino):
            raise _stale(self.path, f"{self.path} has just been exchanged")

    def remove(self) -> None:
        """Delete the file. Raises: WriteFailed."""
        with _translate_errors(self.path), self.folder.open() as folder:
            folder.unlink(self.name)

    def is_staged(self, temporary: str) -> bool:
        """Return whether the staged content still exists as another file, so that it never took its place."""
        try:
            with self.folder.open() as folder:
                return bool(temporary) and not os.path.samestat(folder.stat(temporary), folder.stat(self.name))
        except (OSError, StaleFile):
            return False

    def discard(self, temporary: str) -> None:
        """Delete the staged content, if there is any."""
        if is_temporary(temporary) and os.path.basename(temporary) == temporary:
            with suppress(OSError, StaleFile), self.folder.open() as folder:  # it was renamed, or never made
                folder.unlink(temporary)


def encode_as(path: str, text: str, old: bytes | None) -> bytes:
    """Return a new text for a file as bytes. An existing file keeps its encoding, byte order mark and line ends.

    Raises: BinaryFile when the old content is not text, WrongEncoding when its encoding lacks a character.
    """
    if old and (why := file_reader.why_binary(old)):
        raise BinaryFile(
            f"{path} is not text: {why}; nothing was written", suggestion="Choose another name.", details={"path": path}
        )
    before = decode(old or b"")
    if before.bom:
        text = text.removeprefix("\ufeff")
    if "\r" not in text and (pairs := before.text.count("\r\n")) and pairs == before.text.count("\n"):
        text = text.replace("\n", "\r\n")
    return before.bom + encode(text, before.encoding, path)


# -- folders -----------------------------------------------------------------------------------------------------------


@contextmanager
def keep_open(files: Sequence[TargetFile]) -> Generator[None]:
    """Keep the folders of some files open until the block ends, each opened once; of very many only the first ones.

    Raises: WriteFailed, StaleFile, InvalidPath.
    """
    opened: dict[str, OpenFolder] = {}
    try:
        for file in files:
            if file.folder.path not in opened and len(opened) < FOLDERS_OPEN_MAX:
                with _translate_errors(file.path):
                    opened[file.folder.path] = file.folder.enter()
            file.folder.opened = opened.get(file.folder.path)
        yield
    finally:
        for file in files:
            file.folder.opened = None
        for folder in opened.values():
            folder.close()


class FolderWriter:
    """Makes and removes folders of one workspace. Paths are relative to its root."""

    def __init__(self, root: Root) -> None:
        self._root = root.confined

    def missing(self, path: str) -> tuple[str, ...]:
        """Return the folders that a new file needs and that do not exist yet, outermost first."""
        parts = path.split("/")[:-1]
        needed = ("/".join(parts[: count + 1]) for count in range(len(parts)))
        return tuple(folder for folder in needed if not self._exists(folder))

    def _exists(self, path: str) -> bool:
        try:
            self._root.open_folder(path).close()
        except OSError:
            return False
        return True

    def make(self, folders: Iterable[str]) -> None:
        """Make folders, in their order. Raises: WriteFailed; InvalidPath for one that leads out of the root by now."""
        for path in folders:
            with _translate_errors(path):
                self._root.make_folders(path)

    def remove(self, folders: Iterable[str]) -> None:
        """Remove the empty ones of these folders, the innermost first."""
        for path in sorted(folders, key=len, reverse=True):
            with suppress(OSError):  # it is in use by now
                self._root.remove_folder(path)

    def flush(self, files: Iterable[TargetFile], made: Iterable[str] = ()) -> None:
        """Make the names of new files and folders survive a power cut, where the system can.

        Raises: WriteFailed.
        """
        parents = [ParentFolder(self._root, path.rpartition("/")[0]) for path in made]
        _flush_folders([*parents, *(file.folder for file in files)])


def _flush_folders(folders: Iterable[ParentFolder]) -> None:
    for parent in {folder.path: folder for folder in folders}.values():
        with _translate_errors(parent.path), parent.open() as folder:
            try:
                folder.flush()
            except OSError as error:
                if error.errno not in _NOT_SUPPORTED:  # the file is written even where folders cannot be flushed
                    raise


# -- one file anywhere -------------------------------------------------------------------------------------------------


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file anywhere on the disk, whole or not at all. Its mode and a link to it are kept.

    A repository may contain a link that leads out of its work tree: such a link is not followed.

    Raises: InvalidPath (such a link), WriteFailed (closed, no room, or no such folder); the old file is whole then.
    """
    target = os.path.realpath(path)
    top = _enclosing_workspace(os.path.dirname(os.path.abspath(path)))
    if top and not is_within(target, top):
        raise InvalidPath(
            f"{os.fspath(path)} is behind a link that leads out of {top}; nothing was written",
            suggestion="Remove the link, or name a file elsewhere.",
            details={"path": os.fspath(path)},
        )
    folder, name = os.path.split(target)
    if not top:  # in a workspace a file of such a name may be the user's
        ConfinedFolder(folder).sweep(depth=0)
    file = TargetFile(name, target, ParentFolder(ConfinedFolder(folder), ""))
    temporary = temporary_name()
    try:
        with _translate_errors(name), file.folder.open() as opened, suppress(FileNotFoundError):
            file = replace(file, status=opened.stat(name))
        file.stage(data, temporary, flush=True)
        with _translate_errors(name), file.folder.open() as opened:
            opened.rename(temporary, name)
        _flush_folders([file.folder])
    except BaseException:
        file.discard(temporary)
        raise


def _enclosing_workspace(folder: str) -> str:
    """Return the nearest folder, at or above this one, that is a work tree or has our state; empty without one."""
    while not any(os.path.lexists(os.path.join(folder, name)) for name in (".git", ".context-engine")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


# -- the system calls --------------------------------------------------------------------------------------------------


def _is_allowed(folder: OpenFolder, name: str, access: int) -> bool:
    """Return whether the system allows an access, judged by the rights of the effective user."""
    is_effective = os.access in os.supports_effective_ids
    return os.access(folder.name_of(name), access, dir_fd=folder.descriptor, effective_ids=is_effective)


def _identity_and_time(status: os.stat_result | None) -> tuple[int, int, int] | None:
    if status is None:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _overwrite(descriptor: int, data: bytes, size: int) -> None:
    """Write bytes over the beginning of an open file, and give it a size."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    write_all(descriptor, data)
    os.ftruncate(descriptor, size)


def _copy_metadata(descriptor: int, folder: OpenFolder, temporary: str, file: TargetFile) -> None:
    """Give the new file the owner, mode and attributes of the old one, as far as the system allows."""
    assert file.status
    if hasattr(os, "fchown"):
        with suppress(PermissionError):  # a group that this user is not in
            os.fchown(descriptor, file.status.st_uid, file.status.st_gid)
    _set_mode(descriptor, folder, temporary, stat.S_IMODE(file.status.st_mode))
    if hasattr(os, "listxattr"):
        _copy_attributes(descriptor, folder, file)


def _copy_attributes(descriptor: int, folder: OpenFolder, file: TargetFile) -> None:
    """Copy extended attributes, among which are access lists. Some belong to the system and cannot be set."""
    refusals = {*_NOT_SUPPORTED, errno.EPERM, errno.EACCES}
    try:
        old = folder.open(file.name, os.O_RDONLY)
    except OSError:
        return
    try:
        file.check_same(os.fstat(old))
        for name in os.listxattr(old):
            try:
                os.setxattr(descriptor, name, os.getxattr(old, name))
            except OSError as error:
                if error.errno not in {*refusals, errno.ENODATA}:
                    raise
    except OSError as error:
        if error.errno not in refusals:
            raise
    finally:
        os.close(old)


def _set_mode(descriptor: int, folder: OpenFolder, temporary: str, mode: int) -> None:
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)
    else:
        os.chmod(folder.name_of(temporary), mode)


@contextmanager
def _translate_errors(path: str) -> Generator[None]:
    """Turn errors of the operating system into errors of this package."""
    try:
        yield
    except UnsafePathError as error:
        raise _behind_link(path) from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            why, reason = "no room left on the disk", "disk_full"
            suggestion = "Free some space; the file is as it was."
        else:
            why, reason = error.strerror or str(error), "refused"
            suggestion = "Check that its folder exists and may be written; the file is as it was."
        raise WriteFailed(
            f"{path} cannot be written: {why}", suggestion=suggestion, details={"path": path, "reason": reason}
        ) from error


def _behind_link(path: str) -> InvalidPath:
    return InvalidPath(
        f"a folder of {path} is a link by now; nothing was written",
        suggestion="Name a file inside the workspace.",
        details={"path": path},
    )


def _stale(path: str, what: str) -> StaleFile:
    suggestion = "Read it again, then repeat the call."
    return StaleFile(f"{what}; nothing was written", suggestion=suggestion, details={"path": path})
