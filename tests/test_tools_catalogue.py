"""The contract every tool keeps towards the clients that list it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from context_engine import tools
from context_engine.errors import UnknownTool
from context_engine.text.tokens import estimate
from context_engine.tools import Tool, catalogue
from tests.tools_stand_in import StandIn

SNAPSHOT = Path(__file__).parent / "snapshots" / "tools.json"
EACH = pytest.mark.parametrize("tool", tools.ALL, ids=lambda tool: tool.name)
AGENT_WORDS = {"find", "search", "read", "list", "index", "show", "trace", "symbol", "references", "delete", "rebuild"}


@EACH
def test_a_description_is_short_and_says_what_agents_search_for(tool: Tool) -> None:
    assert 40 <= len(tool.description) <= 350
    assert len(re.findall(r"[.](?:\s|$)", tool.description)) <= 5
    assert AGENT_WORDS & set(re.findall(r"[a-z]+", tool.description.lower()))


@EACH
def test_a_parameter_is_described_in_at_most_80_characters(tool: Tool) -> None:
    for name, schema in tool.schema["properties"].items():
        assert 0 < len(schema["description"]) <= 80, name


@EACH
def test_a_schema_is_valid_and_takes_nothing_else(tool: Tool) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.schema)
    assert tool.schema["type"] == "object"
    assert tool.schema["additionalProperties"] is False


@EACH
def test_only_tools_that_touch_nothing_are_read_only(tool: Tool) -> None:
    hints = tool.hints
    assert hints.read_only == (tool.touches == "nothing")
    assert not hints.open_world
    assert not (hints.read_only and hints.destructive)


def test_clearing_the_index_is_the_only_destructive_call() -> None:
    assert [tool.name for tool in tools.ALL if tool.hints.destructive] == ["clear_index"]


def test_every_tool_of_the_first_release_is_there_and_get_file_is_read_file() -> None:
    names = {tool.name for tool in tools.ALL}
    assert names == {
        "index_workspace", "reindex_workspace", "clear_index", "index_status", "codebase_retrieval", "semantic_search",
        "cortex_search", "find_symbol", "trace", "read_file", "list_directory", "tool_manifest",
    }  # fmt: skip
    assert tools.find("get_file") is tools.find("read_file")


def test_the_schemas_are_the_ones_clients_have_cached() -> None:
    # Changed on purpose? Write the snapshot anew: python -m tests.test_tools_catalogue
    assert json.loads(SNAPSHOT.read_text()) == snapshot()


def test_all_schemas_together_stay_affordable() -> None:
    listed = [{"name": each.name, "description": each.description, "inputSchema": each.schema} for each in tools.ALL]
    assert estimate(json.dumps(listed, separators=(",", ":"))) < 2_900


def test_an_unknown_tool_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownTool) as caught:
        tools.find("codebase_retreival")
    assert caught.value.suggestion == "Did you mean codebase_retrieval?"


def manifest(**arguments: object) -> str:
    return tools.call(StandIn(), "tool_manifest", arguments).text  # ty: ignore[invalid-argument-type] - a stand-in


def test_the_manifest_lists_every_tool_with_one_line() -> None:
    lines = manifest().split("\n")
    assert lines[0] == "12 tools"
    assert len(lines) == 1 + len(tools.ALL)
    assert any(line.startswith("read_file (also get_file) - Read a file") for line in lines)


def test_the_manifest_finds_a_tool_by_words() -> None:
    assert manifest(query="who calls this, callers").split("\n")[1].startswith("trace - ")
    assert "no tool matches; there are codebase_retrieval, " in manifest(query="teleport")


def test_the_manifest_gives_full_schemas_by_name() -> None:
    told = json.loads(manifest(names=["get_file"]))
    assert told["tools"][0]["inputSchema"] == tools.find("read_file").schema
    assert told["tools"][0]["aliases"] == ["get_file"]
    assert len(json.loads(manifest(schemas=True))["tools"]) == len(tools.ALL)


def test_the_manifest_says_when_a_name_is_unknown() -> None:
    with pytest.raises(UnknownTool):
        manifest(names=["trcae"])


def snapshot() -> list[dict[str, object]]:
    """What a client may have cached: names, descriptions, schemas, hints."""
    hints = {each.name: each.hints for each in tools.ALL}
    rows = [catalogue.manifest_row(each) for each in tools.ALL]
    return [
        row
        | {"hints": [hints[name].read_only, hints[name].destructive, hints[name].idempotent, hints[name].open_world]}
        for row in rows
        if (name := str(row["name"]))
    ]


if __name__ == "__main__":
    SNAPSHOT.parent.mkdir(exist_ok=True)
    SNAPSHOT.write_text(json.dumps(snapshot(), indent=1, ensure_ascii=False) + "\n")
