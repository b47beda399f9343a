"""The places that name a file as a module: imports of it, and in Python what its name is looked up in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename, splitext
from typing import NamedTuple

from context_engine.languages import SyntaxNode
from context_engine.references.nodes import NO_NODE, get, up
from context_engine.references.symbol_graph import SymbolGraph

IMPORT_LINES_MAX = 60
"""Lines from the start of an import to the string that names its file."""


class ModuleUse(NamedTuple):
    """A place at `start` in bytes where the name of a file, without its suffix, means the file, or may do so.

    `is_name`: the file is bound to a name there, which later lines use.
    """

    path: str
    start: int
    is_sure: bool
    is_name: bool = False


def find_module_uses(graph: SymbolGraph, path: str) -> list[ModuleUse]:
    """Return the places that mean a file in the code of its language."""
    language = graph.parses.languages.detect(path, graph.parses.load(path))
    find = _find_names if language is not None and language.renames.dotted_modules else _find_strings
    return sorted(set(find(graph, path, splitext(basename(path))[0])))


def _find_names(graph: SymbolGraph, path: str, stem: str) -> Iterator[ModuleUse]:
    for other in graph.paths_with_word(stem):
        file = graph.parses.syntax(other)
        if file is None or not file.language.renames.dotted_modules:
            continue
        imports = graph.imports(other)
        for node in file.find(stem):
            statement, binding = file.import_around(node), file.binding_of(node)
            alias = _find_alias(node)
            if statement is not None and alias:
                values = graph.finder.resolver.values(file, alias)
                is_meant = [value.kind == "module" and value.place.path == path for value in values]
                line = node.start_point[0] + 1
                is_possible = any(path in files for _, at, files in imports if at == line) and not values
                if any(is_meant) or is_possible:
                    yield ModuleUse(other, node.start_byte, bool(values) and all(is_meant))
                continue
            if statement is not None and (binding is None or binding.role != "import"):
                lines = range(statement.start_point[0] + 1, statement.end_point[0] + 2)
                rows = [files for target, line, files in imports if line in lines and target.split(".")[-1] == stem]
                if any(path in files for files in rows):
                    yield ModuleUse(other, node.start_byte, all(files == [path] for files in rows))
                continue
            is_looked_up = get(node, "<", "attribute") == node
            meaning = graph.finder.meaning(file, node)
            values = graph.finder.resolver.values(file, up(node) if is_looked_up else node)
            is_meant = [value.kind == "module" and value.place.path == path for value in values]
            is_unknown = is_looked_up and not values and not meaning.is_known
            if not meaning.places and (any(is_meant) or is_unknown):
                yield ModuleUse(other, node.start_byte, bool(values) and all(is_meant), binding is not None)


def _find_alias(node: SyntaxNode) -> SyntaxNode:
    """Return the name that `from module import name as alias` binds, if the node is the `name`."""
    aliased = get(node, "<", "<")
    return get(aliased, "alias") if get(aliased, "<import_from_statement") else NO_NODE


def _find_strings(graph: SymbolGraph, path: str, stem: str) -> Iterator[ModuleUse]:
    """Yield the strings of imports that mean a file; one that does not end with its name is not sure."""
    for other, target, line in graph.importers(path):
        data = graph.parses.load(other)
        starts = [0, *(found.end() for found in re.finditer(rb"\n", data))]
        first, last = starts[min(line, len(starts)) - 1], starts[min(line + IMPORT_LINES_MAX, len(starts)) - 1]
        written = re.compile(rb"(['\"`])" + re.escape(target.encode()) + rb"\1")
        found = written.search(data, first, last if last > first else len(data))
        if found is None:
            yield ModuleUse(other, first, is_sure=False)
            continue
        name = basename(target)
        is_sure = name == stem or name.startswith(f"{stem}.")
        yield ModuleUse(other, found.end() - 1 - len(name.encode()), is_sure)
