"""The embedded store: an SQLite file lists what counts, memory-mapped segment files contain what is searched.

One folder a work tree.

    CURRENT              "g-000007": the generation in use; replaced as a whole, so a rebuild appears at once
    writer.lock          one writing process; all others read
    g-000007/index.db    files, segments, dead files, metadata (WAL)
    g-000007/000012.seg  immutable; a segment that `index.db` names is complete. Any other such file is a leftover

A commit is one SQLite transaction after the segment file is on the disk, so a kill at any moment leaves the state
before or after it. Readers keep no transactions open. The whole folder is a cache: deleting it costs only time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import zlib
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from context_engine.errors import ContextEngineError, StorageBusy
from context_engine.model import Skipped
from context_engine.storage import database, hold_private_lock, make_private_folder

if TYPE_CHECKING:
    from context_engine.index.embedded_writer import EmbeddedWriter
    from context_engine.index.segment import Segment
    from context_engine.index.snapshot import Snapshot

SCHEMA_VERSION = 10
"""Raise it when tables, segment layout, chunking or tokens change: older generations are then rebuilt, never misread.

1 first layout, 2 roles, 3 outline blobs by msgpack, 4 checksums, touched files, definitions never split,
5 keys of embedded texts, static vectors, 6 languages and roles by the text of a file, 7 no keys of summaries,
9 outlines by pieces, with what macros and templates name, 10 numbers of documents as wide as a segment needs
"""
READ_TRIES = 5
MARKED_BYTES = 1_000_000
CLEAR_WAIT_S = 3.0
"""Indexing an edit takes milliseconds, a full run longer: that one must be canceled first."""
INDEX_ADVICE = database.StorageAdvice(
    "the index",
    full="free some space or set CTX_CACHE_FOLDER to another disk; what was committed before is intact",
    damaged="call reindex_workspace (or `ctx index --force`); the index is only a cache",
)
_IS_GENERATION = re.compile(r"g-\d{6,9}").fullmatch
EPOCH = "SELECT value FROM fact WHERE name='epoch'"
SkippedFile = tuple[str, str, str, int, int]
"""(path, reason, detail, size, mtime_ns) of a file that was skipped for its content."""


class FileState(NamedTuple):
    """The size, time and hash of a file when it was indexed."""

    size: int
    mtime_ns: int
    sha256: bytes


class IndexSummary(NamedTuple):
    """The content of a finished index: counts, the identity of its static vectors, its segments (`mark_segment`)."""

    files: int
    chunks: int
    symbols: int
    static: str
    segments: dict[str, tuple[int, int]]


def mark_segment(path: Path) -> tuple[int, int]:
    """Return the size of a segment file and a checksum of what is read of it whenever it is opened. Raises: OSError."""
    with path.open("rb") as source:
        return os.fstat(source.fileno()).st_size, zlib.crc32(source.read(MARKED_BYTES))


class EmbeddedStore:
    """The index of one work tree. Thread-safe; any number of processes may use the same folder.

    A team's store, in `context_engine.team`, also publishes it.
    """

    problem = ""
    """Why the database of a team could not be used the last time; empty when it could, and without a team."""

    def __init__(self, folder: Path) -> None:
        """Open and create nothing yet."""
        self.folder = folder
        self._lock = threading.RLock()
        self._reader: GenerationReader | None = None
        self._current_file = str(folder / "CURRENT")
        self._mark: tuple[int, int] | None = None

    # -- reading --

    def snapshot(self) -> Snapshot | None:
        """Return the newest published state; None when there is none. The same object as long as nothing changed.

        Raises: StorageCorrupt.
        """
        with self._lock:
            return self._ask(lambda reader: reader.snapshot())

    def summary(self) -> IndexSummary | None:
        """Return what the last full run noted; None if anything was committed since, or a segment is damaged."""
        with self._lock:
            return self._ask(lambda reader: reader.summary())

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Set values next to the index. Raises: DiskFull, WriteFailed, StorageCorrupt."""
        with self._lock:
            self._ask(lambda reader: reader.set_metadata(metadata))

    def files(self) -> dict[str, FileState]:
        """Return the state of each indexed file, by path."""
        with self._lock:
            return self._ask(lambda reader: reader.files()) or {}

    def count_skipped(self, examples_max: int) -> tuple[dict[str, int], tuple[Skipped, ...]]:
        """Return why files are not indexed: how many for each reason, and some examples, the ignored ones last."""
        with self._lock:
            return self._ask(lambda reader: reader.count_skipped(examples_max)) or ({}, ())

    def skipped_files(self) -> list[SkippedFile]:
        """Return (path, reason, detail, size, mtime_ns) of files that were skipped for their content."""
        with self._lock:
            return self._ask(lambda reader: reader.skipped_files()) or []

    def file_stamps(self) -> set[tuple[str, int, int]]:
        """Return (path, size, mtime_ns) of each file that was indexed, or skipped for its content."""
        sql = "SELECT path, size, mtime_ns FROM file UNION ALL SELECT path, size, mtime_ns FROM skipped"
        with self._lock:
            return self._ask(lambda reader: set(reader.rows(sql))) or set()

    def disk_bytes(self) -> int:
        """Return the bytes of all its files on this machine, while others create and delete some."""
        total = 0
        for at, _, names in os.walk(self.folder):
            for name in names:
                with suppress(OSError):
                    total += os.stat(os.path.join(at, name)).st_size
        return total

    def metadata(self, name: str) -> Any:
        """Return a value that was committed with the index; None when unknown."""
        with self._lock:
            return self._ask(lambda reader: reader.fact(name))

    def check(self) -> list[str]:
        """Read every byte of the index and return its problems, in words; empty when it is intact."""
        from context_engine.index.embedded_writer import find_problems

        generation = self.generation()
        return find_problems(self.folder / generation) if generation else []

    def _ask(self, ask) -> Any:
        """Query the current generation; look again when a merge or a swap removes files between look and open."""
        for attempt in range(READ_TRIES):
            try:
                reader = self._current()
                if reader is None:
                    return None
                return ask(reader)
            except FileNotFoundError:
                self._forget()
            except apsw.Error as error:
                self._forget()
                if attempt == READ_TRIES - 1 or isinstance(error, apsw.CorruptError | apsw.NotADBError):
                    raise self._trouble(error) from error
        raise database.corrupt_error(self.folder, INDEX_ADVICE, "its files are missing")

    def _trouble(self, error: apsw.Error) -> ContextEngineError:
        return database.translate_error(error, self.folder, INDEX_ADVICE) or database.corrupt_error(
            self.folder, INDEX_ADVICE, str(error)
        )

    def _current(self) -> GenerationReader | None:
        """Return the open reader, as long as CURRENT and its database are the same files: two `stat` calls."""
        mark = _file_identity(self._current_file)
        if self._reader is not None and mark == self._mark and self._reader.is_in_place():
            return self._reader
        self._forget()
        self._mark = mark
        generation = self.generation()
        if not generation:
            return None
        reader = GenerationReader(self.folder / generation)
        if reader.schema() != SCHEMA_VERSION:
            reader.close()
            return None
        self._reader = reader
        return reader

    def generation(self) -> str:
        """Return the name of the generation in use; empty when there is none."""
        try:
            name = (self.folder / "CURRENT").read_text("ascii").strip()
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return ""
        if _IS_GENERATION(name):
            return name
        return ""

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def close(self) -> None:
        """Close its files; the store can be used again afterwards."""
        with self._lock:
            self._forget()

    # -- writing --

    def start_from_team(self, identity: str) -> bool:  # noqa: ARG002 - a team's store has an index to start from
        """Start a missing index with that of a team, if its static vectors have this `identity`; return whether."""
        return False

    @contextmanager
    def writer(self, *, rebuild: bool = False, wait_s: float = 0.0) -> Generator[EmbeddedWriter]:
        """Yield the right to write, for one process at a time.

        `rebuild` starts an empty generation that `publish` puts in use.

        Raises: StorageBusy when another process writes (after `wait_s` seconds), DiskFull, WriteFailed, StorageCorrupt.
        """
        from context_engine.index.embedded_writer import open_writer

        busy = StorageBusy(
            "another process is indexing this workspace",
            suggestion="search as usual; its result appears by itself, or call again in a moment",
        )
        with translate_disk_errors(self.folder):
            try:
                make_private_folder(self.folder)
            except FileNotFoundError as error:  # what /proc says of a folder that cannot be made in it
                raise database.write_failed_error(self.folder, INDEX_ADVICE, str(error.strerror)) from error
            with (
                hold_private_lock(self.folder / "writer.lock", wait_s=wait_s, busy=busy),
                closing(open_writer(self, rebuild=rebuild)) as writer,
            ):
                yield writer

    def mapped_segments(self, generation: str) -> dict[int, Segment]:
        """Return the segments of a generation that are mapped already, by number."""
        reader = self._reader
        if reader is None or reader.generation != generation or not reader.is_in_place():
            return {}
        return reader.known_segments()

    def clear(self) -> int:
        """Delete the index; return the bytes freed. Raises: StorageBusy while another process writes."""
        if not self.folder.exists():
            return 0
        freed = self.disk_bytes()
        with self.writer(wait_s=CLEAR_WAIT_S):
            self.close()
            (self.folder / "CURRENT").unlink(missing_ok=True)
            for path in self.folder.glob("g-*"):
                shutil.rmtree(path, ignore_errors=True)
        return freed


