"""The contract every tool keeps towards the clients that list it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from context_engine import tools
from context_engine.errors import InvalidArgument, UnknownTool
from context_engine.server.profiles import PROFILES
from context_engine.settings import Settings
from context_engine.tools import Call, Tool
from context_engine.tools.arguments import LIMITS, REQUIRED
from context_engine.tools.edit_arguments import ContentArg
from tests.support.tools_stand_in import StandIn

EACH = pytest.mark.parametrize("tool", tools.ALL, ids=lambda tool: tool.name)
AGENT_WORDS = {"find", "search", "read", "list", "index", "show", "trace", "symbol", "references", "delete", "rebuild"}
AGENT_WORDS |= {"edit", "replace", "write", "undo", "review"}


@EACH
def test_a_description_is_short_and_says_what_agents_search_for(tool: Tool) -> None:
    assert 40 <= len(tool.description) <= 350
    assert len(re.findall(r"[.](?:\s|$)", tool.description)) <= 5
    words = set(re.findall(r"[a-z]+", tool.description.lower()))
    assert AGENT_WORDS & words, f"say what it does with one of {sorted(AGENT_WORDS)}"


def test_every_tool_that_a_module_defines_is_listed() -> None:
    folder = Path(tools.__file__).parent
    modules = [import_module(f"context_engine.tools.{path.stem}") for path in sorted(folder.glob("*_tools.py"))]
    defined = {value.name for module in modules for value in vars(module).values() if isinstance(value, Tool)}
    assert defined == set(tools.MODULES)


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
@pytest.mark.parametrize("blank", ["", " \n", "null"])
def test_a_required_text_that_is_blank_or_missing_is_an_argument_error(tool: Tool, blank: str) -> None:
    value = None if blank == "null" else blank
    for parameter in tool.parameters:
        is_text = parameter.schema().get("type") == "string" and "enum" not in parameter.schema()
        may_be_blank = value is not None and isinstance(parameter.kind, ContentArg)  # the text of a file
        if parameter.required and is_text and not may_be_blank:
            with pytest.raises(InvalidArgument) as refused:
                tool.call(StandIn(), {parameter.name: value}, Call())
            assert parameter.name in refused.value.message


STRICT_WORDS = {"type", "description", "properties", "items", "enum", "required", "additionalProperties", "default"}
"""Words of a schema that OpenAI's strict mode and Gemini take. Both refuse `$ref`, `oneOf`, a list of types and `format`."""


def violations(schema: Any, place: str, limits: frozenset[str] = frozenset()) -> list[str]:
    """What a strict client refuses: https://ai.google.dev/api/caching#Schema, and OpenAI's guide to structured outputs."""
    wrong = [f"{place}: {word}" for word in schema.keys() - STRICT_WORDS - limits]
    kind = schema.get("type")
    if kind not in {"string", "integer", "number", "boolean", "array", "object"}:
        wrong.append(f"{place}: type {kind}")
    if "enum" in schema and (kind != "string" or not all(isinstance(one, str) and one for one in schema["enum"])):
        wrong.append(f"{place}: enum")
    if kind == "array" and "items" not in schema:
        wrong.append(f"{place}: no items")
    properties = schema.get("properties", {})
    if kind == "object" and not properties:
        wrong.append(f"{place}: no properties")
    if not set(schema.get("required", ())) <= properties.keys():
        wrong.append(f"{place}: required")
    parts = [*properties.items(), *([("items", schema["items"])] if "items" in schema else [])]
    return wrong + [one for name, part in parts for one in violations(part, f"{place}.{name}", limits)]


@EACH
def test_a_schema_keeps_to_what_the_strict_modes_of_clients_take(tool: Tool) -> None:
    assert violations(tool.schema, tool.name, LIMITS) == [f"{tool.name}: no properties"] * (not tool.parameters)
    assert violations(tool.list_schema(), tool.name) == [f"{tool.name}: no properties"] * (not tool.parameters)


@EACH
def test_only_tools_that_touch_nothing_are_read_only(tool: Tool) -> None:
    hints = tool.hints
    assert hints.read_only == (tool.touches == "nothing")
    assert not hints.open_world
    assert not (hints.read_only and hints.destructive)


def test_what_may_lose_something_is_destructive_and_so_is_what_may_reach_it() -> None:
    destructive = "edit_file write_file call_tool safe_replace undo_edit rename_symbol delete_memory"
    found = [tool.name for tool in tools.ALL if tool.hints.destructive]
    assert found == [*destructive.split(), "execute_plan", "delete_plan", "clear_index"]


def test_listing_tools_loads_neither_parsers_nor_numbers_nor_databases() -> None:
    code = "import sys; from context_engine.tools import ALL; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "context_engine.tools.edit_tools" in loaded
    assert not loaded & {"numpy", "rapidfuzz", "tree_sitter", "apsw", "yaml", "context_engine.engine"}


