r"""PURE. The text form of a reply: what is answered in the first line, then the body, then the hints.

Tools return JSON, which programs and the names of the documents get; agents and people read this form of it. Empty
fields are left out. A text with line ends is in a fence that it cannot close.

>>> print(format_reply('{"ok":true,"status":"ready","version":1,"steps":["1. Add","2. Test"],"next":"start_step 1"}'))
ready · version 1
steps:
- 1. Add
- 2. Test
next: start_step 1
>>> print(format_reply('{"error":{"code":"NO_MATCH","message":"it is gone","suggestion":"Read it.","details":{}}}'))
NO_MATCH: it is gone
next: Read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from context_engine.text import compact_json, escape_line, fence_for
from context_engine.tools.structured_replies import read_object

HINTS = ("reason", "note", "notes", "warnings", "masked", "next")
"""The fields at the end of a reply."""
SUCCESS = ("ok", "success")
"""Fields that say what a reply without an error says already."""
LINE_CHARS_MAX = 160
"""A longer object has a line for each of its fields."""
DEPTH_MAX = 3
"""Deeper objects are schemas and examples, which are JSON."""


def format_reply(text: str) -> str:
    """Return the text form of a reply; one that is not a JSON object stays as it is."""
    row = read_object(text)
    if row is None:
        return text
    return "\n".join(_format_error(row["error"]) if "error" in row else _format_fields(row))


def _format_error(error: Mapping[str, Any]) -> Iterator[str]:
    """Yield code and message, the details that neither the message nor the next step has, and the next step."""
    yield f"{error['code']}: {escape_line(error['message'])}"
    said = f"{error['message']} {error['suggestion']}"
    for name, value in error["details"].items():
        if value and not _is_said(value, said):
            yield from format_field(name, value)
    if error["suggestion"]:
        yield f"next: {escape_line(error['suggestion'])}"


def _is_said(value: Any, said: str) -> bool:
    """Return whether a text has a value, as it is or as Python quotes it, or does not need it: a single word."""
    if isinstance(value, list | dict):
        return all(str(item) in said for item in (value.values() if isinstance(value, dict) else value))
    return " " not in str(value) or str(value) in said or repr(str(value))[1:-1] in said


def _format_fields(fields: Mapping[str, Any], depth: int = 1) -> Iterator[str]:
    """Yield the short fields in one line, then the others, the hints last."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", [], {}) and name not in SUCCESS}
    hints = HINTS if depth == 1 else ()
    head = {name: value for name, value in shown.items() if _is_short(value) and name not in hints}
    if head:
        parts = [f"{name} {format_value(value)}" for name, value in head.items()]
        first = next(iter(head.values()))
        yield " · ".join([format_value(first) if isinstance(first, str) else parts[0], *parts[1:]])
    body = [name for name in shown if name not in head and name not in hints]
    for name in (*body, *(hint for hint in hints if hint in shown)):
        yield from format_field(name, shown[name], depth)


def format_field(name: str, value: Any, depth: int = 1) -> Iterator[str]:
    """Yield a field in one line, or its name and a line for each entry, or a fence with its text."""
    if isinstance(value, str) and "\n" in value:
        fence = fence_for(value)
        yield f"{name}:\n{fence}\n{value.removesuffix(chr(10))}\n{fence}"
    elif _is_line(value):
        yield f"{name}: {format_value(value)}"
    elif depth > DEPTH_MAX:
        yield f"{name}: {compact_json(value)}"
    elif isinstance(value, dict):
        yield f"{name}:"
        yield from _indent(_format_fields(value, depth + 1))
    else:
        yield f"{name}:"
        for item in value:
            first, *rest = _format_fields(item, depth + 1) if isinstance(item, dict) else [format_value(item)]
            yield from (f"- {first}", *_indent(rest))


def _is_short(value: Any) -> bool:
    return not isinstance(value, dict | list) and len(str(value)) <= LINE_CHARS_MAX and "\n" not in str(value)


def _is_line(value: Any) -> bool:
    """Return whether a value is written in one line: no list of sentences, and no object with further ones."""
    if isinstance(value, list):
        return all(_is_short(item) and (len(value) == 1 or " " not in str(item)) for item in value)
    if isinstance(value, dict):
        return all(map(_is_short, value.values())) and len(format_value(value)) <= LINE_CHARS_MAX
    return True


def format_value(value: Any) -> str:
    """Return a value in one line."""
    if isinstance(value, dict):
        shown = ((name, item) for name, item in value.items() if item not in (None, ""))
        return ", ".join(f"{name} {format_value(item)}" for name, item in shown)
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape_line(str(value))


def _indent(lines: Iterable[str]) -> Iterator[str]:
    """Indent lines, and leave the texts in fences as they are."""
    return (line if "\n" in line else f"  {line}" for line in lines)
