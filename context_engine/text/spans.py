"""Line spans: where something stands in a file, and how such places grow, meet and are cut.

Lines are 1-based and both ends are included. This module never sees a file.

>>> merge_spans([LineSpan(10, 15), LineSpan(12, 18), LineSpan(50, 55), LineSpan(52, 60)], context=3)
[LineSpan(first=7, last=21), LineSpan(first=47, last=63)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class LineSpan(NamedTuple):
    """Lines `first` to `last`, both included, counted from 1."""

    first: int
    last: int

    def __str__(self) -> str:
        """As people write it.

        >>> f"{LineSpan(7, 21)}, {LineSpan(7, 7)}"
        '7-21, 7'
        """
        return f"{self.first}-{self.last}" if self.last > self.first else str(self.first)

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

    def contains(self, other: LineSpan) -> bool:
        """Whether `other` lies inside this span."""
        return self.first <= other.first and other.last <= self.last


class SpanGroup(NamedTuple):
    """Spans that became one, and which they were: their places in the given list, in line order."""

    span: LineSpan
    members: tuple[int, ...]


def group_spans(spans: Sequence[LineSpan], *, context: int = 0, last_line: int | None = None) -> list[SpanGroup]:
    """Widen each span by `context` lines, then join those that overlap or touch; sorted.

    With `last_line`, groups end where the file does, and a span that lies behind its end belongs to none.

    >>> group_spans([LineSpan(50, 55), LineSpan(3, 4), LineSpan(1, 1)], context=1, last_line=52)
    [SpanGroup(span=LineSpan(first=1, last=5), members=(2, 1)), SpanGroup(span=LineSpan(first=49, last=52), members=(0,))]
    """
    end = max((span.last for span in spans), default=0) + context if last_line is None else last_line
    inside = sorted((span, number) for number, span in enumerate(spans) if span.clip(end) is not None)
    joined: list[tuple[LineSpan, list[int]]] = []
    for asked, number in inside:
        wide = asked.expand(context)
        span = LineSpan(wide.first, min(wide.last, end))
        if joined and joined[-1][0].touches(span):
            before, members = joined[-1]
            members.append(number)
            joined[-1] = LineSpan(before.first, max(before.last, span.last)), members
        else:
            joined.append((span, [number]))
    return [SpanGroup(span, tuple(members)) for span, members in joined]


def merge_spans(spans: Iterable[LineSpan], *, context: int = 0) -> list[LineSpan]:
    """The spans of `group`, when nobody asks which became one."""
    return [each.span for each in group_spans(list(spans), context=context)]
