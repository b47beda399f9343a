"""Uses of Java definitions are found through packages, imports, types of receivers, inheritance and arity."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.uses import callers, exact

PROJECT = {
    "src/org/zoo/Door.java": (
        "package org.zoo;\n"
        "public class Door {\n"
        "    public void shut() {}\n"
        "    public void shut(int times) { shut(); }\n"
        "    public static Door make() { return new Door(); }\n"
        "    public Door next() { return this; }\n"
        "}\n"
    ),
    "src/org/zoo/Gate.java": (
        "package org.zoo;\n"
        "public class Gate extends Door {\n"
        "    int shut;\n"
        "    void close() { shut(); shut = 1; }\n"
        "    void closeAll(java.util.List<Door> all) { for (var door : all) { door.shut(); } }\n"
        "    void each(java.util.List<Door> all) { all.forEach(door -> door.shut()); }\n"
        "    Runnable later() { return new Runnable() { public void run() { shut(); } public void shut() {} }; }\n"
        "}\n"
    ),
    "src/org/park/Keeper.java": (
        "package org.park;\n"
        "import static org.zoo.Door.make;\n"
        "import org.zoo.*;\n"
        "class Keeper {\n"
        "    private Door door = new Gate();\n"
        "    void byField() { this.door.shut(); }\n"
        "    void byChain() { make().next().shut(); }\n"
        "    void byName() { org.zoo.Door.make().shut(); }\n"
        "    void byCount() { door.shut(2); }\n"
        "    void ofOther(Window window) { window.shut(); }\n"
        "}\n"
    ),
    "src/org/park/Window.java": "package org.park;\nclass Window { void shut() {} }\n",
}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Door.shut", exact("shut close closeAll each byField byChain byName byCount")),
        ("Gate.shut", exact("close")),  # a field of the same name is not a method
        ("Window.shut", exact("ofOther")),
        ("make", exact("byChain byName")),  # a static import leads to its member
    ],
)
def test_a_member_is_found_by_the_type_of_its_receiver(engine: Engine, name: str, found: dict[str, str]) -> None:
    assert callers(engine, name) == found


def test_a_class_is_found_through_its_package_and_a_star_import(engine: Engine) -> None:
    edges = engine.symbols.trace("Gate").edges
    assert [(edge.path, edge.line, edge.certainty) for edge in edges] == [("src/org/park/Keeper.java", 5, "exact")]
