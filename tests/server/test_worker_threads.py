"""Calls that wait for a free thread: each is run in its turn, and one that was canceled before is never run."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from context_engine.errors import Cancelled
from context_engine.model import Progress
from context_engine.server import cancel_call, gain_file, mcp_server, read_events
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.worker_threads import AT_ONCE, ProgressTicker
from tests.support.engines import indexed
from tests.support.tools_stand_in import StandIn
from tests.support.trees import tree


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


def test_a_call_that_a_person_cancels_on_the_page_says_so_and_one_that_waits_is_shown_as_queued(tmp_path: Path) -> None:
    def wait(*_: Any, cancel: threading.Event, **__: Any) -> Any:
        assert cancel.wait(20)
        raise Cancelled("the search was canceled")

    with indexed(tree(tmp_path / "till", {"a.py": "A = 1\n"}), data_folder=tmp_path / "data") as engine:
        engine.text_search.scan = wait
        file, seen = gain_file(engine.settings), dict[str, Any]()

        def running() -> list[Any]:
            rows: list[Any] = []
            while len(rows) < AT_ONCE + 1:
                rows = next((event["running"] for event in read_events(file, seen) if "running" in event), rows)
            return rows

        async def body() -> list[Any]:
            replies: list[Any] = []
            async with Client(mcp_server.build_server(ToolDispatcher(lambda _: engine))) as client:

                async def ask() -> None:
                    replies.append(await client.call_tool("search_text", {"query": "A = 1"}))

                async with anyio.create_task_group() as side:
                    for _ in range(AT_ONCE + 1):
                        side.start_soon(ask)
                    rows = await anyio.to_thread.run_sync(running)
                    assert sorted(row["state"] == "queued" for row in rows) == [*[False] * AT_ONCE, True]
                    for row in sorted(rows, key=lambda row: row["state"] != "queued"):
                        assert cancel_call(file, row["workspace"], row["id"])
            return replies

        replies = anyio.run(body)
        assert [reply.is_error for reply in replies] == [True] * (AT_ONCE + 1)
        assert all("a person canceled this call" in reply.content[0].text for reply in replies)
        assert not any("running" in event and event["running"] for event in read_events(file, seen))


# -- progress ---------------------------------------------------------------------------------------------------------


def test_stages_follow_each_other() -> None:
    ticker = ProgressTicker(0.0)
    first = ticker.tick(0.3, Progress("scanning", 50, 100))
    assert first
    assert (first.progress, first.total, first.message) == (50, 100, "scanning: 50 of 100 files")
    second = ticker.tick(0.6, Progress("indexing", 10, 40))
    assert second
    assert (second.progress, second.total) == (60, 90)


def test_nothing_is_told_twice_within_a_quarter_second() -> None:
    ticker = ProgressTicker(0.0)
    assert ticker.tick(1.0, Progress("indexing", 1, 9))
    assert ticker.tick(1.2, Progress("indexing", 2, 9)) is None
    assert ticker.tick(1.25, Progress("indexing", 2, 9))


def test_a_call_without_progress_shows_a_sign_of_life_each_second() -> None:
    ticker = ProgressTicker(10.0)
    told = [ticker.tick(10.0 + quarter / 4, None) for quarter in range(1, 13)]
    assert [each.progress for each in told if each] == [1.0, 2.0, 3.0]
    assert all(each.total is None for each in told if each)


STEPS = st.none() | st.builds(
    Progress, st.sampled_from(["scanning", "indexing", "finishing"]), st.integers(0, 9), st.integers(0, 9)
)


@given(st.lists(st.tuples(st.floats(0, 2), STEPS), max_size=30))
def test_progress_only_grows_and_keeps_its_distance(ticks: list[tuple[float, Progress | None]]) -> None:
    ticker, now, sent = ProgressTicker(0.0), 0.0, []
    for later, step in ticks:
        now += later
        if told := ticker.tick(now, step):
            sent.append((now, told.progress))
    for (before_s, before), (after_s, after) in itertools.pairwise(sent):
        assert after > before
        assert after_s - before_s >= 0.25
