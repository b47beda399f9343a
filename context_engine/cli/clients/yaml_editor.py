r"""PURE. Change one mapping of a YAML text and keep every other character, comments too.

Lines are added, replaced or removed; the result is read again, and a text whose form does not allow that is refused.

>>> print(set_entry("extensions:\n  memory: {enabled: true} # mine\n", ("extensions", "ctx"), {"args": []}))
extensions:
  memory: {enabled: true} # mine
  ctx:
    args: []
<BLANKLINE>
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from context_engine.errors import InvalidArgument
from context_engine.text import ParseError, read_yaml

Path = Sequence[str]

BYTES_MAX = 200_000
"""A settings file has some kilobytes; the positions of so many take a few seconds."""


def get_value(text: str, path: Path) -> Any:
    """Return the value at a path of keys, or None. Raises: InvalidArgument, as all functions here."""
    value = _read(text)
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        else:
            value = None
    return value


def set_entry(text: str, path: Path, entry: Mapping[str, Any]) -> str:
    """Set the keys of `entry` in the mapping at `path`; its other keys stay.

    Raises: InvalidArgument if the text is not YAML (`details` has the line), or if another value is in its place.
    """
    if get_value(text, path) is None:
        return _set_value(text, path, entry)
    for key, value in entry.items():
        if get_value(text, (*path, key)) != value:
            text = _set_value(text, (*path, key), value)
    return text


def remove_entry(text: str, path: Path) -> str:
    """Remove the value at `path`, if there is one. Reverts what `set_entry` added there."""
    if get_value(text, path) is None:
        return text
    expected = _unshare(_read(text))
    owner = expected
    for key in path[:-1]:
        owner = owner[key]
    del owner[path[-1]]
    return _first_right(_deletions(text, path), expected)


def _set_value(text: str, path: Path, value: Any) -> str:
    """Set the value at a path: replace the present value, or add it with the mappings around it."""
    expected = _unshare(_read(text) or {})
    owner = expected
    for depth, key in enumerate(path[:-1]):
        if owner.get(key) is None:
            owner[key] = {}
        owner = owner[key]
        if not isinstance(owner, dict):
            problem = f"{'.'.join(path[: depth + 1])} is not a mapping"
            raise InvalidArgument(problem, suggestion="Rename or remove that value.")
    is_new = owner.get(path[-1]) is None
    owner[path[-1]] = value
    return _first_right(_insertions(text, path, value) if is_new else _replacements(text, path, value), expected)


def _read(text: str) -> Any:
    """Return the value of the text, whose outermost value is a mapping or missing."""
    try:
        value = read_yaml(text, bytes_max=BYTES_MAX)
    except ParseError as error:
        raise _refuse(f"line {error.line or 1}: {error.reason}", error.line or 1) from None
    if value is not None and not isinstance(value, dict):
        raise _refuse("line 1: the outermost value is not a mapping", 1)
    return value


def _unshare(value: Any) -> Any:
    """Return a copy in which an alias is a value of its own, so that a change of it does not change the other."""
    if isinstance(value, dict):
        return {key: _unshare(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unshare(item) for item in value]
    return value


def _refuse(problem: str, line: int) -> InvalidArgument:
    return InvalidArgument(
        problem, suggestion="Fix it there, then run the command again.", details={"line": line, "column": 1}
    )


def _first_right(results: Iterable[str], expected: Mapping[str, Any]) -> str:
    """Return the first result with the expected content; an empty mapping is as good as none."""
    for after in results:
        try:
            value = read_yaml(after)
        except ParseError:
            continue
        if _without_empty(value or {}) == _without_empty(expected):
            return after
    raise InvalidArgument(
        "the mapping has a form that cannot be changed without touching the rest",
        suggestion="Change it by hand.",
        details={"line": 1, "column": 1},
    )


def _without_empty(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outermost mapping without keys that have no value."""
    return {key: item for key, item in value.items() if item not in ({}, None)}


# -- the ways to do it ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    """A key of a block mapping: its first line, the line after its value, and its column, all from 0."""

    first: int
    stop: int
    column: int


