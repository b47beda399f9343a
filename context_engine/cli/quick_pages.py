"""`--help` and Tab without their imports: pages and words that were generated for this release.

Each function returns None for everything that the pages do not hold, such as a second argument or a quoted word; the
full program answers then.
"""

from __future__ import annotations

import json
import os
import re
import sys

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PAGES_FILE = os.path.join(os.path.dirname(__file__), "command_pages.json")
HELP = ("--help", "-h")
STYLES = re.compile(r"\x1b\[[0-9;]*m")
COMPLETION = "_CTX_COMPLETE"
QUOTES = ("'", '"', "\\")
ZSH_ESCAPES = {'"': '""', "'": "''", "$": "\\$", "`": "\\`", ":": "\\\\:"}
PLANS = "plans"


def find_page(argv: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Return the help of a command as this terminal or pipe shows it; `ctx` alone asks for help, too."""
    if COMPLETION in env or (argv and argv[-1] not in HELP):
        return None
    page = read_pages()["help"].get(" ".join(argv[:-1]))
    if page is None:
        return None
    return style_page(page, env)


def style_page(page: str, env: Mapping[str, str]) -> str:
    """Return a page with its styles where they are shown: on a terminal, and where the user forces them."""
    is_forced = bool(env.get("FORCE_COLOR"))
    is_plain = bool(env.get("NO_COLOR")) or env.get("TERM", "dumb") in ("dumb", "unknown")
    if is_forced or (sys.stdout.isatty() and not is_plain):
        return page
    return STYLES.sub("", page)


def find_offers(env: Mapping[str, str]) -> str | None:
    """Return the words that may follow a command line, as the completion script of a shell expects them."""
    kind = env.get(COMPLETION, "")
    if kind == "complete_bash":
        words, number = env.get("COMP_WORDS", ""), env.get("COMP_CWORD", "")
        split = words.split()
        if not number.isdecimal() or int(number) > len(split):
            return None
        before, incomplete = split[1 : int(number)], "".join(split[int(number) : int(number) + 1])
    elif kind == "complete_zsh" or (kind == "complete_fish" and env.get("_TYPER_COMPLETE_FISH_ACTION") == "get-args"):
        words = env.get("_TYPER_COMPLETE_ARGS", "")
        before = words.split()[1:]
        incomplete = ""
        if before and not words.endswith(" "):
            incomplete = before.pop()
    else:
        return None
    if any(quote in words for quote in QUOTES):
        return None
    offers, are_values = _list_offers(before)
    wants_options = incomplete.startswith("-")
    found = [
        format_offer(kind, word, meaning)
        for word, meaning in offers
        if word.startswith(incomplete) and word.startswith("-") == wants_options
    ]
    is_zsh = kind == "complete_zsh"
    if not found:
        is_final = are_values and not wants_options and "," not in incomplete  # after a comma comes another value
        if is_final:
            return "_files\n" if is_zsh else "\n"
        return None
    listed = "\n".join(found)
    return (f"_arguments '*: :(({listed}))'" if is_zsh else listed) + "\n"


def _list_offers(before: Sequence[str]) -> tuple[Sequence[Sequence[str]], bool]:
    """Return (word, meaning) of what may follow a command or an option, and whether that includes all its values."""
    pages = read_pages()
    path = " ".join(before)
    options = pages["offers"].get(path, [])
    if not options and "--" not in before:  # an option behind other words: its command is the longest path before it
        paths = (" ".join(before[:end]) for end in range(len(before) - 1, 0, -1))
        path = next((f"{path} {before[-1]}" for path in paths if path in pages["offers"]), path)
    values = pages["values"].get(path)
    if values is None:
        return options, False
    if values != PLANS:
        return [*pages["lists"][values], *options], True
    from context_engine.cli.shell_completion import complete_plans

    plans = [(word, " ".join(name.split())) for word, name in complete_plans("")]
    if any("[" in name for _, name in plans):  # the library reads it as a style
        return (), False
    return [*plans, *options], True


def format_offer(kind: str, word: str, meaning: str) -> str:
    r"""Return the line of a shell for one word.

    >>> print(format_offer("complete_zsh", "trace", "The word's callers: all"))
    "trace":"The word''s callers\\: all"
    """
    if kind == "complete_bash":
        return word
    if kind == "complete_fish":
        return f"{word}\t{meaning}" if meaning else word
    return ":".join(f'"{_escape_zsh(text)}"' for text in (word, meaning) if text)


def _escape_zsh(text: str) -> str:
    for character, escaped in ZSH_ESCAPES.items():
        text = text.replace(character, escaped)
    return text


def read_pages() -> dict[str, Any]:
    """Return the help pages and the offers by the path of a command, and what completes its first argument and options.

    The last is the number of one of the `lists`, or `plans`: their names are read when they are wanted.
    """
    with open(PAGES_FILE, encoding="utf-8") as file:
        return json.load(file)
