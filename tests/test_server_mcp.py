"""The protocol, through the library's own client, in both of its eras."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from context_engine import __version__, tools
from context_engine.model import Progress
from context_engine.server import mcp
from context_engine.server.gate import Gate
from tests.tools_stand_in import LOGIN, StandIn

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28", "auto"])


@asynccontextmanager
async def connected(engine: StandIn, era: str = "auto", **arguments: Any) -> AsyncGenerator[Client]:
    gate = Gate(lambda: engine)  # ty: ignore[invalid-argument-type] - a stand-in
    async with Client(mcp.build(gate, **arguments), mode=era) as client:
        yield client


def run(test: Any) -> Any:
    """Run an async test body; one loop a test, no plugin."""
    return anyio.run(test)


@ERAS
def test_a_client_sees_the_catalogue_in_order_with_all_four_hints(era: str) -> None:
    async def body() -> None:
        async with connected(StandIn(), era) as client:
            listed = (await client.list_tools()).tools
        assert [each.name for each in listed] == [each.name for each in tools.ALL]
        for shown, tool in zip(listed, tools.ALL, strict=True):
            assert shown.input_schema == tool.schema
            hints = shown.annotations
            assert hints
            told = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
            assert told == (tool.hints.read_only, tool.hints.destructive, tool.hints.idempotent, False)

    run(body)


@ERAS
def test_a_reply_is_one_text_block_and_nothing_else(era: str) -> None:
    async def body() -> None:
        async with connected(StandIn(), era) as client:
            result = await client.call_tool("codebase_retrieval", {"query": "log in", "topK": "3"})
        assert not result.is_error
        assert result.structured_content is None
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        assert json.loads(block.text)["results"][0]["content"] == LOGIN

    run(body)


@ERAS
def test_a_failure_of_a_tool_is_a_reply_never_an_error_of_the_protocol(era: str) -> None:
    async def body() -> None:
        async with connected(StandIn(), era) as client:
            for name, arguments, code in (
                ("read_file", {"path": "missing.py"}, "FILE_NOT_FOUND"),
                ("codebase_retrieval", {}, "INVALID_ARGUMENT"),
                ("codebase_retrieval", {"query": ""}, "INVALID_ARGUMENT"),
                ("codebase_retrieval", {"query": "q", "limit": 3}, "INVALID_ARGUMENT"),
                ("clear_index", {}, "NOT_CONFIRMED"),
            ):
                result = await client.call_tool(name, arguments)
                assert result.is_error
                (block,) = result.content
                assert isinstance(block, types.TextContent)
                error = json.loads(block.text)["error"]
                assert error["code"] == code
                assert set(error) == {"code", "message", "suggestion", "retryable", "details"}

    run(body)


@ERAS
@pytest.mark.parametrize(
    ("name", "arguments"), [("cortex_search", {"query": ""}), ("cortex_search", {}), ("teleport", {})]
)
def test_an_empty_cortex_query_and_an_unknown_tool_are_invalid_params(era: str, name: str, arguments: Any) -> None:
    async def body() -> None:
        async with connected(StandIn(), era) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool(name, arguments)
            assert caught.value.code == -32602
            assert not (await client.call_tool("index_status", {})).is_error

    run(body)


def test_instructions_say_in_240_characters_what_this_is_for_and_when() -> None:
    first = mcp.INSTRUCTIONS[:240]
    assert len(mcp.INSTRUCTIONS.split("\n\n")[0]) <= 240
    for word in ("code", "repository", "Before grepping", "codebase_retrieval", "find_symbol", "trace"):
        assert word in first
    for name in ("codebase_retrieval", "find_symbol", "trace", "read_file", "index_status", "tool_manifest"):
        assert tools.find(name)


@ERAS
def test_the_server_introduces_itself(era: str) -> None:
    async def body() -> None:
        async with connected(StandIn(), era) as client:
            if era != "2026-07-28":  # a pinned version sends no opening request
                assert client.instructions == mcp.INSTRUCTIONS
                assert client.server_info
                assert (client.server_info.name, client.server_info.version) == ("ctx", __version__)

    run(body)


def test_a_long_call_tells_how_far_it_is_and_never_backwards() -> None:
    told: list[tuple[float, float | None, str | None]] = []
    hold = threading.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))
        hold.set()  # the work goes on once its progress was heard

    async def body() -> None:
        engine = StandIn(steps=(Progress("indexing", 3, 9),), hold=hold)
        async with connected(engine, "legacy") as client:
            result = await client.call_tool("index_workspace", {}, progress_callback=hear)
        assert not result.is_error

    run(body)
    assert told[0] == (3, 9, "indexing: 3 of 9 files")
    assert [each[0] for each in told] == sorted({each[0] for each in told})


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_cancelled_call_stops_the_work(era: str) -> None:
    engine = StandIn(hold=threading.Event())

    async def body() -> None:
        async with connected(engine, era) as client:
            with anyio.move_on_after(0.3):
                await client.call_tool("index_workspace", {})
            assert await anyio.to_thread.run_sync(engine.cancelled.wait, 5)
            assert not (await client.call_tool("index_status", {})).is_error

    run(body)


def test_a_search_is_answered_while_the_index_is_built() -> None:
    hold = threading.Event()
    engine = StandIn(hold=hold)

    async def body() -> None:
        async with connected(engine) as client, anyio.create_task_group() as side:
            side.start_soon(client.call_tool, "index_workspace", {})
            await anyio.sleep(0.05)
            with anyio.fail_after(5):
                assert not (await client.call_tool("codebase_retrieval", {"query": "q"})).is_error
            hold.set()

    run(body)


def test_fifty_calls_at_once_are_all_answered() -> None:
    async def body() -> None:
        answered: list[bool] = []

        async def ask(client: Client) -> None:
            answered.append(not (await client.call_tool("find_symbol", {"name": "login"})).is_error)

        async with connected(StandIn()) as client, anyio.create_task_group() as side:
            for _ in range(50):
                side.start_soon(ask, client)
        assert answered == [True] * 50

    run(body)


def test_the_workspace_is_opened_after_the_first_reply_and_only_once() -> None:
    opened: list[str] = []

    async def body() -> None:
        async with connected(StandIn(), "legacy", after_first_reply=lambda: opened.append("now")) as client:
            await client.list_tools()
            await client.list_tools()

    run(body)
    assert opened == ["now"]
