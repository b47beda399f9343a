"""Symbols that no outline has under the name that was asked for, and calls that do not name what they call.

`Pool.close` may be a method that `Pool` inherits; `config.timeout` a key of an object; `super().__init__()` and
`super(...)` call the constructor of a base.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.nodes import NO_NODE, get, up
from context_engine.references.reference_finder import SymbolUse
from context_engine.references.symbol_graph import CALLABLE, CLASS_LIKE, SymbolDefinition, SymbolGraph
from context_engine.text import LineSpan, dotted_name

FILES_MAX = 100
"""Files in which a key is looked for; one that is in more is too common to name anything."""
CONSTRUCTORS = ("__init__", "constructor", "__construct", "initialize")
OBJECTS = ("pair", "object", "assignment_expression", "variable_declarator", "export_statement")


def find_symbols(graph: SymbolGraph, pattern: str) -> tuple[list[SymbolDefinition], list[str]]:
    """Return what a name means, and a sentence if that is not a definition of its own."""
    if found := graph.definitions(pattern):
        return found, []
    if found := find_inherited_symbols(graph, pattern):
        places = ", ".join(f"{one.qualified} ({one.path}:{one.line})" for one in found[:3])
        return found, [f"{pattern} is inherited: these are the uses of {places}"]
    return find_bound_members(graph, pattern), []


def find_inherited_symbols(graph: SymbolGraph, pattern: str) -> list[SymbolDefinition]:
    """Return the definitions that a class inherits under a name such as `Pool.close`, those of the nearest base."""
    owner, _, name = dotted_name(pattern).strip(".").rpartition(".")
    found: dict[tuple[str, int], SymbolDefinition] = {}
    for holder in graph.definitions(owner) if owner and name.isidentifier() else ():
        places = graph.places_of([holder]) if holder.kind in CLASS_LIKE else []
        inherited = graph.finder.find_in_classes(name, places)
        for definition in filter(None, map(graph.definition_at, inherited[:1])):
            found.setdefault((definition.path, definition.line), definition)
    return list(found.values())


def find_bound_members(graph: SymbolGraph, pattern: str) -> list[SymbolDefinition]:
    """Return the keys of objects and the attributes that have a name, with the owner if one is given."""
    owner, _, name = dotted_name(pattern).strip(".").rpartition(".")
    if not name.isidentifier():
        return []
    paths = graph.paths_with_word(name)
    found: dict[tuple[str, str], SymbolDefinition] = {}
    for path in paths if len(paths) <= FILES_MAX else ():
        file = graph.parses.syntax(path)
        for binding in file.bindings(name) if file is not None else ():
            is_member = binding.role == "attribute" or binding.statement.type == "pair"
            if file is None or not is_member:
                continue
            line = binding.node.start_point[0] + 1
            definition = _as_definition(graph, file, binding.node, binding.statement)
            if not owner or f".{definition.qualified}".endswith(f".{owner}.{name}"):
                found.setdefault((path, definition.qualified), replace(definition, line=line))
    return list(found.values())


def _as_definition(graph: SymbolGraph, file: SyntaxFile, node: SyntaxNode, statement: SyntaxNode) -> SymbolDefinition:
    """Return a key or an attribute as a definition that its class or its object owns."""
    name = file.text(node)
    line = node.start_point[0] + 1
    holders = [
        one
        for one in graph.definitions_of(file.path)
        if one.kind not in CALLABLE and one.span.first <= line <= one.span.last and one.name != name
    ]
    if holders and statement.type != "pair":
        owner = max(holders, key=lambda one: one.span.first).qualified
    else:
        owner = ".".join(reversed(list(_owners_in_text(file, statement))))
    span = LineSpan(statement.start_point[0] + 1, statement.end_point[0] + 1)
    qualified = f"{owner}.{name}" if owner else name
    return SymbolDefinition(file.path, file.language.name, name, qualified, "property", span, line)


def _owners_in_text(file: SyntaxFile, pair: SyntaxNode) -> Iterator[str]:
    """Yield the names of the objects around a key, the innermost first: other keys, then the variable or the export."""
    at = pair.parent
    while at is not None and at.type in OBJECTS:
        for field in ("key", "name", "left"):
            node = at.child_by_field_name(field)
            if node is not None and at.type != "export_statement":
                last = file.text(node).rpartition(".")[2]
                yield from [last] if last != "exports" else []
        at = at.parent


def find_constructor_uses(graph: SymbolGraph, defined: Sequence[SymbolDefinition]) -> list[SymbolUse]:
    """Return the calls of the constructors of some classes, and of some constructors, that do not have their name.

    For a class these are the calls from the constructors of its subclasses; for a constructor also those of its class,
    and of subclasses that have no constructor of their own.
    """
    found: list[SymbolUse] = []
    for one in defined:
        holder, makers = _class_and_constructors(graph, one)
        if holder is None or not makers:
            continue
        below = graph.subclasses(holder)
        paths = sorted({child.path for child in below})
        if one is holder:
            calls = [use for maker in makers for use in graph.uses_in_files([maker], paths)]
            found += [use._replace(target=one.name, via=makers[0].qualified) for use in calls if use.kind == "call"]
        else:
            heirs = [child for child in below if not _class_and_constructors(graph, child)[1]]
            calls = graph.uses([holder])[0] + (graph.uses(heirs)[0] if heirs else [])
            found += [use._replace(via=use.target, target=one.name) for use in calls if use.kind == "call"]
        for child in below:
            found += [use._replace(target=one.name) for use in _super_calls(graph, child)]
    return found


def _class_and_constructors(
    graph: SymbolGraph, one: SymbolDefinition
) -> tuple[SymbolDefinition | None, list[SymbolDefinition]]:
    """Return the class that a definition is, or whose constructor it is, with its constructors."""
    inside = graph.definitions_of(one.path)
    if one.kind in CLASS_LIKE:
        holder = one
    else:
        owner = one.qualified.rpartition(".")[0]
        is_maker = one.kind == "constructor" or one.name in CONSTRUCTORS
        holder = next((row for row in inside if row.qualified == owner and row.kind in CLASS_LIKE), None)
        holder = holder if is_maker else None
    if holder is None:
        return None, []
    names = (*CONSTRUCTORS, holder.name)
    return holder, [
        row for row in inside if row.qualified in [f"{holder.qualified}.{name}" for name in names] and row != holder
    ]


def _super_calls(graph: SymbolGraph, child: SymbolDefinition) -> Iterator[SymbolUse]:
    """Yield the calls `super(...)` in a class, in languages where the base has a word of its own."""
    file = graph.parses.syntax(child.path)
    if file is None:
        return
    for start, stop in file.words("super"):
        node = file.node_at(start, stop) or NO_NODE
        fields = file.role_fields(up(node), "super_call")
        is_called = fields is not None and get(up(node), fields[0]) == node
        if is_called and child.span.first <= file.position_of(start)[0] <= child.span.last:
            yield graph.use_at(child.path, start, "super")
