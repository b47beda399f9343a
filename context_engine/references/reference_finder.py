"""Find the uses of a definition in some files, and say of each how certain it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.languages.go_interfaces import InterfaceMatcher
from context_engine.references.nodes import NO_NODE, covers, get, up
from context_engine.references.project_files import ProjectFiles
from context_engine.references.resolver import Resolver
from context_engine.references.values import SCIP, UNKNOWN, Certainty, Meaning, NamePlace

_DOTTED_NAME = re.compile(r"[\w$.:\\]+")
PASSING_FILES_MAX = 100
"""Files in which another name of a definition is looked for; more have it by chance."""


class SymbolUse(NamedTuple):
    """A use of a definition at path:line; `start` and `stop` are its bytes, where the syntax tree was asked.

    Line and column count from 1. `kind` is call, type, read, import or definition (the name is bound there again, as in
    an override). `origin` is as in `Meaning`. `source` (a qualified name, or "" for the top of the file) uses `target`;
    `via` is the method of an interface that is used in place of the target.
    """

    path: str
    start: int
    stop: int
    line: int
    column: int
    kind: str
    certainty: Certainty = "likely"
    origin: str = ""
    source: str = ""
    target: str = ""
    via: str = ""


class _Target(NamedTuple):
    """The definitions whose uses are searched.

    `is_member`: they are looked up in a class. `is_only`: nothing else in the project that is looked up in the same way
    has their name.
    """

    places: frozenset[NamePlace]
    is_member: bool
    is_only: bool


class ReferenceFinder:
    """Finds uses; it keeps what it has resolved as long as the files stay the same."""

    def __init__(self, project: ProjectFiles) -> None:
        self.resolver = Resolver(project)
        self._project = project
        self._meanings: dict[tuple[str, int], Meaning] = {}
        self._base_spans = cache(self._find_base_spans)
        self.interfaces = InterfaceMatcher(self.resolver)

    def place_of(self, path: str, name: str, line: int) -> NamePlace | None:
        """Return the place of a definition that an outline has at a line; None if it is not there."""
        file = self._project.read(path)
        if file is None:
            return None
        words = self.resolver.style(file).spellings(name)
        found = [node for word in words for node in file.find(word) if node.start_point[0] + 1 == line]
        roles = {node.id: binding.role for node in found if (binding := file.binding_of(node)) is not None}
        bound = [node for node in found if roles.get(node.id, "parameter") != "parameter"]
        chosen = next(iter(bound or found), None)
        return NamePlace(path, chosen.start_byte) if chosen is not None else None

    def find(
        self, name: str, targets: Sequence[NamePlace], paths: Iterable[str], *, only_bases: bool = False
    ) -> list[SymbolUse]:
        """Return the uses of definitions of one name in some files, each at most once, by file and place.

        `only_bases`: those where a class names its base. A file may pass a definition on under another name: that one
        is followed into the files that can take it.
        """
        given = frozenset(targets)
        target = self._target(name, given | self.find_joined(targets))
        found: dict[tuple[str, int], SymbolUse] = {}
        searched = [(name, path) for path in paths]
        seen = set(searched)
        for looked_up, path in searched:  # it grows
            file = self._project.read(path)
            if file is None:
                continue
            style = self.resolver.style(file)
            words = style.local_names(file, looked_up)
            for use in (use for word in words for use in self._uses_of(file, word, target, only_bases=only_bases)):
                is_sure = looked_up == name or use.certainty == "exact"
                if is_sure and NamePlace(path, use.start) not in given:
                    found.setdefault((path, use.start), use)
            nodes = [node for word in words for node in file.find(word)]
            judged = {node.start_byte for node in nodes}
            for use in self._find_edges(file, given):
                if use.start not in judged:
                    found.setdefault((path, use.start), use)
            for passed in self._passed_names(file, nodes, target.places):
                takers = () if passed == name else style.find_takers(file, passed)
                further = [(passed, taker) for taker in takers[:PASSING_FILES_MAX]]
                searched += [one for one in further if one not in seen]
                seen.update(further)
        return sorted(found.values())

    def _passed_names(
        self, file: SyntaxFile, nodes: Iterable[SyntaxNode], places: frozenset[NamePlace]
    ) -> Iterator[str]:
        """Yield the names under which a file passes on what some of its names mean, if that is at one of the places."""
        for node in nodes:
            passed = self.resolver.style(file).passed_names(file, node)
            if passed and not places.isdisjoint(self.meaning(file, node).places):
                yield from passed

    def _find_edges(self, file: SyntaxFile, targets: frozenset[NamePlace]) -> Iterator[SymbolUse]:
        """Yield the uses in a file that other tools know, under whatever name."""
        edges = self._project.edges
        for edge in edges.edges_to(file.path, file.data, targets) if edges is not None else ():
            node = file.node_at(edge.start, edge.stop)
            if node is not None and NamePlace(file.path, edge.start) not in targets:
                kind = find_kind(file, node) if file.is_identifier(node) else "read"
                line, column = file.position_of(edge.start)
                yield SymbolUse(file.path, edge.start, edge.stop, line, column, kind, "exact", SCIP)

    def meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning:
        """Return what an identifier means: what another tool says of it, or else what the text shows."""
        own = self._own_meaning(file, node)
        edges = self._project.edges
        edge = edges.edge_at(file.path, file.data, node.start_byte) if edges is not None else None
        if edge is None:
            return own
        binding = file.binding_of(node)
        is_use = binding is None or binding.role == "import"
        knows_more = bool(edge.targets) or not own.places
        if not (is_use and knows_more):
            return own
        # some indexers give one symbol to all functions of a name inside of a class
        places = tuple(place for place in edge.targets if place in own.places) or edge.targets
        word = file.data[node.start_byte : node.end_byte]
        same = [one.path for one in places if self._project.load(one.path).startswith(word, one.start)]
        is_sure = len(same) == len(set(same))
        return Meaning(places, is_known=True, is_member=own.is_member, is_sure=is_sure, origin=SCIP)

    def _own_meaning(self, file: SyntaxFile, node: SyntaxNode) -> Meaning:
        """Return what the text shows of an identifier, from what was resolved before where possible."""
        key = (file.path, node.start_byte)
        known = self._meanings.get(key)
        if known is None:
            try:
                known = self.resolver.meaning(file, node)
            except RecursionError:  # a chain of names that no hand writes, or that leads in a circle
                known = UNKNOWN
            self._meanings[key] = known
        return known

    def find_overridden(self, name: str, member: NamePlace) -> list[NamePlace]:
        """Return the members of that name, and of the same role, in all bases of the class that has a member."""
        if self.implements_by_methods(member):
            return self.interfaces.find_interface_methods(name, member)
        found = self.find_inherited(name, member)
        return [place for place in found if place != member and self._is_alike(place, member)]

    def implements_by_methods(self, place: NamePlace) -> bool:
        """Whether the language of a file has types that implement each interface whose methods they have."""
        file = self._project.read(place.path)
        return file is not None and self.resolver.style(file).implements_by_methods

    def _class_of(self, member: NamePlace) -> list[NamePlace]:
        found = self._project.binding_at(member)
        if found is None:
            return []
        values = self.resolver.style(found[0]).class_of_member(*found)
        return [value.place for value in values if value.kind == "class"]

    def find_inherited(self, name: str, member: NamePlace) -> list[NamePlace]:
        """Return the members of that name in the class that has a member, and in all of its bases."""
        return self.find_in_classes(name, self._class_of(member))

    def find_in_classes(self, name: str, places: Iterable[NamePlace]) -> list[NamePlace]:
        """Return the members of that name in some classes and their bases, the nearest first."""
        members = self.resolver.members
        return [found for place in members.with_bases(places) for found in members.own(place, name)]

    def find_in_class(self, name: str, place: NamePlace, like: NamePlace) -> list[NamePlace]:
        """Return the members of that name in a class and its bases that are what another member is."""
        return [one for one in self.find_in_classes(name, [place]) if self._is_alike(one, like)]

    def has_unknown_base(self, member: NamePlace) -> bool:
        """Whether a base of the class that has a member is not known or not in the project."""
        above = map(self.resolver.members.bases, self.resolver.members.with_bases(self._class_of(member)))
        return any(not is_known or any(base.kind == "external" for base in bases) for bases, is_known in above)

    def _is_alike(self, place: NamePlace, other: NamePlace) -> bool:
        """Return whether two members of one name are the same to those who look it up: both methods, for example."""
        file = self._project.read(place.path)
        is_one = file is not None and self.resolver.style(file).has_one_kind_of_member
        return is_one or self._role_at(place) == self._role_at(other)

    def _role_at(self, place: NamePlace) -> str:
        """Return what is bound at a place; all that is assigned is a variable."""
        found = self._project.binding_at(place)
        if found is None:
            return ""
        return found[1].role if found[1].role in ("function", "class") else "variable"

    def find_bases(self, start: NamePlace) -> list[tuple[NamePlace, NamePlace]]:
        """Return each class above a class with the one below it, the nearest first."""
        members = self.resolver.members
        below: dict[NamePlace, NamePlace] = {}
        for place in members.with_bases([start]):
            for base in members.bases(place)[0]:
                if base.kind == "class" and base.place != start:
                    below.setdefault(base.place, place)
        return [(lower, upper) for upper, lower in below.items()]

    def subclass_at(self, file: SyntaxFile, start: int) -> NamePlace | None:
        """Return the class that names its base at an offset."""
        for number in range(1, len(file.scopes)):
            scope = file.scopes[number]
            is_class = scope.role in ("class", "extends")
            for node in self.resolver.style(file).base_nodes(file, scope.node) if is_class else ():
                if covers(node, start):
                    values = self.resolver.style(file).class_of_scope(file, number, "class")
                    return values[0].place if values else None
        return None

    def alias_at(self, path: str, start: int) -> tuple[str, NamePlace] | None:
        """Return a name that is bound to what a use at an offset means, and its place: `type B = A`, `{ go: run }`."""
        file = self._project.read(path)
        at = file.node_at(start, start + 1) if file is not None else None
        if file is None or at is None:
            return None
        while up(at).end_byte == at.end_byte and _DOTTED_NAME.fullmatch(file.text(up(at))):
            at = up(at)
        for role in ("alias", "variable"):
            fields = file.role_fields(up(at), role) or ()
            name = get(up(at), fields[0]) if fields and get(up(at), fields[-1]) == at else NO_NODE
            if file.is_identifier(name) and self._is_outer(file, file.scope_at(name.start_byte)):
                return file.text(name), NamePlace(path, name.start_byte)
        return None

    def _find_base_spans(self, file: SyntaxFile) -> list[tuple[int, int]]:
        """Return where the classes of a file name their bases."""
        classes = [scope for scope in file.scopes[1:] if scope.role in ("class", "extends")]
        nodes = [node for scope in classes for node in self.resolver.style(file).base_nodes(file, scope.node)]
        return [(node.start_byte, node.end_byte) for node in nodes]

    def _uses_of(
        self, file: SyntaxFile, word: str, target: _Target, *, only_bases: bool = False
    ) -> Iterator[SymbolUse]:
        spans = self._base_spans(file) if only_bases else []
        for node in file.find(word):
            if only_bases and not any(start <= node.start_byte < stop for start, stop in spans):
                continue
            meaning = self.meaning(file, node)
            certainty = self._judge(file, word, meaning, target)
            if certainty is not None:
                line, column = file.position(node)
                kind = find_kind(file, node)
                span = (node.start_byte, node.end_byte)
                yield SymbolUse(file.path, *span, line, column, kind, certainty, meaning.origin)
        hidden = () if only_bases else self.resolver.style(file).hidden_uses(file, word)
        for use in hidden:
            certainty = self._judge(file, word, use.meaning, target)
            if certainty is not None:
                line, column = file.position_of(use.start)
                yield SymbolUse(file.path, use.start, use.stop, line, column, use.kind, certainty)

    def _judge(self, file: SyntaxFile, name: str, meaning: Meaning, target: _Target) -> Certainty | None:
        if target.places & set(meaning.places):
            return "exact" if meaning.is_sure else "likely"
        if meaning.is_known or meaning.places:
            return None
        if meaning.is_member != target.is_member and not (target.is_member and file.rules.lexical):
            return "possible" if meaning.is_member else None
        if name in file.rules.common and meaning.is_member:
            return "possible"
        return "likely" if target.is_only else "possible"

    def find_joined(self, places: Iterable[NamePlace]) -> frozenset[NamePlace]:
        """Return the other declarations of some definitions, in languages that declare a thing several times."""
        found: set[NamePlace] = set()
        for place in places:
            bound = self._project.binding_at(place)
            style = self.resolver.style(bound[0]) if bound is not None else None
            if bound is not None and style is not None and style.joins_declarations:
                meaning = style.binding_meaning(*bound)
                found |= set(meaning.places) if meaning is not None else set()
        return frozenset(found)

    def _target(self, name: str, places: frozenset[NamePlace]) -> _Target:
        is_member = any(map(self.is_member, places))
        others = (place for place in self._places_named(name) if place not in places)
        return _Target(places, is_member, not any(self.is_member(place) == is_member for place in others))

    def is_member(self, place: NamePlace) -> bool:
        """Whether a definition is looked up in a class."""
        found = self._project.binding_at(place)
        return found is not None and self.resolver.style(found[0]).is_member(*found)

    def members_named(self, name: str) -> set[NamePlace]:
        """Return everything of a name in the project that is looked up in a class."""
        return {place for place in self._places_named(name) if self.is_member(place)}

    def _places_named(self, name: str) -> Iterator[NamePlace]:
        """Yield the definitions of a name, file by file, so that no more files are parsed than a caller needs."""
        for path in self._project.defining(name):
            file = self._project.read(path)
            words = self.resolver.style(file).spellings(name) if file is not None else ()
            for binding in (one for word in words for one in file.bindings(word)) if file is not None else ():
                is_found = binding.role == "attribute" or self._is_outer(file, binding.scope)
                if is_found and binding.role != "import":
                    yield NamePlace(path, binding.node.start_byte)

    def _is_outer(self, file: SyntaxFile | None, scope: int) -> bool:
        return file is not None and scope >= 0 and file.scopes[scope].role in ("file", "class", "extends", "namespace")


def offset_of(data: bytes, line: int, column: int) -> int:
    r"""Return the offset in bytes of a line and column, both from 1; columns count characters.

    >>> offset_of("a = 1\nü = b\n".encode(), 2, 5)
    11
    """
    start = 0
    for _ in range(line - 1):
        start = data.find(b"\n", start) + 1
    stop = data.find(b"\n", start)
    text = data[start : stop if stop >= 0 else len(data)].decode("utf-8", "replace")
    return start + len(text[: column - 1].encode())


def find_kind(file: SyntaxFile, node: SyntaxNode) -> str:
    """Return how a name is used: call, type, read, import or definition."""
    if file.import_around(node) is not None:
        return "import"
    if file.binding_of(node) is not None:
        return "definition"
    if call_of(file, node, "call", "new"):
        return "call"
    is_member, outer = _is_member_name(file, node), up(node)
    outer = up(outer) if is_member else outer
    return "type" if "type" in outer.type or "type" in node.type else "read"


def call_of(file: SyntaxFile, node: SyntaxNode, *roles: str) -> SyntaxNode:
    """Return the call of what a name means: a node that has one of some roles."""
    if _is_member_name(file, node) and "call" not in file.roles.get(up(node).type, {}):
        node = up(node)
    fields = (file.role_fields(up(node), role) for role in roles)
    return up(node) if any(one and get(up(node), one[0]) == node for one in fields) else NO_NODE


def _is_member_name(file: SyntaxFile, node: SyntaxNode) -> bool:
    """Whether a name is looked up in an object."""
    fields = file.role_fields(up(node), "member")
    return fields is not None and get(up(node), fields[1]) == node
