"""The only place that writes the user's files: whole or not at all. Everybody sees the old content or the new one.

A file is written next to its target, made to look like it (owner, mode, extended attributes), flushed, and renamed onto
it. Where that would cost a hard link or the owner, or the folder is closed, it is written over in place: what a crash
leaves then is for the journal to repair. Who may write when, and what is written, is decided elsewhere (`edit.apply`).

Every name is used relative to its folder, which is opened beneath the root through no link and must be the folder that
was looked at. A transaction keeps the folders open (`Holding`), so that it finds its temporary files again when a
folder is renamed meanwhile (decision 0049).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Self

from context_engine.errors import AccessFailed, InvalidPath, StaleFile, TooLarge, WriteFailed
from context_engine.model import RelPath
from context_engine.repo import file_reader
from context_engine.repo.executables import is_within
from context_engine.repo.paths import Root
from context_engine.storage import ConfinedFolder, OpenFolder, UnsafePathError

TEMPORARY_PREFIX = ".ctx-"
"""How the files begin that are written beside their targets; the walk passes over what a crash leaves of them."""

FOLDERS_HELD_MAX = 64
"""Open at once for one transaction: a quarter of what a process may have open on macOS."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_SUCH_THING = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What file systems answer that know no hard links, extended attributes or flushing of folders."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class TargetFolder:
    """The folder of a file.

    Opened for each use, or kept open by `Holding`; `identity` is None while it does not exist.
    """

    __slots__ = ("_root", "held", "identity", "way")

    def __init__(self, root: ConfinedFolder, way: str, identity: tuple[int, int] | None = None) -> None:
        self._root = root
        self.way = way
        self.identity = identity
        self.held: OpenFolder | None = None

    @contextmanager
    def open(self) -> Generator[OpenFolder]:
        """The folder, open. Raises: OSError; StaleFile when another folder has its name by now."""
        if self.held is not None:
            yield self.held
            return
        with self.enter() as folder:
            yield folder

    def enter(self) -> OpenFolder:
        """Open the folder that has the name now, if it is the one that was looked at. Raises: as `open`."""
        folder = self._root.open_folder(self.way)
        try:
            if self.identity is None:
                self.identity = folder.identity()
            elif folder.identity() != self.identity:
                raise StaleFile(
                    f"another folder is called {self.way} by now; nothing was written",
                    suggestion="Read the file again, then repeat the call.",
                    details={"path": self.way},
                )
        except BaseException:
            folder.close()
            raise
        return folder


@dataclass(frozen=True, slots=True)
class FileStamp:
    """A file as it was when it was read. `status` is None, and `data` empty, where there is none yet.

    `may_write`: it is not protected. `may_replace`: names in its folder may be exchanged.
    """

    path: str
    target: str  # absolute, no link in it
    place: TargetFolder
    data: bytes = b""
    status: os.stat_result | None = None
    may_write: bool = True
    may_replace: bool = True

    @property
    def exists(self) -> bool:
        """Whether there was a file."""
        return self.status is not None

    @property
    def mode(self) -> int | None:
        """Its permissions."""
        return None if self.status is None else stat.S_IMODE(self.status.st_mode)

    @property
    def name(self) -> str:
        """What it is called in its folder."""
        return self.path.rpartition("/")[2]


class Holding:
    """The folders of one transaction, each opened once and kept open until its end. Of very many the first ones."""

    def __init__(self) -> None:
        self._folders: dict[str, OpenFolder] = {}
        self._places: list[TargetFolder] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for place in self._places:
            place.held = None
        for folder in self._folders.values():
            folder.close()

    def add(self, seen: FileStamp) -> None:
        """Keep the folder of a file open. Raises: WriteFailed, StaleFile, InvalidPath."""
        place = seen.place
        if place.held is not None or len(self._folders) >= FOLDERS_HELD_MAX:
            return
        with _translate_errors(seen.path):
            if place.way not in self._folders:
                self._folders[place.way] = place.enter()
        place.held = self._folders[place.way]
        self._places.append(place)


# -- looking -----------------------------------------------------------------------------------------------------------


def look(root: Root, path: RelPath, *, bytes_max: int) -> FileStamp:
    """Read a file that is to be written; one that does not exist is no error.

    Raises: InvalidPath, AccessFailed, TooLarge.
    """
    return look_again(unseen(root, path), bytes_max=bytes_max)


def unseen(root: Root, path: str) -> FileStamp:
    """A file that was not looked at yet."""
    return FileStamp(path, os.fspath(root.absolute(path)), TargetFolder(root.confined, path.rpartition("/")[0]))


