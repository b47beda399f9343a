"""The right of one process to change the embedded store: commits of whole segments, and merges of older ones."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from context_engine.errors import StorageCorrupt
from context_engine.index import segment as segments
from context_engine.index.embedded_store import (
    EPOCH,
    SCHEMA_VERSION,
    EmbeddedStore,
    FileState,
    Generation,
    GenerationReader,
    IndexSummary,
    SkippedFile,
    connect,
    list_rows,
)
from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot
from context_engine.storage import create_private, database, make_private_folder, replace_private, temporary_name

SEGMENTS_MAX = 8
"""More segments than this slow queries down; fewer mean more merging."""
PATIENT_SEGMENTS_MAX = 24
"""Up to here a merge can wait for a quiet moment: a query over 24 small segments takes a millisecond longer."""
MERGE_FACTOR = 4
"""A segment is merged with its smaller neighbors once they together have a quarter of its size: each file moves log4(n)
times."""
MERGED_CHUNKS_MAX, MERGED_PARTS = 65_535, 16
"""A merge needs memory for its whole result and as much again: 200 MB, and ids of two bytes. It makes a larger one only
where that is less than a sixteenth of the index, since many segments slow queries down."""
DEAD_SHARE_MAX = 0.25
LOG_BYTES_MAX = 1_000_000
"""Folding the log into the database costs two flushes to the disk, as much as ten small commits."""
INHERIT_FILES_MAX = 100
"""Larger batches are followed by a new computation of importance anyway."""
UNFINISHED: Mapping[str, Any] = {"unfinished": 1}
"""Committed with files until ranks have been computed over them, so that the next run completes a killed one."""
_SCHEMA = """
CREATE TABLE fact(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE segment(id INTEGER PRIMARY KEY, files INT NOT NULL, chunks INT NOT NULL, importance BLOB);
CREATE TABLE file(path TEXT PRIMARY KEY, size INT, mtime_ns INT, sha256 BLOB, segment INT, number INT) WITHOUT ROWID;
CREATE TABLE dead(segment INT, number INT, PRIMARY KEY(segment, number)) WITHOUT ROWID;
CREATE TABLE touched(segment INT, number INT, size INT, mtime_ns INT, PRIMARY KEY(segment, number)) WITHOUT ROWID;
CREATE TABLE skipped(path TEXT PRIMARY KEY, reason TEXT, detail TEXT, size INT, mtime_ns INT) WITHOUT ROWID;
INSERT INTO fact VALUES ('schema', {schema}), ('epoch', 0);
"""


def open_writer(store: EmbeddedStore, *, rebuild: bool) -> EmbeddedWriter:
    """Open the generation in use, or an empty one: to `rebuild`, and where there is none that can be used."""
    folder, current = store.folder, store.generation()
    known = store.mapped_segments(current)
    usable = bool(current) and _is_usable(folder / current, known)
    if not usable:
        (folder / "CURRENT").unlink(missing_ok=True)
        store.close()
    for path in folder.glob("g-*"):
        if path.name != current or not usable:
            shutil.rmtree(path, ignore_errors=True)
    if usable and not rebuild:
        return EmbeddedWriter(folder, current, published=True, known=known)
    number = 1
    if current:
        number = int(current.removeprefix("g-")) + 1
    name = f"g-{number:06d}"
    _create(folder / name)
    return EmbeddedWriter(folder, name, published=False)


class EmbeddedWriter(Generation):
    """The right of one process to change the index. Every method that returns has committed."""

    def __init__(
        self, folder: Path, generation: str, *, published: bool, known: Mapping[int, Segment] | None = None
    ) -> None:
        """`known` segments, by number, are mapped already and need not be opened again."""
        super().__init__(folder / generation, connect(folder / generation / "index.db"))
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

    def snapshot(self) -> Snapshot:
        """Return what has been committed by now, published or not."""
        snapshot = read_snapshot(self._db, self.path, self._known)
        self._known = snapshot.by_number
        return snapshot

    def note_summary(self, metadata: Mapping[str, Any]) -> Snapshot:
        """Set values next to the index and what `summary` returns from then on; return the snapshot."""
        snapshot = self.snapshot()
        static = snapshot.static()
        counts = (snapshot.living_files, snapshot.living_chunks, snapshot.symbols)
        summary = IndexSummary(*counts, static.identity if static else "", self.mark_segments())
        self.set_metadata({**metadata, "summary": json.dumps(summary._asdict())})
        return snapshot

    def set_importance(self, values: np.ndarray) -> None:
        """Set the importance of every file of `snapshot()`, in its numbering."""
        with database.transaction(self._db):
            at = 0
            for number, files in list_rows(self._db, "SELECT id, files FROM segment ORDER BY id"):
                part = np.asarray(values[at : at + files], np.float16).tobytes()
                self._db.execute("UPDATE segment SET importance=? WHERE id=?", (part, number))
                at += files
            self._end_commit(None)

    def compact(self, *, everything: bool = False, segments_max: int = SEGMENTS_MAX) -> int:
        """Merge segments that are more than `segments_max`, or mostly dead; return how many files were merged.

        Readers are not disturbed.
        """
        rows = list_rows(self._db, "SELECT id, files, chunks FROM segment ORDER BY id")
        dead = dict(list_rows(self._db, "SELECT segment, count(*) FROM dead GROUP BY segment"))
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
            np.frombuffer(list_rows(self._db, "SELECT importance FROM segment WHERE id=?", (n,))[0][0], np.float16)
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


def read_snapshot(db: apsw.Connection, path: Path, known: Mapping[int, Segment] | None = None) -> Snapshot:
    """Return the state that is committed in a folder; `known` segments are mapped already."""
    with db:  # a transaction only while the list is read
        rows = list_rows(db, "SELECT id, importance FROM segment ORDER BY id")
        dead: dict[int, list[int]] = {}
        for segment, number in db.execute("SELECT segment, number FROM dead"):
            dead.setdefault(segment, []).append(number)
        epoch = list_rows(db, EPOCH)[0][0]
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
    for segment, *look in list_rows(db, "SELECT segment, number, size, mtime_ns FROM touched"):
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
    db = connect(path / "index.db")
    with database.transaction(db):
        db.execute(_SCHEMA.format(schema=SCHEMA_VERSION))
    db.close()


def _is_usable(path: Path, known: Mapping[int, Segment]) -> bool:
    """Return whether a generation has our schema and can be read; any other is rebuilt.

    Segments that are mapped already and still on disk are not read again: at every edit that would take longer than the
    edit.
    """
    try:
        with closing(GenerationReader(path)) as reader:
            there = {number: segment for number, segment in known.items() if (path / f"{number:06d}.seg").exists()}
            return reader.schema() == SCHEMA_VERSION and reader.snapshot(there) is not None
    except (*database.REFUSED, apsw.BusyError):
        raise  # the disk is full or read-only: no reason to drop an index
    except (apsw.Error, FileNotFoundError, NotADirectoryError, StorageCorrupt, LookupError, TypeError, ValueError):
        return False


def find_problems(path: Path) -> list[str]:
    """Return the problems of a generation, in words; empty when it is intact. Read every byte of every segment."""
    try:
        with closing(GenerationReader(path)) as reader:
            listed = [path / f"{number:06d}.seg" for (number,) in reader.rows("SELECT id FROM segment")]
            return [damage for file in listed if (damage := segments.find_damage(file))] or _compare_lists(reader)
    except (apsw.Error, OSError, StorageCorrupt, LookupError, TypeError, ValueError) as error:
        return [str(error)]


def _compare_lists(reader: GenerationReader) -> list[str]:
    """Return the problems of the list of files, compared with the segments, in words."""
    problems = [row[0] for row in reader.rows("PRAGMA integrity_check") if row[0] != "ok"]
    snapshot = reader.snapshot()
    counted = reader.count_files()
    if counted != snapshot.living_files:
        problems.append(f"{counted} files are listed but {snapshot.living_files} are searchable")
    names = snapshot.by_path
    bases = dict(zip(snapshot.segment_numbers, snapshot.file_base.tolist(), strict=False))
    for path, segment, number in reader.rows("SELECT path, segment, number FROM file"):
        if segment not in bases or names.get(path) != bases[segment] + number:
            problems.append(f"{path} is listed in segment {segment} but is not there")
    return problems
