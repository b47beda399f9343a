"""Calls that wait for a free thread: each is run in its turn, and one that was canceled before is never run."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.to_thread
from mcp import Client

from context_engine.server import mcp_server
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.worker_threads import AT_ONCE
from tests.support.tools_stand_in import StandIn


class Holding(StandIn):
    """Answers searches for `hold` only when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.held = threading.Semaphore(0)

    def search_for(self, query: Any) -> Any:
        found = super().search_for(query)
        if query.text == "hold":
            self.held.release()
            self.let_go.wait(20)
        return found


def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_is_never_run() -> None:
    engine: Any = Holding()

    async def held() -> None:
        for _ in range(AT_ONCE):
            await anyio.to_thread.run_sync(engine.held.acquire)

    async def body() -> None:
        async with Client(mcp_server.build_server(ToolDispatcher(lambda _: engine))) as client:
            async with anyio.create_task_group() as side:
                for _ in range(AT_ONCE):
                    side.start_soon(client.call_tool, "codebase_retrieval", {"query": "hold"})
                await held()
                with anyio.move_on_after(0.2) as given_up:
                    await client.call_tool("codebase_retrieval", {"query": "cancelled while waiting"})
                assert given_up.cancelled_caught
                side.start_soon(client.call_tool, "codebase_retrieval", {"query": "waited"})
                engine.let_go.set()
            assert not (await client.call_tool("codebase_retrieval", {"query": "after"})).is_error

    try:
        anyio.run(body)
    finally:
        engine.let_go.set()
    assert [query.text for query in engine.queries] == ["hold"] * AT_ONCE + ["waited", "after"]
