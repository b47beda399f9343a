"""PURE. What stands right above a definition and belongs to it: comments and attributes, no blank line between.

The parser puts them inside some definitions and leaves them outside of others; lines say it for all languages.

>>> above(Comments(line=("//",)), ["x", "// Adds.", "#[inline]", "fn add()"], 4)
Above(first=2, comments=True, attributes=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from context_engine.languages.language import Comments
from context_engine.languages.signatures import ATTRIBUTE

LINES_MAX = 200
"""A longer comment is no longer about one definition."""
ENDINGS = (")", "]", ")]", "})", "})]")
"""How the last line of an attribute looks that goes over several."""


class Above(NamedTuple):
    """The first line of what belongs to a definition, which may be its own first line, and what there is above it."""

    first: int
    comments: bool = False
    attributes: bool = False


def above(comments: Comments, lines: Sequence[str], first: int) -> Above:
    """What stands above line `first`, counted from 1, as deeply indented as it."""
    found = Above(first)
    indent = _indent(lines[first - 1])
    while first - found.first < LINES_MAX:
        row = found.first - 2
        if row < 0 or _indent(lines[row]) != indent:
            break
        start = _comment_start(comments, lines, row)
        if start is not None:
            found = found._replace(first=start + 1, comments=True)
            continue
        start = _attribute_start(lines, row, indent)
        if start is None:
            break
        found = found._replace(first=start + 1, attributes=True)
    return found


def leading_part(comments: Comments, lines: Sequence[str]) -> Above:
    """What a text of its own begins with; `first` is the line of the definition itself.

    >>> leading_part(Comments(line=("#",)), ["# Adds.", "@cached", "def add():"])
    Above(first=3, comments=True, attributes=True)
    """
    has_comments = has_attributes = False
    row = 0
    while row < len(lines) - 1:
        stop = _comment_stop(comments, lines, row)
        if stop is not None:
            has_comments = True
        elif ATTRIBUTE.match(lines[row]):
            has_attributes, stop = True, _attribute_stop(lines, row)
        elif lines[row].strip():
            break
        row = row + 1 if stop is None else stop + 1
    return Above(row + 1, has_comments, has_attributes)


def _indent(line: str) -> str:
    """The indentation of a line; a line in a block comment stands a blank deeper than its mark."""
    stripped = line.lstrip(" \t")
    indent = line[: len(line) - len(stripped)]
    return indent.removesuffix(" ") if stripped.startswith("*") else indent


def _comment_start(comments: Comments, lines: Sequence[str], row: int) -> int | None:
    """The first line of the comment that this line is, or ends; None when it is none."""
    line = lines[row].strip()
    if comments.line and line.startswith(comments.line) and not line.startswith("#!") and not ATTRIBUTE.match(line):
        return row
    for opening, closing in comments.block:
        if line.endswith(closing):
            starts = range(row, max(-1, row - LINES_MAX), -1)
            return next((start for start in starts if lines[start].lstrip().startswith(opening)), None)
    return None


def _comment_stop(comments: Comments, lines: Sequence[str], row: int) -> int | None:
    """The last line of the comment that this line is, or begins; None when it is none."""
    line = lines[row].strip()
    if comments.line and line.startswith(comments.line) and not ATTRIBUTE.match(line):
        return row
    for opening, closing in comments.block:
        if line.startswith(opening):
            return next((stop for stop in range(row, len(lines)) if lines[stop].rstrip().endswith(closing)), None)
    return None


def _attribute_start(lines: Sequence[str], row: int, indent: str) -> int | None:
    """The first line of the attribute that this line is, or ends; None when it is none."""
    if ATTRIBUTE.match(lines[row]):
        return row
    if lines[row].strip() not in ENDINGS:
        return None
    starts = range(row - 1, max(-1, row - LINES_MAX), -1)
    start = next((start for start in starts if _indent(lines[start]) == indent), None)
    return start if start is not None and ATTRIBUTE.match(lines[start]) else None


def _attribute_stop(lines: Sequence[str], row: int) -> int:
    """The last line of the attribute that begins here: where its brackets are closed."""
    depth = 0
    for stop in range(row, len(lines)):
        depth += sum(lines[stop].count(mark) for mark in "([{") - sum(lines[stop].count(mark) for mark in ")]}")
        if depth <= 0:
            return stop
    return row
