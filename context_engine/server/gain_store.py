"""The calls of all clients: a sum for each session, for `ctx gain`, and the newest calls, for `ctx ui`.

    gain.db    in the user's data folder, readable by its owner alone
    session    a client of one server process in one workspace: calls, failures, characters shown, time
    call       the newest calls, with question and reply unless the setting `call_texts` is off

Secrets are redacted. Every process writes its own calls; none waits for another, and no error of the disk reaches a
call.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
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
"""The oldest ones are deleted (`_TRIM`)."""
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
_TRIM = """
DELETE FROM call WHERE id <= (SELECT max(id) FROM call) - 200;
DELETE FROM session WHERE name IN (SELECT name FROM session ORDER BY ended DESC LIMIT -1 OFFSET 500);
"""
_FORGET_TEXTS = "UPDATE call SET asked = '', got = '' WHERE got <> ''"
_READ_NEW = """
SELECT id, at, client, session, workspace, folder, tool, ms, error, shown,
    substr(asked, 1, :most) AS asked, substr(got, 1, :most) AS got
FROM call WHERE id > iif(:since > (SELECT max(id) FROM call), 0, :since) ORDER BY id
"""
NO_VALUES: Mapping[str, Any] = MappingProxyType({})
_DELETE = "PRAGMA secure_delete = ON; DELETE FROM session; DELETE FROM call; PRAGMA wal_checkpoint(TRUNCATE)"


class GainStore:
    """Records the calls of this process. Thread-safe; any number of processes write to the same file.

    `problem` says why nothing is recorded, if so.
    """

    def __init__(self, *, enabled: bool = True, clock: Callable[[], float] = time.time) -> None:
        """Open nothing before the first call; if not `enabled`, never."""
        self.problem = ""
        self._enabled = enabled
        self._clock = clock
        self._process = os.urandom(4).hex()
        self._lock = threading.Lock()
        self._engines: weakref.WeakValueDictionary[str, Engine] = weakref.WeakValueDictionary()
        self._newest = ""
        self._waiting: deque[dict[str, Any]] = deque(maxlen=CALLS_MAX)
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
        if not self._enabled or self.problem:
            return
        try:
            engine = self._engines.get(project) or self._engines.get(self._newest)
            if engine is None or not engine.settings.gain:
                return
            now, workspace = self._clock(), workspace_id(engine.root)
            kind = f"{call.session}-{self._process}" if call.session else time.strftime("terminal-%Y-%m-%d")
            row = {
                "at": now,
                "client": call.client or ("" if call.session else "terminal"),
                "session": f"{kind}-{workspace}",
                "workspace": workspace,
                "folder": engine.root.name,
                "tool": tool,
                "ms": round(ms, 1),
                "error": error or ("failed" if reply.is_error else ""),
                "shown": len(reply.text),
                "asked": "",
                "got": "",
            }
            if engine.settings.call_texts:
                asked = _join(arguments or {})[: 2 * ASKED_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")
                row |= {"asked": redact_reply(asked).text[:ASKED_CHARS_MAX], "got": reply.text[:GOT_CHARS_MAX]}
            with self._lock:
                self._waiting.append(row)
                self._write(gain_file(engine.settings), keeps_texts=engine.settings.call_texts)
        except Exception as problem:  # noqa: BLE001 - statistics must not fail the call that they count
            self.problem = f"{type(problem).__name__}: {problem}"

    def _write(self, file: Path, *, keeps_texts: bool) -> None:
        """Write what waits in one transaction; while another process is writing, it waits for the next call."""
        try:
            with database.translate_errors(file, ADVICE):
                db = self._database.open(file, lambda: _connect(file))
                with transaction(db):
                    for row in self._waiting:
                        db.execute(_INSERT, row).fetchall()
                    db.execute(_TRIM if keeps_texts else _TRIM + _FORGET_TEXTS).fetchall()
        except StorageBusy:
            return
        self._waiting.clear()


def _join(value: Any) -> str:
    """Return arguments on one line; the first one needs no name.

    >>> _join({"items": ["till/auth.py", "till/money.py:1-20"], "token_budget": 3000})
    'till/auth.py, till/money.py:1-20 · token_budget 3000'
    """
    if isinstance(value, list):
        return ", ".join(map(_join, value))
    if not isinstance(value, Mapping):
        return str(value)
    text = " · ".join(f"{name} {_join(part)}" for name, part in value.items())
    return text.removeprefix(f"{next(iter(value), '')} ")


def gain_file(settings: Settings) -> Path:
    """Return where the counts are stored."""
    return (settings.data_folder or user_data_folder()) / FILE_NAME


def read_sessions(file: Path) -> list[dict[str, Any]]:
    """Return the rows of all sessions, the newest first; moments are seconds since 1970.

    Raises: StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
    """
    return _execute(file, "SELECT * FROM session ORDER BY ended DESC, name")


def read_calls(file: Path, since: int) -> list[dict[str, Any]]:
    """Return the calls after the one with the `id` since, the oldest first, with the beginnings of their texts.

    All of them if that one is later than the newest, as after `ctx gain --delete`. Raises: as `read_sessions`.
    """
    return _execute(file, _READ_NEW, {"since": since, "most": SUMMARY_CHARS_MAX})


def read_call_texts(file: Path, call_id: int) -> dict[str, Any]:
    """Return the whole question and reply of a call. Raises: as `read_sessions`."""
    rows = _execute(file, "SELECT asked, got FROM call WHERE id = :id", {"id": call_id})
    return rows[0] if rows else {"asked": "", "got": ""}


def delete_counts(file: Path) -> None:
    """Delete all counts, also from the free pages of the file. Processes that have it open go on counting.

    Raises: StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
    """
    _execute(file, _DELETE)


def _execute(file: Path, sql: str, values: Mapping[str, Any] = NO_VALUES) -> list[dict[str, Any]]:
    """Return the rows of a statement by the names of their columns; none without a file."""
    if not database.read_inode(file):
        return []

    def name_columns(cursor: apsw.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
        return {column[0]: value for column, value in zip(cursor.get_description(), row, strict=True)}

    with database.translate_errors(file, ADVICE), closing(_connect(file, READER_BUSY_MS)) as db:
        db.row_trace = name_columns
        rows: Any = db.execute(sql, values).fetchall()
        return rows


def _connect(file: Path, busy_ms: int = BUSY_MS) -> apsw.Connection:
    """Open the file, or make it. Raises: apsw.Error, OSError, HostError."""
    if find_network_drive(file.parent):
        raise database.write_failed_error(file, ADVICE, "it is on a network drive, where each call would wait")
    return database.open_private_database(file, _SCHEMA, version=SCHEMA_VERSION, busy_ms=busy_ms)
