"""Reviews that last: sessions cut into units, what was found in each, and what need not be looked at twice. One SQLite file.

    state.db    in `<workspace>/.context-engine/`; see docs/decisions/0034

A unit is taken by the owner of its session, and only who took it may say how it ended: what is taken carries the owner and the
number of the try, so whoever was taken for dead and comes back changes nothing. Every step of a unit stands in the log. What
the bodies hold is somebody else's business; they are kept packed, and nothing here knows what a finding is.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from context_engine.errors import DiskFull, StorageBusy, StorageCorrupt, WriteFailed
from context_engine.store import database, state
from context_engine.store.locks import PathLocks

SCHEMA_VERSION = 1
BUSY_MS = 5_000
SESSIONS_MAX = 100
"""Older ones go, those under way excepted: who asks for a review of last month wants it done again."""
KEPT_MAX = 200
"""Reviews that wait for a second pass; agents come back within minutes."""
CACHE_BYTES_MAX = 64 * 1024 * 1024
"""Some hundred thousand files looked at: most bodies hold no finding and take 200 bytes."""

_SCHEMA = f"""
CREATE TABLE session(
    id TEXT PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL, lease_until REAL NOT NULL,
    created_at REAL NOT NULL, updated_at REAL NOT NULL, workers INT NOT NULL, request BLOB NOT NULL, outcome BLOB NOT NULL,
    error TEXT NOT NULL);
CREATE INDEX session_of_key ON session(key);
CREATE TABLE unit(
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, number INT NOT NULL, paths TEXT NOT NULL, cost INT NOT NULL,
    state TEXT NOT NULL, tries INT NOT NULL, owner TEXT NOT NULL, queued_at REAL NOT NULL, began_at REAL NOT NULL,
    ended_at REAL NOT NULL, figures BLOB NOT NULL, error TEXT NOT NULL, PRIMARY KEY(session, number)) WITHOUT ROWID;
CREATE TABLE log(
    id INTEGER PRIMARY KEY, session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, unit INT NOT NULL, at REAL NOT NULL,
    owner TEXT NOT NULL, event TEXT NOT NULL);
CREATE INDEX log_of_session ON log(session);
CREATE TABLE finding(
    id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, body BLOB NOT NULL);
