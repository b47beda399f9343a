r"""Reads one file, once: its bytes, its text and what can be said of both. Writing is next door, in `writing`.

Nothing here waits (a pipe is opened without blocking and refused), follows a link in the last part of a path, or takes
more into memory than it was allowed to. How text is decoded is in `decode`; it never fails.

>>> decode(b"caf\xc3\xa9").encoding, decode(b"caf\xe9").encoding, decode("né".encode("utf-16")).encoding
('utf-8', 'latin-1', 'utf-16-le')
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from context_engine.errors import AccessFailed, BinaryFile, FileNotFound, InvalidPath, TooLarge
from context_engine.model import RelPath, Skipped
from context_engine.repo.paths import Root
from context_engine.storage import ConfinedFolder, OpenFolder

SNIFF_BYTES = 8_192
"""Git, too, looks for a NUL in the first 8,000 bytes to tell binary from text."""

MINIFIED_BYTES_MIN = 10_000
MINIFIED_LINE_BYTES = 400
"""Hand-written files hardly average over 60 bytes a line; bundlers and dumps of figures exceed 400."""
PROSE_SPACES_SHARE = 0.10
"""Long paragraphs on one line make long lines too, but a seventh of prose is spaces; of minified code about 1 in 30."""

CONTROL_SHARE_MAX = 0.05
"""Text in an old 8-bit encoding holds hardly any control characters; of random bytes one in ten is one."""
DAMAGED_SHARE = 4
"""Invalid UTF-8 with this many good sequences to each bad one is damaged UTF-8, not another encoding."""

_MAGIC = (
    *(b"%PDF-", b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh91AY", b"\xfd7zXZ", b"(\xb5/\xfd", b"7z\xbc\xaf", b"Rar!\x1a"),
    *(b"\x89PNG", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"\x7fELF", b"\xca\xfe\xba\xbe", b"!<arch>\n", b"OggS", b"wOF"),
)  # fmt: skip
"""How files begin that may hold no NUL in their first bytes and still are no text."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE_BOMS = tuple(mark for mark, encoding in _BOMS if encoding != "utf-8")
_UTF32_BOMS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_CONTROLS = bytes(code for code in range(32) if chr(code) not in "\t\n\v\f\r\b\x1b") + b"\x7f"
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer must not hold us
    | getattr(os, "O_NOFOLLOW", 0)  # what was a file when it was checked may be a link by now
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class DecodedText(NamedTuple):
    """Text, and how it was read. `lossy`: the text does not give the bytes back; they must not be rewritten from it."""

    text: str
    encoding: str
    bom: bytes = b""
    lossy: bool = False


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file for the index.

    `data` is `text` in UTF-8 without a mark, as parsers want it; `sha256` is of the raw bytes.
    """

    data: bytes
    text: str
    encoding: str
    size: int
    mtime_ns: int
    sha256: bytes
    lossy: bool = False


@dataclass(frozen=True)
class SourceFile:
    """A file read out. `data` are its bytes as they lie on the disk; the rest is worked out when asked for."""

    path: RelPath
    data: bytes
    size: int
    mtime_ns: int

    @cached_property
    def decoded(self) -> DecodedText:
        """The text and how it was read."""
        return decode(self.data)

    @property
    def text(self) -> str:
        """The whole text, line ends as they are, without a byte order mark."""
        return self.decoded.text

    @property
    def encoding(self) -> str:
        """Python's name of the encoding; `has_bom` says whether a mark stands before the text."""
        return self.decoded.encoding

    @property
    def has_bom(self) -> bool:
        """Whether a byte order mark stands at the beginning."""
        return bool(self.decoded.bom)

    @property
    def lossy(self) -> bool:
        """Whether some bytes could not be read and are shown as U+FFFD."""
        return self.decoded.lossy

    @cached_property
    def newline(self) -> str:
        """How lines end: see `newline_of`."""
        return newline_of(self.text)

    @cached_property
    def sha256(self) -> bytes:
        """Of the bytes on the disk."""
        return hashlib.sha256(self.data).digest()

    def encode(self, text: str) -> bytes:
        """Another text as this file would hold it: same encoding, same mark. Raises: UnicodeEncodeError."""
        return self.decoded.bom + text.encode(self.encoding)


# -- for the index: trouble is data ---------------------------------------------------------------------------------


def load_for_index(root: ConfinedFolder, path: str, *, bytes_max: int) -> LoadedFile | Skipped:
    """Read a file that the walk has found beneath the root, in one go.

    Trouble is data: `vanished`, `unreadable`, `special`, `too_large`, `binary` or `minified`.
    """
    try:
        with root.open_folder() as top:
            descriptor = top.open(path, _FLAGS)
    except OSError as error:
        return Skipped(path, *_explain_failure(error))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Skipped(path, "special", "a folder, pipe, socket or device")
        if status.st_size > bytes_max:
            return Skipped(path, "too_large", f"{status.st_size:,} bytes; the limit is {bytes_max:,}")
        raw = _whole(descriptor, status.st_size, bytes_max)
    except OSError as error:
        return Skipped(path, "unreadable", error.strerror or str(error))
    finally:
        os.close(descriptor)
    if len(raw) > bytes_max:
        return Skipped(path, "too_large", f"it grows; the limit is {bytes_max:,}")
    return _load(path, raw, status)


