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

import bisect
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
    value = _parse_document(text).value
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        else:
            value = None
    return value


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
    node: _JsonValue | None = (document := _parse_document(text)).root
    for key in path[:-1]:
        node = node.child(key) if node else None
    if node is None or (member := node.member(path[-1])) is None:
        return text
    cut = _apply_edits(text, [(start, stop, "") for start, stop in _find_cuts(text, document, node, member)])
    return remove_entry(cut, path)  # the key may occur twice


def append_item(text: str, path: Sequence[str], item: Mapping[str, Any]) -> str:
    """Append an item to the list at `path`, which is created if there is none. Raises: as `set_entry`."""
    node = (document := _parse_document(text)).root
    for key in path:
        node = node.child(key) if node else None
    if node is None or not isinstance(node.value, list):
        return _set_value(text, path, [item])
    return _add_member(text, document, node, "", item)


def remove_items(text: str, path: Sequence[str], is_removed: Callable[[Any], bool]) -> str:
    """Remove the items of the list at `path` that a predicate selects; a list that is then empty is removed, too.

    Reverts what `append_item` added there. Raises: as `set_entry`.
    """
    node = (document := _parse_document(text)).root
    for key in path:
        node = node.child(key) if node else None
    if node is None or not isinstance(node.value, list):
        return text
    removed = next((item for item in node.members if is_removed(item.node.value)), None)
    if removed is None:
        return text
    if len(node.members) == 1:
        return remove_entry(text, path)
    cut = _apply_edits(text, [(start, stop, "") for start, stop in _find_cuts(text, document, node, removed)])
    return remove_items(cut, path, is_removed)


# -- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _JsonValue:
    """A value and its range, `start`-`stop`; `members` are those of an object or list, in their order."""

    start: int
    stop: int
    value: Any
    members: tuple[_JsonMember, ...] = ()

    def member(self, key: str) -> _JsonMember | None:
        """Return the member with this key; of several the last one, which parsers use."""
        return next((member for member in reversed(self.members) if member.key == key), None)

    def child(self, key: str) -> _JsonValue | None:
        """Return the value of the member with this key."""
        member = self.member(key)
        if member:
            return member.node
        return None


@dataclass(frozen=True, slots=True)
class _JsonMember:
    """A key and its start, its value, and the position of the comma after it, if there is one.

    An item of a list has its number as the key, and starts where its value does.
    """

    key: str
    start: int
    node: _JsonValue
    comma: int | None


@dataclass(frozen=True, slots=True)
class _JsonDocument:
    """The outermost value, if there is one, and the ranges of all tokens and comments."""

    root: _JsonValue | None
    starts: list[int]
    stops: list[int]

    @property
    def value(self) -> Any:
        """The document as Python values."""
        if self.root:
            return self.root.value
        return None

    def before(self, position: int) -> tuple[int, int]:
        """Return the range of the last token or comment that ends at or before a position."""
        index = bisect.bisect_right(self.stops, position) - 1
        return self.starts[index], self.stops[index]


def _parse_document(text: str) -> _JsonDocument:
    tokens = list(_tokenize(text))
    reader = _JsonParser(text, [token for token in tokens if token[0] != "comment"])
    root = reader.parse_value(0) if reader.has_more else None
    if reader.has_more:
        raise reader.build_error("something after the end")
    return _JsonDocument(root, [start for _, start, _ in tokens], [stop for *_, stop in tokens])


def _tokenize(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, start, stop) of everything except whitespace."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _syntax_error(text, position, "not JSON")
        if match.lastgroup != "blank":
            yield str(match.lastgroup), position, match.end()
        position = match.end()


