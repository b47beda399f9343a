"""The index of memories and discoveries: words in FTS5 and vectors by text hash, in one SQLite file of the cache.

    page            one source of items - a record, a file of the repository, the history - and the stamp it was read at
    item            one thing that can be found; its payload belongs to its owner
    words           FTS5 over the terms of an item (`text.words`), without the texts
    vector          one row for each text and space

Everything in it is derived, and filled again by the next comparison of stamps. If no file can be written, the index is
in memory until the process ends.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw
import numpy as np
import numpy.typing as npt

from context_engine.embedding import hash_texts
from context_engine.errors import Cancelled, HostError
from context_engine.storage import CacheDatabase, database, transaction
from context_engine.text import expand_words, split_words

SCHEMA_VERSION = 2
"""Increase it when tables, terms or payloads change: an older file is then created again."""
COLUMN_WEIGHTS = (2.0, 1.0, 1.5)
"""Weights of title, body and tags in BM25 (evals/remembering)."""
PAGES_AT_ONCE = 500
"""Pages of one transaction; cancellation is checked between two."""
NEW_TEXTS_MAX = 512
"""Texts embedded at once, so that finished portions are kept."""

KEPT = database.StorageAdvice(
    "the index of what is remembered",
    damaged="Delete it: the memories themselves are files, and it is made from them.",
)

_SCHEMA = """
CREATE TABLE page(id INTEGER PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL, stamp BLOB NOT NULL,
    UNIQUE(source, name));
CREATE TABLE item(id INTEGER PRIMARY KEY AUTOINCREMENT, page INTEGER NOT NULL, payload BLOB NOT NULL,
    text TEXT NOT NULL, digest BLOB NOT NULL);
CREATE INDEX item_of_page ON item(page);
CREATE VIRTUAL TABLE words USING fts5(title, body, tags, content='', contentless_delete=1,
    tokenize='unicode61 remove_diacritics 0');
CREATE TABLE vector(space TEXT NOT NULL, digest BLOB NOT NULL, row BLOB NOT NULL,
    PRIMARY KEY(space, digest)) WITHOUT ROWID