def _load(path: str, raw: bytes, status: os.stat_result) -> LoadedFile | Skipped:
    if why := binary(raw):
        return Skipped(path, "binary", why)
    text, encoding, bom, lossy = decode(raw)
    if encoding == "utf-8" and not lossy:
        data = raw[len(bom) :] if bom else raw
    elif why := _no_text(text, encoding):
        return Skipped(path, "binary", why)
    else:
        data = text.encode("utf-8", "replace")
    if why := why_minified(data):
        return Skipped(path, "minified", why)
    return LoadedFile(data, text, encoding, status.st_size, status.st_mtime_ns, hashlib.sha256(raw).digest(), lossy)


def _explain_failure(error: OSError) -> tuple[str, str]:
    """What it means for the index that a file cannot be opened."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "vanished", ""
    if error.errno in {errno.ELOOP, errno.EMLINK}:  # O_NOFOLLOW; some systems say EMLINK
        return "special", "a link by now"
    if error.errno in {errno.ENXIO, errno.EOPNOTSUPP}:
        return "special", "a socket or device"
    return "unreadable", error.strerror or str(error)


def _whole(descriptor: int, size: int, bytes_max: int) -> bytes:
    """The bytes of an open file; it may have grown or shrunk since it was measured. Over `bytes_max` it stops."""
    raw = os.read(descriptor, size + 1)
    if len(raw) == size:
        return raw
    parts, total = [raw], len(raw)
    while raw and total <= bytes_max:
        raw = os.read(descriptor, 1 << 20)
        parts.append(raw)
        total += len(raw)
    return b"".join(parts)


def open_root(root: ConfinedFolder) -> OpenFolder:
    """The root, open, for many files. Raises: FileNotFound, AccessFailed."""
    try:
        return root.open_folder()
    except OSError as error:
        raise _unreadable(os.fspath(root.path), error) from error


def no_text(top: OpenFolder, path: str) -> tuple[str, str] | None:
    """Why a search passes over a file that the walk has found, as its first bytes tell: (reason, detail); None for text."""
    try:
        descriptor = open_plain_file(top, path)
    except OSError as error:
        return _explain_failure(error)
    try:
        head = os.read(descriptor, SNIFF_BYTES)
    except OSError as error:
        return "unreadable", error.strerror or str(error)
    finally:
        os.close(descriptor)
    why = "it is UTF-32" if head.startswith(_UTF32_BOMS) else binary(head)
    return ("binary", why) if why else None


def open_plain_file(top: OpenFolder, path: str) -> int:
    """A descriptor of a plain file, to read parts of it.

    Raises: OSError; for a link, pipe, socket, device or folder, too.
    """
    descriptor = top.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ENXIO, "a folder, pipe, socket or device")
    return descriptor


def stamp(path: str) -> tuple[int, int] | None:
    """Size and mtime_ns of a file; None when it is not there, or closed: reading it says which."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


# -- for a caller: trouble is an error ------------------------------------------------------------------------------


def read(root: Root, path: RelPath, *, bytes_max: int) -> SourceFile:
    """Read a file out for a caller.

    Raises: FileNotFound, AccessFailed, BinaryFile, TooLarge (`details` has `size` and `limit`), InvalidPath.
    """
    raw, status = contents(root, path, bytes_max=bytes_max)
    source = SourceFile(path, raw, status.st_size, status.st_mtime_ns)
    if why := binary(raw) or _no_text(source.text, source.encoding):
        raise BinaryFile(f"{path} holds no text: {why}", suggestion="Only text can be read.", details={"path": path})
    return source


