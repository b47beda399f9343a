"""File usage: a counter for each file and kind of access, which halves every week.

    access.db    in the cache of the workspace, next to its index: (path, kind, strength, at, count)

An access is counted in memory. A thread, which runs as long as there are new events, writes them together. A kill loses
the last two seconds of them. Any number of processes may count at once without losing events.

>>> later = AccessCounter(1.0, 0.0, 1).decay_to(HALF_LIFE_S)
>>> later.strength, score(later.strength), boost(score(later.strength))
(0.5, 0.14285714285714285, 1.0214285714285714)
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw

from context_engine.errors import HostError
from context_engine.index import translate_disk_errors
from context_engine.storage import make_private_folder, open_in_cache, transaction

AccessKind = Literal["read", "fragment", "hit", "edit", "plan", "review"]
"""A file or a part of it was read, shown as a hit, edited, named by a plan, or has a finding of a review."""
WEIGHTS: Mapping[AccessKind, float] = {
    "read": 1.0,
    "fragment": 0.5,
    "hit": 0.1,
    "edit": 3.0,
    "plan": 2.0,
    "review": 1.0,
}
HALF_LIFE_S = 7 * 86_400
"""What was read last week is half as likely to matter as what was read today."""
HALF_SCORE_STRENGTH = 3.0
"""The strength of a score of 0.5: an edit, or three reads."""
BOOST_MAX = 0.15
"""Usage may reorder files of about equal score, and nothing else."""
EVENTS_MAX = 50
FLUSH_S = 2.0
"""Events wait this long for others, but not more than `EVENTS_MAX` of them."""
ROWS_MAX = 50_000
"""Files and kinds of access of many years; beyond it the rows that were not used for the longest time are deleted."""
BUSY_MS = 5_000
RANKING_KEPT_S = 60.0
"""How long a ranking uses the same scores: the order of hits does not change when a question is repeated at once."""
COUNTED_BY_RANKING = frozenset({"read", "fragment", "edit", "plan", "review"})
"""Deliberate accesses. Files that were only shown are counted too, but would raise their rank by being shown."""
SCHEMA_VERSION = 1

_SCHEMA = f"""
CREATE TABLE access(
    path TEXT, kind TEXT, strength REAL NOT NULL, at REAL NOT NULL, count INT NOT NULL, PRIMARY KEY(path, kind)
) WITHOUT ROWID;
PRAGMA user_version = {SCHEMA_VERSION};
"""
_PUT = "INSERT OR REPLACE INTO access VALUES (?, ?, ?, ?, ?)"
_ALL = "SELECT * FROM access"
_OF_PATHS = "SELECT * FROM access WHERE path IN (SELECT value FROM json_each(?))"
_DROP_OLDEST = (
    "DELETE FROM access WHERE (path, kind) IN ("
    "SELECT path, kind FROM access ORDER BY at LIMIT max(0, (SELECT count(*) FROM access) - ?))"
)


class AccessCounter(NamedTuple):
    """The number of accesses, and how strongly they counted at a time (seconds since 1970)."""

    strength: float
    at: float
    count: int

    def decay_to(self, now: float) -> AccessCounter:
        """Return the counter, decayed to a later time. An earlier time counts as its own: clocks are set back."""
        now = max(now, self.at)
        return AccessCounter(self.strength * 2.0 ** ((self.at - now) / HALF_LIFE_S), now, self.count)

    def plus(self, other: AccessCounter) -> AccessCounter:
        """Return the sum at the later of both times: the order of events makes no difference."""
        now = max(self.at, other.at)
        one, two = self.decay_to(now), other.decay_to(now)
        return AccessCounter(one.strength + two.strength, now, one.count + two.count)


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """The accesses of one kind to a file: how many, how much they count now, and the time of the last."""

    path: str
    kind: str
    strength: float
    last_at: float
    count: int


def score(strength: float) -> float:
    """Return 0 for a file that was never accessed, up to 1 for one in constant use."""
    return strength / (strength + HALF_SCORE_STRENGTH)


def boost(scored: float) -> float:
    """Return the factor, 1 to 1.15, by which a ranking multiplies the score of a file."""
    return 1.0 + BOOST_MAX * scored


class FileUsage:
    """The accesses of one workspace. Thread-safe; any number of processes may use the same file.

    Callers never get an error of the disk: events wait until the disk works again, and `problem` says what is wrong.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time, enabled: bool = True) -> None:
        """Open and create nothing before the first access; if not `enabled`, never."""
        self.problem = ""
        self._path = path
        self._clock = clock
        self._enabled = enabled
        self._lock = threading.Lock()  # guards the waiting events
        self._disk = threading.Lock()  # guards the database; acquired first
        self._db: apsw.Connection | None = None
        self._waiting: dict[tuple[str, str], AccessCounter] = {}
        self._events = 0
        self._thread: threading.Thread | None = None
        self._due = threading.Event()
        self._closed = False
        self._ranking_scores: tuple[float, Mapping[str, float]] = (-RANKING_KEPT_S, {})

    # -- writing --

    def note(self, path: str, kind: AccessKind, times: int = 1) -> None:
        """Count an access to a file, in microseconds. A name that is not text cannot be stored."""
        if not self._enabled or not _is_text(path):
            return
        event = AccessCounter(WEIGHTS[kind] * times, self._clock(), times)
        with self._lock:
            self._add((path, kind), event)
            self._events += times
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="ctx-access", daemon=True)
                self._thread.start()
            if self._events >= EVENTS_MAX:
                self._due.set()

    def flush(self) -> None:
        """Write the waiting events in one transaction."""
        with self._disk:
            waiting = self._take_waiting()
            if waiting and not self._write_counters(waiting):
                with self._lock:
                    for key, counter in waiting.items():
                        self._add(key, counter)

    def follow_renames(self, names: Mapping[str, str]) -> None:
        """Move the counters of renamed files (old -> new path); they are added to those of the new paths."""
        names = {old: new for old, new in names.items() if _is_text(old + new)}
        if not names or not self._enabled:
            return
        self.flush()
        with self._disk, self._record_problem(), self._open_transaction() as db:
            counted = _counters(db, names)
            db.executemany("DELETE FROM access WHERE path = ?", [(path,) for path in {path for path, _ in counted}])
            for (path, kind), counter in counted.items():
                _merge(db, {(names[path], kind): counter})

    def clear(self) -> None:
        """Delete all counters, also on the disk."""
        self._ranking_scores = (-RANKING_KEPT_S, {})
        with self._disk:
            self._take_waiting()
            with self._record_problem():
                if self._path.exists():
                    with self._open_transaction() as db:
                        db.execute("DELETE FROM access")

    def close(self) -> None:
        """Write the waiting events and close the file. Events after that are written by `flush` alone."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._due.set()
        if thread is not None:
            thread.join()
        self.flush()
        with self._disk:
            if self._db is not None:
                self._db.close()
                self._db = None

    # -- reading --

    def scores(
        self, paths: Collection[str] | None = None, kinds: Collection[str] = frozenset(WEIGHTS)
    ) -> dict[str, float]:
        """Return the current score of each accessed file; of these files and kinds of access only, if given."""
        strengths: dict[str, float] = {}
        for row in self.export(paths):
            if row.kind in kinds:
                strengths[row.path] = strengths.get(row.path, 0.0) + row.strength
        return {path: score(strength) for path, strength in strengths.items()}

    def ranking_scores(self) -> Mapping[str, float]:
        """Return how much each file is used, 0 to 1, as rankings count it; the same object for a minute."""
        computed_at, scores = self._ranking_scores
        if time.monotonic() - computed_at >= RANKING_KEPT_S:
            scores = self.scores(kinds=COUNTED_BY_RANKING)
            self._ranking_scores = time.monotonic(), scores
        return scores

    def export(self, paths: Collection[str] | None = None) -> list[AccessRecord]:
        """Return all counters by path and kind; of these files only, if given."""
        if not self._enabled:
            return []
        now = self._clock()
        rows = [
            AccessRecord(path, kind, counter.decay_to(now).strength, counter.at, counter.count)
            for (path, kind), counter in self._read_counters(paths).items()
        ]
        return sorted(rows, key=lambda row: (row.path, row.kind))

    def _read_counters(self, paths: Collection[str] | None) -> dict[tuple[str, str], AccessCounter]:
        """Return the counters on the disk together with the waiting events."""
        with self._disk:
            known: dict[tuple[str, str], AccessCounter] = {}
            with self._record_problem():
                if self._db is not None or self._path.exists():
                    known = _counters(self._open_database(), paths)
            with self._lock:
                for key, counter in self._waiting.items():
                    if paths is None or key[0] in paths:
                        known[key] = known[key].plus(counter) if key in known else counter
        return known

    # -- waiting events --

    def _add(self, key: tuple[str, str], counter: AccessCounter) -> None:
        known = self._waiting.get(key)
        self._waiting[key] = known.plus(counter) if known else counter

    def _take_waiting(self) -> dict[tuple[str, str], AccessCounter]:
        with self._lock:
            waiting, self._waiting, self._events = self._waiting, {}, 0
            self._due.clear()
        return waiting

    def _run(self) -> None:
        """Flush until no event waits, or the disk fails; the next event starts another thread."""
        while True:
            self._due.wait(FLUSH_S)
            self.flush()
            with self._lock:
                if not self._waiting or self.problem or self._closed:
                    self._thread = None
                    return

    # -- the database --

    def _write_counters(self, counters: Mapping[tuple[str, str], AccessCounter]) -> bool:
        """Add counters to those on the disk; return whether they were written."""
        with self._record_problem():
            with self._open_transaction() as db:
                _merge(db, counters)
            self.problem = ""
            return True
        return False

    @contextmanager
    def _record_problem(self) -> Generator[None]:
        """Record errors of the disk in `problem` instead of raising them."""
        try:
            with translate_disk_errors(self._path.parent):
                yield
        except HostError as error:
            self.problem = error.message
        except (apsw.Error, OSError) as error:  # such as a file that was replaced while it was open
            self.problem = f"{self._path} cannot be used: {error}"

    @contextmanager
    def _open_transaction(self) -> Generator[apsw.Connection]:
        """Yield the database in a transaction."""
        db = self._open_database()
        with transaction(db):
            yield db

    def _open_database(self) -> apsw.Connection:
        """Return the database; one that is damaged or of another release is replaced by an empty one."""
        if self._db is None:
            make_private_folder(self._path.parent)
            try:
                self._db = _connect(self._path)
            except (apsw.CorruptError, apsw.NotADBError, _OtherSchemaError):
                for path in (self._path, *(self._path.with_name(self._path.name + end) for end in ("-wal", "-shm"))):
                    path.unlink(missing_ok=True)
                self._db = _connect(self._path)
        return self._db


class _OtherSchemaError(Exception):
    """The tables are those of another release."""


def _connect(path: Path) -> apsw.Connection:
    db = open_in_cache(path, busy_ms=BUSY_MS, settings="PRAGMA synchronous=NORMAL")
    try:
        db.execute("BEGIN IMMEDIATE")
        version = db.pragma("user_version")
        if version == 0:
            db.execute(_SCHEMA)
        db.execute("COMMIT")
        if version not in {0, SCHEMA_VERSION}:
            raise _OtherSchemaError
        db.execute(_DROP_OLDEST, (ROWS_MAX,))
    except BaseException:
        db.close()
        raise
    return db


def _is_text(path: str) -> bool:
    """Return whether a path can be written as UTF-8; file names are bytes, and some are not text."""
    return path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path)


def _merge(db: apsw.Connection, counters: Mapping[tuple[str, str], AccessCounter]) -> None:
    """Add counters to those in the database, inside a transaction."""
    known = _counters(db, {path for path, _ in counters})
    db.executemany(
        _PUT,
        [(*key, *(known[key].plus(counter) if key in known else counter)) for key, counter in counters.items()],
    )


def _counters(db: apsw.Connection, paths: Iterable[str] | None) -> dict[tuple[str, str], AccessCounter]:
    """Return the counters of these files in the database, or of all."""
    if paths is None:
        query = (_ALL,)
    else:
        query = (_OF_PATHS, (json.dumps(sorted(paths)),))
    rows: list[tuple[Any, ...]] = db.execute(*query).fetchall()
    return {(row[0], row[1]): AccessCounter(*row[2:]) for row in rows}
