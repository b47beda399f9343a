"""The only place that writes the user's files: whole or not at all. Everybody sees the old content or the new one.

A file is written beside its target, made to look like it (owner, mode, extended attributes), flushed, and renamed onto it.
Where that would cost a hard link or the owner, or the folder is closed, it is written over in place: what a crash leaves
then is for the journal to mend. Who may write when, and what is written, is decided elsewhere (`edit.apply`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from context_engine.errors import InvalidPath, StaleFile, TooLarge, WriteFailed
from context_engine.model import RelPath
from context_engine.workspace import files
from context_engine.workspace.paths import Root

TEMPORARY_PREFIX = ".ctx-"
"""How the files begin that are written beside their targets; the walk passes over what a crash leaves of them."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_SUCH_THING = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What file systems answer that know no hard links, extended attributes or flushing of folders."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was when it was read. `status` is None, and `data` empty, where there is none yet."""

    path: str
    target: str  # absolute, no link in it
    data: bytes = b""
    status: os.stat_result | None = None

    @property
    def exists(self) -> bool:
        """Whether there was a file."""
        return self.status is not None

    @property
    def mode(self) -> int | None:
        """Its permissions."""
        return None if self.status is None else stat.S_IMODE(self.status.st_mode)

    @property
    def folder(self) -> str:
        """Where it lies, absolute."""
        return os.path.dirname(self.target)

    def beside(self, name: str) -> str:
        """Another name in its folder, absolute."""
        return os.path.join(self.folder, name)


# -- looking ------------------------------------------------------------------------------------------------------------


def look(root: Root, path: RelPath, *, bytes_max: int) -> Seen:
    """Read a file that is to be written; one that does not exist is no error.

    Raises: InvalidPath, AccessFailed, TooLarge.
    """
    target = os.fspath(root.absolute(path))
    if not os.path.lexists(target):
        return Seen(path, target)
    try:
        data, status = files.contents(root, path, bytes_max=bytes_max)
    except TooLarge as error:
        raise TooLarge(
            error.message, suggestion="Change it with a program made for files of that size.", details=error.details
        ) from None
    return Seen(path, target, data, status)


def check_may_write(seen: Seen) -> None:
    """Refuse a file that is write-protected: replacing it would bypass that. Raises: WriteFailed."""
    if seen.status is None or (seen.status.st_mode & 0o222 and _may(seen.target, os.W_OK)):
        return
    raise WriteFailed(
        f"{seen.path} is write-protected; nothing was written",
        suggestion="Ask the user whether it may be changed; they can make it writable.",
        details={"path": seen.path},
    )


def check_unchanged(root: Root, seen: Seen) -> None:
    """Refuse a file that is no longer the one that was read. Raises: StaleFile, InvalidPath."""
    if _mark(_status(seen.target)) != _mark(seen.status):
        raise StaleFile(
            f"{seen.path} was changed by somebody else in this moment; nothing was written",
            suggestion="Read it again, then repeat the call.",
            details={"path": seen.path},
        )
    if not root.contains(os.path.realpath(seen.folder)):
        raise InvalidPath(f"{seen.path} leads out of the workspace by now", suggestion="Name a file inside it.")


def _status(target: str) -> os.stat_result | None:
    with _told(target):
        try:
            return os.stat(target, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _mark(status: os.stat_result | None) -> tuple[int, int, int] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def is_written_over(seen: Seen) -> bool:
    """Whether a file keeps its place on the disk: for its other names, for its owner, or because its folder is closed."""
    if seen.status is None:
        return False
    if seen.status.st_nlink > 1 or not _may(seen.folder, os.W_OK | os.X_OK):
        return True
    return hasattr(os, "geteuid") and os.geteuid() not in {0, seen.status.st_uid}


# -- writing ------------------------------------------------------------------------------------------------------------


def temporary() -> str:
    """A name nobody has, for what lies beside a file until it is renamed onto it."""
    return f"{TEMPORARY_PREFIX}{os.urandom(6).hex()}.tmp"


def missing_folders(root: Root, path: str) -> tuple[str, ...]:
    """The folders a new file needs that are not there yet: relative to the root, outermost first."""
    parts = path.split("/")[:-1]
    needed = ("/".join(parts[: count + 1]) for count in range(len(parts)))
    return tuple(folder for folder in needed if not os.path.isdir(root.absolute(folder)))


def make_folders(root: Root, folders: Iterable[str]) -> None:
    """Make folders, in their order. Raises: WriteFailed, InvalidPath when one of them leads out of the root by now."""
    for folder in folders:
        with _told(folder), suppress(FileExistsError):  # somebody else made it in this moment
            os.mkdir(root.absolute(folder))
        if not root.contains(os.path.realpath(root.absolute(folder))):
            raise InvalidPath(f"{folder} leads out of the workspace by now", suggestion="Name a file inside it.")


def remove_folders(root: Root, folders: Iterable[str]) -> None:
    """Remove those of these folders that are empty, the innermost first."""
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(OSError):  # somebody uses it by now
            os.rmdir(root.absolute(folder))


def stage(seen: Seen, data: bytes, temp: str, *, flush: bool) -> None:
    """Write the new content beside the file, under the name `temp`, and make it look like the file. Raises: WriteFailed."""
    with _told(seen.path):
        beside = seen.beside(temp)
        descriptor = os.open(beside, _NEW | _SAFE, 0o600 if seen.exists else 0o666)
        try:
            _write_all(descriptor, data)
            if seen.status is not None:
                _dress(descriptor, beside, seen.target, seen.status)
            if flush:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def put(seen: Seen, temp: str, *, mode: int | None = None) -> None:
    """Rename what was written beside a file onto it; a new file never onto one that has appeared meanwhile.

    `mode`: for a new file that was there before. Raises: WriteFailed, StaleFile.
    """
    beside = seen.beside(temp)
    with _told(seen.path):
        if seen.exists:
            os.replace(beside, seen.target)
            return
        if mode is not None:
            os.chmod(beside, mode)
        try:
            _put_new(beside, seen.target)
        except FileExistsError:
            raise StaleFile(
                f"{seen.path} was made by somebody else in this moment; nothing was written",
                suggestion="Read it, then decide whether to overwrite it.",
                details={"path": seen.path},
            ) from None


def _put_new(temp: str, target: str) -> None:
    if os.name == "nt":
        os.rename(temp, target)  # refuses to replace, there
        return
    try:
        os.link(temp, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.replace(temp, target)
    else:
        os.unlink(temp)


def write_over(seen: Seen, data: bytes, *, flush: bool) -> None:
    """Write over a file in place. What does not fit on the disk is noticed before a byte of the old content is lost.

    Raises: WriteFailed; the old content is back then, unless the disk refuses that, too.
    """
    with _told(seen.path):
        descriptor = os.open(seen.target, os.O_WRONLY | _SAFE)
        try:
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


def is_torn(data: bytes, old: bytes, new: bytes) -> bool:
    """Whether a file is what a crash leaves of `write_over`: each byte is the old or the new one of its place.

    >>> is_torn(b"ned text", b"old text", b"new text.."), is_torn(b"neX text", b"old text", b"new text..")
    (True, False)
    """
    if not min(len(old), len(new)) <= len(data) <= max(len(old), len(new)):
        return False
    return all(data[at : at + 1] in (old[at : at + 1], new[at : at + 1]) for at in range(len(data)))


def remove(seen: Seen) -> None:
    """Delete a file. Raises: WriteFailed."""
    with _told(seen.path):
        os.unlink(seen.target)


def lies_beside(seen: Seen, temp: str) -> bool:
    """Whether what was written beside a file is still there and another file, so that it never took its place."""
    try:
        return bool(temp) and not os.path.samefile(seen.beside(temp), seen.target)
    except OSError:
        return False


def discard(seen: Seen, temp: str) -> None:
    """Delete what was written beside a file and is not wanted any more."""
    if temp.startswith(TEMPORARY_PREFIX) and os.path.basename(temp) == temp:
        with suppress(OSError):  # it was renamed, or never made
            os.unlink(seen.beside(temp))


def flush_folders(folders: Iterable[str]) -> None:
    """Make new names survive a power cut, where the system can. Raises: WriteFailed."""
    if os.name != "posix":
        return
    for folder in set(folders):
        with _told(folder):
            descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in _NO_SUCH_THING:  # some file systems cannot; the file is written all the same
                    raise
            finally:
                os.close(descriptor)


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write one file of any place, whole or not at all. Its mode and a link to it are kept.

    Raises: WriteFailed (closed, no room, or no such folder); the old file is whole then.
    """
    target = os.path.realpath(path)
    seen = Seen(os.path.basename(target), target, status=_status(target))
    temp = temporary()
    try:
        stage(seen, data, temp, flush=True)
        with _told(seen.path):
            os.replace(seen.beside(temp), target)
        flush_folders([seen.folder])
    except BaseException:
        discard(seen, temp)
        raise


