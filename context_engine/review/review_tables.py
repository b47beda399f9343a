"""The rows of review sessions, and their tables: a session is cut into units, and each unit has its findings.

The bodies are not interpreted here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any, NamedTuple

import apsw

SCHEMA_VERSION = 2
"""Version 2 numbers findings within their session, the same on all machines; version 1 had one count for all."""
FIRST = ("session", "unit", "log", "body", "cache", "kept")
"""The tables of every version."""
SESSIONS_MAX = 100
"""Older ones are deleted, except running ones: a review of last month is better repeated."""

_FINDING = """
CREATE TABLE finding(
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, number INT NOT NULL, unit INT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY(session, number)) WITHOUT ROWID;"""
_TEAM = """
CREATE TABLE team(mark TEXT PRIMARY KEY, revision INT NOT NULL) WITHOUT ROWID;
CREATE TABLE shared(mark TEXT, path TEXT, sha TEXT NOT NULL, PRIMARY KEY(mark, path)) WITHOUT ROWID;"""
_SCHEMA = f"""
CREATE TABLE session(
    id TEXT PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL, lease_until REAL NOT NULL,
    created_at REAL NOT NULL, updated_at REAL NOT NULL, workers INT NOT NULL, request BLOB NOT NULL,
    outcome BLOB NOT NULL, error TEXT NOT NULL);
CREATE INDEX session_of_key ON session(key);
CREATE TABLE unit(
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, number INT NOT NULL, paths TEXT NOT NULL,
    cost INT NOT NULL, state TEXT NOT NULL, tries INT NOT NULL, owner TEXT NOT NULL, queued_at REAL NOT NULL,
    began_at REAL NOT NULL,
    ended_at REAL NOT NULL, figures BLOB NOT NULL, error TEXT NOT NULL, PRIMARY KEY(session, number)) WITHOUT ROWID;
CREATE TABLE log(
    id INTEGER PRIMARY KEY, session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, unit INT NOT NULL,
    at REAL NOT NULL, owner TEXT NOT NULL, event TEXT NOT NULL);