"""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class IndexItem:
    """One thing that is found by its title, body and tags. `payload` is returned unchanged."""

    payload: bytes
    title: str
    body: str
    tags: str = ""

    @property
    def text(self) -> str:
        """The text that is embedded."""
        return self.body if self.title in self.body else f"{self.title}\n{self.body}".strip()


@dataclass(frozen=True, slots=True)
class IndexPage:
    """The items of one source at one stamp, with their numbers and payloads. A number is never reused."""

    stamp: bytes
    items: tuple[tuple[int, bytes], ...]


Pages = Mapping[str, IndexPage]


@dataclass(frozen=True, slots=True)
class TextEmbedder:
    """Makes vectors. `space` names how they are made, and changes with anything that changes a vector.

    It must be quick, a fraction of a millisecond for a text, because an answer waits for it. `texts` raises a HostError
    if it fails.
    """

    space: str
    texts: Callable[[Sequence[str]], npt.NDArray[np.float32]]


class MemoryIndex:
    """The index of one workspace. Thread-safe; any number of processes may open the same file."""

    def __init__(self, path: Path, embedder: TextEmbedder | None = None) -> None:
        """Open nothing until it is needed. Without an embedder, items are found by words alone."""
        self.path = path
        self._embedder = embedder
        self._lock = threading.RLock()
        self._database = CacheDatabase(path, _SCHEMA, version=SCHEMA_VERSION)
        self._spare: apsw.Connection | None = None  # in memory, where no file can be written
        self._pages: dict[str, dict[str, IndexPage]] = {}
        self._seen: tuple[apsw.Connection | None, int] = None, 0
        self._matrix: tuple[Any, npt.NDArray[np.int64], npt.NDArray[np.float32]] | None = None

    def close(self) -> None:
        """Close the file; the index can be used again afterwards."""
        with self._lock:
            self._database.close()
            self._spare, self._seen, self._matrix = None, (None, 0), None

    def pages(self, source: str) -> Pages:
        """Return the pages of a source by name; the same object while nothing changes."""
        with self._lock:
            self._query(self._look)
            return self._pages.get(source, {})

    def refresh(
        self,
        source: str,
        stamps: Mapping[str, bytes],
        read: Callable[[str], Sequence[IndexItem] | None],
        *,
        cancel: threading.Event | None = None,
    ) -> int:
        """Read each page of a source whose stamp has changed, and drop those that are gone; return how many were read.

        `stamps` are all pages by name, each with what changes when its content does; `read` returns None for a page
        that was deleted at this moment. What was done before a cancel stays. Raises: Cancelled, StorageBusy.
        """
        known = self.pages(source)
        changed = [name for name in sorted(stamps) if name not in known or known[name].stamp != stamps[name]]
        self.put(source, {}, [name for name in known if name not in stamps])
        for first in range(0, len(changed), PAGES_AT_ONCE):
            if cancel is not None and cancel.is_set():
                raise Cancelled("looking for discoveries was cancelled", suggestion="Call again; it goes on from here.")
            found = [(name, read(name)) for name in changed[first : first + PAGES_AT_ONCE]]
            self.put(source, {name: (stamps[name], items) for name, items in found if items is not None})
        return len(changed)

    def put(self, source: str, new: Mapping[str, tuple[bytes, Sequence[IndexItem]]], gone: Iterable[str] = ()) -> None:
        """Replace pages, each with its stamp, and drop those that are gone.

        Raises: StorageBusy.
        """
        gone = [*gone]
        if new or gone:
            with self._lock:
                self._query(lambda db: self._put(db, source, new, gone))

    # -- finding --

    def score_words(self, terms: Sequence[str]) -> dict[int, float]:
        """Return the items with any of these terms, each with its BM25 score; greater is better."""
        if not terms:
            return {}
        any_of = " OR ".join(f'"{term}"' for term in terms if '"' not in term)
        sql = f"SELECT rowid, -bm25(words, {', '.join(map(str, COLUMN_WEIGHTS))}) FROM words WHERE words MATCH ?"  # noqa: S608 - numbers of ours
        with self._lock:
            return dict(self._query(lambda db: _fetch_rows(db, sql, (any_of,))))

    def compute_similarity(self, text: str) -> tuple[dict[int, float], str]:
        """Return the cosine of items with a text, without distant ones, and why there are none, if so.

        Missing vectors are made first, once. A failing embedder is a reason, not an error.
        """
        if self._embedder is None:
            return {}, "no embeddings are at hand"
        try:
            return self._score_vectors(self._embedder, text), ""
        except HostError as error:
            return {}, f"embedding failed: {error.message}"

    def rank(self, text: str, terms: Sequence[str], allowed: Container[int]) -> tuple[dict[int, float], str]:
        """Return the relevance of items by words and meaning, and why there was no meaning, if so (`fuse_scores`)."""
        cosines, problem = self.compute_similarity(text)
        return fuse_scores(self.score_words(terms), cosines, allowed), problem

    def embed_missing(self) -> None:
        """Make all missing vectors now, in portions, so that no question waits for them.

        A failing embedder is reported when it is used.
        """
        embedder = self._embedder
        with suppress(HostError):
            while embedder is not None:
                with self._lock:
                    if not self._query(lambda db: _embed_some(db, embedder)):
                        return

    def _score_vectors(self, embedder: TextEmbedder, text: str) -> dict[int, float]:
        with self._lock:
            numbers, matrix = self._query(lambda db: self._vectors(db, embedder))
        if not len(numbers):
            return {}
        wanted = np.asarray(embedder.texts([text])[0], np.float32)
        if matrix.shape[1] != len(wanted):
            return {}
        found = matrix @ (wanted / (np.linalg.norm(wanted) or np.float32(1.0)))
        near = np.flatnonzero(found >= COSINE_MIN)
        return dict(zip(numbers[near].tolist(), found[near].tolist(), strict=True))

    # -- the database --

    def _query(self, ask: Callable[[apsw.Connection], Answer]) -> Answer:
        with database.translate_errors(self.path, KEPT):
            if self._spare is None:
                try:
                    return self._database.run(ask)
                except (OSError, *database.REFUSED):
                    self.close()
                    self._spare = apsw.Connection(":memory:")
                    self._spare.execute(_SCHEMA).fetchall()
            return ask(self._spare)

    def _look(self, db: apsw.Connection) -> None:
        """Read the pages, if another process has changed them, or the database is another one."""
        now = db, db.pragma("data_version")
        if now == self._seen:
            return
        sql = """SELECT source, name, stamp, item.id, payload FROM page
                 LEFT JOIN item ON item.page = page.id ORDER BY item.id"""
        gathered: dict[str, dict[str, tuple[bytes, list[tuple[int, bytes]]]]] = {}
        for source, name, stamp, number, payload in _fetch_rows(db, sql):
            items = gathered.setdefault(source, {}).setdefault(name, (stamp, []))[1]
            if number is not None:
                items.append((number, payload))
        self._pages = {
            source: {name: IndexPage(stamp, tuple(items)) for name, (stamp, items) in pages.items()}
            for source, pages in gathered.items()
        }
        self._seen = now

    def _put(
        self,
        db: apsw.Connection,
        source: str,
        new: Mapping[str, tuple[bytes, Sequence[IndexItem]]],
        gone: Sequence[str],
    ) -> None:
        """Replace pages in one transaction, then in memory."""
        self._look(db)
        put: dict[str, IndexPage] = {}
        with transaction(db):
            for name in (*gone, *new):
                _drop(db, source, name)
            for name, (stamp, items) in new.items():
                put[name] = _insert(db, source, name, stamp, items)
            if gone:
                db.execute("DELETE FROM vector WHERE digest NOT IN (SELECT digest FROM item)")
        left = set(gone)
        kept = {name: page for name, page in self._pages.get(source, {}).items() if name not in left}
        self._pages = self._pages | {source: kept | put}

    def _vectors(
        self, db: apsw.Connection, embedder: TextEmbedder
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return every item and its vector; computed again after any change by this or another process."""
        mark = (db, db.pragma("data_version"), db.total_changes())
        if self._matrix is None or self._matrix[0] != mark:
            while _embed_some(db, embedder):
                pass
            sql = """SELECT item.id, row FROM item JOIN vector ON vector.digest = item.digest
                     WHERE space = ? ORDER BY item.id"""
            rows = _fetch_rows(db, sql, (embedder.space,))
            numbers = np.array([number for number, _ in rows], np.int64)
            matrix = np.frombuffer(b"".join(row for _, row in rows), np.float32).reshape(len(rows), -1 if rows else 0)
            mark = (db, db.pragma("data_version"), db.total_changes())
            self._matrix = mark, numbers, matrix
        return self._matrix[1:]


