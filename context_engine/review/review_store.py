"""Reviews that last: sessions cut into units, what was found in each, and what need not be looked at twice.

One SQLite file.

    state.db    in `<workspace>/.context-engine/`; see docs/decisions/0034

A unit is taken by the owner of its session, and only who took it may say how it ended: what is taken carries the owner
and the number of the try, so whoever was taken for dead and comes back changes nothing. Every step of a unit stands in
the log. What the bodies hold is somebody else's business; they are kept packed, and nothing here knows what a finding
is.
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

from context_engine.sharing import review_tables as tables
from context_engine.sharing.review_tables import ReviewSession, ReviewUnit, UnitCheckpoint, UnitEvent
from context_engine.storage import database, storage_errors
from context_engine.storage.locks import PathLocks
from context_engine.storage.state_folder import StateFolder

if TYPE_CHECKING:  # for those who have a team
    from context_engine.sharing.synced_reviews import SyncedReviews

NAME = "state.db"
BUSY_MS = 5_000
KEPT_MAX = 200
"""Reviews that wait for a second pass; agents come back within minutes."""
BODY_BYTES_MAX = 64 * 1024 * 1024
"""A thousand times what was found in any file."""
STORE_WORDS = storage_errors.StorageAdvice(
    "the reviews",
    busy="Call again in a moment; nothing was lost.",
    full="Free some space, then call resume_review.",
    closed="Give this user permission to write there; review_git_diff reviews without writing anything.",
    damaged="Move it away: it holds nothing but reviews, which can be done again.",
)
CACHE_BYTES_MAX = 64 * 1024 * 1024
"""Some hundred thousand files looked at: most bodies hold no finding and take 200 bytes."""
_TRIM_CACHE = """
DELETE FROM cache WHERE key IN (
    SELECT key FROM (SELECT key, sum(length(body) + length(key)) OVER (ORDER BY used_at DESC, key) AS bytes FROM cache)
    WHERE bytes > ?)"""

SessionUpdate = Callable[[ReviewSession], ReviewSession]
"""What becomes of a session, given what it is."""


class ReviewStore:
    """The reviews of one workspace. Thread-safe; any number of processes may hold one on the same folder.

    Raises in every method: StorageBusy, StorageCorrupt, WriteFailed, DiskFull; and in those that change a session
    StoreUnavailable, StoreUnusable where a team has them in common.
    """

    def __init__(self, folder: Path, common: SyncedReviews | None = None) -> None:
        """Nothing is opened or created until something is written. `common`: the team's, None on a laptop."""
        self.path = folder / NAME
        self._files = StateFolder(folder)
        self._lock = threading.RLock()
        self._common = common
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

    def add(self, session: ReviewSession, units: Iterable[ReviewUnit], *, instead_of: Collection[str] = ()) -> str:
        """Put a session down, unless there is one of its key whose status is among `instead_of`; the id of the one that counts."""
        with self._changing(session.id) as db:
            same = tables.rows(
                db, "SELECT id, status FROM session WHERE key = ? ORDER BY created_at DESC", (session.key,)
            )
            for there, status in same:
                if status in instead_of:
                    return there
            db.execute(tables.INSERT_SESSION, astuple(session))
            db.executemany(tables.INSERT_UNIT, [(session.id, *tables.unit_values(unit)) for unit in units])
            tables.drop_old_sessions(db)
            return session.id

    def session(self, session_id: str) -> ReviewSession | None:
        """A session as it is now."""
        rows = self._ask("SELECT * FROM session WHERE id = ?", (session_id,))
        return ReviewSession(*rows[0]) if rows else None

    def sessions(self) -> list[ReviewSession]:
        """All of them, newest first."""
        return [ReviewSession(*row) for row in self._ask("SELECT * FROM session ORDER BY created_at DESC, id DESC")]

    def move(
        self, session_id: str, decide: SessionUpdate, *, requeue: Collection[str] = (), at: float = 0.0
    ) -> ReviewSession | None:
        """Change a session as `decide` says, which sees what nobody changes meanwhile; None when there is none.

        If it changes, units whose state is among `requeue` are queued again. What `decide` raises leaves all as it is.
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

    def renew_lease(self, session_id: str, owner: str, lease_until: float) -> ReviewSession | None:
        """Say that the owner is alive; the session, None when it is not the owner's any more."""
        with self._changing(session_id) as db:
            said = "UPDATE session SET lease_until = ? WHERE id = ? AND owner = ?"
            db.execute(said, (lease_until, session_id, owner))
            return (
                ReviewSession(*tables.rows(db, "SELECT * FROM session WHERE id = ?", (session_id,))[0])
                if db.changes()
                else None
            )

    # -- units --

    def units(self, session_id: str) -> list[ReviewUnit]:
        """The units of a session, by number."""
        rows = self._ask(f"SELECT {tables.UNIT_COLUMNS} FROM unit WHERE session = ? ORDER BY number", (session_id,))  # noqa: S608 - our own names
        return [tables.unit_of(row) for row in rows]

    def take(self, session_id: str, owner: str, at: float) -> ReviewUnit | None:
        """Take the next unit of a session that is running and is the owner's; None when there is none to take."""
        with self._changing(session_id) as db:
            found = tables.rows(db, tables.NEXT_UNIT, (session_id, owner))
            if not found:
                return None
            unit = tables.unit_of(found[0])
            taken = replace(unit, state="running", owner=owner, tries=unit.tries + 1, began_at=at)
            tables.put_unit(db, session_id, taken, at, "taken")
            return taken

    def checkpoint(self, session_id: str, unit: ReviewUnit, left: UnitCheckpoint, at: float) -> bool:
        """A taken unit is done; False when it is not the taker's any more, and what it left is thrown away."""
        with self._changing(session_id, unit.number) as db:
            if not tables.is_taken_by(db, session_id, unit):
                return False
            done = replace(unit, state="done", ended_at=at, figures=left.figures, error="")
            tables.put_unit(db, session_id, done, at, "done")
            bodies = [(session_id, path, zlib.compress(body, 1)) for path, body in left.bodies.items()]
            db.executemany("INSERT OR REPLACE INTO body VALUES (?, ?, ?)", bodies)
            found = [(session_id, unit.number, body, session_id) for body in left.findings]
            db.executemany(tables.INSERT_FINDING, found)
            cached = [(key, at, zlib.compress(body, 1)) for key, body in left.cache.items()]
            db.executemany("INSERT OR REPLACE INTO cache VALUES (?, ?, ?)", cached)
            db.executemany("UPDATE cache SET used_at = ? WHERE key = ?", [(at, key) for key in left.used])
            return True

    def give_back(self, session_id: str, unit: ReviewUnit, at: float) -> bool:
        """A taken unit was not finished and waits for the next; whether it still was the taker's."""
        return self._ended(session_id, replace(unit, state="queued", owner="", queued_at=at), unit, at, "given back")

    def fail(self, session_id: str, unit: ReviewUnit, error: str, at: float, *, again: bool) -> bool:
        """A taken unit went wrong: it is tried `again`, or not; whether it still was the taker's."""
        if again:
            queued = replace(unit, state="queued", owner="", queued_at=at, error=error)
            return self._ended(session_id, queued, unit, at, "again")
        return self._ended(session_id, replace(unit, state="failed", ended_at=at, error=error), unit, at, "failed")

    def _ended(self, session_id: str, after: ReviewUnit, before: ReviewUnit, at: float, event: str) -> bool:
        with self._changing(session_id) as db:
            held = tables.is_taken_by(db, session_id, before)
            if held:
                tables.put_unit(db, session_id, after, at, event, owner=before.owner)
            return held

    def log(self, session_id: str) -> list[UnitEvent]:
        """What happened to the units of a session, in order."""
        return [
            UnitEvent(*row)
            for row in self._ask("SELECT unit, at, owner, event FROM log WHERE session = ? ORDER BY id", (session_id,))
        ]

    # -- what was found --

    def findings(self, session_id: str, *, after: int = 0, limit: int = -1) -> list[tuple[int, bytes]]:
        """Findings in the order in which they came, each with its number; those after a number."""
        asked = "SELECT number, body FROM finding WHERE session = ? AND number > ? ORDER BY number LIMIT ?"
        return [(number, bytes(body)) for number, body in self._ask(asked, (session_id, after, limit))]

    def bodies(self, session_id: str) -> dict[str, bytes]:
        """What was left of each path."""
        rows = self._ask("SELECT path, body FROM body WHERE session = ? ORDER BY path", (session_id,))
        return {path: self._unpacked(body) for path, body in rows}

    # -- what need not be done twice --

    def read_cached(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The bodies that are known by these keys."""
        asked = "SELECT key, body FROM cache WHERE key IN (SELECT value FROM json_each(?))"
        return {key: self._unpacked(body) for key, body in self._ask(asked, (json.dumps(sorted(set(keys))),))}

    def keep(self, name: str, body: bytes, at: float) -> None:
        """Keep what a second call will go on from."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (name, at, zlib.compress(body, 1)))
            db.execute("DELETE FROM kept WHERE id NOT IN (SELECT id FROM kept ORDER BY at DESC LIMIT ?)", (KEPT_MAX,))
        if self._common:
            with self._lock, storage_errors.translate_errors(self.path, STORE_WORDS):
                self._common.push_kept(db, name)

    def read_kept(self, name: str) -> bytes | None:
        """What was kept under a name; None when it was never there, or is too long ago."""
        rows = self._ask("SELECT body FROM kept WHERE id = ?", (name,))
        return self._unpacked(rows[0][0]) if rows else None

    def trim(self) -> None:
        """Let go of the part of the cache that was not used for the longest time, beyond its limit."""
        with self._writing() as db:
            db.execute(_TRIM_CACHE, (CACHE_BYTES_MAX,))

    # -- the database --

    def _ask(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, storage_errors.translate_errors(self.path, STORE_WORDS):
            if self._common:
                self._common.pull(self._made)
            with database.open_readable(self._files, NAME, lambda: self._connected(create=False)) as db:
                return [] if db is None else tables.rows(db, sql, values)

    @contextmanager
    def _changing(self, session_id: str, *units: int) -> Generator[apsw.Connection]:
        """Change a session, and what some of its units left behind: here, and for the team where there is one."""
        if self._common is None:
            with self._writing() as db:
                yield db
            return
        with self._lock, storage_errors.translate_errors(self.path, STORE_WORDS):
            db = self._made()
            with self._common.writing(db, session_id, units):
                yield db

    def _unpacked(self, body: bytes) -> bytes:
        with storage_errors.translate_errors(self.path, STORE_WORDS):
            return database.decompress(body, BODY_BYTES_MAX)

    @contextmanager
    def _writing(self) -> Generator[apsw.Connection]:
        with (
            self._lock,
            storage_errors.translate_errors(self.path, STORE_WORDS),
            database.transaction(db := self._made()),
        ):
            yield db

    def _made(self) -> apsw.Connection:
        db = self._connected(create=True)
        assert db is not None
        return db

    def _connected(self, *, create: bool) -> apsw.Connection | None:
        """The open database, as long as it is the file that lies there: somebody may have cleaned the folder up."""
        inode = database.read_inode(self.path)
        if self._db is not None and inode != self._inode:
            self.close()
        if self._db is None and (inode or create):
            with self._making.hold([self.path.name]):  # two that make it at once would each find it locked
                self._db = _opened(self._files)
            self._inode = database.read_inode(self.path)
        return self._db


def _opened(files: StateFolder) -> apsw.Connection:
    settings = "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON"  # a power cut costs units, which are done again
    db = database.open_in_state(files, NAME, tables=tables.FIRST, busy_ms=BUSY_MS, settings=settings)
    files.update_git_ignore()
    version = tables.create_tables(db)
    if version > tables.SCHEMA_VERSION:
        db.close()
        raise storage_errors.newer_format_error(files.path / NAME, STORE_WORDS, version, tables.SCHEMA_VERSION)
    return db
