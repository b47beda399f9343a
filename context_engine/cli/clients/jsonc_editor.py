r"""PURE. Change one member of a JSON text and keep every other character, comments and trailing commas too.

JSON here is the format of settings files: with `//` and `/* */`, and with or without trailing commas. An added member
follows the text around it: its indentation, its line ends, and a trailing comma only if there was one.

Python's parser reads a copy in which blanks are in place of comments and of trailing commas, so that all positions are
those of the text. Only the objects on the way to the changed member are taken apart.

>>> print(set_entry('{\n  "theme": "dark" // at night\n}', ("servers", "ctx"), {"command": "ctx"}))
{
  "theme": "dark", // at night
  "servers": {
    "ctx": {
      "command": "ctx"
    }
  }
}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from context_engine.errors import InvalidArgument

_STRING = r'"(?:[^"\\]|\\.)*+"?'
_STRING_OR_COMMENT = re.compile(rf"{_STRING}|(?P<line>//[^\r\n]*)|(?P<block>/\*(?:[^*]|\*(?!/))*+(?:\*/)?)", re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(rf"{_STRING}|(?P<comma>,)(?=[ \t\r\n]*[}}\]])", re.DOTALL)
"""A string or a comment that does not end goes to the end of the text, so that nothing is looked at twice."""
BLANKS = " \t\r\n"
_TOKEN = re.compile(rf"[^{BLANKS}]")


def _refuse_constant(name: str) -> None:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)


_decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode


def get_value(text: str, path: Sequence[str]) -> Any:
    """Return the value at a path of keys, or None. Raises: InvalidArgument, as all functions here."""
    node = _Document(text).find(path)
    return node.value if node else None


def set_entry(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Set the members of `entry` in the object at `path`; its other members stay.

    Raises: InvalidArgument if the text is not JSON (`details` has the line), or if a value on the path is not an
    object.
    """
    if not isinstance(get_value(text, path), dict):
        return _set_value(text, path, entry)
    for key, value in entry.items():
        text = _set_value(text, (*path, key), value)
    return text


def remove_entry(text: str, path: Sequence[str]) -> str:
    """Remove the member at `path`, if there is one. Reverts what `set_entry` added there."""
    document = _Document(text)
    owner, node = document.find(path[:-1]), document.find(path)
    if owner is None or node is None:
        return text
    return remove_entry(document.cut(owner, node), path)  # the key may occur twice


def append_item(text: str, path: Sequence[str], item: Mapping[str, Any]) -> str:
    """Append an item to the list at `path`, which is created if there is none. Raises: as `set_entry`."""
    document = _Document(text)
    node = document.find(path)
    if node is None or not isinstance(node.value, list):
        return _set_value(text, path, [item])
    return document.add(node, "", item)


def remove_items(text: str, path: Sequence[str], is_removed: Callable[[Any], bool]) -> str:
    """Remove the items of the list at `path` that a predicate selects; a list that is then empty is removed, too.

    Reverts what `append_item` added there. Raises: as `set_entry`.
    """
    document = _Document(text)
    node = document.find(path)
    items = document.members(node) if node and isinstance(node.value, list) else []
    removed = next((item for item in items if is_removed(item.value)), None)
    if node is None or removed is None:
        return text
    if len(items) == 1:
        return remove_entry(text, path)
    return remove_items(document.cut(node, removed), path, is_removed)


def _set_value(text: str, path: Sequence[str], value: Any) -> str:
    """Set the value at a path: replace the present value, or add it with the objects around it."""
    document = _Document(text)
    node = document.root
    for depth, key in enumerate(path):
        if node and not isinstance(node.value, dict):
            around = repr(".".join(path[:depth])) if depth else "the whole"
            raise document.error(node.start, f"{around} is not an object, {key!r} cannot be in it")
        child = document.find(path[: depth + 1])
        if child is None:
            for outer in reversed(path[depth + 1 :] if node else path):
                value = {outer: value}
            if node:
                return document.add(node, key, value)
            start = text if text.endswith("\n") else text + document.newline  # nothing, or only comments
            return (start if text.strip() else "") + document.format(value, "") + document.newline
        node = child
    if node is None or json.dumps(node.value, sort_keys=True) == json.dumps(value, sort_keys=True):  # 1 is not true
        return text
    return text[: node.start] + document.format(value, document.indent_at(node.start)) + text[node.stop :]


class _Node(NamedTuple):
    """A value and its range, `start`-`stop`. As a member it `begins` with its key, and a comma may follow it."""

    key: str
    begins: int
    start: int
    stop: int
    value: Any
    comma: int | None = None


