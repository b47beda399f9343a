"""PURE. Groups of lines cut to a number of lines and of characters, in the order of the file.

>>> groups = [SpanGroup(LineSpan(3, 5), (0,)), SpanGroup(LineSpan(8, 9), (1,))]
>>> kept, stop = fit_regions(groups, lines_max=4, chars_max=90, chars=lambda line: 10)
>>> [group.span for group in kept], stop
([LineSpan(first=3, last=5), LineSpan(first=8, last=8)], 9)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from context_engine.text import LineSpan, SpanGroup


def fit_regions(
    groups: Iterable[SpanGroup],
    *,
    lines_max: int,
    chars_max: int,
    chars: Callable[[int], int],
    around: Callable[[SpanGroup], int] = lambda _: 0,
) -> tuple[list[SpanGroup], int]:
    """(what fits, the line it ends before; 0 when all fits).

    `chars` prices a line, `around` what comes with a group.
    """
    kept: list[SpanGroup] = []
    for each in groups:
        stop = each.span.first
        chars_max -= around(each)
        while stop <= each.span.last and lines_max > 0 and chars(stop) <= chars_max:
            lines_max, chars_max, stop = lines_max - 1, chars_max - chars(stop), stop + 1
        if stop > each.span.first:
            kept.append(each._replace(span=LineSpan(each.span.first, stop - 1)))
        if stop <= each.span.last:
            return kept, stop
    return kept, 0
