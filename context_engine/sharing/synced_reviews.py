"""The reviews of a team: what every machine keeps in its own `state.db`, brought to what the others have before it is read.

    <session>/session    the session, its units and their log
    <session>/0007       what its seventh unit left behind: a body for each path, and what was found
    kept/<review>        what a second call will go on from

Each of these is a record of the team. Whoever changes a session holds the right to write among all machines, takes in
what the others did, and puts its change into the database before the file's own transaction ends: one without the other
cannot be. What need not be looked at twice stays on its machine. Sessions that were there before stay there until they
change.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any

import apsw
import msgspec

from context_engine.errors import ContextEngineError, StorageBusy, StoreUnavailable, StoreUnusable
from context_engine.sharing import review_tables as tables
from context_engine.sharing.remote_records import RemoteRecordStore, WriteLease
from context_engine.sharing.remote_store import RETRY_DELAY_S
from context_engine.sharing.synced_folder import WAIT_S
from context_engine.storage import database

KIND = "reviews"
SESSION = "session"
KEPT = "kept"
FETCHED_AT_ONCE = 50
"""A unit of hundreds of files leaves some hundred thousand bytes behind."""


class _SessionBody(msgspec.Struct, array_like=True):
    """What a record of a session holds: the rows of three tables, without its id."""

    session: tuple[Any, ...]
    units: list[tuple[Any, ...]]
    log: list[tuple[Any, ...]]


class _UnitBody(msgspec.Struct, array_like=True):
    """What a record of a unit holds: the bodies of its paths, packed as they lie in the table, and its findings by number."""

    bodies: list[tuple[str, bytes]]
    findings: list[tuple[int, bytes]]


class SyncedReviews:
    """The reviews of one repository, for the store of one machine; which calls it under its own lock."""

    def __init__(self, remote: RemoteRecordStore, repository: str, mark: str, *, rest_s: float) -> None:
        """`mark` tells this team from another one that the same file was shared with.

        Nothing is asked until it is needed.
        """
        self.problem = ""
        """Why the team's reviews were not seen the last time; empty when all is well."""
        self._remote = remote
        self._of = repository, KIND
        self._mark = mark
        self._rest_s = rest_s
        self._look_at = 0.0

    # -- reading --

    def pull(self, opened: Callable[[], apsw.Connection]) -> None:
        """Take in what the others did, unless that was done a moment ago.

        What keeps it from that is told by `problem`.
        """
        if time.monotonic() < self._look_at:
            return
        try:
            revision = self._remote.revision(*self._of)
            if revision and revision != self._revision(db := opened()):
                with database.transaction(db):
                    self._take_in(db)
            self.problem, rest_s = "", self._rest_s
        except ContextEngineError as error:
            self.problem, rest_s = f"the reviews of the team may be newer: {error.message}", RETRY_DELAY_S
        self._look_at = time.monotonic() + rest_s

    # -- writing --

    @contextmanager
    def writing(self, db: apsw.Connection, session_id: str, units: Iterable[int]) -> Generator[None]:
        """Be the only one among all machines who changes a session, and what some of its units left behind.

        Raises: StorageBusy, StoreUnavailable, StoreUnusable.
        """
        with self._writing(db, [f"{session_id}/{SESSION}", *(f"{session_id}/{number:04d}" for number in units)]):
            yield

    @contextmanager
    def _writing(self, db: apsw.Connection, names: Iterable[str]) -> Generator[None]:
        """At the end the records of these names are put down, if they changed."""
        with self._remote.acquire_lease(*self._of, WAIT_S) as lease, database.transaction(db):
            self._take_in(db)
            yield
            self._put(db, lease, names)

    def push_kept(self, db: apsw.Connection, name: str) -> None:
        """Put down what a second call will go on from; where that cannot be it is kept here alone."""
        try:
            with self._writing(db, [f"{KEPT}/{name}"]):
                pass
        except (StorageBusy, StoreUnavailable, StoreUnusable) as error:
            self.problem = f"what a second look goes on from is kept on this machine alone: {error.message}"

    def _put(self, db: apsw.Connection, lease: WriteLease, names: Iterable[str]) -> None:
        """What changed of these, and that sessions are gone."""
        known = self._shared(db)
        contents = {name: content for name in names if (content := _content(db, name)) is not None}
        shas = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        changes: dict[str, bytes | None] = {
            name: content for name, content in contents.items() if known.get(name) != shas[name]
        }
        changes |= dict.fromkeys(_gone(db, known))
        if changes:
            lease.put(changes)
            for name in changes:
                self._note(db, name, shas.get(name, ""))

    # -- both sides --

    def _take_in(self, db: apsw.Connection) -> None:
        """What the others did since it was seen here: sessions before what their units left."""
        revision, seen = self._remote.revision(*self._of), self._revision(db)
        if revision == seen:
            return
        if revision < seen:  # the database is another one
            db.execute("DELETE FROM shared WHERE mark = ?", (self._mark,))
        known = self._shared(db)
        moved = self._remote.list_changes(*self._of, 0 if revision < seen else seen)
        for held in moved:
            if held.is_gone:
                _forget(db, held.path)
                self._note(db, held.path, "")
        fresh = [held for held in moved if not held.is_gone and known.get(held.path) != held.sha]
        fresh.sort(key=lambda held: not held.path.endswith(f"/{SESSION}"))
        for start in range(0, len(fresh), FETCHED_AT_ONCE):
            some = {held.path: held.sha for held in fresh[start : start + FETCHED_AT_ONCE]}
            contents = self._remote.read_contents(*self._of, [*some])
            for path, sha in some.items():
                if path in contents:
                    _take(db, path, contents[path])
                    self._note(db, path, sha)
        db.execute("INSERT OR REPLACE INTO team VALUES (?, ?)", (self._mark, revision))

    def _revision(self, db: apsw.Connection) -> int:
        found = tables.rows(db, "SELECT revision FROM team WHERE mark = ?", (self._mark,))
        return found[0][0] if found else 0

    def _shared(self, db: apsw.Connection) -> dict[str, str]:
        """Every record that both sides have, with its hash."""
        return dict(tables.rows(db, "SELECT path, sha FROM shared WHERE mark = ?", (self._mark,)))

    def _note(self, db: apsw.Connection, path: str, sha: str) -> None:
        if sha:
            db.execute("INSERT OR REPLACE INTO shared VALUES (?, ?, ?)", (self._mark, path, sha))
        else:
            db.execute("DELETE FROM shared WHERE mark = ? AND path = ?", (self._mark, path))


