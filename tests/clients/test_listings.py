"""`mcp list` of the clients that have it: after `ctx setup` they find our server and reach it. And the lists of others."""

from __future__ import annotations

import re
import time

import pytest

from scripts import tokens
from tests.clients.agents import AGENTS
from tests.clients.conftest import Tell
from tests.clients.programs import INSTALLED, Place, client, count_tokens, node
from tests.clients.stdio import listing

NOWHERE = "http://127.0.0.1:9"
"""No model is asked in these tests; nothing listens on the discard port."""


PEERS = ("filesystem", "memory", "everything", "github")
"""The official servers that install without anything else; the last is no longer maintained but much used."""


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_the_list_of_another_server_is_counted_like_ours(peer: str, fresh: Place, tell: Tell) -> None:
    server = INSTALLED / "protocol" / "node_modules" / "@modelcontextprotocol" / f"server-{peer}" / "dist" / "index.js"
    given = [str(fresh.folder)] if peer == "filesystem" else []
    env = {"GITHUB_PERSONAL_ACCESS_TOKEN": "none", "MEMORY_FILE_PATH": str(fresh.home / "m")}
    _, tools = listing(Place(fresh.home, fresh.folder, env), node(), str(server), *given)
    tell(f"tokens {peer}", {"tools": len(tools), "tokens": count_tokens([tokens.paid(tool) for tool in tools])})
    assert tools


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says"), [("claude", "Connected"), ("gemini", "Connected"), ("opencode", "connected")]
)
def test_a_client_lists_ctx_as_connected(name: str, says: str, fresh: Place, tell: Tell) -> None:
    command = [*client(name), "mcp", "list"]
    here = AGENTS[name].prepared(fresh, NOWHERE)
    AGENTS[name].introduced(here)
    started = time.monotonic()
    run = here.run(*command)
    lines = [plain(line) for line in (run.out + run.err).splitlines() if "ctx" in line]
    tell(f"listing {name}", {"lines": lines, "seconds": round(time.monotonic() - started, 2)})
    assert run.status == 0, run.out + run.err
    assert [line for line in lines if says in line] != [], run.out + run.err


def plain(line: str) -> str:
    """A line without colors, and without the frame that one client draws."""
    return re.sub(r"\x1b\[[0-9;]*m", "", line).strip(" │●")
