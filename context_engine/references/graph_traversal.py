"""Traces: from a definition along its uses, or from a file along imports, step by step, each with its evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from context_engine.index import StoredOutline, StoredSymbol, role_of, term_hashes
from context_engine.model import CHUNK_KINDS, Edge
from context_engine.references.indirect_symbols import find_constructor_uses
from context_engine.references.reference_finder import SymbolUse
from context_engine.references.symbol_graph import CALLABLE, CLASS_LIKE, FILES_PARSED_MAX, SymbolDefinition, SymbolGraph
from context_engine.repo import is_sensitive, path_of_listing
from context_engine.text import LineSpan, compound_term, expand_words, format_count, unique

EVIDENCE_CHARS_MAX = 160
DEFINITIONS_FOLLOWED_MAX = 5
"""Definitions of one name whose callees are listed."""
CERTAINTIES = ("exact", "likely", "possible")
USED = frozenset({"call", "type", "read"})
UNRESOLVED_SHOWN = 4
IMPACT_STEPS = 20
"""Once so many definitions are affected, an impact goes no level deeper."""
IMPACT_WIDTH = 8
"""Definitions of one level whose own users are followed; those with the most uses first."""
IMPACT_FILES_MAX = 80
"""Files parsed for a name on the deeper levels; one that occurs in more is too common to follow."""


class GraphTraversal:
    """One trace of at most `depth` steps; it stops when `limit` edges are exceeded.

    Uses that are only `possible` are counted, and listed if `with_possible`; they are never followed.
    """

    def __init__(self, graph: SymbolGraph, depth: int, limit: int, *, with_possible: bool = False) -> None:
        self._graph = graph
        self._depth = depth
        self._limit = limit
        self._with_possible = with_possible
        self._edges: list[Edge] = []
        self._notes: list[str] = []
        self._lines: dict[str, list[str]] = {}
        self._is_impact = False
        self.possible = 0

    def symbols(self, start: Sequence[SymbolDefinition], direction: str) -> tuple[list[Edge], tuple[str, ...]]:
        """Return callers, references, callees, implementations, hierarchy or impact of definitions."""
        if len({(one.path, one.qualified) for one in start}) > 1:
            places = ", ".join(f"{one.qualified} at {one.path}:{one.span.first}" for one in start[:4])
            self._notes.append(
                f"{len(start)} definitions share this name ({places}...): name one with its owner, or give its path"
            )
        if direction == "callees":
            self._callees(start[:DEFINITIONS_FOLLOWED_MAX])
        elif direction in ("implementations", "hierarchy"):
            if direction == "hierarchy":
                self._supertypes(start)
            self._implementations(start)
        elif direction == "impact":
            self._impact(start)
        else:
            self._callers(start, USED | {"import", "definition"} if direction == "references" else USED)
        if direction in ("callers", "references", "impact"):
            self._notes.append("uses through reflection, strings or generated code cannot be seen")
            if unresolved := self._graph.find_unresolved_lines(start[0].name):
                shown = ", ".join(f"{path_of_listing(path)}:{line}" for path, line in unresolved[:UNRESOLVED_SHOWN])
                number = format_count(len(unresolved), "line")
                self._notes.append(f"not resolved: {number} of templates or strings with the name ({shown})")
        return self._result()

    def files(self, path: str, direction: str) -> tuple[list[Edge], tuple[str, ...]]:
        """Return the imports or the importers of a file."""
        self._file_edges(path, direction)
        return self._result()

    def tests(self) -> tuple[str, ...]:
        """Return the test files on the way, those with the shortest way and the most uses first."""
        ways: dict[str, tuple[int, int]] = {}
        for edge in self._edges:
            if role_of(edge.path, "code") == "test":
                depth, count = ways.get(edge.path, (edge.depth, 0))
                ways[edge.path] = (min(depth, edge.depth), count - 1)
        return tuple(sorted(ways, key=lambda path: (ways[path], path)))

    def _impact(self, start: Sequence[SymbolDefinition]) -> None:
        """Collect what a change of definitions affects, level by level: users, overrides, and the users of those.

        There is one step for each definition that uses them; tests are named once, as the tests to run. Members
        that one overrides are affected as well, and so are their users: the overriding one may be called there.
        """
        self._is_impact = True
        self._implementations([one for one in start if one.kind not in ("function", "variable", "constant", "field")])
        overridden = self._overridden(start)
        seen = {(one.path, one.qualified) for one in (*start, *overridden)}
        wave = list(start)
        shown = len(self._edges)
        for depth in range(1, self._depth + 1):
            users = self._users(wave, depth, seen, overridden if depth == 1 else ())
            following: list[SymbolDefinition] = []
            for uses in users:
                around = self._graph.definition_around(uses[0]) if uses[0].source else None
                step = _as_step(uses, depth)
                self._edges.append(replace(step, source_at=_place(around), target_at=self._place_meant(uses[0], wave)))
                is_test = role_of(uses[0].path, "code") == "test"
                shown += not is_test
                following += [around] if not is_test and around is not None and around.kind in CALLABLE else []
            if len(following) > IMPACT_WIDTH:
                self._notes.append(f"level {depth + 1} follows the {IMPACT_WIDTH} definitions with the most uses")
            wave = following[:IMPACT_WIDTH]
            if not wave or shown >= IMPACT_STEPS:
                if wave and depth < self._depth:
                    self._notes.append(f"level {depth} has enough to look at: ask for one of its steps to go on")
                return

    def _overridden(self, start: Sequence[SymbolDefinition]) -> list[SymbolDefinition]:
        """Return the members that some override, and add a step for each."""
        found: dict[tuple[str, str], SymbolDefinition] = {}
        for member in start[:DEFINITIONS_FOLLOWED_MAX]:
            if member.kind in CLASS_LIKE or self._graph.is_common(member.name):
                continue
            for above, below in self._graph.supertypes(member):
                is_overload = (above.path, above.qualified) == (member.path, member.qualified)
                if not is_overload and (above.path, above.qualified) not in found:
                    found[above.path, above.qualified] = above
                    self._add_definition(above, below, "base")
        return list(found.values())

    def _users_through(self, overridden: Sequence[SymbolDefinition]) -> Iterable[SymbolUse]:
        """Return the uses of members that others override; the ones through interfaces of Go are among the others."""
        named = {one.name: [] for one in overridden if not self._graph.implements_by_methods(one)}
        for member in overridden:
            named.get(member.name, []).append(member)
        for members in named.values():
            uses, _ = self._graph.uses(members)
            via = members[0].qualified
            yield from (use._replace(via=via) for use in uses if use.certainty != "possible")

    def _users(
        self,
        wave: Sequence[SymbolDefinition],
        depth: int,
        seen: set[tuple[str, str]],
        overridden: Sequence[SymbolDefinition] = (),
    ) -> list[list[SymbolUse]]:
        """Return the uses of a level in groups by the definition that has them, those with the most uses first.

        A file of the first level that only imports what changes is a group of its own: it may hand it on.
        """
        groups: dict[tuple[str, str], list[SymbolUse]] = {}
        imports: dict[str, list[SymbolUse]] = {}
        files_max = FILES_PARSED_MAX if depth == 1 else IMPACT_FILES_MAX
        kinds = USED | {"import"} if depth == 1 else USED
        for use in (*self._uses(wave, kinds, depth, files_max), *self._users_through(overridden)):
            if use.kind == "import":
                imports.setdefault(use.path, []).append(use)
            elif use.kind in USED and (use.path, use.source) not in seen:
                groups.setdefault((use.path, use.source), []).append(use)
        seen.update(groups)
        using = {path for path, _ in seen}
        groups |= {(path, ""): uses[:1] for path, uses in imports.items() if path not in using}
        return sorted(groups.values(), key=lambda uses: (-len(uses), uses[0].path, uses[0].line))

    def _callers(self, start: Sequence[SymbolDefinition], kinds: frozenset[str]) -> None:
        seen = {(one.path, one.qualified) for one in start}
        wave = list(start)
        for depth in range(1, self._depth + 1):
            following: list[SymbolDefinition] = []
            for use in self._uses(wave, kinds, depth):
                around = self._graph.definition_around(use) if use.source else None
                ends = (_place(around), self._place_meant(use, wave))
                self._add(use, use.source or use.path, use.target, depth, ends)
                if use.source and use.certainty != "possible" and (use.path, use.source) not in seen:
                    seen.add((use.path, use.source))
                    following += [around] if around is not None and around.kind in CALLABLE else []
            wave = following
            if not wave or len(self._edges) > self._limit:
                return

    def _uses(
        self, wave: Sequence[SymbolDefinition], kinds: Collection[str], depth: int, files_max: int = FILES_PARSED_MAX
    ) -> Iterator[SymbolUse]:
        """Yield the uses of some kinds; possible ones on the first level alone, where they are counted."""
        uses, truncated = self._graph.uses(wave, files_max)
        if truncated:
            names = ", ".join(sorted({definition.name for definition in wave})[:3])
            self._notes.append(f"{names}: a name occurs in too many files; only the first were searched")
        for use in uses + find_constructor_uses(self._graph, wave):
            if use.kind not in kinds:
                continue
            is_possible = use.certainty == "possible"
            self.possible += is_possible and depth == 1
            if not is_possible or (depth == 1 and self._with_possible):
                yield use

    def _supertypes(self, start: Sequence[SymbolDefinition]) -> None:
        for definition in start[:DEFINITIONS_FOLLOWED_MAX]:
            for above, below in self._graph.supertypes(definition):
                self._add_definition(above, below)

    def _implementations(self, start: Sequence[SymbolDefinition]) -> None:
        for definition in start[:DEFINITIONS_FOLLOWED_MAX]:
            for below, base in self._graph.implementations(definition, self._depth):
                self._add_definition(below, base)

    def _callees(self, start: Sequence[SymbolDefinition]) -> None:
        seen = {(definition.path, definition.qualified) for definition in start}
        wave = list(start)
        for depth in range(1, self._depth + 1):
            following = []
            for defined in wave:
                for use, target in self._graph.callees(defined):
                    name, ends = f"{target.qualified} ({_place(target)})", (_place(defined), _place(target))
                    self._add(use, defined.qualified, name, depth, ends)
                    if (target.path, target.qualified) not in seen:
                        seen.add((target.path, target.qualified))
                        following.append(target)
            wave = following
            if not wave or len(self._edges) > self._limit:
                return

    def _file_edges(self, path: str, direction: str) -> None:
        seen, wave = {path}, [path]
        for depth in range(1, self._depth + 1):
            following = []
            for at in wave:
                for source, target, line, other in self._steps(at, direction):
                    where = source if direction == "importers" else at
                    self._edges.append(Edge(source, target, path_of_listing(where), line, "", depth, "import"))
                    if other and other not in seen:
                        seen.add(other)
                        following.append(other)
            wave = following
            if not wave or len(self._edges) > self._limit:
                return

    def _steps(self, path: str, direction: str) -> list[tuple[str, str, int, str]]:
        """Return (source, target, line, next file) of each import edge at a file."""
        if direction == "importers":
            return [(file, path, line, file) for file, _, line in self._graph.importers(path)]
        return [
            (path, file or written, line, file)
            for written, line, files in self._graph.imports(path)
            for file in (files or [""])
        ]

    def _place_meant(self, use: SymbolUse, wave: Sequence[SymbolDefinition]) -> str:
        """Return where the definition of a wave is that a use means; "" if it may mean several."""
        named = [one for one in wave if one.name == use.target]
        if len(named) > 1:
            meant = self._graph.meaning_of(use)
            named = [one for one in named if meant is not None and _place(one) == _place(meant)]
        return _place(named[0]) if named else ""

    def _add(self, use: SymbolUse, source: str, target: str, depth: int, ends: tuple[str, str]) -> None:
        path = path_of_listing(use.path)
        said = (use.kind, use.certainty, 1, use.via, use.origin, *ends)
        self._edges.append(Edge(source, target, path, use.line, "", depth, *said))

    def _add_definition(self, definition: SymbolDefinition, target: str, kind: str = "definition") -> None:
        path = path_of_listing(definition.path)
        step = Edge(definition.qualified, target, path, definition.line, "", 1, kind, source_at=_place(definition))
        self._edges.append(step)

    def _line(self, path: str, line: int) -> str:
        if path not in self._lines:
            self._lines[path] = self._graph.parses.lines(path)
        lines = self._lines[path]
        return lines[line - 1].strip()[:EVIDENCE_CHARS_MAX] if 1 <= line <= len(lines) else ""

    def _result(self) -> tuple[list[Edge], tuple[str, ...]]:
        unique = {(edge.depth, edge.path, edge.line, edge.source, edge.target): edge for edge in reversed(self._edges)}
        shown = (key for key in sorted(unique) if not (self._is_impact and role_of(unique[key].path, "code") == "test"))
        kept = [unique[key] for key in shown][: self._limit + 1]  # of an impact, tests are only named as ones to run
        edges = [replace(edge, evidence=self._line(edge.path, edge.line)) for edge in kept]
        return edges, tuple(dict.fromkeys(self._notes))


def _place(definition: SymbolDefinition | None) -> str:
    return f"{definition.path}:{definition.span.first}" if definition else ""


def _as_step(uses: Sequence[SymbolUse], depth: int) -> Edge:
    """Return one step for the uses in one definition, at the first of the most certain ones."""
    best = min(uses, key=lambda use: (CERTAINTIES.index(use.certainty), use.line))
    path = path_of_listing(best.path)
    source = best.source or best.path
    steps = (len(uses), best.via, best.origin)
    return Edge(source, best.target, path, best.line, "", depth, best.kind, best.certainty, *steps)


# -- neighbors ---------------------------------------------------------------------------------------------------------

# The definitions that a place uses, and those that use it, by the postings of a snapshot.
#
# A definition that a place mentions is a callee if it is in the same file or an imported one, or if no other one has
# its name. A caller is a definition whose lines mention a name that the place defines. Nothing is parsed: a trace is
# thorough and takes longer.

CALLEES_MAX = 4
CALLERS_MAX = 3
TESTS_MAX = 3
NAMES_MAX = 3
"""Names of a place whose callers are looked for."""
IDENTIFIERS_MAX = 200
DEFINITIONS_MAX = 3
"""A name that more files define says little about which one is meant."""
PROSE_KIND = CHUNK_KINDS.index("documentation")
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


class NamedLine(NamedTuple):
    """A line that has a name, and the smallest definition of another name around it: its name, and where it begins.

    Without one `symbol` is empty, and `begin` the line itself.
    """

    path: str
    line: int
    text: str
    symbol: str
    begin: int


@dataclass(frozen=True, slots=True)
class NeighborFinder:
    """Finds neighbors in the graph of one snapshot; `lines` of paths and `outline` of files remember what they read."""

    graph: SymbolGraph
    lines: Callable[[str], list[str]]
    outline: Callable[[int], StoredOutline]

    def find(self, path: str, span: LineSpan) -> list[Neighbor]:
        """Return the callees of a place, then its callers, then the tests that mention it; a few of each."""
        file = self.graph.snapshot.by_path.get(path)
        if file is None or not (lines := self.lines(path)):
            return []
        own = _symbols_of(self.outline(file).symbols, span)
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
            known = sorted(self.graph.snapshot.paths[file] for file in files)
            near = [other for other in known if other == path] or [other for other in known if other in imported]
            if not near and len(known) != 1:
                continue
            where = (near or known)[0]
            for symbol in self.outline(self.graph.snapshot.by_path[where]).symbols:
                is_meant = symbol.name == name and symbol.kind != "section"
                if is_meant and (where != path or not span.first <= symbol.line <= span.last):
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

    def _find_callers(self, name: str, path: str, span: LineSpan) -> list[Neighbor]:
        found = set()
        for line in self.list_mentions(name):
            if line.symbol and not (line.path == path and span.first <= line.line <= span.last):
                relation: Relation = "tests it" if role_of(line.path, "code") == "test" else "uses it"
                found.add(self._neighbor(line.path, line.begin, relation))
        return sorted(one for one in found if one.text)

    def list_mentions(self, name: str) -> list[NamedLine]:
        """Return the lines of code that have a name as a word and do not import it, by file.

        None of a name that very many chunks have.
        """
        term = (expand_words([name.lstrip("#")])[0][-1:] or [compound_term(name)])[0]
        snapshot = self.graph.snapshot
        kinds = snapshot.chunk_column("kind")
        chunks = [
            one for one in snapshot.matches("body", term_hashes([term])).docs.tolist() if kinds[one] != PROSE_KIND
        ]
        if len(chunks) > MENTIONS_MAX:
            return []
        first, last = snapshot.chunk_column("first"), snapshot.chunk_column("last")
        found = set()
        for chunk in chunks:
            file = int(snapshot.chunk_file[chunk])
            path, outline = snapshot.paths[file], self.outline(file)
            lines = [] if is_sensitive(path) else self.lines(path)[: int(last[chunk])]
            imports = {line for _, line in outline.imports}
            for number in range(int(first[chunk]), len(lines) + 1):
                text = lines[number - 1]
                if number not in imports and name in text and name in _WORD.findall(text):
                    around = (one for one in outline.symbols if one.kind != "section" and one.name != name)
                    around = [symbol for symbol in around if symbol.first <= number <= symbol.last]
                    nearest = min(around, key=lambda symbol: symbol.last - symbol.first, default=None)
                    place = (nearest.name, nearest.line) if nearest else ("", number)
                    found.add(NamedLine(path, number, lines[number - 1], *place))
        return sorted(found)

    def _neighbor(self, path: str, line: int, relation: Relation) -> Neighbor:
        lines = self.lines(path)
        text = lines[line - 1].strip()[:CHARS_MAX] if line <= len(lines) and not is_sensitive(path) else ""
        return Neighbor(path, line, text, relation)


def _symbols_of(symbols: Sequence[StoredSymbol], span: LineSpan) -> list[StoredSymbol]:
    """Return the definitions that begin in a span, else the smallest one around it."""
    code = [symbol for symbol in symbols if symbol.kind != "section"]
    inside = [symbol for symbol in code if span.first <= symbol.line <= span.last]
    around = [symbol for symbol in code if symbol.first <= span.first and span.last <= symbol.last]
    return inside or sorted(around, key=lambda symbol: symbol.last - symbol.first)[:1]
