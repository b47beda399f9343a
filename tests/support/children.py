"""Programs of Python beside a test: those that write until they are killed, and those that never end."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.support import preloaded

ROOT = Path(__file__).resolve().parents[2]
HANGS = "__import__('time').sleep(600)"
"""A program that ends only when somebody ends it."""


def child(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that runs this script, in which a warning is an error."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *arguments]
    return preloaded.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_all(children: Iterable[subprocess.Popen[str]]) -> list[str]:
    """What children that run side by side have printed, once each has ended without an error."""
    printed = []
    for each in children:
        out, err = each.communicate(timeout=300)
        assert each.returncode == 0, err[-2_000:]
        printed.append(out)
    return printed


def killed(script: str, *arguments: str, after_s: float) -> list[str]:
    """The whole lines that a child had printed when it was killed, so long after the first of them."""
    with child(script, *arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        assert first, process.stderr.read()
        with suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
        process.send_signal(signal.SIGKILL)
        said = first + process.stdout.read()
    return said[: said.rfind("\n")].split("\n")
