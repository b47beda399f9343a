"""The calls of all clients: a sum for each session, for `ctx gain`, and the newest calls, for `ctx ui`.

    gain.db    in the user's data folder, readable by its owner alone
    session    a client of one server process in one workspace: calls, failures, characters shown, time
    call       the newest calls, with question and reply unless the setting `call_texts` is off
    running    calls of servers that take long; a person cancels one by its mark, which its server reads
    log        the newest lines of the logs of servers

Secrets are redacted. Every process writes its own calls; none waits for another, and no error of the disk reaches a
call.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import apsw

from context_engine.errors import StorageBusy
from context_engine.secrets import redact_reply
from context_engine.storage import (
    database,
    find_network_drive,
    transaction,
    user_data_folder,
    workspace_id,
)

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.settings import Settings
    from context_engine.tools import Call, Reply

FILE_NAME = "gain.db"
SCHEMA_VERSION = 2
SESSIONS_MAX, CALLS_MAX = 500, 200
"""The oldest ones are deleted (`_TRIM`); of lines of logs as many are kept as of calls."""
BUSY_MS, READER_BUSY_MS = 5, 2_000
"""A call does not wait longer for other processes; it is written with the next one."""
ASKED_CHARS_MAX, GOT_CHARS_MAX, SUMMARY_CHARS_MAX = 4_000, 40_000, 240
"""Of the arguments and the reply of a call; and of both in the list of calls: enough to recognize them."""
ADVICE = database.StorageAdvice(
    "the counts of `ctx gain`",
    busy="Run it again in a moment.",
    full="Free some space, then run it again.",
    closed="Give this user permission to write there, or set CTX_DATA_FOLDER to another folder.",
    damaged="Delete it: only the counts are lost.",
)
_SCHEMA = """
CREATE TABLE session(
    name TEXT PRIMARY KEY, client TEXT, workspace TEXT, folder TEXT, began REAL, ended REAL,
    calls INT, failed INT, shown INT, ms REAL
) WITHOUT ROWID;
CREATE TABLE call(
    id INTEGER PRIMARY KEY, at REAL, client TEXT, session TEXT, workspace TEXT, folder TEXT, tool TEXT, ms REAL,
    error TEXT, shown INT, asked TEXT, got TEXT
)
"""
_INSERT = """
INSERT INTO call VALUES
    (NULL, :at, :client, :session, :workspace, :folder, :tool, :ms, :error, :shown, :asked, :got);
INSERT INTO session VALUES (:session, :client, :workspace, :folder, :at, :at, 1, :error <> '', :shown, :ms)
    ON CONFLICT(name) DO UPDATE SET ended = excluded.ended, calls = calls + 1, failed = failed + excluded.failed,
    shown = shown + excluded.shown, ms = ms + excluded.ms;
"""
_LATER_TABLES = """
CREATE TABLE IF NOT EXISTS running(
    id TEXT PRIMARY KEY, at REAL, client TEXT, workspace TEXT, folder TEXT, tool TEXT, asked TEXT, state TEXT,
    seen INT, canceled INT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY, line TEXT);
"""
"""Tables that a file of this version may lack."""
_SHOW = """
INSERT INTO running VALUES (:id, :at, :client, :workspace, :folder, :tool, :asked, :state, unixepoch(), 0)
    ON CONFLICT(id) DO UPDATE SET seen = excluded.seen, state = excluded.state RETURNING canceled
"""
_HIDE = "DELETE FROM running WHERE id = :id OR seen < unixepoch() - 60"
_CANCEL = "UPDATE running SET canceled = 1 WHERE id = :id AND workspace = :workspace RETURNING id"
_LOG = "INSERT INTO log VALUES (NULL, :line)"
_TRIM = """
DELETE FROM call WHERE id <= (SELECT max(id) FROM call) - 200;
DELETE FROM log WHERE id <= (SELECT max(id) FROM log) - 200;
DELETE FROM session WHERE name IN (SELECT name FROM session ORDER BY ended DESC LIMIT -1 OFFSET 500);
"""
_FORGET_TEXTS = "UPDATE call SET asked = '', got = '' WHERE got <> ''"
_READ_NEW = {
    "call": """
SELECT id, at, client, session, workspace, folder, tool, ms, error, shown,
    substr(asked, 1, :most) AS asked, substr(got, 1, :most) AS got
