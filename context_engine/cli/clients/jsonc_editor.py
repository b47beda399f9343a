r"""PURE. Change one member of a JSON text and keep every other character, comments and trailing commas too.

JSON here is the format of settings files: with `//` and `/* */`, and with or without trailing commas. An added member
follows the text around it: its indentation, its line ends, and a trailing comma only if there was one.

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
from dataclasses import dataclass
from typing import Any

from context_engine.errors import InvalidArgument

DEPTH_MAX = 200
"""Settings are about ten levels deep; at a thousand, the parser would exceed Python's recursion limit."""

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]++)
    | (?P<comment>//[^\r\n]*+ | /\*.*?\*/)
    | (?P<string>"(?:[^"\\\x00-\x1f]++ | \\["\\/bfnrt] | \\u[0-9a-fA-F]{4})*+")
    | (?P<literal>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)? | true | false | null)
    | (?P<mark>[{}\[\]:,])""",
    re.VERBOSE | re.DOTALL,
)


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
    items = node.members if node and isinstance(node.value, list) else []
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


@dataclass(slots=True)
class _Node:
    """A value and its range, `start`-`stop`; `members` are those of an object or list, in their order.

    As a member it `begins` with its key, and a comma may follow it.
    """

    start: int
    stop: int
    value: Any
    members: list[_Node]
    begins: int
    key: str = ""
    comma: int | None = None


class _Document:
    """A text and its outermost value, if there is one; it knows how the text is laid out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._spans: list[tuple[int, int]] = []
        self._tokens: list[tuple[str, int, int]] = []
        self._tokenize()
        self._next = 0
        self.root = self._parse_value(0) if len(self._tokens) > 1 else None
        if self._next < len(self._tokens) - 1:
            raise self._refuse_token("nothing after the end")

    def find(self, path: Sequence[str]) -> _Node | None:
        """Return the value at a path of keys; of several members with one key the last one, which parsers use."""
        node = self.root
        for key in path:
            members = reversed(node.members) if node and isinstance(node.value, dict) else ()
            node = next((member for member in members if member.key == key), None)
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

    # -- parsing --

    def _tokenize(self) -> None:
        """Find the tokens (kind, start, stop); the kind of a mark is itself, and the last one is the end."""
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self.error(position, "not JSON")
            kind, position = match.lastgroup, match.end()
            if kind != "blank":
                self._spans.append(match.span())
            if kind not in ("blank", "comment"):
                self._tokens.append((match[0] if kind == "mark" else str(kind), *match.span()))
        self._tokens.append(("the end", position, position))

    def _refuse_token(self, what: str) -> InvalidArgument:
        kind, start, _ = self._tokens[self._next]
        return self.error(start, f"{what} is expected, not {kind}")

    def _take(self, kind: str) -> int | None:
        """Take the next token if it is of this kind; return its end."""
        found, _, stop = self._tokens[self._next]
        if found != kind:
            return None
        self._next += 1
        return stop

    def _parse_value(self, depth: int) -> _Node:
        kind, start, stop = self._tokens[self._next]
        closing = {"{": "}", "[": "]"}.get(kind)
        if depth > DEPTH_MAX:
            raise self.error(start, f"nested more than {DEPTH_MAX} deep")
        if closing is None and kind not in ("string", "literal"):
            raise self._refuse_token("a value")
        self._next += 1
        if closing is None:
            return _Node(start, stop, json.loads(self.text[start:stop]), [], start)
        members: list[_Node] = []
        while (end := self._take(closing)) is None:
            if members and members[-1].comma is None:
                raise self._refuse_token(f"a comma or {closing}")
            members.append(self._parse_member(depth, has_key=kind == "{"))
        if kind == "{":
            return _Node(start, end, {member.key: member.value for member in members}, members, start)
        return _Node(start, end, [member.value for member in members], members, start)

    def _parse_member(self, depth: int, *, has_key: bool) -> _Node:
        begins, key = self._tokens[self._next][1], ""
        if has_key:
            stop = self._take("string")
            if stop is None:
                raise self._refuse_token("a key in double quotes, or a closing brace,")
            key = json.loads(self.text[begins:stop])
            if self._take(":") is None:
                raise self._refuse_token("a colon")
        node = self._parse_value(depth + 1)
        node.begins, node.key = begins, key
        comma = self._take(",")
        node.comma = None if comma is None else comma - 1
        return node

    # -- changing --

    def add(self, owner: _Node, key: str, value: Any) -> str:
        """Add a last member to an object or list: on lines of its own, unless the others are on one line."""
        brace, text = owner.stop - 1, self.text
        _, end = self._span_before(brace)
        gap = text[end:brace]
        last = owner.members[-1] if owner.members else None
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
        thing, start = self._span_before(member.begins)
        stop = member.stop
        end = stop if member.comma is None else member.comma + 1
        ends_its_line = not self.text[end:].split("\n", 1)[0].strip()
        if self.text.startswith("//", thing) and not ends_its_line:
            start = member.begins  # what follows must not become part of the comment before
        is_alone = len(owner.members) == 1 and not self.text[stop : owner.stop - 1].strip()
        if is_alone and self.text[start - 1] == "{":
            stop = owner.stop - 1
        text = self.text[:start] + self.text[stop:]
        comma = member.comma
        if comma is None and len(owner.members) > 1:  # it is the last one
            comma = owner.members[-2].comma
        if comma is None:
            return text
        if comma > start:
            comma -= stop - start
        return text[:comma] + text[comma + 1 :]

    def _span_before(self, position: int) -> tuple[int, int]:
        """Return the range of the last token or comment that ends at or before a position."""
        return next(span for span in reversed(self._spans) if span[1] <= position)

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
        if not owner.members:
            return ""
        start = owner.members[0].begins
        before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        return before if before.isspace() and "\n" in self.text[owner.start : start] else ""
