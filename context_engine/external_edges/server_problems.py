"""The errors that language servers publish for files, and which of them an edit added. PURE."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from context_engine.text import shorten_prose

ERROR = 1
"""The severity of an error; warnings and hints are not reported."""
PROBLEMS_MAX = 1_000
"""Errors of one file that are compared."""
MESSAGE_CHARS_MAX = 300
MESSAGE_READ_MAX = 2_000
"""Characters of a message that are read; what follows them would not be shown."""
_REASON = re.compile(r"[:.]?\s*\n(?=\s)\s*")
"""The start of an indented line, which says why the line above it is so."""


class EditedText(NamedTuple):
    """The bytes of a file before and after an edit; None where there is no file."""

    path: str
    before: bytes | None
    after: bytes | None


class ServerProblem(NamedTuple):
    """An error in a file at a line, counted from 1, with the words of the server; they are not to be trusted."""

    path: str
    line: int
    message: str
    server: str = ""


class PublishedProblems(NamedTuple):
    """The errors that a server published for a file: lines and messages, and the version of the file, if it says it."""

    uri: str
    version: int | None
    rows: tuple[tuple[int, str], ...]


def read_published(parameters: Any) -> PublishedProblems | None:
    r"""Return the errors of a `publishDiagnostics`; None for anything else.

    >>> read_published({"uri": "file:///a.py", "diagnostics": [
    ...     {"severity": 1, "message": "b is not defined", "range": {"start": {"line": 3}}}, {"severity": 2}, None]})
    PublishedProblems(uri='file:///a.py', version=None, rows=((4, 'b is not defined'),))
    >>> read_published({"uri": "file:///a.py", "diagnostics": [
    ...     {"message": "b is wrong\n  \"str\" is not \"int\"", "range": {"start": {"line": 3}}}]}).rows
    ((4, 'b is wrong: "str" is not "int"'),)
    """
    if not isinstance(parameters, dict) or not isinstance(parameters.get("uri"), str):
        return None
    listed, version = parameters.get("diagnostics"), parameters.get("version")
    rows = [_read_row(row) for row in listed[:PROBLEMS_MAX]] if isinstance(listed, list) else []
    found = tuple(row for row in rows if row is not None)
    return PublishedProblems(parameters["uri"], version if isinstance(version, int) else None, found)


def _read_row(row: Any) -> tuple[int, str] | None:
    if not isinstance(row, dict) or row.get("severity", ERROR) != ERROR or not isinstance(row.get("message"), str):
        return None
    try:
        line = row["range"]["start"]["line"]
    except (TypeError, KeyError):
        return None
    if not isinstance(line, int) or line < 0:
        return None
    message = _REASON.sub(": ", row["message"].strip()[:MESSAGE_READ_MAX])
    return line + 1, shorten_prose(" ".join(message.split()), MESSAGE_CHARS_MAX)


def find_new(
    before: Mapping[str, Iterable[tuple[int, str]]], after: Mapping[str, Iterable[tuple[int, str]]]
) -> list[tuple[str, int, str]]:
    """Return file, line and message of the errors that were not there before, whatever their lines were.

    >>> find_new({"a": [(1, "old")]}, {"a": [(2, "old"), (5, "new")], "b": [(1, "old")]})
    [('a', 5, 'new'), ('b', 1, 'old')]
    """
    found: list[tuple[str, int, str]] = []
    for uri, rows in after.items():
        known = Counter(message for _, message in before.get(uri, ()))
        for line, message in rows:
            known[message] -= 1
            if known[message] < 0:
                found.append((uri, line, message))
    return found
