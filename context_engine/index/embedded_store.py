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
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import numpy as np
from filelock import Timeout

from context_engine.errors import ContextEngineError, StorageBusy, StorageCorrupt
from context_engine.index import segment as segments
from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot
from context_engine.model import Skipped
from context_engine.storage import (
    create_private,
    database,
    lock_private,
    make_private_folder,
    replace_private,
    temporary_name,
)

SCHEMA_VERSION = 9
"""Raise it when tables, segment layout, chunking or tokens change: older generations are then rebuilt, never misread.

1 first layout, 2 roles, 3 outline blobs by msgpack, 4 checksums, touched files, definitions never split,
5 keys of embedded texts, static vectors, 6 languages and roles by the text of a file, 7 no keys of summaries,
9 outlines by pieces, with what macros and templates name
"""
SEGMENTS_MAX = 8
"""More segments than this slow queries down; fewer mean more merging."""
PATIENT_SEGMENTS_MAX = 24
"""Up to here a merge can wait for a quiet moment: a query over 24 small segments takes a millisecond longer."""
MERGE_FACTOR = 4
"""A segment is merged with its smaller neighbors once they together have a quarter of its size: each file moves log4(n)
times."""
MERGED_CHUNKS_MAX, MERGED_PARTS = 100_000, 12
"""A merge needs memory for its whole result and as much again: 300 MB. It makes a larger one only where that is less
than a twelfth of the index, since many segments slow queries down."""
DEAD_SHARE_MAX = 0.25
LOG_BYTES_MAX = 1_000_000
"""Folding the log into the database costs two flushes to the disk, as much as ten small commits."""
INHERIT_FILES_MAX = 100
"""Larger batches are followed by a new computation of importance anyway."""
READ_TRIES = 5
CLEAR_WAIT_S = 3.0
"""Indexing an edit takes milliseconds, a full run longer: that one must be canceled first."""
UNFINISHED: Mapping[str, Any] = {"unfinished": 1}
"""Committed with files until ranks have been computed over them, so that the next run completes a killed one."""

INDEX_ADVICE = database.StorageAdvice(
    "the index",
    busy="Call again in a moment.",
    full="free some space or set CTX_CACHE_FOLDER to another disk; what was committed before is intact",
    closed="set CTX_CACHE_FOLDER to a folder you may write to",
    damaged="call reindex_workspace (or `ctx index --force`); the index is only a cache",
)
_IS_GENERATION = re.compile(r"g-\d{6,9}").fullmatch
_EPOCH = "SELECT value FROM fact WHERE name='epoch'"
_SCHEMA = """
CREATE TABLE fact(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE segment(id INTEGER PRIMARY KEY, files INT NOT NULL, chunks INT NOT NULL, importance BLOB);
CREATE TABLE file(path TEXT PRIMARY KEY, size INT, mtime_ns INT, sha256 BLOB, segment INT, number INT) WITHOUT ROWID;
CREATE TABLE dead(segment INT, number INT, PRIMARY KEY(segment, number)) WITHOUT ROWID;
CREATE TABLE touched(segment INT, number INT, size INT, mtime_ns INT, PRIMARY KEY(segment, number)) WITHOUT ROWID;
CREATE TABLE skipped(path TEXT PRIMARY KEY, reason TEXT, detail TEXT, size INT, mtime_ns INT) WITHOUT ROWID;
INSERT INTO fact VALUES ('schema', {schema}), ('epoch', 0);
"""


SkippedFile = tuple[str, str, str, int, int]
"""(path, reason, detail, size, mtime_ns) of a file that was skipped for its content."""


