"""The protocol, through the library's own client, in both of its eras."""

from __future__ import annotations

import json
import re
import threading
from functools import partial
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from context_engine import tools
from context_engine.model import Progress
from context_engine.server import mcp_server
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.instructions import format_instructions
from context_engine.server.profiles import PROFILES, ToolSelection
from tests.support import serving
from tests.support.tools_stand_in import StandIn

pytestmark = pytest.mark.anyio

EVERYTHING = ToolSelection(profiles=("all",))
connected = partial(serving.connected, selection=EVERYTHING)
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28", "auto"])


def gate_to(engine: Any, selection: ToolSelection = EVERYTHING, **seams: Any) -> ToolDispatcher:
    return ToolDispatcher(lambda _: engine, selection=selection, **seams)


@ERAS
async def test_a_client_sees_the_catalogue_in_order_with_all_four_hints(era: str) -> None:
    async with connected(StandIn(), era) as client:
        listed = (await client.list_tools()).tools
    expected = [tool for tool in tools.ALL if tool.name in PROFILES["all"]]
    assert [each.name for each in listed] == [each.name for each in expected]
    for shown, tool in zip(listed, expected, strict=True):
        assert shown.input_schema == tool.list_schema()
        assert shown.input_schema["additionalProperties"] is False
        hints = shown.annotations
        assert hints
        told = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert told == (tool.hints.read_only, tool.hints.destructive, tool.hints.idempotent, False)
        assert shown.title == hints.title
        assert (shown.meta or {}).items() >= tool.meta.items()
        assert shown.title
        assert shown.title.lower().replace(" ", "_") == tool.name


@ERAS
async def test_every_list_has_one_page_and_a_cursor_is_refused(era: str) -> None:
    async with connected(StandIn(), era) as client:
        for page in (
            client.list_tools,
            client.list_prompts,
            client.list_resources,
            client.list_resource_templates,
        ):
            assert (await page()).next_cursor is None
            with pytest.raises(MCPError) as caught:
                await page(cursor="2")
            assert caught.value.code == -32602


async def test_lists_say_how_long_they_hold_and_what_is_read_says_that_it_does_not() -> None:
    async with connected(StandIn(), "2026-07-28") as client:
        for page in (client.list_tools, client.list_prompts, client.list_resources, client.list_resource_templates):
            hint = await page()
            assert (hint.ttl_ms, hint.cache_scope) == (3_600_000, "public")
        read = await client.read_resource("ctx://metrics")
        assert (read.ttl_ms, read.cache_scope) == (0, "private")


def test_instructions_say_in_240_characters_what_this_is_for_and_when() -> None:
    first = format_instructions(PROFILES["core"]).split("\n\n")[0]
    assert len(first) <= 240
    for word in ("code", "repository", "Before you grep", "search_code", "read", "symbols"):
        assert word in first


async def test_a_long_call_tells_how_far_it_is_and_never_backwards() -> None:
    told: list[tuple[float, float | None, str | None]] = []
    hold = threading.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))
        hold.set()  # the work goes on once its progress was heard

    engine = StandIn(steps=(Progress("indexing", 3, 9),), hold=hold)
    async with connected(engine, "legacy") as client:
        result = await client.call_tool("index_workspace", {}, progress_callback=hear)
    assert not result.is_error
    assert told[0] == (3, 9, "indexing: 3 of 9 files")
    assert [each[0] for each in told] == sorted({each[0] for each in told})


@ERAS
async def test_what_no_handler_foresaw_is_one_line_of_the_log_and_an_error_without_our_insides(era: str) -> None:
    lines: list[dict[str, Any]] = []

    class Broken(StandIn):
        def status(self) -> Any:
            raise ZeroDivisionError("a secret of ours")

    async with connected(Broken(), era, log=lines.append) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("understand")
        assert caught.value.code == -32603
        assert "secret" not in str(caught.value)
        assert "Traceback" not in str(caught.value)
        assert not (await client.call_tool("list_tools", {})).is_error  # and it lives on
    (line,) = [line for line in lines if line["event"] == "crash"]
    assert line["method"] == "prompts/get"
    assert "ZeroDivisionError" in line["error"]
    assert "in status" in line["at"]
    assert "\n" not in json.dumps(line)


async def test_state_that_a_client_sends_back_must_be_ours() -> None:
    async with connected(StandIn(), "2026-07-28") as client:
        for forged in ("forged", "v1.AAAA", "v1." + "A" * 80):
            with pytest.raises(MCPError) as caught:
                await client.call_tool("index_status", {}, request_state=forged)
            assert caught.value.code == -32602


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_nobody_is_told_that_a_list_may_change(era: str) -> None:
    async with connected(StandIn(), era) as client:
        able = client.server_capabilities
        assert able
        assert able.tools
        assert able.prompts
        assert able.resources
        assert able.completions is not None
        assert not able.tools.list_changed
        assert not able.prompts.list_changed
        assert not able.resources.list_changed
        assert not able.resources.subscribe


async def test_a_client_may_listen_for_changes_and_hears_that_nothing_changes() -> None:
    server = mcp_server.build_server(gate_to(StandIn()))
    entry = server.get_request_handler("subscriptions/listen")
    assert entry
    async with Client(server, mode="2026-07-28") as client, client.listen(tools_list_changed=True) as listening:
        assert listening.honored.tools_list_changed
        await client.call_tool("index_workspace", {})
        entry.handler.close()  # ty: ignore[missing-attribute] - the library's ListenHandler
        assert [event async for event in listening] == []


@pytest.mark.parametrize(
    "selection",
    [
        *(ToolSelection(profiles=(profile,)) for profile in PROFILES),
        ToolSelection(read_only=True),
        ToolSelection(exclude=("search_code", "call_tool")),
        ToolSelection(profiles=(), tools=("find_symbol",)),
    ],
)
async def test_the_instructions_name_only_tools_that_are_listed(selection: ToolSelection) -> None:
    gate = gate_to(StandIn(), selection)
    async with Client(mcp_server.build_server(gate)) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        said = client.instructions or ""
    known = {name for tool in tools.ALL for name in (tool.name, *tool.aliases)} - {"read"}
    assert {word for word in re.findall(r"[a-z_]+", said) if word in known} <= listed
    assert ("read shows" in said) == ("read" in listed)
    if selection == ToolSelection():
        assert {"search_code", "search_text", "symbols", "edit_file", "list_tools"} <= set(re.findall(r"\w+", said))
