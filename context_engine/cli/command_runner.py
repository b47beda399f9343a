"""Runs a command line to its exit code: safe streams, errors with a next step, interrupts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from context_engine.cli.exit_codes import FAILED, INTERRUPTED, NOTHING_FOUND
from context_engine.cli.global_options import VERBOSE
from context_engine.cli.screens import Screen, one_line, process_screen
from context_engine.cli.terminal import safe_streams
from context_engine.errors import AccessFailed, BugError, ContextEngineError, SymbolNotFound
from context_engine.text import compact_json

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
            code = report_failure(error, process_screen(os.environ), as_json=JSON_OPTION in sys.argv)
    if os.environ.get(VERBOSE):
        sys.stderr.write(f"answered by this process in {perf_counter() - began_s:.3f} s\n")
    if isinstance(code, int):
        return code
    return int(code is not None)


def ignore_broken_pipe() -> int:
    """Let nothing more reach a pipe that is not read any more, as in `ctx search x | head -1`; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the end of Python would complain
    return 0


def report_failure(error: Exception, screen: Screen, *, as_json: bool = False) -> int:
    """Show an error, and return the exit code: 1 for a symbol that does not exist, else 2."""
    format_message = getattr(error, "format_message", None)
    if callable(format_message):  # wrong usage: the method that every release of typer's copy of click has
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help of the group
            sys.stdout.write(format_message() + "\n")
            return 0
        from context_engine.cli.usage_errors import describe_usage_error

        show_error(describe_usage_error(error), screen, as_json=as_json)
        return FAILED
    known = error if isinstance(error, ContextEngineError) else _describe_defect(error)
    show_error(known, screen, as_json=as_json)
    if isinstance(known, SymbolNotFound):
        return NOTHING_FOUND
    return FAILED


def show_error(error: ContextEngineError, screen: Screen, *, as_json: bool = False) -> None:
    """Show the problem and the next step on stderr, or the error as JSON on stdout, as the tools write it."""
    from context_engine.cli.next_commands import format_error

    message, hint = format_error(error)
    if as_json:
        screen.out.write(compact_json({"error": error.as_dict() | {"suggestion": hint}}))
        return
    screen.err.show(("error:", "red"), f" {one_line(message)}")
    if hint:
        screen.err.show(("hint:", "cyan"), f" {one_line(hint)}")


def _has_folder() -> bool:
    """Return whether the current folder exists."""
    try:
        return bool(os.getcwd())  # noqa: PTH109 - pathlib is slow to import
    except OSError:
        return False


def _describe_defect(error: Exception) -> ContextEngineError:
    """Return the error for an unexpected exception: one of the system that names a file, else a bug of ctx."""
    if isinstance(error, FileNotFoundError) and not _has_folder():
        return AccessFailed(
            "the current folder was deleted",
            suggestion="Change to one that exists, or name it: `ctx -C DIR ...`.",
        )
    if isinstance(error, OSError) and error.filename and error.strerror:
        return AccessFailed(
            f"{os.fsdecode(error.filename)}: {error.strerror}",
            suggestion="Check that it exists and that you may use it, then run the command again.",
        )
    return BugError(
        f"ctx has a bug: {type(error).__name__}: {error}",
        suggestion="Run it again as `ctx --debug ...` and report what it prints.",
    )
