"""Generate `command_pages.json`: the help of every command as `ctx --help` shows it, and the words that Tab completes.

python -m scripts.command_pages --write     after a change of a command, an option or the library
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "context_engine" / "cli" / "command_pages.json"
COLUMNS = 80
"""The width of a help page in a pipe."""
HELP = {"--help": 1, "-h": 2}
"""The last options, in this order; the library has them in a set, so theirs changes from run to run."""
ENVIRONMENT = {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
"""Variables that make the library write the page of a terminal of this width into a file."""


def build_pages() -> dict[str, Any]:
    """Return the help pages with styles, and the offers of Tab: both by the path of a command."""
    before = dict(os.environ)
    for name in ("NO_COLOR", "TERMINAL_WIDTH", "LINES"):
        os.environ.pop(name, None)
    os.environ.update(ENVIRONMENT)  # before the library is imported, which looks only then
    try:
        import typer

        from context_engine.cli.app import app

        group = typer.main.get_command(app)
        paths = [""]
        paths += sorted(_command_paths(group, ""))
        return {
            "help": {path: _help_page(app, path.split()) for path in paths if path != "serve"},
            "offers": {path: _offers(group, path.split()) for path in paths},
        }
    finally:
        os.environ.clear()
        os.environ.update(before)


def _command_paths(group: Any, above: str) -> Iterator[str]:
    for name, command in group.commands.items():
        path = f"{above} {name}".strip()
        yield path
        if hasattr(command, "commands"):
            yield from _command_paths(command, path)


def _help_page(app: Any, words: list[str]) -> str:
    page = io.StringIO()
    with redirect_stdout(page):
        app(args=[*words, "--help"], prog_name="ctx", standalone_mode=False)
    return page.getvalue()


def _offers(group: Any, words: list[str]) -> list[list[str]]:
    """Return (word, line of zsh, line of fish) for every command and option that may follow a path."""
    from typer._completion_classes import FishComplete, ZshComplete

    zsh, fish = (kind(group, {}, "ctx", "_CTX_COMPLETE") for kind in (ZshComplete, FishComplete))
    names = getattr(_find(group, words), "commands", {})
    items = [item for item in zsh.get_completions(words, "") if item.value in names]
    items += sorted(zsh.get_completions(words, "-"), key=lambda item: HELP.get(item.value, 0))
    return [[item.value, zsh.format_completion(item), fish.format_completion(item)] for item in items]


def _find(group: Any, words: list[str]) -> Any:
    for word in words:
        group = group.commands[word]
    return group


def format_pages(pages: dict[str, Any]) -> str:
    """Return the text of the file."""
    return json.dumps(pages, ensure_ascii=False, indent=0, sort_keys=True) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    FILE.write_text(format_pages(build_pages()), encoding="utf-8")