def contents(root: Root, path: RelPath, *, bytes_max: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a file, whatever they are, and what the system said of it just before. Raises: as `read`."""
    with open_root(root.confined) as top:
        return contents_in(top, path, path, bytes_max=bytes_max)


def contents_in(folder: OpenFolder, way: str, path: str, *, bytes_max: int) -> tuple[bytes, os.stat_result]:
    """`contents` of what is `way` beneath a folder, and `path` to the caller. Raises: as `read`."""
    try:
        descriptor = folder.open(way, _FLAGS)
        try:
            status = os.fstat(descriptor)
            _check_readable(path, status, bytes_max)
            raw = _whole(descriptor, status.st_size, bytes_max)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(raw) > bytes_max:
        raise _too_large(path, len(raw), bytes_max)
    return raw, status


def _check_readable(path: str, status: os.stat_result, bytes_max: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InvalidPath(
            f"{path} is a folder", suggestion=f"list_directory {path!r} shows it.", details={"path": path}
        )
    if not stat.S_ISREG(status.st_mode):
        raise InvalidPath(f"{path} is a pipe, socket or device", suggestion="Name a file.", details={"path": path})
    if status.st_size > bytes_max:
        raise _too_large(path, status.st_size, bytes_max)


def _too_large(path: str, size: int, bytes_max: int) -> TooLarge:
    return TooLarge(
        f"{path} has {size:,} bytes, over the limit of {bytes_max:,}",
        suggestion="Read a part of it: pass the first and the last line.",
        details={"path": path, "size": size, "limit": bytes_max},
    )


def _unreadable(path: str, error: OSError) -> FileNotFound | InvalidPath | AccessFailed:
    reason, detail = _explain_failure(error)
    if reason == "vanished":
        return FileNotFound(f"there is no {path}", suggestion="It may just have been deleted.", details={"path": path})
    if reason == "special":
        return InvalidPath(f"{path} is {detail}, no file", suggestion="Name a file.", details={"path": path})
    return AccessFailed(
        f"{path} cannot be read: {detail}",
        suggestion="Give this user permission to read it.",
        details={"path": path},
    )


# -- what bytes are -------------------------------------------------------------------------------------------------


def binary(raw: bytes) -> str | None:
    r"""Why the bytes are no text: a NUL near the beginning that no wide encoding explains, or a known signature.

    >>> binary(b"a\0b"), binary(b"plain"), binary("wide".encode("utf-16"))
    ('it holds NUL bytes', None, None)
    """
    if raw.startswith(_MAGIC):
        return "it begins like a known binary format"
    if raw.find(b"\0", 0, SNIFF_BYTES) >= 0 and not raw.startswith(_WIDE_BOMS):
        return "it holds NUL bytes"
    return None


def _no_text(text: str, encoding: str) -> str | None:
    """The same for what has been decoded as something else than clean UTF-8: bytes that only looked like text."""
    if encoding == "utf-8":
        return None
    if "\0" in text:
        return "it holds NUL characters"
    head = text[:SNIFF_BYTES].encode("latin-1", "replace")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return "it is full of control characters" if controls > CONTROL_SHARE_MAX * len(head) else None


def why_minified(data: bytes) -> str | None:
    r"""Why nobody wrote this by hand: lines too long, and no prose either.

    >>> why_minified(b"a=b(1,c)" * 2_000), why_minified(b"x = 1\n" * 4_000), why_minified(b"a paragraph of words " * 1_000)
    ('16,000 bytes on 1 line', None, None)
    """
    if len(data) < MINIFIED_BYTES_MIN:
        return None
    lines = data.count(b"\n") + 1
    if len(data) <= lines * MINIFIED_LINE_BYTES or data.count(b" ") >= PROSE_SPACES_SHARE * len(data):
        return None
    return f"{len(data):,} bytes on {lines:,} line{'s' * (lines > 1)}"


def decode(raw: bytes) -> DecodedText:
    r"""The text of any bytes: by their byte order mark, else UTF-8, else Windows-1252 or Latin-1. Never fails.

    >>> decode(b"\x93quoted\x94"), decode("ünïcödé".encode() + b"\xff").lossy
    (DecodedText(text='“quoted”', encoding='cp1252', bom=b'', lossy=False), True)
    """
    for mark, encoding in _BOMS:
        if raw.startswith(mark):
            return _decode_marked(raw, mark, encoding)
    try:
        return DecodedText(raw.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return _not_utf8(raw)


def _decode_marked(raw: bytes, mark: bytes, encoding: str) -> DecodedText:
    try:
        return DecodedText(raw[len(mark) :].decode(encoding), encoding, mark)
    except UnicodeDecodeError:
        return DecodedText(raw[len(mark) :].decode(encoding, "replace"), encoding, mark, lossy=True)


def _not_utf8(raw: bytes) -> DecodedText:
    """UTF-8 with some damage stays UTF-8, so that the rest reads right; anything else is an 8-bit encoding."""
    text = raw.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = len(text) - bad - len(text.encode("ascii", "ignore"))
    if good >= DAMAGED_SHARE * bad:
        return DecodedText(text, "utf-8", lossy=True)
    if raw.translate(None, _CONTROLS_8BIT) == raw:
        return DecodedText(raw.decode("latin-1"), "latin-1")
    try:
        return DecodedText(
            raw.decode("cp1252"), "cp1252"
        )  # where Latin-1 has control characters, it has quotes and dashes
    except UnicodeDecodeError:
        return DecodedText(raw.decode("latin-1"), "latin-1")


_CONTROLS_8BIT = bytes(range(0x80, 0xA0))


def newline_of(text: str) -> str:
    r"""How the lines of a text end: `\n`, `\r\n`, `\r`, "mixed", or "" when there is one line only.

    >>> newline_of("a\r\nb\r\n"), newline_of("a\r\nb\n"), newline_of("a")
    ('\r\n', 'mixed', '')
    """
    both = text.count("\r\n")
    counts = {"\r\n": both, "\n": text.count("\n") - both, "\r": text.count("\r") - both}
    used = [newline for newline, count in counts.items() if count]
    return "mixed" if len(used) > 1 else "".join(used)
