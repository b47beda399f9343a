"""Runs one program for somebody who allowed it: no shell, a limit of time, and of what it says the end alone is kept.

A program that takes too long is ended with everything it has started.
"""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import subprocess

TAIL_BYTES = 4_000
"""Of what a program says: the summary of a test run stands at its end."""
GRACE_S = 2.0
"""Between the word and the axe."""


class Ran(NamedTuple):
    """What came of it. `code` is None when it could not be started, or had to be ended."""

    command: str
    code: int | None
    tail: str
    why_not: str = ""


def words_of(command: str) -> list[str]:
    """The words of a command, as a shell would part them; nothing in them is expanded.

    >>> words_of("pytest -q 'tests/a b.py'")
    ['pytest', '-q', 'tests/a b.py']
    """
    return shlex.split(command)


def program(name: str) -> str:
    """Where a program of this machine lies; empty when there is none of that name.

    What lies in the folder one happens to be in does not count: a repository could bring it along.
    """
    import shutil

    found = shutil.which(name) or ""
    return found if os.path.isabs(found) else ""


def run(words: Sequence[str], folder: Path, *, limit_s: float, stdin: bytes = b"", tail_bytes: int = TAIL_BYTES) -> Ran:
    """Run a program in a folder, and wait for it. Never raises for what the program does."""
    import subprocess  # nobody pays for it who runs nothing

    command = shlex.join(words)
    with tempfile.TemporaryFile() as out:
        try:
            child = subprocess.Popen(
                list(words),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return Ran(command, None, "", f"it cannot be started: {getattr(error, 'strerror', None) or error}")
        try:
            child.communicate(stdin, timeout=limit_s)
        except subprocess.TimeoutExpired:
            _end(child)
            return Ran(command, None, _tail(out, tail_bytes), f"it was ended after {limit_s:g} s")
        except BaseException:  # an interrupt in between must not leave it behind
            _end(child)
            raise
        return Ran(command, child.returncode, _tail(out, tail_bytes))


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a program and those that it started: with a word first, and then whoever is left."""
    import subprocess

    for how in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, how)
            else:
                child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)


def _tail(out: IO[bytes], most: int) -> str:
    """The end of what was said, from the beginning of a line."""
    size = out.seek(0, os.SEEK_END)
    out.seek(max(0, size - most))
    text = out.read().decode("utf-8", "replace")
    return text if size <= most else f"…{text[text.find(chr(10)) :]}"