class FileState(NamedTuple):
    """The size, time and hash of a file when it was indexed."""

    size: int
    mtime_ns: int
    sha256: bytes


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
        self._reader: _GenerationReader | None = None
        self._current_file = str(folder / "CURRENT")
        self._mark: tuple[int, int] | None = None

    # -- reading --

    def snapshot(self) -> Snapshot | None:
        """Return the newest published state; None when there is none. The same object as long as nothing changed.

        Raises: StorageCorrupt.
        """
        with self._lock:
            return self._ask(lambda reader: reader.snapshot())

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

    def _current(self) -> _GenerationReader | None:
        """Return the open reader, as long as CURRENT and its database are the same files: two `stat` calls."""
        mark = _file_identity(self._current_file)
        if self._reader is not None and mark == self._mark and self._reader.is_in_place():
            return self._reader
        self._forget()
        self._mark = mark
        generation = self.generation()
        if not generation:
            return None
        reader = _GenerationReader(self.folder / generation)
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
        lock = lock_private(self.folder / "writer.lock", timeout=wait_s)
        with translate_disk_errors(self.folder):
            try:
                make_private_folder(self.folder)
            except FileNotFoundError as error:  # what /proc says of a folder that cannot be made in it
                raise database.write_failed_error(self.folder, INDEX_ADVICE, str(error.strerror)) from error
            try:
                lock.acquire()
            except Timeout:
                raise StorageBusy(
                    "another process is indexing this workspace",
                    suggestion="search as usual; its result appears by itself, or call again in a moment",
                ) from None
            try:
                with closing(self._open_writer(rebuild)) as writer:
                    yield writer
            finally:
                lock.release()

    def _open_writer(self, rebuild: bool) -> EmbeddedWriter:
        current = self.generation()
        known = self._mapped_segments(current)
        usable = bool(current) and _is_usable(self.folder / current, known)
        if not usable:
            (self.folder / "CURRENT").unlink(missing_ok=True)
            self.close()
        for path in self.folder.glob("g-*"):
            if path.name != current or not usable:
                shutil.rmtree(path, ignore_errors=True)
        if usable and not rebuild:
            return EmbeddedWriter(self.folder, current, published=True, known=known)
        number = 1
        if current:
            number = int(current.removeprefix("g-")) + 1
        name = f"g-{number:06d}"
        _create(self.folder / name)
        return EmbeddedWriter(self.folder, name, published=False)

    def _mapped_segments(self, generation: str) -> dict[int, Segment]:
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


class _Generation:
    """One generation: a database that lists its files, next to their segments."""

    def __init__(self, path: Path, db: apsw.Connection) -> None:
        self.generation, self.path, self._db = path.name, path, db

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return _rows(self._db, sql, values)

    def fact(self, name: str) -> Any:
        """Return a value that was committed with the index; None when unknown."""
        rows = self.rows("SELECT value FROM fact WHERE name=?", (name,))
        return rows[0][0] if rows else None

    def files(self) -> dict[str, FileState]:
        """Return what is indexed, by path."""
        return {path: FileState(*state) for path, *state in self.rows("SELECT path, size, mtime_ns, sha256 FROM file")}

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


