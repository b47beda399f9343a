"""The store of reviews: sessions, the results of their units, a cache of reviewed files, pending second passes.

    state.db    in `<workspace>/.context-engine/`

Everything but the cache is a record with a path: `<session>/session` is the present state of a session,
`<session>/0007` the result of a unit, `<session>/outcome` its end, and `kept/<review>` what a second pass continues.
The same records can be those of a team (`synced_reviews`). Bodies are compressed, and not interpreted here.
"""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw
import msgspec

from context_engine.review.finding import ReviewRequest
from context_engine.storage import PathLocks, database, prepare_type

NAME = "state.db"
SCHEMA_VERSION = 3
SCHEMA = """
CREATE TABLE record(path TEXT PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE cache(key TEXT PRIMARY KEY, used_at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE team(mark TEXT PRIMARY KEY, revision INT NOT NULL) WITHOUT ROWID;
CREATE TABLE shared(mark TEXT, path TEXT, sha TEXT NOT NULL, PRIMARY KEY(mark, path)) WITHOUT ROWID;
"""
PUT_RECORD = "INSERT OR REPLACE INTO record VALUES (?, ?, ?)"
SESSIONS_MAX = 100
"""Older ones are deleted, except running ones: a review of last month is better repeated."""
KEPT_MAX = 200
"""Reviews that wait for a second pass, which comes within minutes."""
BODY_BYTES_MAX = 64 * 1024 * 1024
"""A thousand times the largest body so far."""
CACHE_BYTES_MAX = 64 * 1024 * 1024
"""Some hundred thousand files: most bodies contain no finding and take 200 bytes."""
STORE_WORDS = database.StorageAdvice(
    "the reviews",
    busy="Call again in a moment; nothing was lost.",
    full="Free some space, then call resume_review.",
    closed="Give this user permission to write there; review_git_diff reviews without writing anything.",
    damaged="Move it away: it contains only reviews, which can be repeated.",
)
_TRIM_CACHE = """
DELETE FROM cache WHERE key IN (
    SELECT key FROM (SELECT key, sum(length(body) + length(key)) OVER (ORDER BY used_at DESC, key) AS bytes FROM cache)
    WHERE bytes > ?)"""

Status = Literal["queued", "running", "pausing", "paused", "completed", "partial", "failed"]
OWNED = frozenset[Status]({"running", "pausing"})
"""A process works on the session."""
UNFINISHED = OWNED | frozenset[Status]({"queued", "paused"})
"""To start the same review again continues one of these."""


class SessionProgress(NamedTuple):
    """The progress of a session. `percentage` is 100 exactly when every unit has ended."""

    units_done: int
    units_failed: int
    units_total: int
    files_done: int
    files_total: int
    percentage: int


class ReviewUnit(msgspec.Struct, frozen=True):
    """Files that are reviewed together. `findings` is how many are shown; times are seconds since 1970.

    `order` is 1 for the first unit that ended, and names the record of its reviews.
    """

    paths: tuple[str, ...]
    cost: int
    state: Literal["queued", "running", "done", "failed"] = "queued"
    tries: int = 0
    order: int = 0
    findings: int = 0
    queued_at: float = 0.0
    began_at: float = 0.0
    ended_at: float = 0.0
    error: str = ""


class ReviewSession(msgspec.Struct, frozen=True):
    """One review of one change; two with the same `key` are the same review. `owner` is the process that runs it."""

    id: str
    key: str
    created_at: float
    updated_at: float
    workers: int
    request: ReviewRequest
    units: tuple[ReviewUnit, ...] = ()
    status: Status = "queued"
    owner: str = ""
    error: str = ""
    pause_reason: str = ""

    def change_unit(self, number: int, **changes: Any) -> ReviewSession:
        """Return the session with another state of one unit."""
        unit = msgspec.structs.replace(self.units[number], **changes)
        return msgspec.structs.replace(self, units=(*self.units[:number], unit, *self.units[number + 1 :]))

    @property
    def needs_resume(self) -> bool:
        """Whether nothing happens until a caller resumes it; a completed one needs nothing."""
        return self.status in ("queued", "paused", "partial", "failed")

    @property
    def progress(self) -> SessionProgress:
        """How many units and files are reviewed."""
        done = [unit for unit in self.units if unit.state == "done"]
        failed = sum(unit.state == "failed" for unit in self.units)
        return SessionProgress(
            units_done=len(done),
            units_failed=failed,
            units_total=len(self.units),
            files_done=sum(len(unit.paths) for unit in done),
            files_total=sum(len(unit.paths) for unit in self.units),
            percentage=100 * (len(done) + failed) // max(1, len(self.units)),
        )