class Generation:
    """One generation: a database that lists its files, next to their segments."""

    def __init__(self, path: Path, db: apsw.Connection) -> None:
        self.generation, self.path, self._db = path.name, path, db

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return list_rows(self._db, sql, values)

    def fact(self, name: str) -> Any:
        """Return a value that was committed with the index; None when unknown."""
        rows = self.rows("SELECT value FROM fact WHERE name=?", (name,))
        return rows[0][0] if rows else None

    def files(self) -> dict[str, FileState]:
        """Return what is indexed, by path."""
        return {path: FileState(*state) for path, *state in self.rows("SELECT path, size, mtime_ns, sha256 FROM file")}

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Set values next to the index; readers' snapshots stay as they are."""
        with database.transaction(self._db):
            self._db.executemany("INSERT OR REPLACE INTO fact VALUES (?,?)", list(metadata.items()))

    def mark_segments(self) -> dict[str, tuple[int, int]]:
        """Return the marks of all segments by their names. Raises: OSError."""
        names = [f"{number:06d}.seg" for (number,) in self.rows("SELECT id FROM segment")]
        return {name: mark_segment(self.path / name) for name in names}

    def count_files(self) -> int:
        """Return how many files are indexed."""
        return self.rows("SELECT count(*) FROM file")[0][0]

    def skipped_files(self) -> list[SkippedFile]:
        """Return (path, reason, detail, size, mtime_ns) of files that were skipped for their content."""
        return self.rows("SELECT path, reason, detail, size, mtime_ns FROM skipped ORDER BY path")

    def count_skipped(self, examples_max: int) -> tuple[dict[str, int], tuple[Skipped, ...]]:
        """Return why files are not indexed: how many for each reason, and some examples, the ignored ones last."""
        by_content = [Skipped(*row[:3]) for row in self.skipped_files()]
        examples = [*by_content, *(Skipped(*row) for row in json.loads(self.fact("skipped_examples") or "[]"))]
        counts = Counter(json.loads(self.fact("skipped_counts") or "{}"))
        counts.update(file.reason for file in by_content)
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return dict(ordered), tuple(sorted(examples, key=attrgetter("order"))[:examples_max])


