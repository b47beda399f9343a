"""Commits on disk: one file for each repository, packed columns with a checksum, replaced as a whole.

Commits never change, so what was read from git once is kept; derived numbers are computed by the caller. The file is a
cache: a damaged one, or one of another release, counts as missing and is written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_digest

from context_engine.index import translate_disk_errors
from context_engine.model import Commit, CommitFileChange
from context_engine.storage import make_private_folder, replace_private

FORMAT = b"ctxhist3"
"""Raise the digit when the columns change: files of other releases are then mined again.

1 first layout
2 subjects without secrets
3 of a head only whether all its commits are known
"""
LISTINGS_MAX = 8
"""Heads whose commits are cached: work trees and branches between which a user switches."""
COMMITS_MAX = 60_000
"""Commits of several heads and of rewritten branches; above it those that no cached head contains are dropped."""

Ints = npt.NDArray[np.int32]
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeadCommits:
    """The commits of one head, newest first, as rows of the facts; not complete while some may be added."""

    rows: Ints
    is_complete: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class CommitTable:
    """Columns: row `i` is a commit, and its touches are `starts[i]` to `starts[i + 1]`.

    `author`, `path` and `was` are places in `authors` and `names`; `was` is -1 where nothing was renamed.
    """

    hashes: tuple[str, ...]
    subjects: tuple[str, ...]
    at: Times
    author: Ints
    authors: tuple[str, ...]
    starts: Ints
    path: Ints
    was: Ints
    is_gone: npt.NDArray[np.bool_]
    names: tuple[str, ...]
    heads: Mapping[str, HeadCommits] = field(default_factory=dict)  # the one asked for last comes last

    @classmethod
    def empty(cls) -> CommitTable:
        """Return the table of a repository that was never read."""
        ints: Ints = np.zeros(0, np.int32)
        return cls((), (), np.zeros(0, np.int64), ints, (), np.zeros(1, np.int32), ints, ints, np.zeros(0, bool), ())

    def commits(self, rows: Iterable[int]) -> list[Commit]:
        """Return some commits as values."""
        return [self._commit(int(row)) for row in rows]

    def _commit(self, row: int) -> Commit:
        places = range(self.starts[row], self.starts[row + 1])
        was = [self.names[at] if at >= 0 else "" for at in self.was[places].tolist()]
        gone = self.is_gone[places].tolist()
        paths = [self.names[at] for at in self.path[places].tolist()]
        touched = tuple(map(CommitFileChange, paths, was, gone))
        author = self.authors[self.author[row]]
        return Commit(self.hashes[row], int(self.at[row]), author, self.subjects[row], touched)

    def with_commits(self, new: Sequence[Commit]) -> CommitTable:
        """Return these facts and some new commits."""
        names, authors = _StringTable(self.names), _StringTable(self.authors)
        touched = [touch for commit in new for touch in commit.files]
        ends = np.cumsum([len(commit.files) for commit in new], dtype=np.int32) + self.starts[-1]
        added = replace(
            self,
            hashes=self.hashes + tuple(commit.hash for commit in new),
            subjects=self.subjects + tuple(commit.subject for commit in new),
            at=np.append(self.at, np.array([commit.at for commit in new], np.int64)),
            author=_append_ints(self.author, [authors.of(commit.author) for commit in new]),
            starts=np.append(self.starts, ends.astype(np.int32)),
            path=_append_ints(self.path, [names.of(touch.path) for touch in touched]),
            was=_append_ints(self.was, [names.of(touch.was) if touch.was else -1 for touch in touched]),
            is_gone=np.append(self.is_gone, np.array([touch.is_gone for touch in touched], bool)),
        )
        return replace(added, names=names.list_texts(), authors=authors.list_texts())

    def with_head(self, head: str, listed: HeadCommits) -> CommitTable:
        """Return these facts and the commits of a head; the head that was used the longest time ago is dropped."""
        others = [(name, rows) for name, rows in self.heads.items() if name != head]
        return replace(self, heads=dict([*others, (head, listed)][-LISTINGS_MAX:])).trim()

    def trim(self, most: int = COMMITS_MAX) -> CommitTable:
        """Return only the commits of cached heads, if there are more than `most` in all."""
        if len(self.hashes) <= most or not self.heads:
            return self
        kept = np.unique(np.concatenate([listed.rows for listed in self.heads.values()]))
        place = np.full(len(self.hashes), -1, np.int32)
        place[kept] = np.arange(len(kept), dtype=np.int32)
        heads = {head: replace(listed, rows=place[listed.rows]) for head, listed in self.heads.items()}
        return replace(CommitTable.empty().with_commits(self.commits(kept)), heads=heads)


class HistoryFile:
    """The facts of one repository on disk.

    Any number of processes may read and write it: the last one wins as a whole.
    """

    def __init__(self, path: Path) -> None:
        """Open and create nothing until it is needed."""
        self.path = path

    def load(self) -> CommitTable:
        """Return what was saved; nothing if the file is missing or damaged."""
        try:
            raw = self.path.read_bytes()
        except OSError:  # not there, or closed to us: saving will show it
            return CommitTable.empty()
        head, body = raw[: len(FORMAT) + 8], raw[len(FORMAT) + 8 :]
        if head != FORMAT + xxh3_64_digest(body):
            return CommitTable.empty()
        return _unpack(msgspec.msgpack.decode(body))

    def save(self, facts: CommitTable) -> None:
        """Replace the saved facts. Raises: DiskFull."""
        body = msgspec.msgpack.encode(_pack(facts))
        with translate_disk_errors(self.path.parent):
            make_private_folder(self.path.parent)
            replace_private(self.path, FORMAT + xxh3_64_digest(body) + body)


class _StringTable:
    """Strings by number; known strings keep theirs."""

    def __init__(self, known: Sequence[str]) -> None:
        self._places = {text: place for place, text in enumerate(known)}

    def of(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def list_texts(self) -> tuple[str, ...]:
        return tuple(self._places)


def _append_ints(column: Ints, values: Sequence[int]) -> Ints:
    return np.append(column, np.array(values, np.int32))


def _pack(facts: CommitTable) -> dict[str, Any]:
    """Return bytes for every column, the same on every machine."""
    return {
        "hash_chars": len(facts.hashes[0]) if facts.hashes else 0,
        "hashes": bytes.fromhex("".join(facts.hashes)),
        "subjects": _join_texts(facts.subjects),
        "at": facts.at.astype("<i8").tobytes(),
        **{name: getattr(facts, name).astype("<i4").tobytes() for name in ("author", "starts", "path", "was")},
        "authors": _join_texts(facts.authors),
        "is_gone": np.packbits(facts.is_gone).tobytes(),
        "names": _join_texts(facts.names),
        "heads": [
            (head, listing.rows.astype("<i4").tobytes(), listing.is_complete) for head, listing in facts.heads.items()
        ],
    }


def _unpack(columns: dict[str, Any]) -> CommitTable:
    ints = {name: _ints(columns[name]) for name in ("author", "starts", "path", "was")}
    digits, width = columns["hashes"].hex(), columns["hash_chars"]
    return CommitTable(
        hashes=tuple(digits[at : at + width] for at in range(0, len(digits), width or 1)),
        subjects=_split_texts(columns["subjects"]),
        at=np.frombuffer(columns["at"], "<i8").astype(np.int64),
        authors=_split_texts(columns["authors"]),
        is_gone=np.unpackbits(np.frombuffer(columns["is_gone"], np.uint8), count=len(ints["path"])).astype(bool),
        names=_split_texts(columns["names"]),
        heads={head: HeadCommits(_ints(rows), is_complete) for head, rows, is_complete in columns["heads"]},
        **ints,
    )


def _ints(raw: bytes) -> Ints:
    return np.frombuffer(raw, "<i4").astype(np.int32)


def _join_texts(texts: Sequence[str]) -> bytes:
    """Join texts, each with a NUL at its end; git's names and subjects contain none."""
    return "".join(f"{text}\0" for text in texts).encode("utf-8", "surrogateescape")


def _split_texts(raw: bytes) -> tuple[str, ...]:
    return tuple(raw.decode("utf-8", "surrogateescape").split("\0")[:-1])
