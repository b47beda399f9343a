"""The syntax trees of files, each read once: kept in memory by path, and on this machine by the hash of the text.

The trees that a question parsed are stored after a moment. A process that follows edits also parses the other files,
in a thread that rests as long as it works, so that the first question about a name finds the trees of its files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import apsw

from context_engine.languages import (
    CompactTree,
    GrammarNames,
    Grammars,
    Language,
    Languages,
    SyntaxFile,
    prepare_source,
    read_syntax,
)
from context_engine.storage import CacheDatabase, transaction

# -- tree store --------------------------------------------------------------------------------------------------------

# Packed syntax trees on this machine by the hash of their text, so that no process parses a file that was parsed.
#
#     trees/trees.db    in the cache of the workspace: (key, packed, used)
#
# Everything in it can be made again from the files. A damaged tree is parsed again, and a database that is damaged or
# of another release is replaced by an empty one. A problem of the disk makes answers slower, never wrong.

FILE = "trees.db"
BUSY_MS = 250
"""A reader never waits for a writer; a writer that waits for longer gives up, since the tree can be made again."""
SCHEMA_VERSION = 1
KEPT_SHARE = 0.8
"""The share of the allowed bytes that is kept when there were more: the trees that were used last."""
DAY_S = 86_400
"""How exactly the last use is known; each day a tree that is used is written once more."""

Result = TypeVar("Result")

_TABLES = "CREATE TABLE tree(key BLOB PRIMARY KEY, packed BLOB NOT NULL, used INT NOT NULL)"


class TreeStore:
    """The packed trees of one workspace. Thread-safe; any number of processes may use the same folder.

    `bytes_max` returns how many bytes of trees may be kept. `clock` is in seconds since 1970.
    """

    def __init__(self, folder: Path, bytes_max: Callable[[], int], *, clock: Callable[[], float] = time.time) -> None:
        """Open and create nothing before the first use."""
        self._database = CacheDatabase(
            folder / FILE, _TABLES, version=SCHEMA_VERSION, busy_ms=BUSY_MS, settings="PRAGMA synchronous = OFF"
        )
        self._bytes_max = bytes_max
        self._clock = clock
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        """Return a packed tree; None if it is not stored."""
        rows = self._run(lambda db: db.execute("SELECT packed FROM tree WHERE key = ?", (key,)).fetchall(), make=False)
        packed = rows[0][0] if rows else None
        return packed if isinstance(packed, bytes) else None

    def find_missing(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return those keys that are not stored."""
        rows = self._run(lambda db: db.execute("SELECT key FROM tree").fetchall(), make=False)
        known = {key for (key,) in rows or ()}
        return [key for key in keys if key not in known]

    def put(self, trees: Mapping[bytes, bytes], used: Iterable[bytes] = ()) -> bool:
        """Store packed trees, and note that others were used; return whether it was done."""
        today = int(self._clock() / DAY_S)
        rows = [(*row, today) for row in trees.items()]
        noted = [(today, key, today) for key in used]

        def write(db: apsw.Connection) -> bool:
            with transaction(db):
                db.executemany("INSERT OR REPLACE INTO tree VALUES (?, ?, ?)", rows)
                db.executemany("UPDATE tree SET used = ? WHERE key = ? AND used < ?", noted)
                self._drop_oldest(db)
            return True

        return self._run(write, make=True) is not None

    def clear(self) -> None:
        """Delete all trees."""
        with self._lock, suppress(OSError):
            self._database.discard()

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        with self._lock:
            self._database.close()

    def _drop_oldest(self, db: apsw.Connection) -> None:
        allowed = self._bytes_max()
        rows = db.execute("SELECT key, length(packed) FROM tree ORDER BY used, key").fetchall()
        sizes = {key: int(str(size)) for key, size in rows}
        kept = sum(sizes.values())
        if kept > allowed:
            for key, size in sizes.items():
                if kept <= allowed * KEPT_SHARE:
                    return
                db.execute("DELETE FROM tree WHERE key = ?", (key,))
                kept -= size

    def _run(self, work: Callable[[apsw.Connection], Result], *, make: bool) -> Result | None:
        """Return what some work with the database returns; None if there is none, or the disk refuses it."""
        with self._lock, suppress(apsw.Error, OSError):
            if make or self._database.is_created:
                return self._database.run(work)
        return None


# -- syntax cache ------------------------------------------------------------------------------------------------------

KEPT_BYTES_MAX = 24_000_000
"""Source text whose trees are in memory; a tree takes about five times the bytes of its text."""
KEY_BYTES = 16
WAITING_MAX = 400
"""Trees in memory that are not yet stored; more are stored at once."""
WRITE_S = 1.0
"""So long after a question its trees are stored."""
ROUND_FILES = 32
"""After so many files the thread rests as long as they took, so that answers come first."""
LATE_S = 5.0
"""How long an end of the process waits for what is not stored yet."""

Read = Callable[[str], bytes | None]


