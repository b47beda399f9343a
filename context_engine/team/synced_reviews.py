"""The reviews of a team: each machine stores them in its own `state.db`, and synchronizes them before a read.

A row of the table `record` is a record of the team. A writer acquires the lease of all machines, pulls the changes of
the others, and writes its own change to the team's database before its transaction ends. So there is never one without
the other. Sessions from before the team stay local until they change.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import apsw
import msgspec

from context_engine.errors import ContextEngineError, StorageBusy, StoreUnavailable, StoreUnusable
from context_engine.review.review_store import PUT_RECORD, SharedReviews
from context_engine.storage import database
from context_engine.team.remote_store import RETRY_DELAY_S

if TYPE_CHECKING:  # its library is optional
    from context_engine.team.postgres_records import RecordLease
    from context_engine.team.synced_folder import TeamRecords

KIND = "reviews"
WAIT_S = 10.0
"""A write takes some hundredths of a second, and a hundred people do not write at once."""
FETCHED_AT_ONCE = 50
"""The reviews of a unit of hundreds of files have some hundred thousand bytes."""


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

    def pull(self, opened: Callable[[], apsw.Connection]) -> None:
        """Pull the changes of the others, unless that was done a moment ago. Never fails: the problem is reported."""
        if time.monotonic() < self._next_pull_s:
            return
        try:
            revision = self._remote.revision(*self._key)
            if revision and revision != self._read_revision(db := opened()):
                with database.transaction(db):
                    self._pull_changes(db)
            self._problems[KIND], rest_s = "", self._rest_s
        except ContextEngineError as error:
            self._problems[KIND] = f"the reviews of the team may be newer: {error.message}"
            rest_s = RETRY_DELAY_S
        self._next_pull_s = time.monotonic() + rest_s

    @contextmanager
    def writing(self, db: apsw.Connection, paths: Iterable[str]) -> Generator[None]:
        """Be the only writer of these records on all machines, and share what the block changes of them.

        Raises: StorageBusy, StoreUnavailable, StoreUnusable.
        """
        with self._remote.acquire_lease(*self._key, WAIT_S) as lease, database.transaction(db):
            self._pull_changes(db)
            yield
            self._put(db, lease, paths)

    def push(self, db: apsw.Connection, paths: Iterable[str]) -> None:
        """Share records as they are here; after a failure they stay on this machine."""
        try:
            with self.writing(db, paths):
                pass
        except (StorageBusy, StoreUnavailable, StoreUnusable) as error:
            self._problems[KIND] = f"what a second review continues from stays on this machine: {error.message}"

    def _put(self, db: apsw.Connection, lease: RecordLease, paths: Iterable[str]) -> None:
        """Write what changed of these records, and delete the shared ones that no longer exist here."""
        known = self._read_known(db)
        contents = {path: content for path in paths if (content := _read_record(db, path)) is not None}
        shas = {path: hashlib.sha256(content).hexdigest() for path, content in contents.items()}
        present = {path for (path,) in db.execute("SELECT path FROM record")}
        changes: dict[str, bytes | None] = dict.fromkeys(known.keys() - present)
        changes |= {path: content for path, content in contents.items() if known.get(path) != shas[path]}
        if changes:
            lease.put(changes)
            for path in changes:
                self._note(db, path, shas.get(path, ""))

    def _pull_changes(self, db: apsw.Connection) -> None:
        """Pull what the others changed since it was seen here."""
        revision, seen = self._remote.revision(*self._key), self._read_revision(db)
        if revision == seen:
            return
        if revision < seen:  # it is another database
            db.execute("DELETE FROM shared WHERE mark = ?", (self._mark,))
        known = self._read_known(db)
        changes = self._remote.list_changes(*self._key, 0 if revision < seen else seen)
        for record in changes:
            if record.is_deleted:
                db.execute("DELETE FROM record WHERE path = ?", (record.path,))
                self._note(db, record.path, "")
        fresh = [record for record in changes if not record.is_deleted and known.get(record.path) != record.sha]
        for start in range(0, len(fresh), FETCHED_AT_ONCE):
            portion = {record.path: record.sha for record in fresh[start : start + FETCHED_AT_ONCE]}
            for path, content in self._remote.read_contents(*self._key, [*portion]).items():
                db.execute(PUT_RECORD, (path, *msgspec.msgpack.decode(content, type=tuple[float, bytes])))
                self._note(db, path, portion[path])
        db.execute("INSERT OR REPLACE INTO team VALUES (?, ?)", (self._mark, revision))

    def _read_revision(self, db: apsw.Connection) -> int:
        """Return the revision of the team up to which this machine has everything."""
        found: Any = db.execute("SELECT revision FROM team WHERE mark = ?", (self._mark,)).get
        return found or 0

    def _read_known(self, db: apsw.Connection) -> dict[str, str]:
        """Return every record that both sides have, with its hash."""
        rows: Any = db.execute("SELECT path, sha FROM shared WHERE mark = ?", (self._mark,)).fetchall()
        return dict(rows)

    def _note(self, db: apsw.Connection, path: str, sha: str) -> None:
        if sha:
            db.execute("INSERT OR REPLACE INTO shared VALUES (?, ?, ?)", (self._mark, path, sha))
        else:
            db.execute("DELETE FROM shared WHERE mark = ? AND path = ?", (self._mark, path))


def _read_record(db: apsw.Connection, path: str) -> bytes | None:
    """Return the present content of a record; None when it does not exist."""
    rows = db.execute("SELECT at, body FROM record WHERE path = ?", (path,)).fetchall()
    return msgspec.msgpack.encode(rows[0]) if rows else None
