r"""A memory: one thing somebody wrote down for later, and the Markdown file that it is.

    ---
    id: mem_0193...                       what a person may leave out, follows from the file: id, title, dates
    title: Money is counted in cents
    tags:
    - billing
    linked_files:
      src/billing/money.py: 9daeafb9...   the blob that was true when this was written
    linked_lines:
      src/billing/money.py: to_cents=1a2b3c4d5e6f   a name that the text mentions, and a hash of its lines
    ---

    Amounts are whole numbers of cents everywhere; only the last template divides by a hundred.

The folder that the file lies in is its category. This module reads no clock and no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from context_engine import timestamps
from context_engine.memory import front_matter
from context_engine.memory.memory_requests import PRIORITIES, SUBTYPES
from context_engine.text import make_slug, short_id, uuid8

DERIVED_TITLE_CHARS_MAX = 80
"""Characters of a title that is taken from the first line of the content."""

_LINES = re.compile(r"[\w$]{1,80}(?:,[\w$]{1,80}){0,15}=[0-9a-f]{12}")
_CONFLICT = re.compile(r"^<{7} .*?^={7}\r?$.*?^>{7} ", re.MULTILINE | re.DOTALL)
_TEXTS = ("id", "title", "subtype", "priority", "source", "owner", "evidence", "superseded_by")
_LISTS = ("tags", "linked_symbols", "linked_plans", "supersedes")
_DATES = ("created_at", "updated_at", "expires_at")


@dataclass(frozen=True, slots=True)
class LinkedFile:
    """A file that a memory links, and its hash at that time; empty if only its existence counts.

    `lines` has the names in it that the memory mentions, and a hash of the lines with them: `cents,total=1a2b3c4d5e6f`;
    empty if the whole file counts.
    """

    path: str
    blob: str = ""
    lines: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory. Times are ISO-8601 in UTC, empty if there is none. `category` is the name of its folder."""

    id: str
    category: str
    title: str
    content: str
    tags: tuple[str, ...] = ()
    subtype: str = ""
    priority: str = "helpful"
    source: str = ""
    owner: str = ""
    evidence: str = ""
    created_at: str = ""
    updated_at: str = ""
    expires_at: str = ""
    linked_files: tuple[LinkedFile, ...] = ()
    linked_symbols: tuple[str, ...] = ()
    linked_plans: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    superseded_by: str = ""

    @property
    def type(self) -> str:
        """Its type in search results: its subtype, else that of its category."""
        return self.subtype or {"decisions": "decision", "preferences": "rule"}.get(self.category, "pattern")

    @property
    def file_name(self) -> str:
        """The path of a new memory below its folder of memories."""
        return f"{self.category}/{make_slug(self.title)}--{short_id(self.id)}.md"


def derive_title(content: str) -> str:
    r"""Return a title for a content without one: its first line, cut at a word.

    >>> derive_title("## Money is counted in cents\n\nEverywhere.")
    'Money is counted in cents'
    """
    first = next((line.strip(" \t#*->") for line in content.splitlines() if line.strip(" \t#*->")), "Untitled")
    if len(first) <= DERIVED_TITLE_CHARS_MAX:
        return first
    return first[: DERIVED_TITLE_CHARS_MAX - 1].rsplit(" ", 1)[0] + "…"


# -- to a file ---------------------------------------------------------------------------------------------------------


def format_file(memory: Memory) -> str:
    """Return the file of a new memory."""
    return front_matter.write_front_matter(_fields(memory), format_body(memory.content))


def format_body(content: str) -> str:
    """Return the body of a file with this content."""
    return f"\n{content}\n"


def update_file(text: str, old: Memory, new: Memory) -> str:
    """Return the file with only the changes between two memories. `old` is what the file contains now."""
    before, after, stated = _fields(old), _fields(new), front_matter.parse_front_matter(text).fields
    changes = {name: after.get(name) for name in {**after, **before} if after.get(name) != before.get(name)}
    kept = {name: after[name] for name in ("id", "created_at") if name not in stated}  # both would change with the file
    if new.content != old.content:
        text = front_matter.replace_body(text, format_body(new.content))
    return front_matter.update_fields(text, kept | changes)


