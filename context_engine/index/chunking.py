"""PURE. Split one file into chunks that can be found on their own: at definitions, headings and blank lines.

A definition of more than a few lines is a chunk of its own, with the comment above it; only one that is longer than a
chunk may be is split. Runs of constants and enums are chunks of their own (`data`); prose is split at every heading
(`documentation`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from context_engine.model import CHUNK_KINDS, ChunkKind

CHUNK_CHARS_MAX = 1_500
"""Quality is flat between 750 and 1,500 characters (evals/retrieval); longer chunks mean fewer vectors."""
OWN_CHUNK_CHARS = 450
"""A definition at least this long is a chunk of its own; shorter ones share one with their neighbors. At 300 more
changed hunks are shown (evals/places), at 600 files rank better (evals/retrieval)."""
SHORT_CHARS = 200
"""What is left between such definitions and shorter than this does not become a chunk of its own."""
HEADING_ONLY_CHARS = 80
"""A section shorter than this (a bare heading) is joined with the next one."""

DATA_KINDS = frozenset({"constant", "enum"})
_ABOVE = re.compile(r"\s*(#|//|/\*|\*|@|\[|--|;;|%|\"\"\"$)").match
_ABOVE_LINES_MAX = 60
_BLANK_DEPTH = 99
AROUND_MAX = 40
"""Symbols that are looked at, before a chunk, for the one around it."""


class OutlineSymbol(Protocol):
    """What chunking needs to know of a symbol (1-based lines, `parent` is an index or -1)."""

    @property
    def kind(self) -> str:
        """Its kind; `constant` and `enum` are data."""
        ...

    @property
    def first(self) -> int:
        """Its first line."""
        ...

    @property
    def last(self) -> int:
        """Its last line."""
        ...

    @property
    def parent(self) -> int:
        """The index of the symbol around it, -1 for none."""
        ...


class ChunkSpan(NamedTuple):
    """Lines `first`-`last` (1-based), characters `start`:`stop`, and the symbol it is about (-1: none)."""

    first: int
    last: int
    start: int
    stop: int
    kind: ChunkKind
    symbol: int


def split_chunks(text: str, symbols: Sequence[OutlineSymbol], content: str) -> list[ChunkSpan]:
    """Split a file; return its chunks in order, covering every line that is not blank.

    `content` is the content of the language: `code`, `documentation` or `data`.
    """
    lines = text.split("\n")
    offsets = [0, *accumulate([len(line) + 1 for line in lines])]
    offsets[-1] = len(text)
    depths = compute_depths(symbols)
    wholes = [] if content == "documentation" else _unbroken_ranges(symbols, offsets)
    breaks, forced = _breaks(lines, symbols, depths, content)
    if "# %%" in text:  # cells of a notebook
        forced.update(number for number, line in enumerate(lines) if line.startswith("# %%"))
    if content == "code":
        forced.update(_edges_of_definitions(lines, offsets, symbols, wholes, sorted(breaks)))
    pieces: list[ChunkSpan] = []
    least_chars = 0
    if content == "documentation":
        least_chars = HEADING_ONLY_CHARS
    for first, last in _spans(lines, offsets, breaks, forced, wholes, least_chars):
        start, stop = offsets[first], offsets[last]
        if stop - start > CHUNK_CHARS_MAX and last - first == 1:
            parts = [(a, min(a + CHUNK_CHARS_MAX, stop)) for a in range(start, stop, CHUNK_CHARS_MAX)]
        else:
            parts = [(start, stop)]
        if not text[start:stop].strip():
            continue
        symbol = _subject(symbols, depths, first + 1, last)
        kind = _kind(symbols, symbol, content)
        pieces += [ChunkSpan(first + 1, last, a, b, kind, symbol) for a, b in parts]
    return pieces


def kind_code(kind: ChunkKind) -> int:
    """Return the small number that stores a kind."""
    return CHUNK_KINDS.index(kind)


def compute_depths(symbols: Sequence[OutlineSymbol]) -> list[int]:
    """Return how many symbols are around each one; those around come before it."""
    depths: list[int] = []
    for symbol in symbols:
        depths.append(depths[symbol.parent] + 1 if symbol.parent >= 0 else 0)
    return depths


def _breaks(
    lines: Sequence[str], symbols: Sequence[OutlineSymbol], depths: Sequence[int], content: str
) -> tuple[dict[int, int], set[int]]:
    """Return line indices where a chunk may begin (with depth: lower is better), and those where one must."""
    breaks: dict[int, int] = {}
    forced: set[int] = set()
    was_data: bool | None = None
    for index, (symbol, depth) in enumerate(zip(symbols, depths, strict=True)):
        line = symbol.first - 1
        if content == "code":
            line = _with_comment_above(lines, line, _end_before(symbols, index))
            if depth == 0:
                is_data = symbol.kind in DATA_KINDS
                if was_data is not None and is_data != was_data:
                    forced.add(line)
                was_data = is_data
        elif content == "documentation":
            forced.add(line)
        breaks[line] = min(depth, breaks.get(line, _BLANK_DEPTH))
        breaks.setdefault(symbol.first - 1, _BLANK_DEPTH)  # where a long comment ends
    return breaks, forced


def _edges_of_definitions(
    lines: Sequence[str],
    offsets: Sequence[int],
    symbols: Sequence[OutlineSymbol],
    wholes: Sequence[tuple[int, int]],
    places: Sequence[int],
) -> list[int]:
    """Return the line indices where the definitions begin and end that are chunks of their own.

    Of what is between two of them, and too short, short definitions and the head of a class belong to the next one, and
    the rest, such as a closing brace, to the one before.
    """
    edges = {len(lines)}
    for index, symbol in enumerate(symbols):
        first, stop = symbol.first - 1, min(symbol.last, len(lines))
        is_long = offsets[stop] - offsets[first] >= OWN_CHUNK_CHARS
        if is_long and symbol.kind not in DATA_KINDS and not _inside(wholes, first):
            while stop < len(lines) and not lines[stop].strip():
                stop += 1
            edges |= {_with_comment_above(lines, first, _end_before(symbols, index)), stop}
    kept: list[int] = []
    for edge in sorted(edges):
        before = kept[-1] if kept else 0
        if offsets[edge] - offsets[before] >= SHORT_CHARS:
            kept.append(edge)
        elif kept and bisect_left(places, before) == bisect_left(places, edge):
            kept[-1] = edge
    return kept


def _end_before(symbols: Sequence[OutlineSymbol], index: int) -> int:
    """Return the last line (1-based) of the symbols that end before a symbol begins; 0 when there is none."""
    first, above, end = symbols[index].first, index - 1, 0
    while above >= 0 and symbols[above].last < first:
        end = max(end, symbols[above].last)
        above = symbols[above].parent
    return end


def _with_comment_above(lines: Sequence[str], line: int, end_before: int) -> int:
    """Return the index of the first comment, decorator or attribute line of the symbol at `line`."""
    stop = max(end_before, line - _ABOVE_LINES_MAX)
    while line > stop and _ABOVE(lines[line - 1]):
        line -= 1
    return line


def _unbroken_ranges(symbols: Sequence[OutlineSymbol], offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return half-open line ranges, in order, of the outermost definitions that fit into a chunk: none is split."""
    wholes: list[tuple[int, int]] = []
    for symbol in symbols:
        first, stop = symbol.first - 1, min(symbol.last, len(offsets) - 1)
        if wholes and first < wholes[-1][1]:
            continue
        if stop - first > 1 and offsets[stop] - offsets[first] <= CHUNK_CHARS_MAX:
            wholes.append((first, stop))
    return wholes


