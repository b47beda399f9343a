"""PURE. Numbers, sizes, JSON and suggestions as users and agents read them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from context_engine.text.visible_text import escape_controls

NAME_CHARS_MAX = 100
"""Longest name for which a similar name is suggested."""
NEARNESS_MIN = 0.6
"""The default of difflib: `serch` suggests `search`, `xyz` suggests nothing."""


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun, in the singular for 1.

    >>> format_count(1, "file"), format_count(1200, "match", "matches")
    ('1 file', '1,200 matches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_size(size_bytes: int) -> str:
    """Format a size for people.

    >>> format_size(512), format_size(2048), format_size(3_400_000)
    ('512 B', '2.0 kB', '3.2 MB')
    """
    size, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size /= 1024
    if unit == "B":
        return f"{size_bytes} B"
    return f"{size:.1f} {unit}"


def compact_json(value: Any) -> str:
    """Format JSON without spaces, with plain Unicode, since an escape costs six tokens; direction marks are escaped.

    >>> compact_json({"path": "src/ä.py", "lines": "1-2"})
    '{"path":"src/ä.py","lines":"1-2"}'
    """
    return escape_controls(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def drop_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row without its empty fields; zero and False stay.

    >>> drop_empty({"path": "a.py", "note": "", "tags": [], "count": 0})
    {'path': 'a.py', 'count': 0}
    """
    return {
        key: value
        for key, value in row.items()
        if value is not None and value != "" and value != () and value != [] and value != {}
    }


def suggest_nearest(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean ...?" for a similar known word, else an empty text.

    >>> suggest_nearest("serch", ["search", "trace"])
    ' Did you mean search?'
    """
    if len(word) > NAME_CHARS_MAX:
        return ""
    close = difflib.get_close_matches(word, list(known), 1, NEARNESS_MIN)
    if close:
        return f" Did you mean {close[0]}?"
    return ""
