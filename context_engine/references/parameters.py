"""The uses of a parameter: in its function, and as the keyword of calls. Python only.

A caller may give a name that the text does not show: with `**options`, through a decorator, or where the function is
passed on. Then nothing about the parameter is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.reference_finder import ReferenceFinder
from context_engine.references.values import Certainty, NamePlace

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
        label = node.parent
        if label is None or label.type != "keyword_argument" or label.child_by_field_name("name") != node:
            return
        call = label.parent.parent if label.parent is not None else None
        called = call.child_by_field_name("function") if call is not None and call.type == "call" else None
        if called is None or label.parent is None:
            return
        values = self._finder.resolver.values(file, called)
        functions = {place for value in values for place in self._callable_places(value.kind, value.place)}
        passed = {
            place
            for argument in label.parent.named_children
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
    outer = function.parent
    marks = outer.named_children if outer is not None and outer.type == "decorated_definition" else []
    names = {file.text(mark).lstrip("@ ").rpartition(".")[2].strip() for mark in marks if mark.type == "decorator"}
    return not names <= PLAIN_DECORATORS or name.startswith("test")


def _hides_names(file: SyntaxFile, node: SyntaxNode, is_value: bool) -> bool:
    """Whether a use of a function may give its parameters by names that are not written there."""
    at, outer = node, node.parent
    if outer is not None and outer.type == "attribute" and outer.child_by_field_name("attribute") == at:
        at, outer = outer, outer.parent
    if outer is None or file.import_around(node) is not None or file.binding_of(node) is not None:
        return False
    if outer.type != "call" or outer.child_by_field_name("function") != at:
        return is_value
    arguments = outer.child_by_field_name("arguments")
    return arguments is not None and any(child.type == "dictionary_splat" for child in arguments.named_children)
