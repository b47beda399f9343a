"""Read one file: its bytes, its text and facts about both. Writing is in `file_writer`.

Nothing here waits (a pipe is opened without blocking and refused), follows a link in the last part of a path, or reads
more bytes than it was allowed to. `decode` never fails.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from context_engine.errors import AccessFailed, BinaryFile, FileNotFound, InvalidPath, TooLarge
from context_engine.model import RelPath, Skipped
from context_engine.repo.paths import Root
from context_engine.secrets import AROUND_BYTES, WHOLE_BYTES_MAX, RedactedDocument
from context_engine.storage import ConfinedFolder, OpenFolder, UnsafePathError
from context_engine.text import SNIFF_BYTES, decode, read_notebook_cells, shorten_line, wide_encoding

SOURCE_BYTES_MAX = 50_000_000
"""A line range may be read out of files up to this size."""
MINIFIED_BYTES_MIN = 10_000
MINIFIED_LINE_BYTES = 400
"""Hand-written files rarely average over 60 bytes a line; bundles and dumps of numbers exceed 400."""
PROSE_SPACES_SHARE = 0.10
"""Long paragraphs on one line make long lines too, but a seventh of prose is spaces; of minified code about 1 in 30."""

CONTROL_SHARE_MAX = 0.05
"""Text in an old 8-bit encoding has hardly any control characters; of random bytes one in ten is one."""
_MAGIC = (
    *(b"%PDF-", b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh91AY", b"\xfd7zXZ", b"(\xb5/\xfd", b"7z\xbc\xaf", b"Rar!\x1a"),
    *(b"\x89PNG", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"\x7fELF", b"\xca\xfe\xba\xbe", b"!<arch>\n"),
    *(b"OggS", b"wOF"),
)  # fmt: skip
"""The first bytes of binary formats that may have no NUL near the beginning."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
"""The first line of a file whose content Git LFS has not fetched."""
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_CONTROLS = bytes(code for code in range(32) if chr(code) not in "\t\n\v\f\r\b\x1b") + b"\x7f"


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A text file. `data` is `text` in UTF-8 without a byte order mark; `sha256` is of the bytes on the disk."""

    data: bytes
    text: str
    encoding: str
    """As replies name it; empty for UTF-8."""
    size: int
    mtime_ns: int
    sha256: bytes


# -- for the index: failures are values -----------------------------------------------------------------------------


def load_for_index(root: ConfinedFolder, path: str, *, bytes_max: int) -> LoadedFile | Skipped:
    """Read a file that the walk has found beneath the root.

    Of a notebook only the sources of its cells are returned. A failure is a value: `vanished`, `unreadable`,
    `special`, `too_large`, `binary`, `lfs_pointer` or `minified`.
    """
    try:
        with root.open_folder() as top:
            raw, status = top.read_bytes(path, bytes_max=bytes_max)
    except OSError as error:
        return Skipped(path, *_explain_failure(error))
    return _decode_file(path, raw, status, may_be_minified=False)


def _decode_file(
    path: str, raw: bytes, status: os.stat_result, *, may_be_minified: bool = True
) -> LoadedFile | Skipped:
    """Return a file that was read as text; it is skipped where it is none."""
    if why := why_binary(raw):
        return Skipped(path, "binary", why)
    decoded = decode(raw)
    text, encoding, bom, _ = decoded
    if not decoded.label:
        data = raw[len(bom) :] if bom else raw
    elif why := _why_decoded_binary(text, encoding):
        return Skipped(path, "binary", why)
    else:
        data = text.encode("utf-8", "replace")
    if not may_be_minified and path.endswith(".ipynb"):
        text = read_notebook_cells(text)
        data = text.encode("utf-8", "replace")
    if not may_be_minified and raw.startswith(LFS_POINTER):
        return Skipped(path, "lfs_pointer", "its content is in Git LFS; git lfs pull fetches it")
    if not may_be_minified and (why := why_minified(data)):
        return Skipped(path, "minified", why)
    return LoadedFile(data, text, decoded.label, status.st_size, status.st_mtime_ns, hashlib.sha256(raw).digest())


def _explain_failure(error: OSError) -> tuple[str, str]:
    """Return what it means for the index that a file cannot be read: (reason, detail)."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "vanished", ""
    if isinstance(error, UnsafePathError) and error.errno == errno.EFBIG:
        return "too_large", str(error.strerror).removeprefix("has ")
    if error.errno in {errno.ELOOP, errno.EMLINK}:  # O_NOFOLLOW; some systems say EMLINK
        return "special", "a link by now"
    if isinstance(error, UnsafePathError) and error.errno == errno.EINVAL:
        return "special", str(error.strerror).removeprefix("is ")
    if error.errno in {errno.ENXIO, errno.EOPNOTSUPP}:
        return "special", "a socket or device"
    return "unreadable", error.strerror or str(error)


