"""An MCP server of your own with a code search inside: one tool here, ours beside it, all in one list.

    python examples/compose.py --root path/to/repository

It speaks stdio: put that command into your client's settings, or try it with `npx @modelcontextprotocol/inspector`.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from mcp.server import MCPServer

from context_engine.engine import Engine
from context_engine.server.tool_mounting import register_tools

FREEZES_ON = ("Friday", "Saturday", "Sunday")

server = MCPServer("house-tools", instructions="Releases of this house, and its code: ask code_search_code first.")


@server.tool()
def may_release(day: str = "") -> str:
    """Say whether a release may go out on a day (Monday, Tuesday, ...; default: today)."""
    asked = day.capitalize() or datetime.now(UTC).strftime("%A")
    return f"{asked}: {'no, releases are frozen' if asked in FREEZES_ON else 'yes'}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Releases, and the code they are made of.")
    parser.add_argument("--root", default=".", help="the repository to search")
    with Engine.open(parser.parse_args().root) as engine:
        engine.index.update_in_background()
        engine.watch()
        register_tools(server, engine, prefix="code_")
        server.run()


if __name__ == "__main__":
    main()
