r"""PURE.

How text that was written for a file is laid out in it: how far it is indented there, how many blank lines part it.

The text is meant either as it is or counted from its own first line. Only where one of both can be meant is it taken.

>>> laid_out("def b(self):\n    return 1", "    ", ["class A:", "    def a(self):", "        pass"])
'    def b(self):\n        return 1'
>>> laid_out("def b(self):\n        return 1", "    ", ["class A:", "    def a(self):", "        pass"])
'    def b(self):\n        return 1'
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from context_engine.edit.indent import BOTH_WAYS, NO_LEVEL, OTHER_CHARACTERS, map_indents, unit_of
from context_engine.edit.normalized_lines import BLANKS, indent_of

OPENING = ("(", "[", "{")
CLOSING = (")", "]", "}")
MARKS = ("@", "#", "//", "--")
"""Decorators, attributes and comments stand right above what they belong to, as deep as that."""
DOCSTRING = re.compile(r"(?<![=(,\[A-Za-z])(?<![=(,\[] )[A-Za-z]{0,2}(\"{3}|'{3})(?:(?!\1).)*?\1", re.DOTALL)
"""What is moved with its code, as any formatter does."""
SHORT_STRINGS = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\\n])*`")
COMMENTS = re.compile(r"/\*.*?\*/|(?://|#|--).*?$|(?<=[&<,+ ])'\w+(?=[ >,+)\]:])", re.DOTALL | re.MULTILINE)
"""What may hold a quotation mark that opens nothing, lifetimes of Rust with it."""
LONG_STRINGS = re.compile(r"[\"'`]|<<[<~-]?[\"'A-Z]")


class Doubt(Exception):  # noqa: N818 - it is a doubt, and never leaves this room
    """It is not certain how a text is laid out; the reason is its only argument."""


def trim(text: str) -> str:
    r"""A text in line feeds, without blank lines at its edges and blanks at its end.

    >>> trim("\n  a\r\n  b \n\n")
    '  a\n  b'
    """
    lines = text.replace("\r\n", "\n").split("\n")
    solid = [number for number, line in enumerate(lines) if line.strip(BLANKS)]
    return "\n".join(lines[solid[0] : solid[-1] + 1]).rstrip(BLANKS) if solid else ""


def laid_out(text: str, indent: str, nearby: Sequence[str]) -> str:
    """A trimmed text with its first line at an indent, among these lines of the file. Raises: Doubt."""
    lines = text.split("\n")
    first, further = indent_of(lines[0]), [indent_of(line) for line in lines[1:] if line.strip(BLANKS)]
    if first == "" and indent and further:
        indents = _from_the_margin(lines, indent, further, nearby)
    else:
        found = map_indents([(first, indent)], further, nearby=nearby)
        if found.doubt:
            raise Doubt(found.doubt)
        indents = found.indents
    if [first, *further] == [indent, *indents]:
        return text
    if further and _has_long_string(text):
        raise Doubt("a string that goes over several lines would be moved")
    placed = iter([indent, *indents])
    return "\n".join(next(placed) + line.lstrip(BLANKS) if line.strip(BLANKS) else line for line in lines)


def _from_the_margin(lines: list[str], indent: str, further: list[str], nearby: Sequence[str]) -> list[str]:
    """The indents of further lines when the first has none: all count from the margin, or it alone lost its indent."""
    unit = unit_of(nearby) or indent
    solid = [line for line in lines if line.strip(BLANKS)]
    moved, kept = (_fits(solid, further, base, unit) for base in ("", indent))
    if moved == kept:
        raise Doubt(BOTH_WAYS if moved else NO_LEVEL)
    if kept:
        return further
    if any(set(each) - set(indent) for line, each in zip(solid[1:], further, strict=True) if not _is_starred(line)):
        raise Doubt(OTHER_CHARACTERS)
    return [indent + each for each in further]


def _fits(solid: list[str], further: list[str], base: str, unit: str) -> bool:
    """Whether further lines stand as they would if the first one were indented by `base`."""
    if not all(each.startswith(base) for each in further):
        return False
    head, following, more = solid[0].rstrip(BLANKS), solid[1].lstrip(BLANKS), further[0].removeprefix(base)
    if head.startswith("/*") and _is_starred(following):
        return more == " "
    if head.endswith(("{", ":")) and not following.startswith(CLOSING):
        return more == unit
    if head.endswith(OPENING) and not following.startswith(CLOSING):
        return bool(more) and base in further
    if head.startswith(MARKS) or following == "{":
        return not more
    return min(further, key=len) in (base, base + unit)


def _has_long_string(text: str) -> bool:
    r"""Whether a string may go over several lines, which must not be moved.

    >>> _has_long_string("a = 'b'  # don't"), _has_long_string("a = `b\nc`"), _has_long_string("a = <<<EOF")
    (False, True, True)
    """
    for known in (DOCSTRING, SHORT_STRINGS, COMMENTS):
        text = known.sub("", text)
    return bool(LONG_STRINGS.search(text))


def _is_starred(line: str) -> bool:
    """Whether a line is one of a block comment, which is aligned by a blank."""
    return line.lstrip(BLANKS).startswith("*")
