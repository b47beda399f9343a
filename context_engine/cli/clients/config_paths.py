r"""Where a settings file is: patterns of paths, resolved for a system, its variables and its home folder.

>>> windows = Machine("win32", {"APPDATA": r"D:\Roaming"}, r"C:\Users\me")
>>> resolve_paths(("$VSCODE_PORTABLE/mcp.json", "win32:$APPLICATIONS/Code/mcp.json", "~/.config/mcp.json"), windows)
(PureWindowsPath('D:/Roaming/Code/mcp.json'),)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath, PureWindowsPath

ConfigPaths = tuple[PurePath, ...]
"""Files that a client reads, the preferred one first; an existing file is used before a new one is created."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts that determine where programs store their settings. `system` is a value of `sys.platform`."""

    system: str
    env: Mapping[str, str]
    home_path: str

    def path(self, text: str) -> PurePath:
        """Return a path in the notation of that system."""
        if self.system == "win32":
            return PureWindowsPath(text)
        return PurePosixPath(text)

    @property
    def home(self) -> PurePath:
        """The home folder."""
        return self.path(self.home_path)

    def path_in_variable(self, variable: str) -> PurePath | None:
        """Return the path in a variable; None if it is not set or empty."""
        value = self.env.get(variable, "").strip()
        if value:
            return self.path(value)
        return None

    @property
    def config(self) -> PurePath:
        """The folder where command line programs store their settings, by the XDG rules."""
        return self.path_in_variable("XDG_CONFIG_HOME") or self.home / ".config"

    @property
    def applications(self) -> PurePath:
        """The folder where desktop applications store their settings."""
        if self.system == "win32":
            return self.path_in_variable("APPDATA") or self.home / "AppData" / "Roaming"
        if self.system == "darwin":
            return self.home / "Library" / "Application Support"
        return self.config


def resolve_paths(patterns: Sequence[str], machine: Machine) -> ConfigPaths:
    """Return the paths of the first pattern that is for this system and whose variables are set; empty without one.

    A pattern is one path, or several with `|` between them. It starts with `~`, `$CONFIG` (~/.config by the XDG rules),
    `$APPLICATIONS` (the folder of desktop applications) or a variable. `linux:`, `darwin:` or `win32:` limits it to a
    system.
    """
    for pattern in patterns:
        system, _, paths = pattern.rpartition(":")
        resolved = [_resolve_path(path, machine) for path in paths.split("|")]
        if system in ("", machine.system) and None not in resolved:
            return tuple(path for path in resolved if path)
    return ()


def _resolve_path(path: str, machine: Machine) -> PurePath | None:
    """Return one path; None if its variable is not set."""
    start, _, rest = path.partition("/")
    named = {"~": machine.home, "$CONFIG": machine.config, "$APPLICATIONS": machine.applications}
    if start in named:
        folder = named[start]
    else:
        folder = machine.path_in_variable(start.removeprefix("$"))
    if folder and rest:
        return folder / rest
    return folder
