"""The parameters of a function and the arguments of a call, as the table of nodes of a language names their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.nodes import NO_NODE, get, has


class DeclaredParameter(NamedTuple):
    """A parameter: several names for `a, b int` in Go, and none for a pattern or in a list of types.

    `rest` is what it takes of the arguments that are left: "places" or "names"; "-" only divides the others.
    """

    node: SyntaxNode
    names: Sequence[SyntaxNode] = ()
    type: SyntaxNode = NO_NODE
    is_optional: bool = False
    rest: str = ""


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


def read_parameters(file: SyntaxFile, function: SyntaxNode) -> list[DeclaredParameter]:
    """Return the parameters of a function, without the object whose method it is where that is declared as one."""
    fields = file.role_fields(function, "function") or ()
    return read_parameter_list(file, get(function, *fields[2:3] or ("parameters",)))


def read_parameter_list(file: SyntaxFile, listed: SyntaxNode) -> list[DeclaredParameter]:
    """Return the parameters in a list of them, or in a list of types."""
    found: list[DeclaredParameter] = []
    has_bare = file.role_fields(listed, "parameter") == (".",)  # anything in the list is a parameter
    for node in listed.named_children:
        own = file.roles.get(node.type, {})
        if "parameter" not in own and "rest" not in own and (not has_bare or "comment" in node.type):
            continue
        before = node.prev_sibling or NO_NODE
        marks = before.named_children if "marks" in file.roles.get(before.type, {}) else ()
        parts = [node, *node.children, before, *(part for mark in marks for part in mark.children)]
        roles = [file.roles.get(part.type, {}) for part in parts]
        if any("self" in one for one in roles):
            continue
        rest = next((one["rest"][0] for one in roles if "rest" in one), "")
        name, written = (*own.get("parameter", ()), "-", "-")[:2]
        names = [node] if file.is_identifier(node) else node.children_by_field_name(name)
        if name[0] in ".@":
            names = list(filter(file.is_identifier, [get(node, name)]))
        is_optional = has(node, "=", "?") or (node.next_sibling or NO_NODE).type == "="
        found.append(DeclaredParameter(node, names, get(node, written), is_optional, rest))
    return found


def read_signature(file: SyntaxFile, function: SyntaxNode, *, is_bound: bool = False) -> CallSignature | None:
    """Return the parameters of a function; None where calls cannot be checked: it has a decorator, or no list.

    `is_bound`: the first parameter is the object that the function is looked up in.
    """
    if "calls" not in file.rules.checked or not get(function, "parameters") or get(function, "<decorated_definition"):
        return None
    places: list[str] = []
    required: set[str] = set()
    names: set[str] = set()
    rests: list[str] = []
    for one in read_parameters(file, function):
        if one.rest == "start":
            names.clear()
        elif one.rest:
            rests.append(one.rest)
        else:
            own = [file.text(name) for name in one.names] or [f"parameter {len(places) + 1}"]
            names.update(own)
            places += own if not set(rests) - {"names"} else ()
            required.update(own if not one.is_optional else ())
    if is_bound and places:
        names.discard(places[0])
        required.discard(places.pop(0))
    return CallSignature(tuple(places), frozenset(required), frozenset(names), "places" in rests, "names" in rests)


def read_arguments(file: SyntaxFile, call: SyntaxNode) -> CallArguments | None:
    """Return what a call passes; None where that is not written: it unpacks a value, or passes several results."""
    listed = get(call, "arguments")
    if "literal" in file.roles.get(listed.type, {}):  # the only argument, without brackets of its own
        return CallArguments(1)
    given = [node for node in listed.named_children if "comment" not in node.type]
    roles = [file.roles.get(node.type, {}) for node in given]
    is_spread = has(listed, "...") or any("unpacked" in one for one in roles)
    passes_results = file.rules.several_results and len(given) == 1 and "call" in roles[0]
    if not listed or is_spread or passes_results or listed.has_error:
        return None
    named = [get(node, one["label"][0]) for node, one in zip(given, roles, strict=True) if "label" in one]
    return CallArguments(len(given) - len(named), frozenset(map(file.text, named)))
