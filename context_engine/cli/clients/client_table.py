r"""The clients that `ctx setup` and `ctx doctor` know: where the settings are, their format, and our entry.

`clients.toml` has a table for each. Paths are patterns, resolved for a system, its variables and its home folder.

>>> windows = Machine("win32", {"APPDATA": r"D:\Roaming"}, r"C:\Users\me")
>>> resolve_paths(("$VSCODE_PORTABLE/mcp.json", "win32:$APPLICATIONS/Code/mcp.json", "~/.config/mcp.json"), windows)
(PureWindowsPath('D:/Roaming/Code/mcp.json'),)
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Literal

import msgspec
import yaml

from context_engine.cli.clients import jsonc_editor, toml_editor
from context_engine.cli.clients.launch_command import LaunchCommand
from context_engine.errors import InvalidArgument
from context_engine.storage import prepare_type
from context_engine.text import ParseError, read_yaml, suggest_nearest

NAME = "ctx"
"""The name of the entry. It has no underscore: Gemini takes the part before one for the server's name."""
ConfigPaths = tuple[PurePath, ...]
"""Files that a client reads, the preferred one first; an existing file is used before a new one is created."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts that determine where programs store their settings. `system` is a value of `sys.platform`."""

    system: str
    env: Mapping[str, str]
    home_path: str


@dataclass(frozen=True, slots=True)
class HookFormat:
    """The hooks of a client: patterns of the user's file, the file in a project, and the events with their matchers.

    Without events the whole file is ours. `is_flat`: a handler is an item of the event's list, without a group around
    it. `head` are members that the file needs. `after` says what remains to be done. A client goes on without the reply
    after `timeout`: a warm answer takes 0.1 s, a first one starts the Engine.
    """

    user: tuple[str, ...]
    project: str
    events: dict[str, str] = field(default_factory=dict)
    timeout: int = 10
    is_flat: bool = False
    head: dict[str, Any] = field(default_factory=dict)
    after: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """One program that uses MCP servers."""

    name: str
    """What is typed after `ctx setup`."""
    title: str
    source: str
    """The public page that documents the file and the entry."""
    user: tuple[str, ...]
    """The patterns of its settings files of this user."""
    project: tuple[str, ...] = ()
    """Its settings files in a project; empty if it has none."""
    format: Literal["jsonc", "toml", "yaml"] = "jsonc"
    section: str = "mcpServers"
    """The key under which it lists its servers."""
    entry: dict[str, Any] = field(default_factory=lambda: {"command": "$command", "args": "$args"})
    """The entry to write, where `$command`, `$args` and `$command_line` are replaced."""
    check: str = ""
    """How to check that the client uses it."""
    guidance: str = ""
    """The file in a project from which it takes guidance, where its documentation names one."""
    programs: tuple[str, ...] = ()
    """Its commands, which show that it is installed."""
    folders: tuple[str, ...] = ()
    """Patterns of folders that only it creates, which show the same; default: those of its settings files."""
    workspace: str = ""
    """The placeholder that it replaces by the path of the open folder, in the settings of a project."""
    needs_root: bool = False
    """It has no open folder, so the user must name one."""
    hooks: HookFormat | None = None

    @property
    def path(self) -> tuple[str, str]:
        """The path of keys to our entry."""
        return self.section, NAME

    @property
    def editor(self) -> Any:
        """The module that changes its settings; None for YAML, whose lines the user pastes."""
        return {"jsonc": jsonc_editor, "toml": toml_editor}.get(self.format)

    def user_paths(self, machine: Machine) -> ConfigPaths:
        """Return the settings files of this user on a machine."""
        return resolve_paths(self.user, machine)

    def build_entry(self, launch: LaunchCommand) -> dict[str, Any]:
        """Return the entry that starts ctx by this command."""
        values = {"$command": launch.command, "$args": [*launch.args], "$command_line": [*launch.command_line]}
        return {key: values.get(value, value) if isinstance(value, str) else value for key, value in self.entry.items()}

    def get_entry(self, text: str) -> Any:
        """Return our entry in the text of its settings, or None. Raises: InvalidArgument for a text that is broken."""
        if self.editor:
            return self.editor.get_value(text, self.path)
        try:
            return ((read_yaml(text) or {}).get(self.section) or {}).get(NAME)
        except (ParseError, AttributeError) as error:
            raise InvalidArgument(str(error), suggestion="Fix it there, then run the command again.") from None

    def format_entry(self, entry: Mapping[str, Any]) -> str:
        """Return the entry as the lines of a file that has nothing else."""
        if self.editor:
            return self.editor.set_entry("", self.path, entry)
        return yaml.safe_dump({self.section: {NAME: dict(entry)}}, sort_keys=False)


def resolve_paths(patterns: Sequence[str], machine: Machine) -> ConfigPaths:
    """Return the paths of the first pattern that is for this system and whose variables are set; empty without one.

    A pattern is one path, or several with `|` between them. It starts with `~`, `$CONFIG` (~/.config by the XDG rules),
    `$APPLICATIONS` (the folder of desktop applications) or a variable. `linux:`, `darwin:` or `win32:` limits it to a
    system.
    """
    notation = PureWindowsPath if machine.system == "win32" else PurePosixPath

    def find_variable(name: str) -> PurePath | None:
        value = machine.env.get(name, "").strip()
        return notation(value) if value else None

    home = notation(machine.home_path)
    config = applications = find_variable("XDG_CONFIG_HOME") or home / ".config"
    if machine.system == "win32":
        applications = find_variable("APPDATA") or home / "AppData" / "Roaming"
    elif machine.system == "darwin":
        applications = home / "Library" / "Application Support"
    named = {"~": home, "$CONFIG": config, "$APPLICATIONS": applications}
    for pattern in patterns:
        system, _, paths = pattern.rpartition(":")
        parts = [path.partition("/") for path in paths.split("|")]
        folders = [named.get(start) or find_variable(start.removeprefix("$")) for start, _, _ in parts]
        if system in ("", machine.system) and None not in folders:
            return tuple(folder / rest for folder, (_, _, rest) in zip(folders, parts, strict=True) if folder)
    return ()


def find_client(name: str) -> Client:
    """Return the client with this name. Raises: InvalidArgument, with the nearest name."""
    by_name = {client.name: client for client in ALL}
    if name not in by_name:
        hint = suggest_nearest(name, by_name).strip() or f"Known clients: {', '.join(by_name)}."
        raise InvalidArgument(f"{name} is not a known client", suggestion=hint)
    return by_name[name]


def _read_table() -> tuple[Client, ...]:
    table = tomllib.loads(Path(__file__).with_name("clients.toml").read_text(encoding="utf-8"))
    return msgspec.convert([{"name": name, **row} for name, row in table.items()], prepare_type(tuple[Client, ...]))


ALL = _read_table()
"""In the order of the help."""
