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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from context_engine.errors import InvalidArgument

DEPTH_MAX = 200
"""Settings are about ten levels deep; at a thousand, the parser would exceed Python's recursion limit."""

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]++)
    | (?P<comment>//[^\r\n]*+ | /\*.*?\*/)
    | (?P<string>"(?:[^"\\\x00-\x1f]++ | \\["\\/bfnrt] | \\u[0-9a-fA-F]{4})*+")
    | (?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)
    | (?P<word>true|false|null)
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
    owner = document.find(path[:-1])
    member = owner.member(path[-1]) if owner else None
    if owner is None or member is None:
        return text
    return remove_entry(document.cut(owner, member), path)  # the key may occur twice


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
    if node is None or not isinstance(node.value, list):
        return text
    removed = next((item for item in node.members if is_removed(item.node.value)), None)
    if removed is None:
        return text
    if len(node.members) == 1:
        return remove_entry(text, path)
    return remove_items(document.cut(node, removed), path, is_removed)


def _set_value(text: str, path: Sequence[str], value: Any) -> str:
    """Set the value at a path: replace the present value, or add it with the objects around it."""
    document = _Document(text)
    if document.root is None:  # nothing, or only comments
        start = text if text.endswith("\n") else text + document.newline
        return (start if text.strip() else "") + document.format(_nest(path, value), "") + document.newline
    node = document.root
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            around = repr(".".join(path[:depth])) if depth else "the whole"
            raise document.error(node.start, f"{around} is not an object, {key!r} cannot be in it")
        member = node.member(key)
        if member is None:
            return document.add(node, key, _nest(path[depth + 1 :], value))
        node = member.node
    if json.dumps(node.value, sort_keys=True) == json.dumps(value, sort_keys=True):  # where 1 is not true
        return text
    return _apply(text, [(node.start, node.stop, document.format(value, document.indent_at(node.start)))])


def _nest(path: Sequence[str], value: Any) -> Any:
    """Wrap a value in the objects of a path.

    >>> _nest(("a", "b"), 1)
    {'a': {'b': 1}}
    """
    for key in reversed(path):
        value = {key: value}
    return value


def _apply(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """Replace each range `start`-`stop`; two edits at one position keep their order."""
    parts, position = [], 0
    for start, stop, written in sorted(edits, key=lambda edit: edit[0]):
        parts += [text[position:start], written]
        position = stop
    return "".join([*parts, text[position:]])


@dataclass(frozen=True, slots=True)
class _Node:
    """A value and its range, `start`-`stop`; `members` are those of an object or list, in their order."""

    start: int
    stop: int
    value: Any
    members: tuple[_Member, ...] = ()

    def member(self, key: str) -> _Member | None:
        """Return the member of an object with this key; of several the last one, which parsers use."""
        if not isinstance(self.value, dict):
            return None
        return next((member for member in reversed(self.members) if member.key == key), None)


@dataclass(frozen=True, slots=True)
class _Member:
    """A key and its start, its value, and the position of the comma after it, if there is one.

    An item of a list has no key, and starts where its value does.
    """

    key: str
    start: int
    node: _Node
    comma: int | None


class _Document:
    """A text and its outermost value, if there is one; it knows how the text is laid out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._spans: list[tuple[int, int]] = []
        self._tokens = [token for token in self._tokenize() if token[0] != "comment"]
        self._next = 0
        self.root = self._parse_value(0) if self._tokens else None
        if self._next < len(self._tokens):
            raise self._build_error("something after the end")

    def find(self, path: Sequence[str]) -> _Node | None:
        """Return the value at a path of keys."""
        node = self.root
        for key in path:
            member = node.member(key) if node else None
            node = member.node if member else None
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

    def _tokenize(self) -> Iterator[tuple[str, int, int]]:
        """Yield (kind, start, stop) of everything except whitespace."""
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self.error(position, "not JSON")
            if match.lastgroup != "blank":
                self._spans.append(match.span())
                yield str(match.lastgroup), *match.span()
            position = match.end()

    def _build_error(self, what: str) -> InvalidArgument:
        """Return the error for the next token."""
        is_end = self._next >= len(self._tokens)
        return self.error(len(self.text) if is_end else self._tokens[self._next][1], what)

    def _take(self, wanted: str) -> tuple[str, int, int]:
        if self._next >= len(self._tokens):
            raise self._build_error(f"{wanted} is missing at the end")
        self._next += 1
        return self._tokens[self._next - 1]

    def _skip(self, mark: str) -> int | None:
        """Skip a mark if it is the next token; return its end."""
        if self._next >= len(self._tokens):
            return None
        kind, start, stop = self._tokens[self._next]
        if kind != "mark" or self.text[start] != mark:
            return None
        self._next += 1
        return stop

    def _parse_value(self, depth: int) -> _Node:
        if depth > DEPTH_MAX:
            raise self._build_error(f"nested more than {DEPTH_MAX} deep")
        kind, start, stop = self._take("a value")
        text = self.text[start:stop]
        if kind != "mark":
            return _Node(start, stop, json.loads(text))
        if text not in "{[":
            self._next -= 1
            raise self._build_error(f"{text!r} instead of a value")
        closing = "}" if text == "{" else "]"
        members: list[_Member] = []
        while (end := self._skip(closing)) is None:
            if members and members[-1].comma is None:
                raise self._build_error(f"a comma or {closing} is missing")
            members.append(self._parse_member(depth, has_key=text == "{"))
        if text == "{":
            return _Node(start, end, {member.key: member.node.value for member in members}, tuple(members))
        return _Node(start, end, [member.node.value for member in members], tuple(members))

    def _parse_member(self, depth: int, *, has_key: bool) -> _Member:
        key, start = "", -1
        if has_key:
            kind, start, stop = self._take("a key or a closing brace")
            if kind != "string":
                self._next -= 1
                raise self._build_error("a key must be in double quotes")
            key = json.loads(self.text[start:stop])
            if self._skip(":") is None:
                raise self._build_error("a colon is missing")
        node = self._parse_value(depth + 1)
        comma = self._skip(",")
        return _Member(key, start if has_key else node.start, node, None if comma is None else comma - 1)

    # -- changing --

    def add(self, owner: _Node, key: str, value: Any) -> str:
        """Add a last member to an object or list: on lines of its own, unless the others are on one line."""
        brace = owner.stop - 1
        _, end = self._span_before(brace)
        gap = self.text[end:brace]
        last = owner.members[-1] if owner.members else None
        comma = "," if last and last.comma is not None else ""
        edits = [(last.node.stop, last.node.stop, ",")] if last and not comma else []
        name = f"{json.dumps(key)}: " if key else ""
        if last and "\n" not in gap:
            written = f" {name}{json.dumps(value, ensure_ascii=False)}{comma}"
            return _apply(self.text, [*edits, (end, end, written)])
        outer = self.indent_at(owner.start)
        indent = self._indent_of_first(owner) or outer + self._unit
        written = f"{self.newline}{indent}{name}{self.format(value, indent)}{comma}"
        closing = gap if "\n" in gap else self.newline + outer
        return _apply(self.text, [*edits, (end, brace, written + closing)])

    def cut(self, owner: _Node, member: _Member) -> str:
        """Remove a member with the whitespace before it, and the comma that is then superfluous."""
        thing, start = self._span_before(member.start)
        stop = member.node.stop
        end = stop if member.comma is None else member.comma + 1
        ends_its_line = not self.text[end:].split("\n", 1)[0].strip()
        if self.text.startswith("//", thing) and not ends_its_line:
            start = member.start  # what follows must not become part of the comment before
        is_alone = len(owner.members) == 1 and not self.text[stop : owner.stop - 1].strip()
        if is_alone and self.text[start - 1] == "{":
            stop = owner.stop - 1
        edits = [(start, stop, "")]
        if member.comma is not None:
            edits.append((member.comma, member.comma + 1, ""))
        elif member is owner.members[-1] and len(owner.members) > 1:
            previous = owner.members[-2].comma
            assert previous is not None  # or there would be no member after it
            edits.append((previous, previous + 1, ""))
        return _apply(self.text, edits)

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
        start = owner.members[0].start
        before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        return before if before.isspace() and "\n" in self.text[owner.start : start] else ""