class SharedReviews(ABC):
    """The records of one repository on all machines of a team, for the store of one machine, called under its lock."""

    @abstractmethod
    def pull(self, opened: Callable[[], apsw.Connection]) -> None:
        """Pull the changes of the others, unless that was done a moment ago. Never fails: the problem is reported."""

    @abstractmethod
    def writing(self, db: apsw.Connection, paths: Iterable[str]) -> AbstractContextManager[None]:
        """Be the only writer of these records on all machines, in one transaction. Raises: StorageBusy."""

    @abstractmethod
    def push(self, db: apsw.Connection, paths: Iterable[str]) -> None:
        """Share records as they are here; after a failure they stay on this machine."""


SessionUpdate = Callable[[ReviewSession], ReviewSession]
"""Returns the new state of a session from its present one."""


class ReviewStore:
    """The reviews of one workspace. Thread-safe; any number of processes may use the same folder.

    Every method raises StorageBusy, StorageCorrupt, WriteFailed and DiskFull. Where a team shares reviews, methods that
    change a session also raise StoreUnavailable and StoreUnusable.
    """

    def __init__(self, folder: Path, common: SharedReviews | None = None) -> None:
        """Create the store; nothing is opened or created until the first write. `common` are the reviews of a team."""
        self._common = common
        locks = PathLocks(folder / "locks")
        self._database = database.StateDatabase(
            folder,
            NAME,
            SCHEMA,
            version=SCHEMA_VERSION,
            settings="PRAGMA synchronous = NORMAL",  # a power cut loses units, which are repeated
            advice=STORE_WORDS,
            creating=lambda: locks.hold([NAME]),  # two processes that create it at once would find it locked
        )

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()

    # -- sessions --

    def add(self, session: ReviewSession, *, unless_known: bool = False) -> str:
        """Store a session and return its id; with `unless_known` that of an unfinished session with the same key."""
        path = _state_path(session.id)
        with self._writing(path) as db:
            known = _read_sessions(db)
            for other in known if unless_known else ():
                if other.key == session.key and other.status in UNFINISHED:
                    return other.id
            _put(db, path, session.created_at, msgspec.json.encode(session))
            for old in [old for old in known if old.status not in OWNED][SESSIONS_MAX - 1 :]:
                db.execute("DELETE FROM record WHERE path GLOB ? || '/*'", (old.id,))
            return session.id

    def session(self, session_id: str) -> ReviewSession | None:
        """Return a session as it is now; None when there is none."""
        with self._reading() as db:
            return _read_session(db, session_id) if db else None

    def sessions(self) -> list[ReviewSession]:
        """Return all sessions, newest first."""
        with self._reading() as db:
            return _read_sessions(db) if db else []

    def update(
        self,
        session_id: str,
        decide: SessionUpdate,
        bodies: Mapping[str, bytes] = {},
        cache: Mapping[str, bytes | None] = {},
    ) -> ReviewSession | None:
        """Replace a session by what `decide` returns, in one transaction; None when there is no such session.

        If it changes, bodies are stored below it, and files in the cache; those without a body were used from there.
        If `decide` raises, nothing changes.
        """
        named = {f"{session_id}/{name}": body for name, body in bodies.items()}
        with self._writing(_state_path(session_id), *named) as db:
            before = _read_session(db, session_id)
            after = decide(before) if before else None
            if after and after is not before:
                named[_state_path(session_id)] = msgspec.json.encode(after)
                for path, body in named.items():
                    _put(db, path, after.created_at, body)
                used = [(after.updated_at, key) for key, body in cache.items() if body is None]
                db.executemany("UPDATE cache SET used_at = ? WHERE key = ?", used)
                rows = [(key, after.updated_at, zlib.compress(body, 1)) for key, body in cache.items() if body]
                db.executemany("INSERT OR REPLACE INTO cache VALUES (?, ?, ?)", rows)
            return after

    def bodies(self, session_id: str) -> dict[str, bytes]:
        """Return what is stored below a session, by name."""
        found = self._read_bodies("SELECT path, body FROM record WHERE path GLOB ? || '/*' ORDER BY path", session_id)
        return {name: body for path, body in found.items() if (name := path.partition("/")[2]) != "session"}

    def body(self, path: str) -> bytes | None:
        """Return the body of one record; None when there is none."""
        return self._read_bodies("SELECT path, body FROM record WHERE path = ?", path).get(path)

    # -- the cache, and pending second passes --

    def read_cached(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the cached bodies of these keys."""
        sql = "SELECT key, body FROM cache WHERE key IN (SELECT value FROM json_each(?))"
        return self._read_bodies(sql, json.dumps(sorted(set(keys))))

    def trim(self) -> None:
        """Delete the least recently used part of the cache beyond its limit."""
        with self._writing() as db:
            db.execute(_TRIM_CACHE, (CACHE_BYTES_MAX,))

    def keep(self, name: str, body: bytes, at: float) -> None:
        """Store what a second pass continues; while the team's database is away, on this machine alone."""
        old = "SELECT path FROM record WHERE path GLOB 'kept/*' ORDER BY at DESC LIMIT -1 OFFSET ?"
        with self._writing() as db:
            _put(db, f"kept/{name}", at, body)
            db.execute(f"DELETE FROM record WHERE path IN ({old})", (KEPT_MAX,))  # noqa: S608 - our own words
        if self._common:
            with self._database.lock():
                self._common.push(db, [f"kept/{name}"])

    def read_kept(self, name: str) -> bytes | None:
        """Return what was stored under a name; None when it never was, or has been dropped as too old."""
        return self.body(f"kept/{name}")

    # -- the database --

    def _read_bodies(self, sql: str, value: str) -> dict[str, bytes]:
        with self._reading() as db:
            rows = db.execute(sql, (value,)).fetchall() if db else []
            return {str(name): _unpack(body) for name, body in rows}

    @contextmanager
    def _reading(self) -> Generator[apsw.Connection | None]:
        """Yield the database, with what is new of a team; None when there is none."""
        with self._database.lock():
            if self._common:
                self._common.pull(self._database.connect)
            with self._database.reading() as db:
                yield db

    @contextmanager
    def _writing(self, *paths: str) -> Generator[apsw.Connection]:
        """Write here, and write these records in the database of the team as well if there is one."""
        with self._database.lock():
            db = self._database.connect()
            with self._common.writing(db, paths) if self._common and paths else database.transaction(db):
                yield db


def _state_path(session_id: str) -> str:
    return f"{session_id}/session"


def _put(db: apsw.Connection, path: str, at: float, body: bytes) -> None:
    db.execute(PUT_RECORD, (path, at, zlib.compress(body, 1)))


def _unpack(body: Any) -> bytes:
    return database.decompress(body, BODY_BYTES_MAX)


def _read_session(db: apsw.Connection, session_id: str) -> ReviewSession | None:
    rows = db.execute("SELECT body FROM record WHERE path = ?", (_state_path(session_id),)).fetchall()
    return _decode_session(rows[0][0]) if rows else None


def _read_sessions(db: apsw.Connection) -> list[ReviewSession]:
    rows = db.execute("SELECT body FROM record WHERE path GLOB '*/session' ORDER BY at DESC, path DESC").fetchall()
    return [_decode_session(body) for (body,) in rows]


def _decode_session(body: Any) -> ReviewSession:
    return msgspec.json.decode(_unpack(body), type=prepare_type(ReviewSession))
