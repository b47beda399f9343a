"""Go: whether two methods can have the same signature, as far as the text shows it."""

from __future__ import annotations

from context_engine.languages import SyntaxFile, SyntaxNode
from context_engine.references.resolver import Resolver
from context_engine.references.values import NamePlace

COMPOSED = frozenset(("pointer_type", "slice_type", "array_type", "map_type", "channel_type", "function_type"))
"""Types that are written with signs, which no predeclared type and no other of these is."""
SAME_NAMES = {"byte": "uint8", "rune": "int32"}
VARIABLE_NAMES = frozenset(("any", "comparable"))
"""Predeclared names of interfaces, which may also be written out."""


def are_compatible(
    resolver: Resolver, one: tuple[SyntaxFile, SyntaxNode], other: tuple[SyntaxFile, SyntaxNode]
) -> bool:
    """Return whether two methods have as many parameters and results, and none that are certainly of other types."""
    for mine, others in zip(read_signature(one[1]), read_signature(other[1]), strict=True):
        if len(mine) != len(others):
            return False
        for left, right in zip(mine, others, strict=True):
            if _differ(resolver, (one[0], left), (other[0], right)):
                return False
    return True


def read_signature(method: SyntaxNode) -> tuple[list[SyntaxNode], list[SyntaxNode]]:
    """Return the types of the parameters of a method, and those of its results."""
    result = method.child_by_field_name("result")
    results = [result] if result is not None else []
    if result is not None and result.type == "parameter_list":
        results = _types_in(result)
    given = method.child_by_field_name("parameters")
    return (_types_in(given) if given is not None else []), results


def _types_in(parameters: SyntaxNode) -> list[SyntaxNode]:
    """Return the type of each parameter: two for `a, b int`. A variadic one is its whole declaration."""
    found: list[SyntaxNode] = []
    for part in parameters.named_children:
        written = part.child_by_field_name("type")
        if part.type == "variadic_parameter_declaration":
            found.append(part)
        elif part.type == "parameter_declaration" and written is not None:
            found += [written] * max(1, len(part.children_by_field_name("name")))
    return found


def _differ(resolver: Resolver, one: tuple[SyntaxFile, SyntaxNode], other: tuple[SyntaxFile, SyntaxNode]) -> bool:
    """Return whether two types are certainly different: an alias or a type parameter may be anything."""
    kinds = {one[1].type, other[1].type}
    if "variadic_parameter_declaration" in kinds:
        return len(kinds) > 1
    if kinds <= COMPOSED:
        return len(kinds) > 1 or _differ_inside(resolver, one, other)
    names = {_identity(resolver, *one), _identity(resolver, *other)}
    return names != {None} if kinds & COMPOSED else None not in names and len(names) > 1


def _differ_inside(
    resolver: Resolver, one: tuple[SyntaxFile, SyntaxNode], other: tuple[SyntaxFile, SyntaxNode]
) -> bool:
    if one[1].type not in ("pointer_type", "slice_type"):
        return False
    inner = (one[0], one[1].named_children[0]), (other[0], other[1].named_children[0])
    return _differ(resolver, *inner)


def _identity(resolver: Resolver, file: SyntaxFile, node: SyntaxNode) -> str | NamePlace | None:
    """Return which predeclared type, or which type of the project, is written; None if it may be another."""
    if node.type not in ("type_identifier", "qualified_type"):
        return None
    found = resolver.type_values(file, node)
    text = file.text(node)
    if len(found) == 1 and found[0].kind == "instance":
        bound = resolver.project.binding_at(found[0].place)
        return found[0].place if bound is not None and bound[1].role == "class" else None
    if node.type == "type_identifier" and text in file.rules.builtins and text not in VARIABLE_NAMES:
        return SAME_NAMES.get(text, text)
    return None
