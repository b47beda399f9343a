"""PURE. Lines of a text as editors and compilers count them, and spans of lines, from 1, both ends included.

A line ends at a line feed, and at nothing else: `str.splitlines` also breaks at form feeds and Unicode separators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

COMMENT_MARKS = ("#", "//", "/*", "*", "--", '"""')
"""The beginnings of lines of comments in most languages."""


def count_lines(text: str) -> int:
    r"""Return the number of lines; a last line without a line feed counts.

    >>> count_lines(""), count_lines("a"), count_lines("a\n"), count_lines("a\n\fb\nc")
    (0, 1, 1, 3)
    """
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def split_lines(text: str) -> list[str]:
    r"""Return the lines without their line feeds, as many as `count_lines` counts.

    >>> split_lines("a\r\n\nb\n"), split_lines("a\n\n"), split_lines("")
    (['a\r', '', 'b'], ['a', ''], [])
    """
    return text.removesuffix("\n").split("\n") if text else []


def slice_lines(text: str, first: int, last: int) -> str:
    r"""Return the lines `first` to `last` with their line feeds.

    >>> slice_lines("a\r\nb\x0cc\nd", 2, 2), slice_lines("a\nb", 2, 9)
    ('b\x0cc\n', 'b')
    """
    lines = text.split("\n")
    part = "\n".join(lines[first - 1 : last])
    return part + "\n" if last < len(lines) else part


def shorten_line(line: str, at: int, chars_max: int, *, begins: bool = True, ends: bool = True) -> str:
    """Cut a line to `chars_max` characters around the one at index `at`, with dots where it is cut.

    `begins`, `ends`: whether the text contains the beginning and the end of its line.

    >>> shorten_line("0123456789", 5, 4), shorten_line("0123456789", 0, 4), shorten_line("0123", 2, 4)
    ('…4567…', '0123…', '0123')
    """
    start = max(0, min(at - chars_max // 4, len(line) - chars_max))
    stop = start + chars_max
    before, after = "…" * (start > 0 or not begins), "…" * (stop < len(line) or not ends)
    return f"{before}{line[start:stop]}{after}"


def shorten_prose(text: str, chars_max: int) -> str:
    """Cut a text to at most `chars_max` characters, after a word where there is one, with dots where it is cut.

    >>> shorten_prose("never use spaces", 16), shorten_prose("never use spaces", 12), shorten_prose("一二三四五", 4)
    ('never use spaces', 'never use…', '一二三…')
    """
    if len(text) <= chars_max:
        return text
    part = text[: chars_max - 1]
    words = part.rpartition(" ")[0]
    if len(words) < chars_max / 2:  # a long word, or a script without spaces
        words = part
    return f"{words.rstrip()}…"


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
        """The number of lines."""
        return self.last - self.first + 1

    def expand(self, lines: int) -> LineSpan:
        """Return the span with `lines` more on both sides, never before line 1."""
        return LineSpan(max(1, self.first - lines), self.last + lines)

    def clip(self, last_line: int) -> LineSpan | None:
        """Return the part that exists in a file of `last_line` lines; None if there is none."""
        first, last = max(1, self.first), min(self.last, last_line)
        return LineSpan(first, last) if first <= last else None

    def touches(self, other: LineSpan) -> bool:
        """Return whether the two overlap, or have no line between them."""
        return self.first <= other.last + 1 and other.first <= self.last + 1

    def contains(self, other: LineSpan) -> bool:
        """Return whether `other` is inside this span."""
        return self.first <= other.first and other.last <= self.last


class SpanGroup(NamedTuple):
    """Spans that became one, and their indices in the given list, in line order."""

    span: LineSpan
    members: tuple[int, ...]


def group_spans(spans: Sequence[LineSpan], *, context: int = 0, last_line: int | None = None) -> list[SpanGroup]:
    """Widen each span by `context` lines, then join those that overlap or touch; sorted.

    With `last_line`, groups end where the file does, and a span beyond its end belongs to none.

    >>> groups = group_spans([LineSpan(50, 55), LineSpan(3, 4), LineSpan(1, 1)], context=1, last_line=52)
    >>> [(str(group.span), group.members) for group in groups]
    [('1-5', (2, 1)), ('49-52', (0,))]
    """
    end = max((span.last for span in spans), default=0) + context if last_line is None else last_line
    inside = sorted((span, number) for number, span in enumerate(spans) if span.clip(end) is not None)
    joined: list[tuple[LineSpan, list[int]]] = []
    for narrow, number in inside:
        wide = narrow.expand(context)
        span = LineSpan(wide.first, min(wide.last, end))
        if joined and joined[-1][0].touches(span):
            before, members = joined[-1]
            members.append(number)
            joined[-1] = LineSpan(before.first, max(before.last, span.last)), members
        else:
            joined.append((span, [number]))
    return [SpanGroup(span, tuple(members)) for span, members in joined]


def merge_spans(spans: Iterable[LineSpan]) -> list[LineSpan]:
    """Return the spans of `group_spans`, without the members."""
    return [group.span for group in group_spans(list(spans))]
