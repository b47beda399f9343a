"""Uses of Java definitions are found through packages, imports, types of receivers, inheritance and arity."""

from __future__ import annotations

from context_engine.engine import Engine

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


def test_a_method_is_found_by_field_chain_loop_lambda_and_inheritance(engine: Engine) -> None:
    edges = engine.symbols.trace("Door.shut").edges
    calls = {edge.source: edge.certainty for edge in edges if edge.path != "src/org/zoo/Door.java"}
    names = ("Gate.close", "Gate.closeAll", "Gate.each", "Keeper.byField", "Keeper.byChain", "Keeper.byName")
    assert calls == dict.fromkeys((*names, "Keeper.byCount"), "exact")


def test_a_field_of_the_same_name_is_not_a_method(engine: Engine) -> None:
    edges = engine.symbols.trace("Gate.shut").edges
    assert [(edge.source, edge.kind) for edge in edges] == [("Gate.close", "read")]


def test_a_method_of_another_class_keeps_its_own_callers(engine: Engine) -> None:
    assert [edge.source for edge in engine.symbols.trace("Window.shut").edges] == ["Keeper.ofOther"]


def test_a_static_import_leads_to_its_member(engine: Engine) -> None:
    edges = engine.symbols.trace("make").edges
    assert {(edge.source, edge.kind) for edge in edges} == {("Keeper.byChain", "call"), ("Keeper.byName", "call")}


def test_a_class_is_found_through_its_package_and_a_star_import(engine: Engine) -> None:
    edges = engine.symbols.trace("Gate").edges
    assert [(edge.path, edge.line, edge.certainty) for edge in edges] == [("src/org/park/Keeper.java", 5, "exact")]
