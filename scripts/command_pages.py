"""Write docs/help.txt: the help page of every command, as `ctx COMMAND --help` shows it in a pipe.

python -m scripts.command_pages --write     after a change of a command or an option
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "docs" / "help.txt"
RULE = "-" * 80


def build_pages() -> dict[str, str]:
    """Return the help pages by the path of a command."""
    import typer

    from context_engine.cli.app import app

    group: Any = typer.main.get_command(app)
    context = group.make_context("ctx", [], resilient_parsing=True)
    pages = dict(_pages_below(group, context, ""))
    return {path: pages[path] for path in ["", *sorted(pages.keys() - {""})]}


def _pages_below(command: Any, context: Any, path: str) -> Iterator[tuple[str, str]]:
    from context_engine.cli.help_pages import STYLES, render_help

    yield path, STYLES.sub("", render_help(command, context))
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        child = command.get_command(context, name)
        inner = child.make_context(name, [], parent=context, resilient_parsing=True)
        yield from _pages_below(child, inner, f"{path} {name}".strip())


def format_text(pages: dict[str, str]) -> str:
    """Return all help pages as one text."""
    return f"{RULE}\n".join(f"$ ctx {path} --help\n\n{page}".replace("ctx  ", "ctx ") for path, page in pages.items())


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    FILE.write_text(format_text(build_pages()), encoding="utf-8")
