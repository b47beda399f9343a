"""File usage: a counter for each file, which halves every week, in `access.db` next to the index of the workspace.

Accesses are counted in memory and written together after a while; a kill loses the last two seconds of them. Any
number of processes may count at once without losing events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw

from context_engine.errors import HostError
from context_engine.index import translate_disk_errors
from context_engine.storage import CacheDatabase, transaction

AccessKind = Literal["read", "fragment", "edit"]
ACCESS_WEIGHTS: Mapping[AccessKind, float] = {"read": 1.0, "fragment": 0.5, "edit": 3.0}
HALF_LIFE_S = 7 * 86_400
"""What was read a week before the last access is half as likely to matter; the same accesses always count the same."""
HALF_SCORE_STRENGTH = 3.0
"""The strength of a score of 0.5: an edit, or three reads."""
BOOST_MAX = 0.15
"""Usage may reorder files of about equal score, and nothing else."""
EVENTS_MAX = 50
FLUSH_S = 2.0
"""Events wait this long for others, but not more than `EVENTS_MAX` of them."""
ROWS_MAX = 50_000
"""Files of many years; beyond it those that were not used for the longest time are deleted."""
SCHEMA_VERSION = 2

_TABLES = """
CREATE TABLE access(path TEXT PRIMARY KEY, strength REAL NOT NULL, at REAL NOT NULL, count INT NOT NULL) WITHOUT ROWID
"""
_DROP_OLDEST = (
    "DELETE FROM access WHERE path IN "
    "(SELECT path FROM access ORDER BY at LIMIT max(0, (SELECT count(*) FROM access) - ?))"
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


Counters = dict[str, AccessCounter]


def _add(counters: Counters, added: Mapping[str, AccessCounter]) -> None:
    for path, counter in added.items():
        counters[path] = counters[path].plus(counter) if path in counters else counter


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
        self._clock = clock
        self._enabled = enabled
        self._lock = threading.Lock()  # guards the waiting events
        self._disk = threading.Lock()  # guards the database; acquired first
        self._database = CacheDatabase(path, _TABLES, version=SCHEMA_VERSION)
        self._waiting: Counters = {}
        self._events = 0
        self._timer: threading.Timer | None = None
        self._changes = 0  # of this process
        self._scored: tuple[tuple[int, object], Mapping[str, float]] = ((0, None), {})

    def note(self, path: str, kind: AccessKind) -> None:
        """Count an access to a file, in microseconds. A name that is not text cannot be stored."""
        if not self._enabled or not _is_text(path):
            return
        with self._lock:
            _add(self._waiting, {path: AccessCounter(ACCESS_WEIGHTS[kind], self._clock(), 1)})
            self._events += 1
            self._changes += 1
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_S, self.flush)
                self._timer.daemon = True
                self._timer.start()
            is_due = self._events == EVENTS_MAX
        if is_due:  # a caller never waits for the disk
            threading.Thread(target=self.flush, name="ctx-access", daemon=True).start()

    def flush(self) -> None:
        """Write the waiting events in one transaction; what cannot be written waits on."""
        with self._disk:
            waiting = self._take_waiting()
            if waiting and not self._change(lambda db: _write(db, waiting)):
                with self._lock:
                    _add(self._waiting, waiting)

    def follow_renames(self, names: Mapping[str, str]) -> None:
        """Move the counters of renamed files (old -> new path); they are added to those of the new paths."""
        names = {old: new for old, new in names.items() if _is_text(old + new)}
        if not names or not self._enabled:
            return
        self.flush()

        def move(db: apsw.Connection) -> None:
            moved = {path: counter for path, counter in _read(db).items() if path in names}
            db.executemany("DELETE FROM access WHERE path = ?", [(path,) for path in moved])
            for path, counter in moved.items():
                _write(db, {names[path]: counter})

        with self._disk:
            self._change(move)

    def clear(self) -> None:
        """Delete all counters, also on the disk."""
        with self._disk:
            self._take_waiting()
            if self._database.is_created:
                self._change(lambda db: db.execute("DELETE FROM access"))

    def close(self) -> None:
        """Write the waiting events and close the file; nothing is counted after that."""
        self._enabled = False
        self.flush()
        with self._disk:
            self._database.close()

    def counters(self) -> Counters:
        """Return the counter of each accessed file as of the last access, with the waiting events."""
        known = self._ask(_read) or {}
        with self._lock:
            _add(known, self._waiting)
        last = max((counter.at for counter in known.values()), default=0.0)
        return {path: counter.decay_to(last) for path, counter in known.items()}

    def ranking_scores(self) -> Mapping[str, float]:
        """Return how much each file is used, 0 to 1, as rankings count it; the same object until the next access."""
        state = self._changes, self._ask(lambda db: db.pragma("data_version"))  # the writes of other processes
        if self._scored[0] != state:
            self._scored = state, {path: score(counter.strength) for path, counter in self.counters().items()}
        return self._scored[1]

    def _ask(self, read: Callable[[apsw.Connection], Any]) -> Any:
        with self._disk, self._record_problem():
            return self._database.run(read) if self._enabled and self._database.is_created else None

    def _take_waiting(self) -> Counters:
        with self._lock:
            waiting, self._waiting, self._events = self._waiting, {}, 0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return waiting

    def _change(self, change: Callable[[apsw.Connection], object]) -> bool:

        def run(db: apsw.Connection) -> None:
            with transaction(db):
                change(db)
                db.execute(_DROP_OLDEST, (ROWS_MAX,))

        self._changes += 1
        with self._record_problem():
            self._database.run(run)
            self.problem = ""
            return True
        return False

    @contextmanager
    def _record_problem(self) -> Generator[None]:
        """Record errors of the disk in `problem` instead of raising them."""
        try:
            with translate_disk_errors(self._database.path.parent):
                yield
        except HostError as error:
            self.problem = error.message
        except (apsw.Error, OSError) as error:  # such as a file that was replaced while it was open
            self.problem = f"{self._database.path} cannot be used: {error}"


def _read(db: apsw.Connection) -> Counters:
    return {str(path): AccessCounter(*row) for path, *row in db.execute("SELECT path, strength, at, count FROM access")}


def _write(db: apsw.Connection, counters: Mapping[str, AccessCounter]) -> None:
    for path, counter in counters.items():
        row = db.execute("SELECT strength, at, count FROM access WHERE path = ?", (path,)).fetchone()
        known = AccessCounter(*row).plus(counter) if row else counter
        db.execute("INSERT OR REPLACE INTO access VALUES (?, ?, ?, ?)", (path, *known))


def _is_text(path: str) -> bool:
    """Return whether a path can be written as UTF-8; file names are bytes, and some are not text."""
    return path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path)
