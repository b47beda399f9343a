"""The definitions that a place uses, and those that use it, by the postings of a snapshot.

A definition that a place mentions is a callee if it is in the same file or an imported one, or if no other one has its
name. A caller is a definition whose lines mention a name that the place defines. Nothing is parsed: a trace
is thorough and takes longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from context_engine.index.file_roles import role_of
from context_engine.index.segment import term_hashes
from context_engine.index.stored_outline import StoredSymbol
from context_engine.index.symbol_graph import SymbolGraph
from context_engine.repo import is_sensitive
from context_engine.text import LineSpan, compound_term, expand_words, unique

CALLEES_MAX = 4
CALLERS_MAX = 3
TESTS_MAX = 3
NAMES_MAX = 3
"""Names of a place whose callers are looked for."""
IDENTIFIERS_MAX = 200
DEFINITIONS_MAX = 3
"""A name that more files define says little about which one is meant."""
MENTIONS_MAX = 40
"""Chunks that mention a name; the callers of a name in more are too many to explain it."""
CHARS_MAX = 120

Relation = Literal["used by it", "uses it", "tests it"]
_USE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{2,60})(?=\()|\b([A-Za-z][a-z0-9]*(?:_[a-z0-9]|[A-Z])[A-Za-z0-9_]{1,60})")
"""A name that is called, or one of several words: a word of a comment is neither."""
_WORD = re.compile(r"\w+")


class Neighbor(NamedTuple):
    """A definition next to a place: the line that defines it, and how it is connected."""

    path: str
    line: int
    text: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class NeighborFinder:
    """Finds neighbors in the graph of one snapshot."""

    graph: SymbolGraph

    def find(self, path: str, span: LineSpan) -> list[Neighbor]:
        """Return the callees of a place, then its callers, then the tests that mention it; a few of each."""
        file = self.graph.snapshot.by_path.get(path)
        if file is None or not (lines := self.graph.lines(path)):
            return []
        own = _symbols_of(self.graph.stored_outline(file).symbols, span)
        names = unique(symbol.name for symbol in own if len(symbol.name) >= NAMES_MAX)
        text = "\n".join(lines[span.first - 1 : span.last])
        callers = dict.fromkeys(one for name in names[:NAMES_MAX] for one in self._find_callers(name, path, span))
        users = [one for one in callers if one.relation == "uses it"][:CALLERS_MAX]
        tests = [one for one in callers if one.relation == "tests it"][:TESTS_MAX]
        return [*self._find_callees(text, path, span, {*names})[:CALLEES_MAX], *users, *tests]

    def _find_callees(self, text: str, path: str, span: LineSpan, own: set[str]) -> list[Neighbor]:
        used = unique(called or joined for called, joined in _USE.findall(text))
        names = [name for name in used if name not in own][:IDENTIFIERS_MAX]
        if not names:
            return []
        imported = self.graph.imported_files(path)
        found = []
        for name, files in zip(names, self._files_by_name(names), strict=True):
            known = [self.graph.snapshot.paths[file] for file in files]
            near = [other for other in known if other == path] or [other for other in known if other in imported]
            if not near and len(known) != 1:
                continue
            for symbol in self._definitions_of(name, (near or known)[0]):
                where = (near or known)[0]
                if where != path or not span.first <= symbol.line <= span.last:
                    found.append(self._neighbor(where, symbol.line, "used by it"))
                    break
        return list(dict.fromkeys(one for one in found if one.text))

    def _files_by_name(self, names: Sequence[str]) -> list[list[int]]:
        """Return the files that define each name; none for one that many define."""
        matches = self.graph.snapshot.matches("symbol", term_hashes([compound_term(name) for name in names]))
        files: list[set[int]] = [set() for _ in names]
        for chunk, term in zip(matches.docs.tolist(), matches.terms.tolist(), strict=True):
            files[term].add(int(self.graph.snapshot.chunk_file[chunk]))
        return [sorted(some) if len(some) <= DEFINITIONS_MAX else [] for some in files]

    def _definitions_of(self, name: str, path: str) -> Iterable[StoredSymbol]:
        symbols = self.graph.stored_outline(self.graph.snapshot.by_path[path]).symbols
        return (symbol for symbol in symbols if symbol.name == name and symbol.kind != "section")

    def _find_callers(self, name: str, path: str, span: LineSpan) -> list[Neighbor]:
        term = (expand_words([name.lstrip("#")])[0][-1:] or [compound_term(name)])[0]
        chunks = self.graph.snapshot.matches("body", term_hashes([term])).docs.tolist()
        if len(chunks) > MENTIONS_MAX:
            return []
        first, last = self.graph.snapshot.chunk_column("first"), self.graph.snapshot.chunk_column("last")
        found = []
        for chunk in chunks:
            file = int(self.graph.snapshot.chunk_file[chunk])
            where = self.graph.snapshot.paths[file]
            lines = self.graph.lines(where)[: int(last[chunk])]
            numbers = range(int(first[chunk]), len(lines) + 1)
            uses = [number for number in numbers if _mentions(lines[number - 1], name)]
            symbols = self.graph.stored_outline(file).symbols
            for number in uses:
                around = [symbol for symbol in symbols if symbol.first <= number <= symbol.last]
                around = [symbol for symbol in around if symbol.kind != "section" and symbol.name != name]
                if around and not (where == path and span.first <= number <= span.last):
                    nearest = min(around, key=lambda symbol: symbol.last - symbol.first)
                    relation: Relation = "tests it" if role_of(where, "code") == "test" else "uses it"
                    found.append(self._neighbor(where, nearest.line, relation))
        return list(dict.fromkeys(one for one in found if one.text))

    def _neighbor(self, path: str, line: int, relation: Relation) -> Neighbor:
        lines = self.graph.lines(path)
        if line <= len(lines) and not is_sensitive(path):
            text = lines[line - 1].strip()[:CHARS_MAX]
        else:
            text = ""
        return Neighbor(path, line, text, relation)


def _mentions(line: str, name: str) -> bool:
    return name in line and name in _WORD.findall(line)


def _symbols_of(symbols: Sequence[StoredSymbol], span: LineSpan) -> list[StoredSymbol]:
    """Return the definitions that begin in a span, else the smallest one around it."""
    code = [symbol for symbol in symbols if symbol.kind != "section"]
    inside = [symbol for symbol in code if span.first <= symbol.line <= span.last]
    around = [symbol for symbol in code if symbol.first <= span.first and span.last <= symbol.last]
    return inside or sorted(around, key=lambda symbol: symbol.last - symbol.first)[:1]
