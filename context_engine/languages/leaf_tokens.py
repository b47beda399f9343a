"""Read the leaves of a syntax tree on some lines: words, operators, literals and marks, without comments.

A string is one token. `around` are the kinds of the nodes around a token, from the inside to the outside.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tree_sitter import Node

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.syntax_trees import read_tree

AROUND_MAX = 6
TOKENS_MAX = 20_000
"""More tokens on changed lines were written by a program."""


class LeafToken(NamedTuple):
    """A leaf of a syntax tree, with its line from 1."""

    kind: str
    text: str
    line: int
    around: tuple[str, ...] = ()


def read_leaf_tokens(
    language: Language, data: bytes, grammars: Grammars, lines: Collection[int]
) -> dict[int, list[LeafToken]]:
    """Return the tokens of each of these lines; none where the file cannot be parsed."""
    if not lines:
        return {}
    given, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return {}
    found: dict[int, list[LeafToken]] = {}
    first, last, count = min(lines), max(lines), 0
    pending: list[tuple[Node, tuple[str, ...]]] = [(tree.root_node, ())]
    while pending and count < TOKENS_MAX:
        node, around = pending.pop()
        if node.end_point[0] + 1 < first or node.start_point[0] + 1 > last or "comment" in node.type:
            continue
        if node.child_count and "string" not in node.type and "char" not in node.type:
            inner = (node.type, *around[: AROUND_MAX - 1])
            pending.extend((child, inner) for child in reversed(node.children))
            continue
        line = node.start_point[0] + 1
        if line in lines and node.end_byte > node.start_byte:
            text = given[node.start_byte : node.end_byte].decode("utf-8", "replace")
            found.setdefault(line, []).append(LeafToken(node.type, text, line, around))
            count += 1
    return found
