r"""PURE. Front matter of Markdown files.

Front matter: the YAML block that a Markdown file begins with, read and changed without touching anything else.

A change replaces the lines of the keys it names. Keys we do not know, comments, the order and the body stay byte for
byte, so that two people who change different things in one file are merged by git without a conflict.

>>> text = "---\nid: mem_1\nmine: yes # a note\n---\nUse tabs.\n"
>>> parse_front_matter(text).fields
{'id': 'mem_1', 'mine': 'yes'}
>>> print(update_fields(text, {"id": None, "tags": ["style"]}), end="")
---
mine: yes # a note
tags:
- style
---
Use tabs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from context_engine.text import ParseError, read_yaml

_FENCED = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?P<yaml>(?:.*?\n)??)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_OPENED = re.compile(r"\A\ufeff?---[ \t]*\r?\n")
_BLANK = re.compile(r"[ \t]*(?:#.*)?", re.DOTALL)
_BREAKS = re.compile("[\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A file taken apart: the fields of its front matter, and its body. `problem` says why there are no fields."""

    fields: Mapping[str, Any]
    body: str
    problem: str = ""


def parse_front_matter(text: str) -> FrontMatter:
    """Parse a file. A file without front matter is all body; invalid front matter is a problem, never an error."""
    fenced = _FENCED.match(text)
    if fenced is None:
        return FrontMatter(
            {}, text, "its front matter has no end: a line `---` is missing" if _OPENED.match(text) else ""
        )
    body = text[fenced.end() :]
    try:
        fields = read_yaml(
            fenced["yaml"], plain_text=True, last_wins=True
        )  # `yes`, 1.10 and dates stay what was written
    except ParseError as error:
        return FrontMatter({}, body, f"its front matter cannot be read: {_describe_error(error)}")
    if fields is None or fields == "":
        return FrontMatter({}, body)
    if not isinstance(fields, dict):
        return FrontMatter({}, body, "its front matter is not a mapping of names to values")
    return FrontMatter(fields, body)


def write_front_matter(fields: Mapping[str, Any], body: str) -> str:
    """Return a file with these fields, in their order, and this body."""
    return f"---\n{_dump_yaml(fields)}---\n{body}"


def update_fields(text: str, changes: Mapping[str, Any]) -> str:
    """Return the file with some fields set, or removed if the value is None.

    `text` must be free of problems (`parse_front_matter`).
    """
    fenced = _FENCED.match(text)
    if fenced is None:
        return write_front_matter(_merge_fields({}, changes), text)
    newline = "\r\n" if "\r\n" in fenced[0] else "\n"
    spliced = (
        text[: fenced.start("yaml")] + _replace_keys(fenced["yaml"], changes, newline) + text[fenced.end("yaml") :]
    )
    after = parse_front_matter(spliced)
    body = text[fenced.end() :]
    if (
        not after.problem
        and after.body == body
        and after.fields == _read_back(_merge_fields(parse_front_matter(text).fields, changes))
    ):
        return spliced
    return write_front_matter(_merge_fields(_read_typed_fields(fenced["yaml"]), changes), body)


def replace_body(text: str, body: str) -> str:
    """Return the file with another body."""
    fenced = _FENCED.match(text)
    if fenced:
        return text[: fenced.end()] + body
    return body


def _replace_keys(matter: str, changes: Mapping[str, Any], newline: str) -> str:
    """Return the YAML with the lines of changed keys replaced, and new keys at the end."""
    places = _locate_keys(matter)
    new = {
        key: "" if value is None else _dump_yaml({key: value}).replace("\n", newline) for key, value in changes.items()
    }
    for key, (start, stop) in sorted(places.items(), key=lambda item: -item[1][0]):
        if key in new:
            matter = matter[:start] + new[key] + matter[stop:]
    return matter + "".join(lines for key, lines in new.items() if key not in places)


def _locate_keys(matter: str) -> dict[str, tuple[int, int]]:
    """Return where the lines of each key start and stop; comments and blank lines belong to the next key."""
    try:
        node = yaml.compose(matter, Loader=yaml.BaseLoader)  # in Python, where marks count characters
    except yaml.YAMLError:  # libyaml reads a little more, as a tab inside a key
        return {}
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        return {}
    starts = [(key.value, key.start_mark.index) for key, _ in node.value]
    stops = [start for _, start in starts[1:]] + [len(matter)]
    return {key: (start, _last_line(matter, start, stop)) for (key, start), stop in zip(starts, stops, strict=True)}


def _last_line(matter: str, start: int, stop: int) -> int:
    """Return where the lines of a key stop, without blank lines and comments at their end."""
    lines = matter[start:stop].split("\n")
    while lines and _BLANK.fullmatch(lines[-1]):
        lines.pop()
    kept = sum(len(line) + 1 for line in lines)
    if kept:
        return min(start + kept, stop)
    return stop


def _merge_fields(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**fields, **changes}.items() if value is not None}


def _read_back(fields: Mapping[str, Any]) -> Any:
    """Return the fields as they are read back after writing."""
    return parse_front_matter(write_front_matter(fields, "")).fields


def _read_typed_fields(matter: str) -> dict[str, Any]:
    """Return the fields with the types that other YAML readers see, so that rewriting keeps them."""
    try:
        fields = read_yaml(matter, last_wins=True)
    except ParseError:
        fields = read_yaml(matter, plain_text=True, last_wins=True)  # `read` has no problem with it
    if isinstance(fields, dict):
        return fields
    return {}


def _dump_yaml(fields: Mapping[str, Any]) -> str:
    if not fields:
        return ""
    plain = yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True, width=float("inf"))
    if not _BREAKS.search(plain):
        return plain
    return yaml.safe_dump(dict(fields), sort_keys=False, width=float("inf"))  # escaped: YAML takes them for line ends


def _describe_error(error: ParseError) -> str:
    """Return the message of the parser with the line of the file, whose first line is the fence."""
    return f"{error.reason.removeprefix('not YAML: ')}{f' (line {error.line + 1})' if error.line else ''}"
