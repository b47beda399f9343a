"""Generate `command_pages.json`: the help of every command as `ctx --help` shows it, and the words that Tab completes.

python -m scripts.command_pages --write     after a change of a command, an option or the library

The same pages are one text for readers, docs/help.txt.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from context_engine.cli.quick_pages import PLANS, STYLES

FILE = Path(__file__).resolve().parents[1] / "context_engine" / "cli" / "command_pages.json"
TEXT_FILE = FILE.parents[2] / "docs" / "help.txt"
RULE = "-" * 80
HELP = {"--help": 1, "-h": 2}
"""The last options, in this order; the library has them in a set, so theirs changes from run to run."""


def build_pages() -> dict[str, Any]:
    """Return the help pages with styles, and the offers of Tab: both by the path of a command."""
    import typer

    from context_engine.cli.app import app

    group = typer.main.get_command(app)
    paths = [""]
    paths += sorted(_command_paths(group, ""))
    pages = {path: _help_page(group, path.split()) for path in paths if path != "serve"}
    values = _values(group, paths)
    lists = list(dict.fromkeys(tuple(map(tuple, rows)) for rows in values.values() if rows))
    return {
        "help": pages,
        "offers": {path: _offers(group, path.split()) for path in paths},
        "values": {key: lists.index(tuple(map(tuple, rows))) if rows else PLANS for key, rows in values.items()},
        "lists": lists,
    }


def _command_paths(group: Any, above: str) -> Iterator[str]:
    for name, command in group.commands.items():
        path = f"{above} {name}".strip()
        yield path
        if hasattr(command, "commands"):
            yield from _command_paths(command, path)


def _help_page(group: Any, words: list[str]) -> str:
    from context_engine.cli.help_pages import render_help

    context = group.make_context("ctx", [], resilient_parsing=True)
    command = group
    for word in words:
        command = command.commands[word]
        context = command.make_context(word, [], parent=context, resilient_parsing=True)
    return render_help(command, context)


def _offers(group: Any, words: list[str]) -> list[list[str]]:
    """Return (word, meaning) for every command and option that may follow a path."""
    zsh = _zsh(group)
    names = getattr(_find(group, words), "commands", {})
    items = [item for item in zsh.get_completions(words, "") if item.value in names]
    return _rows(group, items + sorted(zsh.get_completions(words, "-"), key=lambda item: HELP.get(item.value, 0)))


def _values(group: Any, paths: Iterable[str]) -> dict[str, list[list[str]]]:
    """Return (word, meaning) for the first argument and the options of each command that has completions.

    What is completed from the work tree, which is the names of plans, has no rows in an empty folder.
    """
    found = {}
    with TemporaryDirectory() as empty, chdir(empty):
        for path in paths:
            command = _find(group, path.split())
            if hasattr(command, "commands"):
                continue
            context = command.make_context("ctx", [], resilient_parsing=True)
            for parameter in reversed(command.get_params(context)):
                is_argument = parameter.param_type_name == "argument"
                names = [""] if is_argument else [f" {name}" for name in parameter.opts if not parameter.is_flag]
                for key in (path + name for name in names):
                    items = [item for item in _zsh(group).get_completions(key.split(), "") if item.type == "plain"]
                    if parameter._custom_shell_complete or any(item.value for item in items):
                        found[key] = _rows(group, items)
    return found


def _rows(group: Any, items: Iterable[Any]) -> list[list[str]]:
    """Return the word and the plain meaning of each item, on one line: the library breaks lines after 80 columns."""
    from typer._completion_classes import FishComplete

    fish = FishComplete(group, {}, "ctx", "_CTX_COMPLETE")
    rows = []
    for item in items:
        word, _, meaning = fish.format_completion(item).partition("\t")
        if word:
            rows.append([word, " ".join(meaning.split())])
    return rows


def _zsh(group: Any) -> Any:
    from typer._completion_classes import ZshComplete

    return ZshComplete(group, {}, "ctx", "_CTX_COMPLETE")


def _find(group: Any, words: list[str]) -> Any:
    for word in words:
        group = group.commands[word]
    return group


def format_pages(pages: dict[str, Any]) -> str:
    """Return the text of the file."""
    return json.dumps(pages, ensure_ascii=False, indent=0, sort_keys=True) + "\n"


def format_text(pages: dict[str, str]) -> str:
    """Return all help pages as one text."""
    parts = [f"$ ctx {path} --help".replace("  ", " ") + f"\n\n{STYLES.sub('', page)}" for path, page in pages.items()]
    return f"{RULE}\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    written = build_pages()
    FILE.write_text(format_pages(written), encoding="utf-8")
    TEXT_FILE.write_text(format_text(written["help"]), encoding="utf-8")