def _fields(memory: Memory) -> dict[str, Any]:
    """Return the front matter of a memory, without empty fields."""
    values = {
        field.name: getattr(memory, field.name) for field in fields(memory) if field.name not in ("category", "content")
    }
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    plain["linked_files"] = {link.path: link.blob for link in memory.linked_files}
    plain["linked_lines"] = {link.path: link.lines for link in memory.linked_files if link.lines}
    return {name: value for name, value in plain.items() if value}


# -- from a file -------------------------------------------------------------------------------------------------------


def parse_file(text: str, name: str, *, modified_at: float = 0.0) -> Memory | str:
    """Return the memory in a file, or what is wrong with it. `name` is its path below the folder of memories.

    Fields that a person has left out are filled in: the id from the name, the title from the content, dates from the
    file.
    """
    if _CONFLICT.search(text):
        return "it holds conflict markers: a merge was not finished"
    matter = front_matter.parse_front_matter(text)
    if matter.problem:
        return matter.problem
    content = matter.body.strip()
    if not content:
        return "it has no content"
    try:
        return _memory(matter.fields, content, name, timestamps.format_timestamp(modified_at))
    except _WrongField as wrong:
        return str(wrong)


class _WrongField(Exception):  # noqa: N818 - it never leaves this module
    pass


def _memory(stated: Mapping[str, Any], content: str, name: str, modified_at: str) -> Memory:
    values: dict[str, Any] = {key: _text(stated, key) for key in _TEXTS}
    values |= {key: _list(stated, key) for key in _LISTS} | {key: _date(stated, key) for key in _DATES}
    values["id"] = values["id"] or f"mem_{uuid8(name)}"
    values["title"] = values["title"] or derive_title(content)
    values["priority"] = values["priority"] or "helpful"
    values["created_at"] = values["created_at"] or modified_at
    values["updated_at"] = values["updated_at"] or values["created_at"]
    _check_among("priority", values["priority"], PRIORITIES)
    _check_among("subtype", values["subtype"], ("", *SUBTYPES))
    return Memory(category=name.split("/")[0], content=content, linked_files=_links(stated), **values)


def _text(stated: Mapping[str, Any], key: str) -> str:
    value = stated.get(key, "")
    if not isinstance(value, str):
        raise _WrongField(f"its {key} is not a text")
    if value in ("null", "~"):
        return ""
    return value


def _list(stated: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return texts from a list, or from a text with commas."""
    value = stated.get(key, [])
    if isinstance(value, str):
        listed = value.split(",")
    else:
        listed = value
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise _WrongField(f"its {key} is not a list of texts")
    return tuple(dict.fromkeys(text.strip() for text in listed if text.strip() not in ("", "null", "~")))


def _date(stated: Mapping[str, Any], key: str) -> str:
    text = _text(stated, key)
    at = timestamps.parse_timestamp(text) if text else None
    if text and at is None:
        raise _WrongField(f"its {key} is {text!r}, no date")
    if at is None:
        return ""
    return timestamps.format_timestamp(at)


def _linked_lines(stated: Mapping[str, Any]) -> dict[str, str]:
    """Return the well-formed hashes of lines by path; another one counts as absent, so the whole file counts."""
    value = stated.get("linked_lines", {})
    pairs = value.items() if isinstance(value, dict) else ()
    return {path: text for path, text in pairs if isinstance(text, str) and _LINES.fullmatch(text)}


def _links(stated: Mapping[str, Any]) -> tuple[LinkedFile, ...]:
    """Return paths with their hashes, or a list of paths as a person writes it."""
    value = stated.get("linked_files", {})
    if isinstance(value, dict) and all(isinstance(part, str) for pair in value.items() for part in pair):
        lines = _linked_lines(stated)
        return tuple(
            LinkedFile(path, "" if blob in ("null", "~") else blob, lines.get(path, "")) for path, blob in value.items()
        )
    return tuple(LinkedFile(path) for path in _list(stated, "linked_files"))


def _check_among(key: str, value: str, among: Sequence[str]) -> None:
    if value not in among:
        raise _WrongField(f"its {key} is {value!r}; it is one of {', '.join(filter(None, among))}")
