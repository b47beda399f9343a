"""What a half-typed path or symbol may become: names of one snapshot, best first, and how many there are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import pairwise

import numpy as np

from context_engine.index import Snapshot, StoredSymbol, qualified_names, term_hashes
from context_engine.text import compound_term

AFTER_EVERY_NAME = "\U0010ffff"
"""Sorts behind every character a name may hold."""
FILES_PER_NAME = 4
"""Files looked into for the spelling that was typed: `Request` is offered as such, though some file has `request`."""


class NameCompleter:
    """One snapshot, ready to complete what somebody types. Thread-safe: what is kept is written whole."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def paths(self, typed: str, limit: int, *, folders: bool = False) -> tuple[list[str], int]:
        """Files, and folders with a slash at their end when asked for, that `typed` may become; and how many there are."""
        known = self._places if folders else self._files
        return _find_best(known, typed, limit)

    def symbols(self, typed: str, limit: int) -> tuple[list[str], int]:
        """Defined names that begin with `typed`; with an owner before it (`Session.cl`), qualified ones.

        The count is exact up to `limit`; above it the headings of documents, which are not shown, may be counted too.
        """
        owner, _, start = typed.replace("::", ".").replace("#", ".").rpartition(".")
        if owner:
            found = self._find_members(owner, start)
            return found[:limit], len(found)
        names = self._keep_living(self._find_by_prefix(compound_term(start)))
        found = self._spell_names(names[:limit], start)
        return found, len(names) if len(names) > limit else len(found)

    @cached_property
    def _files(self) -> list[tuple[str, str]]:
        """(path in lower case, path) of every living file."""
        return sorted((path.lower(), path) for path in self.snapshot.by_path)

    @cached_property
    def _places(self) -> list[tuple[str, str]]:
        """The same with every folder that holds a file."""
        folders = {path[: at + 1] for _, path in self._files for at, mark in enumerate(path) if mark == "/"}
        return sorted([*self._files, *((folder.lower(), folder) for folder in folders)])

    @cached_property
    def _names(self) -> list[str]:
        """Every name as the index folds it, sorted; those of dead files may be among them."""
        return self.snapshot.names("symbol")

    def _find_by_prefix(self, start: str) -> list[str]:
        """Folded names; those that begin with a sign (style sheets have them) only for who types that sign."""
        first = bisect_left(self._names, start)
        names = self._names[first : bisect_left(self._names, start + AFTER_EVERY_NAME, first)]
        return names if start else [name for name in names if name[:1].isalpha()]

    def _keep_living(self, names: list[str]) -> list[str]:
        """The names that a living file defines."""
        if self.snapshot.all_alive or not names:
            return names
        counts = self.snapshot.matches("symbol", term_hashes(names)).frequency.tolist()
        return [name for name, count in zip(names, counts, strict=True) if count]

    def _spell_names(self, names: Sequence[str], start: str) -> list[str]:
        """The names as their authors write them: as it was typed, where one of the first files does so."""
        found = []
        for name, files in zip(names, self._first_files(names), strict=True):
            spellings: list[str] = []
            for file in files:
                spellings += [each.name for each in self._symbols_of(file) if compound_term(each.name) == name]
                if any(each.startswith(start) for each in spellings):
                    break
            found += [next((each for each in spellings if each.startswith(start)), spellings[0])] if spellings else []
        return found

    def _first_files(self, names: Sequence[str]) -> list[list[int]]:
        """For each name the first few living files that define it."""
        matches = self.snapshot.matches("symbol", term_hashes(names))
        order = np.lexsort((matches.docs, -matches.counts, matches.terms))  # a class before a variable of that name
        files = self.snapshot.chunk_file[matches.docs[order]]
        starts = np.searchsorted(matches.terms, np.arange(len(names) + 1))
        return [files[a : min(a + FILES_PER_NAME, b)].tolist() for a, b in pairwise(starts.tolist())]

    def _find_members(self, owner: str, start: str) -> list[str]:
        """Qualified names of what the owner holds, sorted."""
        chunks = self.snapshot.matches("symbol", term_hashes([compound_term(owner.rpartition(".")[2])])).docs
        wanted = f".{owner}.{start}".lower()
        return sorted(
            {
                name
                for file in np.unique(self.snapshot.chunk_file[chunks]).tolist()
                for name in qualified_names(self.snapshot.outline(file).symbols)
                if _is_continued(f".{name}".lower(), wanted)
            }
        )

    def _symbols_of(self, file: int) -> list[StoredSymbol]:
        """What `find_symbol` can find in a file: all but the headings of documents."""
        return [each for each in self.snapshot.outline(file).symbols if each.kind != "section"]


def _is_continued(name: str, wanted: str) -> bool:
    """Whether `wanted` begins at some part of the name and ends in its last part.

    >>> _is_continued(".shop.session.close", ".session.cl"), _is_continued(".session.close.now", ".session.cl")
    (True, False)
    """
    at = name.find(wanted)
    return at >= 0 and "." not in name[at + len(wanted) :]


def _find_best(known: Sequence[tuple[str, str]], typed: str, limit: int) -> tuple[list[str], int]:
    """Paths that may be meant, nearest first: those that begin so, those with a part that does, those that hold it.

    >>> known = [(path, path) for path in ("app/serv/mcp.py", "serv/mcp.py", "reserv/mc.py", "app/server/mcp.py")]
    >>> _find_best(known, "serv/mc", 9), _find_best(known, "ap/mcp", 9)
    ((['serv/mcp.py', 'app/serv/mcp.py', 'reserv/mc.py'], 3), (['app/serv/mcp.py', 'app/server/mcp.py'], 2))
    """
    wanted = typed.lower().replace("\\", "/").removeprefix("./").lstrip("/")
    part = f"/{wanted}"
    found = [each for each in known if wanted in each[0]] or _find_loosely(known, wanted)

    def distance(each: tuple[str, str]) -> tuple[int, int, str]:
        low, path = each
        return 0 if low.startswith(wanted) else 1 if part in low else 2, path.count("/"), path

    return [path for _, path in nsmallest(limit, found, key=distance)], len(found)


def _find_loosely(known: Sequence[tuple[str, str]], wanted: str) -> list[tuple[str, str]]:
    """What fits when each piece may stand anywhere in a part of the path: `serv/mc` for `server/mcp_server.py`."""
    pieces = [piece for piece in wanted.split("/") if piece]
    return [each for each in known if _has_in_order(each[0], pieces)] if len(pieces) > 1 else []


def _has_in_order(path: str, pieces: Iterable[str]) -> bool:
    """Whether each piece stands in a later part of the path than the one before.

    >>> _has_in_order("app/server/mcp.py", ["serv", "mc"]), _has_in_order("mcp/server.py", ["serv", "mc"])
    (True, False)
    """
    at = 0
    for piece in pieces:
        found = path.find(piece, at)
        if found < 0:
            return False
        at = path.find("/", found + len(piece))
        at = len(path) if at < 0 else at
    return True
