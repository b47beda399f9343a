"""What is looked at often, and lately: a counter per file and kind of access that halves with every week.

    access.db    in the cache of the workspace, beside its index: (path, kind, strength, at, count)

Noting an access costs no write: events gather in memory and go to the disk together, by a thread that lives as long as
there are any. A kill loses the last two seconds of them. Any number of processes may count at once, and none is lost
then.

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
from context_engine.storage import transaction

AccessKind = Literal["read", "fragment", "hit", "edit", "plan", "review"]
"""A whole file was read, a part of it, it was shown as a hit, changed, named by a plan, or found fault with by a
review."""
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
"""An edit, or three files read, is half of all a file can get."""
BOOST_MAX = 0.15
"""Habit may reorder what is about equally good, and nothing else."""
EVENTS_MAX = 50
FLUSH_S = 2.0
"""Events wait this long for others, and no more of them than that."""
ROWS_MAX = 50_000
"""Some files and their kinds of access, of many years; above it what was not accessed for the longest time is
forgotten."""
BUSY_MS = 5_000
RANKING_KEPT_S = 60.0
"""How often a ranking looks what is used: the order of hits does not change while the same question is asked twice."""
COUNTED_BY_RANKING = frozenset({"read", "fragment", "edit", "plan", "review"})
"""What was opened on purpose. What was only shown is counted, too, but would raise itself by being shown."""
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
    """How often, and how strongly that still counted at a moment (seconds since 1970)."""

    strength: float
    at: float
    count: int

    def decay_to(self, now: float) -> AccessCounter:
        """The same, decayed to a later moment. A moment before counts as this one: clocks are set back."""
        now = max(now, self.at)
        return AccessCounter(self.strength * 2.0 ** ((self.at - now) / HALF_LIFE_S), now, self.count)

    def plus(self, other: AccessCounter) -> AccessCounter:
        """Both together, at the later moment: the order in which events arrive makes no difference."""
        now = max(self.at, other.at)
        one, two = self.decay_to(now), other.decay_to(now)
        return AccessCounter(one.strength + two.strength, now, one.count + two.count)


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """One row as it is given away: how often a file was accessed in one way, how much that counts now, and when it was last."""

    path: str
    kind: str
    strength: float
    last_at: float
    count: int


def score(strength: float) -> float:
    """0 for what was never accessed, towards 1 for what always is."""
    return strength / (strength + HALF_SCORE_STRENGTH)


def boost(scored: float) -> float:
    """What a ranking multiplies a file's own score with: 1 to 1.15."""
    return 1.0 + BOOST_MAX * scored


