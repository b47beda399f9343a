"""ruff, a linter of Python: how it is asked and how its answer is read, whoever asks and whatever for.

Nothing is run here.

over(program, ["src/a.py"], ["--isolated"])      files, as they lie in the folder it is run in
of_text(program, "src/a.py")                     a text it is given, under the settings that hold for that path
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from context_engine.text import OUTPUT_BYTES_MAX, read_json

NAME = "ruff"
SUFFIXES = (".py", ".pyi")
EXITS = (0, 1)
"""Nothing found, something found; with any other it has failed."""


class RuffFinding(NamedTuple):
    """One finding. `rule` is empty where it could not parse the file; `fix` says what would mend it, where it knows."""

    path: str
    rule: str
    message: str
    first: int
    last: int
    fix: str


def over(program: str, paths: Sequence[str], how: Sequence[str]) -> list[str]:
    """The words that ask for files."""
    return [program, "check", "--no-cache", "--quiet", "--output-format=json", *how, "--", *paths]


def of_text(program: str, path: str) -> list[str]:
    """The words that ask for a text, which is said to be the file at a path."""
    return [program, "check", "--no-cache", "--quiet", "--output-format=json", "--stdin-filename", path, "-"]


def rows(out: bytes) -> list[RuffFinding]:
    """What it found. Raises: ValueError when that is not what ruff says."""
    try:
        return [_row(each) for each in read_json(out or b"[]", bytes_max=OUTPUT_BYTES_MAX)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(repr(error)) from error


def _row(told: Any) -> RuffFinding:
    rule = told["code"] if told["code"] != "invalid-syntax" else ""
    where = told["location"]["row"], told["end_location"]["row"]
    return RuffFinding(
        told["filename"], rule or "", told["message"], *where, (told.get("fix") or {}).get("message") or ""
    )
