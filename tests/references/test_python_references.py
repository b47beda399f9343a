"""Uses of Python definitions are found by scopes, imports and types, and each says how certain it is."""

from __future__ import annotations

from context_engine.engine import Engine

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


def callers(engine: Engine, name: str, *, with_possible: bool = False) -> dict[str, str]:
    return {edge.source: edge.certainty for edge in engine.symbols.trace(name, with_possible=with_possible).edges}


def test_a_caller_is_found_by_annotation_inheritance_package_and_isinstance(engine: Engine) -> None:
    assert callers(engine, "Engine.search") == dict.fromkeys(
        ("Engine.again", "Fast.search", "by_annotation", "by_package", "narrowed"), "exact"
    )


def test_a_call_of_a_subclass_belongs_to_the_override(engine: Engine) -> None:
    assert callers(engine, "Fast.search") == {"by_constructor": "exact"}


def test_a_call_on_a_thing_of_another_type_is_not_even_possible(engine: Engine) -> None:
    shown = callers(engine, "Engine.search", with_possible=True)
    assert "of_a_pattern" not in shown and shown["of_something"] == "possible"


def test_what_is_only_possible_is_counted_and_not_shown(engine: Engine) -> None:
    assert engine.symbols.trace("Engine.search").possible == 1


def test_a_property_and_the_elements_of_a_list_have_their_types(engine: Engine) -> None:
    assert callers(engine, "Cage.lock_door") == {"by_property": "exact", "by_loop": "exact", "of_something": "likely"}


def test_a_name_that_built_in_types_have_too_is_not_likely(engine: Engine) -> None:
    assert callers(engine, "Cage.close") == {}
    assert callers(engine, "Cage.close", with_possible=True) == {"of_something": "possible"}


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
