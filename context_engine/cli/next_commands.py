"""Errors and advice in the words of the terminal: commands and options of `ctx` in place of tools and arguments.

A tool writes the name of a tool as it is, and that of an argument in backquotes, perhaps with a value: `status: all`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache

from context_engine import tools
from context_engine.errors import NO_ARGUMENTS, ContextEngineError, NextStep

OTHER_COMMANDS = {
    "index_workspace": "ctx index",
    "list_directory": "ctx read .",
    "reindex_workspace": "ctx index --force",
    "respond_approval": "ctx plan approve",
    "review_git_diff": "ctx review",
}
"""The commands that do the work of a tool and are not made from it."""
_LISTING = re.compile("list_directory '([^']*)'")
_ARGUMENT = re.compile(r"`(\w+)(?:: ([^`]+))?`")
_OWN_WORD = re.compile(r"(?<![\w`/.])[a-z]+(?:_[a-z]+)+(?![\w`/(]|\.\w)")
"""A possible name of a tool: words joined by `_`, outside of backquotes and paths."""
COMMAND_NAMES = frozenset({"ctx", "git", "pip", "uv"})
"""Words that keep their lower case at the start of a sentence."""


@cache
def _read_table() -> Mapping[str, str]:
    """Return the command of each tool that has one."""
    from context_engine.cli.command_table import GROUPS  # whose views name commands themselves

    rows = [(f"{group} {name}", command) for group, table in GROUPS.items() for name, command in table.items()]
    return {command.tool: words for words, command in reversed(rows)} | OTHER_COMMANDS  # the first is the main one


def format_error(error: ContextEngineError) -> tuple[str, str]:
    """Return two lines: the problem, and the next step."""
    hint = " ".join(capitalize(name_commands(error.format_suggestion(format_step))).split())
    if hint[-1:].isalnum():
        hint += "."
    return " ".join(error.message.rstrip(".").split()), hint


@contextmanager
def name_in_errors(options: Mapping[str, str]) -> Generator[None]:
    """Let the errors of a block name the options of a command instead of the arguments of its tool."""
    try:
        yield
    except ContextEngineError as error:
        argument = str(error.details.get("argument", ""))
        if argument in options and error.message.startswith(argument):
            error.message = options[argument] + error.message.removeprefix(argument)
        error.advice = name_commands(error.advice, options)
        raise


def name_commands(text: str, options: Mapping[str, str] = NO_ARGUMENTS) -> str:
    """Replace the names of tools in a text by the commands that do their work, and arguments by options.

    >>> name_commands("add_memory adds one; search_text finds its places")
    '`ctx memory add` adds one; `ctx call search_text` finds its places'
    >>> name_commands("raise `limit`; `status: all` shows them", {"limit": "--limit", "status": "--status"})
    'raise `--limit`; `--status all` shows them'
    """
    commands = _read_table()

    def option(found: re.Match[str]) -> str:
        name, value = found.groups("")
        words = f"{options.get(name)} {value.removeprefix('true')}".strip()
        return f"`{words}`" if name in options else found[0]

    def command(found: re.Match[str]) -> str:
        name = found[0]
        if name not in commands and name not in tools.list_names():
            return name
        return f"`{commands.get(name, f'ctx call {name}')}`"

    listed = _LISTING.sub(lambda found: f"`ctx read {shlex.quote(found[1])}`", _ARGUMENT.sub(option, text))
    return _OWN_WORD.sub(command, listed)


def format_step(step: NextStep) -> str:
    r"""Return a next step in the words of the terminal: the command that does it, or `ctx call` for a tool without one.

    >>> format_step(NextStep("undo_edit", "to see what can be undone", {"list": True}))
    'Run `ctx undo --list` to see what can be undone.'
    >>> format_step(NextStep("fail_step", "to open it again", {"retry": True}))
    'Run `ctx call fail_step \'{"retry":true}\'` to open it again.'
    """
    commands = _read_table()
    words = [commands.get(step.tool, f"ctx call {step.tool}")]
    if step.tool in commands:
        for name, value in step.arguments.items():
            words.append(f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}")
    elif step.arguments:
        words.append(f"'{json.dumps(step.arguments, separators=(',', ':'))}'")
    return " ".join(filter(None, ["Run", f"`{' '.join(words)}`", step.purpose])) + "."


def capitalize(sentence: str) -> str:
    """Start a sentence with a capital letter, unless its first word is the name of a command.

    >>> capitalize("use other words"), capitalize("git branch lists them")
    ('Use other words', 'git branch lists them')
    """
    is_name = sentence.partition(" ")[0] in COMMAND_NAMES
    return sentence if is_name else sentence[:1].upper() + sentence[1:]
