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

_UV_RUN = re.compile(r"[\\/](archive-v\d+|environments-v\d+)[\\/]")
_PIPX_RUN = re.compile(r"[\\/]pipx[\\/](\.cache|cache)[\\/]|[\\/]\.cache[\\/]pipx[\\/]")


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

    @classmethod
    def of_this_process(cls) -> ProcessOrigin:
        """Return the facts about this process."""
        return cls(sys.argv[0], sys.executable, sys.prefix, sysconfig.get_path("scripts"), _find_install_source())


def find_launch_command(
    started: ProcessOrigin, exists: Callable[[str], bool], which: Callable[[str], str | None]
) -> LaunchCommand:
    """Return the command that starts the same `ctx` later and from any folder.

    An environment of `uvx` or `pipx run` is temporary, so the command uses these programs again.
    """
    for runner, made_it, from_index, from_source in (
        ("uvx", _UV_RUN, (), ("--from",)),
        ("pipx", _PIPX_RUN, ("run",), ("run", "--spec")),
    ):
        if made_it.search(started.prefix + os.sep):
            if started.source:
                words = (*from_source, started.source, "ctx")
            else:
                words = (*from_index, PACKAGE)
            note = (
                f"ctx runs from a cache of {runner}, and the entry starts {runner} each time; "
                "an installed ctx starts faster."
            )
            return LaunchCommand(which(runner) or runner, words, note)
    for candidate in (started.argv0, *(str(PurePath(started.scripts, name)) for name in SCRIPTS)):
        if script := _find_script(candidate, exists):
            return LaunchCommand(script)
    return LaunchCommand(
        started.python,
        ("-P", "-m", "context_engine"),
        "no ctx script is installed: the entry starts it through Python.",
    )


def find_own_launch_command() -> LaunchCommand:
    """Return that command for this process."""
    return find_launch_command(
        ProcessOrigin.of_this_process(),
        lambda path: Path(path).is_file(),
        lambda name: find_program(name, outside=Path.cwd()) or None,
    )


def make_portable(one: LaunchCommand) -> LaunchCommand:
    """Return the command for a shared file: by name if the PATH has it, since paths differ between machines."""
    for name in SCRIPTS:
        on_path = find_program(name)
        if on_path and not one.args and Path(on_path).resolve() == Path(one.command).resolve():
            return LaunchCommand(name)
    return LaunchCommand(
        one.command, one.args, one.note or "this file is shared with others, but it contains a path of this machine."
    )


def starts_ctx(words: Sequence[str]) -> bool:
    r"""Whether a command line starts `ctx`, from any path and through any program.

    >>> starts_ctx(["C:\\bin\\ctx.exe", "serve"]), starts_ctx(["uvx", "smart-context-engine"])
    (True, True)
    >>> starts_ctx(["npx", "ctx-other"])
    False
    """
    names = {PureWindowsPath(word).name.removesuffix(".exe") for word in words}  # which knows both kinds of slashes
    return bool(names & {*SCRIPTS, "context_engine"})


def _find_install_source() -> str:
    """Return the source in `direct_url.json` (a packaging standard) as an argument for an installer."""
    try:
        noted = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    version = noted.get("vcs_info")
    if version:
        return f"{version['vcs']}+{noted['url']}@{version['commit_id']}"
    return noted.get("url", "")


def _find_script(candidate: str, exists: Callable[[str], bool]) -> str | None:
    """Return the full path of our script with its links, since their targets change with each upgrade."""
    path = Path(candidate).absolute()
    if path.name.removesuffix(".exe") not in SCRIPTS:
        return None
    return next((name for name in (str(path), f"{path}.exe") if exists(name)), None)
