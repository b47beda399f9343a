"""Reads one file, once: its bytes, its text, and what can be said of both. Writes one file, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from context_engine.errors import AccessFailed, BinaryFile, DiskFull, FileNotFound, InvalidPath, TooLarge
from context_engine.model import RelPath, Skipped
from context_engine.workspace.paths import Root

SNIFF_BYTES = 8_192
"""Git, too, looks for a NUL in the first 8,000 bytes to tell binary from text."""
MINIFIED_BYTES_MIN = 10_000
MINIFIED_LINE_CHARS = 400
"""Hand-written files hardly average over 60 characters a line; bundlers and data dumps exceed 400."""

_BINARY_MAGIC = (b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x7fELF", b"\xca\xfe\xba\xbe", b"!<arch>")
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file for the index: `data` is `text` in UTF-8 without a byte order mark; `sha256` is of the bytes on the disk."""

    data: bytes
    text: str
    encoding: str
    size: int
    mtime_ns: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file read out. `encoding` names how it was decoded (`latin-1` is the last resort and never fails)."""

    path: RelPath
    text: str
    encoding: str
    size: int
    mtime_ns: int
    sha256: bytes


def load_for_index(path: str, *, bytes_max: int) -> Loaded | Skipped:
    """Read a file the walk has found; trouble is data: `vanished`, `unreadable`, `special`, `too_large`, `binary`,
    `minified`."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except FileNotFoundError:
        return Skipped(path, "vanished")
    except OSError as error:
        return Skipped(path, "unreadable", error.strerror or "")
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return Skipped(path, "special")
        if facts.st_size > bytes_max:
            return Skipped(path, "too_large", f"{facts.st_size} bytes")
        raw = _read_all(descriptor, facts.st_size)
    except OSError as error:
        return Skipped(path, "unreadable", error.strerror or "")
    finally:
        os.close(descriptor)
    if is_binary(raw):
        return Skipped(path, "binary")
    text, encoding, data = decode(raw)
    if is_minified(data):
        return Skipped(path, "minified", f"{len(data)} bytes in {data.count(10) + 1} lines")
    return Loaded(data, text, encoding, facts.st_size, facts.st_mtime_ns, hashlib.sha256(raw).digest())


def stamp(path: str) -> tuple[int, int] | None:
    """Size and mtime_ns of a file; None when it is not there."""
    try:
        facts = os.stat(path)
    except OSError:
        return None  # gone or closed: reading it will say which
    return facts.st_size, facts.st_mtime_ns


def read(root: Root, path: RelPath, *, bytes_max: int) -> SourceFile:
    """Read a file out for a caller.

    Raises FileNotFound, AccessFailed, BinaryFile, TooLarge (`details.size`), InvalidPath (not a regular file).
    """
    try:
        descriptor = os.open(root.absolute(path), _OPEN_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFound(f"no file {path}", suggestion="it may just have been deleted", details={"path": path}) from None
    except OSError as error:
        raise AccessFailed(f"{path} cannot be read: {error.strerror}", details={"path": path}) from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            kind = "a folder" if stat.S_ISDIR(facts.st_mode) else "no regular file"
            raise InvalidPath(f"{path} is {kind}", suggestion=f"list_directory {path!r}", details={"path": path})
        if facts.st_size > bytes_max:
            raise TooLarge(
                f"{path} has {facts.st_size:,} bytes, over the limit of {bytes_max:,}",
                suggestion="read a part of it: start_line and end_line",
                details={"path": path, "size": facts.st_size, "limit": bytes_max},
            )
        raw = _read_all(descriptor, facts.st_size)
    except OSError as error:
        raise AccessFailed(f"{path} cannot be read: {error.strerror}", details={"path": path}) from error
    finally:
        os.close(descriptor)
    if is_binary(raw):
        raise BinaryFile(f"{path} is binary", suggestion="only text can be read out", details={"path": path})
    text, encoding, _ = decode(raw)
    return SourceFile(path, text, encoding, facts.st_size, facts.st_mtime_ns, hashlib.sha256(raw).digest())


def _read_all(descriptor: int, size: int) -> bytes:
    """The whole file; it may have grown or shrunk since it was measured."""
    raw = os.read(descriptor, size + 1)
    if len(raw) == size:
        return raw
    parts = [raw]
    while len(raw) > 0 and sum(map(len, parts)) <= 2 * size + SNIFF_BYTES:
        raw = os.read(descriptor, 1 << 20)
        parts.append(raw)
    return b"".join(parts)


def is_binary(raw: bytes) -> bool:
    """Whether the bytes are no text: a NUL near the start (unless a UTF-16 mark explains it) or a known signature."""
    if raw.startswith(_BINARY_MAGIC):
        return True
    return b"\0" in raw[:SNIFF_BYTES] and not raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE))


def is_minified(data: bytes) -> bool:
    """Whether lines are so long that nobody wrote them by hand."""
    return len(data) >= MINIFIED_BYTES_MIN and len(data) > (data.count(10) + 1) * MINIFIED_LINE_CHARS


def decode(raw: bytes) -> tuple[str, str, bytes]:
    """Text, the encoding's name, and the text as UTF-8 without a byte order mark. Never fails.

    >>> decode(b"caf\\xe9")[:2]
    ('café', 'latin-1')
    """
    if raw.startswith(BOM_UTF8):
        raw, encoding = raw[len(BOM_UTF8) :], "utf-8-sig"
    elif raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        text = raw.decode("utf-16", "replace")
        return text, "utf-16", text.encode("utf-8", "replace")
    else:
        encoding = "utf-8"
    try:
        return raw.decode("utf-8"), encoding, raw
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
        return text, "latin-1", text.encode("utf-8")


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that others see the old content or the new, never a part; its mode is kept.

    Raises DiskFull or AccessFailed; the original is untouched then.
    """
    target = Path(os.path.realpath(path))
    part = ""
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode) if target.exists() else None
        descriptor, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        if mode is not None:
            os.chmod(part, mode)
        os.replace(part, target)
    except OSError as error:
        if part:
            with suppress(OSError):
                os.unlink(part)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no room left to write {path}", suggestion="free some space; the file is unchanged") from error
        raise AccessFailed(f"{path} cannot be written: {error.strerror}", suggestion="the file is unchanged") from error
