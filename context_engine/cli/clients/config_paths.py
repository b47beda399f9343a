r"""The settings files of each client, from the system, its variables and the home folder.

>>> windows = Machine("win32", {"APPDATA": r"C:\Users\me\AppData\Roaming"}, r"C:\Users\me")
>>> str(vscode_paths(windows)[0])
'C:\\Users\\me\\AppData\\Roaming\\Code\\User\\mcp.json'
"""

from __future__ import annotations

from collections.abc import Mapping
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
        return PureWindowsPath(text) if self.system == "win32" else PurePosixPath(text)

    @property
    def home(self) -> PurePath:
        """The home folder."""
        return self.path(self.home_path)

    def path_in_variable(self, variable: str) -> PurePath | None:
        """Return the path in a variable; None if it is not set or empty."""
        value = self.env.get(variable, "").strip()
        return self.path(value) if value else None

    @property
    def applications(self) -> PurePath:
        """The folder where desktop applications store their settings."""
        if self.system == "win32":
            return self.path_in_variable("APPDATA") or self.home / "AppData" / "Roaming"
        if self.system == "darwin":
            return self.home / "Library" / "Application Support"
        return self.path_in_variable("XDG_CONFIG_HOME") or self.home / ".config"


def claude_paths(machine: Machine) -> ConfigPaths:
    """Return the files of Claude Code. It still reads the second, older name if the first does not exist."""
    folder = machine.path_in_variable("CLAUDE_CONFIG_DIR")
    return (folder or machine.home) / ".claude.json", (folder or machine.home / ".claude") / ".config.json"


def codex_paths(machine: Machine) -> ConfigPaths:
    """Return the file of Codex."""
    return ((machine.path_in_variable("CODEX_HOME") or machine.home / ".codex") / "config.toml",)


def gemini_paths(machine: Machine) -> ConfigPaths:
    """Return the file of Gemini CLI. Its variable names a home folder, not the folder of the settings."""
    return ((machine.path_in_variable("GEMINI_CLI_HOME") or machine.home) / ".gemini" / "settings.json",)


def opencode_paths(machine: Machine) -> ConfigPaths:
    """Return the file that a variable of opencode names, else its global files in its own order, on every system."""
    if file := machine.path_in_variable("OPENCODE_CONFIG"):
        return (file,)
    if folder := machine.path_in_variable("OPENCODE_CONFIG_DIR"):
        return folder / "opencode.jsonc", folder / "opencode.json"
    folder = (machine.path_in_variable("XDG_CONFIG_HOME") or machine.home / ".config") / "opencode"
    return folder / "opencode.jsonc", folder / "opencode.json", folder / "config.json"


def cursor_paths(machine: Machine) -> ConfigPaths:
    """Return the file of Cursor, the same on every system."""
    return (machine.home / ".cursor" / "mcp.json",)


def vscode_paths(machine: Machine) -> ConfigPaths:
    """Return the file of VS Code's default profile; a portable VS Code stores it next to the program."""
    portable = machine.path_in_variable("VSCODE_PORTABLE")
    return ((portable / "user-data" if portable else machine.applications / "Code") / "User" / "mcp.json",)


def claude_desktop_paths(machine: Machine) -> ConfigPaths:
    """Return the file of Claude Desktop."""
    return (machine.applications / "Claude" / "claude_desktop_config.json",)
