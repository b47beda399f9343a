r"""PURE. The longest line that a project's own settings allow: .editorconfig, ruff, black, prettier.

>>> line_length("src/a.py", {"pyproject.toml": "[tool.ruff]\nline-length = 100"}.get)
100
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import Any

from context_engine.text import ParseError, read_json, read_toml

DEFAULT = 120
"""Without settings: the limit of most linters."""

LENGTH_DIGITS = 6

Read = Callable[[str], str | None]


def line_length(path: str, read: Read) -> int:
    """Return the longest line that the settings nearest to a file allow; 0 for any.

    `read` returns a workspace file, or None.
    """
    for folder in _folders(path):
        for name, ask in _SETTINGS:
            text = read(f"{folder}{name}")
            length = ask(text, path.removeprefix(folder)) if text else None
            if length is not None:
                return length
    return DEFAULT


def _folders(path: str) -> Iterator[str]:
    """Yield the folders above a file, nearest first, each with its slash."""
    parts = path.split("/")[:-1]
    for depth in range(len(parts), -1, -1):
        yield "".join(f"{part}/" for part in parts[:depth])


def _ruff(text: str, path: str) -> int | None:
    return _parse_length(_toml(text).get("line-length")) if path.endswith((".py", ".pyi")) else None


def _pyproject(text: str, path: str) -> int | None:
    tools = _toml(text).get("tool", {})
    if not path.endswith((".py", ".pyi")) or not isinstance(tools, dict):
        return None
    for name in ("ruff", "black"):
        table = tools.get(name)
        if isinstance(table, dict) and (length := _parse_length(table.get("line-length"))):
            return length
    return None


def _prettier(text: str, path: str) -> int | None:
    if path.rpartition(".")[2] not in _PRETTY:
        return None
    found = re.search(r"[\"']?printWidth[\"']?\s*:\s*(\d{1,5})(?!\d)", text)
    return int(found[1]) if found else None


def _package(text: str, path: str) -> int | None:
    try:
        settings = read_json(text).get("prettier")
    except (ParseError, AttributeError):
        return None
    return _prettier(json.dumps(settings), path) if settings else None


_PRETTY = frozenset(
    {"js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "css", "scss", "less", "vue", "svelte", "md", "html"}
)


def _editorconfig(text: str, path: str) -> int | None:
    """Return the limit of the last section that names the file and has one."""
    length, applies = None, False
    for line in map(str.strip, text.split("\n")):
        if line.startswith("[") and line.endswith("]"):
            applies = _names(line[1:-1], path)
        elif applies and (setting := re.fullmatch(r"max_line_length\s*=\s*(\w+)\s*(?:[#;].*)?", line, re.IGNORECASE)):
            length = 0 if setting[1].lower() in ("off", "unset") else _parse_length(setting[1])
    return length


def _names(glob: str, path: str) -> bool:
    """Whether a section of an .editorconfig names a file.

    `{a,b}` are alternatives; without a slash any folder matches.
    """
    braces = re.search(r"\{([^{}]*,[^{}]*)\}", glob)
    if braces:
        before, after = glob[: braces.start()], glob[braces.end() :]
        return any(_names(f"{before}{choice}{after}", path) for choice in braces[1].split(","))
    whole = path if "/" in glob.removeprefix("/").rstrip("/") else path.rpartition("/")[2]
    return re.fullmatch(translate(glob.removeprefix("/").replace("**", "*")), whole) is not None


_SETTINGS: tuple[tuple[str, Callable[[str, str], int | None]], ...] = (
    ("ruff.toml", _ruff),
    (".ruff.toml", _ruff),
    ("pyproject.toml", _pyproject),
    (".prettierrc", _prettier),
    (".prettierrc.json", _prettier),
    (".prettierrc.yaml", _prettier),
    ("package.json", _package),
    (".editorconfig", _editorconfig),
)
"""Settings files with their readers; in one folder the settings of a formatter go before those of the editor."""


def _toml(text: str) -> dict[str, Any]:
    try:
        return read_toml(text)
    except ParseError:
        return {}


def _parse_length(value: object) -> int | None:
    is_number = isinstance(value, int | str) and str(value).isdecimal() and len(str(value)) < LENGTH_DIGITS
    return int(str(value)) if is_number else None
