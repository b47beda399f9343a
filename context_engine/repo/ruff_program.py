"""The linter ruff: the commands that call it, and its answer as values. Nothing is run here.

Ruff.check_files(program, ["src/a.py"], ["--isolated"])      files, relative to the folder where it runs
Ruff.check_text(program, "src/a.py")                         a text on stdin, under the settings for that path
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from context_engine.text import OUTPUT_BYTES_MAX, read_json


class RuffFinding(NamedTuple):
    """One finding. `rule` is empty for a syntax error; `fix` describes a fix, where ruff has one."""

    path: str
    rule: str
    message: str
    first: int
    last: int
    fix: str


class Ruff:
    """The command line and the output format of ruff."""

    NAME = "ruff"
    SUFFIXES = (".py", ".pyi")
    EXITS = (0, 1)
    """The exit codes for no finding and some findings; with any other it has failed."""

    @staticmethod
    def check_files(program: str, paths: Sequence[str], options: Sequence[str]) -> list[str]:
        """Return the command that checks files."""
        return [program, "check", "--no-cache", "--quiet", "--output-format=json", *options, "--", *paths]

    @staticmethod
    def check_text(program: str, path: str) -> list[str]:
        """Return the command that checks a text on stdin as the file at a path."""
        return [program, "check", "--no-cache", "--quiet", "--output-format=json", "--stdin-filename", path, "-"]

    @staticmethod
    def parse_findings(output: bytes) -> list[RuffFinding]:
        """Return the findings in ruff's output. Raises: ValueError for any other output."""
        try:
            return [_parse_finding(row) for row in read_json(output or b"[]", bytes_max=OUTPUT_BYTES_MAX)]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(repr(error)) from error


def _parse_finding(row: Any) -> RuffFinding:
    rule = ""
    if row["code"] != "invalid-syntax":
        rule = row["code"]
    fix = (row.get("fix") or {}).get("message") or ""
    first, last = row["location"]["row"], row["end_location"]["row"]
    return RuffFinding(row["filename"], rule or "", row["message"], first, last, fix)
