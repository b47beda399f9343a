"""How a program that was started in a session of its own ends with everything that it has started."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

GRACE_S = 2.0
"""Between the word and the axe: a test run takes down what it has set up."""


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all it started, unless it has ended and was waited for; its end is still to be waited for."""
    if process.returncode is None:  # else its number may already be somebody else's
        _signal(process, "SIGKILL")


def end(process: subprocess.Popen[bytes], ended: threading.Event) -> None:
    """Tell a program and all it started to end, and kill those who have not when their time of grace is over.

    `ended` is set by who waits for the program, as soon as it has ended.
    """
    _signal(process, "SIGTERM")
    ended.wait(GRACE_S)
    _signal(process, "SIGKILL")


def sweep(process: subprocess.Popen[bytes]) -> None:
    """Kill what a program has left behind that has just ended: while one of them lives nobody else gets its number."""
    _signal(process, "SIGKILL")


def _signal(process: subprocess.Popen[bytes], name: str) -> None:
    """To a program and all it started; on Windows to it alone, and there is only the axe."""
    try:
        if os.name == "posix":
            os.killpg(process.pid, getattr(signal, name))
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):  # it ended by itself a moment ago; macOS says so of the dead
        return
