"""Answers questions about names and imports: where a name is defined, who uses it, what a file imports."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from context_engine.errors import CallError, NotIndexed, SymbolNotFound
from context_engine.index.live_index import LiveIndex
from context_engine.index.snapshot import Snapshot
from context_engine.index.symbol_graph import ParsedFileCache, SymbolDefinition, SymbolGraph, SymbolUse
from context_engine.languages import PathIndex, Symbol
from context_engine.model import Definition, Direction, Edge, FileOutline, Found, RelPath, Trace
from context_engine.repo import Root, is_sensitive, path_of_listing, read_file, walk_paths
from context_engine.text import LineSpan, count_lines

SHIFTED_LINES_MAX = 50
"""A definition found within so many lines of its indexed place is taken for the same one."""


class SymbolService:
    """The definitions, uses and imports of one workspace. Thread-safe."""

    def __init__(self, root: Root, live: LiveIndex, parses: ParsedFileCache) -> None:
        self._root = root
        self._live = live
        self._parses = parses
        self._lock = threading.Lock()
        self._graph: tuple[Snapshot, SymbolGraph] | None = None

    # -- definitions --

    def find(self, name: str, *, kind: str | None = None, path: str | None = None, limit: int = 20) -> Found:
        """Find where a name is defined: exact, qualified or a glob. Raises: NotIndexed, InvalidPath."""
        graph = self._fresh_graph()
        under = "" if path in (None, "", ".") else str(self._root.rel(path))
        found = graph.definitions(name, kind=kind, under=under)
        near = () if found else tuple(graph.near_names(name))
        shown = tuple(self._definition(graph, defined) for defined in found[:limit])
        return Found(shown, len(found), near, self._live.describe_freshness())

    def outline(self, path: str) -> FileOutline:
        """Outline one file as it is now. Raises: InvalidPath, FileNotFound, BinaryFile, TooLarge, AccessDenied."""
        rel = self._root.rel(path)
        source = read_file(self._root, rel)
        language = self._parses.languages.detect(rel, source.text.encode("utf-8", "replace"))
        parsed = self._parses.parse(rel)
        lines = count_lines(source.text)
        if parsed is None or language is None:
            return FileOutline(rel, language.name if language else "text", lines, (), (), ())
        symbols = []
        depths: list[int] = []
        for number, symbol in enumerate(parsed.outline.symbols):
            depths.append(depths[symbol.parent] + 1 if symbol.parent >= 0 else 0)
            symbols.append((depths[-1], _definition_of(rel, language.name, symbol, parsed.qualified[number])))
        imports = tuple((entry.target, entry.line) for entry in parsed.outline.imports)
        problems = tuple((problem.line, problem.title) for problem in parsed.outline.problems)
        return FileOutline(rel, language.name, lines, tuple(symbols), imports, problems)

    # -- uses and imports --

    def trace(self, target: str, direction: Direction = "callers", *, depth: int = 1, limit: int = 100) -> Trace:
        """Trace who uses or is used by a symbol, or who imports or is imported by a file, with path:line evidence.

        Raises: SymbolNotFound (with near names), FileNotFound, NotIndexed.
        """
        graph = self._fresh_graph()
        tracer = GraphTraversal(graph, depth, limit)
        if direction in ("imports", "importers"):
            edges, notes = tracer.files(self._file_of(graph, target), direction)
        else:
            as_path = self._as_file(graph, target)
            if as_path and direction == "impact":
                edges, notes = tracer.files(as_path, "importers")
            else:
                defined = graph.definitions(target)
                if not defined:
                    raise _unknown_symbol(target, graph.near_names(target))
                edges, notes = tracer.symbols(defined, direction)
        return Trace(
            target, direction, tuple(edges[:limit]), len(edges) > limit, notes, self._live.describe_freshness()
        )

    def dependencies(self, path: str) -> tuple[RelPath, ...]:
        """List the files of this workspace that a file imports, in the order of its imports; works without an index.

        Raises: InvalidPath, AccessDenied, FileNotFound.
        """
        rel = self._root.rel(path)
        imports = self._parses.imports(rel, self.paths())
        found = dict.fromkeys(file for _, _, meant in imports for file in meant if not is_sensitive(file))
        return tuple(self._root.rel(file, must_exist=False) for file in found)

    def importers(self, path: str) -> tuple[RelPath, ...]:
        """List the files whose indexed imports mean this file: quick, where `trace` is thorough. Raises: NotIndexed."""
        found = self._fresh_graph().importers_as_indexed(str(self._root.rel(path)))
        return tuple(self._root.rel(file, must_exist=False) for file in found if not is_sensitive(file))

    def files_named(self, name: str) -> tuple[RelPath, ...]:
        """List the files whose path ends with these components, sorted; works without an index."""
        ending = name.strip("/")
        found = sorted(self.paths().by_suffix(ending)) if ending else []
        return tuple(self._root.rel(file, must_exist=False) for file in found if not is_sensitive(file))

    def paths(self) -> PathIndex:
        """Return the files of the index, or those that a walk finds while there is no complete index."""
        if self._live.snapshot() is None or self._live.is_building:
            return PathIndex(entry.path for entry in walk_paths(self._root.path, [""]).entries)
        return self._fresh_graph().paths

    def forget(self) -> None:
        """Release the graph of an index that is about to be deleted."""
        with self._lock:
            self._graph = None

    # -- the graph --

    def _fresh_graph(self) -> SymbolGraph:
        """Return the graph of the newest snapshot, kept until there is another."""
        self._live.refresh()
        snapshot = self._live.snapshot()
        if snapshot is None:
            raise no_index()
        with self._lock:
            if self._graph is None or self._graph[0] is not snapshot:
                self._graph = snapshot, SymbolGraph(snapshot, self._parses)
            return self._graph[1]

    def _file_of(self, graph: SymbolGraph, target: str) -> str:
        """Return a path as given, or the file that defines a symbol."""
        path = self._as_file(graph, target)
        if path:
            return path
        defined = graph.definitions(target)
        if not defined:
            raise _unknown_symbol(target, graph.near_names(target))
        return defined[0].path

    def _as_file(self, graph: SymbolGraph, target: str) -> str:
        try:
            rel = self._root.rel(target)
        except CallError:
            if "/" in target:
                raise
            return ""
        return str(rel) if rel in graph.paths else ""

    def _definition(self, graph: SymbolGraph, defined: SymbolDefinition) -> Definition:
        """Return a definition with its signature and doc line, read from the file as it is now."""
        parsed = graph.parse(defined.path)
        path = self._root.rel(defined.path, must_exist=False)
        for number, symbol in enumerate(parsed.outline.symbols if parsed else ()):
            is_same = parsed and symbol.name == defined.name and parsed.qualified[number] == defined.qualified
            if is_same and abs(symbol.first - defined.span.first) < SHIFTED_LINES_MAX:
                return _definition_of(path, defined.language, symbol, defined.qualified)
        return Definition(defined.name, defined.qualified, defined.kind, path, defined.span, "", "", defined.language)


def no_index() -> NotIndexed:
    """Return the error of a question that only an index can answer."""
    return NotIndexed("this workspace has no index yet", suggestion="call index_workspace (at a terminal: ctx index)")


def _definition_of(path: RelPath, language: str, symbol: Symbol, qualified: str) -> Definition:
    doc = symbol.doc.strip().split("\n", 1)[0]
    span = LineSpan(symbol.first, symbol.last)
    return Definition(symbol.name, qualified, symbol.kind, path, span, symbol.signature, doc, language)


def _unknown_symbol(target: str, near: Sequence[str]) -> SymbolNotFound:
    return SymbolNotFound(
        f"nothing named {target!r} is defined in this workspace",
        suggestion=f"did you mean {' or '.join(near)}?" if near else "search for it with codebase_retrieval",
        details={"near": list(near)},
    )


# -- traces ----------------------------------------------------------------------------------------------------------


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
