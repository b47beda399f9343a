"""The clients that `ctx setup` and `ctx doctor` know, a row each: where the settings are, their format, and our entry.

A row is data; the patterns of paths are explained in `config_paths.py`. A client whose documentation does not name its
file has no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import yaml

from context_engine.cli.clients import jsonc_editor, toml_editor
from context_engine.cli.clients.config_paths import ConfigPaths, Machine, resolve_paths
from context_engine.cli.clients.launch_command import LaunchCommand
from context_engine.errors import InvalidArgument
from context_engine.text import ParseError, read_yaml, suggest_nearest

NAME = "ctx"
"""The name of the entry. It has no underscore: Gemini takes the part before one for the server's name."""
CODEX_STARTUP_S = 20
"""Codex gives a server 10 s to start. Ours needs 0.1 s, but more with a cold disk on a busy machine."""
CALL_S = 300
"""Codex ends a call after 60 s. Rebuilding the index of a large repository takes longer, and reports its progress."""


class ConfigFormat(Protocol):
    """An editor for a format of settings files: text in, text out."""

    def get_value(self, text: str, path: Sequence[str], /) -> Any:
        """Return the value at a path of keys."""

    def set_entry(self, text: str, path: Sequence[str], entry: Mapping[str, Any], /) -> str:
        """Return the text with an entry."""

    def remove_entry(self, text: str, path: Sequence[str], /) -> str:
        """Return the text without it."""


PLAIN: Mapping[str, Any] = {"command": "$command", "args": "$args"}
"""The entry that most clients read; see `Client.entry`."""
STDIO: Mapping[str, Any] = {"type": "stdio", **PLAIN}
CLINE = "$APPLICATIONS/Code/User/globalStorage/saoudrizwan.claude-dev"
"""The folder of older releases of Cline in VS Code."""
ROO = "$APPLICATIONS/Code/User/globalStorage/rooveterinaryinc.roo-cline"
"""The folder of Roo Code in VS Code."""


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
    language: ConfigFormat | None = jsonc_editor
    """Changes its settings; None for YAML, whose lines the user pastes."""
    section: str = "mcpServers"
    """The key under which it lists its servers."""
    entry: Mapping[str, Any] = field(default_factory=lambda: PLAIN)
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

    @property
    def path(self) -> tuple[str, str]:
        """The path of keys to our entry."""
        return self.section, NAME

    def user_paths(self, machine: Machine) -> ConfigPaths:
        """Return the settings files of this user on a machine."""
        return resolve_paths(self.user, machine)

    def build_entry(self, launch: LaunchCommand) -> dict[str, Any]:
        """Return the entry that starts ctx by this command."""
        values = {
            "$command": launch.command,
            "$args": list(launch.args),
            "$command_line": list(launch.command_line),
        }
        return {key: values.get(value, value) if isinstance(value, str) else value for key, value in self.entry.items()}

    def get_entry(self, text: str) -> Any:
        """Return our entry in the text of its settings, or None. Raises: InvalidArgument for a text that is broken."""
        if self.language:
            return self.language.get_value(text, self.path)
        try:
            servers = (read_yaml(text) or {}).get(self.section) or {}
            return servers.get(NAME)
        except (ParseError, AttributeError) as error:
            raise InvalidArgument(str(error), suggestion="Fix it there, then run the command again.") from None

    def format_entry(self, entry: Mapping[str, Any]) -> str:
        """Return the entry as the lines of a file that has nothing else."""
        if self.language:
            return self.language.set_entry("", self.path, entry)
        return yaml.safe_dump({self.section: {NAME: dict(entry)}}, sort_keys=False)


