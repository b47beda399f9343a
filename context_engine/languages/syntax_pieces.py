r"""Read the part of a file around a syntax error again, piece by piece, so that one construct costs no other its tree.

A piece begins at a line with the indentation of the whole part. A piece that has an error is split in turn: the lines
around its inner lines stay, and each inner piece is parsed between them, so that a method is read in its class.

>>> from context_engine.languages import Grammars, Languages
>>> source = b"def one(): pass\ndef two(:\n    pass\ndef three(): pass\n"
>>> data, tree = read_pieces(Languages.builtin()["python"], source, Grammars(getfixture("tmp_path")))
>>> [(error.line, error.title) for error in tree.errors(data, 9)]
[(2, 'missing )')]
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from tree_sitter import Node, QueryCursor, Range, Tree

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language, compile_pattern
from context_engine.languages.syntax_trees import read_tree, tree_errors
from context_engine.model import Finding

DEPTH_MAX = 3
"""Of indentation: a namespace, a class in it, and its methods."""
READ_AGAIN_MAX, READ_AGAIN_MIN = 3, 20_000
"""How often a broken file is read again, and how many bytes at least; the rest of it stays as the whole file says."""

_BEGINS = re.compile(
    rb"([ \t]*+)(?!(?:end|fi|done|esac|else|elif|elsif|except|finally|rescue|ensure|catch)\b)[\w@#\[(~+-]"
)
_LEADS = re.compile(rb"@|#\[|\[|template\b|//|--")
"""How a line begins that belongs to the next one: an attribute, a comment."""


class Line(NamedTuple):
    """A line that is not blank, in bytes, with its number from 0 and its indentation."""

    row: int
    start: int
    stop: int
    indent: int


class Piece(NamedTuple):
    """The bytes from `start` to the start of the next piece are in this tree."""

    start: int
    tree: Tree


class PiecewiseTree:
    """The tree of a file, and the trees of those of its pieces that were read again."""

    def __init__(self, pieces: list[Piece]) -> None:
        """Take the pieces in order."""
        self._pieces = pieces
        self._starts = [piece.start for piece in pieces]
        self._trees = {id(piece.tree): piece.tree for piece in pieces}.values()

    def tree_at(self, offset: int) -> Tree:
        """Return the tree in which an offset is."""
        return self._pieces[bisect_right(self._starts, offset) - 1].tree

    def matches(self, cursor: QueryCursor) -> Iterator[tuple[int, dict[str, list[Node]]]]:
        """Yield the matches of a query: each from the tree in which its name is."""
        for tree in self._trees:
            for pattern, captured in cursor.matches(tree.root_node):
                nodes = captured.get("name") or next(iter(captured.values()))
                if len(self._pieces) == 1 or self.tree_at(nodes[0].start_byte) is tree:
                    yield pattern, captured

    def errors(self, data: bytes, errors_max: int) -> tuple[Finding, ...]:
        """Return the first syntax errors, in order."""
        line_starts = [0, *(match.end() for match in re.finditer(b"\n", data))]
        found = {
            error
            for tree in self._trees
            for error in tree_errors(data, tree, errors_max)
            if self.tree_at(line_starts[min(error.line, len(line_starts)) - 1]) is tree
        }
        return tuple(sorted(found, key=lambda error: (error.line, error.column))[:errors_max])


def read_pieces(language: Language, data: bytes, grammars: Grammars) -> tuple[bytes, PiecewiseTree | str]:
    """Return the bytes that the parser sees, and the tree of a file; or a sentence if there is none."""
    data, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return data, tree
    pieces = [Piece(0, tree)]
    opening = compile_pattern(language.opening, of_bytes=True).match(data) if tree.root_node.has_error else None
    if opening and language.content == "code":
        reader = _PieceReader(language, data, grammars, max(0, opening.end(1)) if language.opening else 0)
        for start, stop in _broken_parts(data, tree.root_node):
            reader.read_part([], reader.lines(start, stop), [], DEPTH_MAX)
            pieces += [*reader.pieces, Piece(stop, tree)]
            reader.pieces.clear()
    return data, PiecewiseTree(pieces)


def _broken_parts(data: bytes, root: Node) -> list[tuple[int, int]]:
    """Return the spans of whole lines at the top of a file in which something is wrong, up to where the next begins."""
    parts: list[tuple[int, int]] = []
    for child in [root] if root.is_error else root.children:
        if not _loses_lines(child) or (parts and child.start_byte < parts[-1][1]):
            continue
        start = data.rfind(b"\n", 0, child.start_byte) + 1
        stop = _next_line(data, max(child.end_byte - 1, start))
        while stop < len(data) and not ((line := _BEGINS.match(data, stop)) and len(line[1]) <= child.start_point[1]):
            stop = _next_line(data, stop)
        parts.append((start, stop))
    return parts


def _next_line(data: bytes, at: int) -> int:
    return data.find(b"\n", at) + 1 or len(data)


def _loses_lines(top: Node) -> bool:
    """Whether an error in a node is more than a few words on one line."""
    waiting = [top] if top.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error and (node.id == top.id or node.end_point[0] > node.start_point[0]):
            return True
        waiting += [child for child in node.children if child.has_error]
    return False


class _PieceReader:
    def __init__(self, language: Language, data: bytes, grammars: Grammars, opening_stop: int) -> None:
        self.pieces: list[Piece] = []
        self._language, self._data, self._grammars = language, data, grammars
        self._bytes_left = READ_AGAIN_MIN + READ_AGAIN_MAX * len(data)
        self._row, self._counted = 0, 0
        self._opening = self.lines(0, _next_line(data, opening_stop) if opening_stop else 0)

    def lines(self, start: int, stop: int) -> list[Line]:
        self._row += self._data.count(b"\n", self._counted, start)
        self._counted = start
        found, row = [], self._row
        for text in self._data[start:stop].splitlines(keepends=True):
            bare = text.lstrip(b" \t")
            if bare.strip():
                found.append(Line(row, start, start + len(text), len(text) - len(bare)))
            start, row = start + len(text), row + text.count(b"\n")
        return found

    def read_part(self, before: list[Line], lines: list[Line], after: list[Line], depth: int) -> None:
        """Read lines that are between others again, each piece by itself."""
        for piece in self._split(lines):
            tree = self._parse([*before, *piece, *after])
            if tree is None:
                return
            inner = [number for number, line in enumerate(piece) if line.indent > piece[0].indent]
            if not depth or not inner or not tree_errors(self._data, tree, 1):
                self.pieces.append(Piece(piece[0].start, tree))
                continue
            first, last = inner[0], inner[-1] + 1
            self._read_around(before, (piece[:first], piece[first:last], piece[last:]), after, depth)

    def _read_around(
        self, before: list[Line], parts: tuple[list[Line], list[Line], list[Line]], after: list[Line], depth: int
    ) -> None:
        head, inner, tail = parts
        before, after = [*before, *head], [*tail, *after]
        tree = self._parse([*before, *after])
        if tree is not None:
            self.pieces.append(Piece(head[0].start, tree))
            self.read_part(before, inner, after, depth - 1)
            if tail:
                self.pieces.append(Piece(tail[0].start, tree))

    def _split(self, lines: list[Line]) -> Iterator[list[Line]]:
        top = min((line.indent for line in lines), default=0)
        piece: list[Line] = []
        leads = True
        for line in lines:
            text = self._data[line.start + line.indent : line.stop]
            if line.indent == top and not leads and _BEGINS.match(text):
                yield piece
                piece = []
            piece.append(line)
            leads = line.indent == top and _LEADS.match(text) is not None
        if piece:
            yield piece

    def _parse(self, lines: list[Line]) -> Tree | None:
        ranges: list[Range] = []
        for line in [*(line for line in self._opening if line.row < lines[0].row), *lines]:
            if ranges and ranges[-1].end_byte == line.start:
                begin = ranges.pop()
                ranges.append(Range(begin.start_point, (line.row + 1, 0), begin.start_byte, line.stop))
            else:
                ranges.append(Range((line.row, 0), (line.row + 1, 0), line.start, line.stop))
        self._bytes_left -= sum(part.end_byte - part.start_byte for part in ranges)
        if self._bytes_left < 0 or self._language.grammar is None:
            return None
        return self._grammars.parse(self._language.grammar, self._data, ranges)
