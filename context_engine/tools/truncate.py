"""PURE. Keep a reply inside its limits, with whole items only and a note on what was left out.

>>> count_fitting(["aaaa", "bbbb", "cccc"], chars_max=10)
2
>>> compact_json({"path": "src/ä.py", "lines": "1-2"})
'{"path":"src/ä.py","lines":"1-2"}'
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from context_engine.text.token_estimate import estimate_tokens
from context_engine.text.visible_text import escape_controls

NOTE_CHARS = 600
"""Reserved for the notes that say what was left out and how to get it."""

CHARS_OF_BYTES = (36_000, 47_000)
"""The limit in characters, and the bytes they may take: two clients cut replies over about 48,000 bytes
(docs/clients-report.md)."""


def compact_json(value: Any) -> str:
    """Format JSON without spaces, with plain Unicode, since an escape costs six tokens; direction marks are escaped."""
    return escape_controls(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def drop_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row without its empty fields; zero and False stay."""
    return {
        key: value
        for key, value in row.items()
        if value is not None and value != "" and value != () and value != [] and value != {}
    }


def reply_size(text: str) -> int:
    """Return how much of a reply's limit a text uses: its characters, or more if its UTF-8 has many bytes.

    >>> reply_size("code"), reply_size("代码")
    (4, 5)
    """
    if text.isascii():
        return len(text)
    return max(len(text), -(-len(text.encode("utf-8", "replace")) * CHARS_OF_BYTES[0] // CHARS_OF_BYTES[1]))


def cut_to_size(text: str, room: int) -> str:
    """Return the longest prefix of a text that fits the room."""
    room = max(0, room)
    bytes_max = room * CHARS_OF_BYTES[1] // CHARS_OF_BYTES[0]
    return text.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore")[:room]


def count_fitting(items: Iterable[str], *, chars_max: int, tokens_max: int = 0, between: int = 1) -> int:
    """Count the items from the front that fit, each with `between` characters after it; `tokens_max` 0 means no limit."""
    chars = tokens = count = 0
    for item in items:
        chars += reply_size(item) + between
        tokens += estimate_tokens(item) if tokens_max else 0
        if chars > chars_max or (tokens_max and tokens > tokens_max):
            break
        count += 1
    return count


def take_fitting_rows(
    rows: Sequence[Mapping[str, Any]], *, chars_max: int, tokens_max: int = 0, least: int = 0
) -> list[Mapping[str, Any]]:
    """Return the first rows whose JSON fits, at least `least` of them if they fit the characters."""
    written = [compact_json(row) for row in rows]
    room = chars_max - NOTE_CHARS
    count = count_fitting(written, chars_max=room, tokens_max=tokens_max)
    if count < least:
        count = min(least, count_fitting(written, chars_max=room))
    return list(rows[:count])


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun, in the singular for 1.

    >>> format_count(1, "file"), format_count(1200, "match", "matches")
    ('1 file', '1,200 matches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def fence_for(text: str) -> str:
    """Return a Markdown code fence that the text cannot close.

    >>> fence_for("x = 1"), fence_for("a ```` b")
    ('```', '`````')
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)
