"""The parameters of a function and the arguments of a call, as the syntax tree shows them."""

from __future__ import annotations

from typing import NamedTuple

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.nodes import get

CHECKED_LANGUAGES = frozenset({"python", "go", "typescript", "tsx", "java"})
"""Languages in which a call with the wrong arguments is an error. In JavaScript and Ruby it need not be one."""
REPEATED = frozenset({"list_splat_pattern", "variadic_parameter_declaration", "spread_parameter", "rest_pattern"})
UNPACKED = frozenset({"list_splat", "dictionary_splat", "spread_element", "variadic_argument"})
NO_PARAMETERS = frozenset({"this", "receiver_parameter"})


class CallArguments(NamedTuple):
    """The arguments of a call: so many by position, and some by name."""

    count: int
    names: frozenset[str] = frozenset()


class CallSignature(NamedTuple):
    """The parameters of a function. `places` are the names of those that may be passed by position."""

    places: tuple[str, ...]
    required: frozenset[str]
    names: frozenset[str]
    takes_more: bool
    takes_any_name: bool

    def refuses(self, call: CallArguments) -> str:
        """Return why a call does not fit; empty when it does."""
        if call.count > len(self.places) and not self.takes_more:
            return f"it passes {call.count} arguments by position, {len(self.places)} are accepted"
        unknown = sorted(call.names - self.names)
        if unknown and not self.takes_any_name:
            return f"it passes {unknown[0]}, which is not a parameter"
        given = {*call.names, *self.places[: call.count]}
        missing = [name for name in (*self.places, *sorted(self.required)) if name in self.required - given]
        return f"it does not pass {missing[0]}" if missing else ""

    def breaks(self, old: CallSignature) -> str:
        """Return why calls of an older signature may fail; empty when all of them still fit."""
        gone, wanted = sorted(old.names - self.names), sorted(self.required - old.required)
        if gone and not self.takes_any_name:
            return f"no longer takes {gone[0]}"
        if wanted:
            return f"now needs {wanted[0]}"
        is_reordered = old.places != self.places[: len(old.places)] and not self.takes_more
        return "takes its arguments in another order" if is_reordered else ""


def read_signature(file: SyntaxFile, function: SyntaxNode, *, is_bound: bool = False) -> CallSignature | None:
    """Return the parameters of a function; None where calls cannot be checked: it has a decorator, or no list.

    `is_bound`: the first parameter is the object that the function is looked up in.
    """
    listed = get(function, "parameters")
    if file.language.name not in CHECKED_LANGUAGES or not listed or get(function, "<decorated_definition"):
        return None
    places: list[str] = []
    required: set[str] = set()
    names: set[str] = set()
    takes_more = takes_any_name = is_by_name = False
    for node in listed.named_children:
        kinds = {node.type, *(child.type for child in node.children)}
        if "comment" in node.type or kinds & NO_PARAMETERS:
            continue
        if node.type == "positional_separator":
            names.clear()
        elif node.type == "keyword_separator" or kinds & REPEATED:
            is_by_name = True
            takes_more = takes_more or node.type != "keyword_separator"
        elif "dictionary_splat_pattern" in kinds:
            takes_any_name = True
        else:
            own = _names_of(file, node) or [f"parameter {len(places) + 1}"]
            names.update(own)
            places += own if not is_by_name else ()
            is_optional = "=" in kinds or node.type == "optional_parameter"
            required.update(own if not is_optional else ())
    if is_bound and places:
        own = places.pop(0)
        names.discard(own)
        required.discard(own)
    return CallSignature(tuple(places), frozenset(required), frozenset(names), takes_more, takes_any_name)


def _names_of(file: SyntaxFile, parameter: SyntaxNode) -> list[str]:
    """Return the names that a parameter declares: several in `a, b int`, none in a list of types."""
    if file.is_identifier(parameter):
        return [file.text(parameter)]
    named = parameter.children_by_field_name("name") or parameter.children_by_field_name("pattern")
    if named:
        return [file.text(node) for node in named]
    first = get(parameter, ".")
    return [file.text(first)] if file.is_identifier(first) and file.language.name == "python" else []


def read_arguments(file: SyntaxFile, call: SyntaxNode) -> CallArguments | None:
    """Return what a call passes; None where that is not written: it unpacks a value, or passes several results."""
    listed = get(call, "arguments")
    given = [node for node in listed.named_children if "comment" not in node.type]
    if listed.type == "generator_expression":
        return CallArguments(1)
    is_spread = any(node.type in UNPACKED for node in given) or any(child.type == "..." for child in listed.children)
    passes_results = file.language.name == "go" and len(given) == 1 and given[0].type == "call_expression"
    if not listed or is_spread or passes_results or listed.has_error:
        return None
    named = [file.text(get(node, "name")) for node in given if node.type == "keyword_argument"]
    return CallArguments(len(given) - len(named), frozenset(named))