ALL = (
    Client(
        name="claude",
        title="Claude Code",
        source="https://code.claude.com/docs/en/mcp",
        user=(
            "$CLAUDE_CONFIG_DIR/.claude.json|$CLAUDE_CONFIG_DIR/.config.json",
            "~/.claude.json|~/.claude/.config.json",  # the older name, read only if the first does not exist
        ),
        project=(".mcp.json",),
        entry={**STDIO, "alwaysLoad": True},  # the tools stay in the prompt, so the model need not search for them
        guidance="CLAUDE.md",
        check="claude mcp list",
        programs=("claude",),
    ),
    Client(
        name="codex",
        title="Codex",
        source="https://developers.openai.com/codex/mcp",
        user=("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
        project=(".codex/config.toml",),
        language=toml_editor,
        section="mcp_servers",
        entry={**PLAIN, "startup_timeout_sec": CODEX_STARTUP_S, "tool_timeout_sec": CALL_S},
        guidance="AGENTS.md",
        check="codex mcp list",
        programs=("codex",),
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        source="https://geminicli.com/docs/tools/mcp-server",
        user=("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
        project=(".gemini/settings.json",),
        guidance="GEMINI.md",
        check="gemini mcp list, in a folder that it trusts",
        programs=("gemini",),
    ),
    Client(
        name="opencode",
        title="opencode",
        source="https://opencode.ai/docs/mcp-servers",
        user=(
            "$OPENCODE_CONFIG",
            "$OPENCODE_CONFIG_DIR/opencode.jsonc|$OPENCODE_CONFIG_DIR/opencode.json",
            "$CONFIG/opencode/opencode.jsonc|$CONFIG/opencode/opencode.json|$CONFIG/opencode/config.json",
        ),
        project=("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        section="mcp",
        entry={"type": "local", "command": "$command_line"},
        guidance="AGENTS.md",
        check="opencode mcp list",
        programs=("opencode",),
    ),
    Client(
        name="cursor",
        title="Cursor",
        source="https://cursor.com/docs/context/mcp",
        user=("~/.cursor/mcp.json",),
        project=(".cursor/mcp.json",),
        entry=STDIO,
        guidance="AGENTS.md",
        check="Cursor Settings, MCP",
        programs=("cursor", "cursor-agent"),
        workspace="${workspaceFolder}",
    ),
    Client(
        name="vscode",
        title="VS Code",
        source="https://code.visualstudio.com/docs/copilot/customization/mcp-servers",
        user=("$VSCODE_PORTABLE/user-data/User/mcp.json", "$APPLICATIONS/Code/User/mcp.json"),
        project=(".vscode/mcp.json",),
        section="servers",
        entry=STDIO,
        guidance="AGENTS.md",
        check="the command MCP: List Servers",
        programs=("code",),
        workspace="${workspaceFolder}",
    ),
    Client(
        name="copilot",
        title="GitHub Copilot CLI",
        source="https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
        user=("$COPILOT_HOME/mcp-config.json", "~/.copilot/mcp-config.json"),
        project=(".github/mcp.json",),
        entry={"type": "local", **PLAIN, "tools": ["*"]},
        guidance="AGENTS.md",
        check="/mcp show ctx, in a session",
        programs=("copilot",),
    ),
    Client(
        name="devin",
        title="Devin Desktop and Devin CLI",
        source="https://docs.devin.ai/cli/extensibility/mcp/configuration",
        user=("win32:$APPLICATIONS/devin/mcp_config.json", "~/.config/devin/mcp_config.json"),
        project=(".devin/mcp_config.json",),
        guidance="AGENTS.md",
        check="devin mcp list",
        programs=("devin",),
    ),
    Client(
        name="windsurf",
        title="Windsurf (Cascade)",
        source="https://docs.windsurf.com/windsurf/cascade/mcp",
        user=("~/.codeium/windsurf/mcp_config.json",),
        check="Windsurf Settings, Cascade, MCP Servers",
        programs=("windsurf",),
    ),
    Client(
        name="zed",
        title="Zed",
        source="https://zed.dev/docs/ai/mcp",
        user=(
            "win32:$APPLICATIONS/Zed/settings.json",
            "linux:$CONFIG/zed/settings.json",
            "~/.config/zed/settings.json",
        ),
        project=(".zed/settings.json",),
        section="context_servers",
        entry={**PLAIN, "env": {}},
        guidance="AGENTS.md",
        check="the Agent Panel's settings: a green dot next to ctx",
        programs=("zed", "zeditor"),
    ),
    Client(
        name="junie",
        title="JetBrains Junie",
        source="https://junie.jetbrains.com/docs/junie-cli-mcp-configuration.html",
        user=("~/.junie/mcp/mcp.json",),
        project=(".junie/mcp/mcp.json",),
        guidance="AGENTS.md",
        check="Settings, Tools, Junie, MCP Settings; in the CLI /mcp",
        programs=("junie",),
        folders=("~/.junie",),
    ),
    Client(
        name="cline",
        title="Cline",
        source="https://docs.cline.bot/getting-started/config",
        user=(
            "$CLINE_DATA_DIR/settings/cline_mcp_settings.json",
            "$CLINE_DIR/data/settings/cline_mcp_settings.json",
            f"~/.cline/data/settings/cline_mcp_settings.json|{CLINE}/settings/cline_mcp_settings.json",
        ),
        guidance="AGENTS.md",
        check="MCP Servers, Configure",
        programs=("cline",),
        folders=(f"~/.cline|{CLINE}",),
    ),
    Client(
        name="roo",
        title="Roo Code",
        source="https://docs.roocode.com/features/mcp/using-mcp-in-roo",
        user=(f"{ROO}/settings/mcp_settings.json",),
        project=(".roo/mcp.json",),
        check="the MCP Servers view of Roo Code",
        folders=(ROO,),
    ),
    Client(
        name="kiro",
        title="Kiro",
        source="https://kiro.dev/docs/mcp/configuration",
        user=("~/.kiro/settings/mcp.json",),
        project=(".kiro/settings/mcp.json",),
        guidance="AGENTS.md",
        check="the MCP Servers tab of the Kiro panel; in the CLI /mcp",
        programs=("kiro", "kiro-cli"),
        folders=("~/.kiro",),
    ),
    Client(
        name="amp",
        title="Amp",
        source="https://ampcode.com/docs/cli/settings",
        user=("~/.config/amp/settings.json|~/.config/amp/settings.jsonc",),
        project=(".amp/settings.json", ".amp/settings.jsonc"),
        section="amp.mcpServers",  # one key with a dot
        guidance="AGENTS.md",
        check="amp mcp list",
        programs=("amp",),
    ),
    Client(
        name="qwen",
        title="Qwen Code",
        source="https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp/",
        user=("~/.qwen/settings.json",),
        project=(".qwen/settings.json",),
        check="qwen mcp list",
        programs=("qwen",),
    ),
    Client(
        name="droid",
        title="Factory Droid",
        source="https://docs.factory.ai/cli/configuration/mcp",
        user=("~/.factory/mcp.json",),
        project=(".factory/mcp.json",),
        entry=STDIO,
        check="/mcp, in a session",
        programs=("droid",),
    ),
    Client(
        name="goose",
        title="goose",
        source="https://block.github.io/goose/docs/guides/config-files",
        user=("win32:$APPLICATIONS/Block/goose/config/config.yaml", "$CONFIG/goose/config.yaml"),
        language=None,
        section="extensions",
        entry={
            "type": "stdio",
            "name": NAME,
            "description": "Code search and context",
            "enabled": True,
            "cmd": "$command",
            "args": "$args",
            "env_keys": [],
            "envs": {},
            "timeout": CALL_S,
        },
        check="goose info -v",
        programs=("goose",),
    ),
    Client(
        name="continue",
        title="Continue",
        source="https://docs.continue.dev/customize/deep-dives/mcp",
        user=("~/.continue/mcpServers/ctx.json",),
        project=(".continue/mcpServers/ctx.json",),
        check="Agent mode, Tools",
        programs=("cn",),
        folders=("~/.continue",),
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        source="https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        user=("$APPLICATIONS/Claude/claude_desktop_config.json",),
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
    hint = suggest_nearest(name.lower(), names, 0.5).strip() or f"There are {', '.join(names)}."
    raise InvalidArgument(f"{name} is not a known client", suggestion=hint)
