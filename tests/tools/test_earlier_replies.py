"""Code that a session was shown is named by later answers and not repeated, unless the client wants it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import TextContent

from context_engine.context import ShownLines, ShownLinesBySession
from context_engine.context.shown_lines import LINES_KEPT, SESSIONS_KEPT
from context_engine.engine import Engine
from context_engine.server import mcp_server
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.tools import Call
from tests.support.engines import indexed
from tests.support.trees import tree

DRAIN = "\n".join(
    ["def drain_pool(pool, deadline):", *(f"    pool.close_connection({n}, deadline)" for n in range(12))]
)
FILES = {
    "src/pool.py": f"{DRAIN}\n",
    "src/mail.py": "def send_mail(address):\n    return address\n",
    "README.md": "# Pools\n",
}
FIRST, SECOND = "how is the pool drained", "drain_pool with a deadline"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with indexed(tree(tmp_path / "w", FILES), staleness_ms=0) as opened:
        yield opened


class Session:
    """Calls of one connection, as the dispatcher gets them."""

    def __init__(self, engine: Engine, connection: str = "one") -> None:
        self._dispatcher = ToolDispatcher(lambda _: engine)
        self._connection = connection

    def text(self, tool: str, **arguments: Any) -> str:
        outcome = self._dispatcher.call(tool, arguments, Call(connection=self._connection))
        assert outcome.error is None, outcome.reply.text
        return outcome.reply.text


def content_of(reply: str) -> str:
    return next(row["content"] for row in json.loads(reply)["results"] if row["path"] == "src/pool.py")


def test_code_that_a_search_showed_is_one_line_of_the_next_search(engine: Engine) -> None:
    session = Session(engine)
    assert content_of(session.text("codebase_retrieval", query=FIRST)) == DRAIN
    reply = session.text("codebase_retrieval", query=SECOND)
    assert content_of(reply) == "def drain_pool(pool, deadline):"
    assert json.loads(reply)["shown_before"] == "src/pool.py:1-13 (repeat the call to see them)"


def test_a_bundle_names_what_a_search_showed_and_shows_it_on_request(engine: Engine) -> None:
    session = Session(engine)
    session.text("codebase_retrieval", query=FIRST)
    reply = session.text("get_context_for_prompt", query=SECOND)
    assert "close_connection" not in reply
    assert json.loads(reply)["shown_before"] == "src/pool.py:1-13 (repeat the call to see them)"
    as_markdown = session.text("get_context_for_prompt", query=SECOND, format="markdown", max_files=3)
    assert "shown before: src/pool.py:1-13 (repeat the call to see them)" in as_markdown
    assert "close_connection(7" in session.text("get_context_for_prompt", query=SECOND)


def test_the_same_question_again_is_answered_in_full(engine: Engine) -> None:
    session = Session(engine)
    for tool in ("codebase_retrieval", "get_context_for_prompt"):
        session.text(tool, query=FIRST)
        assert "close_connection(7" in session.text(tool, query=FIRST)


def test_a_changed_line_counts_as_not_shown(engine: Engine) -> None:
    session = Session(engine)
    session.text("codebase_retrieval", query=FIRST)
    (engine.root / "src/pool.py").write_text(f"{DRAIN.replace('(7,', '(77,')}\n", encoding="utf-8")
    engine.index.update()
    assert "close_connection(77" in session.text("codebase_retrieval", query=SECOND)


def test_a_read_of_a_named_place_is_never_shortened_and_counts_as_shown(engine: Engine) -> None:
    reads: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "src/pool.py"}),
        ("read_regions", {"file_path": "src/pool.py", "regions": [{"start": 1, "end": 13}]}),
        ("read_fragment", {"path": "src/pool.py", "lines": ["1-13"]}),
    ]
    for tool, arguments in reads:
        session = Session(engine)
        for _ in range(2):
            assert "close_connection(7" in session.text(tool, **arguments)
        assert "close_connection" not in session.text("codebase_retrieval", query=FIRST), tool


def test_callers_that_share_no_connection_know_nothing_of_each_other(engine: Engine) -> None:
    nameless = Session(engine, connection="")
    for query in (FIRST, SECOND):
        assert content_of(nameless.text("codebase_retrieval", query=query)) == DRAIN
    sessions = ShownLinesBySession()
    sessions.get("one", "").add("a.py", 1, "line")
    assert sessions.get("one", "").includes("a.py", 1, "line")
    assert not sessions.get("two", "").includes("a.py", 1, "line")
    assert not sessions.get("one", "other project").includes("a.py", 1, "line")


def test_what_is_remembered_is_bounded() -> None:
    shown = ShownLines()
    shown.add("a.py", 1, "\n".join(f"line {number}" for number in range(LINES_KEPT + 10)))
    assert not shown.includes("a.py", 1, "line 0")
    assert shown.includes("a.py", LINES_KEPT + 10, f"line {LINES_KEPT + 9}")
    sessions = ShownLinesBySession()
    for number in range(SESSIONS_KEPT + 1):
        sessions.get(f"session {number}", "").add("a.py", 1, "line")
    assert not sessions.get("session 0", "").includes("a.py", 1, "line")


def test_a_client_over_the_protocol_gets_each_place_once(engine: Engine) -> None:
    async def ask() -> list[str]:
        replies = []
        async with Client(mcp_server.build_server(ToolDispatcher(lambda _: engine))) as client:
            for query in (FIRST, SECOND):
                result = await client.call_tool("codebase_retrieval", {"query": query})
                (content,) = result.content
                assert isinstance(content, TextContent)
                replies.append(content_of(content.text))
        return replies

    assert anyio.run(ask) == [DRAIN, "def drain_pool(pool, deadline):"]
