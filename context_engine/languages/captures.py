r"""Run tree-sitter queries on a file and return the captures as plain tuples. Never raises: a broken file has none.

Callers that look for a pattern in code ("a call of `eval`", "a default that is a list") need not know the parser.

>>> from context_engine.languages import Languages
>>> python = Languages.builtin()["python"]
>>> file = Captures(python, b"one()\ntwo()\n", Grammars(getfixture("tmp_path")))
>>> calls = file.find("(call function: (identifier) @name)")
>>> [(found["name"].text, found["name"].first) for found in calls]
[('one', 1), ('two', 2)]
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.syntax_trees import node_position, read_tree

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


MATCHES_MAX = 20_000
"""A file with more matches was generated."""


class Capture(NamedTuple):
    """A captured node: its lines (1-based, both included), the column of its start, its byte offsets and its text."""

    first: int
    last: int
    column: int
    start: int
    stop: int
    kind: str
    text: str


CaptureMatch = Mapping[str, Capture]
"""The captures of one match by name, without the `@`; the first of a repeated capture."""


class Captures:
    """A file that answers queries; it is parsed at the first one."""

    def __init__(self, language: Language, data: bytes, grammars: Grammars) -> None:
        self._language = language
        self._given = data
        self._grammars = grammars

    @cached_property
    def _parse_result(self) -> tuple[bytes, Tree | str]:
        return read_tree(self._language, self._given, self._grammars)

    @property
    def problem(self) -> str:
        """The reason why there is no tree; empty if there is one."""
        tree = self._parse_result[1]
        return tree if isinstance(tree, str) else ""

    @property
    def is_broken(self) -> bool:
        """Whether its parser sees an error in it."""
        tree = self._parse_result[1]
        return not isinstance(tree, str) and tree.root_node.has_error

    def find(self, query: str) -> list[CaptureMatch]:
        """Return the matches of a query in file order; none if the query does not fit the grammar."""
        data, tree = self._parse_result
        cursor = self._grammars.cursor(self._language.grammar or "", query)
        if cursor is None or isinstance(tree, str):
            return []
        found = []
        for _, nodes in cursor.matches(tree.root_node):
            found.append({name: read_capture(data, captured[0]) for name, captured in nodes.items() if captured})
            if len(found) >= MATCHES_MAX:
                break
        return sorted(found, key=lambda match: min((capture.start, capture.stop) for capture in match.values()))


def read_capture(data: bytes, node: Node) -> Capture:
    """Return a node as a plain tuple."""
    line, column = node_position(data, node)
    text = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
    return Capture(line, node.end_point[0] + 1, column, node.start_byte, node.end_byte, node.type, text)
