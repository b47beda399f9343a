"""Files beneath a folder, opened without leaving it: no content of a repository is a way to another place.

A `ConfinedFolder` trusts the folder that it was given and nothing beneath it: no symbolic link, no second name of files
(hard link); with `follow_links=True` only links that stay beneath it. Paths are relative, with `/`. Each part is opened
with `O_NOFOLLOW` relative to the one before, which is safe even when a folder is replaced meanwhile. Where a system
cannot do that (Windows) each part is checked before: weaker, for another process may replace one.

Every failure is an `OSError`. A path that must not be opened raises an `UnsafePathError`, whose `strerror` says why.

>>> import tempfile
>>> folder = ConfinedFolder(tempfile.mkdtemp())
>>> os.symlink("/etc", folder.path / "out")
>>> folder.read_bytes("out/passwd", bytes_max=100)
Traceback (most recent call last):
    ...
context_engine.storage.confined_folder.UnsafePathError: [Errno 40] is a symbolic link: 'out'
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Self

from context_engine.storage.private_files import PRIVATE_FOLDER, is_temporary, make_private_folder, temporary_name

ABANDONED_AFTER_S = 60.0
"""A killed process left it if it is this old: a live one renames its file at once, and its programs end in 20 s."""
FOLDER_DEPTH = 3
"""Nothing that we write is deeper: `plans/.trash/NAME/v0001.json`."""
LINKS_MAX = 40
"""The number of links that Linux follows in one path."""
SECOND_NAME_S = 0.02
"""How long a new file may keep the name it was written under, where a file system cannot rename without replacing."""

_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer must not block
_LISTED = os.O_RDONLY | _COMMON | getattr(os, "O_DIRECTORY", 0)
_ENTERED = _LISTED | getattr(os, "O_PATH", 0)  # with O_PATH a folder need not be readable
_RENAME_NO_REPLACE = 1


class UnsafePathError(OSError):
    """A path that must not be opened: a link, out of the folder, not a regular file, a hard link, or too large."""


class ConfinedFolder:
    """A folder, and what can be done with the files beneath it. Keeps nothing open; thread-safe.

    `follow_links=False` refuses every symbolic link beneath the folder, and every file with a second name.
    """

    __slots__ = ("_below", "_top", "follow_links")

    def __init__(self, path: str | os.PathLike[str], *, follow_links: bool = False) -> None:
        """Open nothing yet; the folder need not exist."""
        self._top = os.fspath(path)
        self._below = ""
        self.follow_links = follow_links

    def __repr__(self) -> str:
        return f"ConfinedFolder({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The folder's absolute path, for messages."""
        return Path(self._top, self._below)

    @property
    def top(self) -> Path:
        """The folder that is trusted: this one, or one above it."""
        return Path(self._top)

    def folder(self, relative: str) -> ConfinedFolder:
        """Return a folder beneath this one, which is no more trusted than a file there."""
        inner = ConfinedFolder(self._top, follow_links=self.follow_links)
        inner._below = self._full_path(relative)
        return inner

    # -- reading --

    def open(self, relative: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open a regular file and return its descriptor; `flags` may create it. Raises: OSError, UnsafePathError."""
        way = self._full_path(relative)
        descriptor = self._open_beneath(way, (flags & ~os.O_TRUNC) | _COMMON | _NO_WAIT, mode)
        try:
            self._check_file(way, descriptor)
            if flags & os.O_TRUNC:  # not before the check: it would empty the file that a second name leads to
                os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read_bytes(self, relative: str, *, bytes_max: int) -> bytes:
        """Return the content of a file. Its size is checked before it is read. Raises: OSError, UnsafePathError."""
        descriptor = self.open(relative)
        try:
            return _read(descriptor, os.fstat(descriptor).st_size, bytes_max, self._full_path(relative))
        finally:
            os.close(descriptor)

    def stat(self, relative: str = "") -> os.stat_result:
        """Return the status of a file, folder or link; a link at its end is not followed. Raises: OSError."""
        with self._parent(relative) as (folder, name):
            return folder.stat(name)

    def statuses(self, relative: str, names: Iterable[str]) -> list[os.stat_result]:
        """Return the status of a folder, then of each of these names in it; links are not followed. Raises: OSError."""
        with self.open_folder(relative) as folder:
            return [folder.stat(name) for name in (os.curdir, *names)]

    def check_file(self, relative: str) -> os.stat_result:
        """Return the status of a file without opening it, if it may be opened. Raises: OSError, UnsafePathError."""
        status = self.stat(relative)
        self._check_status(self._full_path(relative), status)
        return status

    def exists(self, relative: str = "") -> bool:
        """Return whether there is something of that name, a link included."""
        try:
            self.stat(relative)
        except OSError:
            return False
        return True

    @contextmanager
    def scan(self, relative: str = "") -> Generator[Iterator[os.DirEntry[str]]]:
        """List a folder; until the block ends its entries can report their kind and status. Raises: OSError."""
        with (
            self._enter(self._full_path(relative), _LISTED) as folder,
            os.scandir(folder.path if folder.descriptor is None else folder.descriptor) as found,
        ):
            yield found

    def open_folder(self, relative: str = "") -> OpenFolder:
        """Open a folder, to do several things in this very one; the caller closes it.

        Raises: OSError, UnsafePathError.
        """
        return self._enter(self._full_path(relative))

    # -- writing --

    def write_bytes(
        self,
        relative: str,
        data: bytes,
        *,
        replace: bool = True,
        flush: bool = False,
        mode: int = 0o666,
        owner: tuple[int, int] | None = None,
    ) -> bool:
        """Write a file as a whole or not at all. Return False where `replace=False` and a file of that name exists.

        The permissions of a file that is replaced are kept, else `mode` is used. `flush`: it survives a power cut;
        `owner`: the user and the group that it is given to. Raises: OSError, UnsafePathError.
        """

        def finish(descriptor: int) -> None:
            if owner and hasattr(os, "fchown"):
                with suppress(PermissionError):
                    os.fchown(descriptor, *owner)
            if before and hasattr(os, "fchmod"):
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))

        with self._parent(relative) as (folder, name):
            before: os.stat_result | None = None
            with suppress(FileNotFoundError):
                before = folder.stat(name)
            if before:
                self._check_status(self._full_path(relative), before)
                if not replace:
                    return False
            temporary = temporary_name()
            try:
                folder.create(temporary, data, mode, finish, flush=flush)
                if replace:
                    folder.rename(temporary, name)
                elif not folder.rename_new(temporary, name):
                    return False
            finally:
                with suppress(OSError):  # it has its name by now
                    folder.unlink(temporary)
            if flush:
                with suppress(OSError):  # some file systems cannot; the file is written all the same
                    folder.flush()
        return True

    def make_folders(self, relative: str = "", *, mode: int = 0o777, owner: tuple[int, int] | None = None) -> None:
        """Make a folder and those above it, the trusted one included. Raises: OSError, UnsafePathError."""
        way = self._full_path(relative)
        with suppress(FileNotFoundError), self._enter(way):
            return
        os.makedirs(self._top, exist_ok=True)
        above = ""
        for part in way.split("/") if way else ():
            with self._enter(above) as folder, suppress(FileExistsError):
                name = folder.name_of(part)
                os.mkdir(name, mode, dir_fd=folder.descriptor)
                if owner and hasattr(os, "chown"):
                    with suppress(PermissionError):
                        os.chown(name, *owner, dir_fd=folder.descriptor, follow_symlinks=False)
            above = f"{above}/{part}" if above else part
        self._enter(way).close()  # what was there already is a folder

    def unlink(self, relative: str) -> None:
        """Delete a file or a link, never the target of the link. Raises: OSError."""
        with self._parent(relative) as (folder, name):
            folder.unlink(name)

    def remove_folder(self, relative: str) -> None:
        """Delete an empty folder. Raises: OSError."""
        with self._parent(relative) as (folder, name):
            os.rmdir(folder.name_of(name), dir_fd=folder.descriptor)

    def remove_tree(self, relative: str) -> None:
        """Delete a folder with all that it contains; links are deleted, not followed. Raises: OSError."""
        with self.scan(relative) as found:
            inner = [(f"{relative}/{entry.name}", entry.is_dir(follow_symlinks=False)) for entry in found]
        for path, is_folder in inner:
            self.remove_tree(path) if is_folder else self.unlink(path)
        self.remove_folder(relative)

    @contextmanager
    def temporary_folder(self) -> Generator[Path]:
        """Make a folder that is deleted afterwards, or swept if this process is killed. Raises: OSError."""
        name = temporary_name()
        make_private_folder(self.path)
        self.make_folders(name, mode=PRIVATE_FOLDER)
        try:
            yield (self.path / name).resolve()
        finally:
            with suppress(OSError):
                self.remove_tree(name)

    def sweep(self, relative: str = "", *, depth: int = FOLDER_DEPTH) -> None:
        """Delete the temporary files and folders of killed processes in a folder of ours. It never fails."""
        before = time.time() - ABANDONED_AFTER_S
        with suppress(OSError), self.scan(relative) as found:
            for entry in found:
                path = f"{relative}/{entry.name}" if relative else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_temporary(entry.name) and (is_folder or entry.is_file(follow_symlinks=False)):
                    with suppress(OSError):  # another process was quicker
                        if entry.stat(follow_symlinks=False).st_mtime < before:
                            self.remove_tree(path) if is_folder else self.unlink(path)
                elif is_folder and depth:
                    self.sweep(path, depth=depth - 1)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder; a file of the new name is replaced. Raises: OSError."""
        with self._parent(old) as (source, old_name), self._parent(new) as (target, new_name):
            old_name, new_name = source.name_of(old_name), target.name_of(new_name)
            os.replace(old_name, new_name, src_dir_fd=source.descriptor, dst_dir_fd=target.descriptor)

    def flush(self, relative: str = "") -> None:
        """Make the names in a folder survive a power cut, where the system can. Raises: OSError."""
        with self.open_folder(relative) as folder, suppress(OSError):
            folder.flush()

    # -- what may be opened --

    def _full_path(self, relative: str) -> str:
        """Return the path beneath the trusted folder. Raises: UnsafePathError unless it is a plain relative path."""
        if not relative:
            return self._below
        parts = relative.split("/")
        odd = os.name == "nt" and ("\\" in relative or ":" in relative)
        if odd or "\0" in relative or "" in parts or "." in parts or ".." in parts:
            raise UnsafePathError(errno.EINVAL, "is not a plain relative path", relative)
        return f"{self._below}/{relative}" if self._below else relative

    def _open_beneath(self, way: str, flags: int, mode: int = 0o666) -> int:
        try:
            if not opens_relative():
                return os.open(_check_names(self._top, way, self.follow_links), flags, mode)
            if not way:
                return os.open(self._top, flags, mode)
            return _walk(os.open(self._top, _ENTERED), self._top, way, flags, mode, self.follow_links)
        except OSError as error:
            raise _explain_error(self._top, way, error, follow_links=self.follow_links) from None

    def _enter(self, way: str, flags: int = _ENTERED) -> OpenFolder:
        if opens_relative():
            return OpenFolder(os.path.join(self._top, way), self._open_beneath(way, flags))
        try:
            path = _check_names(self._top, way, self.follow_links)
            os.scandir(path).close()  # it is a folder
        except OSError as error:
            raise _explain_error(self._top, way, error, follow_links=self.follow_links) from None
        return OpenFolder(path, None)

    @contextmanager
    def _parent(self, relative: str) -> Generator[tuple[OpenFolder, str]]:
        """Yield the opened folder of a file, and the file's name in it."""
        above, _, name = self._full_path(relative).rpartition("/")
        with self._enter(above) as folder:
            yield folder, name or os.curdir

    def _check_file(self, way: str, descriptor: int) -> None:
        """Refuse anything but a regular file, and a second name of one. Raises: UnsafePathError."""
        status = os.fstat(descriptor)
        until = time.monotonic() + SECOND_NAME_S
        while status.st_nlink > 1 and not self.follow_links and time.monotonic() < until:
            time.sleep(SECOND_NAME_S / 10)  # it may be in the making, see `OpenFolder.rename_new`
            status = os.fstat(descriptor)
        self._check_status(way, status)

    def _check_status(self, way: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            reason = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.EINVAL
            raise UnsafePathError(reason, f"is {describe_kind(status.st_mode)}", way)
        if status.st_nlink > 1 and not self.follow_links:
            raise UnsafePathError(errno.EMLINK, "has a second name (a hard link)", way)


class OpenFolder:
    """An open folder: all operations happen in this very folder, even if another one has its name by now.

    `descriptor` is None where nothing can be opened relative to a folder. Calls that take a `dir_fd` get it and
    `name_of(name)`. No method follows a link. Raises: OSError.
    """

    __slots__ = ("descriptor", "path")

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self.descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; twice does no harm."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def name_of(self, name: str) -> str:
        """Return a name in this folder for a call that gets `descriptor` as its `dir_fd`."""
        return os.path.join(self.path, name) if self.descriptor is None else name

    def identity(self) -> tuple[int, int]:
        """Return device and number of the folder: the same as long as it is the same folder."""
        status = os.stat(self.path) if self.descriptor is None else os.fstat(self.descriptor)
        return status.st_dev, status.st_ino

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a name in it."""
        return os.stat(self.name_of(name), dir_fd=self.descriptor, follow_symlinks=False)

    def open(self, way: str, flags: int, mode: int = 0o666) -> int:
        """Open a file or folder beneath it, of any kind, and return its descriptor."""
        flags |= _COMMON | _NO_WAIT
        if self.descriptor is None:
            return os.open(_check_names(self.path, way, follow_links=False), flags, mode)
        parts = way.split("/")
        if ".." in parts or (len(parts) > 1 and "" in parts):
            raise UnsafePathError(errno.EINVAL, "is not a plain relative path", way)
        if len(parts) == 1:
            return os.open(way or ".", flags | _NO_LINK, mode, dir_fd=self.descriptor)
        return _walk(os.dup(self.descriptor), self.path, way, flags, mode, follow_links=False)

    def open_file(self, way: str) -> tuple[int, os.stat_result]:
        """Open a regular file beneath it for reading; return its descriptor and status.

        Raises: UnsafePathError for anything else, OSError.
        """
        descriptor = self.open(way, os.O_RDONLY)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return descriptor, status
        os.close(descriptor)
        raise UnsafePathError(errno.EINVAL, f"is {describe_kind(status.st_mode)}", way)

    def read_bytes(self, way: str, *, bytes_max: int) -> tuple[bytes, os.stat_result]:
        """Return the content of a file beneath it, and its status from just before. Raises: as `open_file`."""
        descriptor, status = self.open_file(way)
        try:
            return _read(descriptor, status.st_size, bytes_max, way), status
        finally:
            os.close(descriptor)

    def create(
        self, name: str, data: bytes, mode: int, finish: Callable[[int], None] | None = None, *, flush: bool
    ) -> None:
        """Write a new file. `finish` gets its descriptor at the end, before it is flushed."""
        descriptor = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            write_all(descriptor, data)
            if finish:
                finish(descriptor)
            if flush:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def unlink(self, name: str) -> None:
        """Delete a file or a link."""
        os.unlink(self.name_of(name), dir_fd=self.descriptor)

    def rename(self, old: str, new: str) -> None:
        """Rename a file; one of the new name is replaced."""
        here = self.descriptor
        os.replace(self.name_of(old), self.name_of(new), src_dir_fd=here, dst_dir_fd=here)

    def rename_new(self, old: str, new: str) -> bool:
        """Rename a file unless the new name exists: return False then."""
        here, old, new = self.descriptor, self.name_of(old), self.name_of(new)
        with suppress(FileExistsError):
            if os.name == "nt":
                os.rename(old, new)  # refuses to replace, there
                return True
            reason = errno.ENOSYS if here is None else _rename_call()(here, os.fsencode(old), os.fsencode(new))
            if reason in {errno.ENOSYS, errno.EINVAL, errno.EPERM}:  # a file system that cannot: two names for a moment
                os.link(old, new, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
                os.unlink(old, dir_fd=here)
            elif reason:
                raise OSError(reason, os.strerror(reason), new)
            return True
        return False

    def flush(self) -> None:
        """Make the names in it survive a power cut; some file systems cannot."""
        if os.name == "posix":
            descriptor = self.open(os.curdir, _LISTED)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}


def describe_kind(mode: int) -> str:
    """Return what a file system entry with this mode is, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "a device")


# -- two ways to resolve a path, the better first ----------------------------------------------------------------------


def opens_relative() -> bool:
    """Return whether this system can open a file relative to an open folder, which is the safer way."""
    return os.open in os.supports_dir_fd and bool(_NO_LINK)


def _walk(opened_top: int, top: str, way: str, flags: int, mode: int, follow_links: bool) -> int:
    """Open part by part, each relative to the folder before it and never through an unchecked link.

    `opened_top` is closed after it.
    """
    folders = [opened_top]  # from the top to the folder that was reached
    ahead = [*reversed(way.split("/"))]  # the parts that are left, the next one last
    links = 0
    try:
        while True:
            part = ahead.pop()
            if part == "..":  # only the target of a link has it
                if len(folders) == 1:
                    raise UnsafePathError(errno.EXDEV, "leads out of the folder", way)
                os.close(folders.pop())
                ahead = ahead or ["."]
                continue
            try:
                opened = os.open(part, (_ENTERED if ahead else flags) | _NO_LINK, mode, dir_fd=folders[-1])
            except OSError:
                target = _link_target(folders[-1], part)
                if target is None:
                    raise
                links += 1
                if not follow_links or links > LINKS_MAX or (not ahead and flags & _NO_LINK):
                    raise UnsafePathError(errno.ELOOP, "is a symbolic link", way) from None
                ahead.extend(reversed(_follow_link(folders, top, target, way)))
                continue
            if not ahead:
                return opened
            folders.append(opened)
    finally:
        for folder in folders:
            os.close(folder)


def _follow_link(folders: list[int], top: str, target: str, way: str) -> list[str]:
    """Return the parts of the target of a link; an absolute one begins at the top. Raises: UnsafePathError."""
    if os.path.isabs(target):
        for folder in (top, os.path.realpath(top)):
            if target == folder or target.startswith(os.path.join(folder, "")):
                target = target[len(folder) :]
                break
        else:
            raise UnsafePathError(errno.EXDEV, "leads out of the folder", way)
        while len(folders) > 1:
            os.close(folders.pop())
    return [part for part in target.split("/") if part not in {"", "."}] or ["."]


def _link_target(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _check_names(top: str, way: str, follow_links: bool) -> str:
    """Return the absolute path of something beneath a folder, without a link in it.

    For systems that cannot open relative to a folder: it is opened just after. Raises: OSError, UnsafePathError.
    """
    if follow_links:
        real, path = os.path.realpath(top), os.path.realpath(os.path.join(top, way))
        if path != real and not path.startswith(os.path.join(real, "")):
            raise UnsafePathError(errno.EXDEV, "leads out of the folder", way)
        return path
    path = top
    for part in way.split("/") if way else ():
        path = os.path.join(path, part)
        with suppress(FileNotFoundError):
            status = os.stat(path, follow_symlinks=False)
            # on Windows other names lead elsewhere, too
            if stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0):
                raise UnsafePathError(errno.ELOOP, "is a symbolic link", way)
    return path


def _explain_error(top: str, way: str, error: OSError, *, follow_links: bool) -> OSError:
    """Return the same error in plain words and with the part of the path that it is about."""
    if error.errno not in {errno.ELOOP, errno.EXDEV, errno.ENOTDIR, errno.ENXIO, errno.EISDIR, errno.EOPNOTSUPP}:
        return error
    parts, path = way.split("/"), top
    for count, part in enumerate(parts, 1):
        path, here = os.path.join(path, part), "/".join(parts[:count])
        try:
            status = os.stat(path, follow_symlinks=False)
        except OSError:
            break
        if stat.S_ISLNK(status.st_mode) and not follow_links:
            return UnsafePathError(errno.ELOOP, "is a symbolic link", here)
        if count < len(parts) and not stat.S_ISDIR(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            return NotADirectoryError(errno.ENOTDIR, f"is {describe_kind(status.st_mode)}, not a folder", here)
    else:
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            return UnsafePathError(errno.EINVAL, f"is {describe_kind(status.st_mode)}", way)
        if error.errno == errno.ENOTDIR:
            return NotADirectoryError(errno.ENOTDIR, "is a file, not a folder", way)
    if error.errno == errno.EXDEV:
        return UnsafePathError(errno.EXDEV, "leads out of the folder", way)
    if isinstance(error, UnsafePathError):
        return error
    return UnsafePathError(error.errno, error.strerror, way)


# -- the system calls -------------------------------------------------------------------------------------------------


def _read(descriptor: int, size: int, bytes_max: int, way: str) -> bytes:
    """Return the bytes of an open file, which had `size` bytes just before. Raises: OSError, UnsafePathError."""
    if size <= bytes_max:
        data = os.read(descriptor, size + 1)
        if len(data) != size:  # it grows, or does not say its size
            parts, rest = [data], bytes_max + 1 - len(data)
            while rest > 0 and (part := os.read(descriptor, min(rest, 1 << 20))):
                parts.append(part)
                rest -= len(part)
            data = b"".join(parts)
        if len(data) <= bytes_max:
            return data
        size = len(data)
    raise UnsafePathError(errno.EFBIG, f"has {size:,} bytes; the limit is {bytes_max:,}", way)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes at the place where an open file is. Raises: OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@cache
def _rename_call() -> Callable[[int, bytes, bytes], int]:
    """Return a function that renames in a folder without replacing; it returns an error number, 0 for none."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)

    def rename(parent: int, old: bytes, new: bytes) -> int:
        if call is None:
            return errno.ENOSYS
        return ctypes.get_errno() if call(parent, old, parent, new, _RENAME_NO_REPLACE) else 0

    return rename
