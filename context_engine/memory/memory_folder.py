"""The memories of one scope as they are now: files, compared by their stamps, and indexed if they changed.

What a person edits, adds or deletes by hand, and what another process writes, is visible at the next look. A file that
cannot be parsed is an entry with the reason.
"""

from __future__ import annotations

import hashlib
import re
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from context_engine.errors import ContextEngineError
from context_engine.memory import memory_file as memories
from context_engine.memory.memory_file import LinkedFile, Memory, hash_content
from context_engine.memory.memory_index import IndexItem, IndexPage, MemoryIndex
from context_engine.model import FileOutline, RelPath
from context_engine.repo import Root, read_bytes, read_file, size_and_mtime
from context_engine.search import TaskText
from context_engine.storage import UNSETTLED_NS, FileStamp, RecordFolder, prepare_type

VERSION_CHARS = 12
Status = Literal["active", "stale", "superseded", "expired", "invalid"]


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory file. If it cannot be parsed, `memory` is None and `problem` says why.

    `number` is its item in the index, `version` changes with its bytes, `digest` is equal for exact duplicates. The
    index stores entries as they follow from their files alone; the other fields are set when they are listed: `status`,
    whether it holds, `why` not, and `score`, its relevance for a query or its likeness to another memory, 0 to 1.
    """

    version: str
    memory: Memory | None
    digest: str = ""
    problem: str = ""
    name: str = ""
    path: str = ""
    scope: str = ""
    number: int = 0
    replaced_by: str = ""
    status: Status = "active"
    why: str = ""
    score: float | None = None


class MemoryFolder:
    """One folder of memories and its part of the index.

    Thread-safe. `shown` is the beginning of a file's path in replies.
    """

    def __init__(self, scope: str, records: RecordFolder, recall: MemoryIndex, *, shown: str) -> None:
        """Read nothing until it is needed."""
        self.scope: str = scope
        self.records = records
        self._recall = recall
        self._source = f"memory:{scope}"
        self._shown = shown
        self._lock = threading.Lock()
        self._entries: tuple[Mapping[str, IndexPage], tuple[MemoryEntry, ...]] | None = None

    def entries(self) -> tuple[MemoryEntry, ...]:
        """Return every file, sorted by name; the same object while nothing changes. Raises: StorageBusy."""
        self._refresh()
        pages = self._recall.pages(self._source)
        with self._lock:
            if self._entries is None or self._entries[0] is not pages:
                self._entries = pages, _link_entries(self._entry(name, pages[name]) for name in sorted(pages))
            return self._entries[1]

    def display_path(self, name: str) -> str:
        """Return the path of a file as replies show it."""
        return f"{self._shown}/{name}"

    def load_text(self, name: str) -> str:
        """Return the text of a valid file; empty if it was deleted at this moment."""
        data = self.records.read(name)
        return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""

    def _refresh(self) -> None:
        """Bring the index up to date with the files."""
        listing = self.records.listing()

        def read(name: str) -> list[IndexItem] | None:
            data = self.records.read(name)
            if data is None:
                return None
            stored = _parse_entry(data, name, listing[name][2] / 1e9)
            memory = stored.memory
            words = (memory.title, memory.content, " ".join(memory.tags)) if memory else ("", "")
            return [IndexItem(msgspec.msgpack.encode(stored), *words)]

        self._recall.refresh(self._source, {name: _pack_stamp(stamp) for name, stamp in listing.items()}, read)

    def _entry(self, name: str, page: IndexPage) -> MemoryEntry:
        number, payload = page.items[0]
        stored = msgspec.msgpack.decode(payload, type=prepare_type(MemoryEntry))
        return replace(stored, name=name, path=self.display_path(name), scope=self.scope, number=number)


def _parse_entry(data: bytes | str, name: str, modified_at: float) -> MemoryEntry:
    if isinstance(data, str):
        return MemoryEntry("", None, problem=data)
    version = hashlib.sha256(data).hexdigest()[:VERSION_CHARS]
    try:
        memory = memories.parse_file(data.decode("utf-8"), name, modified_at=modified_at)
    except UnicodeDecodeError as error:
        return MemoryEntry(version, None, problem=f"it is not UTF-8: {error.reason} at byte {error.start}")
    if (at := data.find(0)) >= 0:  # what a power cut leaves of a block that was never written
        return MemoryEntry(version, None, problem=f"it is not text: there is a zero at byte {at}")
    if isinstance(memory, str):
        return MemoryEntry(version, None, problem=memory)
    return MemoryEntry(version, memory, hash_content(memory.content))


def _pack_stamp(stamp: FileStamp) -> bytes:
    """Return the stamp of a page: another one at each look while the file may change without a new time."""
    now = time.time_ns()
    return struct.pack("<Qqqq", *stamp, now if now - stamp[2] <= UNSETTLED_NS else 0)


def _link_entries(entries: Iterable[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    """Return entries with their relations: a second file with the same id is a problem, a superseded one is replaced.

    Only existing files count: when the newer memory is deleted, the older one is active again.
    """
    first: dict[str, str] = {}
    listed: list[MemoryEntry] = []
    for entry in entries:
        other = first.setdefault(entry.memory.id, entry.path) if entry.memory else entry.path
        same = f"it has the id of {other}; remove the line `id`, or one of the two"
        listed.append(entry if other == entry.path else replace(entry, memory=None, problem=same))
    newer = {old: entry.memory.id for entry in listed if entry.memory for old in entry.memory.supersedes}
    for place, entry in enumerate(listed):
        if memory := entry.memory:
            by = memory.superseded_by if memory.superseded_by in first else newer.get(memory.id, "")
            listed[place] = replace(entry, replaced_by=by if by != memory.id else "")
    return tuple(listed)


# -- linked files ------------------------------------------------------------------------------------------------------

# Checks whether the files that a memory links are unchanged, by the hash of the blob that git would store.
#
# If the memory mentions names of the file, only their definitions and the lines with them count. Line ends count as
# LF, so that a file is the same on every checkout. A file is only read again if its size or time changed.

ReadOutline = Callable[[str], FileOutline]
WhyStale = Callable[[Sequence[LinkedFile]], str]
BYTES_MAX = 4_000_000
"""Of larger files and binary files only their existence is checked."""
NAMES_MAX = 16
HASH_CHARS = 12
_NAME = re.compile(r"[A-Za-z_$][\w$]{2,79}")


class LinkedFiles:
    """The linked files of one workspace. Thread-safe."""

    def __init__(self, root: Root, outline: ReadOutline) -> None:
        """Read nothing until it is needed."""
        self._root = root
        self._outline = outline
        self._top = str(root.path)
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, int], str]] = {}
        self._checked: dict[str, RelPath] = {}

    def hash_files(self, paths: Iterable[str], text: str) -> tuple[LinkedFile, ...]:
        """Return files with their current hashes, and those of the lines that the text of a memory speaks of.

        Raises: InvalidPath, AccessDenied, FileNotFound.
        """
        names = find_code_names(text)
        checked = dict.fromkeys(self._root.rel(path) for path in paths)
        return tuple(LinkedFile(str(path), self._blob(path) or "", self._hash_lines(path, names)) for path in checked)

    def start_check(self) -> WhyStale:
        """Return a function that reports which linked files changed, "" if none; each file is examined once."""
        seen: dict[LinkedFile, str] = {}

        def why_stale(links: Sequence[LinkedFile]) -> str:
            for link in links:
                if link not in seen:
                    seen[link] = self._find_problem(link)
            return "; ".join(filter(None, (seen[link] for link in links)))

        return why_stale

    def _find_problem(self, link: LinkedFile) -> str:
        try:
            blob = self._blob(self._rel(link.path))
        except ContextEngineError:  # gone, or a path that a person wrote and that may not be read
            blob = None
        if blob is None:
            return f"{link.path} is gone"
        if not link.blob or not blob or blob == link.blob:
            return ""
        if not link.lines:
            return f"{link.path} changed"
        names = link.lines.partition("=")[0].split(",")
        if self._hash_lines(self._rel(link.path), names) == link.lines:
            return ""
        return f"{link.path} changed where it has {', '.join(names)}"

    def _hash_lines(self, path: RelPath, names: Sequence[str]) -> str:
        """Return the names that occur in a file, and a hash of their lines, without indents; "" if none occurs."""
        try:
            text = read_file(self._root, path, bytes_max=BYTES_MAX).text
        except ContextEngineError:
            return ""
        lines = text.split("\n")
        words = [frozenset(_NAME.findall(line)) for line in lines]
        present = sorted(frozenset(names) & frozenset().union(*words))[:NAMES_MAX]
        if not present:
            return ""
        counted = {number for number, found in enumerate(words, 1) if not found.isdisjoint(present)}
        counted.update(self._lines_of_definitions(path, present))
        stripped = (line.strip() for number, line in enumerate(lines, 1) if number in counted)
        digest = hashlib.sha256("\n".join(filter(None, stripped)).encode("utf-8", "replace")).hexdigest()
        return f"{','.join(present)}={digest[:HASH_CHARS]}"

    def _lines_of_definitions(self, path: RelPath, names: Sequence[str]) -> Iterable[int]:
        try:
            symbols = self._outline(path).symbols
        except ContextEngineError:
            return ()
        spans = [symbol.span for _, symbol in symbols if symbol.name in names]
        return (number for span in spans for number in range(span.first, span.last + 1))

    def _rel(self, path: str) -> RelPath:
        """Return a checked path. A person may have written it; reading checks it again."""
        if path not in self._checked:
            self._checked[path] = self._root.rel(path)
        return self._checked[path]

    def _blob(self, path: RelPath) -> str | None:
        """Return the hash of a file; "" if only its existence is known, None if it is gone."""
        stamp = size_and_mtime(f"{self._top}/{path}")
        if stamp is None:
            return None
        with self._lock:
            known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = stamp, self._hash_content(path)
            with self._lock:
                self._known[path] = known
        return known[1]

    def _hash_content(self, path: RelPath) -> str:
        try:
            return git_blob_hash(read_bytes(self._root, path, bytes_max=BYTES_MAX)[0])
        except ContextEngineError:
            return ""


def find_code_names(text: str) -> tuple[str, ...]:
    """Return the names of code that a text mentions: those in backticks, and those that are not words of prose.

    >>> find_code_names("Use `Order.total()`; amounts come from to_cents, never from floats.")
    ('Order', 'to_cents', 'total')
    """
    question = TaskText(text)
    symbols = [name.name for name in question.every_name if name.kind != "path" and not name.is_dotted]
    return tuple(sorted({word for part in (*question.quoted, *symbols) for word in _NAME.findall(part)}))


def git_blob_hash(data: bytes) -> str:
    r"""Return the hash that git gives to a content with LF as line end.

    >>> git_blob_hash(b"hello\r\n") == git_blob_hash(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    True
    """
    plain = data.replace(b"\r\n", b"\n")
    return hashlib.sha1(b"blob %d\0" % len(plain) + plain, usedforsecurity=False).hexdigest()