def look_again(seen: FileStamp, *, bytes_max: int) -> FileStamp:
    """Read a file once more, in the folder where it was. Raises: as `look`."""
    path, place = seen.path, seen.place
    try:
        with place.open() as folder:
            try:
                folder.stat(seen.name)
            except FileNotFoundError:
                return replace(seen, data=b"", status=None)
            data, status = file_reader.contents_in(folder, seen.name, path, bytes_max=bytes_max)
            return replace(
                seen,
                data=data,
                status=status,
                may_write=bool(status.st_mode & 0o222) and _may(folder, seen.name, os.W_OK),
                may_replace=_may(folder, os.curdir, os.W_OK | os.X_OK),
            )
    except TooLarge as error:
        raise TooLarge(
            error.message, suggestion="Change it with a program made for files of that size.", details=error.details
        ) from None
    except (FileNotFoundError, NotADirectoryError):  # no folder yet
        return replace(seen, data=b"", status=None)
    except UnsafePathError as error:
        raise _led_out(path) from error
    except OSError as error:
        raise AccessFailed(
            f"the folder of {path} cannot be opened: {error.strerror}",
            suggestion="Give this user permission to enter it.",
            details={"path": path},
        ) from error


def check_may_write(seen: FileStamp) -> None:
    """Refuse a file that is write-protected: replacing it would bypass that. Raises: WriteFailed."""
    if seen.status is None or seen.may_write:
        return
    raise WriteFailed(
        f"{seen.path} is write-protected; nothing was written",
        suggestion="Ask the user whether it may be changed; they can make it writable.",
        details={"path": seen.path},
    )


def check_unchanged(seen: FileStamp) -> None:
    """Refuse a file that is no longer the one that was read, or no longer where it was.

    Raises: StaleFile, InvalidPath.
    """
    with _translate_errors(seen.path):
        try:
            with seen.place.enter() as folder:
                status = folder.stat(seen.name)
        except (FileNotFoundError, NotADirectoryError):
            status = None
    if _mark(status) != _mark(seen.status):
        raise StaleFile(
            f"{seen.path} was changed by somebody else in this moment; nothing was written",
            suggestion="Read it again, then repeat the call.",
            details={"path": seen.path},
        )


def _mark(status: os.stat_result | None) -> tuple[int, int, int] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def is_written_over(seen: FileStamp) -> bool:
    """Whether a file keeps its place on the disk: for its other names, for its owner, or because its folder is closed."""
    if seen.status is None:
        return False
    if seen.status.st_nlink > 1 or not seen.may_replace:
        return True
    return hasattr(os, "geteuid") and os.geteuid() not in {0, seen.status.st_uid}


# -- writing -----------------------------------------------------------------------------------------------------------


def temporary() -> str:
    """A name nobody has, for what lies beside a file until it is renamed onto it."""
    return f"{TEMPORARY_PREFIX}{os.urandom(6).hex()}.tmp"


def missing_folders(root: Root, path: str) -> tuple[str, ...]:
    """The folders a new file needs that are not there yet: relative to the root, outermost first."""
    parts = path.split("/")[:-1]
    needed = ("/".join(parts[: count + 1]) for count in range(len(parts)))
    return tuple(folder for folder in needed if not _is_folder(root, folder))


def _is_folder(root: Root, way: str) -> bool:
    try:
        root.confined.open_folder(way).close()
    except OSError:
        return False
    return True


def make_folders(root: Root, folders: Iterable[str]) -> None:
    """Make folders, in their order. Raises: WriteFailed, InvalidPath when one of them leads out of the root by now."""
    for way in folders:
        above, _, name = way.rpartition("/")
        with (
            _translate_errors(way),
            root.confined.open_folder(above) as folder,
            suppress(FileExistsError),
        ):  # made in this moment
            os.mkdir(folder.name_of(name), dir_fd=folder.descriptor)


def remove_folders(root: Root, folders: Iterable[str]) -> None:
    """Remove those of these folders that are empty, the innermost first."""
    for way in sorted(folders, key=len, reverse=True):
        above, _, name = way.rpartition("/")
        with suppress(OSError), root.confined.open_folder(above) as folder:  # somebody uses it by now
            os.rmdir(folder.name_of(name), dir_fd=folder.descriptor)


