"""Uses of C# definitions are found through namespaces, usings, types, partial classes and extension methods."""

from __future__ import annotations

from context_engine.engine import Engine

PROJECT = {
    "Zoo/Door.cs": (
        "namespace Zoo\n{\n"
        "    public partial class Door\n    {\n"
        "        public void Shut() { Oil(); }\n"
        "        public Door Next { get; set; }\n"
        "        public static Door Make() { return new Door { Next = null }; }\n"
        "    }\n"
        "    public static class Extensions\n    {\n"
        "        public static void Slam(this Door door, int times = 1) { door.Shut(); }\n"
        "    }\n}\n"
    ),
    "Zoo/Door.Oil.cs": "namespace Zoo\n{\n    public partial class Door\n    {\n        void Oil() {}\n    }\n}\n",
    "Park/Keeper.cs": (
        "using Zoo;\nusing System.Collections.Generic;\n"
        "namespace Park;\n"
        "class Keeper\n{\n"
        "    private readonly Door _door = Door.Make();\n"
        "    void ByField() { _door.Next.Shut(); }\n"
        "    void ByExtension() { _door.Slam(2); }\n"
        "    void ByLoop(List<Door> all) { foreach (var door in all) { door?.Shut(); } }\n"
        "    void ByLambda(List<Door> all) { all.ForEach(door => door.Shut()); }\n"
        "    void OfOther(Window window) { window.Shut(); }\n"
        "}\n"
        "class Window { public void Shut() {} }\n"
    ),
}


def test_a_method_is_found_by_field_property_loop_and_lambda(engine: Engine) -> None:
    edges = engine.symbols.trace("Door.Shut").edges
    names = ("Keeper.ByField", "Keeper.ByLoop", "Keeper.ByLambda", "Extensions.Slam")
    found = {edge.source.removeprefix("Zoo.").removeprefix("Park."): edge.certainty for edge in edges}
    assert found == dict.fromkeys(names, "exact")


def test_an_extension_method_is_found_by_the_type_of_its_object(engine: Engine) -> None:
    edges = engine.symbols.trace("Slam").edges
    assert [(edge.line, edge.certainty) for edge in edges] == [(8, "exact")]


def test_the_parts_of_a_partial_class_see_each_other(engine: Engine) -> None:
    edges = engine.symbols.trace("Oil").edges
    assert [(edge.path, edge.certainty) for edge in edges] == [("Zoo/Door.cs", "exact")]


def test_a_property_is_found_in_an_object_initializer(engine: Engine) -> None:
    edges = engine.symbols.trace("Next").edges
    assert {(edge.path, edge.line, edge.certainty) for edge in edges} == {
        ("Zoo/Door.cs", 7, "exact"), ("Park/Keeper.cs", 7, "exact"),
    }  # fmt: skip
