"""Line spans: where something stands in a file, and how such places grow, meet and are cut.

Lines are 1-based and both ends are included. This module never sees a file.

>>> merge([LineSpan(10, 15), LineSpan(12, 18), LineSpan(50, 55), LineSpan(52, 60)], context=3)
[LineSpan(first=7, last=21), LineSpan(first=47, last=63)]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class LineSpan(NamedTuple):
    """Lines `first` to `last`, both included, counted from 1."""

    first: int
    last: int

    @property
    def lines(self) -> int:
        """How many lines it covers."""
        return self.last - self.first + 1

    def expand(self, lines: int) -> LineSpan:
        """The span with `lines` more on both sides, never before line 1."""
        return LineSpan(max(1, self.first - lines), self.last + lines)

    def clip(self, last_line: int) -> LineSpan | None:
        """The part that exists in a file of `last_line` lines; None when there is none."""
        first, last = max(1, self.first), min(self.last, last_line)
        return LineSpan(first, last) if first <= last else None

    def touches(self, other: LineSpan) -> bool:
        """Whether the two overlap or stand next to each other with no line between."""
        return self.first <= other.last + 1 and other.first <= self.last + 1

    def holds(self, other: LineSpan) -> bool:
        """Whether `other` lies inside this span."""
        return self.first <= other.first and other.last <= self.last


def merge(spans: Iterable[LineSpan], *, context: int = 0) -> list[LineSpan]:
    """Widen each span by `context` lines, then join those that overlap or touch; sorted."""
    merged: list[LineSpan] = []
    for span in sorted(span.expand(context) for span in spans):
        if merged and merged[-1].touches(span):
            merged[-1] = LineSpan(merged[-1].first, max(merged[-1].last, span.last))
        else:
            merged.append(span)
    return merged
