"""The vector store: a text is embedded once on this machine, for all work trees and branches.

    <cache>/vectors/<space>/writer.lock     one appending process at a time; all others read
    <cache>/vectors/<space>/filler.lock     one process at a time that embeds what is missing
    <cache>/vectors/<space>/000001.vec      64 bytes of header, then records of one size; only ever appended to

A space is one model with one size of vector, and has a folder of its own. In it a vector is found by its key: the hash
of the text it was made from. A record carries its own checksum, and the header the number of records that count,
written after them: a kill at any moment leaves what was there before the append or after it, a scribbled record is as
good as not there, and what lies beyond the count is written over. All of it is a cache: deleting it costs nothing but
time.

Numbers are kept as one byte with a scale a row. That is a quarter of float32 and loses no ranking worth the name
(docs/decisions/0014); float16 is half and was ten times slower to compare.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import re
import threading
import time
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import Timeout
from xxhash import xxh3_64_intdigest

from context_engine.embedding import KEY_BYTES, Keys, VectorRows, VectorSpace, quantize
from context_engine.errors import InvalidVectors, StorageBusy
from context_engine.index import translate_disk_errors
from context_engine.storage import lock_private, make_private_folder, open_private

MAGIC = b"CTXVEC01"
"""Raise the number when the layout changes: files with another one are left alone until they are the oldest."""
HEADER_BYTES = 64
SEGMENT_BYTES_MAX = 16_000_000
"""About 38,000 vectors of 384 dimensions: the unit in which the least recently used are dropped."""
BYTES_MAX = 1_000_000_000
"""All spaces together: 2.4 million vectors of 384 dimensions, some twenty repositories of the size of a browser's."""
DIMENSIONS_MAX = 65_536
"""No model has more; a header with more is damaged."""
LOCK_WAIT_S = 10.0
"""An append takes milliseconds; a longer wait is for a compaction."""
READ_TRIES = 5
"""A file may be deleted between listing the folder and opening it; five compactions in a row do not happen."""
USED_REST_S = 600.0
"""Interval in which reading stamps a segment as used: often enough to distinguish yesterday from last month."""

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_IS_SEGMENT = re.compile(r"\d{6,9}\.vec").fullmatch
_HEADER = np.dtype(
    {
        "names": ["magic", "dimensions", "check", "space", "birth"],
        "formats": ["S8", "<u4", "<u4", "V16", "V8"],
        "itemsize": 40,
    }
)
"""Identity of a file, written once. `birth` is random: a recreated file is not mistaken for the old one."""
_COUNT_AT = _HEADER.itemsize
_COUNT_BYTES = 12
"""Behind it the number of records that count (8 bytes) and the CRC-32 of that number."""


