"""The clients that `ctx setup` knows, a row each: where the settings are, their format, and what an entry contains.

All that differs between clients is here and in `config_paths.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from context_engine.cli.clients import config_paths, jsonc_editor, toml_editor
from context_engine.cli.clients.config_paths import ConfigPaths, Machine
from context_engine.cli.clients.launch_command import LaunchCommand
from context_engine.errors import InvalidArgument

NAME = "ctx"
"""The name of the entry. It has no underscore: Gemini takes the part before one for the server's name."""
CODEX_STARTUP_S = 20
"""Codex gives a server 10 s to start. Ours needs 0.1 s, but more with a cold disk on a busy machine."""
CODEX_CALL_S = 300
"""Codex ends a call after 60 s. Rebuilding the index of a large repository takes longer, and reports its progress."""


class ConfigFormat(Protocol):
    """An editor for a format of settings files: text in, text out."""

    def get_value(self, text: str, path: Sequence[str], /) -> Any:
        """Return the value at a path of keys."""

    def set_entry(self, text: str, path: Sequence[str], entry: Mapping[str, Any], /) -> str:
        """Return the text with an entry."""

    def remove_entry(self, text: str, path: Sequence[str], /) -> str:
        """Return the text without it."""


@dataclass(frozen=True, slots=True)
class Client:
    """One program that uses MCP servers."""

    name: str
    """What is typed after `ctx setup`."""
    title: str
    programs: tuple[str, ...]
    """Its commands, which show that it is installed."""
    language: ConfigFormat
    section: str
    """The key under which it lists its servers."""
    user: Callable[[Machine], ConfigPaths]
    """Its settings files of this user."""
    project: tuple[str, ...]
    """Its settings files in a project; empty if it has none."""
    entry: Callable[[LaunchCommand], dict[str, Any]]
    """The entry to write."""
    check: str
    """How to check that the client uses it."""
    workspace: str = ""
    """The placeholder that it replaces by the path of the open folder, in the settings of a project."""
    needs_root: bool = False
    """It has no open folder, so the user must name one."""

    @property
    def path(self) -> tuple[str, str]:
        """The path of keys to our entry."""
        return self.section, NAME


def _plain_entry(launch: LaunchCommand) -> dict[str, Any]:
    return {"command": launch.command, "args": list(launch.args)}


def _stdio_entry(launch: LaunchCommand) -> dict[str, Any]:
    return {"type": "stdio", **_plain_entry(launch)}


def _claude_entry(launch: LaunchCommand) -> dict[str, Any]:
    """Return an entry that keeps the tools in the prompt, so that the model need not search for them by name."""
    return {**_stdio_entry(launch), "alwaysLoad": True}


def _codex_entry(launch: LaunchCommand) -> dict[str, Any]:
    return {**_plain_entry(launch), "startup_timeout_sec": CODEX_STARTUP_S, "tool_timeout_sec": CODEX_CALL_S}


def _opencode_entry(launch: LaunchCommand) -> dict[str, Any]:
    return {"type": "local", "command": list(launch.command_line)}


ALL = (
    Client(
        name="claude",
        title="Claude Code",
        programs=("claude",),
        language=jsonc_editor,
        section="mcpServers",
        user=config_paths.claude_paths,
        project=(".mcp.json",),
        entry=_claude_entry,
        check="claude mcp list",
    ),
    Client(
        name="codex",
        title="Codex",
        programs=("codex",),
        language=toml_editor,
        section="mcp_servers",
        user=config_paths.codex_paths,
        project=(".codex/config.toml",),
        entry=_codex_entry,
        check="codex mcp list",
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        programs=("gemini",),
        language=jsonc_editor,
        section="mcpServers",
        user=config_paths.gemini_paths,
        project=(".gemini/settings.json",),
        entry=_plain_entry,
        check="gemini mcp list, in a folder that it trusts",
    ),
    Client(
        name="opencode",
        title="opencode",
        programs=("opencode",),
        language=jsonc_editor,
        section="mcp",
        user=config_paths.opencode_paths,
        project=("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        entry=_opencode_entry,
        check="opencode mcp list",
    ),
    Client(
        name="cursor",
        title="Cursor",
        programs=("cursor", "cursor-agent"),
        language=jsonc_editor,
        section="mcpServers",
        user=config_paths.cursor_paths,
        project=(".cursor/mcp.json",),
        entry=_stdio_entry,
        check="Cursor Settings, MCP",
        workspace="${workspaceFolder}",
    ),
    Client(
        name="vscode",
        title="VS Code",
        programs=("code",),
        language=jsonc_editor,
        section="servers",
        user=config_paths.vscode_paths,
        project=(".vscode/mcp.json",),
        entry=_stdio_entry,
        check="the command MCP: List Servers",
        workspace="${workspaceFolder}",
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        programs=(),
        language=jsonc_editor,
        section="mcpServers",
        user=config_paths.claude_desktop_paths,
        project=(),
        entry=_plain_entry,
        check="Settings, Developer, after a restart of the application",
        needs_root=True,
    ),
)
"""In the order of the help."""


def find_client(name: str) -> Client:
    """Return the client with this name. Raises: InvalidArgument, with the nearest name."""
    names = [tool.name for tool in ALL]
    if name in names:
        return ALL[names.index(name)]
    near = difflib.get_close_matches(name.lower(), names, 1, 0.5)
    hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names)}."
    raise InvalidArgument(f"{name} is not a known client", suggestion=hint)
