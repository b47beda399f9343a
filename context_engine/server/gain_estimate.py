r"""PURE. Estimate the cost of a reply by reading files instead: the rule behind `ctx gain`.

>>> find_shown_files('{"results":[{"path":"a.py","lines":"3-5","content":"x = 1\\ny = 2\\nz = 3"}]}')
['a.py']
>>> find_shown_files("hybrid · fresh\n@@ a.py:3-5 f\nx = 1\ny = 2\nz = 3\nb.py:1-9 g | def g():")
['a.py']
>>> find_shown_files("## a.py · 1.0\n\nlines 3-5 · f\n```python\nx = 1\ny = 2\nz = 3\n```")
['a.py']
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

FILE_CHARS_MAX = 40_000
"""The least that a measured client shows of one result: 10,000 tokens of 4 characters (docs/clients-report.md)."""
LINES_MIN = 3
"""A file of which less is shown does not count: no agent reads all of it for a signature."""
CLAIMING_TOOLS = frozenset({"search_code", "get_context"})
"""The tools that replace reading whole files. The replies of all others count as what they cost."""
GAIN_RULE = (
    "The estimate counts, for each search and each bundle, the whole files of which it shows 3 lines or more: each file"
    " once a session, and at most 40,000 characters of it. All other calls, and those at the terminal, count as what"
    " they showed: they save nothing. A failed call counts as nothing: it only costs. Left out on both sides are the"
    " searches that an agent would need to find the files, and the list of tools that its client sends each time."
)

_TEXTS = ("content", "text")
"""The fields with code, next to `lines`."""
_HEADING = re.compile(r"## (.+)")
_PLACE = re.compile(r"(?m)^@@ (.+?):(\d{1,9})(?:-(\d{1,9}))?\b")
_FENCE = re.compile(r"(`{3,}|~{3,})")


def find_shown_files(reply: str) -> list[str]:
    """Return the paths of the files of which a search or a bundle shows `LINES_MIN` lines or more, each once."""
    counts: dict[str, int] = {}
    if reply.startswith("{"):
        pieces = _pieces_of_json(reply)
    else:
        if "\n@@ " in reply:
            pieces = _pieces_of_text(reply)
        else:
            pieces = _pieces_of_markdown(reply)
    for path, lines in pieces:
        counts[path] = counts.get(path, 0) + lines
    return [path for path, lines in counts.items() if path and lines >= LINES_MIN]


def _pieces_of_json(reply: str) -> Iterator[tuple[str, int]]:
    """Yield path and number of lines of each piece of code. Inner objects are in the file of the outer one."""
    try:
        waiting = [(json.loads(reply), "")]
    except ValueError:  # a note below the JSON, or another format: nothing is claimed
        return
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, path) for item in value]
        elif isinstance(value, dict):
            path = str(value.get("path", path))
            yield path, _count_code(value)
            waiting += [(item, path) for item in value.values()]


def _count_code(row: dict[str, Any]) -> int:
    """Return the number of lines of code that a row of a reply shows."""
    if "lines" in row:
        texts = [row.get(key) for key in _TEXTS]
    else:
        texts = []
    return sum(text.count("\n") + 1 for text in texts if isinstance(text, str) and text)


def _pieces_of_text(reply: str) -> Iterator[tuple[str, int]]:
    """Yield path and number of lines of each place under a line `@@ path:FIRST-LAST`, which says how many there are."""
    for place in _PLACE.finditer(reply):
        yield place[1], int(place[3] or place[2]) - int(place[2]) + 1


def _pieces_of_markdown(reply: str) -> Iterator[tuple[str, int]]:
    """Yield path and number of lines of each code fence. The heading of level 2 above it begins with the path."""
    path = fence = ""
    lines = 0
    for line in reply.split("\n"):
        if fence and line.rstrip() == fence:
            yield path, lines
            fence = ""
        elif fence:
            lines += 1
        elif found := _FENCE.match(line):
            fence, lines = found[1], 0
        elif heading := _HEADING.match(line):
            path = heading[1].split(" · ")[0]