FROM call WHERE id > iif(:since > (SELECT max(id) FROM call), 0, :since) ORDER BY id
""",
    "log": "SELECT id, line FROM log WHERE id > iif(:since > (SELECT max(id) FROM log), 0, :since) ORDER BY id",
}
"""Ids begin again after `ctx gain --delete`."""
_READ_RUNNING = """
SELECT id, at, client, workspace, folder, tool, asked, state FROM running WHERE seen >= unixepoch() - 3 ORDER BY at
"""
"""A call whose server wrote nothing for three seconds is not running any more."""
NO_VALUES: Mapping[str, Any] = MappingProxyType({})
_DELETE = """
PRAGMA secure_delete = ON;
DELETE FROM session; DELETE FROM call; DELETE FROM running; DELETE FROM log;
PRAGMA wal_checkpoint(TRUNCATE)
"""


class GainStore:
    """Records the calls of this process. Thread-safe; any number of processes write to the same file.

    `problem` says why nothing is recorded, if so.
    """

    def __init__(self, *, enabled: bool = True, clock: Callable[[], float] = time.time) -> None:
        """Open nothing before the first call; if not `enabled`, never."""
        self.problem = "" if enabled else "it is off"
        self.canceled: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        """The events of the calls that a person canceled."""
        self._clock = clock
        self._process = os.urandom(4).hex()
        self._lock = threading.Lock()
        self._engines: weakref.WeakValueDictionary[str, Engine] = weakref.WeakValueDictionary()
        self._newest = ""
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque(maxlen=CALLS_MAX)
        self._database = database.DatabaseHandle()

    def note_engine(self, project: str, engine: Engine) -> None:
        """Remember which engine answers for a project, without keeping it alive."""
        self._engines[project], self._newest = engine, project

    def record(
        self,
        call: Call,
        tool: str,
        reply: Reply,
        *,
        project: str = "",
        arguments: Any = None,
        ms: float = 0,
        error: str = "",
    ) -> None:
        """Count a call of a client; one without a session is at the terminal. Never fails."""
        end = {"ms": round(ms, 1), "error": error or ("failed" if reply.is_error else ""), "shown": len(reply.text)}
        self._note(_INSERT, call, tool, project, arguments, end | {"got": reply.text[:GOT_CHARS_MAX]})

    def show_running(self, call: Call, tool: str, state: str, *, project: str = "", arguments: Any = None) -> None:
        """Show a call that is running, or that has ended if it has no state; cancel it where a person has. Never fails.

        Its server does this again and again.
        """
        row = {"id": f"{self._process}-{id(call):x}", "state": state, "got": ""}
        if self._note(_SHOW if state else _HIDE, call, tool, project, arguments, row) == [(1,)]:
            self.canceled.add(call.cancel)
            call.cancel.set()

    def keep_line(self, settings: Settings, line: str) -> None:
        """Keep a line of the log of a server. Never fails."""
        with self._ending_at_errors():
            if settings.gain and not self.problem:
                self._write(settings, _LOG, {"line": redact_reply(line).text})

    def _note(self, sql: str, call: Call, tool: str, project: str, arguments: Any, more: dict[str, Any]) -> list[Any]:
        """Write about a call and return the answer; without its texts where the user wants none."""
        with self._ending_at_errors():
            engine = self._engines.get(project) or self._engines.get(self._newest)
            if engine is None or not engine.settings.gain or self.problem:
                return []
            workspace = workspace_id(engine.root)
            kind = f"{call.session}-{self._process}" if call.session else time.strftime("terminal-%Y-%m-%d")
            row = {
                "at": self._clock(),
                "client": call.client or ("" if call.session else "terminal"),
                "session": f"{kind}-{workspace}",
                "workspace": workspace,
                "folder": engine.root.name,
                "tool": tool,
                "asked": "",
            } | more
            if engine.settings.call_texts:
                asked = _join(arguments or {})[: 2 * ASKED_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")
                row["asked"] = redact_reply(asked).text[:ASKED_CHARS_MAX]
            else:
                row["got"] = ""
            return self._write(engine.settings, sql, row)
        return []

    def _write(self, settings: Settings, sql: str, row: dict[str, Any]) -> list[Any]:
        """Write this and what waits in one transaction; while another process is writing, it waits for the next."""
        file = gain_file(settings)
        with self._lock:
            self._waiting.append((sql, row))
            answer: list[Any] = []
            try:
                with database.translate_errors(file, ADVICE):
                    db = self._database.open(file, lambda: _connect(file))
                    with transaction(db):
                        for statement, values in self._waiting:
                            answer = db.execute(statement, values).fetchall()
                        db.execute(_TRIM if settings.call_texts else _TRIM + _FORGET_TEXTS).fetchall()
            except StorageBusy:
                return []
            self._waiting.clear()
            return answer

    @contextmanager
    def _ending_at_errors(self) -> Generator[None]:
        """Let nothing be recorded after an error: statistics must not fail the call that they count."""
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - see above
            self.problem = f"{type(problem).__name__}: {problem}"


def _join(value: Any) -> str:
    """Return arguments on one line for a person; a text that comes first needs no name.

    >>> _join({"items": ["till/auth.py", "till/money.py:1-20"], "token_budget": 3000})
    'till/auth.py, till/money.py:1-20 · token budget 3000'
    """
    if isinstance(value, list):
        return ", ".join(map(_join, value))
    if not isinstance(value, Mapping):
        return str(value)
    text = " · ".join(f"{str(name).replace('_', ' ')} {_join(part)}" for name, part in value.items())
    first = next(iter(value), "")
    return text.removeprefix(f"{first.replace('_', ' ')} ") if isinstance(value.get(first), str | list) else text


def gain_file(settings: Settings) -> Path:
    """Return where the counts are stored."""
    return (settings.data_folder or user_data_folder()) / FILE_NAME


def read_sessions(file: Path) -> list[dict[str, Any]]:
    """Return the rows of all sessions, the newest first; moments are seconds since 1970.

    Raises: StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
    """
    return _execute(file, "SELECT * FROM session ORDER BY ended DESC, name")


def read_events(file: Path, seen: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a page has not `seen`, and note it there: calls with the beginnings of their texts, the oldest first.

    Lines of logs follow as `{"line"}`, and `{"running"}` if what is running has changed. Raises: as `read_sessions`.
    """
    events: list[dict[str, Any]] = []
    with _open_to_read(file) as read:
        for table, sql in _READ_NEW.items():
            rows = read(sql, {"since": seen.get(table, 0), "most": SUMMARY_CHARS_MAX})
            seen[table] = rows[-1]["id"] if rows else seen.get(table, 0)
            events += rows
        running = read(_READ_RUNNING, NO_VALUES)
    if running != seen.get("running", []):
        seen["running"] = running
        events.append({"running": running})
    return events


