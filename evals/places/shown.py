r"""PURE. Which lines does a reply show? Read from its text alone, as an agent reads it, in the order of the text.

>>> find_in_markdown("## a.py · 1.0\n\nlines 3-4 · f\n```python\nx = 1\ny = 2\n```")
[Place(path='a.py', first=3, last=4)]
>>> find_in_rows("hybrid\n@@ a.py:3-9 of 1-9 f\nx = 1\ny = 2\n@@ b.py:1\nz = 3")
[Place(path='a.py', first=3, last=4), Place(path='b.py', first=1, last=1)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_HEADING = re.compile(r"#{2,6} (.+)")
_LINES = re.compile(r"lines? (\d[\d, -]*)")
_ROW = re.compile(r"^@@ (.+?):([\d-]+)\b.*$", re.MULTILINE)
_FENCE = re.compile(r"(`{3,}|~{3,})")


class Place(NamedTuple):
    """Lines of a file, both counted."""

    path: str
    first: int
    last: int


def find_in_markdown(reply: str) -> list[Place]:
    """Return the places of a Markdown reply: under a heading with the path, `lines A-B` right before a code fence."""
    places: list[Place] = []
    path = spans = fence = ""
    written = 0
    for line in reply.split("\n"):
        if fence:
            if line.rstrip() == fence:
                places += _spans(path, spans, written)
                fence = spans = ""
            written += 1
        elif found := _FENCE.match(line):
            fence, written = found[1], 0
        else:
            heading = _HEADING.match(line)
            path = heading[1].split(" · ")[0] if heading else path
            named = _LINES.match(line)
            spans = named[1] if named else ""
    return places + list(_spans(path, spans, written)) if fence else places  # a reply that was cut shows its beginning


def find_in_rows(reply: str) -> list[Place]:
    """Return the places of the text of a search: the code below each `@@ path:lines`."""
    blocks = _ROW.split(reply)[1:]
    rows = zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True)
    return [place for path, lines, code in rows for place in _spans(path, lines, code.removesuffix("\n").count("\n"))]


def _spans(path: str, spans: str, written: int) -> Iterator[Place]:
    """Yield the spans, no more lines than are written out: a span says where code is, only its text shows it."""
    for first, last in _SPAN.findall(spans):
        begin, end = int(first), int(last or first)
        if written > 0 and begin <= end:
            yield Place(path, begin, min(end, begin + written - 1))
        written -= end - begin + 1