CREATE INDEX log_of_session ON log(session);
{_FINDING}
CREATE TABLE body(
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, path TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY(session, path)) WITHOUT ROWID;
CREATE TABLE cache(key TEXT PRIMARY KEY, used_at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE kept(id TEXT PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
{_TEAM}
PRAGMA user_version = {SCHEMA_VERSION};
"""
_STEPS = {
    1: f"""
ALTER TABLE finding RENAME TO old;
DROP INDEX finding_of_session;
{_FINDING}
INSERT INTO finding SELECT session, id, 0, body FROM old;
DROP TABLE old;
{_TEAM}
PRAGMA user_version = 2;
"""  # noqa: S608 - our own words
}
"""The SQL that upgrades each version to the next; released steps never change."""


@dataclass(frozen=True, slots=True)
class ReviewSession:
    """One review of one change; two with the same `key` are the same review. Times are seconds since 1970.

    `owner` is the process that runs it, until its lease ends; `request` and `outcome` are JSON.
    """

    id: str
    key: str
    status: str
    owner: str
    lease_until: float
    created_at: float
    updated_at: float
    workers: int
    request: bytes
    outcome: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReviewUnit:
    """Files that are reviewed together. `state` is queued, running, done or failed; `figures` are JSON."""

    number: int
    paths: tuple[str, ...]
    cost: int
    state: str = "queued"
    tries: int = 0
    owner: str = ""
    queued_at: float = 0.0
    began_at: float = 0.0
    ended_at: float = 0.0
    figures: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True)
class UnitCheckpoint:
    """The result of a unit: a body for each path, findings, new cache entries, and the keys of used ones."""

    bodies: Mapping[str, bytes]
    findings: Sequence[bytes] = ()
    cache: Mapping[str, bytes] = field(default_factory=dict)
    used: Collection[str] = ()
    figures: bytes = b""


class UnitEvent(NamedTuple):
    """One line of the log: what happened to a unit, when, and its owner."""

    unit: int
    at: float
    owner: str
    event: str  # taken, done, failed, again, given back, lost


UNIT_COLUMNS = ", ".join(column.name for column in fields(ReviewUnit))
INSERT_SESSION = "INSERT INTO session VALUES (?,?,?,?,?,?,?,?,?,?,?)"
INSERT_FINDING = "INSERT INTO finding SELECT ?, coalesce(max(number), 0) + 1, ?, ? FROM finding WHERE session = ?"
INSERT_UNIT = "INSERT OR REPLACE INTO unit VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
UPDATE_SESSION = (
    f"UPDATE session SET {', '.join(f'{column.name} = ?' for column in fields(ReviewSession)[2:])} WHERE id = ?"  # noqa: S608 - our own names
)
NEXT_UNIT = f"""
SELECT {", ".join(f"unit.{column.name}" for column in fields(ReviewUnit))}
FROM unit JOIN session ON session.id = unit.session
WHERE session.id = ? AND session.owner = ? AND session.status = 'running' AND unit.state = 'queued'
ORDER BY number LIMIT 1"""  # noqa: S608 - our own names
_DROP_OLD_SESSIONS = """
DELETE FROM session WHERE status NOT IN ('running', 'pausing')
AND id NOT IN (SELECT id FROM session ORDER BY created_at DESC LIMIT ?)"""


def unit_values(unit: ReviewUnit) -> tuple[Any, ...]:
    """Return a unit as a row, without the session."""
    values = list(astuple(unit))
    values[1] = "\0".join(unit.paths)
    return tuple(values)


def unit_of(row: Sequence[Any]) -> ReviewUnit:
    """Return the unit of a row."""
    number, paths, *rest = row
    return ReviewUnit(number, tuple(paths.split("\0")), *rest)


def put_unit(db: apsw.Connection, session_id: str, unit: ReviewUnit, at: float, event: str, *, owner: str = "") -> None:
    """Replace a unit, and add the reason to the log."""
    db.execute(INSERT_UNIT, (session_id, *unit_values(unit)))
    db.execute(
        "INSERT INTO log VALUES (NULL, ?, ?, ?, ?, ?)", (session_id, unit.number, at, owner or unit.owner, event)
    )


def is_taken_by(db: apsw.Connection, session_id: str, unit: ReviewUnit) -> bool:
    """Whether a unit still belongs to its taker, in the same try."""
    sql = "SELECT 1 FROM unit WHERE session = ? AND number = ? AND state = 'running' AND owner = ? AND tries = ?"
    return bool(rows(db, sql, (session_id, unit.number, unit.owner, unit.tries)))


def requeue(db: apsw.Connection, session_id: str, states: Collection[str], at: float) -> None:
    """Queue units again whose owner is gone, that failed, or that took too long."""
    sql = f"SELECT {UNIT_COLUMNS} FROM unit WHERE session = ? AND state IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own names
    for row in rows(db, sql, (session_id, json.dumps(sorted(states)))):
        unit = unit_of(row)
        event = "lost" if unit.state == "running" else "again"
        queued = replace(unit, state="queued", owner="", queued_at=at)
        put_unit(db, session_id, queued, at, event, owner=unit.owner)


def drop_old_sessions(db: apsw.Connection) -> None:
    """Delete all but the newest sessions."""
    db.execute(_DROP_OLD_SESSIONS, (SESSIONS_MAX,))


def create_tables(db: apsw.Connection) -> int:
    """Create the tables, or upgrade older ones, and return the version that was found; a newer one stays."""
    db.execute("BEGIN IMMEDIATE")
    found = int(str(db.pragma("user_version")))
    for script in [_STEPS[version] for version in range(found, SCHEMA_VERSION)] if found else [_SCHEMA]:
        db.execute(script)
    db.execute("COMMIT")
    return found


def rows(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return db.execute(sql, values).fetchall()
