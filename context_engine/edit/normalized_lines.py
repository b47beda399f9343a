r"""PURE. Lines by what stands on them.

The key of a line is the line without blanks and tabs at its ends, each run of them inside made one blank.

>>> key_of("\tif  (a)\t{ "), keys_of("a\n  \n b  c")
('if (a) {', ['a', '', 'b c'])
"""

from __future__ import annotations

import re

BLANKS = " \t"

_RUN = re.compile(r"[ \t]+")


def key_of(line: str) -> str:
    """The key of one line; most lines have no run inside, and are only stripped."""
    key = line.strip(BLANKS)
    return _RUN.sub(" ", key) if "  " in key or "\t" in key else key


def keys_of(text: str) -> list[str]:
    """The key of each line of a text; as many as it has line feeds, and one more."""
    return [key_of(line) for line in text.split("\n")]


def indent_of(line: str) -> str:
    r"""The blanks and tabs that a line begins with.

    >>> indent_of("\t  x"), indent_of("x ")
    ('\t  ', '')
    """
    return line[: len(line) - len(line.lstrip(BLANKS))]
