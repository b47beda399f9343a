"""Uses of Python definitions are found by scopes, imports and types, and each says how certain it is."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.uses import callers, exact

PROJECT = {
    "zoo/__init__.py": "from zoo.engine import Engine as Engine\nfrom zoo.cages import *\n",
    "zoo/engine.py": (
        "import re\n"
        "from functools import cached_property\n\n"
        "WORDS = re.compile('a')\n\n\n"
        "class Engine:\n"
        "    def search(self, text): ...\n\n"
        "    def again(self):\n"
        "        return self.search('x')\n\n"
        "    @cached_property\n"
        "    def cage(self) -> 'Cage':\n"
        "        return Cage()\n\n\n"
        "class Fast(Engine):\n"
        "    def search(self, text):\n"
        "        return super().search(text)\n\n\n"
        "class Cage:\n"
        "    def lock_door(self): ...\n\n"
        "    def close(self): ...\n"
    ),
    "zoo/cages.py": "from zoo.engine import Cage\n\n\ndef build() -> list[Cage]:\n    return [Cage()]\n",
    "zoo/users.py": (
        "import zoo\n"
        "from zoo.engine import WORDS, Engine as Motor, Fast\n\n\n"
        "def by_annotation(motor: Motor | None):\n"
        "    motor.search('a')\n\n\n"
        "def by_constructor():\n"
        "    fast = Fast()\n"
        "    fast.search('b')\n\n\n"
        "def by_package():\n"
        "    zoo.Engine().search('c')\n\n\n"
        "def by_property(motor: Motor):\n"
        "    motor.cage.lock_door()\n\n\n"
        "def by_loop():\n"
        "    for one in zoo.build():\n"
        "        one.lock_door()\n\n\n"
        "def of_a_pattern():\n"
        "    WORDS.search('d')\n\n\n"
        "def of_something(thing):\n"
        "    thing.search('e')\n"
        "    thing.lock_door()\n"
        "    thing.close()\n\n\n"
        "def narrowed(thing):\n"
        "    if isinstance(thing, Motor):\n"
        "        thing.search('f')\n"
    ),
    "tests/test_users.py": (
        "from zoo.users import by_annotation, by_loop\n\n\ndef test_it():\n    by_annotation(None)\n    by_loop()\n"
    ),
}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Engine.search", exact("again search by_annotation by_package narrowed") | {"of_something": "possible"}),
        ("Fast.search", exact("by_constructor") | {"of_something": "possible"}),
        ("Cage.lock_door", exact("by_property by_loop") | {"of_something": "likely"}),
        ("Cage.close", {"of_something": "possible"}),  # built-in types have the name, too
    ],
)
def test_a_method_is_found_by_the_type_of_its_receiver(engine: Engine, name: str, found: dict[str, str]) -> None:
    assert callers(engine, name, with_possible=True) == found
    sure = {source: certainty for source, certainty in found.items() if certainty != "possible"}
    assert (callers(engine, name), engine.symbols.trace(name).possible) == (sure, len(found) - len(sure))


def test_references_include_imports_under_other_names(engine: Engine) -> None:
    found = engine.symbols.trace("Engine", "references").edges
    assert {(edge.path, edge.kind) for edge in found} >= {("zoo/users.py", "import"), ("zoo/users.py", "type")}


def test_implementations_are_the_overriding_methods_and_the_subclasses(engine: Engine) -> None:
    assert [edge.source for edge in engine.symbols.trace("Engine.search", "implementations").edges] == ["Fast.search"]
    assert [edge.source for edge in engine.symbols.trace("Engine", "implementations").edges] == ["Fast"]


def test_impact_follows_the_users_of_the_symbol_and_names_the_tests(engine: Engine) -> None:
    trace = engine.symbols.trace("Cage.lock_door", "impact")
    assert [(edge.source, edge.depth) for edge in trace.edges] == [
        ("by_property", 1), ("by_loop", 1), ("of_something", 1),
    ]  # fmt: skip
    assert trace.tests == ("tests/test_users.py",)


def test_the_hierarchy_lists_bases_and_what_is_below(engine: Engine) -> None:
    assert [edge.source for edge in engine.symbols.trace("Fast", "hierarchy").edges] == ["Engine"]
    assert [edge.source for edge in engine.symbols.trace("Fast.search", "hierarchy").edges] == ["Engine.search"]
    assert [edge.source for edge in engine.symbols.trace("Engine", "hierarchy").edges] == ["Fast"]
