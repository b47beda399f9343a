"""Any MCP server over stdio, asked for what it lists: ours for what a client should see, others to compare ourselves with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.clients.programs import Place

VERSION = "2025-06-18"
"""A revision that every server of the last year speaks."""


def listing(place: Place, *command: str) -> tuple[str, list[dict[str, Any]]]:
    """The instructions and the tools of the server that `command` starts."""
    server = place.start(*command, stdin=subprocess.PIPE)
    try:
        hello = ask(server, 1, "initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": WHO})
        send(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return hello.get("instructions", ""), ask(server, 2, "tools/list", {})["tools"]
    finally:
        server.kill()
        server.communicate()


WHO = {"name": "context-engine-tests", "version": "0"}


def ask(server: subprocess.Popen[str], number: int, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """A request and its result; what else the server says meanwhile is passed over."""
    send(server, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert server.stdout
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message["result"]
    raise AssertionError(f"the server left without an answer to {method}")


def send(server: subprocess.Popen[str], message: Mapping[str, Any]) -> None:
    """One line to the server."""
    assert server.stdin
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()


def named(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names, in the server's order."""
    return [tool["name"] for tool in tools]