def stage(seen: FileStamp, data: bytes, temp: str, *, flush: bool) -> None:
    """Write the new content beside the file, under the name `temp`, and make it look like the file.

    Raises: WriteFailed.
    """
    with _translate_errors(seen.path), seen.place.open() as folder:
        mode = 0o600 if seen.exists else 0o666
        descriptor = os.open(folder.name_of(temp), _NEW | _SAFE, mode, dir_fd=folder.descriptor)
        try:
            _write_all(descriptor, data)
            if seen.status is not None:
                _dress(descriptor, folder, temp, seen)
            if flush:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def put(seen: FileStamp, temp: str, *, mode: int | None = None) -> None:
    """Rename what was written beside a file onto it; a new file never onto one that has appeared meanwhile.

    `mode`: for a new file that was there before. Raises: WriteFailed, StaleFile.
    """
    with _translate_errors(seen.path), seen.place.open() as folder:
        if seen.exists:
            _rename(folder, temp, seen.name)
            return
        if mode is not None:
            _set_mode(folder, temp, mode)
        try:
            _put_new(folder, temp, seen.name)
        except FileExistsError:
            raise StaleFile(
                f"{seen.path} was made by somebody else in this moment; nothing was written",
                suggestion="Read it, then decide whether to overwrite it.",
                details={"path": seen.path},
            ) from None


def _rename(folder: OpenFolder, temp: str, name: str) -> None:
    os.replace(folder.name_of(temp), folder.name_of(name), src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)


