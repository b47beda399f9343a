r"""Parse a file: its tree or why there is none, its syntax errors, the captures of queries, its tokens. Never raises.

What a parser cannot read is replaced by blanks, byte for byte, so that lines and offsets stay those of the file.
Callers that look for a pattern in code ("a call of `eval`", "a default that is a list") need not know the parser.

>>> from context_engine.languages import Languages
>>> file = Captures(Languages.builtin()["python"], b"one()\ntwo()\n", Grammars(getfixture("tmp_path")))
>>> calls = file.find("(call function: (identifier) @name)")
>>> [(found["name"].text, found["name"].first) for found in calls]
[('one', 1), ('two', 2)]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from tree_sitter import Node, Tree

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language, compile_pattern
from context_engine.model import Finding, syntax_finding

LINE_BYTES_MAX = 20_000
"""Longer lines of code are minified or generated: their symbols are of little use, and several grammars need time
quadratic in such a line (20 kB of backticks take Scala's four seconds)."""
TOO_BROKEN = 4_000
"""Unread tokens next to each other in one error. A query visits all of them for each of them: 40,000 take 1.3 s."""

_BLANKS = bytes(byte if byte in b"\n\r" else 32 for byte in range(256))
_SEMICOLONS = bytes.maketrans(b" \t", b";;")


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


def read_tree(language: Language, data: bytes, grammars: Grammars) -> tuple[bytes, Tree | str]:
    """Return the bytes that the parser sees, and the tree; instead of the tree a sentence if there is none."""
    if language.grammar is None:
        return data, f"there is no parser for {language.name}"
    data = prepare_source(language, data)
    if language.content == "code" and len(data) > LINE_BYTES_MAX and max(map(len, data.split(b"\n"))) > LINE_BYTES_MAX:
        return data, f"a line of more than {LINE_BYTES_MAX:,} bytes: not parsed"
    tree = grammars.parse(language.grammar, data)
    if tree is None:
        return data, grammars.problem(language.grammar) or "too broken to be outlined"
    return data, "too broken to be outlined" if len(data) > TOO_BROKEN and _too_broken(tree) else tree


def prepare_source(language: Language, data: bytes) -> bytes:
    """Return the bytes of a file as its parser sees them."""
    for pattern in filter(None, language.blanks):
        data = compile_pattern(pattern, of_bytes=True).sub(lambda match: _translate(match, _BLANKS), data)
    if language.only_inside:
        data = _only_inside(language.only_inside, data)
    if language.semicolons:
        pattern = compile_pattern(language.semicolons, of_bytes=True)
        data = pattern.sub(lambda match: _translate(match, _SEMICOLONS), data)
    return data


def _too_broken(tree: Tree) -> bool:
    """Whether an error is so wide that a query over it would never end; only erroneous nodes are visited."""
    waiting = [tree.root_node] if tree.root_node.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error and node.child_count - node.named_child_count > TOO_BROKEN:
            return True
        waiting += [child for child in node.named_children if child.has_error]
    return False


def _translate(match: re.Match[bytes], table: bytes) -> bytes:
    """Return the text of a match with its first group translated."""
    found, (start, stop) = match[0], match.span(1)
    if start < 0:
        return found
    start, stop = start - match.start(), stop - match.start()
    return found[:start] + found[start:stop].translate(table) + found[stop:]


def _only_inside(parts: tuple[tuple[str, ...], ...], data: bytes) -> bytes:
    """Return the bytes with everything outside the parts blank; where two overlap, the one listed first counts.

    >>> _only_inside((("<a>", "</a>", ";(", ")"),), b"no<a>yes</a>no")
    b'   ;(yes)     '
    >>> _only_inside((("<a>|(<b>)", "</a>"),), b"no<a>yes</a>no")
    b'     yes      '
    """
    kept, taken = bytearray(data.translate(_BLANKS)), bytearray(len(data))
    for part in parts:
        opens, closes = (compile_pattern(pattern, "s", of_bytes=True) for pattern in (*part, "", "")[:2])
        before, after = (text.encode("utf-8", "replace") for text in (*part[2:], "", "")[:2])
        at = 0
        while at <= len(data) and (begin := opens.search(data, at)):
            at = max(begin.end(), at + 1)
            if taken.find(1, begin.start(), begin.end()) >= 0:
                continue
            close = closes.search(data, begin.end())
            start = begin.start(1) if opens.groups and begin[1] is not None else begin.end()
            stop, at = (close.start(), max(close.end(), at)) if close else (len(data), len(data) + 1)
            kept[start - len(before) : stop] = before + data[start:stop]
            kept[stop : stop + len(after)] = after[: len(data) - stop]
            taken[begin.start() : at] = bytes([1]) * len(taken[begin.start() : at])
    return bytes(kept)


ERRORS_MAX = 500
"""A file with more is not a text in its language."""
SHOWN_BYTES = 40


def read_syntax_errors(language: Language, data: bytes, grammars: Grammars) -> tuple[Finding, ...] | str:
    """Return the syntax errors of a file in order; a sentence if it cannot be parsed.

    A parser that recovers from errors finds some in healthy files as well (a macro, a dialect). So a single count means
    little; compare the errors of two versions of a file.
    """
    data, tree = read_tree(language, data, grammars)
    return tree if isinstance(tree, str) else tree_errors(data, tree, ERRORS_MAX)


def tree_errors(data: bytes, tree: Tree, errors_max: int) -> tuple[Finding, ...]:
    """Return the first errors of a tree in file order."""
    found: list[Finding] = []
    waiting = [tree.root_node] if tree.root_node.has_error else []
    while waiting and len(found) < errors_max:
        node = waiting.pop()
        if node.is_missing and not node.type.startswith("_"):  # `_semicolon` and its like are in the grammar only
            found.append(syntax_finding(*node_position(data, node), f"missing {node.type}"))
        elif node.is_error:
            shown = data[node.start_byte : min(node.end_byte, node.start_byte + SHOWN_BYTES)]
            text = " ".join(shown.decode("utf-8", "replace").split())
            found.append(syntax_finding(*node_position(data, node), f"unexpected {text!r}" if text else "syntax error"))
        waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return tuple(found)


def node_position(data: bytes, node: Node | SyntaxNode) -> tuple[int, int]:
    """Return the line and column of a node, both from 1; columns count characters, not bytes."""
    row, column = node.start_point
    start = node.start_byte
    return row + 1, len(data[start - column : start].decode("utf-8", "replace")) + 1


# -- captures ---------------------------------------------------------------------------------------------------------

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


# -- tokens -----------------------------------------------------------------------------------------------------------

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
