r"""PURE. How long a line may be, by what a project's own settings say: .editorconfig, ruff, black, prettier.

>>> line_length("src/a.py", {"pyproject.toml": "[tool.ruff]\nline-length = 100"}.get)
100
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import Any

from context_engine.text.untrusted_data import ParseError, read_json, read_toml

DEFAULT = 120
"""Where nobody says anything: what most linters of today take for long."""

Read = Callable[[str], str | None]


def line_length(path: str, read: Read) -> int:
    """The longest line that the settings nearest to a file allow; `read` gives a file of the workspace, or None. 0: any length."""
    for folder in _folders(path):
        for name, ask in _SETTINGS:
            text = read(f"{folder}{name}")
            length = ask(text, path.removeprefix(folder)) if text else None
            if length is not None:
                return length
    return DEFAULT


def _folders(path: str) -> Iterator[str]:
    """The folders above a file, nearest first, each with its slash."""
    parts = path.split("/")[:-1]
    for depth in range(len(parts), -1, -1):
        yield "".join(f"{part}/" for part in parts[:depth])


def _ruff(text: str, path: str) -> int | None:
    return _whole(_toml(text).get("line-length")) if path.endswith((".py", ".pyi")) else None


def _pyproject(text: str, path: str) -> int | None:
    tools = _toml(text).get("tool", {})
    if not path.endswith((".py", ".pyi")) or not isinstance(tools, dict):
        return None
    said = (tools.get(tool, {}) for tool in ("ruff", "black"))
    return next(
        (length for each in said if isinstance(each, dict) and (length := _whole(each.get("line-length")))), None
    )


def _prettier(text: str, path: str) -> int | None:
    if path.rpartition(".")[2] not in _PRETTY:
        return None
    found = re.search(r"[\"']?printWidth[\"']?\s*:\s*(\d{1,5})(?!\d)", text)
    return int(found[1]) if found else None


def _package(text: str, path: str) -> int | None:
    try:
        said = read_json(text).get("prettier")
    except (ParseError, AttributeError):
        return None
    return _prettier(json.dumps(said), path) if said else None


_PRETTY = frozenset(
    {"js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "css", "scss", "less", "vue", "svelte", "md", "html"}
)


def _editorconfig(text: str, path: str) -> int | None:
    """The last section that names the file and says how long a line may be."""
    found, applies = None, False
    for line in map(str.strip, text.split("\n")):
        if line.startswith("[") and line.endswith("]"):
            applies = _names(line[1:-1], path)
        elif applies and (said := re.fullmatch(r"max_line_length\s*=\s*(\w+)\s*(?:[#;].*)?", line, re.IGNORECASE)):
            found = 0 if said[1].lower() in ("off", "unset") else _whole(said[1])
    return found


def _names(glob: str, path: str) -> bool:
    """Whether a section of an .editorconfig names a file; `{a,b}` are alternatives, and without a slash any folder will do."""
    braces = re.search(r"\{([^{}]*,[^{}]*)\}", glob)
    if braces:
        return any(_names(f"{glob[: braces.start()]}{one}{glob[braces.end() :]}", path) for one in braces[1].split(","))
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
"""Settings files and who reads them; in one folder a formatter's own word goes before that of the editor."""


def _toml(text: str) -> dict[str, Any]:
    try:
        return read_toml(text)
    except ParseError:
        return {}


def _whole(said: object) -> int | None:
    return int(said) if isinstance(said, int | str) and str(said).isdecimal() and len(str(said)) < 6 else None
