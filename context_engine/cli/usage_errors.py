"""Wrong usage, which the library of the command line reports, as an error with a next step that one can paste."""

from __future__ import annotations

import re
from typing import Any

from context_engine.errors import InvalidArgument

_QUOTED = re.compile("'([^']+)'")
EXAMPLE_MARK = "- `ctx "
OTHER_COMMANDS = {
    "ctx": {
        **dict.fromkeys(("grep", "rg", "find", "query", "ask"), "search"),
        **dict.fromkeys(("cat", "show", "open", "view", "ls", "tree"), "read"),
        **dict.fromkeys(("def", "definition", "goto"), "symbol"),
        **dict.fromkeys(("callers", "callees", "refs", "references", "usages"), "trace"),
        **dict.fromkeys(("init", "update", "rebuild", "sync"), "index"),
        **dict.fromkeys(("install", "add", "mcp"), "setup"),
        **dict.fromkeys(("start", "run"), "serve"),
        **dict.fromkeys(("blame", "log"), "history"),
        **dict.fromkeys(("diff", "lint", "check"), "review"),
        "revert": "undo",
    },
    "ctx daemon": {"start": "run", "restart": "stop", "kill": "stop"},
    "ctx memory": {"remove": "delete", "rm": "delete", "update": "edit", "get": "show", "create": "add"},
    "ctx plan": {"new": "create", "add": "create", "get": "show", "rm": "delete", "remove": "delete"},
    "ctx token": {"add": "create", "new": "create", "delete": "revoke", "remove": "revoke"},
    "ctx workspace": {"create": "add", "new": "add", "rm": "remove", "delete": "remove"},
}
"""Names that other tools have for a command, in the group it is in here."""
OTHER_OPTIONS = {
    **dict.fromkeys(("--max-results", "--max-count", "--top-k", "--count", "-m", "-k"), "--limit"),
    **dict.fromkeys(("--type", "--language", "-t"), "--lang"),
    **dict.fromkeys(("--glob", "--path", "-g"), "--include"),
    **dict.fromkeys(("--files-with-matches", "--name-only"), "-l"),
    **dict.fromkeys(("--output", "--format=json"), "--json"),
    "--since": "--days",
}
"""Options of grep, rg and the tools of agents; those that a command has are offered."""


def describe_usage_error(error: Any) -> InvalidArgument:
    """Return what is wrong with the command line, and a command that helps."""
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", None) or "ctx"
    command = getattr(error, "cmd", None) or getattr(context, "command", None)
    help_step = f"`{path} --help` shows what it takes."
    kind = type(error).__name__
    if kind == "NoSuchOption":
        near = _known_options(command, error.option_name) or sorted(getattr(error, "possibilities", None) or ())
        hint = f"Did you mean {' or '.join(f'`{path} {option}`' for option in near)}?" if near else help_step
        return InvalidArgument(f"{path} has no option {error.option_name}", suggestion=hint)
    if kind == "MissingParameter":
        return InvalidArgument(f"{_name_parameter(error)} is missing", suggestion=_show_example(command) or help_step)
    if kind == "BadOptionUsage" and " requires an argument" in error.message:
        return InvalidArgument(f"{error.option_name} needs a value", suggestion=help_step)
    if kind == "BadParameter":
        return InvalidArgument(f"{_name_parameter(error)} {_describe_value(error)}", suggestion=help_step)
    message = error.format_message().rstrip(".")
    if message.startswith("No such command "):
        unknown, _, offers = message.removeprefix("No such command ").partition(". Did you mean ")
        other = OTHER_COMMANDS.get(path, {}).get(unknown.strip("'"))
        near = [f"`{path} {name}`" for name in ([other] if other else _QUOTED.findall(offers))]
        hint = f"Did you mean {' or '.join(near)}?" if near else f"`{path} --help` lists the commands."
        return InvalidArgument(f"there is no command {unknown}", suggestion=hint)
    if message.startswith("Got unexpected extra argument"):
        extra = message.partition(" (")[2].removesuffix(")")
        return InvalidArgument(f"{path} takes no further argument, but got: {extra}", suggestion=help_step)
    return InvalidArgument(message, suggestion=help_step)


def _known_options(command: Any, unknown: str) -> list[str]:
    """Return the option of a command that other tools give the unknown name."""
    other = OTHER_OPTIONS.get(unknown, "")
    listed = [name for parameter in getattr(command, "params", ()) for name in parameter.opts]
    return [other] if other in listed else []


def _name_parameter(error: Any) -> str:
    """Return the name of a parameter as the help page writes it."""
    parameter = getattr(error, "param", None)
    if parameter is None:
        return str(getattr(error, "param_hint", None) or "the argument").strip("'")
    if parameter.param_type_name == "option":
        return max(parameter.opts, key=len)
    return (parameter.metavar or parameter.name.upper()).strip("[].")


def _describe_value(error: Any) -> str:
    """Return which values a parameter takes; the wording of the library differs from release to release."""
    parameter, message = getattr(error, "param", None), error.message
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if least is not None and most is not None:
        return f"must be a number from {least:,} to {most:,}"
    if least is not None:
        return f"must be a number from {least:,} on"
    given, is_choice, words = message.removeprefix("Value error, ").partition(" is not one of ")
    if is_choice:
        return f"is {given}; it must be one of {words.replace(chr(39), '').rstrip('.')}"
    return f"is not valid: {message.rstrip('.')}"


def _show_example(command: Any) -> str:
    """Return the first example of a command's help as a hint."""
    _, is_there, rest = (getattr(command, "help", None) or "").partition(EXAMPLE_MARK)
    if is_there:
        return f"For example: `ctx {rest.partition('`')[0]}`."
    return ""