class VectorStore:
    """The vectors of one space. Thread-safe; any number of processes may open the same folder.

    `folder` is shared by all spaces, `bytes_max` bounds them together. Nothing is opened or made until it is needed.
    """

    def __init__(
        self,
        folder: Path,
        space: VectorSpace,
        *,
        bytes_max: int = BYTES_MAX,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> None:
        """Open nothing yet. Raises: InvalidVectors for a space whose vectors have no size."""
        if not 1 <= space.dimensions <= DIMENSIONS_MAX:
            raise _unfit(f"vectors of {space.dimensions} numbers cannot be kept")
        self.space = space
        self.folder = folder / f"{space.dimensions}-{_mark(space).hex()[:16]}"
        self._all = folder
        self._bytes_max = bytes_max
        self._segment_bytes_max = segment_bytes_max
        self._lock = threading.RLock()
        self._segments: dict[str, _VectorFile] = {}
        self._index = _KeyIndex()

    # -- reading --

    def __len__(self) -> int:
        """Return the number of vectors."""
        with self._lock:
            self._refresh()
            return len(self._index)

    def missing(self, keys: Keys) -> Mask:
        """Return which keys have no vector yet."""
        with self._lock:
            self._refresh()
            return self._index.find(keys) < 0

    def get(self, keys: Keys) -> tuple[VectorRows, Mask]:
        """Return a row for each key, and which were found; the others are zeros."""
        with self._lock:
            self._refresh()
            places = self._index.find(keys)
            rows = VectorRows(np.zeros((len(keys), self.space.dimensions), np.int8), np.zeros(len(keys), np.float32))
            for segment in self._segments.values():
                here = np.flatnonzero((places >= segment.first) & (places < segment.first + segment.count))
                if len(here):
                    records = segment.records()[places[here] - segment.first]
                    rows.values[here], rows.scales[here] = records["row"], records["scale"]
                    segment.mark_used()
            return rows, places >= 0

    def check(self) -> list[str]:
        """Return what is wrong with the files of this space; empty if they are sound. Reads all of them."""
        with self._lock:
            self._forget()
            self._refresh()
            return [f"{self.folder / name}: {trouble}" for name, trouble in self._troubles()]

    def close(self) -> None:
        """Close the files; the store can be used again afterwards."""
        with self._lock:
            self._forget()

    # -- writing --

    def put(self, keys: Keys, rows: npt.NDArray[Any]) -> int:
        """Store a vector for each key; return how many were new. Existing ones are not changed.

        All of one call is seen by readers at once, or after a kill none of it.

        Raises: InvalidVectors for another shape or numbers that are not finite, StorageBusy, DiskFull.
        """
        self._check_fit(keys, rows)
        return self.put_rows(keys, quantize(rows))

    def put_rows(self, keys: Keys, rows: VectorRows) -> int:
        """Store rows of another store, bit for bit; otherwise as `put`."""
        self._check_fit(keys, rows.values)
        if not np.isfinite(rows.scales).all():
            raise _unfit("a row holds a scale that is not finite")
        with self._lock, self._writing():
            self._refresh()
            fresh = np.zeros(len(keys), bool)
            fresh[np.unique(keys, return_index=True)[1]] = True
            fresh &= self._index.find(keys) < 0
            if fresh.any():
                self._append(_records(keys[fresh], VectorRows(rows.values[fresh], rows.scales[fresh])))
            return int(fresh.sum())

    def compact(self) -> int:
        """Rewrite small, damaged or outdated files as full ones; return the bytes freed.

        Readers are not disturbed: the same vectors are found before, during and after. Raises: StorageBusy, DiskFull.
        """
        with self._lock, self._writing():
            self._refresh()
            chosen = self._worth_writing_anew()
            if not chosen:
                return 0
            before, number = self._size(), _number(_names(self.folder)[-1]) + 1
            ours = [self._segments[name] for name in chosen if name in self._segments]
            together = np.concatenate(
                [_empty_records(self.space.dimensions), *(segment.records()[segment.sound()] for segment in ours)]
            )
            self._write_whole(together[np.unique(together["key"], return_index=True)[1]], number)
            self._forget()
            for name in chosen:
                _remove(self.folder / name)
            return max(0, before - self._size())

    @contextmanager
    def backfill_lock(self) -> Generator[bool]:
        """Yield whether this process is the one of this machine that fills the space, until the block ends."""
        with translate_disk_errors(self.folder):
            make_private_folder(self.folder)
            lock = lock_private(self.folder / "filler.lock", timeout=0)
            with suppress(Timeout):
                lock.acquire()
        try:
            yield lock.is_locked
        finally:
            lock.release()

    # -- inside --

    def _check_fit(self, keys: Keys, rows: npt.NDArray[Any]) -> None:
        wanted = (len(keys), self.space.dimensions)
        if np.shape(rows) != wanted:
            raise _unfit(f"vectors of shape {np.shape(rows)} were handed in where {wanted} belongs")
        if keys.dtype != np.dtype(f"S{KEY_BYTES}"):
            raise _unfit(f"keys of the type {keys.dtype} were handed in; keys_of makes them")
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused for that
            if not np.isfinite(np.asarray(rows, np.float32)).all():
                raise _unfit("a vector holds numbers that are not finite")

    @contextmanager
    def _writing(self) -> Generator[None]:
        with translate_disk_errors(self.folder):
            make_private_folder(self.folder)
            lock = lock_private(self.folder / "writer.lock", timeout=LOCK_WAIT_S)
            try:
                lock.acquire()
            except Timeout:
                raise StorageBusy(
                    "another process is writing vectors", suggestion="call again in a moment; what is stored is found"
                ) from None
            try:
                yield
            finally:
                lock.release()

    def _append(self, records: npt.NDArray[Any]) -> None:
        """Append to the last file while it has room; one call never spans two files, so that it is seen at once."""
        last = max(self._segments, key=_number, default="")
        newest = max(_names(self.folder), key=_number, default="000000.vec")
        if last != newest or self._segments[last].bytes >= self._segment_bytes_max:
            last = f"{_number(newest) + 1:06d}.vec"
            _publish(_create_file(self.folder / last, self.space))
            self._drop_least_used(last)
            self._refresh()
        self._segments[last].append(records)
        self._refresh()

    def _drop_least_used(self, keep: str) -> None:
        """Delete the least recently used files of any space, until all together are within the bound."""
        files = [(facts, path) for path in self._all.glob("*/*.vec") if (facts := _facts(path))]
        excess = sum(facts.st_size for facts, _ in files) - self._bytes_max
        for facts, path in sorted(files, key=lambda file: (file[0].st_mtime_ns, file[1])):
            if excess > 0 and path != self.folder / keep and _remove(path):
                excess -= facts.st_size

    def _worth_writing_anew(self) -> list[str]:
        """Return files with problems, and those less than half full if there are several."""
        troubled = {name for name, _ in self._troubles()}
        small = {name for name, segment in self._segments.items() if segment.bytes * 2 < self._segment_bytes_max}
        return sorted(troubled | small if len(small) > 1 else troubled)

    def _write_whole(self, records: npt.NDArray[Any], number: int) -> None:
        """Write full files of records from this number on.

        Each is complete on the disk before it has a name readers look for.
        """
        for left in self.folder.glob("*.part"):
            _remove(left)
        per_file = max(1, self._segment_bytes_max // records.itemsize)
        for start in range(0, len(records), per_file):
            part = _create_file(self.folder / f"{number + start // per_file:06d}.vec", self.space)
            _VectorFile(part, self.space).append(records[start : start + per_file])
            with open(part, "rb+") as written:
                os.fsync(written.fileno())
            _publish(part)

    def _size(self) -> int:
        return sum(facts.st_size for name in _names(self.folder) if (facts := _facts(self.folder / name)))

    def _troubles(self) -> Iterator[tuple[str, str]]:
        for name in _names(self.folder):
            segment = self._segments.get(name)
            if segment is None:
                yield name, "its header is damaged or of another space"
            elif len(segment.sound()) < segment.count:
                yield name, f"{segment.count - len(segment.sound())} of {segment.count} records are damaged"

    def _refresh(self) -> None:
        """Read what other processes have appended, created and removed."""
        for _ in range(READ_TRIES):
            with suppress(FileNotFoundError):
                self._catch_up()
                return
            self._forget()  # somebody compacted, or dropped what was long unused, while we looked

    def _catch_up(self) -> None:
        """Read new files and new rows. Raises: FileNotFoundError if a file is gone, or replaced."""
        names = _names(self.folder)
        if gone := self._segments.keys() - set(names):
            raise FileNotFoundError(min(gone))
        for name in names:
            segment = self._segments.get(name) or _VectorFile(self.folder / name, self.space)
            if segment.is_ours:
                self._segments[name] = segment
                self._index.add(*segment.news())

    def _forget(self) -> None:
        self._segments.clear()
        self._index = _KeyIndex()


class _KeyIndex:
    """Sorted keys and the place of each: the upper half is the number of the file, the lower half of the record."""

    def __init__(self) -> None:
        self._keys: Keys = np.zeros(0, f"S{KEY_BYTES}")
        self._places: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, keys: Keys) -> Ints:
        """Return the place of each key; -1 if there is none."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._places[at], -1)

    def add(self, keys: Keys, places: Ints) -> None:
        """Add keys; the first place of a key counts."""
        if not len(keys):
            return
        new, first = np.unique(keys, return_index=True)
        unknown = self.find(new) < 0
        new, places = new[unknown], places[first[unknown]]
        at = np.searchsorted(self._keys, new)
        self._keys, self._places = np.insert(self._keys, at, new), np.insert(self._places, at, places)


class _VectorFile:
    """One file: its records that count, mapped.

    `first` is the place of its first record, `is_ours` whether the header matches.
    """

    def __init__(self, path: Path, space: VectorSpace) -> None:
        """Map the file. Raises: FileNotFoundError."""
        self._path = path
        self._type = _record_type(space.dimensions)
        self._records = _empty_records(space.dimensions)
        self._sound: list[Ints] = []
        self._used_at = -math.inf
        self.first = _number(path.name) << 32
        with open(path, "rb") as source:
            header = source.read(HEADER_BYTES)
        self._head = header[:_COUNT_AT]
        self.is_ours = _is_header_of(header, space)

    @property
    def count(self) -> int:
        """Records that have been read."""
        return len(self._records)

    @property
    def bytes(self) -> int:
        """Their size."""
        return self.count * self._type.itemsize

    def news(self) -> tuple[Keys, Ints]:
        """Return keys and places of the sound records that were appended since the last call.

        Raises FileNotFoundError when the file is gone, cut shorter, or another one under the same name.
        """
        known, count = self.count, self._read_count()
        if count < known:
            raise FileNotFoundError(self._path)
        if count > known:
            self._records = self._map_records(count)
        fresh = self._records[known:]
        sound = np.flatnonzero(_checks(fresh) == fresh["check"]) + known
        self._sound.append(sound)
        return self._records["key"][sound], sound + self.first

    def records(self) -> npt.NDArray[Any]:
        """Return all of them as they are in the file."""
        return self._records

    def sound(self) -> Ints:
        """Return the numbers of those with a correct checksum."""
        return np.concatenate([*self._sound, np.zeros(0, np.int64)])

    def mark_used(self) -> None:
        """Stamp the file as used."""
        now = time.monotonic()
        if now - self._used_at >= USED_REST_S:
            self._used_at = now
            with suppress(OSError):  # a cache that may only be read is still a cache
                os.utime(self._path)

    def append(self, records: npt.NDArray[Any]) -> None:
        """Write records after those that count, then the new count. The caller has the lock."""
        count = self._read_count()
        with open(self._path, "rb+", buffering=0) as out:
            out.seek(HEADER_BYTES + count * self._type.itemsize)
            _write(out, records.tobytes())
            out.seek(_COUNT_AT)
            _write(out, _count_field(count + len(records)))

    def _read_count(self) -> int:
        """Return how many records count: the number in the header, never more than there is room for.

        A count that was scribbled on means: whatever has a sound checksum. Raises FileNotFoundError as `news` does.
        """
        with open(self._path, "rb", buffering=0) as source:
            header = source.read(HEADER_BYTES)
            room = max(0, os.fstat(source.fileno()).st_size - HEADER_BYTES) // self._type.itemsize
        if header[:_COUNT_AT] != self._head:
            raise FileNotFoundError(self._path)
        field = header[_COUNT_AT : _COUNT_AT + _COUNT_BYTES]
        stated = int.from_bytes(field[:8], "little")
        if field == _count_field(stated):
            return min(stated, room)
        return room

    def _map_records(self, count: int) -> npt.NDArray[Any]:
        with open(self._path, "rb") as source:
            mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._type, count, HEADER_BYTES)


def _record_type(dimensions: int) -> np.dtype[Any]:
    """Return the type: a checksum over what follows it, the key, the scale, the numbers; a multiple of eight bytes."""
    return np.dtype(
        {
            "names": ["check", "key", "scale", "row"],
            "formats": ["<u8", f"S{KEY_BYTES}", "<f4", ("i1", (dimensions,))],
            "offsets": [0, 8, 24, 28],
            "itemsize": -(-(28 + dimensions) // 8) * 8,
        }
    )


def _empty_records(dimensions: int) -> npt.NDArray[Any]:
    return np.zeros(0, _record_type(dimensions))


def _records(keys: Keys, rows: VectorRows) -> npt.NDArray[Any]:
    records: npt.NDArray[Any] = np.zeros(len(keys), _record_type(rows.values.shape[1]))
    records["key"], records["scale"], records["row"] = keys, rows.scales, rows.values
    records["check"] = _checks(records)
    return records


def _checks(records: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return the checksum of each record (XXH3 of everything after the field of the checksum)."""
    size = records.itemsize
    content = memoryview(np.ascontiguousarray(records).view(np.uint8).data)
    return np.fromiter(
        (xxh3_64_intdigest(content[at + 8 : at + size]) for at in range(0, len(content), size)), np.uint64
    )


def _create_file(path: Path, space: VectorSpace) -> Path:
    """Create a file without records, under a name that no reader looks for until it is published."""
    part = path.with_suffix(".part")
    head = _head(space, os.urandom(8)) + _count_field(0)
    with open(part, "wb", buffering=0, opener=open_private) as out:
        _write(out, head.ljust(HEADER_BYTES, b"\0"))
    return part


def _publish(part: Path) -> None:
    os.replace(part, part.with_suffix(".vec"))


def _mark(space: VectorSpace) -> bytes:
    """Return 16 bytes for the space, which every file of it and the name of its folder contain."""
    return hashlib.sha256(f"{space.fingerprint}\0{space.dimensions}".encode()).digest()[:KEY_BYTES]


def _head(space: VectorSpace, birth: bytes) -> bytes:
    """Return the header before the count; its checksum is over the same with 0 in its place."""
    facts: Any = np.array((MAGIC, space.dimensions, 0, np.void(_mark(space)), np.void(birth)), _HEADER)
    facts["check"] = zlib.crc32(facts.tobytes())
    return facts.tobytes()


def _is_header_of(raw: bytes, space: VectorSpace) -> bool:
    """Return whether a header is sound, of this layout and of this space."""
    return len(raw) == HEADER_BYTES and raw[:_COUNT_AT] == _head(space, raw[_COUNT_AT - 8 : _COUNT_AT])


def _count_field(count: int) -> bytes:
    stated = count.to_bytes(8, "little")
    return stated + zlib.crc32(stated).to_bytes(4, "little")


def _write(out: Any, data: bytes) -> None:
    """Write everything: a raw write may stop early, as on a disk that is nearly full."""
    left = memoryview(data)
    while left:
        left = left[out.write(left) :]


def _names(folder: Path) -> list[str]:
    """Return the segment files of a folder, oldest first."""
    try:
        return sorted((name for name in os.listdir(folder) if _IS_SEGMENT(name)), key=_number)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _remove(path: Path) -> bool:
    with suppress(OSError):  # Windows cannot delete a mapped file; the next one who drops tries again
        os.unlink(path)
        return True
    return False


def _facts(path: Path) -> os.stat_result | None:
    with suppress(OSError):  # another process has just dropped it
        return os.stat(path)
    return None


def _unfit(what: str) -> InvalidVectors:
    return InvalidVectors(
        what, suggestion="configure a model of the right size, or the size of the model; vectors of two are never mixed"
    )
