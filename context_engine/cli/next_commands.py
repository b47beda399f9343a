"""Errors in the words of the terminal: next steps name the commands and options of `ctx`, not tools."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict

from context_engine import tools
from context_engine.errors import ContextEngineError, NextStep

TOOL_COMMANDS = {
    "add_memory": "ctx memory add",
    "compare_plan_versions": "ctx plan diff",
    "create_plan": "ctx plan create",
    "explain": "ctx why",
    "history": "ctx history",
    "delete_memory": "ctx memory delete",
    "get_context": "ctx context",
    "index_status": "ctx status",
    "index_workspace": "ctx index",
    "list_directory": "ctx read .",
    "list_memories": "ctx memory list",
    "list_plans": "ctx plan list",
    "load_plan": "ctx plan show",
    "reindex_workspace": "ctx index --force",
    "respond_approval": "ctx plan approve",
    "review_git_diff": "ctx review",
    "search_code": "ctx search",
    "search_memory": "ctx memory search",
    "symbols": "ctx symbol",
    "trace": "ctx trace",
    "undo_edit": "ctx undo",
    "update_memory": "ctx memory edit",
    "view_history": "ctx plan history",
    "view_progress": "ctx plan progress",
}
"""The command that does the work of a tool. The options have the names of the arguments."""
ARGUMENT_OPTIONS = {
    "chunk_types": "--kind",
    "exclude_paths": "--exclude",
    "expires_at": "--expires",
    "include_paths": "--include",
    "languages": "--lang",
    "linked_files": "--file",
    "relation": "--direction",
    "tags": "--tag",
}
"""The option that passes an argument of a tool, where the two have different names."""
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
    "… there is more: lower depth, or ask for one of the steps above.": "there is more: raise -n, or lower --depth",
    "the receiver is unknown; possible: true": "the receiver is unknown; --possible lists them",
    "… there are more: raise limit": "there are more: raise -n",
    "type all": "--type all",
    "status all shows": "--status all shows",
}
"""Phrases of tools that name an argument, in the words of the terminal."""
_LISTING = re.compile("list_directory '([^']*)'")
_OWN_WORD = re.compile(r"(?<![\w`/.])[a-z]+(?:_[a-z]+)+(?![\w`/(]|\.\w)")
"""A possible name of a tool: words joined by `_`, outside of backquotes and paths."""
COMMAND_NAMES = frozenset({"ctx", "git", "pip", "uv"})
"""Words that keep their lower case at the start of a sentence."""


def format_error(error: ContextEngineError) -> tuple[str, str]:
    """Return two lines: the problem, and the next step."""
    argument = str(error.details.get("argument", ""))
    message = error.message.rstrip(".")
    if argument in ARGUMENT_OPTIONS and message.startswith(argument):
        message = ARGUMENT_OPTIONS[argument] + message.removeprefix(argument)
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

    def command(found: re.Match[str]) -> str:
        name = found[0]
        if name not in TOOL_COMMANDS and name not in tools.list_names():
            return name
        return f"`{TOOL_COMMANDS.get(name, f'ctx call {name}')}`"

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
    words = [TOOL_COMMANDS.get(step.tool, f"ctx call {step.tool}")]
    if step.tool in TOOL_COMMANDS:
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
