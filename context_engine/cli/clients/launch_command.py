r"""Find the command by which a client starts `ctx`: the full path of the script, since a client's PATH is often short.

>>> origin = ProcessOrigin("/home/me/.local/bin/ctx", "/opt/ctx/bin/python", "/opt/ctx", scripts="/opt/ctx/bin")
>>> find_launch_command(origin, lambda path: True, lambda name: None).command
'/home/me/.local/bin/ctx'
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePath, PureWindowsPath

from context_engine.repo import find_program

PACKAGE = "smart-context-engine"
"""The name of the package, and of a script that it installs."""
SCRIPTS = ("ctx", PACKAGE)
RUNNERS = {
    "uvx": (re.compile(r"[\\/](archive|environments)-v\d+[\\/]"), (PACKAGE,), ("--from",)),
    "pipx": (
        re.compile(r"[\\/]pipx[\\/]\.?cache[\\/]|[\\/]\.cache[\\/]pipx[\\/]"),
        ("run", PACKAGE),
        ("run", "--spec"),
    ),
}
"""Programs that run ctx in a temporary environment: its path, and the words that run it from an index or a source."""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """A program and its arguments. `note` is a remark for the user."""

    command: str
    args: tuple[str, ...] = ()
    note: str = ""

    def with_args(self, words: Sequence[str]) -> LaunchCommand:
        """Return the command with more arguments."""
        return LaunchCommand(self.command, (*self.args, *words), self.note)

    @property
    def command_line(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return (self.command, *self.args)


@dataclass(frozen=True, slots=True)
class ProcessOrigin:
    """Facts about how a process was started."""

    argv0: str
    python: str
    prefix: str
    scripts: str
    source: str = ""
    """Where the package was installed from, if not from an index: a folder, a wheel, a repository."""


def find_launch_command(
    started: ProcessOrigin, exists: Callable[[str], bool], which: Callable[[str], str | None]
) -> LaunchCommand:
    """Return the command that starts the same `ctx` later and from any folder."""
    for runner, (environment, from_index, from_source) in RUNNERS.items():
        if environment.search(started.prefix + os.sep):
            words = (*from_source, started.source, "ctx") if started.source else from_index
            note = f"ctx runs from a cache of {runner}, and the entry starts {runner} each time"
            return LaunchCommand(which(runner) or runner, words, f"{note}; an installed ctx starts faster.")
    for candidate in (started.argv0, *(str(PurePath(started.scripts, name)) for name in SCRIPTS)):
        path = Path(candidate).absolute()  # with its links, since their targets change with each upgrade
        if path.name.removesuffix(".exe") in SCRIPTS:
            for script in filter(exists, (str(path), f"{path}.exe")):
                return LaunchCommand(script)
    note = "no ctx script is installed: the entry starts it through Python."
    return LaunchCommand(started.python, ("-P", "-m", "context_engine"), note)


def find_own_launch_command() -> LaunchCommand:
    """Return that command for this process."""
    try:
        # a packaging standard: the source, as an argument for an installer
        origin = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    source = origin.get("url", "")
    if version := origin.get("vcs_info"):
        source = f"{version['vcs']}+{source}@{version['commit_id']}"
    return find_launch_command(
        ProcessOrigin(sys.argv[0], sys.executable, sys.prefix, sysconfig.get_path("scripts"), source),
        lambda path: Path(path).is_file(),
        lambda name: find_program(name, outside=Path.cwd()) or None,
    )


def make_portable(launch: LaunchCommand) -> LaunchCommand:
    """Return the command for a shared file: by name if the PATH has it, since paths differ between machines."""
    for name in SCRIPTS:
        on_path = find_program(name)
        if on_path and not launch.args and Path(on_path).resolve() == Path(launch.command).resolve():
            return LaunchCommand(name)
    note = "this file is shared with others, but it contains a path of this machine."
    return LaunchCommand(launch.command, launch.args, launch.note or note)


def starts_ctx(words: Sequence[str]) -> bool:
    r"""Whether a command line starts `ctx`, from any path and through any program.

    >>> starts_ctx(["C:\\bin\\ctx.exe", "serve"]), starts_ctx(["uvx", "smart-context-engine"])
    (True, True)
    >>> starts_ctx(["npx", "ctx-other"])
    False
    """
    names = {PureWindowsPath(word).name.removesuffix(".exe") for word in words}  # which knows both kinds of slashes
    return bool(names & {*SCRIPTS, "context_engine"})
