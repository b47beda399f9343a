"""The reviews of a team: each machine stores them in its own `state.db`, and synchronizes them before a read.

    <session>/session    the session, its units and their log
    <session>/0007       the results of its seventh unit: a body for each path, and the findings
    kept/<review>        what a second call continues from

Each of these is a record of the team. A writer of a session acquires the lease of all machines, pulls the changes of
the others, and writes its own change to the database before the transaction of the file ends. So there is never one
without the other. The cache of reviewed files stays on its machine. Sessions from before the team stay local until they
change.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import apsw
import msgspec

from context_engine.errors import ContextEngineError, StorageBusy, StoreUnavailable, StoreUnusable
from context_engine.review import review_tables as tables
from context_engine.review.shared_reviews import SharedReviews
from context_engine.storage import database
from context_engine.team.remote_store import RETRY_DELAY_S

if TYPE_CHECKING:  # its library is optional
    from context_engine.team.postgres_records import RecordLease
    from context_engine.team.shared_records import TeamRecords

KIND = "reviews"
SESSION = "session"
KEPT = "kept"
WAIT_S = 10.0
"""A write takes some hundredths of a second, and a hundred people do not write at once."""
FETCHED_AT_ONCE = 50
"""The results of a unit of hundreds of files have some hundred thousand bytes."""


class _SessionBody(msgspec.Struct, array_like=True):
    """The content of a session's record: the rows of three tables, without its id."""

    session: tuple[Any, ...]
    units: list[tuple[Any, ...]]
    log: list[tuple[Any, ...]]


class _UnitBody(msgspec.Struct, array_like=True):
    """The content of a unit's record: the bodies of its paths, packed as in the table, and its findings by number."""

    bodies: list[tuple[str, bytes]]
    findings: list[tuple[int, bytes]]


class SyncedReviews(SharedReviews):
    """The reviews of one repository, for the store of one machine, which calls it under its own lock."""

    def __init__(self, shared: TeamRecords) -> None:
        """Nothing is connected until it is needed. Problems are reported through `shared.problems`."""
        self._remote = shared.remote
        self._key = shared.repository, KIND
        self._mark = shared.mark
        self._rest_s = shared.rest_s
        self._problems = shared.problems
        self._next_pull_s = 0.0

    # -- reading --

    def pull(self, opened: Callable[[], apsw.Connection]) -> None:
        """Pull the changes of the others, unless that was done a moment ago. Never fails: the problem is reported."""
        if time.monotonic() < self._next_pull_s:
            return
        try:
            revision = self._remote.revision(*self._key)
            if revision and revision != self._revision(db := opened()):
                with database.transaction(db):
                    self._pull_changes(db)
            self._problems[KIND], rest_s = "", self._rest_s
        except ContextEngineError as error:
            self._problems[KIND] = f"the reviews of the team may be newer: {error.message}"
            rest_s = RETRY_DELAY_S
        self._next_pull_s = time.monotonic() + rest_s

    # -- writing --

    @contextmanager
    def writing(self, db: apsw.Connection, session_id: str, units: Iterable[int]) -> Generator[None]:
        """Be the only writer of a session and of some of its units, on all machines.

        Raises: StorageBusy, StoreUnavailable, StoreUnusable.
        """
        with self._writing(db, [f"{session_id}/{SESSION}", *(f"{session_id}/{number:04d}" for number in units)]):
            yield

    @contextmanager
    def _writing(self, db: apsw.Connection, names: Iterable[str]) -> Generator[None]:
        """Write the records of these names at the end of the block, if they changed."""
        with self._remote.acquire_lease(*self._key, WAIT_S) as lease, database.transaction(db):
            self._pull_changes(db)
            yield
            self._put(db, lease, names)

    def push_kept(self, db: apsw.Connection, name: str) -> None:
        """Share what a second call continues from; after a failure it stays on this machine."""
        try:
            with self._writing(db, [f"{KEPT}/{name}"]):
                pass
        except (StorageBusy, StoreUnavailable, StoreUnusable) as error:
            self._problems[KIND] = f"what a second review continues from stays on this machine: {error.message}"

    def _put(self, db: apsw.Connection, lease: RecordLease, names: Iterable[str]) -> None:
        """Write what changed of these records, and delete those of sessions that no longer exist."""
        known = self._read_known(db)
        contents = {name: content for name in names if (content := _content(db, name)) is not None}
        shas = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        changes: dict[str, bytes | None] = {
            name: content for name, content in contents.items() if known.get(name) != shas[name]
        }
        changes |= dict.fromkeys(_list_deleted(db, known))
        if changes:
            lease.put(changes)
            for name in changes:
                self._note(db, name, shas.get(name, ""))

    # -- both sides --

    def _pull_changes(self, db: apsw.Connection) -> None:
        """Pull what the others changed since it was seen here: sessions before the results of their units."""
        revision, seen = self._remote.revision(*self._key), self._revision(db)
        if revision == seen:
            return
        if revision < seen:  # it is another database
            db.execute("DELETE FROM shared WHERE mark = ?", (self._mark,))
        known = self._read_known(db)
        changes = self._remote.list_changes(*self._key, 0 if revision < seen else seen)
        for record in changes:
            if record.is_deleted:
                _delete(db, record.path)
                self._note(db, record.path, "")
        fresh = [record for record in changes if not record.is_deleted and known.get(record.path) != record.sha]
        fresh.sort(key=lambda record: not record.path.endswith(f"/{SESSION}"))
        for start in range(0, len(fresh), FETCHED_AT_ONCE):
            portion = {record.path: record.sha for record in fresh[start : start + FETCHED_AT_ONCE]}
            contents = self._remote.read_contents(*self._key, [*portion])
            for path, sha in portion.items():
                if path in contents:
                    _store(db, path, contents[path])
                    self._note(db, path, sha)
        db.execute("INSERT OR REPLACE INTO team VALUES (?, ?)", (self._mark, revision))

    def _revision(self, db: apsw.Connection) -> int:
        found = tables.rows(db, "SELECT revision FROM team WHERE mark = ?", (self._mark,))
        if found:
            return found[0][0]
        return 0

    def _read_known(self, db: apsw.Connection) -> dict[str, str]:
        """Return every record that both sides have, with its hash."""
        return dict(tables.rows(db, "SELECT path, sha FROM shared WHERE mark = ?", (self._mark,)))

    def _note(self, db: apsw.Connection, path: str, sha: str) -> None:
        if sha:
            db.execute("INSERT OR REPLACE INTO shared VALUES (?, ?, ?)", (self._mark, path, sha))
        else:
            db.execute("DELETE FROM shared WHERE mark = ? AND path = ?", (self._mark, path))