def read_call_texts(file: Path, call_id: int) -> dict[str, Any]:
    """Return the whole question and reply of a call. Raises: as `read_sessions`."""
    rows = _execute(file, "SELECT asked, got FROM call WHERE id = :id", {"id": call_id})
    return rows[0] if rows else {"asked": "", "got": ""}


def cancel_call(file: Path, workspace: str, call_id: str) -> bool:
    """Ask the server of a running call to cancel it; return whether it is known. Raises: as `read_sessions`."""
    return bool(_execute(file, _CANCEL, {"id": call_id, "workspace": workspace}))


def delete_counts(file: Path) -> None:
    """Delete all counts, also from the free pages of the file. Processes that have it open go on counting.

    Raises: StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
    """
    _execute(file, _DELETE)


def _execute(file: Path, sql: str, values: Mapping[str, Any] = NO_VALUES) -> list[dict[str, Any]]:
    """Return the rows of one statement. Raises: as `read_sessions`."""
    with _open_to_read(file) as read:
        return read(sql, values)


@contextmanager
def _open_to_read(file: Path) -> Generator[Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]]:
    """Yield what returns the rows of a statement by the names of their columns; none without a file."""
    if not database.read_inode(file):
        yield lambda _sql, _values: []
        return

    def name_columns(cursor: apsw.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
        return {column[0]: value for column, value in zip(cursor.get_description(), row, strict=True)}

    def read(sql: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        rows: Any = db.execute(sql, values).fetchall()
        return rows

    with database.translate_errors(file, ADVICE), closing(_connect(file, READER_BUSY_MS)) as db:
        db.row_trace = name_columns
        yield read


def _connect(file: Path, busy_ms: int = BUSY_MS) -> apsw.Connection:
    """Open the file, or make it. Raises: apsw.Error, OSError, HostError."""
    if find_network_drive(file.parent):
        raise database.write_failed_error(file, ADVICE, "it is on a network drive, where each call would wait")
    db = database.open_private_database(file, _SCHEMA, version=SCHEMA_VERSION, busy_ms=busy_ms)
    db.execute(_LATER_TABLES)
    return db
