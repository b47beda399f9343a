"""The memories of one scope as they are right now: files on the disk, compared by a look at each, indexed when they changed.

What a person edits, adds or deletes by hand, and what another process writes, is there with the next look. A file that
cannot be understood is an entry, too, with the reason.
"""

from __future__ import annotations

import hashlib
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from context_engine.memory import memory_file as memories
from context_engine.memory.duplicate_memories import hash_content
from context_engine.memory.memory_file import Memory
from context_engine.memory.memory_index import IndexItem, IndexPage, MemoryIndex
from context_engine.sharing import RecordFolder
from context_engine.storage import UNSETTLED_NS, FileStamp

VERSION_CHARS = 12
LONG_LOOK_S = 0.010
REST_FACTOR = 20
"""A look at 100 files takes a third of a millisecond. At 5,000 it takes 30 to 80, and may cost no more than one call in
twenty: within this rest, a second or two, only what was written over in place is not seen at once."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One file of memories. `memory` is None, and `problem` says why, where it cannot be understood.

    `number` is its item in the index, `version` changes with its bytes, `digest` is what exact duplicates share.
    """

    name: str
    path: str
    scope: str
    number: int
    version: str
    memory: Memory | None
    digest: str = ""
    problem: str = ""
    replaced_by: str = ""


class _Stored(msgspec.Struct, array_like=True):
    """What the index keeps of a file."""

    version: str
    memory: Memory | None
    digest: str = ""
    problem: str = ""


class MemoryFolder:
    """One folder of memories and their part of the index.

    Thread-safe. `shown` is how a file's path begins in replies.
    """

    def __init__(self, scope: str, records: RecordFolder, recall: MemoryIndex, *, shown: str) -> None:
        """Nothing is read until it is asked for."""
        self.scope: str = scope
        self.records = records
        self._recall = recall
        self._source = f"memory:{scope}"
        self._shown = shown
        self._lock = threading.Lock()
        self._decoded: dict[bytes, _Stored] = {}
        self._rest: tuple[tuple[int, ...], float] = (), 0.0
        self._entries: tuple[Mapping[str, IndexPage], tuple[MemoryEntry, ...]] | None = None

    def entries(self) -> tuple[MemoryEntry, ...]:
        """Every file, sorted by name. The same object as long as nothing changed. Raises: StorageBusy."""
        self._refresh()
        pages = self._recall.pages(self._source)
        with self._lock:
            if self._entries is None or self._entries[0] is not pages:
                self._entries = pages, _related(self._entry(name, pages[name]) for name in sorted(pages))
                payloads = (page.items[0][1] for page in pages.values())
                self._decoded = {payload: self._decoded[payload] for payload in payloads}
            return self._entries[1]

    def display_path(self, name: str) -> str:
        """A file as replies name it."""
        return f"{self._shown}/{name}"

    def read_text(self, name: str) -> str:
        """The text of a file that is known to be sound; empty when it went in this moment."""
        data = self.records.read(name)
        return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""

    def _refresh(self) -> None:
        """Bring the index to what lies there."""
        if self._rests():
            return
        began, folders = time.monotonic(), self.records.folders()
        listing = self.records.listing()
        pages = self._recall.pages(self._source)
        changed = [name for name, stamp in listing.items() if name not in pages or pages[name].stamp != _packed(stamp)]
        gone = [name for name in pages if name not in listing]
        read = ((name, self._page(name, listing[name])) for name in changed)
        self._recall.put(self._source, {name: page for name, page in read if page}, gone)
        now = time.monotonic()
        is_quiet = not changed and not gone and time.time_ns() - max(folders, default=0) > UNSETTLED_NS
        if is_quiet and now - began > LONG_LOOK_S:
            self._rest = folders, now + REST_FACTOR * (now - began)

    def _rests(self) -> bool:
        """Whether the last look was long, and so short ago that only what shows in the folders is worth another one."""
        folders, until = self._rest
        return time.monotonic() < until and self.records.folders() == folders

    def _page(self, name: str, stamp: FileStamp) -> tuple[bytes, list[IndexItem]] | None:
        """A file as a page of the index; None when it went in this moment."""
        settled = time.time_ns() - stamp[2] > UNSETTLED_NS
        data = self.records.read(name)
        if data is None:
            return None
        stored = _stored(data, name, stamp[2] / 1e9)
        held = stored.memory
        payload = msgspec.msgpack.encode(stored)
        item = IndexItem(payload, held.title, held.content, " ".join(held.tags)) if held else IndexItem(payload, "", "")
        return _packed(stamp) if settled else b"", [item]

    def _entry(self, name: str, page: IndexPage) -> MemoryEntry:
        number, payload = page.items[0]
        held = self._decoded.get(payload) or msgspec.msgpack.decode(payload, type=_Stored)
        self._decoded[payload] = held
        return MemoryEntry(
            name, self.display_path(name), self.scope, number, held.version, held.memory, held.digest, held.problem
        )


def _stored(data: bytes | str, name: str, modified_at: float) -> _Stored:
    if isinstance(data, str):
        return _Stored("", None, problem=data)
    version = hashlib.sha256(data).hexdigest()[:VERSION_CHARS]
    try:
        held = memories.parse_file(data.decode("utf-8"), name, modified_at=modified_at)
    except UnicodeDecodeError as error:
        return _Stored(version, None, problem=f"it is not UTF-8: {error.reason} at byte {error.start}")
    if (at := data.find(0)) >= 0:  # what a power cut leaves of a block that was never written
        return _Stored(version, None, problem=f"it is no text: there is a zero at byte {at}")
    if isinstance(held, str):
        return _Stored(version, None, problem=held)
    return _Stored(version, held, hash_content(held.content))


def _packed(stamp: FileStamp) -> bytes:
    return struct.pack("<Qqq", *stamp)


def _related(entries: Iterable[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    """Entries with what they say of each other: a second file of one id is a problem, what supersedes another replaces it.

    Only what is there counts: when the newer memory is deleted, the older one holds again.
    """
    listed = _unique(entries)
    known = {entry.memory.id for entry in listed if entry.memory}
    newer = {old: entry.memory.id for entry in listed if entry.memory for old in entry.memory.supersedes}
    return tuple(_replaced(entry, known, newer) for entry in listed)


def _unique(entries: Iterable[MemoryEntry]) -> list[MemoryEntry]:
    first: dict[str, str] = {}
    listed: list[MemoryEntry] = []
    for entry in entries:
        other = first.setdefault(entry.memory.id, entry.path) if entry.memory else entry.path
        same = f"it has the id of {other}; remove the line `id`, or one of the two"
        listed.append(entry if other == entry.path else replace(entry, memory=None, problem=same))
    return listed


def _replaced(entry: MemoryEntry, known: set[str], newer: Mapping[str, str]) -> MemoryEntry:
    held = entry.memory
    if held is None:
        return entry
    by = held.superseded_by if held.superseded_by in known else newer.get(held.id, "")
    return replace(entry, replaced_by=by) if by and by != held.id else entry
