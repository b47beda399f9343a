r"""PURE.

How two versions of a file differ, in bytes with some lines around them: forth, back, and in a file changed since.

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
"""As many as `diff` shows: enough to find a place again, few enough to bear changes nearby."""
CONTEXT_BYTES_MAX = 400
"""On either side; a minified file has lines of megabytes."""


class ByteChange(NamedTuple):
    """At the offset `start` of the old version stood `old`; in the new one it is `new`. Both begin and end alike."""

    start: int
    old: bytes
    new: bytes


Delta = tuple[ByteChange, ...]
"""All pieces of one file, in their order, none touching another."""


def delta_of_spans(new: bytes, spans: Iterable[tuple[int, int, bytes]]) -> Delta:
    """The delta that made `new`, told by (start, stop, what stood there before) of its changed spans, in their order."""
    groups: list[list[tuple[int, int, bytes]]] = []
    reach = -1
    for start, stop, original in spans:
        if groups and _above(new, start) <= reach:
            groups[-1].append((start, stop, original))
        else:
            groups.append([(start, stop, original)])
        reach = _below(new, stop)
    pieces: list[ByteChange] = []
    shift = 0
    for group in groups:
        first, last = _above(new, group[0][0]), _below(new, group[-1][1])
        now, before = new[first:last], _restored(new, first, last, group)
        pieces.append(ByteChange(first - shift, before, now))
        shift += len(now) - len(before)
    return tuple(pieces)


def make_delta(old: bytes, new: bytes) -> Delta:
    """The delta between any two versions, as one piece: all from the first to the last byte that differs."""
    if old == new:
        return ()
    alike = _alike(old, new)
    tail = _alike(old[alike:][::-1], new[alike:][::-1])
    return delta_of_spans(new, [(alike, len(new) - tail, old[alike : len(old) - tail])])


def reverse_delta(delta: Delta) -> Delta:
    """The same difference, seen from the new version."""
    turned: list[ByteChange] = []
    shift = 0
    for piece in delta:
        turned.append(ByteChange(piece.start + shift, piece.new, piece.old))
        shift += len(piece.new) - len(piece.old)
    return tuple(turned)


def apply_delta(delta: Delta, old: bytes) -> bytes:
    """The new version, made of the very version the delta starts from. Raises: ValueError for another one."""
    parts: list[bytes] = []
    at = 0
    for piece in delta:
        stop = piece.start + len(piece.old)
        if old[piece.start : stop] != piece.old:
            raise ValueError(f"at {piece.start} stands something else")
        parts += (old[at : piece.start], piece.new)
        at = stop
    return b"".join((*parts, old[at:]))


def relocate_delta(delta: Delta, data: bytes) -> Delta | None:
    """The same difference from another version, in which each piece stands exactly once, in the same order; else None."""
    pieces: list[ByteChange] = []
    at = 0
    for piece in delta:
        start = data.find(piece.old)
        if not piece.old or start < at or data.find(piece.old, start + 1) >= 0:
            return None
        pieces.append(ByteChange(start, piece.old, piece.new))
        at = start + len(piece.old)
    return tuple(pieces)


def _restored(new: bytes, first: int, last: int, spans: Iterable[tuple[int, int, bytes]]) -> bytes:
    """What stood where `new[first:last]` stands now."""
    parts: list[bytes] = []
    at = first
    for start, stop, original in spans:
        parts += (new[at:start], original)
        at = stop
    return b"".join((*parts, new[at:last]))


def _above(data: bytes, start: int) -> int:
    """Where the context above an offset begins."""
    least, at = max(0, start - CONTEXT_BYTES_MAX), start
    for _ in range(CONTEXT_LINES + 1):
        at = data.rfind(b"\n", least, at)
        if at < 0:
            return least
    return at + 1


def _below(data: bytes, stop: int) -> int:
    """Where the context below an offset ends."""
    most, at = min(len(data), stop + CONTEXT_BYTES_MAX), stop
    for _ in range(CONTEXT_LINES + 1):
        at = data.find(b"\n", at, most) + 1
        if not at:
            return most
    return at


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes at the beginning are the same: halved until found, since comparing slices is quick."""
    same, differs = 0, min(len(one), len(other)) + 1
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return same