def open_root(root: ConfinedFolder) -> OpenFolder:
    """Open the root for many files. Raises: FileNotFound, AccessFailed."""
    with _translate_errors(os.fspath(root.path)):
        return root.open_folder()


def judge_text(top: OpenFolder, path: str) -> tuple[str, str] | str:
    """Return why a search passes over a file, by its beginning: (reason, detail); for text, `name_encoding`."""
    try:
        descriptor, _ = top.open_file(path)
        try:
            head = os.read(descriptor, WHOLE_BYTES_MAX)
        finally:
            os.close(descriptor)
    except OSError as error:
        return _explain_failure(error)
    if head.isascii() and b"\0" not in head:
        return ""
    return ("binary", why) if (why := why_binary(head)) else name_encoding(head)


def name_encoding(head: bytes) -> str:
    """Return the encoding of a file that begins so, if it must be decoded before it can be searched as UTF-8."""
    whole = head if len(head) < WHOLE_BYTES_MAX else head[: head.rfind(b"\n") + 1] or head
    decoded = decode(whole)
    return "" if decoded.encoding == "utf-8" else decoded.label


def size_and_mtime(path: str) -> tuple[int, int] | None:
    """Return size and mtime_ns of a file; None when it does not exist or is closed, which reading it distinguishes."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


# -- for a caller: failures are errors ------------------------------------------------------------------------------


def read_file(root: Root, path: RelPath, *, bytes_max: int = SOURCE_BYTES_MAX) -> LoadedFile:
    """Read a text file for a caller.

    Raises: FileNotFound, AccessFailed, BinaryFile, TooLarge, InvalidPath.
    """
    loaded = _decode_file(path, *read_bytes(root, path, bytes_max=bytes_max))
    if isinstance(loaded, Skipped):
        raise BinaryFile(
            f"{path} is not text: {loaded.detail}",
            suggestion="Only text can be read here; open it with a program for its format.",
            details={"path": path},
        )
    return loaded


def read_bytes(root: Root, path: RelPath, *, bytes_max: int) -> tuple[bytes, os.stat_result]:
    """Return the bytes of any file, and its status from just before. Raises: as `read_file`."""
    with open_root(root.confined) as top:
        return contents_in(top, path, path, bytes_max=bytes_max)


def contents_in(folder: OpenFolder, name: str, path: str, *, bytes_max: int) -> tuple[bytes, os.stat_result]:
    """Return what `read_bytes` does, for a name beneath an open folder that errors call `path`.

    Raises: as `read_file`.
    """
    with _translate_errors(path):
        return folder.read_bytes(name, bytes_max=bytes_max)


@contextmanager
def _translate_errors(path: str) -> Generator[None]:
    """Raise errors of this package in place of the operating system's."""
    try:
        yield
    except OSError as error:
        raise _error_of(error, path) from error