class SyntaxCache:
    """The trees of one workspace. Thread-safe. Without a `store` they are only kept in memory."""

    def __init__(
        self,
        languages: Languages,
        grammars: Grammars,
        store: TreeStore | None = None,
        read: Read | None = None,
    ) -> None:
        """`read` returns the current UTF-8 bytes of a file; without it `fill` finds nothing."""
        self._languages = languages
        self._grammars = grammars
        self._store = store
        self._read_file = read
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[bytes, SyntaxFile | None]] = {}
        self._kept_bytes = 0
        self._waiting: dict[bytes, CompactTree] = {}
        self._wanted: list[str] = []
        self._used: set[bytes] = set()
        self._thread: threading.Thread | None = None
        self._is_closing = threading.Event()
        self._is_filled = store is None

    def read(self, path: str, content: bytes) -> SyntaxFile | None:
        """Return the tree of a file with some content; None if its language has no rules of resolution."""
        with self._lock:
            before = self._kept.pop(path, None)
            if before is not None:
                self._kept[path] = before  # the last one is the last that was used
                if before[0] is content or before[0] == content:
                    return before[1]
        found = self._load(path, content)
        with self._lock:
            before = self._kept.pop(path, None)
            self._kept_bytes += len(content) - (len(before[0]) if before is not None else 0)
            self._kept[path] = content, found
            while self._kept_bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._kept_bytes -= len(self._kept.pop(oldest)[0])
        return found

    def _load(self, path: str, content: bytes) -> SyntaxFile | None:
        language = self._languages.detect(path, content)
        names = self._find_names(language)
        if language is None or names is None:
            return None
        if self._store is None:
            return read_syntax(path, language, content, self._grammars)
        key, data = make_key(language, names, content)
        with self._lock:
            tree = self._waiting.get(key)
        packed = self._store.get(key) if tree is None else None
        if packed is not None:
            tree = _unpack(packed, names, data)
            self._used.add(key)
        if tree is not None:
            return SyntaxFile(path, language, tree)
        found = read_syntax(path, language, content, self._grammars)
        if found is not None:
            with self._lock:
                self._waiting[key] = found.tree
            if len(self._waiting) >= WAITING_MAX:
                self._write()
            else:
                self._wake()
        return found

    def _find_names(self, language: Language | None) -> GrammarNames | None:
        if language is None or not language.resolution.style:
            return None
        return self._grammars.names(language.grammar or "")

    # -- the store --

    def fill(self, paths: Iterable[str]) -> None:
        """Start to store the trees of all these files, once in the life of the process."""
        if not self._is_filled:
            self._is_filled = True
            self._wanted = list(paths)
            self._wake()

    def close(self) -> None:
        """Store what was parsed, and stop."""
        self._is_closing.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout=LATE_S)
        self._write()
        if self._store is not None:
            self._store.close()

    def clear(self) -> None:
        """Delete what is stored."""
        with self._lock:
            self._waiting = {}
        if self._store is not None:
            self._store.clear()

    def _wake(self) -> None:
        with self._lock:
            is_running = self._thread is not None and self._thread.is_alive()
            if not is_running and not self._is_closing.is_set():
                self._thread = threading.Thread(target=self._work, name="trees", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        """Store what waits, then what `fill` asked for, until there is nothing left."""
        while (self._waiting or self._wanted) and not self._is_closing.wait(WRITE_S):
            self._write()
            began = time.monotonic()
            while self._wanted and not self._waiting and not self._is_closing.wait(time.monotonic() - began):
                began = time.monotonic()
                chosen, self._wanted = self._wanted[:ROUND_FILES], self._wanted[ROUND_FILES:]
                self._fill_round(chosen)

    def _write(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            used, self._used = self._used, set()
        if self._store is not None and (waiting or used):
            self._store.put(_pack_all(waiting), used)

    def _fill_round(self, paths: list[str]) -> None:
        """Store the trees of some files that are not stored yet."""
        if self._store is None or self._read_file is None:
            return
        found: dict[bytes, tuple[str, Language, bytes]] = {}
        for path in paths:
            content = self._read_file(path)
            if not content:
                continue
            language = self._languages.detect(path, content)
            names = self._find_names(language)
            if language is not None and names is not None:
                found[make_key(language, names, content)[0]] = path, language, content
        trees: dict[bytes, CompactTree] = {}
        for key in self._store.find_missing(found):
            file = read_syntax(*found[key], self._grammars)
            if file is not None:
                trees[key] = file.tree
        if trees:
            self._store.put(_pack_all(trees))


def make_key(language: Language, names: GrammarNames, content: bytes) -> tuple[bytes, bytes]:
    """Return the key of the tree of a text, and the text as the parser sees it."""
    data = prepare_source(language, content)
    made = blake2b(data, digest_size=KEY_BYTES, person=names.fingerprint.encode()[:KEY_BYTES])
    return made.digest(), data


def _pack_all(trees: dict[bytes, CompactTree]) -> dict[bytes, bytes]:
    packed: dict[bytes, bytes] = {}
    for key, tree in trees.items():
        try:
            packed[key] = tree.pack()
        except ValueError:  # parsed again each time
            continue
    return packed


def _unpack(packed: bytes, names: GrammarNames, data: bytes) -> CompactTree | None:
    try:
        return CompactTree.unpack(packed, names, data)
    except ValueError:
        return None