def _fetch_rows(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    return db.execute(sql, values).fetchall()


def _drop(db: apsw.Connection, source: str, name: str) -> None:
    for (page,) in _fetch_rows(db, "SELECT id FROM page WHERE source = ? AND name = ?", (source, name)):
        db.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM item WHERE page = ?)", (page,))
        db.execute("DELETE FROM item WHERE page = ?", (page,))
        db.execute("DELETE FROM page WHERE id = ?", (page,))


def _insert(db: apsw.Connection, source: str, name: str, stamp: bytes, items: Sequence[IndexItem]) -> IndexPage:
    db.execute("INSERT INTO page VALUES (NULL, ?, ?, ?)", (source, name, stamp))
    page = db.last_insert_rowid()
    numbers: list[int] = []
    for item, digest in zip(items, hash_texts([item.text for item in items]).tolist(), strict=True):
        db.execute("INSERT INTO item VALUES (NULL, ?, ?, ?, ?)", (page, item.payload, item.text, digest))
        numbers.append(db.last_insert_rowid())
        terms = [" ".join(extract_terms(text)) for text in (item.title, item.body, item.tags)]
        db.execute("INSERT INTO words(rowid, title, body, tags) VALUES (?, ?, ?, ?)", (numbers[-1], *terms))
    return IndexPage(stamp, tuple(zip(numbers, (item.payload for item in items), strict=True)))


def extract_terms(text: str) -> list[str]:
    """Return the terms of a text, in order and with repetitions.

    >>> extract_terms("the RetryPolicy of retries")
    ['the', 'retri', 'polici', 'retrypolicy', 'of', 'retri']
    """
    return [term for group in expand_words(split_words(text)) for term in group]


