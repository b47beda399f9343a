"""Errors in the words of the terminal: next steps name the commands and options of `ctx`, not tools."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from context_engine import tools
from context_engine.errors import ContextEngineError, NextStep

OTHER_COMMANDS = {
    "index_workspace": "ctx index",
    "list_directory": "ctx read .",
    "reindex_workspace": "ctx index --force",
    "respond_approval": "ctx plan approve",
    "review_git_diff": "ctx review",
}
"""The commands that do the work of a tool and are not made from it."""
AMBIGUOUS = frozenset({"limit", "path", "steps"})
"""Arguments of several tools, of which not all have the same option."""
TERMINAL_HINTS = (
    ("INVALID_LINE_RANGE", "are not in", "`ctx read {path}:1-{lines}` shows all lines."),
    ("ACCESS_DENIED", "git's own folder", "Ask git: `git log` or `git config --list`."),
    ("BINARY_FILE", "is not text", "`ctx why {path}` says how it is treated."),
    ("GIT_UNAVAILABLE", "is not in a git repository", "Name a folder in one: `ctx -C DIR review`."),
    (
        "UNSUITABLE_ROOT",
        "is the root of the disk",
        "Name the folder of a project: `ctx -C DIR ...`, --root DIR or CTX_ROOT.",
    ),
)
"""Code, part of the message, and the hint of the terminal, with the error's details."""
PHRASES = {
    "type all": "--type all",
    "status all shows": "--status all shows",
}
"""Phrases of tools that name an argument, in the words of the terminal."""
_LISTING = re.compile("list_directory '([^']*)'")
_OWN_WORD = re.compile(r"(?<![\w`/.])[a-z]+(?:_[a-z]+)+(?![\w`/(]|\.\w)")
"""A possible name of a tool: words joined by `_`, outside of backquotes and paths."""
COMMAND_NAMES = frozenset({"ctx", "git", "pip", "uv"})
"""Words that keep their lower case at the start of a sentence."""


@cache
def _read_table() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the command of each tool that has one, and the option of each argument that has another name there."""
    from context_engine.cli.command_table import GROUPS  # whose views name commands themselves

    rows = [(f"{group} {name}", command) for group, table in GROUPS.items() for name, command in table.items()]
    commands = {command.tool: words for words, command in reversed(rows)}  # the first is the main one
    passed = {(name, words.split()[-1]) for _, command in rows for name, words in command.options.items() if words}
    return commands | OTHER_COMMANDS, {name: option for name, option in passed if name not in AMBIGUOUS}


def format_error(error: ContextEngineError) -> tuple[str, str]:
    """Return two lines: the problem, and the next step."""
    argument = str(error.details.get("argument", ""))
    message = error.message.rstrip(".")
    _, options = _read_table()
    if argument in options and message.startswith(argument):
        message = options[argument] + message.removeprefix(argument)
    hint = name_commands(error.format_suggestion(format_step))
    for code, part, words in TERMINAL_HINTS:  # the advice of these errors is meant for agents
        if error.code == code and part in error.message:
            hint = words.format_map(defaultdict(str, error.details))
    hint = " ".join(capitalize(hint).split())
    if hint[-1:].isalnum():
        hint += "."
    return " ".join(message.split()), hint


def name_commands(text: str) -> str:
    """Replace the names of tools in a text by the commands that do their work.

    >>> name_commands("add_memory adds one; search_text finds its places")
    '`ctx memory add` adds one; `ctx call search_text` finds its places'
    """
    commands, _ = _read_table()

    def command(found: re.Match[str]) -> str:
        name = found[0]
        if name not in commands and name not in tools.list_names():
            return name
        return f"`{commands.get(name, f'ctx call {name}')}`"

    for phrase, words in PHRASES.items():
        text = text.replace(phrase, words)
    listed = _LISTING.sub(lambda found: f"`ctx read {shlex.quote(found[1])}`", text)
    return _OWN_WORD.sub(command, listed)


def format_step(step: NextStep) -> str:
    r"""Return a next step in the words of the terminal: the command that does it, or `ctx call` for a tool without one.

    >>> format_step(NextStep("undo_edit", "to see what can be undone", {"list": True}))
    'Run `ctx undo --list` to see what can be undone.'
    >>> format_step(NextStep("fail_step", "to open it again", {"retry": True}))
    'Run `ctx call fail_step \'{"retry":true}\'` to open it again.'
    """
    commands, _ = _read_table()
    words = [commands.get(step.tool, f"ctx call {step.tool}")]
    if step.tool in commands:
        for name, value in step.arguments.items():
            words.append(f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}")
    elif step.arguments:
        words.append(f"'{json.dumps(step.arguments, separators=(',', ':'))}'")
    return " ".join(filter(None, ["Run", f"`{' '.join(words)}`", step.purpose])) + "."


def capitalize(sentence: str) -> str:
    """Start a sentence with a capital letter, unless its first word is the name of a command or a tool.

    >>> capitalize("use other words"), capitalize("git branch lists them"), capitalize("list_plans shows all")
    ('Use other words', 'git branch lists them', 'list_plans shows all')
    """
    first = sentence.partition(" ")[0]
    is_name = first in COMMAND_NAMES or "_" in first
    return sentence if is_name else sentence[:1].upper() + sentence[1:]
