"""Complete typed paths and symbols by the names of one snapshot, best first, with their number."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import pairwise

import numpy as np

from context_engine.index import Snapshot, qualified_names, term_hashes
from context_engine.text import compound_term, dotted_name

AFTER_EVERY_NAME = "\U0010ffff"
"""Sorts after every character of a name."""
FILES_PER_NAME = 4
"""Files that are searched for the typed spelling: `Request` is offered as such, though some file has `request`."""

Completions = tuple[tuple[str, ...], int]
"""The best completions, and the number of all."""


class NameCompleter:
    """Completes names of one snapshot. Thread-safe: cached values are written as a whole."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def paths(self, typed: str, limit: int, *, folders: bool = False) -> Completions:
        """Return files, and on request folders with a final slash, that complete `typed`."""
        return find_best(self._places if folders else self._files, typed, limit)

    def symbols(self, typed: str, limit: int) -> Completions:
        """Return defined names that begin with `typed`; with an owner before it (`Session.cl`), qualified ones.

        The count is exact up to `limit`; above it the headings of documents, which are not shown, may be counted too.
        """
        owner, _, start = dotted_name(typed).rpartition(".")
        if owner:
            members = self._find_members(owner, start)
            return tuple(members[:limit]), len(members)
        names = self._find_by_prefix(compound_term(start))
        found = self._spell_names(names[:limit], start)
        return tuple(found), len(names) if len(names) > limit else len(found)

    @cached_property
    def _files(self) -> list[tuple[str, str]]:
        """(path in its repository in lower case, path) of every living file."""
        paths = self.snapshot.paths
        return sorted((paths[file].lower(), path) for path, file in self.snapshot.by_path.items())

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
        """Return folded names that a living file defines.

        Those that begin with a sign (in style sheets) only if that sign was typed.
        """
        first = bisect_left(self._names, start)
        names = self._names[first : bisect_left(self._names, start + AFTER_EVERY_NAME, first)]
        if not start:
            names = [name for name in names if name[:1].isalpha()]
        if self.snapshot.all_alive or not names:
            return names
        counts = self.snapshot.matches("symbol", term_hashes(names)).frequency.tolist()
        return [name for name, count in zip(names, counts, strict=True) if count]

    def _spell_names(self, names: Sequence[str], start: str) -> list[str]:
        """Return the names as they are defined, but headings: in the typed spelling, if one of the first files has it.

        A class comes before a variable of that name.
        """
        matches = self.snapshot.matches("symbol", term_hashes(names))
        files = self.snapshot.chunk_file[matches.docs[np.lexsort((matches.docs, -matches.counts, matches.terms))]]
        bounds = np.searchsorted(matches.terms, np.arange(len(names) + 1)).tolist()
        found = []
        for name, (first, last) in zip(names, pairwise(bounds), strict=True):
            spellings: list[str] = []
            for file in files[first : min(first + FILES_PER_NAME, last)].tolist():
                symbols = [symbol for symbol in self.snapshot.outline(file).symbols if symbol.kind != "section"]
                spellings += [symbol.name for symbol in symbols if compound_term(symbol.name) == name]
                if any(spelling.startswith(start) for spelling in spellings):
                    break
            if spellings:
                found.append(next((spelling for spelling in spellings if spelling.startswith(start)), spellings[0]))
        return found

    def _find_members(self, owner: str, start: str) -> list[str]:
        """Return the qualified names of the members of an owner, sorted: the owner begins at some part of the name."""
        chunks = self.snapshot.matches("symbol", term_hashes([compound_term(owner.rpartition(".")[2])])).docs
        wanted = f".{owner}.{start}".lower()
        members = set()
        for file in np.unique(self.snapshot.chunk_file[chunks]).tolist():
            for name in qualified_names(self.snapshot.outline(file).symbols):
                _, found, rest = f".{name}".lower().partition(wanted)
                if found and "." not in rest:
                    members.add(name)
        return sorted(members)


def find_best(known: Sequence[tuple[str, str]], typed: str, limit: int) -> Completions:
    """Return matching paths: those beginning with `typed`, then those with such a part, then the others.

    >>> known = [(path, path) for path in ("app/serv/mcp.py", "serv/mcp.py", "reserv/mc.py", "app/server/mcp.py")]
    >>> find_best(known, "serv/mc", 9), find_best(known, "ap/mcp", 9)
    ((('serv/mcp.py', 'app/serv/mcp.py', 'reserv/mc.py'), 3), (('app/serv/mcp.py', 'app/server/mcp.py'), 2))
    """
    wanted = typed.lower().replace("\\", "/").removeprefix("./").lstrip("/")
    found = [(low, path) for low, path in known if wanted in low]
    pieces = [piece for piece in wanted.split("/") if piece]
    if not found and len(pieces) > 1:
        found = [(low, path) for low, path in known if _has_in_order(low, pieces)]

    def distance(names: tuple[str, str]) -> tuple[bool, bool, int, str]:
        low, path = names
        starts = low.startswith(wanted)
        return not starts, not starts and f"/{wanted}" not in low, path.count("/"), path

    return tuple(path for _, path in nsmallest(limit, found, key=distance)), len(found)


def _has_in_order(path: str, pieces: Sequence[str]) -> bool:
    """Return whether each piece is in a later part of the path than the one before: `serv/mc` in `server/mcp.py`.

    >>> _has_in_order("app/server/mcp.py", ["serv", "mc"]), _has_in_order("mcp/server.py", ["serv", "mc"])
    (True, False)
    """
    for piece in pieces:
        _, found, rest = path.partition(piece)
        if not found:
            return False
        path = rest.partition("/")[2]
    return True
