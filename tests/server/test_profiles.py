"""Profiles: what a client is shown, what it costs, and what is refused to everybody."""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine import tools
from context_engine.server import mcp_server
from context_engine.server.profiles import (
    ALIASES,
    KNOWN_NAMES,
    PROFILES,
    REPLACED,
    ToolSelection,
    add_project_parameter,
    find_forbidding_option,
    list_tools,
)
from context_engine.tools import Reply, Tool
from context_engine.tools.tool import Touches
from scripts import tokens
from tests.requirements.promises import PROMISES


def row(name: str, touches: Touches = "nothing", *, destructive: bool = False, aliases: tuple[str, ...] = ()) -> Tool:
    older: dict[str, dict[str, Any]] = {alias: {} for alias in aliases}
    return Tool(name, "Do it.", (), touches, lambda engine: Reply(""), aliases=older, destructive=destructive)


CATALOGUE = [
    row("search_code", aliases=("codebase_retrieval",)),
    row("rename_symbol"),
    row("index_workspace", "index"),
    row("clear_index", "index", destructive=True),
    row("write_file", "files", destructive=True),
    row("add_memory", "records"),
    row("call_tool", "anything", destructive=True),
]


def wired(shown: ToolSelection) -> dict[str, types.Tool]:
    listed = [mcp_server.wire_tool(tool, shown) for tool in list_tools(tools.ALL, shown)]
    return {tool.name: tool for tool in listed}


def names(**options: Any) -> list[str]:
    return [each.alias or each.name for each in list_tools(CATALOGUE, ToolSelection(**options))]


# -- what the profiles hold -------------------------------------------------------------------------------------------


def test_seeds_are_exactly_the_fifty_names_of_the_documents() -> None:
    promised = {
        match[1].replace("-", "_") for each in PROMISES if (match := re.match(r"S\d-tool-(?:\d\d-)?(.+)", each.id))
    }
    assert len(PROFILES["seeds"]) == 50
    assert set(PROFILES["seeds"]) == promised


def test_every_profile_names_each_tool_once_and_only_known_ones() -> None:
    for profile, held in PROFILES.items():
        assert len(held) == len(set(held)), profile
        assert set(held) <= set(KNOWN_NAMES), profile


def test_every_tool_is_listed_once_by_all_but_the_replaced_ones() -> None:
    names = {each.name for each in tools.ALL}
    where = "add the new tool to a profile in server/profiles.py, CODE for tools that read or edit code"
    assert set(PROFILES["all"]) == names - set(REPLACED), where
    assert names | {*ALIASES} == set(KNOWN_NAMES)
    assert {alias: each.name for each in tools.ALL for alias in each.aliases} == ALIASES


# -- what is listed ---------------------------------------------------------------------------------------------------


def test_the_default_lists_the_core_in_the_order_of_the_catalogue() -> None:
    assert names() == ["search_code", "write_file", "call_tool"]


def test_profiles_add_up_and_single_tools_come_on_top() -> None:
    assert names(profiles=("core", "code")) == ["search_code", "rename_symbol", "write_file", "call_tool"]
    assert names(tools=("clear_index",)) == ["search_code", "clear_index", "write_file", "call_tool"]
    assert names(profiles=(), tools=("rename_symbol",)) == ["rename_symbol"]


def test_an_older_name_is_listed_only_where_it_is_asked_for() -> None:
    assert "codebase_retrieval" not in names(profiles=("all",))
    assert names(profiles=("seeds",))[0] == "codebase_retrieval"
    assert names(tools=("codebase_retrieval",))[:2] == ["search_code", "codebase_retrieval"]


@pytest.mark.parametrize("excluded", ["search_code", "codebase_retrieval"])
def test_a_tool_is_excluded_under_all_its_names(excluded: str) -> None:
    left = names(profiles=("all", "seeds"), exclude=(excluded,))
    assert not {"search_code", "codebase_retrieval"} & set(left)


