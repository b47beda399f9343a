"""Answers questions about names and imports: where a name is defined, who uses it, what a file imports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial

from context_engine.errors import CallError, SymbolNotFound
from context_engine.index import LiveIndex, ParsedFileCache, Snapshot, no_index
from context_engine.languages import PathIndex, Symbol
from context_engine.model import Definition, Direction, FileOutline, Found, RelPath, Trace
from context_engine.references.graph_traversal import GraphTraversal, NamedLine, Neighbor, NeighborFinder
from context_engine.references.indirect_symbols import find_inherited_symbols, find_symbols
from context_engine.references.module_uses import ModuleUse, find_module_uses
from context_engine.references.renames import RenameUses
from context_engine.references.scip.scip_edges import ExternalEdges
from context_engine.references.symbol_graph import SymbolDefinition, SymbolGraph
from context_engine.references.unused_definitions import describe_search, find_unused
from context_engine.repo import (
    JointService,
    Root,
    is_sensitive,
    is_under,
    path_of_listing,
    qualify,
    qualify_rows,
    read_file,
    size_and_mtime,
    walk,
)
from context_engine.text import LineSpan, count_lines, dotted_name, unique

IMPACT_DEPTH = 3
"""Levels of users that an impact follows: the functions that call what calls the users."""
SHIFTED_LINES_MAX = 50
"""A definition found within so many lines of its indexed place is taken for the same one."""


class SymbolService(JointService):
    """The definitions, uses and imports of one workspace, or of several, each by itself. Thread-safe."""

    def __init__(self, root: Root, live: LiveIndex, parses: ParsedFileCache, edges: ExternalEdges) -> None:
        self._root = root
        self._edges = edges
        self._live = live
        self._parses = parses
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._graph: tuple[Snapshot, SymbolGraph] | None = None

    # -- definitions --

    def find(self, name: str, *, kind: str | None = None, path: str | None = None, limit: int = 20) -> Found:
        """Find where a name is defined: exact, qualified or a glob. Raises: NotIndexed, InvalidPath."""
        if self.joined:
            found = self.ask_owners([path or ""], lambda one, own: one.find(name, kind=kind, path=own[0], limit=limit))
            return self._join_found(found, name, limit)
        freshness = self._live.refresh()
        graph = self._newest_graph()
        if path in (None, "", "."):
            under = ""
        else:
            under = str(self._root.rel(path))
        defined = graph.definitions(name, kind=kind, under=under) or find_inherited_symbols(graph, name)
        near = () if defined else tuple(graph.near_names(name))
        shown = tuple(self._definition(graph, one) for one in defined[:limit])
        return Found(shown, len(defined), near, freshness)

    def outline(self, path: str, *, details: bool = True) -> FileOutline:
        """Outline one file as it is now; without `details`, in little time, definitions have no signature and no doc.

        Raises: InvalidPath, FileNotFound, BinaryFile, TooLarge, AccessDenied.
        """
        if self.joined:
            name, owner, own_path = self.find_owner(path)
            return qualify(name, owner.outline(own_path, details=details))
        rel = self._root.rel(path)
        source = read_file(self._root, rel)
        language = self._parses.languages.detect(rel, source.data)
        lines = count_lines(source.text)
        outlines = None if details or not self._live.snapshot() else self._newest_graph()
        stored = outlines.outline(rel, source.sha256) if outlines else None
        found, qualified = stored or self._parses.outline(rel, details=details)
        if language is None:
            return FileOutline(rel, "text", lines, (), (), ())
        symbols = []
        depths: list[int] = []
        for number, symbol in enumerate(found.symbols):
            depths.append(depths[symbol.parent] + 1 if symbol.parent >= 0 else 0)
            symbols.append((depths[-1], _definition_of(rel, language.name, symbol, qualified[number])))
        imports = tuple((entry.target, entry.line) for entry in found.imports)
        problems = tuple((problem.line, problem.title) for problem in found.problems)
        return FileOutline(rel, language.name, lines, tuple(symbols), imports, problems)

    # -- uses and imports --

    def trace(
        self,
        target: str,
        direction: Direction = "callers",
        *,
        under: str = "",
        depth: int | None = None,
        limit: int = 100,
        with_possible: bool = False,
    ) -> Trace:
        """Trace who uses or is used by a symbol, or who imports or is imported by a file, with path:line evidence.

        The symbol is defined `under` a file or a folder, if one is given. The depth is 1 if none is given, and
        `IMPACT_DEPTH` for an impact. Uses that may mean something else are counted, and listed `with_possible`.
        Raises: SymbolNotFound (with near names), FileNotFound, NotIndexed.
        """
        if self.joined:
            ask = partial(SymbolService.trace, direction=direction, depth=depth, with_possible=with_possible)
            if under:
                traces = self.ask_owners([under], lambda one, own: ask(one, target, under=own[0], limit=limit))
            else:
                traces = self.ask_owners([target], lambda one, own: ask(one, own[0] or target, limit=limit))
            return replace(self._join_traces(traces, limit), target=target)
        freshness = self._live.refresh()
        graph = self._newest_graph()
        if direction == "unused":
            return self._trace_unused(graph, target, limit, freshness)
        as_path = self._as_file(graph, target)
        steps = depth or (IMPACT_DEPTH if direction == "impact" and not as_path else 1)
        tracer = GraphTraversal(graph, steps, limit, with_possible=with_possible)
        with self._question(graph):
            if direction in ("imports", "importers"):
                edges, notes = tracer.files(self._file_of(graph, target, freshness), direction)
            elif as_path and direction == "impact":
                edges, notes = tracer.files(as_path, "importers")
            else:
                defined, found_by = find_symbols(graph, target)
                folder = str(self._root.rel(under)) if under else ""
                defined = [one for one in defined if is_under(one.path, folder)]
                if not defined:
                    raise _unknown_symbol(target, graph.near_names(target), freshness)
                # those that are spelled as the best one: a constructor is part of its class
                edges, notes = tracer.symbols([one for one in defined if one.name == defined[0].name], direction)
                notes = (*found_by, *notes)
            notes = (*notes, *self._edges.notes())
        shown = tuple(edges[:limit])
        tests = tracer.tests() if direction == "impact" else ()
        return Trace(target, direction, shown, len(edges) > limit, notes, freshness, tracer.possible, tests)

    @contextmanager
    def renames(self) -> Generator[RenameUses]:
        """Give what answers the questions of a rename about the files as they are now. Raises: NotIndexed."""
        graph = self._fresh_graph()
        with self._question(graph):
            yield RenameUses(graph)

    def find_module_uses(self, path: str) -> list[ModuleUse]:
        """Return the places that mean a file in code of its language. Raises: NotIndexed."""
        graph = self._fresh_graph()
        with self._question(graph):
            return find_module_uses(graph, path)

    def dependencies(self, path: str) -> tuple[RelPath, ...]:
        """List the files of this workspace that a file imports, in the order of its imports; works without an index.

        Raises: InvalidPath, AccessDenied, FileNotFound.
        """
        rel = self._root.rel(path)
        imports = self._parses.imports(rel, self.paths())
        found = dict.fromkeys(file for _, _, meant in imports for file in meant if not is_sensitive(file))
        return tuple(map(path_of_listing, found))

    def importers(self, path: str) -> tuple[RelPath, ...]:
        """List the files whose indexed imports mean this file: quick, where `trace` is thorough. Raises: NotIndexed."""
        found = self._newest_graph().importers_as_indexed(str(self._root.rel(path)))
        return tuple(path_of_listing(file) for file in found if not is_sensitive(file))

    def neighbors(self, path: str, span: LineSpan) -> list[Neighbor]:
        """List a few definitions that lines of a file use, and some that use them. Raises: NotIndexed.

        This, `importers` and `files_named` follow a question that has looked for edits, so they do not look again.
        """
        if self.joined:
            name, owner, own_path = self.find_owner(path)
            return [qualify(name, neighbor) for neighbor in owner.neighbors(own_path, span)]
        return self._neighbor_finder().find(str(self._root.rel(path)), span)

    def mentions(self, name: str) -> list[NamedLine]:
        """List the lines that have a name as a word, by file; none of one that very many places have.

        Raises: NotIndexed.
        """
        if self.joined:
            return qualify_rows(self.ask_owners([name], lambda one, own: one.mentions(own[0] or name)))
        return self._neighbor_finder().list_mentions(name)

    def _neighbor_finder(self) -> NeighborFinder:
        graph = self._newest_graph()
        return NeighborFinder(graph, cache(graph.parses.lines), cache(graph.stored_outline))

    def files_named(self, *names: str) -> tuple[RelPath, ...]:
        """List the files whose path ends with the components of a name, sorted; works without an index."""
        if self.joined:
            return tuple(qualify_rows(self.ask_owners(names, lambda one, own: one.files_named(*own))))
        paths = self._paths(self._newest_graph)
        found = {path for name in names if (ending := name.strip("/")) for path in paths.by_suffix(ending)}
        return tuple(path_of_listing(file) for file in sorted(found) if not is_sensitive(file))

    def paths(self) -> PathIndex:
        """Return the files of the index, or those that a walk finds while there is no complete index."""
        return self._paths(self._fresh_graph)

    def _paths(self, find_graph: Callable[[], SymbolGraph]) -> PathIndex:
        if self._live.snapshot() is None or self._live.is_building:
            return PathIndex(entry.path for entry in walk(self._root.path, [""]).entries)
        return find_graph().paths

    def forget(self) -> None:
        """Release the graph of an index that is about to be deleted."""
        with self._lock:
            self._graph = None

    def close(self) -> None:
        """Close the edges of other tools."""
        self._edges.close()

    # -- several repositories --

    def _join_found(self, found: Mapping[str, Found], name: str, limit: int) -> Found:
        """Return what was found in some repositories, in the order of one: of that very name, then shallower first."""
        last = dotted_name(name).strip(".").rpartition(".")[2]
        rows = qualify_rows({project: one.definitions for project, one in found.items()})
        rows.sort(key=lambda row: (row.name != last, row.qualified.count(".")))
        near = [] if rows else unique(name for one in found.values() for name in one.near)
        freshness = self.join_freshness({project: one.freshness for project, one in found.items()})
        return Found(tuple(rows[:limit]), sum(one.total for one in found.values()), tuple(near), freshness)

    def _join_traces(self, traces: Mapping[str, Trace], limit: int) -> Trace:
        """Return the traces in some repositories, of which none leaves its own."""
        edges = qualify_rows({name: one.edges for name, one in traces.items()})
        return replace(
            next(iter(traces.values())),
            edges=tuple(edges[:limit]),
            truncated=len(edges) > limit or any(one.truncated for one in traces.values()),
            notes=tuple(unique(note for one in traces.values() for note in one.notes)),
            freshness=self.join_freshness({name: one.freshness for name, one in traces.items()}),
            possible=sum(one.possible for one in traces.values()),
            tests=tuple(qualify_rows({name: one.tests for name, one in traces.items()})),
        )

    # -- the graph --

    @contextmanager
    def _question(self, graph: SymbolGraph) -> Generator[None]:
        """Answer one question at a time, on the files as they are at its start."""
        with self._asking, self._parses.question():
            self._edges.begin(graph.as_edge_project(self._mtime_ns))
            yield

    def _mtime_ns(self, path: str) -> int | None:
        stamp = size_and_mtime(str(self._root.absolute(path)))
        return stamp[1] if stamp is not None else None

    def _fresh_graph(self) -> SymbolGraph:
        """Return the graph of the newest snapshot after a look for edits."""
        self._live.refresh()
        return self._newest_graph()

    def _newest_graph(self) -> SymbolGraph:
        """Return the graph of the newest snapshot, kept until there is another."""
        snapshot = self._live.snapshot()
        if snapshot is None:
            raise no_index()
        with self._lock:
            if self._graph is None or self._graph[0] is not snapshot:
                self._graph = snapshot, SymbolGraph(snapshot, self._parses, self._edges)
            return self._graph[1]

    def _trace_unused(self, graph: SymbolGraph, target: str, limit: int, freshness: str) -> Trace:
        """Return the definitions in a file or a folder that nothing uses."""
        under = "" if target in ("", ".") else str(self._root.rel(target))
        with self._question(graph):
            search = find_unused(graph, under, limit)
        notes = tuple(describe_search(search))
        is_cut = len(search.steps) > limit or not search.is_complete
        return Trace(target, "unused", tuple(search.steps[:limit]), is_cut, notes, freshness)

    def _file_of(self, graph: SymbolGraph, target: str, freshness: str) -> str:
        """Return a path as given, or the file that defines a symbol."""
        path = self._as_file(graph, target)
        if path:
            return path
        defined = graph.definitions(target)
        if not defined:
            raise _unknown_symbol(target, graph.near_names(target), freshness)
        return defined[0].path

    def _as_file(self, graph: SymbolGraph, target: str) -> str:
        try:
            rel = self._root.rel(target)
        except CallError:
            if "/" in target:
                raise
            return ""
        if rel in graph.paths:
            return str(rel)
        return ""

    def _definition(self, graph: SymbolGraph, defined: SymbolDefinition) -> Definition:
        """Return a definition with its signature and doc line, read from the file as it is now."""
        outline, qualified = graph.parses.outline(defined.path, details=True)
        path = self._root.rel(defined.path, must_exist=False)
        for symbol, full in zip(outline.symbols, qualified, strict=True):
            is_same = (full, symbol.name) == (defined.qualified, defined.name)
            if is_same and abs(symbol.first - defined.span.first) < SHIFTED_LINES_MAX:
                return _definition_of(path, defined.language, symbol, defined.qualified)
        return Definition(defined.name, defined.qualified, defined.kind, path, defined.span, "", "", defined.language)


def _definition_of(path: RelPath, language: str, symbol: Symbol, qualified: str) -> Definition:
    doc = symbol.doc.strip().split("\n", 1)[0]
    span = LineSpan(symbol.first, symbol.last)
    return Definition(symbol.name, qualified, symbol.kind, path, span, symbol.signature, doc, language)


def _unknown_symbol(target: str, near: Sequence[str], freshness: str) -> SymbolNotFound:
    known = f"what is indexed so far: {freshness}" if "building" in freshness else "this workspace"
    return SymbolNotFound(
        f"nothing named {target!r} is defined in {known}",
        suggestion=f"did you mean {' or '.join(near)}?" if near else "search_code looks for it in the text",
        details={"near": list(near)},
    )
