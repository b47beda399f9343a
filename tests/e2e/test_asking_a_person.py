"""A tool of a real server process asks the person behind a real client: over a pipe, fast start included, and over HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from context_engine import tools
from context_engine.tools import Call, Reply
from context_engine.tools.tool import UserQuestion, tool
from tests.e2e.wire import HERE
from tests.support.serving import connected_to, serving
from tests.support.stdio_clients import StdioServerParameters, stdio_client

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
PATIENCE_S = 120.0


@tool(touches="records")
def decide(engine: Any, call: Call) -> Reply:
    """Have somebody decide."""
    answer = call.ask(UserQuestion("Ship it?", ("yes", "no"), with_comment=True))
    return Reply("nobody decided" if answer is None else f"{answer.action}: {answer.choice} ({answer.comment})")


SERVER = """
from context_engine import cli, tools
from tests.e2e.test_asking_a_person import decide

tools.ALL = (*tools.ALL, decide)
cli.main()
"""


class Person:
    """Says yes, and remembers the question."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"choice": "yes", "comment": "on Friday"})


async def told(client: Client) -> str:
    """What the tool says, called by the way that reaches every tool."""
    result = await client.call_tool("call_tool", {"name": "decide", "arguments": {}})
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@ERAS
def test_over_a_pipe_the_person_is_asked_and_heard(repository: Path, era: str) -> None:
    async def body() -> None:
        person = Person()
        command = StdioServerParameters(
            command=sys.executable,
            args=["-c", SERVER, "serve", "--root", str(repository)],
            env=dict(os.environ) | {"PYTHONPATH": str(HERE)},
        )
        with anyio.fail_after(PATIENCE_S):
            async with Client(stdio_client(command), mode=era, elicitation_callback=person) as client:
                assert await told(client) == "accept: yes (on Friday)"
        assert person.asked == ["Ship it?"]

    anyio.run(body)


@ERAS
def test_over_http_the_person_is_asked_and_heard(monkeypatch: pytest.MonkeyPatch, era: str) -> None:
    monkeypatch.setattr(tools, "ALL", (*tools.ALL, decide))

    async def body(base: str) -> None:
        person = Person()
        async with connected_to(base, era, person=person) as client:
            assert await told(client) == "accept: yes (on Friday)"
        async with connected_to(base, era) as client:
            assert await told(client) == "nobody decided"
        assert person.asked == ["Ship it?"]

    with serving() as base:
        anyio.run(body, base)
