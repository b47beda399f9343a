"""Where each client keeps its settings, on each system, with and without the variables that move it."""

from __future__ import annotations

import pytest

from context_engine.cli.clients import client_table
from context_engine.cli.clients.client_table import Machine

LINUX, MAC, WINDOWS = "/home/me", "/Users/me", r"C:\Users\me"
HOMES = {"linux": LINUX, "darwin": MAC, "win32": WINDOWS}


def first(client: str, system: str, env: dict[str, str] | None = None) -> str:
    """The place to begin with."""
    machine = Machine(system, env or {}, HOMES[system])
    return str(client_table.find_client(client).user_paths(machine)[0])


@pytest.mark.parametrize(
    ("client", "linux", "mac", "windows"),
    [
        ("claude", "/home/me/.claude.json", "/Users/me/.claude.json", r"C:\Users\me\.claude.json"),
        ("codex", "/home/me/.codex/config.toml", "/Users/me/.codex/config.toml", r"C:\Users\me\.codex\config.toml"),
        ("gemini", "/home/me/.gemini/settings.json", "/Users/me/.gemini/settings.json", r"C:\Users\me\.gemini\settings.json"),
        ("opencode", "/home/me/.config/opencode/opencode.jsonc", "/Users/me/.config/opencode/opencode.jsonc", r"C:\Users\me\.config\opencode\opencode.jsonc"),
        ("cursor", "/home/me/.cursor/mcp.json", "/Users/me/.cursor/mcp.json", r"C:\Users\me\.cursor\mcp.json"),
        ("vscode", "/home/me/.config/Code/User/mcp.json", "/Users/me/Library/Application Support/Code/User/mcp.json", r"C:\Users\me\AppData\Roaming\Code\User\mcp.json"),
        ("claude-desktop", "/home/me/.config/Claude/claude_desktop_config.json", "/Users/me/Library/Application Support/Claude/claude_desktop_config.json", r"C:\Users\me\AppData\Roaming\Claude\claude_desktop_config.json"),
    ],
)  # fmt: skip
def test_every_client_has_its_place_on_every_system(client: str, linux: str, mac: str, windows: str) -> None:
    assert (first(client, "linux"), first(client, "darwin"), first(client, "win32")) == (linux, mac, windows)


@pytest.mark.parametrize(
    ("client", "system", "variable", "value", "place"),
    [
        ("claude", "linux", "CLAUDE_CONFIG_DIR", "/c", "/c/.claude.json"),
        ("codex", "linux", "CODEX_HOME", "/c", "/c/config.toml"),
        ("gemini", "linux", "GEMINI_CLI_HOME", "/c", "/c/.gemini/settings.json"),
        ("opencode", "linux", "OPENCODE_CONFIG", "/c/mine.json", "/c/mine.json"),
        ("opencode", "linux", "OPENCODE_CONFIG_DIR", "/c", "/c/opencode.jsonc"),
        ("opencode", "darwin", "XDG_CONFIG_HOME", "/c", "/c/opencode/opencode.jsonc"),
        ("vscode", "linux", "XDG_CONFIG_HOME", "/c", "/c/Code/User/mcp.json"),
        ("vscode", "darwin", "XDG_CONFIG_HOME", "/c", "/Users/me/Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", "APPDATA", r"D:\data", r"D:\data\Code\User\mcp.json"),
        ("vscode", "linux", "VSCODE_PORTABLE", "/c", "/c/user-data/User/mcp.json"),
        ("claude-desktop", "win32", "APPDATA", r"D:\data", r"D:\data\Claude\claude_desktop_config.json"),
        ("cursor", "linux", "XDG_CONFIG_HOME", "/c", "/home/me/.cursor/mcp.json"),
    ],
)
def test_a_variable_that_moves_the_settings_is_followed(
    client: str, system: str, variable: str, value: str, place: str
) -> None:
    assert first(client, system, {variable: value}) == place
    assert first(client, system, {variable: "  "}) == first(client, system)
