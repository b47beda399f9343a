"""A search within a budget shows whole places where they fit, and else the part of them that answers."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from context_engine import tools
from context_engine.context.budget import count_beginning
from context_engine.engine import Engine
from context_engine.index.live_index import LiveIndex
from context_engine.model import Query
from context_engine.text import estimate_tokens
from tests.support.engines import indexed
from tests.support.trees import tree

FILLER = "".join(f"    gauge_{n} = read_gauge({n})\n" for n in range(14))


def station(name: str) -> str:
    return f"def run_{name}(tank):\n{FILLER}    drain_overflow(tank, '{name}')\n{FILLER}    return tank\n"


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    files = {f"plant/{name}.py": station(name) for name in ("north", "south", "east", "west", "harbor")}
    with indexed(tree(tmp_path_factory.mktemp("plants") / "w", files), staleness_ms=600_000) as engine:
        yield engine


def rows(engine: Engine, token_budget: int) -> list[dict[str, Any]]:
    reply = tools.call(
        engine,
        "search_code",
        {"query": "where is the overflow of a tank drained", "token_budget": token_budget, "format": "json"},
    )
    return [row for row in json.loads(reply.text)["results"] if "\n" in row["content"]]


def test_a_small_budget_shows_the_answering_lines_of_more_places(plant: Engine) -> None:
    whole, *parts = rows(plant, 800)
    assert whole["content"].count("\n") > 25
    assert len(parts) > 1
    assert all("drain_overflow" in row["content"] and row["content"].count("\n") < 15 for row in parts)


def test_a_part_names_the_lines_of_the_whole_place(plant: Engine) -> None:
    part = rows(plant, 800)[1]
    assert part["chunk"] == "1-31"
    assert part["lines"] != part["chunk"]


def test_a_large_budget_shows_all_places_whole(plant: Engine) -> None:
    shown = rows(plant, 8_000)
    assert len(shown) == 5
    assert all("chunk" not in row and row["content"].count("\n") > 25 for row in shown)


QUESTION = "where is the overflow of a tank drained"


@pytest.fixture(scope="module")
def stations(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    """Yield two files with three matching functions each, and four files with one."""
    files = {
        f"plant/{name}.py": "\n\n".join(map(station, (name, f"{name}_b", f"{name}_c"))) for name in ("north", "south")
    }
    files |= {f"plant/{name}.py": station(name) for name in ("east", "west", "harbor", "canal")}
    with indexed(tree(tmp_path_factory.mktemp("stations") / "w", files), staleness_ms=600_000) as engine:
        yield engine


def test_places_of_a_file_are_next_to_each_other(stations: Engine) -> None:
    text = tools.call(stations, "search_code", {"query": QUESTION, "token_budget": 8_000}).text
    paths = [line.split()[1].partition(":")[0] for line in text.split("\n") if line.startswith("@@ ")]
    files = list(dict.fromkeys(paths))
    assert len(files) == 6 and paths.count(files[0]) == 3
    assert paths == [path for path in files for _ in range(paths.count(path))]


def test_further_places_are_in_the_row_of_their_file(stations: Engine) -> None:
    reply = tools.call(stations, "search_code", {"query": QUESTION, "token_budget": 8_000, "format": "json"})
    answer = json.loads(reply.text)
    assert "more" not in answer and len({row["path"] for row in answer["results"]}) == len(answer["results"]) == 6
    below = [place for row in answer["results"] for place in row.get("more", ())]
    assert len(below) == 4
    assert all("path" not in place and "drain_overflow" in place["content"] for place in below)


@pytest.mark.parametrize("budget", range(100, 3_000, 150))
def test_no_place_is_shown_twice_or_without_its_code_whatever_the_budget(stations: Engine, budget: int) -> None:
    asked = {"query": QUESTION, "token_budget": budget, "format": "json"}
    results = json.loads(tools.call(stations, "search_code", asked).text)["results"]
    shown = [
        (row["path"], place["lines"], place["content"]) for row in results for place in (row, *row.get("more", ()))
    ]
    assert len(shown) == len({(path, lines) for path, lines, _ in shown})
    assert all(content for _, _, content in shown)


@pytest.mark.parametrize(
    ("detail", "shown"),
    [("balanced", "def later_27("), ("rich", "def later_27("), ("fast", ":109-110 of 1-114 later_27")],
)
@pytest.mark.parametrize("question", ["later_27", "why does later_27 return so late?"])
def test_a_row_about_a_named_symbol_shows_its_definition(
    tmp_path: Path, question: str, detail: str, shown: str
) -> None:
    functions = [f"def later_{number}(amount):\n    return later_{number + 1}(amount)\n" for number in range(40)]
    with indexed(tree(tmp_path / "w", {"siblings.py": "\n\n".join(functions)})) as engine:
        text = tools.call(engine, "search_code", {"query": question, "detail": detail}).text
    assert shown in text


@pytest.mark.parametrize("question", ["rotate_left", "what does rotate_left do", "bits.rotate_left"])
@pytest.mark.parametrize("length", [3, 30])
def test_a_named_definition_is_shown_whole_from_its_first_line_whatever_calls_it_before(
    tmp_path: Path, question: str, length: int
) -> None:
    calls = "\n".join(f"def turn_{number}(bits):\n    return rotate_left(bits, {number})\n" for number in range(12))
    own = "# Turns bits.\ndef rotate_left(bits, count):\n" + "    bits = bits << count\n" * length + "    return bits"
    with indexed(tree(tmp_path / "w", {"bits.py": f"{calls}\n{own}\n\n{calls.replace('turn', 'spin')}"})) as engine:
        assert own in tools.call(engine, "search_code", {"query": question}).text


@pytest.mark.parametrize("question", ["bit.tohex", "where is bit.tohex defined", "tests_bits"])
def test_no_role_sinks_the_only_file_with_a_word(tmp_path: Path, question: str) -> None:
    files = {f"src/bit_{number}.c": f"int bit_{number}(int bit) {{ return bit; }}\n" * 9 for number in range(12)}
    files |= {"deps/lua/lua_bit.c": 'static const Reg names[] = {{"tohex", bit_hex}};\nvoid tests_bits() {}\n'}
    with indexed(tree(tmp_path / "w", files)) as engine:
        assert "@@ deps/lua/lua_bit.c" in tools.call(engine, "search_code", {"query": question}).text[:80]


@pytest.mark.parametrize("tool", ["search_code", "get_context"])
@pytest.mark.parametrize("budget", [1_000, 1_200, 1_500, 1_800])
def test_a_budget_is_spent_and_shows_no_less_than_the_beginning_of_the_default_reply(
    stations: Engine, tool: str, budget: int
) -> None:
    reply, default, everything = (
        tools.call(stations, tool, {"query": QUESTION} | asked).text
        for asked in ({"token_budget": budget}, {}, {"token_budget": 20_000})
    )
    assert estimate_tokens(everything) > budget
    assert 0.95 * budget <= estimate_tokens(reply) <= budget + 60  # the head and the notes of a search are not counted
    beginning = default[: count_beginning(len(default), lambda count: estimate_tokens(default[:count]) <= budget)]
    assert reply.count("drain_overflow(") >= beginning.count("drain_overflow(")


@pytest.mark.parametrize("asked", [{}, {"detail": "fast"}, {"token_budget": 100}, {"format": "json"}, {"top_k": 1}])
def test_a_file_that_was_emptied_since_it_was_indexed_is_shown_without_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    monkeypatch.setattr(LiveIndex, "index_shown", lambda *_: False)  # as on a machine too busy to take it in
    with indexed(tree(tmp_path / "w", {"north.py": station("north")}), staleness_ms=600_000) as engine:
        engine.search.find(Query(QUESTION))
        (tmp_path / "w" / "north.py").write_text("")
        name = "semantic_search" if "top_k" in asked else "search_code"
        assert "north.py" in tools.call(engine, name, {"query": QUESTION, **asked}).text


def test_impact_shows_each_caller_before_the_callers_of_that_one(tmp_path: Path) -> None:
    names = ("first", "second")
    files = {"base.py": "def base():\n    return 1\n"}
    for name in names:
        files[f"{name}.py"] = f"from base import base\n\n\ndef {name}():\n    return base()\n"
        files[f"use_{name}.py"] = f"from {name} import {name}\n\n\ndef use_{name}():\n    return {name}()\n"
    with indexed(tree(tmp_path / "w", files)) as engine:
        reply = tools.call(engine, "symbols", {"name": "base", "relation": "impact"}).text
    places = [reply.index(f"{way}{name} ") for name in names for way in (" ", " use_")]
    assert places == sorted(places), reply