def _error_of(error: OSError, path: str) -> FileNotFound | InvalidPath | TooLarge | AccessFailed:
    reason, detail = _explain_failure(error)
    details = {"path": path}
    if reason == "vanished":
        return FileNotFound(f"there is no {path}", suggestion="It may just have been deleted.", details=details)
    if reason == "special":
        suggestion = f"list_directory {path!r} shows it." if detail == "a folder" else "Name a file."
        return InvalidPath(f"{path} is {detail}, not a file", suggestion=suggestion, details=details)
    if reason == "too_large":
        suggestion = "Read a part of it: pass the first and the last line."
        return TooLarge(f"{path} has {detail}", suggestion=suggestion, details=details)
    suggestion = "Give this user permission to read it."
    return AccessFailed(f"{path} cannot be read: {detail}", suggestion=suggestion, details=details)


# -- what bytes are -------------------------------------------------------------------------------------------------


def why_binary(raw: bytes) -> str | None:
    r"""Return why bytes are not text: a NUL near the beginning that no wide encoding explains, or a known signature.

    >>> why_binary(b"a\0b"), why_binary(b"plain"), why_binary("wide".encode("utf-16"))
    ('it contains NUL bytes', None, None)
    """
    if raw.startswith(_MAGIC):
        return "it begins like a known binary format"
    if raw.find(b"\0", 0, SNIFF_BYTES) >= 0 and not raw.startswith(WIDE_MARKS) and not wide_encoding(raw):
        return "it contains NUL bytes"
    return None


def _why_decoded_binary(text: str, encoding: str) -> str | None:
    """Return why a text that was not decoded as clean UTF-8 is binary after all."""
    if encoding == "utf-8":
        return None
    if "\0" in text:
        return "it contains NUL characters"
    head = text[:SNIFF_BYTES].encode("latin-1", "replace")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > CONTROL_SHARE_MAX * len(head):
        return "it is full of control characters"
    return None


def why_minified(data: bytes) -> str | None:
    r"""Return why a text was not written by hand: its lines are too long, and it is not prose.

    >>> why_minified(b"a=b(1,c)" * 2_000), why_minified(b"x = 1\n" * 4_000)
    ('16,000 bytes on 1 line', None)
    >>> why_minified(b"a paragraph of words " * 1_000)
    """
    if len(data) < MINIFIED_BYTES_MIN:
        return None
    lines = data.count(b"\n") + 1
    if len(data) <= lines * MINIFIED_LINE_BYTES or data.count(b" ") >= PROSE_SPACES_SHARE * len(data):
        return None
    return f"{len(data):,} bytes on {lines:,} line{'s' * (lines > 1)}"


# -- line reader -------------------------------------------------------------------------------------------------------

# Reads single lines out of a file, by the byte where each starts; of a very long line only the part around a match.
#
# Offsets and columns count bytes of the text as UTF-8 without its mark, as a search reports them; what comes back
# counts characters. Nothing here reads a file whole, unless it is in another encoding than UTF-8, where a line's
# place says nothing of its bytes.

LINE_BYTES = 4_096
"""Read at once: nearly every line ends within it."""
DECODED_BYTES_MAX = 50_000_000
"""More of a file in another encoding is not taken into memory; later lines are shown as their numbers alone."""
_UTF8 = codecs.getincrementaldecoder("utf-8")
_CONTINUATION = re.compile(rb"^[\x80-\xbf]{1,3}")
_CHAR_BYTES_MAX = 4


class LineStart(NamedTuple):
    """Where a line starts, and the column of its match in bytes from 1; 0 without a match."""

    offset: int
    column: int


class LineWindow(NamedTuple):
    """A line as it is shown, and the column of its match in characters from 1; 0 without a match."""

    text: str
    column: int


