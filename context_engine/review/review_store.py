"""The store of reviews: sessions cut into units, what was found in each, the cache, pending second passes.

One SQLite file.

    state.db    in `<workspace>/.context-engine/`; see docs/decisions/0034

The owner of a session takes its units, and only the taker of a unit may end it: a taken unit carries the owner and the
number of the try, so a process that was presumed dead and comes back changes nothing. Every step of a unit is in the
log. The bodies are compressed and not interpreted here.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from context_engine.review import review_tables as tables
from context_engine.review.review_tables import ReviewSession, ReviewUnit, UnitCheckpoint, UnitEvent
from context_engine.storage import PathLocks, StateFolder, database

if TYPE_CHECKING:
    from context_engine.review.shared_reviews import SharedReviews

NAME = "state.db"
BUSY_MS = 5_000
KEPT_MAX = 200
"""Reviews that wait for a second pass, which comes within minutes."""
BODY_BYTES_MAX = 64 * 1024 * 1024
"""A thousand times the largest body so far."""
STORE_WORDS = database.StorageAdvice(
    "the reviews",
    busy="Call again in a moment; nothing was lost.",
    full="Free some space, then call resume_review.",
    closed="Give this user permission to write there; review_git_diff reviews without writing anything.",
    damaged="Move it away: it contains only reviews, which can be repeated.",
)
CACHE_BYTES_MAX = 64 * 1024 * 1024
"""Some hundred thousand files: most bodies contain no finding and take 200 bytes."""
_TRIM_CACHE = """
DELETE FROM cache WHERE key IN (
    SELECT key FROM (SELECT key, sum(length(body) + length(key)) OVER (ORDER BY used_at DESC, key) AS bytes FROM cache)
    WHERE bytes > ?)"""

SessionUpdate = Callable[[ReviewSession], ReviewSession]
"""Returns the new state of a session from its present one."""


class ReviewStore:
    """The reviews of one workspace. Thread-safe; any number of processes may use the same folder.

    Every method raises StorageBusy, StorageCorrupt, WriteFailed and DiskFull. Where a team shares reviews, methods that
    change a session also raise StoreUnavailable and StoreUnusable.
    """

    def __init__(self, folder: Path, common: SharedReviews | None = None) -> None:
        """Create the store; nothing is opened or created until the first write. `common` are the reviews of a team."""
        self.path = folder / NAME
        self._files = StateFolder(folder)
        self._lock = threading.RLock()
        self._common = common
        self._making = PathLocks(folder / "locks")
        self._database = database.DatabaseHandle()

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            self._database.close()

    # -- sessions --

    def add(self, session: ReviewSession, units: Iterable[ReviewUnit], *, instead_of: Collection[str] = ()) -> str:
        """Store a session and return its id, or that of a session with its key and a status among `instead_of`."""
        with self._changing(session.id) as db:
            same = tables.rows(
                db, "SELECT id, status FROM session WHERE key = ? ORDER BY created_at DESC", (session.key,)
            )
            for known_id, status in same:
                if status in instead_of:
                    return known_id
            db.execute(tables.INSERT_SESSION, astuple(session))
            db.executemany(tables.INSERT_UNIT, [(session.id, *tables.unit_values(unit)) for unit in units])
            tables.drop_old_sessions(db)
            return session.id

    def session(self, session_id: str) -> ReviewSession | None:
        """Return a session as it is now; None when there is none."""
        rows = self._query("SELECT * FROM session WHERE id = ?", (session_id,))
        if rows:
            return ReviewSession(*rows[0])
        return None

    def sessions(self) -> list[ReviewSession]:
        """Return all sessions, newest first."""
        return [ReviewSession(*row) for row in self._query("SELECT * FROM session ORDER BY created_at DESC, id DESC")]

    def move(
        self, session_id: str, decide: SessionUpdate, *, requeue: Collection[str] = (), at: float = 0.0
    ) -> ReviewSession | None:
        """Replace a session by what `decide` returns, in one transaction; None when there is no such session.

        If it changes, units whose state is among `requeue` are queued again. If `decide` raises, nothing changes.
        """
        with self._changing(session_id) as db:
            rows = tables.rows(db, "SELECT * FROM session WHERE id = ?", (session_id,))
            if not rows:
                return None
            before = ReviewSession(*rows[0])
            after = decide(before)
            if after != before:
                db.execute(tables.UPDATE_SESSION, (*astuple(after)[2:], session_id))
                tables.requeue(db, session_id, requeue, at)
            return after

    def renew_lease(self, session_id: str, owner: str, lease_until: float) -> bool:
        """Extend the lease of a session; False when the owner has lost it."""
        with self._changing(session_id) as db:
            update = "UPDATE session SET lease_until = ? WHERE id = ? AND owner = ?"
            db.execute(update, (lease_until, session_id, owner))
            return bool(db.changes())

    # -- units --

    def units(self, session_id: str) -> list[ReviewUnit]:
        """Return the units of a session, by number."""
        sql = f"SELECT {tables.UNIT_COLUMNS} FROM unit WHERE session = ? ORDER BY number"  # noqa: S608 - our own names
        rows = self._query(sql, (session_id,))
        return [tables.unit_of(row) for row in rows]

    def take(self, session_id: str, owner: str, at: float) -> ReviewUnit | None:
        """Take the next unit of a session that the owner runs; None when none is left."""
        with self._changing(session_id) as db:
            rows = tables.rows(db, tables.NEXT_UNIT, (session_id, owner))
            if not rows:
                return None
            unit = tables.unit_of(rows[0])
            taken = replace(unit, state="running", owner=owner, tries=unit.tries + 1, began_at=at)
            tables.put_unit(db, session_id, taken, at, "taken")
            return taken

    def checkpoint(self, session_id: str, unit: ReviewUnit, result: UnitCheckpoint, at: float) -> bool:
        """End a taken unit with its result; False when its taker has lost it, and the result is discarded."""
        with self._changing(session_id, unit.number) as db:
            if not tables.is_taken_by(db, session_id, unit):
                return False
            done = replace(unit, state="done", ended_at=at, figures=result.figures, error="")
            tables.put_unit(db, session_id, done, at, "done")
            bodies = [(session_id, path, zlib.compress(body, 1)) for path, body in result.bodies.items()]
            db.executemany("INSERT OR REPLACE INTO body VALUES (?, ?, ?)", bodies)
            found = [(session_id, unit.number, body, session_id) for body in result.findings]
            db.executemany(tables.INSERT_FINDING, found)
            cached = [(key, at, zlib.compress(body, 1)) for key, body in result.cache.items()]
            db.executemany("INSERT OR REPLACE INTO cache VALUES (?, ?, ?)", cached)
            db.executemany("UPDATE cache SET used_at = ? WHERE key = ?", [(at, key) for key in result.used])
            return True

    def give_back(self, session_id: str, unit: ReviewUnit, at: float) -> bool:
        """Put a taken unit back into the queue; False when its taker has lost it."""
        return self._end(session_id, replace(unit, state="queued", owner="", queued_at=at), unit, at, "given back")

    def fail(self, session_id: str, unit: ReviewUnit, error: str, at: float, *, again: bool) -> bool:
        """End a taken unit with an error, or queue it `again`; False when its taker has lost it."""
        if again:
            queued = replace(unit, state="queued", owner="", queued_at=at, error=error)
            return self._end(session_id, queued, unit, at, "again")
        return self._end(session_id, replace(unit, state="failed", ended_at=at, error=error), unit, at, "failed")

    def _end(self, session_id: str, after: ReviewUnit, before: ReviewUnit, at: float, event: str) -> bool:
        with self._changing(session_id) as db:
            is_ours = tables.is_taken_by(db, session_id, before)
            if is_ours:
                tables.put_unit(db, session_id, after, at, event, owner=before.owner)
            return is_ours

    def log(self, session_id: str) -> list[UnitEvent]:
        """Return what happened to the units of a session, in order."""
        sql = "SELECT unit, at, owner, event FROM log WHERE session = ? ORDER BY id"
        return [UnitEvent(*row) for row in self._query(sql, (session_id,))]

    # -- findings --

    def findings(self, session_id: str, *, after: int = 0, limit: int = -1) -> list[tuple[int, bytes]]:
        """Return findings after a number, in the order in which they came, each with its number."""
        sql = "SELECT number, body FROM finding WHERE session = ? AND number > ? ORDER BY number LIMIT ?"
        return [(number, bytes(body)) for number, body in self._query(sql, (session_id, after, limit))]

    def bodies(self, session_id: str) -> dict[str, bytes]:
        """Return the stored review of each path."""
        rows = self._query("SELECT path, body FROM body WHERE session = ? ORDER BY path", (session_id,))
        return {path: self._decompress(body) for path, body in rows}

    # -- the cache, and pending second passes --

    def read_cached(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the cached bodies of these keys."""
        rows = self._query(
            "SELECT key, body FROM cache WHERE key IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(set(keys))),),
        )
        return {key: self._decompress(body) for key, body in rows}

    def keep(self, name: str, body: bytes, at: float) -> None:
        """Store what a second pass continues."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (name, at, zlib.compress(body, 1)))
            db.execute("DELETE FROM kept WHERE id NOT IN (SELECT id FROM kept ORDER BY at DESC LIMIT ?)", (KEPT_MAX,))
        if self._common:
            with self._lock, database.translate_errors(self.path, STORE_WORDS):
                self._common.push_kept(db, name)

    def read_kept(self, name: str) -> bytes | None:
        """Return what was stored under a name; None when it never was, or has been dropped as too old."""
        rows = self._query("SELECT body FROM kept WHERE id = ?", (name,))
        if rows:
            return self._decompress(rows[0][0])
        return None

    def trim(self) -> None:
        """Delete the least recently used part of the cache beyond its limit."""
        with self._writing() as db:
            db.execute(_TRIM_CACHE, (CACHE_BYTES_MAX,))

    # -- the database --

    def _query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, database.translate_errors(self.path, STORE_WORDS):
            if self._common:
                self._common.pull(self._create)
            with database.open_readable(self._files, NAME, lambda: self._connect(create=False)) as db:
                if db is None:
                    return []
                return tables.rows(db, sql, values)

    @contextmanager
    def _changing(self, session_id: str, *units: int) -> Generator[apsw.Connection]:
        """Change a session and results of its units: here, and in the records of the team if there is one."""
        if self._common is None:
            with self._writing() as db:
                yield db
            return
        with self._lock, database.translate_errors(self.path, STORE_WORDS):
            db = self._create()
            with self._common.writing(db, session_id, units):
                yield db

    def _decompress(self, body: bytes) -> bytes:
        with database.translate_errors(self.path, STORE_WORDS):
            return database.decompress(body, BODY_BYTES_MAX)

    @contextmanager
    def _writing(self) -> Generator[apsw.Connection]:
        with (
            self._lock,
            database.translate_errors(self.path, STORE_WORDS),
            database.transaction(db := self._create()),
        ):
            yield db

    def _create(self) -> apsw.Connection:
        db = self._connect(create=True)
        assert db is not None
        return db

    def _connect(self, *, create: bool) -> apsw.Connection | None:
        """Return the database; None if there is none and `create` is off."""
        if not create and not database.read_inode(self.path):
            self._database.close()
            return None
        return self._database.open(self.path, self._open)

    def _open(self) -> apsw.Connection:
        with self._making.hold([self.path.name]):  # two processes that create it at once would find it locked
            return _open_database(self._files)


def _open_database(files: StateFolder) -> apsw.Connection:
    settings = "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON"  # a power cut loses units, which are repeated
    db = database.open_in_state(files, NAME, tables=tables.FIRST, busy_ms=BUSY_MS, settings=settings)
    files.update_git_ignore()
    version = tables.create_tables(db)
    if version > tables.SCHEMA_VERSION:
        db.close()
        raise database.newer_format_error(files.path / NAME, STORE_WORDS, version, tables.SCHEMA_VERSION)
    return db
