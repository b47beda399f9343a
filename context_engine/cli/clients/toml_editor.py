"""PURE. Change one table of a TOML text by tomlkit and keep every other character, comments too.

A new table is added at the end. Only the lines of our table change or go, if it has lines of its own.

>>> print(set_entry("model = 'x' # fast", ("servers", "ctx"), {"command": "ctx", "args": ["serve"]}))
model = 'x' # fast
<BLANKLINE>
[servers.ctx]
command = "ctx"
args = ["serve"]
<BLANKLINE>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError
from tomlkit.items import InlineTable

from context_engine.errors import InvalidArgument


def get_value(text: str, path: Sequence[str]) -> Any:
    """Return the value at a path of keys, or None. Raises: InvalidArgument, as all functions here."""
    value: Any = _parse(text).unwrap()
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def set_entry(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Set the keys of `entry` in the table at `path`; its other keys stay.

    Raises: InvalidArgument if the text is not TOML (`details` has the line), or if another value is in its place.
    """
    for end in range(1, len(path) + 1):
        if not isinstance(get_value(text, path[:end]), dict | None):
            raise InvalidArgument(f"{'.'.join(path)} is not a table", suggestion="Rename or remove that value.")
    present = get_value(text, path)
    if present is None and not isinstance(_parse(text).get(path[0]), InlineTable):
        return _append_table(text, path, entry)
    changed = {key: value for key, value in entry.items() if (present or {}).get(key) != value}
    if not changed:
        return text

    def edit(document: Any) -> None:
        for key in path:
            document = document.setdefault(key, tomlkit.inline_table())
        document.update(changed)

    return _change(text, path, lambda lines: _edit(lines, edit), meant={**(present or {}), **entry})


def remove_entry(text: str, path: Sequence[str]) -> str:
    """Remove the table at `path`, if there is one. Reverts what `set_entry` added there."""
    if get_value(text, path) is None:
        return text

    def delete(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return _change(text, path, lambda lines: "" if lines != text else _edit(lines, delete), meant=None)


def _parse(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        line, column = (error.line, error.col) if isinstance(error, ParseError) else (1, 1)
        raise InvalidArgument(
            f"line {line}, column {column}: {str(error).partition(' at line ')[0]}",
            suggestion="Fix it there, then run the command again.",
            details={"line": line, "column": column},
        ) from None


def _append_table(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Add the table at the end, after one empty line."""
    newline = "\r\n" if "\r\n" in text else "\n"
    table = f"[{'.'.join(path)}]\n{tomlkit.dumps(dict(entry))}".replace("\n", newline)
    if not text:
        return table
    return text + (newline if text.endswith("\n") else 2 * newline) + table


def _edit(text: str, edit: Callable[[Any], None]) -> str:
    document = tomlkit.parse(text)
    edit(document)
    return tomlkit.dumps(document)


def _change(text: str, path: Sequence[str], change: Callable[[str], str], *, meant: Any) -> str:
    """Change the lines of the table, or the whole text of a table without such; check that nothing else changed.

    Raises: InvalidArgument.
    """
    rest = _without(text, path)
    for before, lines, after in (*_find_tables(text, path), ("", text, "")):
        try:
            kept = re.sub(r"(?:(?<=\n)|^)[ \t\r]*\n\Z", "", before) if meant is None else before
            changed = kept + change(lines) + after
            is_right = get_value(changed, path) == meant and _without(changed, path) == rest
            if is_right and (lines != text or _kept_lines(changed, text) == _kept_lines(text, changed)):
                return changed
        except (TOMLKitError, LookupError, InvalidArgument):
            continue  # what looked like our table is part of a string
    raise InvalidArgument(
        "the table has a form that cannot be changed without touching the rest", suggestion="Change it by hand."
    )


def _without(text: str, path: Sequence[str]) -> Any:
    """Return the values and the order of everything but the table at a path."""
    owner = values = _parse(text).unwrap()
    for key in path[:-1]:
        owner = owner.get(key, {})
    owner.pop(path[-1], None)
    return {key: value for key, value in values.items() if value != {}}


def _kept_lines(text: str, other: str) -> list[str]:
    """Return the lines of a text that another one has, too: a library may put tables into another order."""
    others = set(other.split("\n"))
    return [line for line in text.split("\n") if line.strip() and line in others]


def _find_tables(text: str, path: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the text before the table, the lines of the table and its subtables, and the text after.

    Do so for each line that looks like the header of the table. Comments before the next table belong to that.
    """
    name = r"\s*\.\s*".join(f"""["']?{re.escape(key)}["']?""" for key in path)
    header = re.compile(rf"\s*\[\s*{name}\s*(?:\.[^\]]*)?\]\s*(?:#.*)?\s*")
    lines = text.splitlines(keepends=True)
    for first in (number for number, line in enumerate(lines) if header.fullmatch(line)):
        stop = first + 1
        while stop < len(lines) and (not lines[stop].lstrip().startswith("[") or header.fullmatch(lines[stop])):
            stop += 1
        while stop > first + 1 and (not lines[stop - 1].strip() or lines[stop - 1].lstrip().startswith("#")):
            stop -= 1
        yield "".join(lines[:first]), "".join(lines[first:stop]), "".join(lines[stop:])
