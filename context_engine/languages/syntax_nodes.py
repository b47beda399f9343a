"""Lead from one node of a syntax tree to others, without a check at each step.

Where there is no node, `NO_NODE` is given: it is false, has no type, no text and no neighbors, and every step from it
leads to it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class SyntaxNode:
    """The nodes of tree-sitter, as far as they are used; the only object of this very class is `NO_NODE`."""

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

    A step is the name of a field, or `.` for the first named child, `$` for the last, `@type|type` for the first named
    child of one of these types, `$type|type` for the last of one, `-` for none, `^field` for a field of the parent, `<`
    for the parent, and `<type|type` for the parent if it has one of these types.
    """
    at = node or NO_NODE
    for step in steps:
        at = _follow(at, step)
    return at


def _follow(node: SyntaxNode, step: str) -> SyntaxNode:
    mark, rest = step[0], step[1:]
    if mark not in ".$@-^<":
        return node.child_by_field_name(step) or NO_NODE
    if mark == "-":
        return NO_NODE
    if mark == "<":
        return up(node) if not rest or up(node).type in rest.split("|") else NO_NODE
    if mark == "^":
        return _follow(up(node), rest)
    named = node.named_children if not rest else children(node, *rest.split("|"))
    return named[-1 if mark == "$" else 0] if named else NO_NODE


def children(node: SyntaxNode, *kinds: str) -> list[SyntaxNode]:
    """Return the named children of a node that have one of some types."""
    return [child for child in node.named_children if child.type in kinds]


def has(node: SyntaxNode, *kinds: str) -> bool:
    """Whether a child of a node, brackets and keywords included, has one of some types."""
    return any(child.type in kinds for child in node.children)


def covers(node: SyntaxNode, offset: int) -> bool:
    """Whether a byte of the file is in a node."""
    return node.start_byte <= offset < node.end_byte
