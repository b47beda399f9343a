"""Objects of JavaScript without a written class: object literals, functions with prototypes, and `this` in them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.call_signatures import read_parameters
from context_engine.references.nodes import NO_NODE, ancestors, get, up
from context_engine.references.values import NamePlace, Value, Values

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

FUNCTIONS = ("function_expression", "function_declaration", "generator_function", "generator_function_declaration")
ASSIGNMENT = "<assignment_expression"
STEPS_MAX = 200
"""Nodes looked at on the way up from a `this`."""
EXPECTED_DEPTH_MAX = 6
"""Object literals inside of each other whose expected type is asked for."""


def record_value(file: SyntaxFile, node: SyntaxNode) -> Values:
    """Return the value of an object literal."""
    return (Value("instance", NamePlace(file.path, node.start_byte), "{}"),)


def record_at(file: SyntaxFile, place: NamePlace) -> SyntaxNode:
    """Return the object literal, or the class without a name, that starts at a place."""
    outer = get(file.node_at(place.start, place.start + 1), "<object|class")
    return outer if outer.start_byte == place.start else NO_NODE


def find_record_members(file: SyntaxFile, record: SyntaxNode, name: str) -> list[NamePlace]:
    """Return the keys and methods of an object literal with a name."""
    found: list[NamePlace] = []
    for node in file.find(name):
        part = get(node, "<pair|method_definition")
        is_key = node in (get(part, "key"), get(part, "name")) and up(part) == record
        if is_key or (node.type == "shorthand_property_identifier" and up(node) == record):
            found.append(NamePlace(file.path, node.start_byte))
    return found


def find_assigned_members(resolver: Resolver, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace]:
    """Return where a member of a class, a function or an object is assigned in its file: `Cat.prototype.run = ...`."""

    def is_meant(holder: SyntaxNode) -> bool:
        return any(value.place == place for value in resolver.values(file, holder))

    found: list[NamePlace] = []
    for node in file.find(name):
        member = get(node, "<member_expression")
        is_assigned = get(member, "property") == node and get(member, ASSIGNMENT, "left") == member
        if is_assigned and _is_plain(file, get(member, "object")) and is_meant(get(member, "object")):
            found.append(NamePlace(file.path, node.start_byte))
    if found or b"prototype" not in file.data:
        return found
    # `Cat.prototype = { ... }` and `Object.assign(Cat.prototype, { ... })`
    for member in (get(word, "<member_expression") for word in file.find("prototype")):
        outer = get(member, "<arguments|assignment_expression")
        records = [one for one in outer.named_children[1:] if one.type == "object"]
        if records and get(outer, ".") == member and is_meant(member):
            found += [at for record in records for at in find_record_members(file, record, name)]
    return found


def _is_plain(file: SyntaxFile, holder: SyntaxNode) -> bool:
    """Whether an object is `this`, a name, or a prototype."""
    is_member = holder.type == "member_expression"
    return holder.type in ("this", "identifier") or (is_member and file.text(get(holder, "property")) == "prototype")


def find_self(resolver: Resolver, file: SyntaxFile, offset: int) -> Values | None:
    """Return what `this` is at an offset; none if it cannot be known, and None inside of a class."""
    start = file.node_at(offset, offset + 1) or NO_NODE
    for node in (start, *islice(ancestors(start), STEPS_MAX)):
        if node.type in ("class_body", "interface_body", "object_type"):
            return None
        if node.type == "method_definition" and up(node).type == "object":
            return _self_of_record(resolver, file, up(node))
        if node.type in FUNCTIONS:
            return _self_of_function(resolver, file, node)
    return ()


def _self_of_record(resolver: Resolver, file: SyntaxFile, record: SyntaxNode) -> Values:
    """Return the object, or what it is the prototype of."""
    first = get(record, "<arguments", ".")
    target = first if first and first != record else get(record, ASSIGNMENT, "left")
    if file.text(target).endswith(".prototype"):
        return resolver.values(file, target)
    return expected_values(resolver, file, record) or record_value(file, record)


def _self_of_function(resolver: Resolver, file: SyntaxFile, function: SyntaxNode) -> Values:
    outer = up(function)
    if outer.type == "pair":
        return _self_of_record(resolver, file, up(outer))
    name = get(function, "name") or get(function, "<variable_declarator", "name")
    if outer.type == "assignment_expression":
        name = get(outer, "left")
        if _is_plain(file, get(name, "object")):
            return tuple(one for one in resolver.values(file, get(name, "object")) if one.kind == "instance")
    if not file.is_identifier(name) or not file.text(name)[:1].isupper():
        return ()
    return (Value("instance", NamePlace(file.path, name.start_byte), file.text(name)),)


def expected_values(resolver: Resolver, file: SyntaxFile, node: SyntaxNode, depth: int = 0) -> Values:
    """Return the type that the place of an expression asks for: of a variable, a parameter, a result, a field."""
    outer = up(node)
    if not outer or depth > EXPECTED_DEPTH_MAX:
        return ()
    if outer.type in ("variable_declarator", "public_field_definition", "required_parameter"):
        return resolver.type_values(file, get(outer, "type"))
    if outer.type == "arguments":
        return _expected_argument(resolver, file, outer, node)
    if outer.type in ("return_statement", "arrow_function"):
        function = next((at for at in ancestors(node) if "function" in file.roles.get(at.type, {})), NO_NODE)
        return resolver.type_values(file, get(function, "return_type"))
    if outer.type == "array":
        return resolver.elements(expected_values(resolver, file, outer, depth + 1))
    if outer.type == "pair":
        holders, name = expected_values(resolver, file, up(outer), depth + 1), file.text(get(outer, "key"))
        return tuple(one for holder in holders for one in resolver.member_values(holder, name))
    return ()


def _expected_argument(resolver: Resolver, file: SyntaxFile, arguments: SyntaxNode, node: SyntaxNode) -> Values:
    if node not in arguments.named_children:
        return ()
    position = arguments.named_children.index(node)
    functions = resolver.values(file, get(arguments, "^function") or get(arguments, "^constructor"))
    for value in functions:
        if value.kind == "class":
            functions += resolver.place_values(resolver.members.find(value, "constructor")[0])
    return tuple(one for value in functions for one in parameter_values(resolver, value, position))


def parameter_values(resolver: Resolver, value: Value, position: int) -> Values:
    """Return the type of a parameter of a function."""
    bound = resolver.project.binding_at(value.place) if value.kind == "function" else None
    if bound is None:
        return ()
    file, function = bound[0], bound[1].statement
    function = function if bound[1].role == "function" else get(function, "value")
    parameters = read_parameters(file, function)[position:][:1]
    return tuple(value for one in parameters for value in resolver.type_values(bound[0], one.type))
