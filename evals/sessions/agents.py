"""The four clients as the scripted agent uses them: its settings, and how each action is said with each client's tools.

Claude Code and Codex search with the shell, as their own instructions say; Gemini CLI and opencode have a tool for it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evals.sessions.policy import Action, Ask, Read, Search
from tests.clients.agents import AGENTS, Agent

MATCHES_MAX = 60
"""Lines of one search that are shown: an agent cuts what could be long."""
PEER = "peer"
"""Its server as clients know it."""
FILE_MATCHES_MAX = 8
"""Of one file, so that one long file does not hide the others."""
CONTEXT_TOOLS = (("ctx", "search_code"), ("ctx", "codebase_retrieval"), (PEER, "search"))
"""Server and tool; our search by its present name first."""
PEER_OPTIONS = {"top_k": 10, "max_snippet_lines": None}
"""Whole chunks, and as many as our search shows: by default it shows ten lines of five."""

Use = tuple[str, Mapping[str, Any]]
"""The full name of a tool, and the arguments."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client: how its agent is started, and its own means. `file` returns a path as its tools want it."""

    agent: Agent
    shell: Callable[[str], Use]
    search: Callable[[str], Use]
    read: Callable[[Path, Read], Use]
    guidance: str
    """Where it reads guidance of the user from, in the home."""


def say_with_shell(action: Search | Read) -> str:
    """Return the command for an action with ripgrep and sed: the best plain way."""
    if isinstance(action, Search):
        return f"rg -n -i -F -C 2 -m {FILE_MATCHES_MAX} --max-columns 200 --sort path -e {shlex.quote(action.term)} . | head -n {MATCHES_MAX * 3}"
    return f"sed -n '{action.first},{action.last}p' {shlex.quote(action.path)}"


def _grep_command(term: str) -> str:
    return f"grep -rniIF -m {FILE_MATCHES_MAX} --exclude-dir=.git -e {shlex.quote(term)} . | cut -c -200 | head -n {MATCHES_MAX}"


def _shell(tool: str, argument: str, **more: Any) -> Callable[[str], Use]:
    return lambda command: (tool, {argument: command, **more})


def _open_sandbox(url: str) -> Mapping[str, str]:
    """Return the settings of Codex for a work tree that may be thrown away: some machines cannot run its sandbox."""
    settings = AGENTS["codex"].settings(url)
    return {name: text.replace('"read-only"', '"danger-full-access"') for name, text in settings.items()}


CLAUDE = Client(
    replace(AGENTS["claude"], prompt=("--allowedTools", "mcp__ctx,mcp__peer,Bash,Read", "--print")),
    _shell("Bash", "command", description="Search or read the code"),
    lambda term: ("Bash", {"command": _grep_command(term), "description": "Search the code"}),
    lambda root, read: (
        "Read",
        {"file_path": str(root / read.path), "offset": read.first, "limit": read.last - read.first + 1},
    ),
    ".claude/CLAUDE.md",
)
CODEX = Client(
    replace(
        AGENTS["codex"],
        settings=_open_sandbox,
        prompt=("exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
    ),
    _shell("exec_command", "cmd"),
    lambda term: ("exec_command", {"cmd": _grep_command(term)}),
    lambda _, read: ("exec_command", {"cmd": say_with_shell(read)}),
    ".codex/AGENTS.md",
)
GEMINI = Client(
    AGENTS["gemini"],
    _shell("run_shell_command", "command"),
    lambda term: (
        "grep_search",
        {"pattern": re.escape(term), "total_max_matches": MATCHES_MAX, "max_matches_per_file": FILE_MATCHES_MAX},
    ),
    lambda root, read: (
        "read_file",
        {"file_path": str(root / read.path), "start_line": read.first, "end_line": read.last},
    ),
    ".gemini/GEMINI.md",
)
OPENCODE = Client(
    AGENTS["opencode"],
    _shell("bash", "command"),
    lambda term: ("grep", {"pattern": f"(?i){re.escape(term)}"}),
    lambda root, read: (
        "read",
        {"filePath": str(root / read.path), "offset": read.first, "limit": read.last - read.first + 1},
    ),
    ".config/opencode/AGENTS.md",
)
CLIENTS: Mapping[str, Client] = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "opencode": OPENCODE}


def say(client: Client, action: Action, root: Path, tools: Mapping[str, Any], *, by_shell: bool) -> Use:
    """Return the tool call for an action, with the tools that a request lists."""
    if isinstance(action, Ask):
        name = context_tool(tools)
        is_peer = PEER in name
        return name, {"query": action.query} | ({"repo": str(root)} | PEER_OPTIONS if is_peer else {})
    assert isinstance(action, Search | Read)
    if by_shell:
        return client.shell(say_with_shell(action))
    return client.search(action.term) if isinstance(action, Search) else client.read(root, action)


def context_tool(tools: Mapping[str, Any]) -> str:
    """Return the full name of the context tool among those of a request, empty if there is none."""
    for server, tool in CONTEXT_TOOLS:
        for name in tools:
            if server in name and name.endswith((f"_{tool}", f"/{tool}")):
                return name
    return ""
