"""Definitions that nothing in the project uses.

Precise rather than complete. A definition is left out for whatever could hide a use: it has a decorator or an
attribute, its class has a base that is not in the project, it is a test or an entry point, or its name is in a string,
in a file without rules of resolution, or behind a receiver that is not known. Public ones are left out as well: other
projects, a registry or a framework may use them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from context_engine.index import role_of
from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.model import Edge
from context_engine.references.nodes import up
from context_engine.references.symbol_graph import SymbolDefinition, SymbolGraph
from context_engine.repo import path_of_listing

KINDS = frozenset({"function", "method", "class", "struct", "enum", "interface", "type", "constructor"})
ENTRY_POINTS = frozenset({"main", "init", "Main", "setUp", "tearDown", "setup", "teardown"})
FILES_MAX = 60
"""Files that contain a name; one in more is not looked at."""
SECONDS_MAX = 20.0
HEAD_LINES_MAX = 8
_BY_NAME = re.compile(
    rb"\bgetattr[ \t]{0,9}\([^,()]{1,80},[ \t]{0,9}(?![\"']\w*[\"'][ \t]{0,9}[,)])"
    rb"|\bglobals[ \t]{0,9}\(|\b__dict__\b|\bvars[ \t]{0,9}\("
)
"""A look-up of a name that is computed."""
_MARKED = re.compile(r"^[ \t]{0,80}(?:@|#\[|\[[A-Z]\w*)")
"""A decorator, an annotation or an attribute on a line of its own, or before a definition."""


class UnusedSearch(NamedTuple):
    """The definitions that were found, and how many were left out because something could hide a use."""

    steps: list[Edge]
    uncertain: int
    is_complete: bool


def find_unused(
    graph: SymbolGraph,
    under: str,
    limit: int,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> UnusedSearch:
    """Return the unused definitions in a file or a folder, at most one more than the limit, in file order."""
    ends = clock() + SECONDS_MAX
    is_dynamic = any(_BY_NAME.search(graph.parses.load(path)) for path in graph.paths_under("") if path.endswith(".py"))
    steps: list[Edge] = []
    uncertain = 0
    for path in graph.paths_under(under):
        if role_of(path, "code") != "source":
            continue
        for definition in _candidates(graph, path):
            if is_dynamic and path.endswith(".py") and definition.kind == "method":
                continue
            if len(steps) > limit or clock() > ends:
                return UnusedSearch(steps, uncertain, is_complete=False)
            verdict = _verdict(graph, definition)
            if verdict is None:
                uncertain += 1
            elif verdict:
                steps.append(_as_step(graph, definition))
    return UnusedSearch(steps, uncertain, is_complete=True)


def _as_step(graph: SymbolGraph, definition: SymbolDefinition) -> Edge:
    lines = graph.parses.lines(definition.path)
    written = lines[definition.line - 1] if 0 < definition.line <= len(lines) else ""
    path = path_of_listing(definition.path)
    return Edge(definition.qualified, definition.kind, path, definition.line, written.strip(), 1, "definition")


# -- candidates -------------------------------------------------------------------------------------------------------


def _candidates(graph: SymbolGraph, path: str) -> Iterator[SymbolDefinition]:
    """Yield the definitions of a file that nothing outside of the project can use."""
    file = graph.parses.syntax(path)
    if file is None:
        return
    style = graph.finder.resolver.style(file)
    lines = file.data.decode("utf-8", "replace").split("\n")
    for definition in {(one.qualified, one.kind): one for one in graph.definitions_of(path)}.values():
        if definition.kind in KINDS and _is_nameable(definition):
            head = "\n".join(lines[definition.span.first - 1 : definition.line][:HEAD_LINES_MAX])
            head = head[: head.rfind(definition.name)]
            above = lines[definition.span.first - 2] if definition.span.first > 1 else ""
            is_marked = any(map(_MARKED.match, (*head.split("\n"), above)))
            if style.is_private(file, definition, head) and not is_marked and not _is_misread(file, definition):
                yield definition


def _is_misread(file: SyntaxFile, definition: SymbolDefinition) -> bool:
    """Whether the parser could not read what declares a definition."""
    for node in file.find(definition.name):
        binding = file.binding_of(node) if node.start_point[0] + 1 == definition.line else None
        if binding is not None:
            return binding.statement.has_error
    return True


def _is_nameable(definition: SymbolDefinition) -> bool:
    """Whether uses have the name: not a constructor, a special method, an entry point or a placeholder."""
    name, owner = definition.name, definition.qualified.rpartition(".")[0].rpartition(".")[2]
    is_special = name.startswith("__") or not name.strip("_") or name in ENTRY_POINTS
    return name.isidentifier() and not is_special and name not in (owner, "constructor", "initialize")


# -- uses -------------------------------------------------------------------------------------------------------------


def _verdict(graph: SymbolGraph, definition: SymbolDefinition) -> bool | None:
    """Whether a definition is unused; None if something could hide a use."""
    if _has_use(graph, definition, [definition.path]):
        return False
    files = graph.paths_with_word(definition.name)
    if len(files) > FILES_MAX or _has_use(graph, definition, [path for path in files if path != definition.path]):
        return False
    if _names_a_member_of_others(graph, definition) or any(_could_use(graph, path, definition) for path in files):
        return None
    return True


def _names_a_member_of_others(graph: SymbolGraph, definition: SymbolDefinition) -> bool:
    """Whether a method may be called as one of another class: one that it inherits, or one of the same name."""
    place = next(iter(graph.places_of([definition])), None)
    file = graph.parses.syntax(definition.path)
    if place is None or file is None:
        return True
    if not graph.finder.is_member(place):
        return False
    if graph.finder.members_named(definition.name) - {place} or definition.name in file.rules.common:
        return True
    return bool(graph.finder.find_overridden(definition.name, place)) or graph.finder.has_unknown_base(place)


def _has_use(graph: SymbolGraph, definition: SymbolDefinition, paths: list[str]) -> bool:
    uses = graph.uses_in_files([definition], paths)
    return any(not _is_inside(definition, use.path, use.line) for use in uses if use.kind != "definition")


def _is_inside(definition: SymbolDefinition, path: str, line: int) -> bool:
    """Whether a use is in the definition itself: a recursion."""
    return path == definition.path and definition.span.first <= line <= definition.span.last


def _could_use(graph: SymbolGraph, path: str, definition: SymbolDefinition) -> bool:
    """Whether a file has a name in a way that may be a use which is not resolved: in a string, or in other text."""
    file = graph.parses.syntax(path)
    if file is None:
        return role_of(path, "documentation") != "docs" and not path.endswith((".md", ".rst", ".txt"))
    for start, stop in file.words(definition.name):
        node = file.node_at(start, stop)
        line = file.position_of(start)[0]
        if _is_inside(definition, path, line):
            continue
        if node is not None and not _is_comment(node) and not _means_another(graph, file, node, definition):
            return True
    return False


def _means_another(graph: SymbolGraph, file: SyntaxFile, node: SyntaxNode, definition: SymbolDefinition) -> bool:
    """Whether a place of a name defines it, or means another definition of the project."""
    if not file.is_identifier(node):
        return False
    if file.binding_of(node) is not None:
        return True
    own = graph.places_of([definition])
    places = graph.finder.meaning(file, node).places
    return bool(places) and not set(own) & set(places)


def _is_comment(node: SyntaxNode) -> bool:
    return any("comment" in one.type for one in (node, up(node), up(up(node))))


def describe_search(search: UnusedSearch) -> Sequence[str]:
    """Return the notes of an answer."""
    notes = ["left out: public ones, those with a decorator or a base of a library, and names in strings"]
    if search.uncertain:
        notes.append(f"{search.uncertain} more have no use that is certain, but something could hide one")
    if not search.is_complete:
        notes.append("the search stopped early: name a folder")
    return tuple(notes)