class EmbeddedWriter(_Generation):
    """The right of one process to change the index. Every method that returns has committed."""

    def __init__(
        self, folder: Path, generation: str, *, published: bool, known: Mapping[int, Segment] | None = None
    ) -> None:
        """`known` segments, by number, are mapped already and need not be opened again."""
        super().__init__(folder / generation, _connect(folder / generation / "index.db"))
        self._known = dict(known or {})
        self._folder = folder
        self.is_published = published
        self._parts: dict[int, Path] = {}
        self._remove_leftovers()

    def close(self) -> None:
        """Close the database; a log that has grown is folded into it first."""
        log = self.path / "index.db-wal"
        try:
            with suppress(apsw.BusyError, FileNotFoundError):  # a reader is looking: the next writer folds it
                if log.stat().st_size > LOG_BYTES_MAX:
                    self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._db.close()
            for part in self._parts.values():  # shares without a new file, and what a failure left
                with suppress(OSError):
                    part.unlink()

    def states(self, paths: Iterable[str]) -> dict[str, FileState]:
        """Return what is indexed of these files and, where they are folders, of everything below them."""
        sql = "SELECT path, size, mtime_ns, sha256 FROM file WHERE path=?1 OR (path>=?1||'/' AND path<?1||'0')"
        rows = (row for path in paths for row in self._db.execute(sql, (path,)))
        return {path: FileState(*state) for path, *state in rows}

    def skipped_states(self, paths: Sequence[str] = ("",)) -> dict[str, tuple[int, int]]:
        """Return (size, mtime_ns) of files below `paths` that were skipped for their content: they are not read again.

        A file that could not be read is tried every time: permission comes without another size or time.
        """
        sql = "SELECT path, size, mtime_ns FROM skipped WHERE ?1='' OR path=?1 OR (path>=?1||'/' AND path<?1||'0')"
        rows = (row for path in paths for row in self._db.execute(sql, (path,)))
        found = {path: (size, mtime_ns) for path, size, mtime_ns in rows}
        closed = self._db.execute("SELECT path FROM skipped WHERE reason='unreadable'")
        return found | {path: (-1, -1) for (path,) in closed if path in found}

    @property
    def is_unfinished(self) -> bool:
        """Whether files were committed that nothing has been computed over yet, or nothing is published."""
        return not self.is_published or bool(self.fact("unfinished"))

    def new_segment(self) -> tuple[int, Path]:
        """Return an unused number and file name, for a segment that is then given to `put`.

        The name is used only once: a process that outlives its writer may still write to it and must not hit a segment.
        """
        used = [int(path.stem) for path in self.path.glob("*.seg")]
        number = max([*used, *self._parts], default=0) + 1
        self._parts[number] = self.path / temporary_name()
        return number, self._parts[number]

    def _finish_segment(self, number: int) -> Segment:
        """Give a written segment its final name; return it."""
        os.replace(self._parts.pop(number), self._segment_path(number))
        return segments.load(self._segment_path(number))

    def put(
        self,
        written: Sequence[int],
        *,
        removed: Iterable[str] = (),
        skipped: Iterable[SkippedFile] = (),
        touched: Iterable[tuple[str, int, int]] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Commit everything that belongs together.

        The files of written segments replace older entries of the same path. `removed` files are gone, `skipped` ones
        are left out for their content, `touched` ones (path, size, mtime_ns) did not change.
        """
        loaded = {number: self._finish_segment(number) for number in written}
        db = self._db
        with database.transaction(db):
            gone = [(path,) for path in removed]
            for segment in loaded.values():
                gone += [(path,) for path in segment.heaps["path"].texts()]
            kept_out = list(skipped)
            gone += [(row[0],) for row in kept_out]
            inherited = {number: self._inherit_importance(segment) for number, segment in loaded.items()}
            db.executemany("INSERT OR IGNORE INTO dead SELECT segment, number FROM file WHERE path=?", gone)
            db.executemany("DELETE FROM file WHERE path=?", gone)
            db.executemany("DELETE FROM skipped WHERE path=?", gone)
            db.executemany("INSERT OR REPLACE INTO skipped VALUES (?,?,?,?,?)", kept_out)
            for number, segment in loaded.items():
                self._register(number, segment, inherited[number])
            looks = [(size, mtime_ns, path) for path, size, mtime_ns in touched]
            db.executemany("UPDATE file SET size=?, mtime_ns=? WHERE path=?", looks)
            db.executemany("INSERT OR REPLACE INTO touched SELECT segment, number, ?, ? FROM file WHERE path=?", looks)
            self._end_commit(metadata)

    def _inherit_importance(self, segment: Segment) -> np.ndarray:
        """Return the importance its files had before: a changed file keeps its rank until ranks are computed again."""
        values = np.zeros(segment.files, np.float16)
        sql = "SELECT importance, number FROM file JOIN segment ON segment.id = file.segment WHERE path=?"
        if segment.files <= INHERIT_FILES_MAX:
            for file, path in enumerate(segment.heaps["path"].texts()):
                for blob, number in self._db.execute(sql, (path,)):
                    values[file] = np.frombuffer(blob, np.float16)[number]
        return values

    def _register(self, number: int, segment: Segment, importance: np.ndarray) -> None:
        row = (number, segment.files, segment.chunks, importance.astype(np.float16).tobytes())
        self._db.execute("INSERT OR REPLACE INTO segment VALUES (?,?,?,?)", row)
        rows = zip(
            segment.heaps["path"].texts(),
            segment.file["size"].tolist(),
            segment.file["mtime_ns"].tolist(),
            segment.heaps["sha256"],
            (number for _ in range(segment.files)),
            range(segment.files),
            strict=False,
        )
        self._db.executemany("INSERT INTO file VALUES (?,?,?,?,?,?)", rows)

    def _end_commit(self, metadata: Mapping[str, Any] | None) -> None:
        self._db.executemany("INSERT OR REPLACE INTO fact VALUES (?,?)", list((metadata or {}).items()))
        self._db.execute("UPDATE fact SET value = value + 1 WHERE name = 'epoch'")

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Set values next to the index; readers' snapshots stay as they are."""
        with database.transaction(self._db):
            self._db.executemany("INSERT OR REPLACE INTO fact VALUES (?,?)", list(metadata.items()))

    def snapshot(self) -> Snapshot:
        """Return what has been committed by now, published or not."""
        snapshot = _snapshot(self._db, self.path, self._known)
        self._known = snapshot.by_number
        return snapshot

    def set_importance(self, values: np.ndarray) -> None:
        """Set the importance of every file of `snapshot()`, in its numbering."""
        with database.transaction(self._db):
            at = 0
            for number, files in _rows(self._db, "SELECT id, files FROM segment ORDER BY id"):
                part = np.asarray(values[at : at + files], np.float16).tobytes()
                self._db.execute("UPDATE segment SET importance=? WHERE id=?", (part, number))
                at += files
            self._end_commit(None)

    def compact(self, *, everything: bool = False, segments_max: int = SEGMENTS_MAX) -> int:
        """Merge segments that are more than `segments_max`, or mostly dead; return how many files were merged.

        Readers are not disturbed.
        """
        rows = _rows(self._db, "SELECT id, files, chunks FROM segment ORDER BY id")
        dead = dict(_rows(self._db, "SELECT segment, count(*) FROM dead GROUP BY segment"))
        if everything:
            chosen = [row[0] for row in rows]
        else:
            chosen = choose_merge(rows, dead, segments_max)
        if len(chosen) < 2 and not any(dead.get(number) for number in chosen):
            return 0
        touched = _read_touched(self._db)
        loaded = [self._known.get(number) or segments.load(self._segment_path(number)) for number in chosen]
        parts = [segment.with_touched(touched.get(number, ())) for number, segment in zip(chosen, loaded, strict=True)]
        alive = [np.ones(part.files, bool) for part in parts]
        for living, number in zip(alive, chosen, strict=True):
            gone = self._db.execute("SELECT number FROM dead WHERE segment=?", (number,)).fetchall()
            living[[row[0] for row in gone]] = False
        merged = segments.merge(parts, alive)
        number, path = self.new_segment()
        segments.write(merged, path)
        self._finish_segment(number)
        self._replace(chosen, alive, number, merged)
        for old in chosen:
            with suppress(OSError):  # Windows cannot delete a mapped file: the next writer does
                self._segment_path(old).unlink()
        return merged.files

    def _replace(self, chosen: Sequence[int], alive: Sequence[np.ndarray], number: int, merged: Segment) -> None:
        """Replace the rows of `chosen` by those of the merged segment.

        Files are deleted by path: by segment all rows would be scanned.
        """
        old = [
            np.frombuffer(_rows(self._db, "SELECT importance FROM segment WHERE id=?", (n,))[0][0], np.float16)
            for n in chosen
        ]
        importance = np.concatenate([values[living] for values, living in zip(old, alive, strict=True)])
        moved = [(path,) for path in merged.heaps["path"].texts()]
        with database.transaction(self._db):
            self._db.executemany("DELETE FROM file WHERE path=?", moved)
            for merged_number in chosen:
                self._db.execute("DELETE FROM dead WHERE segment=?", (merged_number,))
                self._db.execute("DELETE FROM touched WHERE segment=?", (merged_number,))
                self._db.execute("DELETE FROM segment WHERE id=?", (merged_number,))
            self._register(number, merged, importance)
            self._end_commit(None)

    def publish(self) -> None:
        """Put this generation in use; readers of the old one finish undisturbed."""
        if self.is_published:
            return
        replace_private(self._folder / "CURRENT", self.generation.encode(), flush=True)
        self.is_published = True
        for path in self._folder.glob("g-*"):
            if path.name != self.generation:
                shutil.rmtree(path, ignore_errors=True)

    def _segment_path(self, number: int) -> Path:
        return self.path / f"{number:06d}.seg"

    def _remove_leftovers(self) -> None:
        counted = {row[0] for row in self._db.execute("SELECT id FROM segment")}
        for path in self.path.glob("*.seg"):
            if int(path.stem) not in counted:
                with suppress(OSError):  # still mapped by a reader on Windows
                    path.unlink()


class _GenerationReader(_Generation):
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
        self._db.close()

    def schema(self) -> int:
        return self.fact("schema") or 0

    def snapshot(self, known: Mapping[int, Segment] | None = None) -> Snapshot:
        """Return the state; `PRAGMA data_version` (7 microseconds) detects commits.

        `known` segments are mapped already.
        """
        version = self._db.pragma("data_version")
        if self._snapshot is None or version != self._version:
            if self._snapshot is None:
                self._snapshot = _snapshot(self._db, self.path, known)
            elif self._snapshot.epoch != self.fact("epoch"):
                self._snapshot = _snapshot(self._db, self.path, self._snapshot.by_number)
            self._version = version
        return self._snapshot

    def check(self) -> list[str]:
        problems = [row[0] for row in self.rows("PRAGMA integrity_check") if row[0] != "ok"]
        snapshot = _snapshot(self._db, self.path)
        counted = self.count_files()
        if counted != snapshot.living_files:
            problems.append(f"{counted} files are listed but {snapshot.living_files} are searchable")
        names = snapshot.by_path
        bases = dict(zip(snapshot.segment_numbers, snapshot.file_base.tolist(), strict=False))
        for path, segment, number in self.rows("SELECT path, segment, number FROM file"):
            if segment not in bases or names.get(path) != bases[segment] + number:
                problems.append(f"{path} is listed in segment {segment} but is not there")
        return problems


def _file_identity(path: str) -> tuple[int, int] | None:
    """Return what differs for a file that replaced another; None when there is none."""
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return facts.st_dev, facts.st_ino


def _rows(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    return db.execute(sql, values).fetchall()


def _snapshot(db: apsw.Connection, path: Path, known: Mapping[int, Segment] | None = None) -> Snapshot:
    with db:  # a transaction only while the list is read
        rows = _rows(db, "SELECT id, importance FROM segment ORDER BY id")
        dead: dict[int, list[int]] = {}
        for segment, number in db.execute("SELECT segment, number FROM dead"):
            dead.setdefault(segment, []).append(number)
        epoch = _rows(db, _EPOCH)[0][0]
        touched = _read_touched(db)
    loaded = [(known or {}).get(number) or segments.load(path / f"{number:06d}.seg") for number, _ in rows]
    return Snapshot(
        loaded,
        [dead.get(number, []) for number, _ in rows],
        [np.frombuffer(values, np.float16) for _, values in rows],
        generation=path.name,
        epoch=epoch,
        numbers=[number for number, _ in rows],
        touched=[touched.get(number, ()) for number, _ in rows],
    )


def _read_touched(db: apsw.Connection) -> dict[int, list[tuple[int, int, int]]]:
    """Map segments to (file number, size, mtime_ns) of files that were rewritten with the same content."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for segment, *look in _rows(db, "SELECT segment, number, size, mtime_ns FROM touched"):
        found.setdefault(segment, []).append((look[0], look[1], look[2]))
    return found


def choose_merge(rows: Sequence[tuple[int, int, int]], dead: Mapping[int, int], segments_max: int) -> list[int]:
    """Return the segments to merge, of (number, files, chunks) in their order.

    Mostly dead ones; and, when there are too many, the newest as long as they are large enough compared with their
    elder. The result has at most `MERGED_CHUNKS_MAX` chunks or a share of all: a segment of more than half of that is
    merged again only when it is mostly dead, and does not count as one of many.
    """
    chunks_max = max(MERGED_CHUNKS_MAX, sum(chunks for _, _, chunks in rows) // MERGED_PARTS)
    growing = [row for row in rows if row[2] * 2 <= chunks_max]
    wanted = [row for row in rows if dead.get(row[0], 0) > row[1] * DEAD_SHARE_MAX]
    if len(growing) > segments_max:
        weight, tail = 0, []
        for row in reversed(growing):
            if len(tail) > 1 and weight * MERGE_FACTOR < row[2]:
                break
            tail.append(row)
            weight += row[2]
        wanted += [row for row in tail if row not in wanted]
    chosen, weight = [], 0
    for number, _, chunks in wanted:
        if chosen and weight + chunks > chunks_max:
            break
        chosen.append(number)
        weight += chunks
    return sorted(chosen)


def _create(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    make_private_folder(path)
    create_private(path / "index.db")
    db = _connect(path / "index.db")
    with database.transaction(db):
        db.execute(_SCHEMA.format(schema=SCHEMA_VERSION))
    db.close()


def _is_usable(path: Path, known: Mapping[int, Segment]) -> bool:
    """Return whether a generation has our schema and can be read; any other is rebuilt.

    Segments that are mapped already and still on disk are not read again: at every edit that would take longer than the
    edit.
    """
    try:
        with closing(_GenerationReader(path)) as reader:
            there = {number: segment for number, segment in known.items() if (path / f"{number:06d}.seg").exists()}
            return reader.schema() == SCHEMA_VERSION and reader.snapshot(there) is not None
    except (*database.REFUSED, apsw.BusyError):
        raise  # the disk is full or read-only: no reason to drop an index
    except (apsw.Error, FileNotFoundError, NotADirectoryError, StorageCorrupt, LookupError, TypeError, ValueError):
        return False


def find_problems(path: Path) -> list[str]:
    """Return the problems of a generation, in words; empty when it is intact. Read every byte of every segment."""
    try:
        with closing(_GenerationReader(path)) as reader:
            listed = [path / f"{number:06d}.seg" for (number,) in reader.rows("SELECT id FROM segment")]
            return [damage for file in listed if (damage := segments.find_damage(file))] or reader.check()
    except (apsw.Error, OSError, StorageCorrupt, LookupError, TypeError, ValueError) as error:
        return [str(error)]


def _connect_to_read(path: Path) -> tuple[apsw.Connection, bool]:
    """Open a database; return whether it is a frozen copy, which shows no later changes (full or read-only disk)."""
    try:
        return _connect(path), False
    except database.REFUSED:
        if (frozen := database.open_frozen(path)) is None:
            raise
        return frozen, True


def _connect(path: Path) -> apsw.Connection:
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