def test_one_search_imports_neither_the_tools_of_plans_nor_the_services_that_edit_and_remember() -> None:
    code = (
        "import sys; from context_engine import tools, Engine; tools.find('search_code');"
        " Engine.open('.').close(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"context_engine.tools.search_tools", "context_engine.engine"} <= loaded
    assert not loaded & {
        f"context_engine.{name}" for name in ("tools.plan_tools", "tools.edit_tools", "edit.apply", "memory.knowledge")
    }


def test_three_to_five_tools_are_always_before_the_model_and_none_is_cut_by_its_client() -> None:
    always = [tool.name for tool in tools.ALL if tool.meta.get("anthropic/alwaysLoad")]
    assert 3 <= len(always) <= 5
    assert set(always) <= set(PROFILES["core"])
    assert {tool.meta["anthropic/maxResultSizeChars"] for tool in tools.ALL} == {500_000}


def test_every_name_is_there_once_and_an_older_one_is_the_same_tool() -> None:
    names = [name for tool in tools.ALL for name in (tool.name, *tool.aliases)]
    assert len(names) == len(set(names))
    older = tools.find("codebase_retrieval")
    assert (older.name, older.run) == ("search_code", tools.find("search_code").run)
    assert older.schema["properties"]["top_k"] == tools.find("search_code").schema["properties"]["limit"]


@pytest.mark.parametrize("name", PROFILES["core"])
def test_a_tool_of_the_default_list_shows_an_example_call_that_its_schema_allows(name: str) -> None:
    tool = tools.find(name)
    _, _, example = tool.description.partition("Example: ")
    jsonschema.validate(json.loads(example), tool.list_schema())


@pytest.mark.parametrize("name", PROFILES["core"])
def test_the_default_list_has_one_name_for_each_idea_and_describes_every_field(name: str) -> None:
    schema = tools.find(name).list_schema()
    older = {"top_k", "max_files", "max_results", "max_tokens", "includes", "include_paths", "file_path", "module"}
    assert not older & schema["properties"].keys()
    assert all(field["description"] for field in schema["properties"].values())
    for parameter in tools.find(name).parameters:
        is_left_out = parameter.default in (REQUIRED, None, "", (), {}) or parameter.default is False
        if parameter.name in schema["properties"] and not is_left_out:
            assert schema["properties"][parameter.name]["default"] == parameter.default


def test_an_unknown_tool_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownTool) as caught:
        tools.find("codebase_retreival")
    assert caught.value.suggestion == "Did you mean codebase_retrieval?"


def manifest(**arguments: object) -> str:
    return tools.call(StandIn(), "tool_manifest", arguments).text  # ty: ignore[invalid-argument-type] - a stand-in


def test_the_manifest_names_every_tool_in_few_characters() -> None:
    engine: Any = StandIn()
    text = tools.call(engine, "list_tools", {}, Call(listed=frozenset({"read", "symbols"}))).text
    head, listed, hidden, last = text.split("\n")
    assert head.startswith(f"{len(tools.ALL)} tools, {len(tools.ALL) - 2} hidden")
    assert listed == "listed: read, symbols"
    assert {"read", "symbols", *hidden.removeprefix("hidden: ").split(", ")} == {tool.name for tool in tools.ALL}
    assert last.startswith("next: ") and len(text) <= 1_500


def test_the_manifest_says_what_each_tool_does_that_a_query_finds() -> None:
    assert "read_file (also get_file) - Read a file" in manifest(query="range of lines of a file")


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("where is a symbol defined", "symbols"), ("token_budget", "search_code"), ("confirm", "clear_index"),
        ("impact of a change", "symbols"), ("latencies", "index_status"), ("what a file imports", "symbols"),
        ("files of a folder as a tree", "list_directory"), ("rebuild from scratch", "reindex_workspace"),
    ],
)  # fmt: skip
def test_the_manifest_finds_a_tool_by_what_it_does_and_by_its_arguments(query: str, tool: str) -> None:
    assert tool in [line.split(" ")[0] for line in manifest(query=query).split("\n")[1:4]]


def test_the_manifest_gives_full_schemas_by_name() -> None:
    told = json.loads(manifest(names=["get_file"]))
    assert told["tools"][0]["inputSchema"] == tools.find("get_file").schema
    assert told["tools"][0]["aliases"] == ["get_file"]
    roomy: Any = StandIn(settings=Settings(result_chars_max=200_000))
    told = json.loads(tools.call(roomy, "tool_manifest", {"schemas": True}).text)
    assert len(told["tools"]) == len(tools.ALL)


def test_schemas_that_do_not_fit_one_reply_are_named() -> None:
    engine: Any = StandIn(settings=Settings(result_chars_max=3_000))
    told = json.loads(tools.call(engine, "tool_manifest", {"schemas": True}).text)
    assert told["total"] == len(tools.ALL)
    assert 0 < len(told["tools"]) < len(tools.ALL)
    named = told["next"].partition("names: ")[2].split(", ")
    assert [each["name"] for each in told["tools"]] + named == [each.name for each in tools.ALL]
