"""Objects of JavaScript without a written class: object literals, functions with prototypes, and `this` in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from context_engine.languages import NameBinding, SyntaxFile, SyntaxNode, follow, of_type, parent_of
from context_engine.references.values import NamePlace, Value, Values

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

RECORD = "{}"
"""The name of the value of an object literal."""
FUNCTIONS = ("function_expression", "function_declaration", "generator_function", "generator_function_declaration")
STEPS_MAX = 200
"""Nodes looked at on the way up from a `this`."""
EXPECTED_DEPTH_MAX = 6
"""Object literals inside of each other whose expected type is asked for."""


def record_value(file: SyntaxFile, node: SyntaxNode) -> Values:
    """Return the value of an object literal."""
    return (Value("instance", NamePlace(file.path, node.start_byte), RECORD),)


def record_at(file: SyntaxFile, place: NamePlace) -> SyntaxNode | None:
    """Return the object literal, or the class without a name, that starts at a place."""
    node = file.node_at(place.start, place.start + 1)
    outer = parent_of(node)
    is_written = outer is not None and outer.start_byte == place.start and outer.type in ("object", "class")
    return outer if is_written else None


def find_record_members(file: SyntaxFile, record: SyntaxNode, name: str) -> list[NamePlace]:
    """Return the keys and methods of an object literal with a name."""
    found: list[NamePlace] = []
    for node in file.find(name):
        part = node.parent
        if part is not None and part.parent == record and part.type in ("pair", "method_definition"):
            is_key = node in (part.child_by_field_name("key"), part.child_by_field_name("name"))
            found += [NamePlace(file.path, node.start_byte)] if is_key else []
        elif part == record and node.type == "shorthand_property_identifier":
            found.append(NamePlace(file.path, node.start_byte))
    return found


def find_assigned_members(resolver: Resolver, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace]:
    """Return where a member of a class, a function or an object is assigned in its file: `Cat.prototype.run = ...`."""
    found: list[NamePlace] = []
    for node in file.find(name):
        member = node.parent
        if member is None or member.type != "member_expression" or member.child_by_field_name("property") != node:
            continue
        assignment = member.parent
        if assignment is None or assignment.type != "assignment_expression":
            continue
        holder = member.child_by_field_name("object")
        if assignment.child_by_field_name("left") != member or holder is None or not _is_plain(file, holder):
            continue
        if any(value.place == place for value in resolver.values(file, holder)):
            found.append(NamePlace(file.path, node.start_byte))
    return found or _find_in_prototypes(resolver, file, place, name)


def _is_plain(file: SyntaxFile, holder: SyntaxNode) -> bool:
    """Whether an object is `this`, a name, or a prototype."""
    named = follow(of_type(holder, "member_expression"), "property")
    return holder.type in ("this", "identifier") or (named is not None and file.text(named) == "prototype")


def _find_in_prototypes(resolver: Resolver, file: SyntaxFile, place: NamePlace, name: str) -> list[NamePlace]:
    """Return the members of `Cat.prototype = { ... }` and of `Object.assign(Cat.prototype, { ... })`."""
    if b"prototype" not in file.data:
        return []
    found: list[NamePlace] = []
    for word in file.find("prototype"):
        member = word.parent
        outer = parent_of(of_type(member, "member_expression"))
        if member is None or outer is None:
            continue
        records = []
        if outer.type == "arguments" and outer.named_children[0] == member:
            records = outer.named_children[1:]
        if outer.type == "assignment_expression" and outer.child_by_field_name("left") == member:
            records = outer.named_children[1:]
        records = [one for one in records if one.type == "object"]
        if records and any(value.place == place for value in resolver.values(file, member)):
            found += [at for record in records for at in find_record_members(file, record, name)]
    return found


def find_prototype_bases(resolver: Resolver, file: SyntaxFile, place: NamePlace) -> Values:
    """Return what a function inherits from: `inherits(Cat, Animal)`, `Cat.prototype = Object.create(Pet.prototype)`."""
    found: list[Value] = []
    for word in file.find("inherits"):
        call = word.parent if word.parent is not None and word.parent.type == "call_expression" else None
        call = call or (word.parent.parent if word.parent is not None else None)
        arguments = follow(call, "arguments")
        given = arguments.named_children if arguments is not None else []
        if len(given) == 2 and any(value.place == place for value in resolver.values(file, given[0])):
            found += resolver.values(file, given[1])
    for word in file.find("prototype") if b"Object.create" in file.data or b"__proto__" in file.data else ():
        member = word.parent
        outer = parent_of(member)
        if outer is not None and outer.type == "member_expression":  # `Cat.prototype.__proto__`
            member, outer = outer, outer.parent
        if member is None or outer is None or outer.type != "assignment_expression":
            continue
        right = outer.child_by_field_name("right")
        if right is None or right == member or not _is_prototype(file, right):
            continue
        holder = member.child_by_field_name("object")
        if holder is not None and any(value.place == place for value in resolver.values(file, holder)):
            found += _base_of(resolver, file, right)
    return tuple(Value("class", value.place, value.name) if value.place.path else value for value in found)


def _is_prototype(file: SyntaxFile, node: SyntaxNode) -> bool:
    return file.text(node)[:200].startswith("Object.create(") or file.text(node)[-10:] == ".prototype"


def _base_of(resolver: Resolver, file: SyntaxFile, node: SyntaxNode) -> Values:
    arguments = node.child_by_field_name("arguments")
    given = arguments.named_children[0] if arguments is not None and arguments.named_child_count else node
    return resolver.values(file, given)


def find_self(resolver: Resolver, file: SyntaxFile, offset: int) -> Values | None:
    """Return what `this` is at an offset; none if it cannot be known, and None inside of a class."""
    node = file.node_at(offset, offset + 1)
    for _ in range(STEPS_MAX):
        if node is None:
            return ()
        outer = node.parent
        if node.type in ("class_body", "interface_body", "object_type"):
            return None
        if node.type == "method_definition" and outer is not None and outer.type == "object":
            return _self_of_record(resolver, file, outer)
        if node.type in FUNCTIONS:
            return _self_of_function(resolver, file, node)
        node = outer
    return ()


def _self_of_record(resolver: Resolver, file: SyntaxFile, record: SyntaxNode) -> Values:
    """Return the object, or what it is the prototype of."""
    outer = record.parent
    target = follow(of_type(outer, "assignment_expression"), "left")
    if outer is not None and outer.type == "arguments" and outer.named_children[0] != record:
        target = outer.named_children[0]
    if target is not None and file.text(target).endswith(".prototype"):
        return resolver.values(file, target)
    expected = expected_values(resolver, file, record)
    return expected or record_value(file, record)


def _self_of_function(resolver: Resolver, file: SyntaxFile, function: SyntaxNode) -> Values:
    outer = function.parent
    if outer is not None and outer.type == "pair" and outer.parent is not None:
        return _self_of_record(resolver, file, outer.parent)
    if outer is not None and outer.type == "assignment_expression":
        target = outer.child_by_field_name("left")
        holder = follow(target, "object")
        if holder is not None and _is_plain(file, holder):
            values = resolver.values(file, holder)
            return tuple(value for value in values if value.kind == "instance") or ()
        name = target
    else:
        name = function.child_by_field_name("name")
        if name is None and outer is not None and outer.type == "variable_declarator":
            name = outer.child_by_field_name("name")
    if name is None or not file.is_identifier(name) or not file.text(name)[:1].isupper():
        return ()
    return (Value("instance", NamePlace(file.path, name.start_byte), file.text(name)),)


def expected_values(resolver: Resolver, file: SyntaxFile, node: SyntaxNode, depth: int = 0) -> Values:
    """Return the type that the place of an expression asks for: of a variable, a parameter, a result, a field."""
    outer = node.parent
    if outer is None or depth > EXPECTED_DEPTH_MAX:
        return ()
    written = outer.child_by_field_name("type")
    if outer.type in ("variable_declarator", "public_field_definition", "required_parameter") and written is not None:
        return resolver.type_values(file, written)
    if outer.type in ("as_expression", "satisfies_expression"):
        return resolver.type_values(file, outer.named_children[-1])
    if outer.type in ("parenthesized_expression", "ternary_expression", "await_expression"):
        return expected_values(resolver, file, outer, depth + 1)
    if outer.type == "arguments":
        return _expected_argument(resolver, file, outer, node)
    if outer.type in ("return_statement", "arrow_function"):
        return _expected_result(resolver, file, node)
    if outer.type == "array":
        return resolver.elements(expected_values(resolver, file, outer, depth + 1))
    key = outer.child_by_field_name("key")
    if outer.type == "pair" and key is not None and outer.parent is not None:
        holders = expected_values(resolver, file, outer.parent, depth + 1)
        name = file.text(key)
        return tuple(one for holder in holders for one in resolver.member_values(holder, name))
    return ()


def _expected_argument(resolver: Resolver, file: SyntaxFile, arguments: SyntaxNode, node: SyntaxNode) -> Values:
    call = arguments.parent
    if call is None or node not in arguments.named_children:
        return ()
    called = call.child_by_field_name("function") or call.child_by_field_name("constructor")
    if called is None:
        return ()
    position = arguments.named_children.index(node)
    functions = resolver.values(file, called)
    for value in functions:
        if value.kind == "class":
            functions += resolver.place_values(resolver.members.find(value, "constructor")[0])
    found: list[Value] = []
    for value in functions:
        bound = resolver.project.binding_at(value.place) if value.kind == "function" else None
        function = function_of(bound[1]) if bound is not None else None
        parameters = follow(function, "parameters")
        if bound is not None and parameters is not None and position < parameters.named_child_count:
            written = parameters.named_children[position].child_by_field_name("type")
            found += resolver.type_values(bound[0], written) if written is not None else ()
    return tuple(found)


def function_of(binding: NameBinding) -> SyntaxNode | None:
    """Return the function that a binding names."""
    return binding.statement if binding.role == "function" else binding.statement.child_by_field_name("value")


def _expected_result(resolver: Resolver, file: SyntaxFile, node: SyntaxNode) -> Values:
    outer = node.parent
    for _ in range(STEPS_MAX):
        if outer is None:
            return ()
        if "function" in file.roles.get(outer.type, {}):
            written = outer.child_by_field_name("return_type")
            return resolver.type_values(file, written) if written is not None else ()
        outer = outer.parent
    return ()
