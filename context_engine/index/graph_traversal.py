"""Follow the symbol graph step by step from a symbol or a file, breadth first, each step with its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.index.symbol_graph import SymbolDefinition, SymbolGraph, SymbolUse
from context_engine.model import Edge
from context_engine.repo import path_of_listing

EVIDENCE_CHARS_MAX = 160
DEFINITIONS_FOLLOWED_MAX = 5
"""A name with more definitions than this is followed by name only, and a note says so."""


class GraphTraversal:
    """One trace of at most `depth` steps; it stops when `limit` edges are exceeded."""

    def __init__(self, graph: SymbolGraph, depth: int, limit: int) -> None:
        self._graph = graph
        self._depth = depth
        self._limit = limit
        self._edges: list[Edge] = []
        self._notes: list[str] = []

    def symbols(self, start: Sequence[SymbolDefinition], direction: str) -> tuple[list[Edge], tuple[str, ...]]:
        """Return callers, callees or impact of definitions.

        Impact: callers of callers, and importers of the defining files.
        """
        if len(start) > 1:
            places = ", ".join(f"{definition.path}:{definition.span.first}" for definition in start[:4])
            self._notes.append(f"{len(start)} definitions share this name ({places}...): uses are matched by name")
        if direction == "callees":
            self._callees(start[:DEFINITIONS_FOLLOWED_MAX])
        else:
            self._callers({definition.name for definition in start})
            self._notes.append("uses through variables, reflection or generated code cannot be seen")
        if direction == "impact":
            for path in sorted({definition.path for definition in start}):
                self._file_edges(path, "importers")
        return self._result()

    def files(self, path: str, direction: str) -> tuple[list[Edge], tuple[str, ...]]:
        """Return the imports or the importers of a file."""
        self._file_edges(path, direction)
        return self._result()

    def _callers(self, names: set[str]) -> None:
        seen, wave = set(names), sorted(names)
        for depth in range(1, self._depth + 1):
            found: set[str] = set()
            for name in wave:
                uses, truncated = self._graph.callers(name)
                if truncated:
                    self._notes.append(f"{name!r} occurs in too many files; only the first were searched")
                for use in uses:
                    self._add(use, use.source or use.path, name, depth)
                    if use.source:
                        found.add(use.source.rpartition(".")[2])
            wave = sorted(found - seen)
            seen |= found
            if not wave or len(self._edges) > self._limit:
                return

    def _callees(self, start: Sequence[SymbolDefinition]) -> None:
        seen = {(definition.path, definition.qualified) for definition in start}
        wave = list(start)
        for depth in range(1, self._depth + 1):
            following = []
            for defined in wave:
                for use in self._graph.callees(defined):
                    target = self._resolve_use(use)
                    if target is None:
                        continue
                    self._add(use, defined.qualified, f"{target.qualified} ({target.path}:{target.span.first})", depth)
                    if (target.path, target.qualified) not in seen:
                        seen.add((target.path, target.qualified))
                        following.append(target)
            wave = following
            if not wave or len(self._edges) > self._limit:
                return

    def _resolve_use(self, use: SymbolUse) -> SymbolDefinition | None:
        """Return the most likely definition of a use: in the same file, in an imported one, or the only one."""
        known = [definition for definition in self._graph.definitions(use.target) if definition.name == use.target]
        if not known:
            return None
        here = [definition for definition in known if definition.path == use.path]
        if here:
            return here[0]
        imported = {file for _, _, files in self._graph.imports(use.path) for file in files}
        near = [definition for definition in known if definition.path in imported]
        if near:
            return near[0]
        return known[0] if len(known) == 1 else None

    def _file_edges(self, path: str, direction: str) -> None:
        seen, wave = {path}, [path]
        for depth in range(1, self._depth + 1):
            following = []
            for at in wave:
                for source, target, line, other in self._steps(at, direction):
                    where = source if direction == "importers" else at
                    self._edges.append(
                        Edge(source, target, path_of_listing(where), line, self._line(where, line), depth)
                    )
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
        self._edges.append(
            Edge(source, target, path_of_listing(use.path), use.line, self._line(use.path, use.line), depth)
        )

    def _line(self, path: str, line: int) -> str:
        parsed = self._graph.parse(path)
        if parsed is None or not 1 <= line <= len(parsed.lines):
            return ""
        return parsed.lines[line - 1].strip()[:EVIDENCE_CHARS_MAX]

    def _result(self) -> tuple[list[Edge], tuple[str, ...]]:
        unique = dict.fromkeys(self._edges)
        return sorted(unique, key=lambda e: (e.depth, e.path, e.line, e.source, e.target)), tuple(
            dict.fromkeys(self._notes)
        )
