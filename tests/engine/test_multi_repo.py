"""Several repositories asked as one: one ranking over all of them, each told apart, each as fresh as it is, none left out in silence."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from context_engine import tools
from context_engine.engine import Engine
from context_engine.errors import FileNotFound, InvalidPath, NotIndexed
from context_engine.model import Filter, Query, TextQuery
from context_engine.multi_repo import MultiRepo
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.mcp_server import wire_tool
from context_engine.server.profiles import MULTI_PROJECT_TOOLS, ToolSelection, list_tools
from context_engine.server.projects import find_project_path
from context_engine.tools import Call
from tests.support.engines import indexed, open_engine
from tests.support.trees import tree

WEB = {
    "src/auth.py": 'def hash_password(word):\n    """Hash a password with a salt."""\n    return word\n',
    "src/shop.py": "def total(prices):\n    return sum(prices)\n",
    "README.md": "# Web\n\nA shop.\n",
}
API = {
    "src/auth.py": "def login(user):\n    return user\n",
    "src/orders.py": 'class Order:\n    """An order of the shop."""\n\n    def total(self):\n        return 0\n',
    "README.md": "# Api\n\nOrders of the shop.\n",
}


@pytest.fixture
def both(tmp_path: Path) -> Iterator[dict[str, Engine]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(indexed(tree(tmp_path / name, files)))
            for name, files in (("web", WEB), ("api", API))
        }


def told(across: MultiRepo, name: str, **arguments: object) -> str:
    return tools.call(across, name, arguments).text  # ty: ignore[invalid-argument-type] - answers as an Engine does


def test_hits_of_all_repositories_are_ranked_together_and_say_where_they_are_from(both: dict[str, Engine]) -> None:
    answer = MultiRepo(both).search.find(Query("orders of the shop"))
    assert {hit.project for hit in answer.hits} == {"web", "api"}
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert answer.hits[0].project == "api"
    assert all(hit.chunk.path.startswith(f"{hit.project}:") for hit in answer.hits)
    assert answer.freshness == "fresh"


def test_the_joint_ranking_is_that_of_one_repository_with_the_same_files(
    tmp_path: Path, both: dict[str, Engine]
) -> None:
    """The same statistics, hence the same order: what joins repositories adds nothing of its own."""
    files = {f"web-{path}": text for path, text in WEB.items() if "/" not in path}
    files |= {path: text for path, text in WEB.items() if "/" in path}
    other = {"lib/orders.py": API["src/orders.py"]}
    with ExitStack() as stack:
        one, left, right = (
            stack.enter_context(indexed(tree(tmp_path / name, content)))
            for name, content in (("one", files | other), ("left", files), ("right", other))
        )
        across = MultiRepo({"left": left, "right": right})
        for text in ("total of an order", "shop", "hash_password", "class Order"):
            joint = [(hit.chunk.path.partition(":")[2], hit.chunk.span) for hit in across.search.find(Query(text)).hits]
            assert joint == [(hit.chunk.path, hit.chunk.span) for hit in one.search.find(Query(text)).hits], text


def test_filters_mean_the_paths_inside_each_repository(both: dict[str, Engine]) -> None:
    answer = MultiRepo(both).search.find(Query("total shop", filter=Filter(include_paths=("src/**",))))
    assert {hit.chunk.path for hit in answer.hits} <= {
        f"{name}:src/{file}.py" for name in both for file in ("auth", "shop", "orders")
    }
    assert answer.hits
    readme = MultiRepo(both).search.find(Query("shop", filter=Filter(include_paths=("README.md",))))
    assert {hit.chunk.path for hit in readme.hits} == {"web:README.md", "api:README.md"}


def test_an_edit_in_one_repository_is_found_and_only_that_one_is_told(both: dict[str, Engine], tmp_path: Path) -> None:
    across = MultiRepo(both)
    across.search.find(Query("shop"))
    (tmp_path / "api" / "src" / "fresh.py").write_text("def zanzibar():\n    return 1\n")
    ends = time.monotonic() + 30
    answer = across.search.find(Query("zanzibar"))
    while not answer.hits and time.monotonic() < ends:  # an answer waits for a look at the files, but not for ever
        answer = across.search.find(Query("zanzibar"))
    assert [hit.chunk.path for hit in answer.hits] == ["api:src/fresh.py"]
    assert answer.freshness in ("fresh", "api: 1 file edited since index; others fresh")


def test_one_without_an_index_is_told_and_the_others_answer(both: dict[str, Engine], tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "new", WEB)) as new:
        answer = MultiRepo(both | {"new": new}, {"gone": "not open: there is no folder"}).search.find(Query("shop"))
        assert answer.hits
        assert answer.freshness == "new: no index; gone: not open: there is no folder; others fresh"
        with pytest.raises(NotIndexed):
            MultiRepo({"new": new}).search.find(Query("shop"))


def test_a_question_puts_its_files_first_in_every_index_that_is_built(both: dict[str, Engine], tmp_path: Path) -> None:
    assert MultiRepo(both).search.hurry("orders of the shop"), "all indexes are complete"
    long = "    return zebra  # black and white\n" * 120
    many = {f"lib/part_{number:04}.py": f"def part_{number}():\n{long}" for number in range(1_500)}
    root = tree(tmp_path / "zoo", many | {"zoo/keeper.py": "def feed_aardvarks(): ...\n"})
    with open_engine(root) as zoo:
        zoo.index.update_in_background()
        across = MultiRepo(both | {"zoo": zoo})
        assert across.search.hurry("feed_aardvarks", wait_s=60)
        assert across.search.find(Query("feed_aardvarks")).hits[0].chunk.path == "zoo:zoo/keeper.py"
        assert [row.path for row in across.symbols.find("feed_aardvarks").definitions] == ["zoo:zoo/keeper.py"]


def test_a_definition_is_found_wherever_it_is(both: dict[str, Engine]) -> None:
    found = MultiRepo(both).symbols.find("total")
    assert [row.path for row in found.definitions] == ["web:src/shop.py", "api:src/orders.py"], "shallower first"
    assert found.total == 2
    assert [row.path for row in MultiRepo(both).symbols.find("total", path="api:src").definitions] == [
        "api:src/orders.py"
    ]
    assert [row.path for row in MultiRepo(both).symbols.find("total", path="src/shop.py").definitions] == [
        "web:src/shop.py"
    ]
    assert MultiRepo(both).symbols.find("hash_pasword").near


def test_texts_are_counted_in_all_and_shown_with_their_repository(both: dict[str, Engine]) -> None:
    across = MultiRepo(both)
    scan = across.text_search.scan(TextQuery(("def ",)))
    alone = [engine.text_search.scan(TextQuery(("def ",))) for engine in both.values()]
    assert (scan.lines, len(scan.files)) == (sum(each.lines for each in alone), sum(len(each.files) for each in alone))
    shown = told(across, "search_files", query="def total", path="src")
    assert "web:src/shop.py\n1:def total(prices):" in shown
    assert "api:src/orders.py\n4:    def total(self):" in shown
    assert "web:src/shop.py" not in told(across, "search_files", query="def total", path="api:src")
    assert "0 matches" in told(across, "search_files", query="nothing_such")
    with pytest.raises(FileNotFound):
        across.text_search.scan(TextQuery(("x",), under="nowhere"))


def test_a_page_of_texts_goes_on_over_repositories(both: dict[str, Engine]) -> None:
    across, seen, cursor = MultiRepo(both), [], ""
    for _ in range(9):
        page = told(across, "search_files", query="def ", limit=1, cursor=cursor)
        seen += [line for line in page.splitlines() if ":" in line and line[0].isdigit()]
        if "cursor " not in page:
            break
        cursor = page.rpartition("cursor ")[2].strip()
    assert len(seen) == len(set(seen)) == 4


def test_rows_name_the_project_beside_the_path_in_it(both: dict[str, Engine]) -> None:
    row = json.loads(told(MultiRepo(both), "codebase_retrieval", query="hash_password"))["results"][0]
    assert (row["project"], row["path"]) == ("web", "src/auth.py")


def test_what_teams_know_is_asked_together(both: dict[str, Engine], tmp_path: Path) -> None:
    for name, engine in both.items():
        tools.call(engine, "add_memory", {"category": "decisions", "content": f"Retries of {name} stop after three."})
    found = json.loads(told(MultiRepo(both), "context_search", query="retries stop", limit=5))
    assert {row["project"] for row in found["results"]} >= {"web", "api"}


def test_a_file_is_read_by_the_name_that_answers_give_it(both: dict[str, Engine]) -> None:
    assert MultiRepo(both).files.read("web:src/auth.py").text == WEB["src/auth.py"]
    with pytest.raises(InvalidPath, match="which repository"):
        MultiRepo(both).files.read("src/auth.py")


# -- through the gate -------------------------------------------------------------------------------------------------


@pytest.fixture
def gate(both: dict[str, Engine]) -> ToolDispatcher:
    names = {name: f"/{name}" for name in both}
    return ToolDispatcher(
        lambda project: both[find_project_path(names, project)[1:]],
        selection=ToolSelection(("all",)),
        project_names=lambda: tuple(both),
    )


def asked(gate: ToolDispatcher, name: str, **arguments: object) -> str:
    return gate.call(name, arguments, Call()).reply.text


def test_a_path_of_an_answer_can_be_read_without_naming_the_project_again(gate: ToolDispatcher) -> None:
    assert "def login" in asked(gate, "read_file", path="api:src/auth.py")
    assert "INVALID_ARGUMENT" in asked(gate, "read_file", path="src/auth.py")
    assert "INVALID_ARGUMENT" in asked(gate, "read_file", path="other:src/auth.py")


def test_nothing_is_written_into_a_clone(tmp_path: Path) -> None:
    root = tree(tmp_path / "kept" / "clones" / "lib-1", WEB)
    with open_engine(root, cache_folder=tmp_path / "kept") as engine:
        gate = ToolDispatcher(lambda _: engine, selection=ToolSelection(("all",)))
        for name, arguments in (
            ("write_file", {"path": "x.py", "contents": "1"}),
            ("add_memory", {"category": "facts", "content": "A fact about it."}),
        ):
            assert "ACCESS_DENIED" in asked(gate, name, **arguments)
        assert not (root / ".context-engine" / "memories").exists()
        assert not (root / "x.py").exists()


def test_the_lists_say_which_tools_need_no_project() -> None:
    selection = ToolSelection(("all", "seeds"), tools=("find_symbol", "trace"))
    wired = [wire_tool(tool, selection, ("web", "api")) for tool in list_tools(tools.ALL, selection)]
    shown = {one.name: one.input_schema for one in wired}
    for name, schema in shown.items():
        searches_all = tools.find(name).name in MULTI_PROJECT_TOOLS
        assert ("project" in schema.get("required", ())) == (not searches_all)
        assert ("*" in schema["properties"]["project"]["enum"]) == searches_all
    assert frozenset(shown) >= MULTI_PROJECT_TOOLS