# -- from the tables --


def _content(db: apsw.Connection, name: str) -> bytes | None:
    """A record as it is now; None when there is no such thing."""
    folder, _, rest = name.partition("/")
    if folder == KEPT:
        found = tables.rows(db, "SELECT at, body FROM kept WHERE id = ?", (rest,))
        return msgspec.msgpack.encode(found[0]) if found else None
    if rest == SESSION:
        return _session_content(db, folder)
    return _unit_content(db, folder, int(rest))


def _session_content(db: apsw.Connection, session_id: str) -> bytes | None:
    found = tables.rows(db, "SELECT * FROM session WHERE id = ?", (session_id,))
    if not found:
        return None
    units = tables.rows(db, f"SELECT {tables.UNIT_COLUMNS} FROM unit WHERE session = ? ORDER BY number", (session_id,))  # noqa: S608 - our own names
    log = tables.rows(db, "SELECT unit, at, owner, event FROM log WHERE session = ? ORDER BY id", (session_id,))
    return zlib.compress(msgspec.msgpack.encode(_SessionBody(found[0][1:], units, log)), 1)


def _unit_content(db: apsw.Connection, session_id: str, number: int) -> bytes | None:
    """What a unit left behind; its findings are those that came last."""
    found = tables.rows(db, "SELECT paths FROM unit WHERE session = ? AND number = ?", (session_id, number))
    paths = found[0][0].split("\0") if found else []
    of_path = "SELECT path, body FROM body WHERE session = ? AND path = ?"
    bodies = [row for path in paths for row in tables.rows(db, of_path, (session_id, path))]
    findings = tables.rows(db, "SELECT number, body FROM finding WHERE session = ? AND unit = ?", (session_id, number))
    return msgspec.msgpack.encode(_UnitBody(bodies, findings)) if bodies else None


def _gone(db: apsw.Connection, shared: Iterable[str]) -> list[str]:
    """Records of sessions, and of what was kept, that are not there any more."""
    there = {row[0] for row in tables.rows(db, "SELECT id FROM session")}
    there |= {f"{KEPT}/{row[0]}" for row in tables.rows(db, "SELECT id FROM kept")}
    return [path for path in shared if path not in there and path.partition("/")[0] not in there]


# -- into the tables --


def _take(db: apsw.Connection, path: str, content: bytes) -> None:
    """Put a record into the tables."""
    folder, _, rest = path.partition("/")
    if folder == KEPT:
        at, body = msgspec.msgpack.decode(content)
        db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (rest, at, body))
    elif rest == SESSION:
        _take_session(db, folder, msgspec.msgpack.decode(zlib.decompress(content), type=_SessionBody))
    elif tables.rows(db, "SELECT 1 FROM session WHERE id = ?", (folder,)):
        left = msgspec.msgpack.decode(content, type=_UnitBody)
        rows = [(folder, *row) for row in left.bodies]
        db.executemany("INSERT OR REPLACE INTO body VALUES (?, ?, ?)", rows)
        found = [(folder, number, int(rest), body) for number, body in left.findings]
        db.executemany("INSERT OR REPLACE INTO finding VALUES (?, ?, ?, ?)", found)


def _take_session(db: apsw.Connection, session_id: str, told: _SessionBody) -> None:
    session = tables.ReviewSession(session_id, *told.session)
    if tables.rows(db, "SELECT 1 FROM session WHERE id = ?", (session_id,)):
        db.execute(tables.UPDATE_SESSION, (*astuple(session)[2:], session_id))
        db.execute("DELETE FROM unit WHERE session = ?", (session_id,))
        db.execute("DELETE FROM log WHERE session = ?", (session_id,))
    else:
        db.execute(tables.INSERT_SESSION, astuple(session))
    db.executemany(tables.INSERT_UNIT, [(session_id, *row) for row in told.units])
    db.executemany("INSERT INTO log VALUES (NULL, ?, ?, ?, ?, ?)", [(session_id, *row) for row in told.log])


def _forget(db: apsw.Connection, path: str) -> None:
    folder, _, rest = path.partition("/")
    if folder == KEPT:
        db.execute("DELETE FROM kept WHERE id = ?", (rest,))
    elif rest == SESSION:
        db.execute("DELETE FROM session WHERE id = ?", (folder,))
