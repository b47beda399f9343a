"""Find every place where a file has a name as a whole word, and what it is in the text. Never raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from tree_sitter import Node

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.syntax_trees import read_tree

Role = Literal["name", "shorthand", "macro", "string", "comment", "text"]
"""A `shorthand` reads a name and is a label of that name as well: `{ name }` for `{ name: name }`. A `macro` is a name
that a macro gets, whose tree has words alone."""
PROSE = frozenset({"string", "comment", "text", "macro"})
"""The roles of words that the tree does not show as names."""
SHORTHANDS = frozenset(
    {"shorthand_property_identifier", "shorthand_property_identifier_pattern", "shorthand_field_identifier"}
)


class Occurrence(NamedTuple):
    """A name at `start` to `stop` in bytes; line and column count from 1, columns in characters."""

    start: int
    stop: int
    line: int
    column: int
    role: Role
    kind: str = ""
    """The type of its node."""


def find_occurrences(language: Language, data: bytes, name: str, grammars: Grammars) -> tuple[Occurrence, ...] | str:
    """Return the places of a name in file order; a sentence if the file cannot be parsed."""
    _, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return tree
    words = find_whole_words(data, name, marked=language.resolution.dollar_marks)
    found = []
    for start, stop in words:
        node = tree.root_node.descendant_for_byte_range(start, stop)
        is_whole = node is not None and (node.start_byte, node.end_byte) == (start, stop)
        if node is not None and is_whole and _is_identifier(node, language.resolution.identifiers):
            found.append(occurrence_at(data, start, stop, _role_of(node), node.type))
        else:
            found.append(occurrence_at(data, start, stop, _role_in_prose(node)))
    return tuple(found)


def occurrence_at(data: bytes, start: int, stop: int, role: Role, kind: str = "") -> Occurrence:
    """Return a place with its line and column."""
    line_start = data.rfind(b"\n", 0, start) + 1
    column = len(data[line_start:start].decode("utf-8", "replace")) + 1
    return Occurrence(start, stop, data.count(b"\n", 0, start) + 1, column, role, kind)


def find_whole_words(data: bytes, name: str, *, marked: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the places of a name as a whole word, in bytes; if `marked`, a dollar sign before it is not part of it.

    >>> list(find_whole_words("cat concat cat's käse_cat".encode(), "cat"))
    [(0, 3), (11, 14)]
    >>> list(find_whole_words(b"$cat $a$cat", "cat", marked=True))
    [(1, 4), (8, 11)]
    """
    word = name.encode("utf-8", "replace")
    for found in re.finditer(re.escape(word), data):
        start, stop = found.span()
        is_marked = marked and data[start - 1 : start] == b"$"
        if (is_marked or not _goes_on(data[max(0, start - 4) : start], -1)) and not _goes_on(data[stop : stop + 4], 0):
            yield start, stop


def _goes_on(neighbors: bytes, index: int) -> bool:
    """Whether the character next to a word makes it a longer one."""
    text = neighbors.decode("utf-8", "ignore")
    return bool(text) and (text[index] in "_$" or text[index].isalnum())


def _is_identifier(node: Node, kinds: tuple[str, ...]) -> bool:
    is_name = node.type in kinds or node.type.endswith(("identifier", "identifier_pattern"))
    return node.is_named and node.child_count == 0 and is_name


def _role_of(node: Node) -> Role:
    parent = node.parent.type if node.parent is not None else ""
    if parent == "token_tree":
        return "macro"
    return "shorthand" if node.type in SHORTHANDS or parent == "shorthand_field_initializer" else "name"


def _role_in_prose(node: Node | None) -> Role:
    """Return the role of a word that is not an identifier: part of a string, of a comment, or of something else."""
    while node is not None:
        if "comment" in node.type:
            return "comment"
        if any(word in node.type for word in ("string", "char", "template", "heredoc", "regex")):
            return "string"
        node = node.parent
    return "text"