def _put_new(folder: OpenFolder, temp: str, name: str) -> None:
    here = folder.descriptor
    if os.name == "nt":
        os.rename(folder.at(temp), folder.at(name))  # refuses to replace, there
        return
    try:
        os.link(folder.name_of(temp), folder.name_of(name), src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        _rename(folder, temp, name)
    else:
        os.unlink(folder.name_of(temp), dir_fd=here)


def write_over(seen: FileStamp, data: bytes, *, flush: bool) -> None:
    """Write over a file in place. What does not fit on the disk is noticed before a byte of the old content is lost.

    Raises: WriteFailed; the old content is back then, unless the disk refuses that, too. StaleFile, when it is another
    file.
    """
    with _translate_errors(seen.path), seen.place.open() as folder:
        descriptor = os.open(folder.name_of(seen.name), os.O_WRONLY | _NO_WAIT | _SAFE, dir_fd=folder.descriptor)
        try:
            _check_same(seen, os.fstat(descriptor))
            try:
                _write_all(descriptor, data[len(seen.data) :], at=len(seen.data))
                _write_all(descriptor, data[: len(seen.data)], at=0)
                os.ftruncate(descriptor, len(data))
                if flush:
                    os.fsync(descriptor)
            except OSError:
                _write_all(descriptor, seen.data, at=0)
                os.ftruncate(descriptor, len(seen.data))
                raise
        finally:
            os.close(descriptor)


def _check_same(seen: FileStamp, status: os.stat_result) -> None:
    """Refuse to write into another file than the one that was read. Raises: StaleFile."""
    if seen.status is None or (status.st_dev, status.st_ino) != (seen.status.st_dev, seen.status.st_ino):
        raise StaleFile(
            f"{seen.path} was exchanged in this moment; nothing was written",
            suggestion="Read it again, then repeat the call.",
            details={"path": seen.path},
        )


def is_torn(data: bytes, old: bytes, new: bytes) -> bool:
    """Whether a file is what a crash leaves of `write_over`: each byte is the old or the new one of its place.

    >>> is_torn(b"ned text", b"old text", b"new text.."), is_torn(b"neX text", b"old text", b"new text..")
    (True, False)
    """
    if not min(len(old), len(new)) <= len(data) <= max(len(old), len(new)):
        return False
    return all(data[at : at + 1] in (old[at : at + 1], new[at : at + 1]) for at in range(len(data)))


def remove(seen: FileStamp) -> None:
    """Delete a file. Raises: WriteFailed."""
    with _translate_errors(seen.path), seen.place.open() as folder:
        os.unlink(folder.name_of(seen.name), dir_fd=folder.descriptor)


def lies_beside(seen: FileStamp, temp: str) -> bool:
    """Whether what was written beside a file is still there and another file, so that it never took its place."""
    try:
        with seen.place.open() as folder:
            return bool(temp) and not os.path.samestat(folder.stat(temp), folder.stat(seen.name))
    except (OSError, StaleFile):
        return False


def discard(seen: FileStamp, temp: str) -> None:
    """Delete what was written beside a file and is not wanted any more."""
    if temp.startswith(TEMPORARY_PREFIX) and os.path.basename(temp) == temp:
        with suppress(OSError, StaleFile), seen.place.open() as folder:  # it was renamed, or never made
            os.unlink(folder.name_of(temp), dir_fd=folder.descriptor)


def flush_folders(seens: Iterable[FileStamp], made: Iterable[TargetFolder] = ()) -> None:
    """Make new names survive a power cut, where the system can: of files, and of folders. Raises: WriteFailed."""
    if os.name != "posix":
        return
    for place in {place.way: place for place in (*made, *(seen.place for seen in seens))}.values():
        with _translate_errors(place.way), place.open() as folder:
            descriptor = folder.open(os.curdir, os.O_RDONLY | _SAFE)
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in _NO_SUCH_THING:  # some file systems cannot; the file is written all the same
                    raise
            finally:
                os.close(descriptor)


def folders_above(root: Root, folders: Iterable[str]) -> list[TargetFolder]:
    """The folders in which these folders are."""
    return [TargetFolder(root.confined, way.rpartition("/")[0]) for way in folders]


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write one file of any place, whole or not at all. Its mode and a link to it are kept.

    A repository may have brought a link: one that leads out of the work tree that it lies in is not followed.

    Raises: InvalidPath (such a link), WriteFailed (closed, no room, or no such folder); the old file is whole then.
    """
    target = os.path.realpath(path)
    top = _workspace_around(os.path.dirname(os.path.abspath(path)))
    if top and not is_within(target, top):
        raise InvalidPath(
            f"{os.fspath(path)} is behind a link that leads out of {top}; nothing was written",
            suggestion="Remove the link, or name a file elsewhere.",
            details={"path": os.fspath(path)},
        )
    folder, name = os.path.split(target)
    seen = FileStamp(name, target, TargetFolder(ConfinedFolder(folder), ""))
    temp = temporary()
    try:
        with _translate_errors(name), seen.place.open() as opened, suppress(FileNotFoundError):
            seen = replace(seen, status=opened.stat(name))
        stage(seen, data, temp, flush=True)
        with _translate_errors(name), seen.place.open() as opened:
            _rename(opened, temp, name)
        flush_folders([seen])
    except BaseException:
        discard(seen, temp)
        raise


def _workspace_around(folder: str) -> str:
    """The nearest folder, at or above this one, that is a work tree or holds state of ours; empty without one."""
    while not any(os.path.lexists(os.path.join(folder, name)) for name in (".git", ".context-engine")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def _may(folder: OpenFolder, name: str, what: int) -> bool:
    """Whether the system will let us, judged by the rights that we act with."""
    by_rights = os.access in os.supports_effective_ids
    return os.access(folder.name_of(name), what, dir_fd=folder.descriptor, effective_ids=by_rights)


# -- the system calls --------------------------------------------------------------------------------------------------


def _write_all(descriptor: int, data: bytes, *, at: int = 0) -> None:
    os.lseek(descriptor, at, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _dress(descriptor: int, folder: OpenFolder, temp: str, seen: FileStamp) -> None:
    """Give the new file what makes the old one what it is, as far as the system lets us."""
    assert seen.status
    if hasattr(os, "fchown"):
        with suppress(PermissionError):  # a group that this user is not in
            os.fchown(descriptor, seen.status.st_uid, seen.status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(seen.status.st_mode))
    else:
        os.chmod(folder.name_of(temp), stat.S_IMODE(seen.status.st_mode))
    if hasattr(os, "listxattr"):
        _copy_attributes(descriptor, folder, seen)


def _copy_attributes(descriptor: int, folder: OpenFolder, seen: FileStamp) -> None:
    """Extended attributes; access lists are among them. Some belong to the system and cannot be set."""
    try:
        old = folder.open(seen.name, os.O_RDONLY | _NO_WAIT | _SAFE)
    except OSError:
        return
    try:
        _check_same(seen, os.fstat(old))
        for name in os.listxattr(old):
            _copy_attribute(old, descriptor, name)
    except OSError as error:
        if error.errno not in {*_NO_SUCH_THING, errno.EPERM, errno.EACCES}:
            raise
    finally:
        os.close(old)


def _copy_attribute(old: int, new: int, name: str) -> None:
    try:
        os.setxattr(new, name, os.getxattr(old, name))
    except OSError as error:
        if error.errno not in {*_NO_SUCH_THING, errno.EPERM, errno.EACCES, errno.ENODATA}:
            raise


def _set_mode(folder: OpenFolder, temp: str, mode: int) -> None:
    if not hasattr(os, "fchmod"):
        os.chmod(folder.name_of(temp), mode)
        return
    descriptor = folder.open(temp, os.O_RDONLY | _NO_WAIT | _SAFE)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


@contextmanager
def _translate_errors(path: str) -> Generator[None]:
    """Turn what the operating system says into our words."""
    try:
        yield
    except UnsafePathError as error:
        raise _led_out(path) from error
    except OSError as error:
        room = error.errno in _NO_ROOM
        raise WriteFailed(
            f"{path} cannot be written: {'no room left on the disk' if room else error.strerror or error}",
            suggestion="Free some space; the file is as it was."
            if room
            else "Check that its folder exists and may be written; the file is as it was.",
            details={"path": path, "reason": "disk_full" if room else "refused"},
        ) from error


def _led_out(path: str) -> InvalidPath:
    return InvalidPath(
        f"a folder of {path} is a link by now; nothing was written",
        suggestion="Name a file inside the workspace.",
        details={"path": path},
    )
