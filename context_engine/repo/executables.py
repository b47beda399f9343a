"""Find programs by absolute path, never in the current folder or in the workspace; end one with all that it started.

A PATH may contain `.`, an empty part (the current folder) or a folder of the workspace, and Windows searches the
current folder first: in all of these a repository could place its own `git`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

SUFFIXES = (".exe", ".com") if os.name == "nt" else ()
"""Endings of programs. Batch files are left out: a shell would read their arguments, which contain names of files."""
LOOK_S = 0.05
"""How often it is checked whether a program must be ended."""
GRACE_S = 2.0
"""The time between SIGTERM and SIGKILL, in which a test run removes what it has set up."""


def find_program(
    name: str, *, beside: Sequence[str] = (), path: str | None = None, outside: str | os.PathLike[str] = ""
) -> str:
    """Return the absolute path of a program; empty when there is none.

    The folders `beside` are searched first, because the caller trusts them; then the absolute folders of `path` (the
    PATH of this process by default). A program in the folder `outside`, or behind a link into it, does not count. The
    exception is the folder of the Python that runs this package, which is trusted anyway.
    """
    return next(find_programs(name, beside=beside, path=path, outside=outside), "")


def find_programs(
    name: str, *, beside: Sequence[str] = (), path: str | None = None, outside: str | os.PathLike[str] = ""
) -> Iterator[str]:
    """Yield each program of that name, in the order of the search."""
    if os.path.isabs(name):
        yield from _programs("", name)
    elif os.path.basename(name) == name:
        for folder in filter(os.path.isabs, beside):
            yield from _programs(folder, name)
        for folder in _folders(os.environ.get("PATH", os.defpath) if path is None else path, outside):
            yield from (place for place in _programs(folder, name) if _is_own(folder) or not is_within(place, outside))


def pip_install() -> str:
    """Return the start of the shell command that installs a package into the environment of this process.

    An environment made by uv has no pip; uv installs into it.
    """
    from importlib.util import find_spec
    from shlex import join

    if find_spec("pip"):
        return join([sys.executable, "-m", "pip", "install"])
    return join(["uv", "pip", "install", "--python", sys.executable])


def safe_path(path: str, *, outside: str | os.PathLike[str] = "") -> str:
    """Return a PATH without its relative and empty parts, and without those in the folder `outside`.

    >>> safe_path("/usr/bin::.:tools:/src/app/bin:/bin", outside="/src/app") if os.name == "posix" else "/usr/bin:/bin"
    '/usr/bin:/bin'
    """
    return os.pathsep.join(_folders(path, outside))


def is_within(path: str, folder: str | os.PathLike[str]) -> bool:
    """Return whether a path leads into a folder; no path leads into the empty name."""
    if not os.fspath(folder):
        return False
    real, top = (os.path.normcase(os.path.realpath(place)) for place in (path, folder))
    return real == top or real.startswith(os.path.join(top, ""))


def _folders(path: str, outside: str | os.PathLike[str]) -> Iterator[str]:
    for folder in path.split(os.pathsep):
        if os.path.isabs(folder) and (_is_own(folder) or not is_within(folder, outside)):
            yield folder


def _is_own(folder: str) -> bool:
    """Return whether a folder is that of the Python that runs this package."""
    return os.path.normpath(folder) == os.path.dirname(sys.executable)


def _programs(folder: str, name: str) -> Iterator[str]:
    suffixes = SUFFIXES
    if not SUFFIXES or name.lower().endswith(SUFFIXES):
        suffixes = ("",)
    for suffix in suffixes:
        place = os.path.join(folder, name + suffix)
        if os.path.isfile(place) and os.access(place, os.X_OK):
            yield place


@contextmanager
def supervise(
    process: subprocess.Popen[bytes], limit_s: float, check: Callable[[float], str] = lambda _spent_s: ""
) -> Generator[list[str]]:
    """Wait for a program at the end of the block, which may read its output; all that it started ends with it.

    It is ended when it takes longer than `limit_s`, or when `check`, called with the seconds so far, returns why: then
    the yielded list has the reason.
    """
    began, ended = time.monotonic(), threading.Event()
    problems: list[str] = []

    def watch() -> None:
        spent_s = 0.0
        while not problems and not ended.wait(max(0.0, min(LOOK_S, limit_s - spent_s))):
            spent_s = time.monotonic() - began
            late = f"took longer than {max(limit_s, 0.0):.1f} s" if spent_s >= limit_s else ""
            problems.extend(filter(None, [late or check(spent_s)]))
        if problems:
            _signal_group(process, "SIGTERM")
            ended.wait(GRACE_S)
            _signal_group(process, "SIGKILL")

    watcher = threading.Thread(target=watch, name="ctx-program", daemon=True)
    watcher.start()
    try:
        yield problems
        process.wait()  # without a limit, for so its end is noticed at once
    finally:
        kill_process(process)  # an interrupt in between must not leave it behind
        process.wait()
        ended.set()
        _signal_group(process, "SIGKILL")  # as long as one of its children lives, no other process gets its number
        watcher.join()


def kill_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and everything that it started, unless it has been waited for. Its end must still be awaited."""
    if process.returncode is None:  # otherwise another process may have its number by now
        _signal_group(process, "SIGKILL")


def _signal_group(process: subprocess.Popen[bytes], name: str) -> None:
    """Send a signal to a program and everything that it started; on Windows only kill the program itself."""
    try:
        if os.name == "posix":
            os.killpg(process.pid, getattr(signal, name))
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):  # it has just ended; macOS reports that as a missing permission
        return
