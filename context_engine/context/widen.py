"""PURE. How much around a place is worth reading with it: the whole of the symbol that the place is a part of.

A chunk that holds a whole definition is complete as it is; one that was cut out of a long function, and a line that a
text search found, are read better with the definition they stand in.
"""

from __future__ import annotations

from collections.abc import Sequence

from context_engine.model import Definition
from context_engine.text import LineSpan

HALF = 0.5
"""A place that holds a whole definition over half of its lines is about that one, not about what is around it."""


def widen_to_symbol(span: LineSpan, symbols: Sequence[Definition], *, lines_max: int) -> tuple[LineSpan, str]:
    """(the span with the rest of the smallest symbol around it, that symbol's name); as it is and "" when complete.

    `lines_max` is what a reader is spared: a class of a thousand lines is not worth it for ten of them.
    """
    around = [each for each in symbols if each.kind != "section" and each.span.contains(span) and each.span != span]
    if not around or any(span.contains(each.span) and each.span.lines >= HALF * span.lines for each in symbols):
        return span, ""
    nearest = min(around, key=lambda each: (each.span.lines, each.span, each.qualified))
    return (nearest.span, nearest.qualified) if nearest.span.lines <= lines_max else (span, "")


def find_symbol_at(span: LineSpan, symbols: Sequence[Definition]) -> str:
    """What a span is part of or consists of: the smallest symbol around it, else the first inside; "" for neither."""
    around = [each for each in symbols if each.span.contains(span)]
    if around:
        return min(around, key=lambda each: (each.span.lines, each.span, each.qualified)).qualified
    return next((each.qualified for each in symbols if span.contains(each.span)), "")
