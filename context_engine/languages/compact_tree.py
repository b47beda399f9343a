"""A syntax tree as columns of numbers: a fifth of its text when packed, and loaded in a tenth of the time of a parse.

    tree = flatten_tree(parsed, names, data)
    tree = CompactTree.unpack(tree.pack(), names, data)
    tree.node(0).named_children

Nodes are numbered in file order, each before its children. The packed form has for each node its type, field and
flags, the levels that it goes down or up, the bytes since the leaf before it, and the length of a leaf.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash
from tree_sitter import Tree

Numbers = npt.NDArray[np.int32]
Kinds = npt.NDArray[np.uint32]

NAMED, MISSING, ERRONEOUS = 1, 2, 4
"""Flags of a node: it is named, it was added by the parser, there is an error in it."""
FLAG_BITS, KIND_SHIFT = 4, 16
FIELD_MASK = (1 << KIND_SHIFT - FLAG_BITS) - 1
ESCAPE = 255
COLUMN_BYTES_MAX = 20
"""Four numbers for a node, each with a list of large ones."""
MAGIC = b"tree"
HEAD_BYTES = len(MAGIC) + 8
_COUNTS = struct.Struct("<III")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class GrammarNames:
    """The names of a grammar: types of nodes and fields by number; `fingerprint` differs between builds of it."""

    fingerprint: str
    kinds: Mapping[int, str]
    fields: Mapping[str, int]
    _masks: dict[frozenset[str], npt.NDArray[np.bool_]] = field(default_factory=dict)

    def mask(self, kinds: frozenset[str]) -> npt.NDArray[np.bool_]:
        """Return for each number of a type whether it is one of some types."""
        found = self._masks.get(kinds)
        if found is None:
            found = self._masks[kinds] = np.zeros(max(self.kinds) + 1, np.bool_)
            found[[number for number, name in self.kinds.items() if name in kinds]] = True
        return found


class TreeColumns(NamedTuple):
    """The columns of a tree, one number for each node.

    `kinds` has the type, the field and the flags. `stops` are the ends of leaves, and the starts of all other nodes.
    A node ends where its last leaf does, except for those in `ends`.
    """

    kinds: Kinds
    starts: Numbers
    stops: Numbers
    depths: Numbers
    ends: Mapping[int, int]


class SyntaxNode:
    """A node of a compact tree; two are equal if they are the same node. As a node of tree-sitter, as far as needed."""

    __slots__ = ("_number", "_tree", "end_byte", "id", "start_byte", "type")

    def __init__(self, tree: CompactTree, number: int) -> None:
        self._tree = tree
        self._number = number
        self.id = tree.first_id + number
        self.type = tree.types[tree.kinds[number] >> KIND_SHIFT]
        self.start_byte: int = tree.starts[number]
        self.end_byte = tree.end(number)

    def __repr__(self) -> str:
        return f"<{self.type} {self.start_byte}-{self.end_byte}>"

    @property
    def parent(self) -> SyntaxNode | None:
        """The node around it; None for the root."""
        return self._tree.node(self._tree.parents[self._number]) if self._number else None

    @property
    def children(self) -> list[SyntaxNode]:
        """All children in order, brackets and keywords as well."""
        return [self._tree.node(number) for number in self._tree.children(self._number)]

    @property
    def named_children(self) -> list[SyntaxNode]:
        """The children that the grammar names."""
        tree = self._tree
        return [tree.node(number) for number in tree.children(self._number) if tree.kinds[number] & NAMED]

    @property
    def child_count(self) -> int:
        """The number of all children."""
        return sum(1 for _ in self._tree.children(self._number))

    @property
    def named_child_count(self) -> int:
        """The number of children that the grammar names."""
        kinds = self._tree.kinds
        return sum(1 for number in self._tree.children(self._number) if kinds[number] & NAMED)

    def named_child(self, index: int) -> SyntaxNode | None:
        """Return a named child by its place; None if there are fewer."""
        children = self.named_children
        return children[index] if index < len(children) else None

    def child_by_field_name(self, name: str) -> SyntaxNode | None:
        """Return the first child of a field; an error has none."""
        tree = self._tree
        wanted = tree.fields.get(name)
        if wanted is None or self.type == "ERROR":
            return None
        child, field_numbers, following = tree.first_child(self._number), tree.field_numbers, tree.following
        while child:
            if field_numbers[child] == wanted:
                return tree.node(child)
            child = following[child]
        return None

    def children_by_field_name(self, name: str) -> list[SyntaxNode]:
        """Return all children of a field."""
        tree = self._tree
        wanted = tree.fields.get(name)
        if wanted is None:
            return []
        numbers = tree.children(self._number)
        return [tree.node(number) for number in numbers if tree.field_numbers[number] == wanted]

    @property
    def next_sibling(self) -> SyntaxNode | None:
        """The node after it with the same parent."""
        following = self._tree.following[self._number]
        return self._tree.node(following) if following else None

    @property
    def next_named_sibling(self) -> SyntaxNode | None:
        """The named node after it with the same parent."""
        tree, number = self._tree, self._tree.following[self._number]
        while number and not tree.kinds[number] & NAMED:
            number = tree.following[number]
        return tree.node(number) if number else None

    @property
    def prev_sibling(self) -> SyntaxNode | None:
        """The node before it with the same parent."""
        before = self._before()
        return self._tree.node(before[-1]) if before else None

    @property
    def prev_named_sibling(self) -> SyntaxNode | None:
        """The named node before it with the same parent."""
        before = [number for number in self._before() if self._tree.kinds[number] & NAMED]
        return self._tree.node(before[-1]) if before else None

    def _before(self) -> list[int]:
        if not self._number:
            return []
        siblings = self._tree.children(self._tree.parents[self._number])
        return list(itertools.takewhile(lambda number: number < self._number, siblings))

    def descendant_for_byte_range(self, start: int, stop: int) -> SyntaxNode | None:
        """Return the smallest node inside of it around some bytes, one at least."""
        return self._tree.node_around(self._number, start, stop)

    @property
    def start_point(self) -> tuple[int, int]:
        """The row and the column in bytes of its start, both from 0."""
        return self._tree.point(self.start_byte)

    @property
    def end_point(self) -> tuple[int, int]:
        """The row and the column in bytes of its end, both from 0."""
        return self._tree.point(self.end_byte)

    @property
    def text(self) -> bytes:
        """The bytes of the text in it."""
        return self._tree.data[self.start_byte : self.end_byte]

    @property
    def is_named(self) -> bool:
        """Whether the grammar names it."""
        return bool(self._tree.kinds[self._number] & NAMED)

    @property
    def is_missing(self) -> bool:
        """Whether the parser added it, since the text lacks it."""
        return bool(self._tree.kinds[self._number] & MISSING)

    @property
    def is_error(self) -> bool:
        """Whether it is text that the parser could not read."""
        return self.type == "ERROR"

    @property
    def has_error(self) -> bool:
        """Whether there is an error in it."""
        return bool(self._tree.kinds[self._number] & ERRONEOUS)


class CompactTree:
    """The nodes of one file. `data` is the text as the parser saw it."""

    def __init__(self, columns: TreeColumns, names: GrammarNames, data: bytes) -> None:
        self.names = names
        self.data = data
        self.types = names.kinds
        self.fields = names.fields
        self.columns = columns
        self.first_id = next(_numbers) << 32
        self.kinds = columns.kinds.data
        self.field_numbers = ((columns.kinds >> FLAG_BITS).astype(np.uint16) & FIELD_MASK).data
        self.starts = columns.starts.data
        parents, following = _relate(columns.depths)
        self.parents, self.following = parents.data, following.data
        self._stops = columns.stops.data
        self._ends = columns.ends
        self._count = len(columns.kinds)
        self._nodes: dict[int, SyntaxNode] = {}

    def node(self, number: int) -> SyntaxNode:
        """Return a node by its number; 0 is the root."""
        found = self._nodes.get(number)
        if found is None:
            found = self._nodes[number] = SyntaxNode(self, number)
        return found

    def first_child(self, number: int) -> int:
        """Return the number of the first child of a node; 0 if it has none."""
        child = number + 1
        return child if child < self._count and self.parents[child] == number else 0

    def children(self, number: int) -> Iterator[int]:
        """Yield the numbers of the children of a node."""
        child, following = self.first_child(number), self.following
        while child:
            yield child
            child = following[child]

    def end(self, number: int) -> int:
        """Return the end of a node in bytes."""
        known = self._ends.get(number)
        if known is not None:
            return known
        if self.first_child(number):
            outer, following = number, self.following
            while outer and not following[outer]:
                outer = self.parents[outer]
            number = (following[outer] if outer else self._count) - 1  # the last leaf in it
        return self._stops[number]

    def node_around(self, top: int, start: int, stop: int) -> SyntaxNode | None:
        """Return the smallest node around some bytes, one at least, that is `top` or inside of it."""
        number = bisect_right(self.starts, start) - 1
        while number > top and self.end(number) < stop:
            number = self.parents[number]
        return self.node(max(number, top))

    def of_kinds(self, kinds: frozenset[str]) -> list[SyntaxNode]:
        """Return the named nodes of some types in file order."""
        numbers = np.flatnonzero(self.names.mask(kinds)[self.columns.kinds >> KIND_SHIFT])
        return [self.node(number) for number in numbers.tolist() if self.kinds[number] & NAMED]

    def point(self, offset: int) -> tuple[int, int]:
        """Return the row and the column in bytes of an offset, both from 0."""
        row = bisect_left(self._newlines, offset)
        return row, offset - (self._newlines[row - 1] + 1 if row else 0)

    @cached_property
    def _newlines(self) -> list[int]:
        found: list[int] = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n")).tolist()
        return found

    # -- stored --

    def pack(self) -> bytes:
        """Return the tree as bytes, without the text. Raises: ValueError for a tree that cannot be packed."""
        kinds, starts, stops, depths, ends = self.columns
        gaps = starts.copy()
        gaps[1:] -= stops[:-1]
        steps = 1 - np.diff(depths, prepend=0)
        if gaps.min() < 0 or steps.min() < 0:
            raise ValueError("the nodes of the tree are not in order")
        found, places = np.unique(kinds, return_inverse=True)
        other = np.array(list(ends.items()), "<u4").reshape(-1, 2)
        parts = [found.astype("<u4").tobytes(), other.tobytes()]
        parts += [_pack_numbers(column) for column in (places.astype(np.int32), steps, gaps, stops - starts)]
        body = zlib.compress(b"".join(parts), 6)
        rest = _COUNTS.pack(len(kinds), len(found), len(ends)) + body
        return MAGIC + xxhash.xxh3_64_digest(rest) + rest

    @classmethod
    def unpack(cls, packed: bytes, names: GrammarNames, data: bytes) -> CompactTree:
        """Return the tree of a text from its packed form. Raises: ValueError if it is damaged."""
        try:
            head, rest = packed[:HEAD_BYTES], packed[HEAD_BYTES:]
            if head != MAGIC + xxhash.xxh3_64_digest(rest):
                raise ValueError("the tree is damaged")
            columns = _unpack_columns(rest[_COUNTS.size :], _COUNTS.unpack_from(rest), names, len(data))
            return cls(columns, names, data)
        except (struct.error, zlib.error, IndexError) as error:
            raise ValueError("the tree is damaged") from error


def flatten_tree(tree: Tree, names: GrammarNames, data: bytes) -> CompactTree:
    """Return the compact form of a tree that was parsed."""
    cursor = tree.root_node.walk()
    kinds: list[int] = []
    fields: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    depths: list[int] = []
    flags: list[int] = []
    has_error = tree.root_node.has_error
    depth = 0
    while (node := cursor.node) is not None:
        kinds.append(node.kind_id)
        fields.append(cursor.field_id or 0)
        starts.append(node.start_byte)
        ends.append(node.end_byte)
        depths.append(depth)
        flag = NAMED if node.is_named else 0
        if has_error:
            flag |= (MISSING if node.is_missing else 0) | (ERRONEOUS if node.has_error else 0)
        flags.append(flag)
        if cursor.goto_first_child():
            depth += 1
            continue
        while depth and not cursor.goto_next_sibling():
            cursor.goto_parent()
            depth -= 1
        if not depth:
            break
    columns = [np.array(column, dtype=np.int32) for column in (kinds, fields, flags, starts, ends, depths)]
    kind, field_, flag_, start, end, level = columns
    joined = kind.astype(np.uint32) << KIND_SHIFT | (field_ << FLAG_BITS | flag_).astype(np.uint32)
    stop = np.where(_find_leaves(level), end, start)
    other = np.flatnonzero(end != stop[_find_outside(level) - 1])
    exceptions = dict(zip(other.tolist(), end[other].tolist(), strict=True))
    return CompactTree(TreeColumns(joined, start, stop, level, exceptions), names, data)


def _find_leaves(depths: Numbers) -> npt.NDArray[np.bool_]:
    return np.append(depths[1:] <= depths[:-1], True)


def _order(depths: Numbers) -> npt.NDArray[np.intp]:
    """Return the nodes ordered by depth, those of one depth in file order."""
    return depths.astype(np.uint16 if depths.max() < 1 << 16 else np.uint32).argsort(kind="stable")


def _find_outside(depths: Numbers) -> Numbers:
    """Return for each node the next one that is not inside of it.

    >>> _find_outside(np.array([0, 1, 2, 2, 1], np.int32)).tolist()
    [5, 4, 3, 4, 5]
    """
    # How many nodes end after each one: none if the next is inside it, else itself and one for each level up.
    ended = np.append(depths[:-1] - depths[1:], depths[-1]) + 1
    # In the order of the ends: where each is, and the depth of the node that ends there.
    places = np.arange(len(depths), dtype=np.int32)
    ends = places.repeat(ended)
    levels_up = places - (ended.cumsum() - ended).astype(np.int32).repeat(ended)
    ended_depths = depths[ends] - levels_up
    # Within one depth a node ends before the next begins, so the n-th of its nodes has the n-th of its ends.
    outside = np.empty_like(depths)
    outside[_order(depths)] = ends[_order(ended_depths)] + 1
    return outside


def _relate(depths: Numbers) -> tuple[Numbers, Numbers]:
    """Return the parent and the next sibling of each node; 0 for none."""
    order = _order(depths)
    is_first = np.empty(len(depths), np.bool_)  # a first child comes after its parent
    is_first[0] = True
    is_first[1:] = depths[1:] > depths[:-1]
    is_first = is_first[order]
    eldest = np.maximum.accumulate(np.where(is_first, np.arange(len(depths)), 0))
    parents = np.zeros_like(depths)
    parents[order[1:]] = order[eldest[1:]] - 1
    following = np.zeros_like(depths)
    following[order[:-1]] = np.where(is_first[1:], 0, order[1:])
    return parents, following


def _pack_numbers(column: Numbers) -> bytes:
    """Return numbers from 0 on as one byte each; 255 means that the number is in a list after them."""
    return np.minimum(column, ESCAPE).astype(np.uint8).tobytes() + column[column >= ESCAPE].astype("<u4").tobytes()


def _unpack_numbers(body: bytes, at: int, count: int) -> tuple[Numbers, int]:
    column = np.frombuffer(body, np.uint8, count, at).astype(np.int32)
    large = np.flatnonzero(column == ESCAPE)
    column[large] = np.frombuffer(body, "<u4", len(large), at + count)
    return column, at + count + 4 * len(large)


def _unpack_columns(body: bytes, counts: Sequence[int], names: GrammarNames, size: int) -> TreeColumns:
    """Return the columns of a packed tree of a text of so many bytes. Raises: ValueError, zlib.error, IndexError."""
    count, kind_count, other_count = counts
    at = 4 * kind_count + 8 * other_count
    body = zlib.decompressobj().decompress(body, at + COLUMN_BYTES_MAX * count)
    found = np.frombuffer(body, "<u4", kind_count).astype(np.uint32)
    other = np.frombuffer(body, "<u4", 2 * other_count, 4 * kind_count).reshape(-1, 2)
    places, at = _unpack_numbers(body, at, count)
    steps, at = _unpack_numbers(body, at, count)
    gaps, at = _unpack_numbers(body, at, count)
    depths = (1 - steps).cumsum(dtype=np.int32)
    lengths, at = _unpack_numbers(body, at, count)
    gaps[1:] += lengths[:-1]
    starts = gaps.cumsum(dtype=np.int32)
    stops = starts + lengths
    is_tree = count > 0 and depths[0] == 0 and depths[1:].min(initial=1) > 0 and stops.max() <= size
    if not is_tree or not names.kinds.keys() >= set((found >> KIND_SHIFT).tolist()):
        raise ValueError("the tree is of another text")
    ends = {int(number): int(end) for number, end in other.tolist()}
    return TreeColumns(found[places], starts, stops, depths, ends)