def _embed_some(db: apsw.Connection, embedder: TextEmbedder) -> int:
    """Make some missing vectors, of length 1; return how many texts had none."""
    sql = """SELECT digest, min(text) FROM item
             WHERE digest NOT IN (SELECT digest FROM vector WHERE space = ?) GROUP BY digest LIMIT ?"""
    rows = _fetch_rows(db, sql, (embedder.space, NEW_TEXTS_MAX))
    if rows:
        vectors = np.asarray(embedder.texts([text for _, text in rows]), np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.where(lengths > 0, lengths, np.float32(1.0))
        with transaction(db):
            for (digest, _), vector in zip(rows, vectors, strict=True):
                db.execute("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", (embedder.space, digest, vector.tobytes()))
    return len(rows)


WORDS_WEIGHT = 1.0
MEANING_WEIGHT = 0.6
"""Weight of the best cosine next to the best BM25: 0.3 to 1 do as well (evals/remembering)."""
COSINE_MIN = 0.10
"""From 0.15 on, what only vectors find is lost: recall@5 falls from 0.895 to that of words (evals/remembering)."""
NEAR_MAX = 20
"""Items found by vectors alone; the hundredth nearest is near by chance."""

RELEVANCE_SHARE_MIN = 0.15
"""Share of the best score; below it items share only a common word with the question. 0.25 begins to cost recall
(evals/remembering)."""

HALF_LIVES_DAYS: Mapping[str, float] = {"issue": 180.0, "pattern": 365.0}
"""An issue is fixed or forgotten, a pattern is refactored; rules and decisions hold until they are changed."""
OLD_SHARE_MIN = 0.3
"""Smallest share of a score after aging: a TODO of ten years that is still there is still to be done."""
STALE_SHARE = 0.3
ACCESS_SHARE_MAX = 0.15
"""Largest gain for frequent use, small enough that relevance decides."""


def fuse_scores(
    by_words: Mapping[int, float], by_meaning: Mapping[int, float], allowed: Container[int]
) -> dict[int, float]:
    """Return the relevance of each item found, 0 to 1; the best is 1 if words and vectors agree on it.

    Filters come first: an item that is not `allowed` neither ranks nor sets the scale.
    """
    lexical = {number: score for number, score in by_words.items() if number in allowed and score > 0}
    near = {number: cosine for number, cosine in by_meaning.items() if number in allowed and cosine >= COSINE_MIN}
    alone = heapq.nsmallest(NEAR_MAX, near.keys() - lexical.keys(), key=lambda number: (-near[number], number))
    semantic = {number: near[number] for number in (*(near.keys() & lexical.keys()), *alone)}
    best_word, best_cosine = max(lexical.values(), default=0.0), max(semantic.values(), default=0.0)
    whole = WORDS_WEIGHT * bool(lexical) + MEANING_WEIGHT * bool(semantic)
    scores = {
        number: (
            WORDS_WEIGHT * _share(lexical.get(number, 0.0), best_word)
            + MEANING_WEIGHT * _share(semantic.get(number, 0.0), best_cosine)
        )
        / whole
        for number in lexical.keys() | semantic.keys()
    }
    least = RELEVANCE_SHARE_MIN * max(scores.values(), default=0.0)
    return {number: score for number, score in scores.items() if score >= least}


def take_best(scores: Mapping[int, float], most: int) -> dict[int, float]:
    """Return the greatest scores, ties by number."""
    if len(scores) <= most:
        return dict(scores)
    return {
        number: scores[number] for number in heapq.nsmallest(most, scores, key=lambda number: (-scores[number], number))
    }


def _share(value: float, best: float) -> float:
    return value / best if best else 0.0


def compute_freshness(type: str, *, age_days: float, stale: bool) -> float:  # noqa: A002 - the word of the reply
    """Return the share of a score that is left with age, and when the linked file has changed."""
    half_life = HALF_LIVES_DAYS.get(type)
    decayed = 1.0
    if half_life:
        decayed = 0.5 ** (max(0.0, age_days) / half_life)
    return max(decayed, OLD_SHARE_MIN) * (STALE_SHARE if stale else 1.0)


def compute_score(relevance: float, *, confidence: float, fresh: float, access: float) -> float:
    """Return the score that is shown, 0 to 1. `access` is the share of all items that are used less, 0 to 1."""
    return relevance * confidence * fresh * (1 + ACCESS_SHARE_MAX * access) / (1 + ACCESS_SHARE_MAX)
