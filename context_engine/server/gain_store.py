"""Counts of calls and characters by session, for `ctx gain`: what each session was shown, and what reading would cost.

    gain.db    in the user's data folder, readable by its owner alone
    session    a client of one server process: its name, the workspace, its first and last call
    used       calls, failed calls, characters shown and estimated, by session and tool
    call       the newest calls, for the local page (`activity_log`)

It contains no code, no query and no path of a file, except while a page of `ctx ui` is open. Every process writes its
own calls; none waits for another, and no error of the disk reaches a call.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from context_engine.secrets import redact_reply
from context_engine.storage import database, is_network_drive, transaction, user_data_folder, workspace_id

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.settings import Settings
    from context_engine.tools import Reply


# -- activity log ------------------------------------------------------------------------------------------------------

# The newest calls of all clients, for the local page: written by the processes that ran them, in `gain.db`.
#
#     call      time, client, workspace, tool, duration, characters and estimate of the newest `CALLS_MAX` calls
#     viewer    the pages that are open, each until a moment that it moves on
#
# The beginning of a question and of its reply is recorded only while a page is open, with secrets redacted. It is
# deleted when the last page closes, or at the next call after that.

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


# -- gain store --------------------------------------------------------------------------------------------------------

# -- gain estimate -----------------------------------------------------------------------------------------------------

# Estimate the cost of a reply by reading files instead: the rule behind `ctx gain`.

FILE_CHARS_MAX = 40_000
"""The least that a measured client shows of one result: 10,000 tokens of 4 characters (docs/clients-report.md)."""
LINES_MIN = 3
"""A file of which less is shown does not count: no agent reads all of it for a signature."""
CLAIMING_TOOLS = frozenset({"search_code", "get_context"})
"""The tools that replace reading whole files. The replies of all others count as what they cost."""
GAIN_RULE = (
    "The estimate counts, for each search and each bundle, the whole files of which it shows 3 lines or more: each file"
    " once a session, and at most 40,000 characters of it. All other calls, and those at the terminal, count as what"
    " they showed: they save nothing. A failed call counts as nothing: it only costs. Left out on both sides are the"
    " searches that an agent would need to find the files, and the list of tools that its client sends each time."
)

_TEXTS = ("content", "text")
"""The fields with code, next to `lines`."""
_HEADING = re.compile(r"## (.+)")
_PLACE = re.compile(r"(?m)^@@ (.+?):(\d{1,9})(?:-(\d{1,9}))?\b")
_FENCE = re.compile(r"(`{3,}|~{3,})")


def find_shown_files(reply: str) -> list[str]:
    r"""Return the paths of the files of which a search or a bundle shows `LINES_MIN` lines or more, each once.

    >>> find_shown_files('{"results":[{"path":"a.py","lines":"3-5","content":"x = 1\\ny = 2\\nz = 3"}]}')
    ['a.py']
    >>> find_shown_files("hybrid · fresh\n@@ a.py:3-5 f\nx = 1\ny = 2\nz = 3\nb.py:1-9 g | def g():")
    ['a.py']
    >>> find_shown_files("## a.py · 1.0\n\nlines 3-5 · f\n```python\nx = 1\ny = 2\nz = 3\n```")
    ['a.py']
    """
    counts: dict[str, int] = {}
    if reply.startswith("{"):
        pieces = _pieces_of_json(reply)
    else:
        if "\n@@ " in reply:
            pieces = _pieces_of_text(reply)
        else:
            pieces = _pieces_of_markdown(reply)
    for path, lines in pieces:
        counts[path] = counts.get(path, 0) + lines
    return [path for path, lines in counts.items() if path and lines >= LINES_MIN]


def _pieces_of_json(reply: str) -> Iterator[tuple[str, int]]:
    """Yield path and number of lines of each piece of code. Inner objects are in the file of the outer one."""
    try:
        waiting = [(json.loads(reply), "")]
    except ValueError:  # a note below the JSON, or another format: nothing is claimed
        return
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, path) for item in value]
        elif isinstance(value, dict):
            path = str(value.get("path", path))
            yield path, _count_code(value)
            waiting += [(item, path) for item in value.values()]


def _count_code(row: dict[str, Any]) -> int:
    """Return the number of lines of code that a row of a reply shows."""
    if "lines" in row:
        texts = [row.get(key) for key in _TEXTS]
    else:
        texts = []
    return sum(text.count("\n") + 1 for text in texts if isinstance(text, str) and text)


def _pieces_of_text(reply: str) -> Iterator[tuple[str, int]]:
    """Yield path and number of lines of each place under a line `@@ path:FIRST-LAST`, which says how many there are."""
    for place in _PLACE.finditer(reply):
        yield place[1], int(place[3] or place[2]) - int(place[2]) + 1


def _pieces_of_markdown(reply: str) -> Iterator[tuple[str, int]]:
    """Yield path and number of lines of each code fence. The heading of level 2 above it begins with the path."""
    path = fence = ""
    lines = 0
    for line in reply.split("\n"):
        if fence and line.rstrip() == fence:
            yield path, lines
            fence = ""
        elif fence:
            lines += 1
        elif found := _FENCE.match(line):
            fence, lines = found[1], 0
        elif heading := _HEADING.match(line):
            path = heading[1].split(" · ")[0]


# -- gain store --------------------------------------------------------------------------------------------------------

FILE_NAME = "gain.db"
SCHEMA_VERSION = 1
SESSIONS_MAX = 500
"""Older sessions are added up into one row, so the file stays below 1 MB and the total is kept."""
EARLIER = "earlier"
TERMINAL = "terminal"
BUSY_MS = 5
"""A call does not wait longer for other processes; its counts are written with the next one."""
READER_BUSY_MS = 2_000
OPEN_SESSIONS_MAX = 100
"""Sessions whose files are remembered, the last used ones."""
FILES_MAX = 5_000
"""Files that a session has been shown; beyond it nothing more is claimed for the session."""
ADVICE = database.StorageAdvice(
    "the counts of `ctx gain`",
    busy="Run it again in a moment.",
    full="Free some space, then run it again.",
    closed="Give this user permission to write there, or set CTX_DATA_FOLDER to another folder.",
    damaged="Delete it: only the counts are lost.",
)

_SCHEMA = f"""
CREATE TABLE session(
    name TEXT PRIMARY KEY, workspace TEXT NOT NULL, folder TEXT NOT NULL, began REAL NOT NULL, ended REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE used(
    session TEXT, tool TEXT, calls INT NOT NULL, failed INT NOT NULL, shown INT NOT NULL, estimate INT NOT NULL,
    PRIMARY KEY(session, tool)
) WITHOUT ROWID;
PRAGMA user_version = {SCHEMA_VERSION};
"""
_PUT_SESSION = (
    "INSERT INTO session VALUES (?, ?, ?, ?, ?) ON CONFLICT(name) DO UPDATE SET ended = max(ended, excluded.ended)"
)
_ADD_COUNTS = (
    "INSERT INTO used VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(session, tool) DO UPDATE SET"
    " calls = calls + excluded.calls, failed = failed + excluded.failed,"
    " shown = shown + excluded.shown, estimate = estimate + excluded.estimate"
)
_COUNTS_OF = "SELECT tool, calls, failed, shown, estimate FROM used WHERE session = ?"
_SESSIONS = "SELECT * FROM session ORDER BY name = 'earlier', ended DESC, name"
_OLDEST = (
    "SELECT name, began, ended FROM session WHERE name <> ? ORDER BY ended, name"
    " LIMIT max(0, (SELECT count(*) FROM session WHERE name <> ?) - ?)"
)


@dataclass(frozen=True, slots=True)
class GainCounts:
    """Calls, those that failed, the characters of the replies, and those of the estimate for the same by reading."""

    calls: int = 0
    failed: int = 0
    shown: int = 0
    estimate: int = 0

    @property
    def saved(self) -> int:
        """Characters saved; negative where the replies cost more than the estimate."""
        return self.estimate - self.shown

    def plus(self, other: GainCounts) -> GainCounts:
        """Return the sum."""
        return GainCounts(
            self.calls + other.calls,
            self.failed + other.failed,
            self.shown + other.shown,
            self.estimate + other.estimate,
        )


@dataclass(frozen=True, slots=True)
class GainSession:
    """A session: the id and folder name of its workspace, its first and last call (s since 1970), counts by tool."""

    name: str
    workspace: str
    folder: str
    began: float
    ended: float
    tools: Mapping[str, GainCounts] = field(default_factory=dict)

    @property
    def total(self) -> GainCounts:
        """The counts of all its tools."""
        return add_counts(self.tools.values())


def add_counts(counts: Iterable[GainCounts]) -> GainCounts:
    """Return the sum of counts."""
    total = GainCounts()
    for one in counts:
        total = total.plus(one)
    return total


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
        self._waiting: dict[tuple[str, str], tuple[GainSession, GainCounts]] = {}
        self._calls: deque[RecordedCall] = deque(maxlen=CALLS_MAX)
        self._shown: dict[str, set[str]] = {}
        self._database = database.DatabaseHandle()

    def note_engine(self, project: str, engine: Engine) -> None:
        """Remember which engine answers for a project, without keeping it alive."""
        self._engines[project], self._newest = engine, project

    def record(
        self,
        project: str,
        session: str,
        tool: str,
        reply: Reply,
        facts: CallFacts = CallFacts(),
    ) -> None:
        """Count a call of a client; an empty `session` is one at the terminal. Never fails."""
        if not self._enabled or self.problem:
            return
        try:
            engine = self._engines.get(project) or self._engines.get(self._newest)
            if engine is not None and engine.settings.gain:
                with self._lock:
                    self._record(engine, session, tool, reply, facts)
        except Exception as error:  # noqa: BLE001 - statistics must not fail the call that they count
            self.problem = f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            self._database.close()

    def _record(self, engine: Engine, client: str, tool: str, reply: Reply, facts: CallFacts) -> None:
        now = self._clock()
        workspace = workspace_id(engine.root)
        if client:
            kind = f"{client}-{self._process}"
        else:
            kind = time.strftime(f"{TERMINAL}-%Y-%m-%d", time.localtime(now))
        session = GainSession(f"{kind}-{workspace}", workspace, engine.root.name, now, now)
        estimate = self._estimate(engine, session.name if client else "", tool, reply)
        counts = GainCounts(1, int(reply.is_error), len(reply.text), estimate)
        first, before = self._waiting.get((session.name, tool), (session, GainCounts()))
        self._waiting[session.name, tool] = replace(first, ended=now), before.plus(counts)
        call = RecordedCall(
            *(now, facts.client or (TERMINAL if not client else ""), session.name, workspace, session.folder, tool),
            *(round(facts.took_ms, 1), facts.error, counts.shown, counts.estimate),
        )
        self._write(gain_file(engine.settings), call, facts, reply)

    def _estimate(self, engine: Engine, session: str, tool: str, reply: Reply) -> int:
        """Return the characters that the same would have cost by reading files (`gain_estimate.GAIN_RULE`)."""
        if reply.is_error:
            return 0
        if tool not in CLAIMING_TOOLS or not session:
            return len(reply.text)
        seen = self._shown[session] = self._shown.pop(session, set())
        if len(self._shown) > OPEN_SESSIONS_MAX:
            del self._shown[next(iter(self._shown))]
        snapshot = engine.index.live.snapshot()
        if snapshot is None or len(seen) > FILES_MAX:
            return 0
        numbers = {path: snapshot.by_path.get(path) for path in find_shown_files(reply.text) if path not in seen}
        sizes = snapshot.file_column("size")
        seen.update(numbers)
        return sum(min(int(sizes[number]), FILE_CHARS_MAX) for number in numbers.values() if number is not None)

    def _write(self, file: Path, call: RecordedCall, facts: CallFacts, reply: Reply) -> None:
        """Write what waits in one transaction; while another process is writing, it waits for the next call."""
        self._calls.append(call)
        try:
            db = self._database.open(file, lambda: _connect(file))
            is_viewed = has_viewer(db, call.at)
            if is_viewed:
                asked, got = shorten_arguments(facts.arguments), shorten_text(reply.text)
                self._calls[-1] = replace(call, asked=asked, got=got)
            with transaction(db):
                for (name, tool), (session, counts) in self._waiting.items():
                    db.execute(_PUT_SESSION, (name, session.workspace, session.folder, session.began, session.ended))
                    db.execute(_ADD_COUNTS, (name, tool, *astuple(counts)))
                _fold_oldest(db)
                insert_calls(db, self._calls, is_viewed=is_viewed)
        except apsw.BusyError:
            return
        self._waiting.clear()
        self._calls.clear()


# -- reading and deleting ---------------------------------------------------------------------------------------------


def gain_file(settings: Settings) -> Path:
    """Return where the counts are stored."""
    return (settings.data_folder or user_data_folder()) / FILE_NAME


def read_sessions(file: Path) -> list[GainSession]:
    """Return all sessions, the newest first; those that were folded come last, under the name `EARLIER`.

    Raises: StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
    """
    if not database.read_inode(file):
        return []
    with database.translate_errors(file, ADVICE), closing(_connect(file)) as db:
        db.set_busy_timeout(READER_BUSY_MS)
        counts: dict[str, dict[str, GainCounts]] = {}
        used: list[tuple[Any, ...]] = db.execute("SELECT * FROM used ORDER BY session, tool").fetchall()
        for name, tool, *numbers in used:
            counts.setdefault(name, {})[tool] = GainCounts(*numbers)
        rows: list[tuple[Any, ...]] = db.execute(_SESSIONS).fetchall()
    return [GainSession(*row, counts.get(row[0], {})) for row in rows]


def open_activity(settings: Settings) -> ActivityReader:
    """Return a view on the calls of all clients, for one page."""

    def connect() -> apsw.Connection:
        db = _connect(gain_file(settings))
        db.set_busy_timeout(READER_BUSY_MS)
        return db

    return ActivityReader(connect)


def delete_counts(file: Path) -> None:
    """Delete all counts, also from the free pages of the file. Processes that have it open go on counting.

    Raises: StorageCorrupt, StorageBusy, WriteFailed, DiskFull.
    """
    if database.read_inode(file):
        with database.translate_errors(file, ADVICE), closing(_connect(file)) as db:
            db.set_busy_timeout(READER_BUSY_MS)
            db.execute("PRAGMA secure_delete = ON; DELETE FROM used; DELETE FROM session; DELETE FROM call").fetchall()
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _connect(file: Path) -> apsw.Connection:
    """Open the file, or make it. Raises: apsw.Error, OSError, HostError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if is_network_drive(file.parent):
        raise database.write_failed_error(file, ADVICE, "it is on a network drive, where each call would wait")
    db = database.open_in_cache(file, busy_ms=BUSY_MS, settings="PRAGMA synchronous = NORMAL")
    try:
        with transaction(db):
            found = db.pragma("user_version")
            if not found:
                db.execute(_SCHEMA)
            if found in (0, SCHEMA_VERSION):  # files of version 0.2 have no calls, and its processes do not need them
                db.execute(SCHEMA)
        if found not in (0, SCHEMA_VERSION):
            raise database.newer_format_error(file, ADVICE, int(found), SCHEMA_VERSION)
    except BaseException:
        db.close()
        raise
    return db


def _fold_oldest(db: apsw.Connection) -> None:
    """Add the sessions beyond `SESSIONS_MAX` up into one, inside a transaction."""
    for name, began, ended in db.execute(_OLDEST, (EARLIER, EARLIER, SESSIONS_MAX)).fetchall():
        db.execute(_PUT_SESSION, (EARLIER, "", "", began, ended))
        for tool, *counts in db.execute(_COUNTS_OF, (name,)).fetchall():
            db.execute(_ADD_COUNTS, (EARLIER, tool, *counts))
        db.execute("DELETE FROM used WHERE session = ?", (name,))
        db.execute("DELETE FROM session WHERE name = ?", (name,))
