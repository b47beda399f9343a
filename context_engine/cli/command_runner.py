"""Runs a command line to its exit code: safe streams, errors in one line, interrupts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from context_engine.cli.exit_codes import INTERRUPTED, WRONG_USAGE
from context_engine.cli.screens import Screen, one_line, process_screen
from context_engine.cli.terminal import safe_streams
from context_engine.errors import AccessFailed, BugError, ContextEngineError, InvalidArgument


def run_to_exit_code(work: Callable[[], Any]) -> int:
    """Do the work and return its exit code; errors are shown in one line."""
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
            code = report_failure(error, process_screen(os.environ))
    if isinstance(code, int):
        return code
    return int(code is not None)


def ignore_broken_pipe() -> int:
    """Let nothing more reach a pipe that is not read any more, as in `ctx search x | head -1`; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the end of Python would complain
    return 1


def report_failure(error: Exception, screen: Screen) -> int:
    """Show one line about an error and return the exit code."""
    format_message = getattr(error, "format_message", None)
    if callable(format_message):  # wrong usage: the method that every release of typer's copy of click has
        if type(error).__name__ != "NoArgsIsHelpError":  # its help is already printed
            command = getattr(getattr(error, "ctx", None), "command_path", "ctx")
            wrong = InvalidArgument(str(format_message()), suggestion=f"{command} --help shows what it takes.")
            _show_error(wrong, screen)
        return WRONG_USAGE
    _show_error(error if isinstance(error, ContextEngineError) else _describe_defect(error), screen)
    return 1


def _show_error(error: ContextEngineError, screen: Screen) -> None:
    from context_engine.cli.next_commands import format_error

    screen.err.show(("error:", "red"), f" {one_line(format_error(error))}")


def _describe_defect(error: Exception) -> ContextEngineError:
    """Return the error for an unexpected exception: one of the system that names a file, else a bug of ctx."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return AccessFailed(
            f"{os.fsdecode(error.filename)}: {error.strerror}",
            suggestion="Check that it exists and that you may use it, then run the command again.",
        )
    return BugError(
        f"ctx has a bug: {type(error).__name__}: {error}",
        suggestion="Run it again with ctx --debug ... and report what it prints.",
    )
