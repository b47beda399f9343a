"""The journal of edits, so that they can be undone, redone, and repaired after a crash: one SQLite file per workspace.

    journal.db      in `<workspace>/.context-engine/`, next to the files that it can restore

An entry is what one call changed, in one file or many. It is written before the first of them: as long as its state is
`open`, it is unknown how far its writer came. A turn is an entry that undoes or redoes another one. When it is
finished, the other entry gets its contents, and the turn is deleted. Only the newest entries are kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from context_engine.edit.delta import ByteChange, Delta
from context_engine.storage import database

NAME = "journal.db"
SCHEMA_VERSION = 1
OPS_MAX = 500
BYTES_MAX = 64 * 1024 * 1024
"""The journal keeps so many changed files, and so many packed bytes of them; its newest entry always."""
UNPACKED_BYTES_MAX = 128 * 1024 * 1024
"""A file that is edited has at most 32 MiB, and its change holds parts of both versions."""
ENTRY_BYTES_MAX = 256 * 1024 * 1024
"""One entry may unpack to so much,"""
RATIO_MAX = 64
"""or to so many times what it takes in the file: text packs 3 to 10 times smaller, a bomb of zeros a thousand times."""

KEPT = database.StorageAdvice(
    "the journal of edits",
    busy="Call again in a moment; nothing was written.",
    full="Free some space, then call again; nothing was written.",
    closed="Give this user permission to write there: what cannot be recorded could not be undone."
    " Nothing was written.",
    damaged="Move it away: it holds nothing but what can be undone. The files themselves are not touched.",
)

State = Literal["open", "done", "undone"]

_SCHEMA = """
CREATE TABLE entry(
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, session TEXT NOT NULL, state TEXT NOT NULL,
    turns INTEGER NOT NULL, turned INTEGER NOT NULL);
CREATE TABLE op(
    entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE, path TEXT NOT NULL, before TEXT NOT NULL,
    after TEXT NOT NULL, mode INTEGER, delta BLOB NOT NULL, image BLOB, temp TEXT NOT NULL, folders TEXT NOT NULL);