def _insertions(text: str, path: Path, value: Any) -> Iterator[str]:
    """Yield texts with a new value: after the last line of its mapping, or below the key of an empty one."""
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if "\r\n" in text else "\n"
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    owners = _find_members(text, path[:-1])
    children = _find_children(text, path[: len(owners)])
    if children:
        column, stop = (children[0].column, children[-1].stop)
    else:
        column, stop = (0, len(lines))
    if owners and not children:
        column, stop = owners[-1].column + 2, owners[-1].stop
    if not owners:
        stop = len(lines)
    added = _format_member(path[len(owners)], _nest(path[len(owners) + 1 :], value), " " * column, newline)
    yield "".join([*lines[:stop], *added, *lines[stop:]])
    for owner in owners[-1:]:
        emptied = lines[owner.first].replace("{}", "", 1).replace("null", "", 1).rstrip() + newline
        yield "".join([*lines[: owner.first], emptied, *added, *lines[owner.first + 1 :]])


def _replacements(text: str, path: Path, value: Any) -> Iterator[str]:
    """Yield texts with the lines of a member replaced."""
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if "\r\n" in text else "\n"
    for member in _find_members(text, path)[len(path) - 1 :]:
        written = _format_member(path[-1], value, " " * member.column, newline)
        yield "".join([*lines[: member.first], *written, *lines[member.stop :]])


def _deletions(text: str, path: Path) -> Iterator[str]:
    """Yield texts without the lines of a member; then without those of a mapping that it leaves empty."""
    lines = text.splitlines(keepends=True)
    members = _find_members(text, path)
    for member in members[len(path) - 1 :]:
        yield "".join([*lines[: member.first], *lines[member.stop :]])
        owner = members[-2]
        yield "".join([*lines[: owner.first], *lines[owner.stop :]])


def _find_members(text: str, path: Path) -> list[_Member]:
    """Return the members for the keys of the path, up to the first that is missing or is not in a block mapping."""
    node = _compose(text)
    lines = text.splitlines(keepends=True)
    found: list[_Member] = []
    for key in path:
        members = _block_members(node, lines)
        if key not in members:
            break
        member, node = members[key]
        found.append(member)
    return found


def _find_children(text: str, path: Path) -> list[_Member]:
    """Return the members of the block mapping at a path that exists."""
    node = _compose(text)
    lines = text.splitlines(keepends=True)
    for key in path:
        node = _block_members(node, lines)[key][1]
    return [member for member, _ in _block_members(node, lines).values()]


def _compose(text: str) -> Any:
    """Return the tree of nodes with their positions; `_read` has held the text to its bounds before.

    The reader with exact positions refuses a little that the other one reads, such as a tab after a colon.
    """
    import yaml  # it takes 15 ms, which only this client pays

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _refuse(f"line {line}: {error.problem}", line) from None


def _block_members(node: Any, lines: Sequence[str]) -> dict[str, tuple[_Member, Any]]:
    """Return the members of a block mapping by their keys, each with the node of its value."""
    import yaml

    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        return {}
    found: dict[str, tuple[_Member, Any]] = {}
    for key, value in node.value:
        first, stop = key.start_mark.line, _last_line(value, lines) + 1
        found[str(key.value)] = (_Member(first, max(stop, first + 1), key.start_mark.column), value)
    return found


def _last_line(node: Any, lines: Sequence[str]) -> int:
    """Return the last line of a value; what follows it, blank lines and comments, belongs to the next one."""
    import yaml

    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last, lines)
    if node.start_mark.index == node.end_mark.index or node.end_mark.column:
        return node.end_mark.line
    return node.end_mark.line - 1  # a block of text ends where the next line begins


def _format_member(key: str, value: Any, indent: str, newline: str) -> list[str]:
    """Return the lines of a member: mappings as blocks, everything else as JSON, which YAML reads."""
    if not isinstance(value, Mapping) or not value:
        return [f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}{newline}"]
    lines = [f"{indent}{key}:{newline}"]
    for name, member in value.items():
        lines += _format_member(name, member, f"{indent}  ", newline)
    return lines


def _nest(path: Path, value: Any) -> Any:
    """Wrap a value in the mappings of a path."""
    for key in reversed(path):
        value = {key: value}
    return value
