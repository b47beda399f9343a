"""The graph of a small real project: where names are defined, who uses them, which file imports which."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.index.parsed_files import ParsedFileCache
from context_engine.references.symbol_graph import SymbolGraph
from tests.support.engines import GRAMMARS, LANGUAGES, indexed
from tests.support.trees import tree

PROJECT = {
    "zoo/__init__.py": "from zoo.keeper import Keeper\n",
    "zoo/keeper.py": (
        "from zoo.cats import feed_cat, Cat\n"
        "from . import dogs\n"
        "import json\n\n\n"
        "class Keeper:\n"
        "    def feed_all(self, animals):\n"
        "        for one in animals:\n"
        "            feed_cat(one)\n"
        "            dogs.walk(one)\n"
    ),
    "zoo/cats.py": (
        "import zoo.food\n\n\nclass Cat:\n    def purr(self): ...\n\n\ndef feed_cat(cat):\n    zoo.food.buy()\n    cat.purr()\n"
    ),
    "zoo/dogs.py": "def walk(dog):\n    walk(dog.friend)\n\n\ndef purr(): ...\n",
    "zoo/food.py": "from zoo import cats\n\n\ndef buy():\n    pass\n",
    "zoo2/keeper.py": "class Keeper: ...\n\n\nclass SubKeeper:\n    def feed_all(self): ...\n",
    "web/app.ts": "import { render } from './view'\n\nexport function start() {\n  render('zoo')\n}\n",
    "web/view.ts": "export function render(name: string) {\n  return name\n}\n",
    "README.md": "# Keeper\n\nfeed_cat is explained here.\n",
}


@pytest.fixture(scope="module")
def graph(engine: Engine) -> SymbolGraph:
    snapshot = engine.index.live.snapshot()
    assert snapshot is not None

    def read(path: str) -> bytes | None:
        place = engine.root / path
        return place.read_bytes() if place.is_file() else None

    return SymbolGraph(snapshot, ParsedFileCache(LANGUAGES, GRAMMARS, read))


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [
        ("purr", {}, ["zoo/dogs.py purr", "zoo/cats.py Cat.purr"]),  # shallow ones first
        *((spelled, {}, ["zoo/cats.py Cat.purr"]) for spelled in ("Cat.purr", "Cat::purr", "Cat#purr", "Cat.purr()")),
        ("Keeper.feed_all", {}, ["zoo/keeper.py Keeper.feed_all"]),  # not of SubKeeper
        ("feedCat", {}, ["zoo/cats.py feed_cat"]),
        ("cat", {}, ["zoo/cats.py Cat"]),
        ("feed_*", {}, ["zoo/cats.py feed_cat", "zoo/keeper.py Keeper.feed_all", "zoo2/keeper.py SubKeeper.feed_all"]),
        ("feed_*", {"kind": "function"}, ["zoo/cats.py feed_cat"]),
        ("Keeper", {"under": "zoo"}, ["zoo/keeper.py Keeper"]),
        ("Keeper", {"under": "zoo2/keeper.py"}, ["zoo2/keeper.py Keeper"]),
        ("Keeper", {}, ["zoo/keeper.py Keeper", "zoo2/keeper.py Keeper"]),  # and no heading
    ],
)
def test_a_name_leads_to_its_definitions(
    graph: SymbolGraph, name: str, asked: dict[str, str], found: list[str]
) -> None:
    assert [f"{one.path} {one.qualified}" for one in graph.definitions(name, **asked)] == found


@pytest.mark.parametrize("name", ["#purr", "Cat.#purr", "Cat#run", "Cat.run()"])
def test_a_private_member_of_javascript_is_found_by_its_own_name(tmp_path: Path, name: str) -> None:
    code = "class Cat {\n  #purr() { return 1 }\n  run() { return this.#purr() }\n}\n"
    with indexed(tree(tmp_path / "w", {"cat.js": code})) as engine:
        found = engine.symbols.find(name).definitions
    assert [one.qualified for one in found] == ["Cat.run" if "run" in name else "Cat.#purr"]


def test_calls_of_private_members_of_javascript_lead_to_them(tmp_path: Path) -> None:
    code = "class Cat {\n  #purrLoud() { return 1 }\n  run() { return this.#purrLoud() }\n}\n"
    with indexed(tree(tmp_path / "w", {"cat.ts": code})) as engine:
        callers = engine.symbols.trace("Cat.#purrLoud", "callers").edges
        callees = engine.symbols.trace("Cat.run", "callees").edges
    assert [(edge.line, edge.source) for edge in callers] == [(3, "Cat.run")]
    assert [edge.target for edge in callees] == ["Cat.#purrLoud (cat.ts:2)"]


def test_imports_lead_to_files_of_the_project_or_nowhere(graph: SymbolGraph) -> None:
    files = {target: found for target, _, found in graph.imports("zoo/keeper.py")}
    assert files["zoo.cats"] == ["zoo/cats.py"]
    assert files["json"] == []
    assert "zoo/dogs.py" in files["."]
    assert graph.imports("web/app.ts") == [("./view", 1, ["web/view.ts"])]


def test_importers_are_the_other_way_round(graph: SymbolGraph) -> None:
    paths = list(PROJECT)
    forward = {(path, file) for path in paths for _, _, found in graph.imports(path) for file in found}
    backward = {(other, path) for path in paths for other, _, _ in graph.importers(path)}
    assert backward == forward
    assert ("zoo/keeper.py", "zoo/cats.py") in forward and ("web/app.ts", "web/view.ts") in forward
