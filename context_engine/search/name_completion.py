"""Complete typed paths and symbols by the names of one snapshot, best first, with their number."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import pairwise

import numpy as np

from context_engine.index import Snapshot, StoredSymbol, qualified_names, term_hashes
from context_engine.text import compound_term, dotted_name

AFTER_EVERY_NAME = "\U0010ffff"
"""Sorts after every character of a name."""
FILES_PER_NAME = 4
"""Files that are searched for the typed spelling: `Request` is offered as such, though some file has `request`."""


class NameCompleter:
    """Completes names of one snapshot. Thread-safe: cached values are written as a whole."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def paths(self, typed: str, limit: int, *, folders: bool = False) -> tuple[list[str], int]:
        """Return files, and on request folders with a final slash, that complete `typed`; and their number."""
        known = self._places if folders else self._files
        return _find_best(known, typed, limit)

    def symbols(self, typed: str, limit: int) -> tuple[list[str], int]:
        """Return defined names that begin with `typed`; with an owner before it (`Session.cl`), qualified ones.

        The count is exact up to `limit`; above it the headings of documents, which are not shown, may be counted too.
        """
        owner, _, start = dotted_name(typed).rpartition(".")
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
        """The files and every folder that contains one."""
        folders = {path[: at + 1] for _, path in self._files for at, mark in enumerate(path) if mark == "/"}
        return sorted([*self._files, *((folder.lower(), folder) for folder in folders)])

    @cached_property
    def _names(self) -> list[str]:
        """Every name as the index folds it, sorted; those of dead files may be among them."""
        return self.snapshot.names("symbol")

    def _find_by_prefix(self, start: str) -> list[str]:
        """Return folded names; those that begin with a sign (in style sheets) only if that sign was typed."""
        first = bisect_left(self._names, start)
        names = self._names[first : bisect_left(self._names, start + AFTER_EVERY_NAME, first)]
        if start:
            return names
        return [name for name in names if name[:1].isalpha()]

    def _keep_living(self, names: list[str]) -> list[str]:
        """Return the names that a living file defines."""
        if self.snapshot.all_alive or not names:
            return names
        counts = self.snapshot.matches("symbol", term_hashes(names)).frequency.tolist()
        return [name for name, count in zip(names, counts, strict=True) if count]

    def _spell_names(self, names: Sequence[str], start: str) -> list[str]:
        """Return the names as they are defined: in the typed spelling, if one of the first files has it."""
        found = []
        for name, files in zip(names, self._first_files(names), strict=True):
            spellings: list[str] = []
            for file in files:
                symbols = self._symbols_of(file)
                spellings += [symbol.name for symbol in symbols if compound_term(symbol.name) == name]
                if any(spelling.startswith(start) for spelling in spellings):
                    break
            if spellings:
                found.append(next((spelling for spelling in spellings if spelling.startswith(start)), spellings[0]))
        return found

    def _first_files(self, names: Sequence[str]) -> list[list[int]]:
        """Return for each name the first few living files that define it."""
        matches = self.snapshot.matches("symbol", term_hashes(names))
        order = np.lexsort((matches.docs, -matches.counts, matches.terms))  # a class before a variable of that name
        files = self.snapshot.chunk_file[matches.docs[order]]
        starts = np.searchsorted(matches.terms, np.arange(len(names) + 1))
        return [files[a : min(a + FILES_PER_NAME, b)].tolist() for a, b in pairwise(starts.tolist())]

    def _find_members(self, owner: str, start: str) -> list[str]:
        """Return the qualified names of the members of an owner, sorted."""
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
        """Return the symbols that `find_symbol` can find in a file: all but the headings of documents."""
        return [symbol for symbol in self.snapshot.outline(file).symbols if symbol.kind != "section"]


def _is_continued(name: str, wanted: str) -> bool:
    """Return whether `wanted` begins at some part of the name and ends in its last part.

    >>> _is_continued(".shop.session.close", ".session.cl"), _is_continued(".session.close.now", ".session.cl")
    (True, False)
    """
    at = name.find(wanted)
    return at >= 0 and "." not in name[at + len(wanted) :]


def _find_best(known: Sequence[tuple[str, str]], typed: str, limit: int) -> tuple[list[str], int]:
    """Return matching paths: those beginning with `typed`, then those with such a part, then the others.

    >>> known = [(path, path) for path in ("app/serv/mcp.py", "serv/mcp.py", "reserv/mc.py", "app/server/mcp.py")]
    >>> _find_best(known, "serv/mc", 9), _find_best(known, "ap/mcp", 9)
    ((['serv/mcp.py', 'app/serv/mcp.py', 'reserv/mc.py'], 3), (['app/serv/mcp.py', 'app/server/mcp.py'], 2))
    """
    wanted = typed.lower().replace("\\", "/").removeprefix("./").lstrip("/")
    part = f"/{wanted}"
    found = [(low, path) for low, path in known if wanted in low] or _find_loosely(known, wanted)

    def distance(names: tuple[str, str]) -> tuple[int, int, str]:
        low, path = names
        if low.startswith(wanted):
            return 0, path.count("/"), path
        return 1 if part in low else 2, path.count("/"), path

    return [path for _, path in nsmallest(limit, found, key=distance)], len(found)


def _find_loosely(known: Sequence[tuple[str, str]], wanted: str) -> list[tuple[str, str]]:
    """Return paths with each piece anywhere in a part of the path: `serv/mc` finds `server/mcp_server.py`."""
    pieces = [piece for piece in wanted.split("/") if piece]
    if len(pieces) < 2:
        return []
    return [(low, path) for low, path in known if _has_in_order(low, pieces)]


def _has_in_order(path: str, pieces: Iterable[str]) -> bool:
    """Return whether each piece is in a later part of the path than the one before.

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
