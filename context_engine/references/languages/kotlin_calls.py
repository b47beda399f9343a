"""Calls of Kotlin: what they give, the parameters that they name, and the receivers and parameters of their lambdas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.languages import kotlin_syntax as syntax
from context_engine.references.nodes import NO_NODE, get
from context_engine.references.package_style import ELEMENT_METHODS, OVER_ELEMENTS
from context_engine.references.values import Meaning, NamePlace, Value, Values

if TYPE_CHECKING:
    from context_engine.references.languages.kotlin import KotlinStyle

WITH_RECEIVER = frozenset({"apply", "run", "with"})
PASSED_ON = frozenset({"apply", "also", "takeIf", "takeUnless"})
WITH_VALUE = frozenset({"let", "also", "takeIf", "takeUnless"})
GIVING_LAST = frozenset({"let", "run", "with"})
"""Functions that give the last expression of their lambda."""
ELEMENTS = ELEMENT_METHODS | frozenset(
    "firstOrNull lastOrNull single singleOrNull find findLast filterNot filterNotNull sortedBy sortedByDescending"
    " getOrNull elementAt toSet toMutableList toMutableSet asSequence asReversed reversed drop dropLast plus minus"
    " onEach distinctBy maxByOrNull minByOrNull takeWhile dropWhile removeAt asIterable random getOrElse".split()
)
EACH = OVER_ELEMENTS | frozenset(
    "onEach firstOrNull first last lastOrNull find findLast filterNot any all none count sumOf map mapNotNull"
    " mapTo flatMap associateBy associateWith associate groupBy sortedBy sortedByDescending maxByOrNull minByOrNull"
    " partition joinToString single singleOrNull takeWhile dropWhile distinctBy indexOfFirst removeAll forEach".split()
)


class KotlinCalls:
    """Reads calls, with the members that the style finds."""

    def __init__(self, style: KotlinStyle) -> None:
        self._style = style
        self._resolver = style.resolver
        self._project = style.project

    def results(self, file: SyntaxFile, call: syntax.KotlinCall) -> Values:
        """Return what a call gives."""
        name, holders = file.text(call.name), self._resolver.values(file, call.holder)
        if call.holder and name in PASSED_ON:
            return holders
        if name in GIVING_LAST and call.trailing:
            return self._resolver.values(file, syntax.last_expression(call.trailing))
        called = self._called_values(file, call)
        if called or not holders or any(value.kind != "external" for value in holders):
            return self._resolver.results(called)
        elements = [one for value in holders if value.arguments for one in value.arguments[-1]]
        if elements and name in ELEMENTS:
            return (*elements, *holders)
        return () if call.trailing or elements else (Value("external", name="()"),)

    def _called_values(self, file: SyntaxFile, call: syntax.KotlinCall) -> Values:
        """Return the functions and classes that a call may mean."""
        if not call.holder:
            return self._resolver.values(file, call.callee)
        holders = self._resolver.values(file, call.holder)
        return self._resolver.place_values(self._style.members_or_extensions(file, holders, call.name))

    def named_argument(self, file: SyntaxFile, argument: SyntaxNode, node: SyntaxNode) -> Meaning:
        """Return the parameter that `name = value` gives a value."""
        holder = get(argument, "<", "<")
        functions: Values = ()
        if holder.type == "constructor_invocation":
            functions = self._resolver.values(file, get(holder, "."))
        elif holder.type == "call_expression":
            functions = self._called_values(file, syntax.read_call(holder))
        places: list[NamePlace] = []
        for other, parameters in self._signatures(functions):
            names = [get(one, "@identifier") for one in parameters]
            places += [NamePlace(other.path, n.start_byte) for n in names if other.text(n) == file.text(node)]
        return Meaning(tuple(places), is_known=True)

    def _signatures(self, functions: Values) -> Iterator[tuple[SyntaxFile, list[SyntaxNode]]]:
        """Yield the parameters of functions and constructors, each with its file."""
        for value in functions:
            at = self._project.binding_at(value.place) if value.kind in ("class", "function") else None
            if at is not None:
                yield at[0], syntax.parameters_of(at[1].statement)

    def lambda_receiver(self, file: SyntaxFile, node: SyntaxNode) -> tuple[Values, bool]:
        """Return the object that a lambda adds to the names inside of it, and whether it is known."""
        given = syntax.call_of_lambda(node)
        if given is None:
            return (), True
        call, name = given[0], file.text(given[0].name)
        wanted = self._lambda_type(file, *given)
        if wanted is not None:
            first = get(wanted[1], ".")
            values = self._resolver.type_values(wanted[0], first) if first.type in syntax.TYPES else ()
            return values, bool(values) or first.type not in syntax.TYPES
        if name not in WITH_RECEIVER:
            return (), name in EACH or name in WITH_VALUE
        holder = call.holder
        if not holder and name == "with" and call.arguments:
            holder = get(call.arguments[0], "$")
        values = self._resolver.values(file, holder)
        return values, bool(values) or not holder

    def _lambda_type(
        self, file: SyntaxFile, call: syntax.KotlinCall, position: int, name: SyntaxNode
    ) -> tuple[SyntaxFile, SyntaxNode] | None:
        """Return the type of functions that a parameter has which gets a lambda."""
        for other, parameters in self._signatures(self._called_values(file, call)):
            named = [one for one in parameters if name and other.text(get(one, "@identifier")) == file.text(name)]
            chosen = named or parameters[position:][:1]
            written = syntax.function_type(get(chosen[-1], syntax.TYPE)) if chosen else NO_NODE
            if written:
                return other, written
        return None

    def lambda_parameter(self, file: SyntaxFile, node: SyntaxNode, position: int) -> Values:
        """Return what a parameter of a lambda is."""
        given = syntax.call_of_lambda(node)
        if given is None:
            return ()
        wanted = self._lambda_type(file, *given)
        if wanted is not None:
            parameters = syntax.function_parameters(wanted[1])[position:]
            return self._resolver.type_values(wanted[0], parameters[0]) if parameters else ()
        name = file.text(given[0].name)
        values = self._resolver.values(file, given[0].holder) if position == 0 else ()
        if name in WITH_VALUE:
            return values
        return self._resolver.elements(values) if name in EACH else ()
