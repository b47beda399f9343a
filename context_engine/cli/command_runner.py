"""Runs a command line to its exit code: safe streams, errors with a next step, interrupts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from context_engine.cli.global_options import VERBOSE
from context_engine.cli.screens import Screen, process_screen, safe_streams
from context_engine.errors import AccessFailed, BugError, ContextEngineError, InvalidArgument, SymbolNotFound
from context_engine.text import compact_json

NOTHING_FOUND = 1
"""As with grep, an empty answer, or the answer no."""
FAILED = 2
"""As with grep, an error: wrong usage, or something that could not be done."""
FINDINGS = 3
"""A review found what `--fail-on` names."""
INTERRUPTED = 130
"""The exit code that shells report for a program that Ctrl-C ended."""
JSON_OPTION = "--json"
"""With it errors are JSON, too."""


def run_to_exit_code(work: Callable[[], Any]) -> int:
    """Do the work and return its exit code; errors are shown with a next step."""
    began_s = perf_counter()
    with safe_streams():
        try:
            code = work()
        except SystemExit as leaving:
            code = leaving.code
        except KeyboardInterrupt:
            code = INTERRUPTED
        except BrokenPipeError:
            code = ignore_broken_pipe()
        except Exception as error:
            if type(error).__name__ == "Abort":  # the interrupt of typer, which is not imported here
                return INTERRUPTED
            if os.environ.get("CTX_DEBUG"):
                raise
            code = report_failure(error, process_screen(), as_json=JSON_OPTION in sys.argv)
    if os.environ.get(VERBOSE):
        sys.stderr.write(f"answered by this process in {perf_counter() - began_s:.3f} s\n")
    return code if isinstance(code, int) else int(code is not None)


def ignore_broken_pipe() -> int:
    """Let nothing more reach a pipe that is not read any more, as in `ctx search x | head -1`; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the end of Python would complain
    return 0


def report_failure(error: Exception, screen: Screen, *, as_json: bool = False) -> int:
    """Show an error, and return the exit code: 1 for a symbol that does not exist, else 2."""
    format_message = getattr(error, "format_message", None)
    if type(error).__name__ == "NoArgsIsHelpError" and format_message:  # its message is the help of the group
        sys.stdout.write(format_message() + "\n")
        return 0
    if callable(format_message):  # wrong usage: the method that every release of typer's copy of click has
        known: ContextEngineError = describe_usage_error(error)
    else:
        known = error if isinstance(error, ContextEngineError) else _describe_defect(error)
    show_error(known, screen, as_json=as_json)
    return NOTHING_FOUND if isinstance(known, SymbolNotFound) else FAILED


def show_error(error: ContextEngineError, screen: Screen, *, as_json: bool = False) -> None:
    """Show the problem and the next step on stderr, or the error as JSON on stdout, as the tools write it."""
    from context_engine.cli.next_commands import format_error

    message, hint = format_error(error)
    if as_json:
        screen.out.write(compact_json({"error": error.as_dict() | {"suggestion": hint}}))
        return
    screen.err.show(("error:", "red"), f" {message}")
    if hint:
        screen.err.show(("hint:", "cyan"), f" {hint}")


def _describe_defect(error: Exception) -> ContextEngineError:
    """Return the error for an unexpected exception: one of the system that names a file, else a bug of ctx."""
    if isinstance(error, FileNotFoundError) and not _has_folder():
        step = "Change to one that exists, or name it: `ctx -C DIR ...`."
        return AccessFailed("the current folder was deleted", suggestion=step)
    if isinstance(error, OSError) and error.filename and error.strerror:
        step = "Check that it exists and that you may use it, then run the command again."
        return AccessFailed(f"{os.fsdecode(error.filename)}: {error.strerror}", suggestion=step)
    step = "Run it again as `ctx --debug ...` and report what it prints."
    return BugError(f"ctx has a bug: {type(error).__name__}: {error}", suggestion=step)


def _has_folder() -> bool:
    """Return whether the current folder exists."""
    try:
        return bool(os.getcwd())  # noqa: PTH109 - pathlib is slow to import
    except OSError:
        return False


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
    **dict.fromkeys(("--files-with-matches", "--name-only", "--files"), "-l"),
    **dict.fromkeys(("--output", "--format=json"), "--json"),
    "--since": "--days",
}
"""Options of grep, rg and the tools of agents; those that a command has are offered."""


def describe_usage_error(error: Any) -> InvalidArgument:
    """Return what is wrong with the command line, and a command that helps."""
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", None) or "ctx"
    command = getattr(error, "cmd", None) or getattr(context, "command", None)
    kind, message = type(error).__name__, error.format_message().rstrip(".")
    hint = f"`{path} --help` shows what it takes."
    near: list[str] = []
    if kind == "NoSuchOption":
        message = f"{path} has no option {error.option_name}"
        other = OTHER_OPTIONS.get(error.option_name, "")
        known = [name for parameter in (command.get_params(context) if command else ()) for name in parameter.opts]
        near = [other] if other in known else sorted(getattr(error, "possibilities", None) or ())
    elif kind == "MissingParameter":
        message = f"{_name_parameter(error)} is missing"
        _, _, example = (getattr(command, "help", None) or "").partition(EXAMPLE_MARK)
        hint = f"For example: `ctx {example.partition('`')[0]}`." if example else hint
    elif kind == "BadOptionUsage" and " requires an argument" in error.message:
        message = f"{error.option_name} needs a value"
    elif kind == "BadParameter":
        message = f"{_name_parameter(error)} {_describe_value(error)}"
    elif message.startswith("No such command "):
        unknown, _, offers = message.removeprefix("No such command ").partition(". Did you mean ")
        other = OTHER_COMMANDS.get(path, {}).get(unknown.strip("'"))
        near = [other] if other else _QUOTED.findall(offers)
        message, hint = f"there is no command {unknown}", f"`{path} --help` lists the commands."
    elif message.startswith("Got unexpected extra argument"):
        extra = message.partition(" (")[2].removesuffix(")")
        message = f"{path} takes no further argument, but got: {extra}"
    if near:
        hint = f"Did you mean {' or '.join(f'`{path} {name}`' for name in near)}?"
    return InvalidArgument(message, suggestion=hint)


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
    if least is not None:
        return f"must be a number from {least:,} {'on' if most is None else f'to {most:,}'}"
    given, is_choice, words = message.removeprefix("Value error, ").partition(" is not one of ")
    if is_choice:
        return f"is {given}; it must be one of {words.replace(chr(39), '').rstrip('.')}"
    return f"is not valid: {message.rstrip('.')}"
