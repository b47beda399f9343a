"""`mcp list` of the clients that have it: after `ctx setup` they find our server and reach it."""

from __future__ import annotations

import re
import time

import pytest

from tests.clients.agents import AGENTS
from tests.clients.conftest import Tell
from tests.clients.programs import Place, client

NOWHERE = "http://127.0.0.1:9"
"""No model is asked in these tests; nothing listens on the discard port."""


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
