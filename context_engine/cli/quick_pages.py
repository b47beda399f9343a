"""`--help` and Tab without their imports: pages and words that were generated for this release.

Each function returns None for everything that the pages do not hold, such as another width, a value of an option or a
quoted word; the full program answers then.
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
COLUMNS = 80
"""The width of the pages; wider terminals show them as they are."""
STYLES = re.compile(r"\x1b\[[0-9;]*m")
OTHER_LOOKS = (
    "FORCE_COLOR",
    "NO_COLOR",
    "PY_COLORS",
    "GITHUB_ACTIONS",
    "TERMINAL_WIDTH",
    "TTY_COMPATIBLE",
    "CTX_DEBUG",
)
"""With one of these variables a page may look different."""
COMPLETION = "_CTX_COMPLETE"
QUOTES = ("'", '"', "\\")


def find_page(argv: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Return the help of a command as this terminal or pipe shows it."""
    if argv[-1:] not in ([HELP[0]], [HELP[1]]) or any(name in env for name in OTHER_LOOKS) or COMPLETION in env:
        return None
    is_terminal = sys.stdout.isatty()
    if not _is_wide_enough(env, is_terminal=is_terminal) or (sys.stdout.encoding or "").lower() != "utf-8":
        return None
    page = read_pages()["help"].get(" ".join(argv[:-1]))
    if page is None or is_terminal:
        return page
    return STYLES.sub("", page)


def _is_wide_enough(env: Mapping[str, str], *, is_terminal: bool) -> bool:
    given = env.get("COLUMNS", "")
    if not is_terminal:
        return given in ("", str(COLUMNS))
    if env.get("TERM", "dumb") in ("dumb", "unknown"):
        return False
    return (int(given) if given.isdecimal() else os.get_terminal_size(sys.stdout.fileno()).columns) >= COLUMNS


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
        if before and not words.endswith(" "):
            incomplete = before.pop()
        else:
            incomplete = ""
    else:
        return None
    offers = read_pages()["offers"].get(" ".join(before))
    if offers is None or any(quote in words for quote in QUOTES):
        return None
    column = {"complete_bash": 0, "complete_zsh": 1, "complete_fish": 2}[kind]
    wants_options = incomplete.startswith("-")
    found = [row[column] for row in offers if row[0].startswith(incomplete) and row[0].startswith("-") == wants_options]
    if not found:
        return None
    listed = "\n".join(found)
    return (f"_arguments '*: :(({listed}))'" if kind == "complete_zsh" else listed) + "\n"


def read_pages() -> dict[str, Any]:
    """Return the help pages and the offers, both by the path of a command."""
    with open(PAGES_FILE, encoding="utf-8") as file:
        return json.load(file)
