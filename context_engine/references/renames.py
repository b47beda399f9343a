"""What each place of a name is to a rename: a use, another thing, or open; and what a new name would run into.

A parameter is used in its function, and as the keyword of calls. A caller may give a name that the text does not show:
with `**options`, through a decorator, or where the function is passed on. Then nothing about the parameter is certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from context_engine.languages import NOWHERE, SyntaxFile, SyntaxNode
from context_engine.references.nodes import children, get, up
from context_engine.references.reference_finder import ReferenceFinder, offset_of
from context_engine.references.resolver import is_in_open_head
from context_engine.references.symbol_graph import CLASS_LIKE, SUBCLASSES_DEPTH, SymbolDefinition, SymbolGraph
from context_engine.references.values import Certainty, Meaning, NamePlace

UseRows = dict[tuple[str, int, int], str]
"""What the places of a name are, by path, line and column."""


class RenameUses:
    """Answers what a rename asks of the graph."""

    def __init__(self, graph: SymbolGraph) -> None:
        self._graph = graph
        self._finder = graph.finder
        self._resolver = graph.finder.resolver
        self._project = graph.finder.resolver.project

    def find_definition_uses(self, path: str, name: str, line: int, paths: Sequence[str]) -> UseRows | None:
        """Return what the uses of a definition in some files are, by path, line and column from 1.

        A use is `exact`, `likely`, `possible`, or `shared` where it may mean another member as well; the definition
        itself, the methods that override it and those that it overrides are `definition`, or `outside` if they may
        override one that is not in the project. A place that means something else is `other`, one that
        is looked up in what is not known `unknown`, and the rest is left out. None if the names of the language are not
        resolved.
        """
        start = self._finder.place_of(path, name, line)
        if start is None:
            return None
        is_member = self._finder.is_member(start)
        family = self._override_family(name, start) if is_member else [start]
        holding = self._graph.files_alike(path, paths, name)
        found: UseRows = {}
        for place, is_sure in self._find_known(name, holding):
            if is_sure or is_member:
                found.update(self._as_row(place, name, "other" if is_sure else "unknown"))
        for place in self._find_strays(name, family):
            found.update(self._as_row(place, name, "possible"))
        for use in self._finder.find(name, family, holding):
            place = NamePlace(use.path, use.start)
            others = self._find_others(place, family) if use.certainty == "exact" else set()
            if any(self._is_taken(one) for one in others - {place}):
                continue  # the call of a variable of that name, which has the function
            is_shared = is_member and any(map(self._finder.is_member, others))
            found.update(self._as_row(place, name, "shared" if is_shared else use.certainty))
        for place, certainty in self._find_namesakes(name, family, holding):
            found.update(self._as_row(place, name, certainty))
        is_outer = self._overrides_outside(name, family)
        for place in family:
            found.update(self._as_row(place, name, "outside" if is_outer else "definition"))
        return found

    def _as_row(self, place: NamePlace, name: str, certainty: str) -> UseRows:
        """Return the position of a name with its certainty; nothing where another name is written."""
        file = self._graph.parses.syntax(place.path)
        written = name.encode("utf-8", "replace")
        if file is None:
            return {}
        start = place.start + file.data.startswith(b"$" + written, place.start)
        if not file.data.startswith(written, start):
            return {}
        return {(place.path, *file.position_of(start)): certainty}

    def find_parameter_uses(
        self, path: str, function: str, line: int, name: str, paths: Sequence[str]
    ) -> UseRows | None:
        """Return what the uses of a parameter in some files are, as `find_definition_uses` does.

        `line` is that of the function's name. Parameters of the name in functions that override it, or that it
        overrides, are `definition` as well. `possible`: a caller may use the name in a way that the text does not show.
        None if there is no such parameter, or the language has no rules for it.
        """
        start, file = self._finder.place_of(path, function, line), self._graph.parses.syntax(path)
        if start is None or file is None or not self._resolver.style(file).passes_by_name:
            return None
        family = self._override_family(function, start) if self._finder.is_member(start) else [start]
        uses = list(self._places_of_function(path, function, start))
        found, definitions = ParameterFinder(self._finder, name, family).find(paths, uses)
        if not definitions:
            return None
        rows: UseRows = {}
        for (at, offset), certainty in found.items():
            file = self._graph.parses.syntax(at)
            if file is not None:
                is_definition = NamePlace(at, offset) in definitions and certainty == "exact"
                rows[at, *file.position_of(offset)] = "definition" if is_definition else certainty
        return rows

    def _places_of_function(
        self, path: str, function: str, start: NamePlace
    ) -> Iterator[tuple[SyntaxFile, SyntaxNode, bool]]:
        """Yield the places of a function, and whether each names the function itself, which may be passed on there.

        An `__init__` is used by the name of its class, which does not name the function.
        """
        definition = self._graph.definition_at(start)
        if definition is None:
            return
        called: SymbolDefinition | None = definition
        if function == "__init__":
            owner = definition.qualified.rpartition(".")[0]
            called = next((one for one in self._graph.definitions_of(path) if one.qualified == owner), None)
        if called is None:
            return
        for use in self._graph.uses_in_files([called], self._graph.paths_with_word(called.name)):
            file = self._graph.parses.syntax(use.path)
            if file is None:
                continue
            is_value = use.certainty != "possible" and called is definition
            for node in file.find(use.target):
                if file.position(node) == (use.line, use.column):
                    yield file, node, is_value

    def find_members_in_the_way(self, path: str, name: str, line: int, new_name: str) -> list[tuple[str, int]]:
        """Return members of another name in the class of a member, in its bases and in classes that extend it."""
        start = self._finder.place_of(path, name, line)
        if start is None or not self._finder.is_member(start):
            return []
        family = self._override_family(name, start)
        found = {place for member in family for place in self._finder.find_inherited(new_name, member)}
        for other in self._finder.members_named(new_name) - found:
            if not set(self._finder.find_inherited(name, other)).isdisjoint(family):
                found.add(other)
        rows = [(place.path, self._graph.parses.syntax(place.path), place.start) for place in sorted(found)]
        return [(at, file.position_of(offset)[0]) for at, file, offset in rows if file is not None]

    # -- what must have the same name --

    def _override_family(self, name: str, start: NamePlace) -> list[NamePlace]:
        """Return a member with all members that must have its name: those above, below, and next to it.

        A class that inherits a method from one base, as another base requires it, joins the two.
        """
        if self._finder.implements_by_methods(start):
            return self._finder.interfaces.find_family(name, start)
        family, waiting = {start}, [start]
        covered: set[tuple[str, str]] = set()
        while waiting:
            member = waiting.pop()
            found = set(self._finder.find_overridden(name, member))
            for owner in self._owners_of(member):
                if (owner.path, owner.qualified) not in covered:
                    below = [one for one, _ in self._graph.implementations(owner, SUBCLASSES_DEPTH)]
                    covered.update((one.path, one.qualified) for one in (owner, *below))
                    for place in self._graph.places_of(below):
                        found.update(self._finder.find_in_class(name, place, like=start))
            waiting += found - family
            family |= found
            if not waiting:
                others = self._finder.members_named(name) - family
                waiting = [one for one in others if not family.isdisjoint(self._finder.find_overridden(name, one))]
                family.update(waiting)
        return sorted(family)

    def _owners_of(self, member: NamePlace) -> list[SymbolDefinition]:
        """Return the class that has a member, as the index knows it."""
        definition = self._graph.definition_at(member)
        owner = definition.qualified.rpartition(".")[0] if definition is not None else ""
        found = self._graph.definitions(owner) if owner else []
        return [one for one in found if one.path == member.path and one.kind in CLASS_LIKE]

    def _overrides_outside(self, name: str, family: Iterable[NamePlace]) -> bool:
        """Whether members that override each other may override one that is not in the project."""
        if any(map(self._finder.implements_by_methods, family)):
            return any(self._finder.interfaces.may_be_required_outside(name, place) for place in family)
        found = [(place, bound) for place in family if (bound := self._project.binding_at(place)) is not None]
        required = [self._resolver.style(file).is_required_outside(file, one) for _, (file, one) in found]
        if None not in required:
            return any(required)
        said = [self._resolver.style(file).says_override(binding) for _, (file, binding) in found]
        if None in said:
            return any(self._finder.is_member(place) and self._finder.has_unknown_base(place) for place, _ in found)
        return bool(said) and all(said)

    def _find_strays(self, name: str, family: Iterable[NamePlace]) -> Iterator[NamePlace]:
        """Yield members that say that they override one which is not found: it may be one of these.

        So are methods whose type may satisfy an interface by what it embeds of a library.
        """
        family = frozenset(family)
        if not any(map(self._finder.is_member, family)):
            return
        for place in filter(self._finder.implements_by_methods, family):
            yield from (one for one in self._finder.interfaces.find_open_links(name, place) if one not in family)
        for place in self._finder.members_named(name).difference(family):
            found = self._project.binding_at(place)
            is_override = found is not None and self._resolver.style(found[0]).says_override(found[1])
            if is_override and not self._finder.find_overridden(name, place):
                yield place

    def _find_namesakes(
        self, name: str, targets: Iterable[NamePlace], paths: Iterable[str]
    ) -> Iterator[tuple[NamePlace, Certainty]]:
        """Yield the names in some files that do not mean one of some definitions, and change with it all the same."""
        wanted = frozenset(targets)
        is_member = any(map(self._finder.is_member, wanted))
        for file in filter(None, map(self._project.read, paths)):
            style = self._resolver.style(file)
            for node in file.find(name):
                found = style.namesakes(file, node)
                if found is None and is_member:
                    yield NamePlace(file.path, node.start_byte), "possible"
                elif found is not None and not wanted.isdisjoint(found):
                    yield NamePlace(file.path, node.start_byte), "exact"

    # -- what else a place may mean --

    def _find_known(self, name: str, paths: Iterable[str]) -> Iterator[tuple[NamePlace, bool]]:
        """Yield the places of a name in some files whose meaning is known, whatever it is, and whether for certain.

        Members of a value that a library gave are not certain: it may be something of this project. Neither is a name
        that means nothing here in a file that the parser of a language with `strict` renames did not understand.
        """
        for file in filter(None, map(self._project.read, paths)):
            is_misread = file.language.renames.strict and file.root.has_error
            for node in file.find(name):
                meaning = self._finder.meaning(file, node)
                is_sure = meaning.origin != "" or not (is_misread or self._is_doubtful(file, node, meaning))
                if meaning.places or meaning.is_known:
                    yield NamePlace(file.path, node.start_byte), bool(meaning.places) or is_sure
            for use in self._resolver.style(file).hidden_uses(file, name):
                if use.meaning.places or (use.meaning.is_known and not use.meaning.is_member):
                    yield NamePlace(file.path, use.start), True

    def _is_doubtful(self, file: SyntaxFile, node: SyntaxNode, meaning: Meaning) -> bool:
        """Whether a name that means nothing in the project may do so: `_is_given`, or a name that the file binds."""
        if up(node).type == "token_tree":
            return True  # the code of a macro of Rust is seen as words
        if meaning.is_member:
            return self._is_given(file, node)
        return file.language.renames.strict and file.bindings(file.text(node)) != ()

    def _is_given(self, file: SyntaxFile, node: SyntaxNode) -> bool:
        """Whether a member that was not found is looked up in an object whose class may not be the one that is seen."""
        style = self._resolver.style(file)
        fields = file.role_fields(up(node), "member")
        values = self._resolver.values(file, get(up(node), fields[0])) if fields else ()
        if any(value.kind in ("class", "instance") for value in values):
            return True  # no class of the project is seen to have it: one that extends it may
        given = [value.name for value in values if value.kind == "external" and not style.gives_own_types(value.name)]
        if file.language.renames.strict and any(not name[:1].isupper() for name in given):
            return True  # a plain name may be that of a property of an object that is not written
        return not values or not all(map(is_type_or_module, given))

    def _find_others(self, place: NamePlace, targets: Iterable[NamePlace]) -> set[NamePlace]:
        """Return what else a name may mean: its receiver may be of one of several classes."""
        file = self._project.read(place.path)
        node = file.node_at(place.start, place.start + 1) if file is not None else None
        if file is None or node is None or not file.is_identifier(node):
            return set()
        return set(self._finder.meaning(file, node).places).difference(targets) - self._finder.find_joined(targets)

    def _is_taken(self, place: NamePlace) -> bool:
        found = self._project.binding_at(place)
        return found is not None and found[1].statement.type == "variable_declarator"

    # -- what a new name would run into --

    def find_captures(self, path: str, new_name: str, plain: Iterable[tuple[int, int]]) -> list[int]:
        """Return the lines of a file where plain names at some places would get or hide a meaning with a new name.

        Each use of the new name counts that no scope binds, or one that is around a place.
        """
        file = self._project.read(path)
        if file is None:
            return []
        around = {scope for place in plain for scope in self._scopes_seen(file, offset_of(file.data, *place))}
        lines = []
        for node in file.find(new_name) if around else ():
            if self._is_plain(file, node):
                bound = self._resolver.visible_bindings(file, new_name, node.start_byte)
                if not bound or bound[0].scope <= 0 or bound[0].scope in around:
                    lines.append(node.start_point[0] + 1)
        return lines

    def _scopes_seen(self, file: SyntaxFile, offset: int) -> Iterator[int]:
        """Yield the scopes around a name whose meanings of names it sees."""
        node = file.node_at(offset, offset + 1)
        binding = file.binding_of(node) if node is not None else None
        for scope in file.around(offset):
            if not is_in_open_head(file, scope, offset) or (binding is not None and binding.scope == scope):
                yield scope

    def _is_plain(self, file: SyntaxFile, node: SyntaxNode) -> bool:
        """Whether a name is neither looked up in something nor defined as a part of it."""
        parent, binding = up(node), file.binding_of(node)
        fields = file.role_fields(parent, "member") or file.role_fields(parent, "label")
        if fields and get(parent, fields[-1]) == node:
            return False
        if binding is None:
            return file.import_around(node) is None
        return binding.scope != NOWHERE and file.scopes[binding.scope].role not in ("class", "extends")


def is_type_or_module(name: str) -> bool:
    """Return whether what a library has is a type, an instance of it, or a module, by its name.

    >>> [is_type_or_module(name) for name in ("os.path", "a.Session()", "a.get()", "Path().parent", "T")]
    [True, True, False, False, False]
    """
    *outer, last = name.removesuffix("()").split(".")
    if re.fullmatch(r"_?[A-Z]\d?(?:_co|_contra)?", last):
        return False  # a variable for types
    if last[:1].isupper():
        return not any("(" in part for part in outer)
    return last != "" and not name.endswith("()") and not any("(" in part or part[:1].isupper() for part in outer)


# -- parameters -----------------------------------------------------------------------------------------------------

PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod", "abstractmethod", "override", "final", "property"})
"""Decorators that hand the names of parameters on as they are."""


class ParameterFinder:
    """Finds what means a parameter of some functions, which override one another."""

    def __init__(self, finder: ReferenceFinder, name: str, functions: Sequence[NamePlace]) -> None:
        self._finder = finder
        self._name = name
        self._functions = frozenset(functions)
        self._found: dict[tuple[str, int], Certainty] = {}

    def find(
        self, paths: Iterable[str], uses: Iterable[tuple[SyntaxFile, SyntaxNode, bool]]
    ) -> tuple[dict[tuple[str, int], Certainty], list[NamePlace]]:
        """Return the certainty of each place, by file and byte, and the places where the parameter is defined.

        `paths` are the files that contain its name, and `uses` the places of the functions in the project; the last
        value says whether a place is one of the function itself, which may be passed on there.
        """
        definitions = [place for function in sorted(self._functions) for place in self._find_inside(function)]
        for file in filter(None, map(self._finder.resolver.project.read, paths)):
            for node in file.find(self._name):
                self._judge_keyword(file, node)
        if any(_hides_names(*use) for use in uses):
            self._found |= dict.fromkeys(definitions, "possible")
        return self._found, definitions

    def _find_inside(self, function: NamePlace) -> Iterator[NamePlace]:
        """Judge the name inside of a function, and yield the place of its parameter."""
        bound = self._finder.resolver.project.binding_at(function)
        if bound is None:
            return
        file, statement = bound[0], bound[1].statement
        scope = file.scope_of(statement)
        header = statement.child_by_field_name("parameters")
        own = [one for one in file.bindings_in(self._name, scope) if one.node.end_byte <= statement.end_byte]
        parameters = [one for one in own if one.role == "parameter"]
        if not parameters or header is None:
            return
        is_open = _is_open(file, statement, bound[1].name)
        meant = {NamePlace(file.path, one.node.start_byte) for one in own}
        for node in file.find(self._name):
            is_inside = statement.start_byte <= node.start_byte < statement.end_byte
            is_default = header.start_byte <= node.start_byte < header.end_byte  # belongs to the scope around
            if is_inside and (not is_default or node == parameters[0].node):
                if meant & set(self._finder.meaning(file, node).places):
                    self._found[file.path, node.start_byte] = "possible" if is_open else "exact"
                elif b"nonlocal" in (statement.text or b"") and file.binding_of(node) is not None:
                    self._found[file.path, node.start_byte] = "possible"
        yield NamePlace(file.path, parameters[0].node.start_byte)

    def _judge_keyword(self, file: SyntaxFile, node: SyntaxNode) -> None:
        """Judge `name=value` in a call."""
        label = get(node, "<keyword_argument")
        called = get(label, "<", "<call", "function")
        if get(label, "name") != node or not called:
            return
        values = self._finder.resolver.values(file, called)
        functions = {place for value in values for place in self._callable_places(value.kind, value.place)}
        passed = {
            place
            for argument in up(label).named_children
            for value in (self._finder.resolver.values(file, argument) if argument.type != "keyword_argument" else ())
            for place in self._callable_places(value.kind, value.place)
        }
        if functions & self._functions:
            is_sure = len(functions) == 1 or functions <= self._functions
            self._found[file.path, node.start_byte] = "exact" if is_sure else "possible"
        elif not values or passed & self._functions:
            self._found[file.path, node.start_byte] = "possible"

    def _callable_places(self, kind: str, place: NamePlace) -> list[NamePlace]:
        """Return the functions that a call of a value runs."""
        if kind == "function":
            return [place]
        if kind not in ("class", "instance"):
            return []
        members = self._finder.resolver.members
        values = [value for value in self._finder.resolver.place_values([place]) if value.kind == "class"]
        return [found for value in values for found in members.find(value, METHODS[kind])[0]]


METHODS = {"class": "__init__", "instance": "__call__"}


def _is_open(file: SyntaxFile, function: SyntaxNode, name: str) -> bool:
    """Whether a framework may know the parameters of a function by their names: decorators, tests with fixtures."""
    marks = children(get(function, "<decorated_definition"), "decorator")
    names = {file.text(mark).lstrip("@ ").rpartition(".")[2].strip() for mark in marks}
    return not names <= PLAIN_DECORATORS or name.startswith("test")


def _hides_names(file: SyntaxFile, node: SyntaxNode, is_value: bool) -> bool:
    """Whether a use of a function may give its parameters by names that are not written there."""
    if file.import_around(node) is not None or file.binding_of(node) is not None:
        return False
    at = up(node) if get(node, "<attribute", "attribute") == node else node
    call = get(at, "<call")
    if get(call, "function") != at:
        return is_value
    return bool(children(get(call, "arguments"), "dictionary_splat"))