def test_an_older_name_is_listed_with_its_older_arguments() -> None:
    listed = wired(ToolSelection(profiles=("core", "seeds")))
    assert str(listed["codebase_retrieval"].description).endswith("Another name of search_code.")
    assert {"top_k", "include_paths", "max_tokens"} <= listed["codebase_retrieval"].input_schema["properties"].keys()
    assert {"limit", "include", "token_budget"} <= listed["search_code"].input_schema["properties"].keys()


def test_read_only_lists_nothing_that_writes_but_lets_the_index_be_rebuilt() -> None:
    assert names(profiles=("all",), read_only=True) == ["search_code", "rename_symbol", "index_workspace", "call_tool"]


def test_with_several_projects_every_tool_must_be_told_which_and_a_search_may_be() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    for name, enum, required in (
        ("write_file", ["api", "web"], ["project", "path"]),
        ("search_code", ["api", "web", "*"], ["path"]),
    ):
        several = add_project_parameter(name, schema, ("api", "web"))
        assert several["properties"]["project"]["enum"] == enum
        assert several["required"] == required
        assert add_project_parameter(name, schema, ("api",)) == schema
    assert "project" not in schema["properties"], "the schema itself stays as it is"


SHOWN = st.builds(
    ToolSelection,
    st.lists(st.sampled_from(sorted(PROFILES)), max_size=3).map(tuple),
    st.lists(st.sampled_from(PROFILES["all"]), max_size=3).map(tuple),
    st.lists(st.sampled_from(PROFILES["all"]), max_size=3).map(tuple),
    st.booleans(),
)


@given(SHOWN)
def test_what_is_listed_is_wanted_and_never_refused(shown: ToolSelection) -> None:
    rows = {each.name: each for each in CATALOGUE}
    found = [each.alias or each.name for each in list_tools(CATALOGUE, shown)]
    kept = [name for name in found if name in rows]
    assert kept == [name for name in rows if name in found], "in the order of the catalogue"
    for name in kept:
        assert name in shown.tools or any(name in PROFILES[profile] for profile in shown.profiles)
        assert not find_forbidding_option(shown, rows[name])


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (ToolSelection(), ""),
        (ToolSelection(profiles=("core", "plan"), tools=("get_file",), exclude=("edit_file",)), ""),
        (ToolSelection(profiles=("core", "coder")), "no profile is called coder; did you mean code?"),
        (
            ToolSelection(profiles=("everything",)),
            "no profile is called everything; there are core, edit, code, plan, review",
        ),
        (ToolSelection(tools=("read_fil",)), "no tool is called read_fil; did you mean read_file?"),
        (ToolSelection(exclude=("call-tool",)), "no tool is called call-tool; did you mean call_tool?"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(shown: ToolSelection, says: str) -> None:
    assert shown.find_unknown_name().startswith(says)
    assert bool(shown.find_unknown_name()) == bool(says)


# -- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", sorted(tokens.BUDGETS))
def test_a_profile_stays_inside_its_token_budget(profile: str) -> None:
    assert sum(map(tokens.bound, tokens.profile_texts(profile))) <= tokens.BUDGETS[profile]


def test_the_bound_is_never_below_the_true_count() -> None:
    texts = tokens.profile_texts("all")
    true = tokens.counted(texts)
    if true is None:
        pytest.skip("needs node and gpt-tokenizer in build/tokens: see scripts/tokens.py")
    bounds = [tokens.bound(text) for text in texts]
    assert [json.loads(text)["name"] for text, has, most in zip(texts, true, bounds, strict=True) if has > most] == []
    assert sum(bounds) <= 1.08 * sum(true)


def test_what_the_lists_leave_out_is_no_required_argument_and_stands_in_the_manifest() -> None:
    for each in tools.ALL:
        assert each.rare <= {parameter.name for parameter in each.parameters if not parameter.required}
        assert each.list_schema()["properties"].keys() == each.schema["properties"].keys() - each.rare


def test_every_name_of_the_documents_is_a_tool_that_can_be_called() -> None:
    assert [name for name in PROFILES["seeds"] if name not in {each.name for each in tools.ALL} | set(ALIASES)] == []
    assert {tools.find(name).name for name in PROFILES["seeds"]} >= set(PROFILES["seeds"]) - set(ALIASES)
