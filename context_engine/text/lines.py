"""PURE. Lines of a text as editors and compilers count them: a line ends at a line feed, and at nothing else.

`str.splitlines` also breaks at form feeds and Unicode separators, and then every number after one is off.
"""

from __future__ import annotations


def count_lines(text: str) -> int:
    r"""How many lines a text has; a last line without a line feed counts.

    >>> count_lines(""), count_lines("a"), count_lines("a\n"), count_lines("a\n\fb\nc")
    (0, 1, 1, 3)
    """
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def split_lines(text: str) -> list[str]:
    r"""The lines without their line feeds, as many as `count` counts.

    >>> split_lines("a\r\n\nb\n"), split_lines("a\n\n"), split_lines("")
    (['a\r', '', 'b'], ['a', ''], [])
    """
    return text.removesuffix("\n").split("\n") if text else []


def slice_lines(text: str, first: int, last: int) -> str:
    r"""Lines `first` to `last` (1-based, both included) with their line feeds.

    >>> slice_lines("a\r\nb\x0cc\nd", 2, 2), slice_lines("a\nb", 2, 9)
    ('b\x0cc\n', 'b')
    """
    lines = text.split("\n")
    part = "\n".join(lines[first - 1 : last])
    return part + "\n" if last < len(lines) else part


def shorten_line(line: str, at: int, chars_max: int, *, begins: bool = True, ends: bool = True) -> str:
    """A line cut to `chars_max` characters around the one at index `at`, with dots where it went on.

    `begins`, `ends`: whether the text holds the beginning and the end of its line.

    >>> shorten_line("0123456789", 5, 4), shorten_line("0123456789", 0, 4), shorten_line("0123", 2, 4)
    ('…4567…', '0123…', '0123')
    """
    start = max(0, min(at - chars_max // 4, len(line) - chars_max))
    stop = start + chars_max
    before, after = "…" * (start > 0 or not begins), "…" * (stop < len(line) or not ends)
    return f"{before}{line[start:stop]}{after}"
