"""The names that C and C++ declare: a declarator has stars, brackets and parameters around its name."""

from __future__ import annotations

from typing import NamedTuple

from context_engine.languages.syntax_trees import SyntaxNode, child_of

DECLARATORS_MAX = 12
"""Declarators inside of each other: more are not written by hand."""
WRAPPERS = frozenset(
    "pointer_declarator reference_declarator parenthesized_declarator array_declarator attributed_declarator"
    " init_declarator function_declarator qualified_identifier template_function destructor_name"
    " structured_binding_declarator".split()
)
SPECIFIERS = frozenset({"struct_specifier", "union_specifier", "class_specifier", "enum_specifier"})
DECLARATIONS = {
    "function_definition": "function",
    "declaration": "variable",
    "field_declaration": "variable",
    "parameter_declaration": "parameter",
    "optional_parameter_declaration": "parameter",
    "variadic_parameter_declaration": "parameter",
    "type_definition": "alias",
    "for_range_loop": "loop",
}
NAMED = {
    "enumerator": "variable",
    "preproc_def": "variable",
    "preproc_function_def": "function",
    "alias_declaration": "alias",
    "namespace_alias_definition": "alias",
    "concept_definition": "alias",
    "namespace_definition": "namespace",
}
"""Nodes with a field `name`."""


class Declaration(NamedTuple):
    """A declared name: its role, the node that declares it, and whether it is written with a scope: `A::name`."""

    role: str
    statement: SyntaxNode
    is_qualified: bool = False


def find_declared(node: SyntaxNode) -> Declaration | None:
    """Return what an identifier declares; None if it only uses the name."""
    parent = node.parent
    if parent is None:
        return None
    if parent.type in SPECIFIERS:
        return _find_specified(parent, node, is_qualified=False)
    if parent.type == "qualified_identifier" and parent.child_by_field_name("name") == node:
        outer = _leave_qualified(parent)
        if outer.parent is not None and outer.parent.type in SPECIFIERS:
            return _find_specified(outer.parent, outer, is_qualified=True)
    if parent.type == "nested_namespace_specifier" and parent.parent is not None:
        return Declaration("namespace", parent.parent) if parent.parent.type == "namespace_definition" else None
    if parent.type in NAMED and parent.child_by_field_name("name") == node:
        return Declaration(NAMED[parent.type], parent)
    if parent.type in ("type_parameter_declaration", "optional_type_parameter_declaration", "preproc_params"):
        named = (child_of(parent, "."), parent.child_by_field_name("name"))
        return Declaration("parameter", parent) if parent.type == "preproc_params" or node in named else None
    return _declarator(node, parent)


def _find_specified(specifier: SyntaxNode, name: SyntaxNode, *, is_qualified: bool) -> Declaration | None:
    """Return the class that a name defines: one with a body."""
    if specifier.child_by_field_name("name") == name and specifier.child_by_field_name("body") is not None:
        return Declaration("class", specifier, is_qualified)
    return None


def _leave_qualified(node: SyntaxNode) -> SyntaxNode:
    """Return the whole of `a::b::name`."""
    for _ in range(DECLARATORS_MAX):
        if node.parent is None or node.parent.type != "qualified_identifier":
            break
        node = node.parent
    return node


def _declarator(node: SyntaxNode, parent: SyntaxNode) -> Declaration | None:
    at, outer = node, parent
    is_function, is_pointer, is_qualified = False, False, False
    for _ in range(DECLARATORS_MAX):
        if outer.type not in WRAPPERS:
            break
        if not _continues(outer, at):
            return None
        inner = outer.named_children if outer.type == "parenthesized_declarator" else ()
        is_pointer = is_pointer or any(one.type in ("pointer_declarator", "reference_declarator") for one in inner)
        is_function = is_function or (outer.type == "function_declarator" and not is_pointer)
        is_qualified = is_qualified or outer.type == "qualified_identifier"
        if outer.parent is None:
            return None
        at, outer = outer, outer.parent
    role = DECLARATIONS.get(outer.type)
    if role is None or at not in outer.children_by_field_name("declarator"):
        return None
    if is_function and role == "variable" and not _is_variable(outer, at):
        role = "function"
    if role == "variable" and is_qualified and outer.child_by_field_name("type") is None:
        return None
    return Declaration(role, outer, is_qualified)


def _continues(outer: SyntaxNode, at: SyntaxNode) -> bool:
    """Whether a node is the part of a declarator that has the name."""
    named = outer.child_by_field_name("declarator") or outer.child_by_field_name("name")
    if named is not None:
        return named == at
    return outer.type == "structured_binding_declarator" or at == outer.named_children[-1]


def _is_variable(declaration: SyntaxNode, declarator: SyntaxNode) -> bool:
    """Whether `Cat cat(name);` inside of a function makes a variable: arguments look like unnamed parameters."""
    block = declaration.parent
    if block is None or block.type not in ("compound_statement", "case_statement"):
        return False
    parameters = declarator.child_by_field_name("parameters")
    listed = parameters.named_children if parameters is not None else []
    declared = [one.child_by_field_name("declarator") for one in listed]
    kinds = {one.named_children[0].type for one in listed if one.named_child_count}
    is_plain = all(one is None or one.type == "abstract_function_declarator" for one in declared)
    return bool(listed) and is_plain and kinds <= {"type_identifier", "qualified_identifier"}
