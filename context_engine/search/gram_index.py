"""Which files a text search must read: an index of trigrams next to the index of code, for large workspaces.

A file counts as indexed while it has the size and time that it had then; every other file is read. So the index needs
no update to be right. Parts never change: new files go into new parts; small and outdated parts are indexed again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import numpy as np
import numpy.typing as npt

from context_engine.errors import ContextEngineError
from context_engine.repo import FileLister, Walk, WalkedFile
from context_engine.search.gram_parts import FILES_MAX, Factor, GramPart, GramRow, file_grams, pack_part
from context_engine.storage import StateFolder, lock_private

LISTED_MIN = 2_000
"""A smaller workspace is searched whole in about 30 ms."""
UNKNOWN_MAX = 200
"""So many files without trigrams are read in a few milliseconds; more are worth a new part."""
SMALL_PARTS_MAX = 8
SMALL_FILES = FILES_MAX // 2
BYTES_MAX = 4_000_000
"""A larger file is read in every search."""
SUFFIX = ".grams"
PAUSE_FILES = 32
"""After so many files the thread rests as long as they took, so that answers come first."""


@dataclass(frozen=True, slots=True)
class GramMapping:
    """The parts of the index for one listing: `places` has the place in the listing of each row, -1 for outdated rows.

    `unread` are the places of files that every search must read.
    """

    listing: Walk
    parts: tuple[GramPart, ...]
    places: tuple[npt.NDArray[np.int32], ...]
    unread: npt.NDArray[np.int32]
    unknown: tuple[WalkedFile, ...]


class GramIndex:
    """The trigrams of one workspace. Thread-safe. `folder` is in the user's cache, and may be deleted."""

    def __init__(self, lister: FileLister, folder: Path, *, listed_min: int = LISTED_MIN) -> None:
        self._lister = lister
        self._folder = StateFolder(folder.parent).folder(folder.name)
        self._listed_min = listed_min
        self._lock = threading.Lock()
        self._parts: dict[str, GramPart] | None = None
        self._mapping: GramMapping | None = None
        self._thread: threading.Thread | None = None
        self._is_closing = threading.Event()

    def narrow(self, listing: Walk, files: tuple[WalkedFile, ...], factor: Factor) -> tuple[WalkedFile, ...]:
        """Return the files of a listing, or of a choice from it, that may contain what a factor says.

        At least one file stays, so that the engine still judges the pattern.
        """
        if len(listing.entries) < self._listed_min:
            return files
        mapping = self._map(listing)
        if not mapping.parts:
            return files
        found = [places[part.find(factor)] for part, places in zip(mapping.parts, mapping.places, strict=True)]
        numbers = np.unique(np.concatenate([mapping.unread, *found]))
        chosen = [listing.entries[number] for number in numbers[numbers >= 0].tolist()]
        if files is not listing.entries:
            inside = {file.path for file in chosen}
            chosen = [file for file in files if file.path in inside]
        return tuple(chosen) or files[:1]

    def wake(self, listing: Walk) -> None:
        """Start to index what is not indexed, if that is much and the process follows edits."""
        if len(listing.entries) < self._listed_min or not self._lister.is_followed or self._is_closing.is_set():
            return
        if len(self._map(listing).unknown) < UNKNOWN_MAX:
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._build_quietly, args=(listing,), name="grams", daemon=True)
                self._thread.start()

    def build(self, listing: Walk) -> None:
        """Index the files of a listing that are not indexed, unless another process is doing it."""
        from filelock import Timeout  # only for those who write

        self._folder.make()
        lock = lock_private(self._folder.path / "lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return
        try:
            self._forget_parts()
            mapping, names = self._map(listing), tuple(self._load())
            worn = _worn_parts(mapping)
            again = [listing.entries[place] for at in worn for place in mapping.places[at].tolist() if place >= 0]
            files = sorted({*mapping.unknown, *again})
            for start in range(0, len(files), FILES_MAX):
                if not self._write_part(files[start : start + FILES_MAX]):
                    return
                self._forget_parts()
            for at in worn:
                self._folder.remove(names[at])
        finally:
            lock.release()
            self._forget_parts()

    def clear(self) -> None:
        """Delete the index."""
        for name in self._folder.files():
            if name.endswith(SUFFIX):
                self._folder.remove(name)
        self._forget_parts()

    def close(self) -> None:
        """Stop to index."""
        self._is_closing.set()

    # -- parts --

    def _map(self, listing: Walk) -> GramMapping:
        with self._lock:
            known = self._mapping
            if known is None or known.listing is not listing:
                again = known and map_edits(known, listing)
                known = self._mapping = again or map_listing(listing, tuple(self._load().values()))
            return known

    def _load(self) -> dict[str, GramPart]:
        """Return the parts by name. A damaged part is as one that is not there."""
        if self._parts is None:
            self._parts = {}
            for name in sorted(self._folder.files()):
                if name.endswith(SUFFIX):
                    with suppress(OSError, ValueError, KeyError, TypeError):
                        self._parts[name] = GramPart.unpack(self._folder.map(name))
        return self._parts

    def _forget_parts(self) -> None:
        with self._lock:
            self._parts = self._mapping = None

    # -- building --

    def _build_quietly(self, listing: Walk) -> None:
        with suppress(OSError, ContextEngineError):  # without an index every file is read
            self.build(listing)

    def _write_part(self, files: Sequence[WalkedFile]) -> bool:
        """Index some files; return False when the process is closing."""
        rows, grams = [], []
        began = time.monotonic()
        for file, data in self._lister.read_settled(files, bytes_max=BYTES_MAX):
            rows.append(GramRow(file.path, file.size, file.mtime_ns, data is None))
            grams.append(file_grams(data or b""))
            if len(rows) % PAUSE_FILES == 0:
                if self._is_closing.wait(time.monotonic() - began):
                    return False
                began = time.monotonic()
        if rows:
            self._folder.create(f"{token_hex(8)}{SUFFIX}", pack_part(rows, grams), flush=False)
        return True


def map_listing(listing: Walk, parts: tuple[GramPart, ...]) -> GramMapping:
    """Return where the files of a listing are in some parts, and the files that are in none."""
    rows = {row.path: (row, at, number) for at, part in enumerate(parts) for number, row in enumerate(part.rows)}
    places = tuple(np.full(len(part.rows), -1, dtype=np.int32) for part in parts)
    unread, unknown = [], []
    for place, file in enumerate(listing.entries):
        row, at, number = rows.get(file.path, (None, 0, 0))
        if row is None or row.size != file.size or row.mtime_ns != file.mtime_ns:
            unread.append(place)
            unknown.append(file)
            continue
        places[at][number] = place
        if row.is_open:
            unread.append(place)
    return GramMapping(listing, parts, places, np.array(unread, dtype=np.int32), tuple(unknown))


def map_edits(known: GramMapping, listing: Walk) -> GramMapping | None:
    """Return the mapping of a listing in which only the content of some files differs; None for any other listing."""
    before, now = known.listing.entries, listing.entries
    if len(before) != len(now):
        return None
    edited = [place for place, (old, new) in enumerate(zip(before, now, strict=True)) if old is not new]
    if len(edited) > UNKNOWN_MAX or any(before[place].path != now[place].path for place in edited):
        return None
    places = tuple(np.where(np.isin(some, edited), np.int32(-1), some) for some in known.places)
    unread = np.union1d(known.unread, np.array(edited, dtype=np.int32)).astype(np.int32)
    paths = {now[place].path for place in edited}
    unknown = [file for file in known.unknown if file.path not in paths]
    return GramMapping(listing, known.parts, places, unread, (*unknown, *(now[place] for place in edited)))


def _worn_parts(mapping: GramMapping) -> list[int]:
    """Return the parts whose files should be indexed again: half outdated, or many small ones."""
    live = [int((places >= 0).sum()) for places in mapping.places]
    small = [at for at, count in enumerate(live) if count < SMALL_FILES]
    worn = {at for at, count in enumerate(live) if 2 * count < len(mapping.places[at])}
    if len(small) > SMALL_PARTS_MAX:
        worn.update(small)
    return sorted(worn)
