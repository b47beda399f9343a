"""What is added later goes where it belongs: a tool is one function in the catalogue, and nothing else hears of it."""

import json
from typing import Annotated, Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from typer.testing import CliRunner

from context_engine import tools
from context_engine.cli.app import app
from context_engine.server import mcp_server
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.profiles import ToolSelection
from context_engine.tools.arguments import TextArg
from context_engine.tools.tool import Call, Reply, tool
from tests.requirements.test_promises import ROOT
from tests.support.tools_stand_in import StandIn


class Grown(StandIn):
    """An engine that learned something."""

    def shout(self, word: str) -> str:
        return word.upper()


def shout(engine: Any, call: Call, word: Annotated[str, TextArg("What to shout.", 1)]) -> Reply:
    """Show a word in capital letters, so that everybody can read it."""
    return Reply(engine.shout(word))


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """One function registered, nothing else."""
    monkeypatch.setattr(tools, "ALL", (*tools.ALL, tool(touches="nothing")(shout)))


def test_one_registered_function_is_listed_checked_and_called_over_the_protocol(grown: None) -> None:
    async def body() -> None:
        everything = ToolSelection(profiles=("all",))
        gate = ToolDispatcher(lambda _: Grown(), selection=everything)  # ty: ignore[invalid-argument-type] - a stand-in
        async with Client(mcp_server.build_server(gate)) as client:
            shown = (await client.list_tools()).tools[-1]
            assert (shown.name, shown.input_schema["required"]) == ("shout", ["word"])
            assert shown.description == "Show a word in capital letters, so that everybody can read it."
            assert shown.annotations
            assert shown.annotations.read_only_hint
            (block,) = (await client.call_tool("shout", {"word": "lamp"})).content
            assert isinstance(block, types.TextContent)
            assert block.text == "LAMP"
            assert (await client.call_tool("shout", {"wrod": "lamp"})).is_error
            (manifest,) = (await client.call_tool("tool_manifest", {"query": "capital"})).content
            assert isinstance(manifest, types.TextContent)
            assert "shout - Show a word" in manifest.text

    anyio.run(body)


def test_it_stands_in_the_terminal_too(grown: None) -> None:
    assert "shout" in CliRunner().invoke(app, ["call"]).stdout


NAMED_IN = {
    "prompt_templates.py": "texts for agents",
    "instructions.py": "texts for agents",
    "stdio_session.py": "texts for agents",
    "resources.py": "texts for agents",
    "profiles.py": "the lists of what a client is shown",
    "rate_limits.py": "the lists of what is limited",
    "serve_options.py": "what an option does, told to a person",
}


def test_the_protocol_knows_no_tool_and_no_method_of_the_engine_by_name() -> None:
    # `trace` is also what a log line calls a stack trace, `call_tool` and `list_tools` are methods of the protocol, and
    # `read` and `symbols` ordinary words
    names = {each.name for each in tools.ALL} - {"trace", "call_tool", "list_tools", "read", "symbols"}
    found = {
        file.name: [name for name in names if name in file.read_text(encoding="utf-8")]
        for file in (ROOT / "context_engine" / "server").glob("*.py")
    }
    assert {file: held for file, held in found.items() if held and file not in NAMED_IN} == {}
    assert [file for file in NAMED_IN if not found[file]] == [], "the exception is no longer needed"


def test_every_way_to_search_asks_the_engine_exactly_once() -> None:
    engine = StandIn()
    for number, name in enumerate(("codebase_retrieval", "semantic_search", "cortex_search"), 1):
        tools.call(engine, name, {"query": "log in"})  # ty: ignore[invalid-argument-type] - a stand-in
        assert [query.text for query in engine.queries] == ["log in"] * number
    assert json.loads(tools.call(engine, "cortex_search", {"query": "log in"}).text)["total"] == 1  # ty: ignore[invalid-argument-type]