def _spans(
    lines: Sequence[str],
    offsets: Sequence[int],
    breaks: dict[int, int],
    forced: set[int],
    wholes: Sequence[tuple[int, int]],
    least_chars: int,
) -> list[tuple[int, int]]:
    """Return half-open line ranges: as long as allowed, ended at the shallowest, then latest, break.

    A forced break closer than `least_chars` to the start is skipped.
    """
    places = sorted(breaks)
    must = sorted(forced)
    spans: list[tuple[int, int]] = []
    first, count = 0, len(lines)
    while first < count:
        reach = bisect_right(offsets, offsets[first] + CHUNK_CHARS_MAX) - 1
        reach = min(max(reach, first + 1), count)
        stop_at = bisect_right(must, first)
        while stop_at < len(must) and offsets[must[stop_at]] - offsets[first] < least_chars:
            stop_at += 1
        if stop_at < len(must) and must[stop_at] <= reach:
            stop = must[stop_at]
        elif reach == count:
            stop = count
        else:
            stop = _best_break(lines, breaks, places, wholes, first, reach)
        spans.append((first, stop))
        first = stop
    return spans


def _best_break(
    lines: Sequence[str],
    breaks: dict[int, int],
    places: Sequence[int],
    wholes: Sequence[tuple[int, int]],
    first: int,
    reach: int,
) -> int:
    candidates = [
        line for line in places[bisect_right(places, first) : bisect_right(places, reach)] if not _inside(wholes, line)
    ]
    if candidates:
        return min(candidates, key=lambda line: (breaks[line], -line))
    for line in range(reach, (first + reach) // 2, -1):
        if not lines[line - 1].strip() and not _inside(wholes, line):
            return line
    around = _inside(wholes, reach)
    if around and around[0] > first:
        return around[0]
    return reach


def _inside(wholes: Sequence[tuple[int, int]], line: int) -> tuple[int, int] | None:
    """Return the range that a break at `line` would split."""
    at = bisect_left(wholes, (line, 0)) - 1
    if at >= 0 and line < wholes[at][1]:
        return wholes[at]
    return None


def _subject(symbols: Sequence[OutlineSymbol], depths: Sequence[int], first: int, last: int) -> int:
    """Return the symbol of a chunk: the largest of the shallowest that start in it, else the innermost around it."""
    low = bisect_left(symbols, first, key=lambda symbol: symbol.first)
    best = -1
    for index in range(low, len(symbols)):
        symbol = symbols[index]
        if symbol.first > last:
            break
        if best < 0 or (depths[index], symbol.first - symbol.last) < (
            depths[best],
            symbols[best].first - symbols[best].last,
        ):
            best = index
    if best >= 0:
        return best
    index = low - 1
    while index >= max(0, low - AROUND_MAX):
        if symbols[index].last >= first:
            return index
        parent = symbols[index].parent
        index = parent if parent >= 0 else index - 1
    return -1


def _kind(symbols: Sequence[OutlineSymbol], symbol: int, content: str) -> ChunkKind:
    if content == "documentation":
        return "documentation"
    if content == "data":
        return "data"
    if symbol >= 0 and symbols[symbol].kind in DATA_KINDS:
        return "data"
    return "definitions"