class FileUsage:
    """The accesses of one workspace. Thread-safe; any number of processes may hold one on the same file.

    Trouble with the disk is never the caller's: events wait for better times, and `problem` says what is wrong.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time, enabled: bool = True) -> None:
        """Nothing is opened or created until something is accessed; if not `enabled`, nothing ever is."""
        self.problem = ""
        self._path = path
        self._clock = clock
        self._enabled = enabled
        self._lock = threading.Lock()  # over what waits
        self._disk = threading.Lock()  # over the database; taken first
        self._db: apsw.Connection | None = None
        self._waiting: dict[tuple[str, str], AccessCounter] = {}
        self._events = 0
        self._thread: threading.Thread | None = None
        self._due = threading.Event()
        self._closed = False
        self._ranking_scores: tuple[float, Mapping[str, float]] = (-RANKING_KEPT_S, {})

    # -- writing --

    def note(self, path: str, kind: AccessKind, times: int = 1) -> None:
        """A file was accessed just now. Takes microseconds; a name that is no text cannot be kept."""
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
        """Put what waits on the disk, in one transaction."""
        with self._disk:
            waiting = self._take_waiting()
            if waiting and not self._write_counters(waiting):
                with self._lock:
                    for key, counter in waiting.items():
                        self._add(key, counter)

    def rename(self, names: Mapping[str, str]) -> None:
        """Files go by other names now (old -> new); what the new names had already is added to."""
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
        """Forget everything, on the disk too."""
        self._ranking_scores = (-RANKING_KEPT_S, {})
        with self._disk:
            self._take_waiting()
            with self._record_problem():
                if self._path.exists():
                    with self._open_transaction() as db:
                        db.execute("DELETE FROM access")

    def close(self) -> None:
        """Put what waits on the disk and let go of the file. What is noted afterwards is written by `flush` alone."""
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
        """The score of each file that was accessed, now; of these files and kinds of access only, if given."""
        strengths: dict[str, float] = {}
        for row in (each for each in self.export(paths) if each.kind in kinds):
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
        """Everything that is known, by path and kind; of these files only, if given."""
        if not self._enabled:
            return []
        now = self._clock()
        rows = [
            AccessRecord(path, kind, counter.decay_to(now).strength, counter.at, counter.count)
            for (path, kind), counter in self._read_counters(paths).items()
        ]
        return sorted(rows, key=lambda row: (row.path, row.kind))

    def _read_counters(self, paths: Collection[str] | None) -> dict[tuple[str, str], AccessCounter]:
        """What is on the disk, and what waits."""
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

    # -- what waits --

    def _add(self, key: tuple[str, str], counter: AccessCounter) -> None:
        known = self._waiting.get(key)
        self._waiting[key] = known.plus(counter) if known else counter

    def _take_waiting(self) -> dict[tuple[str, str], AccessCounter]:
        with self._lock:
            waiting, self._waiting, self._events = self._waiting, {}, 0
            self._due.clear()
        return waiting

    def _run(self) -> None:
        """Flush until nothing waits any more, or the disk does not take it; the next event starts another thread."""
        while True:
            self._due.wait(FLUSH_S)
            self.flush()
            with self._lock:
                if not self._waiting or self.problem or self._closed:
                    self._thread = None
                    return

    # -- the database --

    def _write_counters(self, counters: Mapping[tuple[str, str], AccessCounter]) -> bool:
        """Add counters to what is on the disk; whether it took them."""
        with self._record_problem():
            with self._open_transaction() as db:
                _merge(db, counters)
            self.problem = ""
            return True
        return False

    @contextmanager
    def _record_problem(self) -> Generator[None]:
        """Keep whatever the disk has against it to ourselves."""
        try:
            with translate_disk_errors(self._path.parent):
                yield
        except HostError as error:
            self.problem = error.message
        except (apsw.Error, OSError) as error:  # as when somebody replaced the file under our hands
            self.problem = f"{self._path} cannot be used: {error}"

    @contextmanager
    def _open_transaction(self) -> Generator[apsw.Connection]:
        """A transaction."""
        db = self._open_database()
        with transaction(db):
            yield db

    def _open_database(self) -> apsw.Connection:
        """The database; one that is damaged or of another release is begun anew."""
        if self._db is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
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
    db = apsw.Connection(str(path))
    db.set_busy_timeout(BUSY_MS)
    try:
        db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL").fetchall()
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
    """Whether a path can be written as UTF-8; file names are bytes, and some are nothing else."""
    return path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path)


def _merge(db: apsw.Connection, counters: Mapping[tuple[str, str], AccessCounter]) -> None:
    """Add counters to what is there, inside a transaction."""
    known = _counters(db, {path for path, _ in counters})
    db.executemany(
        _PUT,
        [(*key, *(known[key].plus(counter) if key in known else counter)) for key, counter in counters.items()],
    )


def _counters(db: apsw.Connection, paths: Iterable[str] | None) -> dict[tuple[str, str], AccessCounter]:
    """What is on the disk of these files, or of all."""
    query = (_ALL,) if paths is None else (_OF_PATHS, (json.dumps(sorted(paths)),))
    rows: list[tuple[Any, ...]] = db.execute(*query).fetchall()
    return {(row[0], row[1]): AccessCounter(*row[2:]) for row in rows}