CREATE INDEX finding_of_session ON finding(session);
CREATE TABLE body(
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, path TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY(session, path)) WITHOUT ROWID;
CREATE TABLE cache(key TEXT PRIMARY KEY, used_at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE kept(id TEXT PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {SCHEMA_VERSION};
"""


@dataclass(frozen=True, slots=True)
class Session:
    """One review of one change. `key` is what makes two of them the same; moments are seconds since 1970.

    `owner` is the process that runs it, as long as its lease lasts; `request` and `outcome` are JSON.
    """

    id: str
    key: str
    status: str
    owner: str
    lease_until: float
    created_at: float
    updated_at: float
    workers: int
    request: bytes
    outcome: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """Some files that are reviewed together. `state` is queued, running, done or failed; `figures` are JSON."""

    number: int
    paths: tuple[str, ...]
    cost: int
    state: str = "queued"
    tries: int = 0
    owner: str = ""
    queued_at: float = 0.0
    began_at: float = 0.0
    ended_at: float = 0.0
    figures: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a unit leaves behind: a body for each path, what was found, what may be used again, and what was."""

    bodies: Mapping[str, bytes]
    findings: Sequence[bytes] = ()
    cache: Mapping[str, bytes] = field(default_factory=dict)
    used: Collection[str] = ()
    figures: bytes = b""


class Event(NamedTuple):
    """One line of the log: what happened to a unit, when, and in whose hands."""

    unit: int
    at: float
    owner: str
    event: str  # taken, done, failed, again, given back, lost


Decide = Callable[[Session], Session]
"""What becomes of a session, given what it is."""


class ReviewStore:
    """The reviews of one workspace. Thread-safe; any number of processes may hold one on the same folder.

    Raises in every method: StorageBusy, StorageCorrupt, WriteFailed, DiskFull.
    """

    def __init__(self, folder: Path) -> None:
        """Nothing is opened or created until something is written."""
        self.path = folder / "state.db"
        self._lock = threading.RLock()
        self._making = PathLocks(folder / "locks")
        self._db: apsw.Connection | None = None
        self._inode = 0

    def close(self) -> None:
        """Let go of the file; it can be used again afterwards."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    # -- sessions --

    def add(self, session: Session, units: Iterable[Unit], *, instead_of: Collection[str] = ()) -> str:
        """Put a session down, unless there is one of its key whose status is among `instead_of`; the id of the one that counts."""
        with self._writing() as db:
            same = _rows(db, "SELECT id, status FROM session WHERE key = ? ORDER BY created_at DESC", (session.key,))
            for there, status in same:
                if status in instead_of:
                    return there
            db.execute(_INSERT_SESSION, astuple(session))
            db.executemany(_INSERT_UNIT, [(session.id, *_unit_values(unit)) for unit in units])
            _drop_old_sessions(db)
            return session.id

    def session(self, session_id: str) -> Session | None:
        """A session as it is now."""
        rows = self._ask("SELECT * FROM session WHERE id = ?", (session_id,))
        return Session(*rows[0]) if rows else None

    def sessions(self) -> list[Session]:
        """All of them, newest first."""
        return [Session(*row) for row in self._ask("SELECT * FROM session ORDER BY created_at DESC, id DESC")]

    def move(
        self, session_id: str, decide: Decide, *, requeue: Collection[str] = (), at: float = 0.0
    ) -> Session | None:
        """Change a session as `decide` says, which sees what nobody changes meanwhile; None when there is none.

        If it changes, units whose state is among `requeue` are queued again. What `decide` raises leaves all as it is.
        """
        with self._writing() as db:
            rows = _rows(db, "SELECT * FROM session WHERE id = ?", (session_id,))
            if not rows:
                return None
            before = Session(*rows[0])
            after = decide(before)
            if after != before:
                db.execute(_UPDATE_SESSION, (*astuple(after)[2:], session_id))
                _requeue(db, session_id, requeue, at)
            return after

    def beat(self, session_id: str, owner: str, lease_until: float) -> Session | None:
        """Say that the owner is alive; the session, None when it is not the owner's any more."""
        with self._writing() as db:
            said = "UPDATE session SET lease_until = ? WHERE id = ? AND owner = ?"
            db.execute(said, (lease_until, session_id, owner))
            return Session(*_rows(db, "SELECT * FROM session WHERE id = ?", (session_id,))[0]) if db.changes() else None

    # -- units --

    def units(self, session_id: str) -> list[Unit]:
        """The units of a session, by number."""
        rows = self._ask(f"SELECT {_UNIT_COLUMNS} FROM unit WHERE session = ? ORDER BY number", (session_id,))  # noqa: S608 - our own names
        return [_unit(row) for row in rows]

    def take(self, session_id: str, owner: str, at: float) -> Unit | None:
        """Take the next unit of a session that is running and is the owner's; None when there is none to take."""
        with self._writing() as db:
            found = _rows(db, _NEXT_UNIT, (session_id, owner))
            if not found:
                return None
            unit = _unit(found[0])
            taken = replace(unit, state="running", owner=owner, tries=unit.tries + 1, began_at=at)
            _put_unit(db, session_id, taken, at, "taken")
            return taken

    def checkpoint(self, session_id: str, unit: Unit, left: Checkpoint, at: float) -> bool:
        """A taken unit is done; False when it is not the taker's any more, and what it left is thrown away."""
        with self._writing() as db:
            if not _is_held(db, session_id, unit):
                return False
            done = replace(unit, state="done", ended_at=at, figures=left.figures, error="")
            _put_unit(db, session_id, done, at, "done")
            bodies = [(session_id, path, zlib.compress(body, 1)) for path, body in left.bodies.items()]
            db.executemany("INSERT OR REPLACE INTO body VALUES (?, ?, ?)", bodies)
            findings = [(session_id, body) for body in left.findings]
            db.executemany("INSERT INTO finding VALUES (NULL, ?, ?)", findings)
            cached = [(key, at, zlib.compress(body, 1)) for key, body in left.cache.items()]
            db.executemany("INSERT OR REPLACE INTO cache VALUES (?, ?, ?)", cached)
            db.executemany("UPDATE cache SET used_at = ? WHERE key = ?", [(at, key) for key in left.used])
            return True

    def give_back(self, session_id: str, unit: Unit, at: float) -> bool:
        """A taken unit was not finished and waits for the next; whether it still was the taker's."""
        return self._ended(session_id, replace(unit, state="queued", owner="", queued_at=at), unit, at, "given back")

    def fail(self, session_id: str, unit: Unit, error: str, at: float, *, again: bool) -> bool:
        """A taken unit went wrong: it is tried `again`, or not; whether it still was the taker's."""
        if again:
            queued = replace(unit, state="queued", owner="", queued_at=at, error=error)
            return self._ended(session_id, queued, unit, at, "again")
        return self._ended(session_id, replace(unit, state="failed", ended_at=at, error=error), unit, at, "failed")

    def _ended(self, session_id: str, after: Unit, before: Unit, at: float, event: str) -> bool:
        with self._writing() as db:
            held = _is_held(db, session_id, before)
            if held:
                _put_unit(db, session_id, after, at, event, owner=before.owner)
            return held

    def log(self, session_id: str) -> list[Event]:
        """What happened to the units of a session, in order."""
        return [
            Event(*row)
            for row in self._ask("SELECT unit, at, owner, event FROM log WHERE session = ? ORDER BY id", (session_id,))
        ]

    # -- what was found --

    def findings(self, session_id: str, *, after: int = 0, limit: int = -1) -> list[tuple[int, bytes]]:
        """Findings in the order in which they came, each with its number; those after a number."""
        asked = "SELECT id, body FROM finding WHERE session = ? AND id > ? ORDER BY id LIMIT ?"
        return [(number, bytes(body)) for number, body in self._ask(asked, (session_id, after, limit))]

    def bodies(self, session_id: str) -> dict[str, bytes]:
        """What was left of each path."""
        rows = self._ask("SELECT path, body FROM body WHERE session = ? ORDER BY path", (session_id,))
        return {path: zlib.decompress(body) for path, body in rows}

    # -- what need not be done twice --

    def cached(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The bodies that are known by these keys."""
        asked = "SELECT key, body FROM cache WHERE key IN (SELECT value FROM json_each(?))"
        return {key: zlib.decompress(body) for key, body in self._ask(asked, (json.dumps(sorted(set(keys))),))}

    def keep(self, name: str, body: bytes, at: float) -> None:
        """Keep what a second call will go on from."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (name, at, zlib.compress(body, 1)))
            db.execute("DELETE FROM kept WHERE id NOT IN (SELECT id FROM kept ORDER BY at DESC LIMIT ?)", (KEPT_MAX,))

    def kept(self, name: str) -> bytes | None:
        """What was kept under a name; None when it was never there, or is too long ago."""
        rows = self._ask("SELECT body FROM kept WHERE id = ?", (name,))
        return zlib.decompress(rows[0][0]) if rows else None

    def trim(self) -> None:
        """Let go of the part of the cache that was not used for the longest time, beyond its limit."""
        with self._writing() as db:
            db.execute(_TRIM_CACHE, (CACHE_BYTES_MAX,))

    # -- the database --

    def _ask(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, _told(self.path):
            db = self._connected(create=False)
            return [] if db is None else _rows(db, sql, values)

    @contextmanager
    def _writing(self) -> Generator[apsw.Connection]:
        with self._lock, _told(self.path):
            db = self._connected(create=True)
            assert db is not None
            with database.transaction(db):
                yield db

    def _connected(self, *, create: bool) -> apsw.Connection | None:
        """The open database, as long as it is the file that lies there: somebody may have cleaned the folder up."""
        inode = database.inode(self.path)
        if self._db is not None and inode != self._inode:
            self.close()
        if self._db is None and (inode or create):
            with self._making.held([self.path.name]):  # two that make it at once would each find it locked
                self._db = _opened(self.path)
            self._inode = database.inode(self.path)
        return self._db


_UNIT_COLUMNS = ", ".join(each.name for each in fields(Unit))
_INSERT_SESSION = "INSERT INTO session VALUES (?,?,?,?,?,?,?,?,?,?,?)"
_INSERT_UNIT = "INSERT OR REPLACE INTO unit VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
_UPDATE_SESSION = f"UPDATE session SET {', '.join(f'{each.name} = ?' for each in fields(Session)[2:])} WHERE id = ?"  # noqa: S608 - our own names
_NEXT_UNIT = f"""
SELECT {", ".join(f"unit.{field.name}" for field in fields(Unit))} FROM unit JOIN session ON session.id = unit.session
WHERE session.id = ? AND session.owner = ? AND session.status = 'running' AND unit.state = 'queued'
ORDER BY number LIMIT 1"""  # noqa: S608 - our own names
_DROP_OLD_SESSIONS = """
DELETE FROM session WHERE status NOT IN ('running', 'pausing')
AND id NOT IN (SELECT id FROM session ORDER BY created_at DESC LIMIT ?)"""
_TRIM_CACHE = """
DELETE FROM cache WHERE key IN (
    SELECT key FROM (SELECT key, sum(length(body) + length(key)) OVER (ORDER BY used_at DESC, key) AS bytes FROM cache)
    WHERE bytes > ?)"""


def _unit_values(unit: Unit) -> tuple[Any, ...]:
    values = list(astuple(unit))
    values[1] = "\0".join(unit.paths)
    return tuple(values)


def _unit(row: Sequence[Any]) -> Unit:
    number, paths, *rest = row
    return Unit(number, tuple(paths.split("\0")), *rest)


def _put_unit(db: apsw.Connection, session_id: str, unit: Unit, at: float, event: str, *, owner: str = "") -> None:
    """Write a unit anew, and the line of the log that says why."""
    db.execute(_INSERT_UNIT, (session_id, *_unit_values(unit)))
    db.execute(
        "INSERT INTO log VALUES (NULL, ?, ?, ?, ?, ?)", (session_id, unit.number, at, owner or unit.owner, event)
    )


def _is_held(db: apsw.Connection, session_id: str, unit: Unit) -> bool:
    """Whether a unit is still in the hands, and in the try, of who took it."""
    asked = "SELECT 1 FROM unit WHERE session = ? AND number = ? AND state = 'running' AND owner = ? AND tries = ?"
    return bool(_rows(db, asked, (session_id, unit.number, unit.owner, unit.tries)))


def _requeue(db: apsw.Connection, session_id: str, states: Collection[str], at: float) -> None:
    """Queue units again whose owner is gone, that failed, or that took too long to end."""
    asked = f"SELECT {_UNIT_COLUMNS} FROM unit WHERE session = ? AND state IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own names
    for row in _rows(db, asked, (session_id, json.dumps(sorted(states)))):
        unit = _unit(row)
        event = "lost" if unit.state == "running" else "again"
        queued = replace(unit, state="queued", owner="", queued_at=at)
        _put_unit(db, session_id, queued, at, event, owner=unit.owner)


def _drop_old_sessions(db: apsw.Connection) -> None:
    db.execute(_DROP_OLD_SESSIONS, (SESSIONS_MAX,))


def _rows(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    return db.execute(sql, values).fetchall()


def _opened(path: Path) -> apsw.Connection:
    state.make_folder(path.parent)
    state.renew_ignored(path.parent)
    settings = "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON"  # a power cut costs units, which are done again
    db = database.private(path, busy_ms=BUSY_MS, settings=settings)
    db.execute("BEGIN IMMEDIATE")
    version = db.pragma("user_version")
    if version == 0:
        db.execute(_SCHEMA)
    db.execute("COMMIT")
    if version not in {0, SCHEMA_VERSION}:
        db.close()
        raise _corrupt(path, f"it has the format {version}, this release knows {SCHEMA_VERSION}")
    return db


@contextmanager
def _told(path: Path) -> Generator[None]:
    """Turn SQLite's words into ours."""
    try:
        yield
    except apsw.BusyError as error:
        raise StorageBusy(
            "another process keeps the reviews locked", suggestion="Call again in a moment; nothing was lost."
        ) from error
    except apsw.FullError as error:
        raise DiskFull(
            f"no room left on the disk of {path}", suggestion="Free some space, then call resume_review."
        ) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.IOError) as error:
        raise WriteFailed(
            f"{path}, where reviews are kept, cannot be written: {error}",
            suggestion="Give this user permission to write there; review_git_diff reviews without writing anything.",
            details={"path": str(path), "reason": "refused"},
        ) from error
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, zlib.error) as error:
        raise _corrupt(path, str(error)) from error


def _corrupt(path: Path, why: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"the reviews in {path} cannot be read: {why}",
        suggestion="Move it away: it holds nothing but reviews, which can be done again.",
        details={"path": str(path)},
    )
