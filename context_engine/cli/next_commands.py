"""Errors in the words of the terminal: next steps name the commands and options of `ctx`, not tools."""

from __future__ import annotations

import json
from typing import Any

from context_engine.errors import ContextEngineError, NextStep

TOOL_COMMANDS = {
    "compare_plan_versions": "ctx plan diff",
    "create_plan": "ctx plan create",
    "explain": "ctx why",
    "history": "ctx history",
    "index_status": "ctx status",
    "index_workspace": "ctx index",
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
    "tags": "--tag",
}
"""The option that passes an argument of a tool, where the two have different names."""
COMMAND_NAMES = frozenset({"ctx", "git", "pip", "uv"})
"""Words that keep their lower case at the start of a sentence."""


def format_error(error: ContextEngineError) -> tuple[str, str]:
    """Return two lines: the problem, and the next step."""
    argument = str(error.details.get("argument", ""))
    message = error.message.rstrip(".")
    if argument in ARGUMENT_OPTIONS and message.startswith(argument):
        message = ARGUMENT_OPTIONS[argument] + message.removeprefix(argument)
    hint = error.format_suggestion(format_step)
    return " ".join(message.split()), " ".join(capitalize(hint).split())


def format_step(step: NextStep) -> str:
    r"""Return a next step in the words of the terminal: the command that does it, or `ctx call` for a tool without one.

    >>> format_step(NextStep("undo_edit", "to see what can be undone", {"list": True}))
    'Run `ctx undo --list` to see what can be undone.'
    >>> format_step(NextStep("fail_step", "to open it again", {"retry": True}))
    'Run `ctx call fail_step \'{"retry":true}\'` to open it again.'
    """
    command = TOOL_COMMANDS.get(step.tool)
    if command is None:
        if step.arguments:
            arguments = f" '{json.dumps(step.arguments, separators=(',', ':'))}'"
        else:
            arguments = ""
        command = f"ctx call {step.tool}{arguments}"
    else:
        command = " ".join([command, *(_format_option(name, value) for name, value in step.arguments.items())])
    return " ".join(filter(None, ["Run", f"`{command}`", step.purpose])) + "."


def _format_option(name: str, value: Any) -> str:
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return option
    return f"{option} {value}"


def capitalize(sentence: str) -> str:
    """Start a sentence with a capital letter, unless its first word is the name of a command or a tool.

    >>> capitalize("use other words"), capitalize("git branch lists them"), capitalize("list_plans shows all")
    ('Use other words', 'git branch lists them', 'list_plans shows all')
    """
    first = sentence.partition(" ")[0]
    is_name = first in COMMAND_NAMES or "_" in first
    if is_name:
        return sentence
    return sentence[:1].upper() + sentence[1:]