class _Document:
    """A text and its outermost value, if there is one; it knows how the text is laid out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._plain = _STRING_OR_COMMENT.sub(lambda found: _blank(found) if found.lastgroup else found[0], text)
        self._bare = _STRING_OR_LAST_COMMA.sub(self._blank_comma, self._plain)
        self.root = self._parse()

    def _blank_comma(self, found: re.Match[str]) -> str:
        """Blank a trailing comma; one without a member before it is left, and refused."""
        is_trailing = found.lastgroup and not self._plain[: found.start()].rstrip(BLANKS).endswith(("{", "[", ","))
        return " " if is_trailing else found[0]

    def _parse(self) -> _Node | None:
        start = self._skip(0)
        if start == len(self.text):
            return None
        try:
            value, stop = _decode(self._bare, start)
        except json.JSONDecodeError as error:
            raise self.error(error.pos, f"{error.msg[0].lower()}{error.msg[1:]}") from None
        except RecursionError:
            raise self.error(start, "nested too deep") from None
        if (end := self._skip(stop)) < len(self.text):
            raise self.error(end, "nothing is expected after the end")
        return _Node("", start, start, stop, value)

    def _skip(self, position: int) -> int:
        """Return the position of the next character that is neither blank nor of a comment."""
        found = _TOKEN.search(self._plain, position)
        return found.start() if found else len(self._plain)

    def members(self, owner: _Node) -> list[_Node]:
        """Return the members of an object, or the items of a list, in their order."""
        members: list[_Node] = []
        at = self._skip(owner.start + 1)
        while at < owner.stop - 1:
            begins, key = at, ""
            if isinstance(owner.value, dict):
                key, at = _decode(self._bare, at)
                at = self._skip(self._skip(at) + 1)  # behind the colon
            value, stop = _decode(self._bare, at)
            next_mark = self._skip(stop)
            comma = next_mark if self._plain[next_mark] == "," else None
            members.append(_Node(key, begins, at, stop, value, comma))
            at = next_mark if comma is None else self._skip(comma + 1)
        return members

    def find(self, path: Sequence[str]) -> _Node | None:
        """Return the value at a path of keys; of several members with one key the last one, which parsers use."""
        node = self.root
        for key in path:
            members = self.members(node) if node and isinstance(node.value, dict) else []
            node = next((member for member in reversed(members) if member.key == key), None)
        return node

    def error(self, position: int, what: str) -> InvalidArgument:
        """Return the error for a place of the text."""
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return InvalidArgument(
            f"line {line}, column {column}: {what}",
            suggestion="Fix it there, then run the command again.",
            details={"line": line, "column": column},
        )

    # -- changing --

    def add(self, owner: _Node, key: str, value: Any) -> str:
        """Add a last member to an object or list: on lines of its own, unless the others are on one line."""
        brace, text, members = owner.stop - 1, self.text, self.members(owner)
        end = len(text[:brace].rstrip(BLANKS))
        gap = text[end:brace]
        last = members[-1] if members else None
        before, comma = text[:end], ""
        if last and last.comma is not None:
            comma = ","
        elif last:
            before = f"{text[: last.stop]},{text[last.stop : end]}"
        name = f"{json.dumps(key)}: " if key else ""
        if last and "\n" not in gap:
            return f"{before} {name}{json.dumps(value, ensure_ascii=False)}{comma}{text[end:]}"
        outer = self.indent_at(owner.start)
        indent = self._indent_of_first(owner) or outer + self._unit
        closing = gap if "\n" in gap else self.newline + outer
        return f"{before}{self.newline}{indent}{name}{self.format(value, indent)}{comma}{closing}{text[brace:]}"

    def cut(self, owner: _Node, member: _Node) -> str:
        """Remove a member with the whitespace before it, and the comma that is then superfluous."""
        members, start, stop = self.members(owner), len(self.text[: member.begins].rstrip(BLANKS)), member.stop
        ends_its_line = not self.text[stop:].split("\n", 1)[0].strip(f"{BLANKS},")
        if self._is_in_line_comment(start - 1) and not ends_its_line:
            start = member.begins  # what follows must not become part of the comment before
        is_alone = len(members) == 1 and not self.text[stop : owner.stop - 1].strip()
        if is_alone and self.text[start - 1] == "{":
            stop = owner.stop - 1
        text = self.text[:start] + self.text[stop:]
        comma = member.comma
        if comma is None and len(members) > 1:  # it is the last one
            comma = members[-2].comma
        if comma is None:
            return text
        if comma > start:
            comma -= stop - start
        return text[:comma] + text[comma + 1 :]

    def _is_in_line_comment(self, position: int) -> bool:
        comments = _STRING_OR_COMMENT.finditer(self.text)
        return any(found.lastgroup == "line" and found.start() <= position < found.end() for found in comments)

    # -- the layout --

    @property
    def _unit(self) -> str:
        """One level of indentation, as the first member of the text has it; default: two spaces."""
        return (self._indent_of_first(self.root) if self.root else "") or "  "

    def format(self, value: Any, indent: str) -> str:
        """Format a value as by hand: members and objects of lists on lines of their own, other lists on one line."""
        inner = indent + self._unit
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            lines, marks = [self.format(item, inner) for item in value], "[]"
        elif isinstance(value, Mapping) and value:
            lines, marks = [f"{json.dumps(key)}: {self.format(member, inner)}" for key, member in value.items()], "{}"
        else:
            return json.dumps(value, ensure_ascii=False)
        written = f",{self.newline}".join(f"{inner}{line}" for line in lines)
        return f"{marks[0]}{self.newline}{written}{self.newline}{indent}{marks[1]}"

    def indent_at(self, position: int) -> str:
        """Return the indentation of the line of a position."""
        before = self.text[self.text.rfind("\n", 0, position) + 1 : position]
        return before[: len(before) - len(before.lstrip(" \t"))]

    def _indent_of_first(self, owner: _Node) -> str:
        """Return the indentation of the first member, if it begins its line."""
        start = self._skip(owner.start + 1)
        before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        return before if owner.value and before.isspace() and "\n" in self.text[owner.start : start] else ""


def _blank(found: re.Match[str]) -> str:
    """Blank a comment; one that does not end is left, and refused."""
    if found.lastgroup == "block" and not found[0].endswith("*/", 2):
        return found[0]
    return re.sub(r"[^\r\n]", " ", found[0])