def _may(path: str, what: int) -> bool:
    """Whether the system will let us, judged by the rights that we act with."""
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


# -- the system calls -----------------------------------------------------------------------------------------------------


def _write_all(descriptor: int, data: bytes, *, at: int = 0) -> None:
    os.lseek(descriptor, at, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _dress(descriptor: int, temp: str, target: str, like: os.stat_result) -> None:
    """Give the new file what makes the old one what it is, as far as the system lets us."""
    if hasattr(os, "fchown"):
        with suppress(PermissionError):  # a group that this user is not in
            os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
    else:
        os.chmod(temp, stat.S_IMODE(like.st_mode))
    if hasattr(os, "listxattr"):
        _copy_attributes(descriptor, target)


def _copy_attributes(descriptor: int, target: str) -> None:
    """Extended attributes; access lists are among them. Some belong to the system and cannot be set."""
    try:
        names = os.listxattr(target, follow_symlinks=False)
    except OSError:
        return
    for name in names:
        try:
            os.setxattr(descriptor, name, os.getxattr(target, name, follow_symlinks=False))
        except OSError as error:
            if error.errno not in {*_NO_SUCH_THING, errno.EPERM, errno.EACCES, errno.ENODATA}:
                raise


@contextmanager
def _told(path: str) -> Generator[None]:
    """Turn what the operating system says into our words."""
    try:
        yield
    except OSError as error:
        room = error.errno in _NO_ROOM
        raise WriteFailed(
            f"{path} cannot be written: {'no room left on the disk' if room else error.strerror or error}",
            suggestion="Free some space; the file is as it was."
            if room
            else "Check that its folder exists and may be written; the file is as it was.",
            details={"path": path, "reason": "disk_full" if room else "refused"},
        ) from error