class GenerationReader(Generation):
    """One open generation, read only."""

    def __init__(self, path: Path) -> None:
        if not (path / "index.db").exists():
            raise FileNotFoundError(path / "index.db")
        self._file_path = str(path / "index.db")
        self._file = _file_identity(self._file_path)
        db, self._is_makeshift = _connect_to_read(path / "index.db")
        super().__init__(path, db)
        self._snapshot: Snapshot | None = None
        self._version = -1

    def known_segments(self) -> dict[int, Segment]:
        """Return the segments it has mapped, by number."""
        if self._snapshot is None:
            return {}
        return self._snapshot.by_number

    def is_in_place(self) -> bool:
        """Return whether the open database is the file on disk: a cleared index starts again under an old name."""
        return not self._is_makeshift and _file_identity(self._file_path) == self._file

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def schema(self) -> int:
        """Return the version of its layout."""
        return self.fact("schema") or 0

    def summary(self) -> IndexSummary | None:
        """Return what the last full run noted; None if anything was committed since, or a segment is damaged."""
        values = json.loads(self.fact("summary") or "{}")
        with suppress(OSError, TypeError):  # another release noted other counts
            marks = {name: list(mark) for name, mark in self.mark_segments().items()}
            if not self.fact("unfinished") and values.get("segments") == marks:
                return IndexSummary(**values)
        return None

    def snapshot(self, known: Mapping[int, Segment] | None = None) -> Snapshot:
        """Return the state; `PRAGMA data_version` (7 microseconds) detects commits.

        `known` segments are mapped already.
        """
        version = self._db.pragma("data_version")
        if self._snapshot is None or version != self._version:
            if self._snapshot is None:
                self._snapshot = _read_snapshot(self._db, self.path, known)
            elif self._snapshot.epoch != self.fact("epoch"):
                self._snapshot = _read_snapshot(self._db, self.path, self._snapshot.by_number)
            self._version = version
        return self._snapshot


def _file_identity(path: str) -> tuple[int, int] | None:
    """Return what differs for a file that replaced another; None when there is none."""
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return facts.st_dev, facts.st_ino


def _read_snapshot(db: apsw.Connection, path: Path, known: Mapping[int, Segment] | None) -> Snapshot:
    from context_engine.index.embedded_writer import read_snapshot  # with numpy, which a list of files does not need

    return read_snapshot(db, path, known)


def list_rows(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return db.execute(sql, values).fetchall()


def _connect_to_read(path: Path) -> tuple[apsw.Connection, bool]:
    """Open a database; return whether it is a frozen copy, which shows no later changes (full or read-only disk)."""
    try:
        return connect(path), False
    except database.REFUSED:
        if (frozen := database.open_frozen(path)) is None:
            raise
        return frozen, True


def connect(path: Path) -> apsw.Connection:
    """Open a database as all processes open it."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(5_000)
    # NORMAL: a power cut may lose the last commits of this cache, never its integrity.
    db.execute(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA mmap_size=0; PRAGMA journal_size_limit=4194304"
    ).fetchall()  # a statement that answers with a row holds up those behind it
    return db


def translate_disk_errors(folder: Path) -> AbstractContextManager[None]:
    """Raise errors of this package for what SQLite and the system report about the folder of an index."""
    return database.translate_errors(folder, INDEX_ADVICE)
