"""The newest calls of all clients, for the local page: written by the processes that ran them, in `gain.db`.

    call      time, client, workspace, tool, duration, characters and estimate of the newest `CALLS_MAX` calls
    viewer    the pages that are open, each until a moment that it moves on

The beginning of a question and of its reply is recorded only while a page is open, with secrets redacted. It is deleted
when the last page closes, or at the next call after that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Any

import apsw

from context_engine.secrets import redact_reply
from context_engine.storage import transaction

CALLS_MAX = 500
"""A long session has some hundred calls; the table stays below 400 kB."""
TEXT_CHARS_MAX = 240
"""Of a question and of a reply: enough to recognize them."""
REDACTED_CHARS_MAX = 4_000
"""A text is cut to this length before secrets are redacted in it, which bounds the time of a call."""
VIEWER_S = 15.0
"""A page whose process was killed counts as closed after this time."""
RENEW_S = 5.0

SCHEMA = """
CREATE TABLE IF NOT EXISTS call(
    id INTEGER PRIMARY KEY, at REAL, client TEXT, session TEXT, workspace TEXT, folder TEXT, tool TEXT, ms REAL,
    error TEXT, shown INT, estimate INT, asked TEXT, got TEXT
);
CREATE TABLE IF NOT EXISTS viewer(name TEXT PRIMARY KEY, until REAL) WITHOUT ROWID;
"""
_INSERT = (
    "INSERT INTO call(at, client, session, workspace, folder, tool, ms, error, shown, estimate, asked, got)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_NEWER = (
    "SELECT id, at, client, session, workspace, folder, tool, ms, error, shown, estimate, asked, got"
    " FROM call WHERE id > ? ORDER BY id"
)
_FORGET_TEXTS = "UPDATE call SET asked = '', got = '' WHERE asked <> '' OR got <> ''"


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts of a call that are not in its reply: client, arguments, duration, and the code of its error."""

    client: str = ""
    arguments: Any = None
    took_ms: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A row of the table `call`."""

    at: float
    client: str
    session: str
    workspace: str
    folder: str
    tool: str
    ms: float
    error: str
    shown: int
    estimate: int
    asked: str = ""
    got: str = ""


# -- writing ----------------------------------------------------------------------------------------------------------


def has_viewer(db: apsw.Connection, now: float) -> bool:
    """Return whether a page is open."""
    return bool(db.execute("SELECT 1 FROM viewer WHERE until > ?", (now,)).fetchone())


def insert_calls(db: apsw.Connection, calls: Iterable[RecordedCall], *, is_viewed: bool) -> None:
    """Add calls and delete the oldest, inside a transaction; without a page, delete all texts."""
    for call in calls:
        db.execute(_INSERT, astuple(call))
    db.execute("DELETE FROM call WHERE id <= (SELECT max(id) FROM call) - ?", (CALLS_MAX,))
    if not is_viewed:
        db.execute(_FORGET_TEXTS)


def shorten_arguments(arguments: Any) -> str:
    """Return arguments on one line, with secrets redacted; the first one needs no name.

    >>> shorten_arguments({"query": "where are passwords hashed", "limit": 3})
    'where are passwords hashed · limit 3'
    """
    if isinstance(arguments, Mapping):
        values = [", ".join(map(str, value)) if isinstance(value, list) else value for value in arguments.values()]
        text = " · ".join(f"{name} {value}" for name, value in zip(arguments, values, strict=True))
        text = text.removeprefix(f"{next(iter(arguments), '')} ")
    else:
        text = str(arguments or "")
    return shorten_text(text)


def shorten_text(text: str) -> str:
    """Return the beginning of a text on one line, with secrets redacted."""
    redacted = redact_reply(text[:REDACTED_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")).text
    line = " ".join(redacted.split())
    if len(line) <= TEXT_CHARS_MAX:
        return line
    return f"{line[:TEXT_CHARS_MAX]}…"


# -- reading ----------------------------------------------------------------------------------------------------------


class ActivityReader:
    """The view of one page on the calls: it keeps the page known as open, and returns new rows. For one thread."""

    def __init__(self, connect: Callable[[], apsw.Connection], *, clock: Callable[[], float] = time.time) -> None:
        """`connect` opens the file, at the first call."""
        self._connect = connect
        self._clock = clock
        self._db: apsw.Connection | None = None
        self._name = os.urandom(6).hex()
        self._renew_at = 0.0
        self._last = 0

    def read_new(self) -> list[dict[str, Any]]:
        """Return the calls since the last time, the oldest first. Raises: apsw.Error, OSError, HostError."""
        db = self._open()
        newest = db.execute("SELECT coalesce(max(id), 0) FROM call").fetchone()
        assert newest is not None
        if newest[0] < self._last:  # `ctx gain --delete`
            self._last = 0
        rows: list[tuple[Any, ...]] = db.execute(_NEWER, (self._last,)).fetchall()
        self._last = newest[0]
        return [{"id": number, **asdict(RecordedCall(*values))} for number, *values in rows]

    def close(self) -> None:
        """Forget the page; if it was the last one, delete the texts."""
        if self._db is None:
            return
        with transaction(self._db):
            self._db.execute("DELETE FROM viewer WHERE name = ? OR until < ?", (self._name, self._clock()))
            if not has_viewer(self._db, self._clock()):
                self._db.execute(_FORGET_TEXTS)
        self._db.close()
        self._db = None

    def _open(self) -> apsw.Connection:
        """Return the database, with the page known as open for a while."""
        if self._db is None:
            self._db = self._connect()
        now = self._clock()
        if now >= self._renew_at:
            with transaction(self._db):
                self._db.execute("DELETE FROM viewer WHERE until < ?", (now,))
                self._db.execute("INSERT OR REPLACE INTO viewer VALUES (?, ?)", (self._name, now + VIEWER_S))
            self._renew_at = now + RENEW_S
        return self._db
