"""Traces: from a definition along its uses, or from a file along imports, step by step, each with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from context_engine.index.file_roles import role_of
from context_engine.index.symbol_graph import FILES_PARSED_MAX, SymbolDefinition, SymbolGraph, SymbolUse
from context_engine.model import Edge
from context_engine.repo import path_of_listing

EVIDENCE_CHARS_MAX = 160
DEFINITIONS_FOLLOWED_MAX = 5
"""Definitions of one name whose callees are listed."""
FOLLOWED = frozenset({"function", "method", "constructor", "macro"})
"""Kinds whose own uses are the next step: what happens in them happens where they are called."""
CERTAINTIES = ("exact", "likely", "possible")
USED = frozenset({"call", "type", "read"})
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
            self._notes.append(f"{len(start)} definitions share this name ({places}...): name one with its owner")
        if direction == "callees":
            self._callees(start[:DEFINITIONS_FOLLOWED_MAX])
        elif direction in ("implementations", "hierarchy"):
            if direction == "hierarchy":
                self._supertypes(start)
            self._implementations(start)
        elif direction == "impact":
            self._impact(start)
            self._notes.append("uses through reflection, strings or generated code cannot be seen")
        else:
            if direction == "references":
                kinds = USED | {"import", "definition"}
            else:
                kinds = USED
            self._callers(start, kinds)
            self._notes.append("uses through reflection, strings or generated code cannot be seen")
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

        There is one step for each definition that uses them; tests are named once, as the tests to run.
        """
        self._is_impact = True
        self._implementations([one for one in start if one.kind not in ("function", "variable", "constant", "field")])
        seen = {(one.path, one.qualified) for one in start}
        wave = list(start)
        shown = len(self._edges)
        for depth in range(1, self._depth + 1):
            users = self._users(wave, depth, seen)
            following: list[SymbolDefinition] = []
            for uses in users:
                self._edges.append(_as_step(uses, depth))
                is_test = role_of(uses[0].path, "code") == "test"
                shown += not is_test
                if not is_test and uses[0].source:
                    around = self._graph.definition_around(uses[0])
                else:
                    around = None
                following += [around] if around is not None and around.kind in FOLLOWED else []
            if len(following) > IMPACT_WIDTH:
                self._notes.append(f"level {depth + 1} follows the {IMPACT_WIDTH} definitions with the most uses")
            wave = following[:IMPACT_WIDTH]
            if not wave or shown >= IMPACT_STEPS:
                if wave and depth < self._depth:
                    self._notes.append(f"level {depth} has enough to look at: ask for one of its steps to go on")
                return

    def _users(self, wave: Sequence[SymbolDefinition], depth: int, seen: set[tuple[str, str]]) -> list[list[SymbolUse]]:
        """Return the uses of a level in groups by the definition that has them, those with the most uses first."""
        groups: dict[tuple[str, str], list[SymbolUse]] = {}
        if depth == 1:
            files_max = FILES_PARSED_MAX
        else:
            files_max = IMPACT_FILES_MAX
        for use in self._uses(wave, files_max):
            if use.kind not in USED:
                continue
            if use.certainty == "possible":
                self.possible += depth == 1
                if depth > 1 or not self._with_possible:
                    continue
            if (use.path, use.source) not in seen:
                groups.setdefault((use.path, use.source), []).append(use)
        seen.update(groups)
        return sorted(groups.values(), key=lambda uses: (-len(uses), uses[0].path, uses[0].line))

    def _callers(self, start: Sequence[SymbolDefinition], kinds: frozenset[str]) -> None:
        seen = {(one.path, one.qualified) for one in start}
        wave = list(start)
        for depth in range(1, self._depth + 1):
            following: list[SymbolDefinition] = []
            for use in self._uses(wave):
                if use.kind not in kinds:
                    continue
                if use.certainty == "possible":
                    self.possible += depth == 1
                    if depth > 1 or not self._with_possible:
                        continue
                self._add(use, use.source or use.path, use.target, depth)
                if use.source and use.certainty != "possible" and (use.path, use.source) not in seen:
                    seen.add((use.path, use.source))
                    around = self._graph.definition_around(use)
                    following += [around] if around is not None and around.kind in FOLLOWED else []
            wave = following
            if not wave or len(self._edges) > self._limit:
                return

    def _uses(self, wave: Sequence[SymbolDefinition], files_max: int = FILES_PARSED_MAX) -> list[SymbolUse]:
        uses, truncated = self._graph.uses(wave, files_max)
        if truncated:
            names = ", ".join(sorted({definition.name for definition in wave})[:3])
            self._notes.append(f"{names}: a name occurs in too many files; only the first were searched")
        return uses

    def _supertypes(self, start: Sequence[SymbolDefinition]) -> None:
        for definition in start[:DEFINITIONS_FOLLOWED_MAX]:
            for above, below in self._graph.supertypes(definition):
                path = path_of_listing(above.path)
                evidence = f"base of {below}"
                self._edges.append(Edge(above.qualified, below, path, above.line, evidence, 1, "definition"))

    def _implementations(self, start: Sequence[SymbolDefinition]) -> None:
        for definition in start[:DEFINITIONS_FOLLOWED_MAX]:
            for below, base in self._graph.implementations(definition, self._depth):
                path = path_of_listing(below.path)
                self._edges.append(Edge(below.qualified, base, path, below.line, "", 1, "definition"))

    def _callees(self, start: Sequence[SymbolDefinition]) -> None:
        seen = {(definition.path, definition.qualified) for definition in start}
        wave = list(start)
        for depth in range(1, self._depth + 1):
            following = []
            for defined in wave:
                for use, target in self._graph.callees(defined):
                    self._add(use, defined.qualified, f"{target.qualified} ({target.path}:{target.span.first})", depth)
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

    def _add(self, use: SymbolUse, source: str, target: str, depth: int) -> None:
        path = path_of_listing(use.path)
        self._edges.append(Edge(source, target, path, use.line, "", depth, use.kind, use.certainty, via=use.via))

    def _hides(self, edge: Edge) -> bool:
        """Whether a step is only named as a test to run."""
        return self._is_impact and role_of(edge.path, "code") == "test"

    def _line(self, path: str, line: int) -> str:
        if path not in self._lines:
            self._lines[path] = self._graph.lines(path)
        lines = self._lines[path]
        if 1 <= line <= len(lines):
            return lines[line - 1].strip()[:EVIDENCE_CHARS_MAX]
        return ""

    def _result(self) -> tuple[list[Edge], tuple[str, ...]]:
        unique = {(edge.depth, edge.path, edge.line, edge.source, edge.target): edge for edge in reversed(self._edges)}
        kept = [unique[key] for key in sorted(unique) if not self._hides(unique[key])][: self._limit + 1]
        edges = [replace(edge, evidence=self._line(edge.path, edge.line)) for edge in kept]
        return edges, tuple(dict.fromkeys(self._notes))


def _as_step(uses: Sequence[SymbolUse], depth: int) -> Edge:
    """Return one step for the uses in one definition, at the first of the most certain ones."""
    best = min(uses, key=lambda use: (CERTAINTIES.index(use.certainty), use.line))
    path = path_of_listing(best.path)
    source = best.source or best.path
    return Edge(source, best.target, path, best.line, "", depth, best.kind, best.certainty, len(uses), best.via)