class _JsonParser:
    """A parser that reads the tokens once and builds the tree."""

    def __init__(self, text: str, tokens: list[tuple[str, int, int]]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0

    @property
    def has_more(self) -> bool:
        """Whether a token is left."""
        return self._next < len(self._tokens)

    def parse_value(self, depth: int) -> _JsonValue:
        """Parse the value that starts at the next token."""
        if depth > DEPTH_MAX:
            raise self.build_error(f"nested more than {DEPTH_MAX} deep")
        kind, start, stop = self._next_token("a value")
        text = self._text[start:stop]
        if kind != "mark":
            return _JsonValue(start, stop, json.loads(text))
        if text == "{":
            return self._parse_object(start, depth)
        if text == "[":
            return self._parse_array(start, depth)
        self._next -= 1
        raise self.build_error(f"{text!r} instead of a value")

    def build_error(self, what: str) -> InvalidArgument:
        """Build the error for an unexpected next token."""
        if self.has_more:
            position = self._tokens[self._next][1]
        else:
            position = len(self._text)
        return _syntax_error(self._text, position, what)

    def _parse_object(self, start: int, depth: int) -> _JsonValue:
        members: list[_JsonMember] = []
        while (stop := self._skip_mark("}")) is None:
            if members and members[-1].comma is None:
                raise self.build_error("a comma or a closing brace is missing")
            members.append(self._parse_member(depth))
        value = {member.key: member.node.value for member in members}
        return _JsonValue(start, stop, value, tuple(members))

    def _parse_member(self, depth: int) -> _JsonMember:
        kind, start, stop = self._next_token("a key or a closing brace")
        if kind != "string":
            self._next -= 1
            raise self.build_error("a key must be in double quotes")
        if self._skip_mark(":") is None:
            raise self.build_error("a colon is missing")
        node = self.parse_value(depth + 1)
        comma = self._skip_mark(",")
        return _JsonMember(json.loads(self._text[start:stop]), start, node, None if comma is None else comma - 1)

    def _parse_array(self, start: int, depth: int) -> _JsonValue:
        items: list[_JsonMember] = []
        while (stop := self._skip_mark("]")) is None:
            if items and items[-1].comma is None:
                raise self.build_error("a comma or a closing bracket is missing")
            node = self.parse_value(depth + 1)
            comma = self._skip_mark(",")
            items.append(_JsonMember(str(len(items)), node.start, node, None if comma is None else comma - 1))
        return _JsonValue(start, stop, [item.node.value for item in items], tuple(items))

    def _skip_mark(self, mark: str) -> int | None:
        """Skip a mark if it is the next token; return its end."""
        if not self.has_more:
            return None
        kind, start, stop = self._tokens[self._next]
        if kind != "mark" or self._text[start] != mark:
            return None
        self._next += 1
        return stop

    def _next_token(self, wanted: str) -> tuple[str, int, int]:
        if not self.has_more:
            raise self.build_error(f"{wanted} is missing at the end")
        self._next += 1
        return self._tokens[self._next - 1]


def _syntax_error(text: str, position: int, what: str) -> InvalidArgument:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return InvalidArgument(
        f"line {line}, column {column}: {what}",
        suggestion="Fix it there, then run the command again.",
        details={"line": line, "column": column},
    )


# -- adding ---------------------------------------------------------------------------------------------------------


def _set_value(text: str, path: Sequence[str], value: Any) -> str:
    """Set the value at a path: replace the present value, or add it with the objects around it."""
    document = _parse_document(text)
    if document.root is None:
        return _start_document(text, _nest(path, value))
    node = document.root
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise _syntax_error(
                text, node.start, f"{_format_path(path[:depth])} is not an object, {path[depth]!r} cannot be in it"
            )
        child = node.child(key)
        if child is None:
            return _add_member(text, document, node, key, _nest(path[depth + 1 :], value))
        node = child
    if _is_same_json(node.value, value):
        return text
    style = _JsonLayout.detect(text, document)
    written = style.format_value(value, style.indent_at(text, node.start))
    return _apply_edits(text, [(node.start, node.stop, written)])


def _add_member(text: str, document: _JsonDocument, owner: _JsonValue, key: str, value: Any) -> str:
    """Add a last member to an object or list: on lines of its own, unless the others are on one line."""
    style = _JsonLayout.detect(text, document)
    brace = owner.stop - 1
    _, end = document.before(brace)
    gap = text[end:brace]
    last = owner.members[-1] if owner.members else None
    is_block = last is None or "\n" in gap
    comma = "," if last and last.comma is not None else ""
    edits = []
    if last and not comma:
        edits = [(last.node.stop, last.node.stop, ",")]
    if not is_block:
        written = f" {_format_key(key)}{json.dumps(value, ensure_ascii=False)}{comma}"
        return _apply_edits(text, [*edits, (end, end, written)])
    outer = style.indent_at(text, owner.start)
    indent = _indent_of_first(text, owner) or outer + style.unit
    written = f"{style.newline}{indent}{_format_key(key)}{style.format_value(value, indent)}{comma}"
    closing = gap if "\n" in gap else style.newline + outer
    return _apply_edits(text, [*edits, (end, brace, written + closing)])


def _format_key(key: str) -> str:
    """Return a key with its colon; nothing for an item of a list."""
    if key:
        return f"{json.dumps(key)}: "
    return ""


def _start_document(text: str, value: Any) -> str:
    """Add a value to a text that has none, perhaps only comments."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text.strip():
        start = ""
    else:
        start = text if text.endswith("\n") else text + newline
    return start + _JsonLayout("  ", newline).format_value(value, "") + newline


@dataclass(frozen=True, slots=True)
class _JsonLayout:
    """The layout of a text: one level of indentation, and the line end."""

    unit: str
    newline: str

    @classmethod
    def detect(cls, text: str, document: _JsonDocument) -> _JsonLayout:
        """Detect the layout from the first member of the text; default: two spaces."""
        unit = ""
        if document.root:
            unit = _indent_of_first(text, document.root)
        return cls(unit or "  ", "\r\n" if "\r\n" in text else "\n")

    def format_value(self, value: Any, indent: str) -> str:
        """Format a value as by hand: members and objects of lists on lines of their own, other lists on one line."""
        inner = indent + self.unit
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            items = [f"{inner}{self.format_value(item, inner)}" for item in value]
            return f"[{self.newline}{f',{self.newline}'.join(items)}{self.newline}{indent}]"
        if not isinstance(value, Mapping) or not value:
            return json.dumps(value, ensure_ascii=False)
        lines = [f"{inner}{json.dumps(key)}: {self.format_value(member, inner)}" for key, member in value.items()]
        return f"{{{self.newline}{f',{self.newline}'.join(lines)}{self.newline}{indent}}}"

    def indent_at(self, text: str, position: int) -> str:
        """Return the indentation of the line of a position."""
        start = text.rfind("\n", 0, position) + 1
        return text[start : start + len(text[start:position]) - len(text[start:position].lstrip(" \t"))]


def _indent_of_first(text: str, owner: _JsonValue) -> str:
    """Return the indentation of the first member, if it begins its line."""
    if not owner.members:
        return ""
    start = owner.members[0].start
    before = text[text.rfind("\n", 0, start) + 1 : start]
    if before.isspace() and "\n" in text[owner.start : start]:
        return before
    return ""


# -- removing -------------------------------------------------------------------------------------------------------


def _find_cuts(text: str, document: _JsonDocument, owner: _JsonValue, member: _JsonMember) -> Iterator[tuple[int, int]]:
    """Yield the ranges to remove with a member: the whitespace before it, and the comma that is then superfluous."""
    thing, start = document.before(member.start)
    if member.comma is None:
        end = member.node.stop
    else:
        end = member.comma + 1
    ends_its_line = not text[end:].split("\n", 1)[0].strip()
    if text.startswith("//", thing) and not ends_its_line:
        start = member.start  # what follows must not become part of the comment before
    stop = member.node.stop
    if len(owner.members) == 1 and member.comma is None and text[start - 1] == "{" and not _inside(text, stop, owner):
        stop = owner.stop - 1
    yield start, stop
    if member.comma is not None:
        yield member.comma, member.comma + 1
    elif member is owner.members[-1] and len(owner.members) > 1:
        previous = owner.members[-2].comma
        assert previous is not None  # or there would be no member after it
        yield previous, previous + 1


def _inside(text: str, start: int, owner: _JsonValue) -> str:
    """Return the text between a position and the closing brace."""
    return text[start : owner.stop - 1].strip()


# -- small things ---------------------------------------------------------------------------------------------------


def _apply_edits(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """Replace each range `start`-`stop`; two edits at one position keep their order."""
    parts, position = [], 0
    for start, stop, written in sorted(edits, key=lambda edit: edit[0]):
        parts += [text[position:start], written]
        position = stop
    return "".join([*parts, text[position:]])


def _nest(path: Sequence[str], value: Any) -> Any:
    """Wrap a value in the objects of a path.

    >>> _nest(("a", "b"), 1)
    {'a': {'b': 1}}
    """
    for key in reversed(path):
        value = {key: value}
    return value


def _is_same_json(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON, where `1` is not `true`."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _format_path(path: Sequence[str]) -> str:
    if path:
        return repr(".".join(path))
    return "the whole"
