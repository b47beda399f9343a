"""PURE. Change one table of a TOML text and keep every other character, comments too.

A new table is added at the end; an existing one is changed in its place. Python's own parser checks each result. A
layout that neither way can handle is an error.

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
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from context_engine.errors import InvalidArgument

_EMPTY_LAST_LINE = re.compile(r"(?:(?<=\n)|^)[ \t\r]*\n\Z")
_PLACE = re.compile(r"at line (\d+), column (\d+)")


def get_value(text: str, path: Sequence[str]) -> Any:
    """Return the value at a path of keys, or None. Raises: InvalidArgument, as all functions here."""
    value: Any = _read(text)
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        else:
            value = None
    return value


def set_entry(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Set the keys of `entry` in the table at `path`; its other keys stay.

    Raises: InvalidArgument if the text is not TOML (`details` has the line), or if another value is in its place.
    """
    meant = _read(text)
    table = meant
    for key in path:
        if isinstance(table, dict):
            table = table.setdefault(key, {})
        else:
            table = None
    if not isinstance(table, dict):
        raise InvalidArgument(f"{'.'.join(path)} is not a table", suggestion="Rename or remove that value.")
    is_new = not table
    if all(table.get(key) == value for key, value in entry.items()):
        return text
    table.update(entry)
    results = []
    if is_new:
        results = [_append_table(text, path, entry)]
    return _first_right(chain(results, _editions(text, path, entry)), meant, text)


def remove_entry(text: str, path: Sequence[str]) -> str:
    """Remove the table at `path`, if there is one. Reverts what `set_entry` added there."""
    if get_value(text, path) is None:
        return text
    meant = _read(text)
    owner = meant
    for key in path[:-1]:
        owner = owner[key]
    del owner[path[-1]]
    return _first_right(_deletions(text, path), meant, text)


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        if place:
            line, column = (int(place[1]), int(place[2]))
        else:
            line, column = (text.count("\n") + 1, 1)
        raise InvalidArgument(
            f"line {line}, column {column}: {str(error).partition(' (at ')[0]}",
            suggestion="Fix it there, then run the command again.",
            details={"line": line, "column": column},
        ) from None


def _first_right(results: Iterable[str], meant: Mapping[str, Any], text: str) -> str:
    """Return the first result with the expected content whose remaining lines keep their order.

    Empty tables are ignored in the comparison.
    """
    for after in results:
        with suppress(tomllib.TOMLDecodeError):
            if _without_empty(tomllib.loads(after)) == _without_empty(meant) and _in_order(text, after):
                return after
    raise InvalidArgument(
        "the table has a form that cannot be changed without touching the rest",
        suggestion="Change it by hand.",
        details={"line": 1, "column": 1},
    )


def _in_order(before: str, after: str) -> bool:
    """Whether the lines that both texts have are in the same order."""
    old, new = before.splitlines(), after.splitlines()
    kept = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return kept == (Counter(old) & Counter(new)).total()


def _without_empty(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables without empty ones."""
    tables = {key: _without_empty(item) if isinstance(item, dict) else item for key, item in value.items()}
    return {key: item for key, item in tables.items() if item != {}}


# -- the ways to do it ------------------------------------------------------------------------------------------------


def _append_table(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Add the table at the end, after one empty line."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text:
        start = ""
    else:
        start = text + newline if text.endswith("\n") else text + 2 * newline
    table = tomlkit.dumps(dict(entry)).replace("\n", newline)
    return f"{start}[{'.'.join(path)}]{newline}{table}"


def _editions(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield texts with the keys changed: first in the lines of the table only, then in the whole text by tomlkit."""
    for before, block, after in _blocks(text, path):
        with suppress(TOMLKitError, LookupError):
            yield before + _edit_table(block, path, entry) + after
    with suppress(TOMLKitError, LookupError):
        yield _edit_table(text, path, entry)


def _deletions(text: str, path: Sequence[str]) -> Iterator[str]:
    """Yield texts without the lines of the table and the empty line before, then one that tomlkit makes."""
    for before, _, after in _blocks(text, path):
        yield _EMPTY_LAST_LINE.sub("", before) + after
    with suppress(TOMLKitError, LookupError):
        yield _delete_table(text, path)


def _blocks(text: str, path: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the text before the table, the lines of the table and its subtables, and the text after.

    Do so for each line that looks like the header of the table, since it may be part of a string.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    name = r"\s*\.\s*".join(f"""["']?{re.escape(key)}["']?""" for key in path)
    header = re.compile(rf"\s*\[\s*{name}\s*(?:\.[^\]]*)?\]\s*(?:#.*)?\s*")
    for first in (number for number, line in enumerate(lines) if header.fullmatch(line)):
        stop = first + 1
        while stop < len(lines) and (not lines[stop].lstrip().startswith("[") or header.fullmatch(lines[stop])):
            stop += 1
        while stop > first + 1 and (not lines[stop - 1].strip() or lines[stop - 1].lstrip().startswith("#")):
            stop -= 1  # comments before the next table belong to that
        yield "".join(lines[:first]), "".join(lines[first:stop]), "".join(lines[stop:])


def _edit_table(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    document = tomlkit.parse(text)
    table: Any = document
    for key in path:
        table = table.setdefault(key, tomlkit.table() if table is document else tomlkit.inline_table())
    for key, value in entry.items():
        if table.get(key) != value:
            table[key] = value
    return tomlkit.dumps(document)


def _delete_table(text: str, path: Sequence[str]) -> str:
    document = tomlkit.parse(text)
    owner: Any = document
    for key in path[:-1]:
        owner = owner[key]
    del owner[path[-1]]
    return tomlkit.dumps(document)