def read_lines_at(
    root: ConfinedFolder,
    path: str,
    spots: Iterable[LineStart],
    chars_max: int,
    redact: Callable[[bytes], RedactedDocument] = RedactedDocument.of,
) -> list[LineWindow]:
    """Return the lines at these places of a file beneath the root, each cut to `chars_max` around its match.

    `redact` replaces secrets. Raises: OSError when the file is gone, closed, or no plain file any more.
    """
    with root.open_folder() as top:
        descriptor, _ = top.open_file(path)
    try:
        window = _Window(descriptor, redact)
        return [_line(window, spot, chars_max) for spot in spots]
    finally:
        os.close(descriptor)


class _Window:
    """A file that is open for reading parts; `_whole` is its text where that is small or had to be recoded."""

    def __init__(self, descriptor: int, redact: Callable[[bytes], RedactedDocument]) -> None:
        self._descriptor = descriptor
        self._redact = redact
        self._mark_bytes = 0
        self._whole: bytes | None = None
        head = self.read(0, WHOLE_BYTES_MAX)
        if name_encoding(head):
            self._whole = decode(self.read(0, DECODED_BYTES_MAX)).text.encode("utf-8", "replace")
            return
        if head.startswith(codecs.BOM_UTF8):
            self._mark_bytes = 3
        if os.fstat(descriptor).st_size <= WHOLE_BYTES_MAX:
            self._whole = self.read(0, WHOLE_BYTES_MAX)

    def read(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of the text."""
        if self._whole is not None:
            return self._whole[offset : offset + size]
        os.lseek(self._descriptor, offset + self._mark_bytes, os.SEEK_SET)
        return os.read(self._descriptor, size)

    @cached_property
    def _redacted(self) -> RedactedDocument | None:
        return None if self._whole is None else self._redact(self._whole)

    @property
    def has_secrets(self) -> bool:
        """Whether anything is hidden; a file that is not read whole may always hide something."""
        return self._redacted is None or self._redacted.has_secrets

    def redact(self, start: int, stop: int) -> bytes:
        """Return the bytes `start` to `stop` without secrets, which are found with the text around them."""
        if self._redacted is not None:
            return self._redacted.part_bytes(start, stop)
        first = max(0, start - AROUND_BYTES)
        around = self._redact(self.read(first, stop - first + AROUND_BYTES))
        return around.part_bytes(start - first, stop - first)


def _line(window: _Window, spot: LineStart, chars_max: int) -> LineWindow:
    before, reach = max(0, spot.column - 1), chars_max * _CHAR_BYTES_MAX
    raw, newline, _ = window.read(spot.offset, LINE_BYTES).partition(b"\n")
    skipped, ends = 0, bool(newline) or len(raw) < LINE_BYTES
    if not ends and before + reach > LINE_BYTES:  # of what is before the match of a long line most is only counted
        skipped = before - min(before, reach)
        raw, newline, _ = window.read(spot.offset + skipped, before - skipped + reach).partition(b"\n")
        ends = bool(newline)
    start = spot.offset + skipped
    stop, match = start + len(raw), min(start + len(raw), spot.offset + before)
    hides = window.has_secrets
    shown = window.redact(start, stop) if hides else raw
    head = window.redact(start, match) if hides else raw[: match - start]
    if skipped:
        shown, head = _CONTINUATION.sub(b"", shown), _CONTINUATION.sub(b"", head)
    text = _text(shown, is_whole=ends).removesuffix("\r")
    at = len(_text(head))
    column = at + 1
    if skipped or hides:
        column = len(_text(window.read(spot.offset, before))) + 1
    return LineWindow(shorten_line(text, at, chars_max, begins=not skipped, ends=ends), column if spot.column else 0)


def _text(raw: bytes, *, is_whole: bool = True) -> str:
    """Decode bytes, which never fails; without `is_whole` a character that is cut off at the end is left out.

    A byte order mark inside a file is a character like any other.
    """
    try:
        return _UTF8().decode(raw, is_whole)
    except UnicodeDecodeError:
        return decode(raw).text
