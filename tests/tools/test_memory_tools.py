"""The tools of memory answer in JSON: what was done, what is known, and what to do next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_engine.context.project_knowledge import QUOTED_FROM_REPOSITORY
from context_engine.errors import ContextEngineError
from context_engine.tools import find
from context_engine.tools.memory_tools import add_memory, delete_memory, list_memories, update_memory
from context_engine.tools.tool import Tool
from tests.support.remembering import FOLDER, Remembering

context_search = find("context_search")

CENTS = {"category": "decisions", "content": "Money is counted in cents, never in floats.", "title": "Cents"}


@pytest.fixture
def here(tmp_path: Path) -> Remembering:
    (tmp_path / "work").mkdir()
    return Remembering(tmp_path / "work")


def call(here: Remembering, tool: Tool, **arguments: object) -> dict[str, Any]:
    return json.loads(here.run(tool, **arguments).text)


def test_a_memory_is_added_listed_changed_and_deleted(here: Remembering) -> None:
    added = call(here, add_memory, **CENTS)
    assert added.keys() == {"ok", "id", "path", "action", "redactions", "indexed"}
    assert (added["action"], added["redactions"], added["indexed"]) == ("created", 0, True)
    assert call(here, add_memory, **CENTS)["action"] == "duplicate"
    (row,) = call(here, list_memories)["memories"]
    assert (row["id"], row["title"], row["status"], row["path"]) == (added["id"], "Cents", "active", added["path"])
    changed = call(here, update_memory, id=added["id"], priority="critical", tags="billing,money")
    assert changed["changed"] == ["tags", "priority"]
    deleted = call(here, delete_memory, id=added["id"], expected_version=changed["version"])
    assert deleted["content"] == CENTS["content"]
    assert call(here, list_memories)["total"] == 0


def test_arguments_are_understood_as_clients_send_them(here: Remembering) -> None:
    here.write("src/a.py", "x = 1\n")
    call(here, add_memory, **CENTS | {"category": "Decisions"}, linkedFiles='["src/a.py"]', dryRun="false", tags="a, b")
    (row,) = call(here, list_memories, linkedFile="src/a.py", limit="5", full="true")["memories"]
    assert (row["tags"], row["linked_files"], row["content"]) == (["a", "b"], ["src/a.py"], CENTS["content"])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (add_memory, CENTS | {"content": "x" * 5_001}),
        (add_memory, CENTS | {"content": ""}),
        (add_memory, CENTS | {"on_similar": "shrug"}),
        (add_memory, CENTS | {"wisdom": "yes"}),
        (list_memories, {"status": "odd"}),
        (list_memories, {"limit": 201}),
        (context_search, {"query": "ab"}),
        (context_search, {"query": "x" * 501}),
        (context_search, {"query": "money", "type": "opinion"}),
        (context_search, {"query": "money", "limit": 21}),
        (update_memory, {"id": "mem_no", "title": "x"}),
        (delete_memory, {"id": "mem_no"}),
    ],
)
def test_a_refusal_names_the_next_step_and_writes_nothing(here: Remembering, tool: Tool, arguments: dict) -> None:
    with pytest.raises(ContextEngineError) as refused:
        here.run(tool, **arguments)
    assert refused.value.suggestion
    assert list(here.folder.iterdir()) == []


def test_what_is_similar_is_shown_with_its_id(here: Remembering) -> None:
    first = call(here, add_memory, category="facts", content="The API of the shop and its proxy listen on port 3000")
    second = call(here, add_memory, category="facts", content="The API of the shop and its proxy listen on port 4000")
    (found,) = second["similar"]
    assert (found["id"], found["excerpt"][-4:]) == (first["id"], "3000")


def test_a_broken_file_is_a_row_with_its_error(here: Remembering) -> None:
    here.write(f"{FOLDER}/facts/broken.md", "---\nid: [\n---\nBody")
    listed = call(here, list_memories, status="all")
    assert (listed["total"], listed["memories"][0]["status"]) == (1, "invalid")
    assert "front matter cannot be read" in listed["memories"][0]["error"]
    assert call(here, list_memories)["next"] == "There are 1 invalid: `status: all` shows them."


def test_a_list_that_does_not_fit_goes_on_where_it_was_cut(here: Remembering) -> None:
    for number in range(12):
        call(here, add_memory, category="facts", content=f"Number {number} " + "word " * 900, onSimilar="allow")
    shown: list[str] = []
    cursor = ""
    for _ in range(12):
        listed = call(here, list_memories, full=True, cursor=cursor)
        shown += [row["id"] for row in listed["memories"]]
        if not (cursor := listed.get("next_cursor", "")):
            break
    assert len(shown) == len(set(shown)) == 12
    assert len(here.run(list_memories, full=True).text) <= 36_000


def test_context_search_answers_the_json_of_its_seed(here: Remembering) -> None:
    call(here, add_memory, **CENTS)
    here.learn({"AGENTS.md": "- Round money only in templates.\n"})
    found = call(here, context_search, query="money in cents")
    assert found.keys() == {"results", "query", "totalFound", "searchTime", "engine", "warnings", "note"}
    assert found["note"] == f"Contents are {QUOTED_FROM_REPOSITORY}."
    assert (found["query"], found["totalFound"], found["engine"]) == ("money in cents", 2, "lexical")
    first, second = found["results"]
    names = "id type title content module session date score source status links"
    assert first.keys() == {*names.split()}
    assert (first["type"], first["source"], first["title"]) == ("decision", "memory", "Cents")
    assert (second["type"], second["source"], second["links"]) == ("rule", "discovery", ["AGENTS.md:1@c0ffeec0ffee"])
    assert 1.0 >= first["score"] > second["score"] > 0.0


def test_context_search_takes_three_to_five_hundred_characters(here: Remembering) -> None:
    for query in ("tax", "x" * 500):
        assert call(here, context_search, query=query)["query"] == query


def test_context_search_changes_nothing(here: Remembering) -> None:
    call(here, add_memory, **CENTS)
    before = {path: path.read_bytes() for path in here.folder.rglob("*") if path.is_file()}
    first = call(here, context_search, query="money")["results"]
    assert call(here, context_search, query="money")["results"] == first
    assert {path: path.read_bytes() for path in here.folder.rglob("*") if path.is_file()} == before
    assert context_search.hints.read_only
    assert delete_memory.hints.destructive


def test_a_memory_is_of_the_module_that_its_tags_or_its_text_name(here: Remembering) -> None:
    text = "Token refresh fails when two tabs ask at once"
    call(here, add_memory, content=text, category="facts", subtype="issue", tags=["auth"])
    asked = {"query": "token refresh issue", "type": "issue"}
    assert [row["content"] for row in call(here, context_search, **asked, module="auth")["results"]] == [text]
    assert call(here, context_search, **asked, module="tabs")["totalFound"] == 1
    assert call(here, context_search, **asked, module="billing")["warnings"][-1:] == ["module billing removed 1"]
    assert "type rule removed 1" in call(here, context_search, query="token refresh", type="rule")["warnings"]


def test_an_answer_says_what_is_not_read_yet(here: Remembering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "find_unread", lambda: ["the files are still being read"])
    assert "the files are still being read" in call(here, context_search, query="anything")["warnings"]


def test_nothing_known_says_where_else_to_look(here: Remembering) -> None:
    assert "search_code" in call(here, context_search, query="anything")["next"]
    assert "add_memory" in call(here, list_memories)["next"]
