r"""PURE. The difference between two versions of a file, in bytes with some lines around them.

It can be applied, reversed, and relocated in a file that has changed since.

>>> delta = make_delta(b"a = 1\nb = 2\nc = 3\n", b"a = 1\nb = 5\nc = 3\n")
>>> apply_delta(delta, b"a = 1\nb = 2\nc = 3\n"), apply_delta(reverse_delta(delta), b"a = 1\nb = 5\nc = 3\n")
(b'a = 1\nb = 5\nc = 3\n', b'a = 1\nb = 2\nc = 3\n')
>>> other = b"# new above\na = 1\nb = 5\nc = 3\n"
>>> apply_delta(relocate_delta(reverse_delta(delta), other), other)
b'# new above\na = 1\nb = 2\nc = 3\n'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

CONTEXT_LINES = 3
"""As many as `diff` shows: enough to find a place again, few enough to tolerate changes nearby."""
CONTEXT_BYTES_MAX = 400
"""On each side; a minified file has lines of megabytes."""


class ByteChange(NamedTuple):
    """`old` at the offset `start` of the old version became `new`. Both begin and end with the same lines."""

    start: int
    old: bytes
    new: bytes


Delta = tuple[ByteChange, ...]
"""All pieces of one file, in their order, none touching another."""


def delta_of_spans(new: bytes, spans: Iterable[tuple[int, int, bytes]]) -> Delta:
    """Return the delta that made `new`, from its changed spans in order: (start, stop, the original bytes)."""
    groups: list[list[tuple[int, int, bytes]]] = []
    reach = -1
    for start, stop, original in spans:
        if groups and _context_start(new, start) <= reach:
            groups[-1].append((start, stop, original))
        else:
            groups.append([(start, stop, original)])
        reach = _context_end(new, stop)
    pieces: list[ByteChange] = []
    shift = 0
    for group in groups:
        first, last = _context_start(new, group[0][0]), _context_end(new, group[-1][1])
        now, before = new[first:last], _original_bytes(new, first, last, group)
        pieces.append(ByteChange(first - shift, before, now))
        shift += len(now) - len(before)
    return tuple(pieces)


def make_delta(old: bytes, new: bytes) -> Delta:
    """Return the delta between any two versions, as one piece: from the first to the last byte that differs."""
    if old == new:
        return ()
    prefix = _common_prefix(old, new)
    tail = _common_prefix(old[prefix:][::-1], new[prefix:][::-1])
    return delta_of_spans(new, [(prefix, len(new) - tail, old[prefix : len(old) - tail])])


def reverse_delta(delta: Delta) -> Delta:
    """Return the delta that leads back from the new version."""
    reversed_pieces: list[ByteChange] = []
    shift = 0
    for piece in delta:
        reversed_pieces.append(ByteChange(piece.start + shift, piece.new, piece.old))
        shift += len(piece.new) - len(piece.old)
    return tuple(reversed_pieces)


def apply_delta(delta: Delta, old: bytes) -> bytes:
    """Return the new version. Raises: ValueError if the delta was made for another old version."""
    parts: list[bytes] = []
    at = 0
    for piece in delta:
        stop = piece.start + len(piece.old)
        if old[piece.start : stop] != piece.old:
            raise ValueError(f"the bytes at {piece.start} are not those of the delta")
        parts += (old[at : piece.start], piece.new)
        at = stop
    return b"".join((*parts, old[at:]))


def relocate_delta(delta: Delta, data: bytes) -> Delta | None:
    """Return the delta for another version that contains each piece exactly once, in the same order; else None."""
    pieces: list[ByteChange] = []
    at = 0
    for piece in delta:
        start = data.find(piece.old)
        if not piece.old or start < at or data.find(piece.old, start + 1) >= 0:
            return None
        pieces.append(ByteChange(start, piece.old, piece.new))
        at = start + len(piece.old)
    return tuple(pieces)


def _original_bytes(new: bytes, first: int, last: int, spans: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the original bytes of `new[first:last]`."""
    parts: list[bytes] = []
    at = first
    for start, stop, original in spans:
        parts += (new[at:start], original)
        at = stop
    return b"".join((*parts, new[at:last]))


def _context_start(data: bytes, start: int) -> int:
    """Return where the context above an offset begins."""
    least, at = max(0, start - CONTEXT_BYTES_MAX), start
    for _ in range(CONTEXT_LINES + 1):
        at = data.rfind(b"\n", least, at)
        if at < 0:
            return least
    return at + 1


def _context_end(data: bytes, stop: int) -> int:
    """Return where the context below an offset ends."""
    most, at = min(len(data), stop + CONTEXT_BYTES_MAX), stop
    for _ in range(CONTEXT_LINES + 1):
        at = data.find(b"\n", at, most) + 1
        if not at:
            return most
    return at


def _common_prefix(one: bytes, other: bytes) -> int:
    """Return how many bytes at the beginning are the same, by bisection, since comparing slices is quick."""
    same, differs = 0, min(len(one), len(other)) + 1
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return same