CREATE INDEX op_of_entry ON op(entry);
"""


@dataclass(frozen=True, slots=True)
class Op:
    """One changed file. `before` and `after` are the SHA-256 of its content in hex; empty where there is no file.

    `temp` is the staged file next to it until it is renamed onto it, `image` the old content while the file is
    overwritten in place, `folders` those that were made for it. `mode` are the permissions to restore it with.
    """

    path: str
    before: str
    after: str
    delta: Delta
    mode: int | None = None
    image: bytes | None = None
    temp: str = ""
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What one call changed.

    `turns` is the entry that it undoes or redoes, 0 for an edit; `at` are seconds since 1970. The files on the disk are
    as the ops say in `after`, also when the entry was undone: turning it back makes them as in `before`.
    """

    id: int
    at: float
    session: str
    state: State
    turns: int
    ops: tuple[Op, ...]

    @property
    def undo_id(self) -> str:
        """The number by which a caller names it."""
        return str(self.id)

    @property
    def is_undone(self) -> bool:
        """Whether it can be redone, not undone."""
        return self.state == "undone"

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Each path, and what the call did with it: "created", "edited" or "deleted"."""
        return tuple((op.path, _describe(*self.sides(op))) for op in self.ops)

    def sides(self, op: Op) -> tuple[str, str]:
        """Return the hashes of a file before and after the call, also when it was undone since."""
        return (op.after, op.before) if self.is_undone else (op.before, op.after)


def _describe(before: str, after: str) -> str:
    if not before:
        return "created"
    return "edited" if after else "deleted"


class Journal:
    """The journal of one workspace. Thread-safe; any number of processes may hold one on the same folder.

    `flush=False` gives up on surviving a power cut, for a workspace that can be had again.
    """

    def __init__(self, folder: Path, *, flush: bool = True) -> None:
        """Take the folder; nothing is opened or created until it is needed."""
        self._flush = flush
        self._database = database.StateDatabase(
            folder,
            NAME,
            _SCHEMA,
            version=SCHEMA_VERSION,
            settings="PRAGMA secure_delete = FAST; PRAGMA foreign_keys = ON",
            advice=KEPT,
        )

    def close(self) -> None:
        """Close the file; the journal can be used again afterwards."""
        self._database.close()

    # -- what was done --

    def entry(self, number: int) -> JournalEntry | None:
        """Return one entry; None when it was never made, taken back, or deleted as too old."""
        return next(iter(self._entries("id = ?", (number,))), None)

    def entries(self, limit: int) -> list[JournalEntry]:
        """Return what was done and undone, newest first, without contents.

        Raises: StorageCorrupt, also when the file was emptied.
        """
        self._check_not_emptied()
        found = self._entries("state != 'open' ORDER BY id DESC LIMIT ?", (limit,), has_contents=False)
        if not found:
            self._check_sound()
        return found

    def newest(self, wanted: State, session: str = "") -> JournalEntry | None:
        """Return what would be undone (`done`) or redone (`undone`) next.

        Only of this session, if it ever changed anything.
        """
        self._check_not_emptied()
        mine = bool(session) and bool(self._ask("SELECT 1 FROM entry WHERE session = ? LIMIT 1", (session,)))
        order = "id" if wanted == "done" else "turned"
        found = self._entries(
            f"state = ? AND (session = ? OR NOT ?) ORDER BY {order} DESC LIMIT 1", (wanted, session, mine)
        )
        if not found and not self._ask("SELECT 1 FROM entry LIMIT 1"):
            self._check_sound()
        return next(iter(found), None)

    def find_unfinished(self, paths: Iterable[str] | None = None) -> list[JournalEntry]:
        """Return entries that are still open, so that their writer is at work or dead.

        Only those on `paths`; without contents.
        """
        found = self._entries("state = 'open' ORDER BY id", has_contents=False)
        wanted = None if paths is None else set(paths)
        return [entry for entry in found if wanted is None or any(op.path in wanted for op in entry.ops)]

    # -- doing --

    def begin(self, ops: Sequence[Op], *, at: float, session: str = "", turns: int = 0, flush: bool = True) -> int:
        """Record what is about to be written; return its number. `flush`: a power cut must not lose the record.

        Raises: WriteFailed, DiskFull, StorageBusy, StorageCorrupt.
        """
        with self._writing(flush=flush) as db:
            db.execute("INSERT INTO entry VALUES (NULL, ?, ?, 'open', ?, 0)", (at, session, turns))
            number = db.last_insert_rowid()
            _put(db, number, ops)
            return number

    def finish(self, number: int) -> None:
        """Record that everything has been written. Raises: as `begin`."""
        with self._writing() as db:
            begun = next(iter(_read(db, "id = ? AND state = 'open'", (number,), has_contents=False)), None)
            if begun is None:  # another process took it for dead, and mended it
                return
            if begun.turns:
                _turn(db, begun)
            else:
                db.execute("UPDATE entry SET state = 'done' WHERE id = ?", (number,))
                db.execute("UPDATE op SET image = NULL, temp = '' WHERE entry = ?", (number,))
                _drop_undone(db, number)
            _drop_oldest(db)

    def abort(self, number: int) -> None:
        """Record that nothing of an entry was written, or all of it was taken back. Raises: as `begin`."""
        with self._writing() as db:
            db.execute("DELETE FROM entry WHERE id = ? AND state = 'open'", (number,))

    # -- the database --

    def _check_not_emptied(self) -> None:
        """Refuse an emptied file, which is not a journal without edits; the next edit makes it a journal again."""
        if self._database.is_emptied():
            why = "it is empty, so what was edited before cannot be undone"
            raise database.corrupt_error(self._database.path, KEPT, why)

    def _check_sound(self) -> None:
        """Refuse a journal whose entries cannot be found, which is not one without entries.

        Only empty journals are checked, so it is cheap.
        """
        wrong = [row for row in self._ask("PRAGMA quick_check") if row != ("ok",)]
        wrong = wrong or self._ask("PRAGMA foreign_key_check")
        if wrong:
            raise database.corrupt_error(
                self._database.path, KEPT, f"it shows no edit, and is not sound: {wrong[0][0]}"
            )

    def _entries(self, where: str, values: tuple[Any, ...] = (), *, has_contents: bool = True) -> list[JournalEntry]:
        """Return entries; their contents need only be unpacked where they are written back."""
        with self._database.reading() as db:
            return [] if db is None else _read(db, where, values, has_contents=has_contents)

    def _ask(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._database.reading() as db:
            return [] if db is None else db.execute(sql, values).fetchall()

    def _writing(self, *, flush: bool = False) -> AbstractContextManager[apsw.Connection]:
        level = "OFF"
        if self._flush:
            level = "FULL" if flush else "NORMAL"
        return self._database.writing(f"PRAGMA synchronous = {level}")


def _read(
    db: apsw.Connection, where: str, values: tuple[Any, ...] = (), *, has_contents: bool = True
) -> list[JournalEntry]:
    heads = f"SELECT id, at, session, state, turns FROM entry WHERE {where}"  # noqa: S608 - written in this file
    ops = _contents if has_contents else _outline
    found = [JournalEntry(*head, ops(db, head[0])) for head in db.execute(heads, values)]
    if without := [entry.id for entry in found if not entry.ops]:
        raise apsw.CorruptError(f"edit {without[0]} names no file")
    return found


def _outline(db: apsw.Connection, entry: int) -> tuple[Op, ...]:
    rows = db.execute("SELECT path, before, after, mode FROM op WHERE entry = ? ORDER BY rowid", (entry,))
    return tuple(Op(path, before, after, (), mode) for path, before, after, mode in rows)


def _contents(db: apsw.Connection, entry: int) -> tuple[Op, ...]:
    """Return the files of an entry with their changes. Raises: zlib.error for data that no edit has written."""
    packed = "SELECT sum(length(delta) + length(coalesce(image, ''))) FROM op WHERE entry = ?"
    left = max(ENTRY_BYTES_MAX, RATIO_MAX * int(db.execute(packed, (entry,)).fetchall()[0][0] or 0))
    ops = "SELECT path, before, after, mode, delta, image, temp, folders FROM op WHERE entry = ? ORDER BY rowid"
    found: list[Op] = []
    for path, before, after, mode, delta, image, temp, folders in db.execute(ops, (entry,)):
        data = database.decompress(delta, min(max(left, 1), UNPACKED_BYTES_MAX))
        left -= len(data)
        old = None if image is None else database.decompress(image, min(max(left, 1), UNPACKED_BYTES_MAX))
        left -= len(old or b"")
        pieces = msgspec.msgpack.decode(data, type=list[tuple[int, bytes, bytes]])
        found.append(
            Op(
                *(path, before, after, tuple(ByteChange(*piece) for piece in pieces), mode, old, temp),
                folders=tuple(filter(None, folders.split("\0"))),
            )
        )
    return tuple(found)


def _put(db: apsw.Connection, number: int, ops: Iterable[Op]) -> None:
    rows = [
        (
            *(number, op.path, op.before, op.after, op.mode, zlib.compress(msgspec.msgpack.encode(op.delta), 1)),
            *(None if op.image is None else zlib.compress(op.image, 1), op.temp, "\0".join(op.folders)),
        )
        for op in ops
    ]
    db.executemany("INSERT INTO op VALUES (?,?,?,?,?,?,?,?,?)", rows)


def _turn(db: apsw.Connection, turn: JournalEntry) -> None:
    """Give the other entry what it takes to turn it back, and delete the turn."""
    flipped = "UPDATE entry SET state = iif(state = 'done', 'undone', 'done'), turned = ? WHERE id = ?"
    db.execute(flipped, (turn.id, turn.turns))
    if db.changes():
        db.execute("DELETE FROM op WHERE entry = ?", (turn.turns,))
        db.execute("UPDATE op SET entry = ?, image = NULL, temp = '' WHERE entry = ?", (turn.turns, turn.id))
    db.execute("DELETE FROM entry WHERE id = ?", (turn.id,))


def _drop_undone(db: apsw.Connection, number: int) -> None:
    """Delete the undone entries that an entry makes impossible: they change one of its files.

    A later undone entry was made on top of an earlier one that shares a file with it, and goes with it.
    """
    db.execute(
        """
        WITH RECURSIVE dropped(id) AS (
            VALUES (?)
            UNION
            SELECT theirs.entry FROM dropped
            JOIN op AS own ON own.entry = dropped.id
            JOIN op AS theirs ON theirs.path = own.path
            JOIN entry ON entry.id = theirs.entry
            WHERE entry.state = 'undone' AND (dropped.id = ? OR theirs.entry > dropped.id)
        )
        DELETE FROM entry WHERE state = 'undone' AND id IN dropped
        """,
        (number, number),
    )


def _drop_oldest(db: apsw.Connection) -> None:
    """Delete the oldest entries beyond the limits of the journal; its newest entry always stays."""
    limits = (OPS_MAX, BYTES_MAX)
    is_full = db.execute("SELECT count(*) > ? OR sum(length(delta)) > ? FROM op", limits).fetchall() == [(1,)]
    if is_full:  # hardly ever, and much cheaper than the totals by entry
        db.execute(
            """
            WITH total(entry, ops, bytes) AS (
                SELECT entry, sum(count(*)) OVER newer, sum(sum(length(delta))) OVER newer
                FROM op JOIN entry ON entry.id = op.entry WHERE state != 'open'
                GROUP BY entry WINDOW newer AS (ORDER BY entry DESC)
            )
            DELETE FROM entry WHERE id IN (
                SELECT entry FROM total WHERE (ops > ? OR bytes > ?) AND entry < (SELECT max(entry) FROM total))
            """,
            limits,
        )