# -- from the tables --


def _content(db: apsw.Connection, name: str) -> bytes | None:
    """Return the present content of a record; None when it does not exist."""
    folder, _, rest = name.partition("/")
    if folder == KEPT:
        found = tables.rows(db, "SELECT at, body FROM kept WHERE id = ?", (rest,))
        if found:
            return msgspec.msgpack.encode(found[0])
        return None
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
    """Return the results of a unit, with its latest findings."""
    found = tables.rows(db, "SELECT paths FROM unit WHERE session = ? AND number = ?", (session_id, number))
    paths = found[0][0].split("\0") if found else []
    of_path = "SELECT path, body FROM body WHERE session = ? AND path = ?"
    bodies = [row for path in paths for row in tables.rows(db, of_path, (session_id, path))]
    findings = tables.rows(db, "SELECT number, body FROM finding WHERE session = ? AND unit = ?", (session_id, number))
    if bodies:
        return msgspec.msgpack.encode(_UnitBody(bodies, findings))
    return None


def _list_deleted(db: apsw.Connection, shared: Iterable[str]) -> list[str]:
    """Return the shared records whose session or kept review no longer exists."""
    present = {row[0] for row in tables.rows(db, "SELECT id FROM session")}
    present |= {f"{KEPT}/{row[0]}" for row in tables.rows(db, "SELECT id FROM kept")}
    return [path for path in shared if path not in present and path.partition("/")[0] not in present]


# -- into the tables --


def _store(db: apsw.Connection, path: str, content: bytes) -> None:
    """Store a record in the tables."""
    folder, _, rest = path.partition("/")
    if folder == KEPT:
        at, body = msgspec.msgpack.decode(content)
        db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (rest, at, body))
    elif rest == SESSION:
        _store_session(db, folder, msgspec.msgpack.decode(zlib.decompress(content), type=_SessionBody))
    elif tables.rows(db, "SELECT 1 FROM session WHERE id = ?", (folder,)):
        left = msgspec.msgpack.decode(content, type=_UnitBody)
        rows = [(folder, *row) for row in left.bodies]
        db.executemany("INSERT OR REPLACE INTO body VALUES (?, ?, ?)", rows)
        found = [(folder, number, int(rest), body) for number, body in left.findings]
        db.executemany("INSERT OR REPLACE INTO finding VALUES (?, ?, ?, ?)", found)


def _store_session(db: apsw.Connection, session_id: str, body: _SessionBody) -> None:
    session = tables.ReviewSession(session_id, *body.session)
    if tables.rows(db, "SELECT 1 FROM session WHERE id = ?", (session_id,)):
        db.execute(tables.UPDATE_SESSION, (*astuple(session)[2:], session_id))
        db.execute("DELETE FROM unit WHERE session = ?", (session_id,))
        db.execute("DELETE FROM log WHERE session = ?", (session_id,))
    else:
        db.execute(tables.INSERT_SESSION, astuple(session))
    db.executemany(tables.INSERT_UNIT, [(session_id, *row) for row in body.units])
    db.executemany("INSERT INTO log VALUES (NULL, ?, ?, ?, ?, ?)", [(session_id, *row) for row in body.log])


def _delete(db: apsw.Connection, path: str) -> None:
    folder, _, rest = path.partition("/")
    if folder == KEPT:
        db.execute("DELETE FROM kept WHERE id = ?", (rest,))
    elif rest == SESSION:
        db.execute("DELETE FROM session WHERE id = ?", (folder,))
