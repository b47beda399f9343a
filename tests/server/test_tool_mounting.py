"""Our tools in another server: both sets are listed and called, through a real client, in both eras."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server import MCPServer, Server
from mcp.shared.exceptions import MCPError

from context_engine.server.tool_mounting import register_tools
from tests.support.engines import cache_for
from tests.support.stdio_clients import StdioServerParameters
from tests.support.tools_stand_in import StandIn
from tests.support.trees import tree

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28", "auto"])


def plain(name: str = "greet", **more: Any) -> types.Tool:
    return types.Tool(name=name, description="Greet somebody.", input_schema={"type": "object"}, **more)


def low_level(*names: str, pages: int = 1) -> Server[Any]:
    """A low-level server with tools of these names, spread over pages."""

    async def list_tools(_: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        at = int(params.cursor) if params and params.cursor else 0
        return types.ListToolsResult(
            tools=[plain(name) for name in names[at::pages]], next_cursor=str(at + 1) if at + 1 < pages else None
        )

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name} says hello")])

    return Server("host", on_list_tools=list_tools, on_call_tool=call_tool)


def high_level() -> MCPServer[Any]:
    server = MCPServer("host")

    @server.tool()
    def greet() -> str:
        return "greet says hello"

    return server


def registered(server: Any, engine: StandIn | None = None, **options: Any) -> Any:
    register_tools(server, engine or StandIn(), **options)  # ty: ignore[invalid-argument-type] - a stand-in
    return server


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@ERAS
@pytest.mark.parametrize("made", [lambda: low_level("greet"), high_level], ids=["low-level", "high-level"])
async def test_both_tool_sets_are_listed_and_called(era: str, made: Any) -> None:
    async with Client(registered(made()), mode=era) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        assert names[0] == "greet"
        assert {"search_code", "symbols", "call_tool"} < set(names)
        assert len(names) == len(set(names))
        assert text(await client.call_tool("greet", {})) == "greet says hello"
        found = await client.call_tool("search_code", {"query": "log in", "format": "json"})
        assert json.loads(text(found))["results"][0]["path"] == "src/auth.py"
        assert (await client.call_tool("symbols", {"nam": "login"})).is_error


@ERAS
async def test_what_is_not_listed_is_reached_through_call_tool_and_unknown_names_are_the_hosts(era: str) -> None:
    async with Client(registered(low_level("greet")), mode=era) as client:
        inside = {"name": "trace", "arguments": {"symbol": "login"}}
        assert "src/app.py" in text(await client.call_tool("call_tool", inside))
        assert text(await client.call_tool("trace", {"symbol": "login"})) == "trace says hello"


@ERAS
async def test_a_prefix_keeps_names_apart(era: str) -> None:
    server = low_level("symbols")
    names = register_tools(server, StandIn(), profile="code", prefix="ctx_")  # ty: ignore[invalid-argument-type]
    assert "ctx_rename_symbol" in names
    async with Client(server, mode=era) as client:
        assert {"symbols", *names} == {each.name for each in (await client.list_tools()).tools}
        assert text(await client.call_tool("symbols", {})) == "symbols says hello"
        assert "src/auth.py" in text(await client.call_tool("ctx_symbols", {"name": "login"}))


async def test_a_name_that_is_taken_later_is_told_when_tools_are_listed() -> None:
    server = registered(high_level())
    server.add_tool(lambda: "mine", name="symbols")
    async with Client(server, mode="legacy") as client:
        with pytest.raises(MCPError, match="symbols"):
            await client.list_tools()


@ERAS
async def test_a_server_without_tools_gets_ours_and_one_with_pages_keeps_them(era: str) -> None:
    async with Client(registered(Server("bare")), mode=era) as client:
        assert "search_code" in [each.name for each in (await client.list_tools()).tools]
        with pytest.raises(MCPError, match="no tool is called 'nothing'"):
            await client.call_tool("nothing", {})
    async with Client(registered(low_level("a", "b", pages=2)), mode=era) as client:
        first = await client.list_tools()
        assert [each.name for each in first.tools] == ["a"]
        rest = [each.name for each in (await client.list_tools(cursor=first.next_cursor)).tools]
        assert rest[0] == "b"
        assert "search_code" in rest


async def test_the_example_is_a_server_with_both(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "till", {"till.py": 'def total(prices):\n    """The sum of an order."""\n    return sum(prices)\n'}
    )
    env = {"CTX_CACHE_FOLDER": str(cache_for(root)), "CTX_WORKERS": "0", "CTX_DAEMON": "0"}
    env |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    example = StdioServerParameters(
        command=sys.executable, args=[str(ROOT / "examples" / "compose.py"), "--root", str(root)], env=env
    )
    async with Client(example, mode="auto") as client:
        names = [each.name for each in (await client.list_tools()).tools]
        assert names[:2] == ["may_release", "code_search_code"]
        assert text(await client.call_tool("may_release", {"day": "friday"})) == "Friday: no, releases are frozen"
        await client.call_tool("code_call_tool", {"name": "index_workspace", "arguments": {}})
        found = await client.call_tool("code_search_code", {"query": "sum of an order"})
        assert "@@ till.py:1-3 total\ndef total(prices):" in text(found)
