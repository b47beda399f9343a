"""PURE. Keeping a reply inside its limits: whole items only, and always saying what was left out.

>>> count_fitting(["aaaa", "bbbb", "cccc"], chars_max=10)
2
>>> compact_json({"path": "src/ä.py", "lines": "1-2"})
'{"path":"src/ä.py","lines":"1-2"}'
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from context_engine.text.token_estimate import estimate_tokens
from context_engine.text.visible_text import escape_controls

NOTE_CHARS = 600
"""Kept free of every limit for the lines that say what was left out and how to get it."""

CHARS_OF_BYTES = (36_000, 47_000)
"""Two clients cut a reply over some 48,000 bytes (docs/clients-report.md), so that many characters may take these bytes."""


def compact_json(value: Any) -> str:
    """JSON without spaces; letters as they are, since an escape costs an agent six tokens; marks of direction escaped."""
    return escape_controls(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def drop_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without its empty fields; zero and False stay, they mean something."""
    return {
        key: value
        for key, value in row.items()
        if value is not None and value != "" and value != () and value != [] and value != {}
    }


def reply_size(text: str) -> int:
    """What a text takes of a reply's limit: its characters, or more where its UTF-8 would break a limit in bytes.

    >>> reply_size("code"), reply_size("代码")
    (4, 5)
    """
    if text.isascii():
        return len(text)
    return max(len(text), -(-len(text.encode("utf-8", "replace")) * CHARS_OF_BYTES[0] // CHARS_OF_BYTES[1]))


def cut_to_size(text: str, room: int) -> str:
    """The longest beginning of a text that takes no more than the room."""
    shown = text.encode("utf-8", "replace")[: max(0, room) * CHARS_OF_BYTES[1] // CHARS_OF_BYTES[0]].decode(
        "utf-8", "ignore"
    )
    return shown[: max(0, room)]


def count_fitting(items: Iterable[str], *, chars_max: int, tokens_max: int = 0, between: int = 1) -> int:
    """How many items from the front fit, each with `between` characters after it; `tokens_max` 0 is no limit."""
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
    """The first rows whose JSON fits, at least `least` of them when they fit the characters."""
    written = [compact_json(row) for row in rows]
    room = chars_max - NOTE_CHARS
    count = count_fitting(written, chars_max=room, tokens_max=tokens_max)
    if count < least:
        count = min(least, count_fitting(written, chars_max=room))
    return list(rows[:count])


def format_count(number: int, noun: str, plural: str = "") -> str:
    """The number with its noun.

    >>> format_count(1, "file"), format_count(1200, "match", "matches")
    ('1 file', '1,200 matches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
