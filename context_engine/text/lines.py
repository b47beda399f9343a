"""PURE. Lines of a text as editors and compilers count them: a line ends at a line feed, and at nothing else.

`str.splitlines` also breaks at form feeds and Unicode separators, and then every number after one is off.
"""

from __future__ import annotations


def count(text: str) -> int:
    r"""How many lines a text has; a last line without a line feed counts.

    >>> count(""), count("a"), count("a\n"), count("a\n\fb\nc")
    (0, 1, 1, 3)
    """
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def cut_out(text: str, first: int, last: int) -> str:
    r"""Lines `first` to `last` (1-based, both included) with their line feeds.

    >>> cut_out("a\r\nb\x0cc\nd", 2, 2), cut_out("a\nb", 2, 9)
    ('b\x0cc\n', 'b')
    """
    lines = text.split("\n")
    part = "\n".join(lines[first - 1 : last])
    return part + "\n" if last < len(lines) else part
