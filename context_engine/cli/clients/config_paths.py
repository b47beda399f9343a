r"""Where each client keeps its settings: functions of the system, its variables and the home folder. Asks no disk.

>>> windows = Machine("win32", {"APPDATA": r"C:\Users\me\AppData\Roaming"}, r"C:\Users\me")
>>> str(vscode(windows)[0])
'C:\\Users\\me\\AppData\\Roaming\\Code\\User\\mcp.json'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath, PureWindowsPath

ConfigPaths = tuple[PurePath, ...]
"""Files that a client reads, the one to begin with first; one that exists is preferred to one that does not."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides where programs keep their settings. `system` is in the words of `sys.platform`."""

    system: str
    env: Mapping[str, str]
    home_path: str

    def path(self, text: str) -> PurePath:
        """A path in the notation of that system."""
        return PureWindowsPath(text) if self.system == "win32" else PurePosixPath(text)

    @property
    def home(self) -> PurePath:
        """The home folder."""
        return self.path(self.home_path)

    def path_in_variable(self, variable: str) -> PurePath | None:
        """The path that a variable holds; None when it is not set, or empty."""
        value = self.env.get(variable, "").strip()
        return self.path(value) if value else None

    @property
    def applications(self) -> PurePath:
        """Where desktop applications keep their settings."""
        if self.system == "win32":
            return self.path_in_variable("APPDATA") or self.home / "AppData" / "Roaming"
        if self.system == "darwin":
            return self.home / "Library" / "Application Support"
        return self.path_in_variable("XDG_CONFIG_HOME") or self.home / ".config"


def claude_paths(machine: Machine) -> ConfigPaths:
    """Claude Code. The second name is the older one, which it still reads where the first does not exist."""
    folder = machine.path_in_variable("CLAUDE_CONFIG_DIR")
    return (folder or machine.home) / ".claude.json", (folder or machine.home / ".claude") / ".config.json"


def codex_paths(machine: Machine) -> ConfigPaths:
    """Codex."""
    return ((machine.path_in_variable("CODEX_HOME") or machine.home / ".codex") / "config.toml",)


def gemini_paths(machine: Machine) -> ConfigPaths:
    """Gemini CLI. Its variable names another home folder, not the folder of the settings."""
    return ((machine.path_in_variable("GEMINI_CLI_HOME") or machine.home) / ".gemini" / "settings.json",)


def opencode_paths(machine: Machine) -> ConfigPaths:
    """A file that opencode was pointed to, else the first of its global ones, in its own order, on every system."""
    if file := machine.path_in_variable("OPENCODE_CONFIG"):
        return (file,)
    if folder := machine.path_in_variable("OPENCODE_CONFIG_DIR"):
        return folder / "opencode.jsonc", folder / "opencode.json"
    folder = (machine.path_in_variable("XDG_CONFIG_HOME") or machine.home / ".config") / "opencode"
    return folder / "opencode.jsonc", folder / "opencode.json", folder / "config.json"


def cursor_paths(machine: Machine) -> ConfigPaths:
    """Cursor, the same on every system."""
    return (machine.home / ".cursor" / "mcp.json",)


def vscode_paths(machine: Machine) -> ConfigPaths:
    """The default profile of VS Code; a portable one keeps everything beside the program."""
    portable = machine.path_in_variable("VSCODE_PORTABLE")
    return ((portable / "user-data" if portable else machine.applications / "Code") / "User" / "mcp.json",)


def claude_desktop_paths(machine: Machine) -> ConfigPaths:
    """Claude Desktop."""
    return (machine.applications / "Claude" / "claude_desktop_config.json",)
