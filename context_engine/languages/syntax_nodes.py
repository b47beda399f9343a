"""The nodes of syntax trees, and how the fields of a language file lead from one to another."""

from __future__ import annotations

from collections.abc import Sequence


class SyntaxNode:
    """The nodes of tree-sitter, as far as they are used; an object of this very class is what is where no node is."""

    id: int = 0
    type: str = ""
    text: bytes | None = b""
    start_byte: int = 0
    end_byte: int = 0
    start_point: tuple[int, int] = (0, 0)
    end_point: tuple[int, int] = (0, 0)
    is_named: bool = False
    has_error: bool = False
    parent: SyntaxNode | None = None
    children: Sequence[SyntaxNode] = ()
    named_children: Sequence[SyntaxNode] = ()
    child_count: int = 0
    named_child_count: int = 0
    next_sibling: SyntaxNode | None = None
    prev_sibling: SyntaxNode | None = None
    next_named_sibling: SyntaxNode | None = None
    prev_named_sibling: SyntaxNode | None = None

    def __bool__(self) -> bool:
        return False

    def child_by_field_name(self, _name: str, /) -> SyntaxNode | None:
        """Return the first child of a field."""
        return None

    def children_by_field_name(self, _name: str, /) -> Sequence[SyntaxNode]:
        """Return all children of a field."""
        return ()

    def descendant_for_byte_range(self, _start: int, _stop: int, /) -> SyntaxNode | None:
        """Return the smallest node in it around some bytes."""
        return None


def child_of(node: SyntaxNode, field: str) -> SyntaxNode | None:
    """Return the child of a field of a rule: `.` the first named child, `$` the last, `-` none, `^field` the parent's.

    `@type|type` is the first named child of one of these types, and `$type|type` the last of one.
    """
    mark, rest = field[0], field[1:]
    if mark not in ".$@-^":
        return node.child_by_field_name(field)
    if mark == "^" and node.parent is not None:
        return child_of(node.parent, rest)
    named = node.named_children if mark in ".$@" else ()
    if rest:
        kinds = rest.split("|")
        named = [child for child in named if child.type in kinds]
    return named[-1 if mark == "$" else 0] if named else None


def follow(node: SyntaxNode | None, *fields: str) -> SyntaxNode | None:
    """Return the node that fields lead to, one after the other; None where one of them is missing."""
    for field in fields:
        node = child_of(node, field) if node is not None else None
    return node


def parent_of(node: SyntaxNode | None) -> SyntaxNode | None:
    """Return the parent of a node; None where either is missing."""
    return node.parent if node is not None else None


def of_type(node: SyntaxNode | None, kind: str) -> SyntaxNode | None:
    """Return a node if it has this type, else None."""
    return None if node is None or node.type != kind else node
