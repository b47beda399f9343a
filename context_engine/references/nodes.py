"""Lead from one node of a syntax tree to others, without a check at each step.

Where there is no node, `NO_NODE` is given: it is false, has no type, no text and no neighbors, and every step from it
leads to it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from context_engine.languages import SyntaxNode, child_of

NO_NODE = SyntaxNode()


def up(node: SyntaxNode) -> SyntaxNode:
    """Return the node around a node."""
    return node.parent or NO_NODE


def ancestors(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield the nodes around a node, the innermost first."""
    while node := up(node):
        yield node


def around(node: SyntaxNode, *kinds: str) -> SyntaxNode:
    """Return the innermost node around a node that has one of some types."""
    return next((outer for outer in ancestors(node) if outer.type in kinds), NO_NODE)


def beyond(node: SyntaxNode, *kinds: str) -> SyntaxNode:
    """Return the node itself, or the innermost around it that has none of some types."""
    while node.type in kinds:
        node = up(node)
    return node


def get(node: SyntaxNode | None, *steps: str) -> SyntaxNode:
    """Return the node that steps lead to, one after the other.

    A step is a field as in `child_of`, or `<` for the parent, or `<type|type` for the parent if it has one of these
    types.
    """
    at = node or NO_NODE
    for step in steps:
        if step[0] != "<":
            at = child_of(at, step) or NO_NODE
        else:
            at = up(at) if step == "<" or up(at).type in step[1:].split("|") else NO_NODE
    return at


def children(node: SyntaxNode, *kinds: str) -> list[SyntaxNode]:
    """Return the named children of a node that have one of some types."""
    return [child for child in node.named_children if child.type in kinds]


def has(node: SyntaxNode, *kinds: str) -> bool:
    """Whether a child of a node, brackets and keywords included, has one of some types."""
    return any(child.type in kinds for child in node.children)


def covers(node: SyntaxNode, offset: int) -> bool:
    """Whether a byte of the file is in a node."""
    return node.start_byte <= offset < node.end_byte
