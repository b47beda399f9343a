"""Uses of C# definitions are found through namespaces, usings, types, partial classes and extension methods."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.uses import callers, exact

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


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Door.Shut", exact("ByField ByLoop ByLambda Slam")),
        ("Slam", exact("ByExtension")),
        ("Oil", exact("Shut")),  # of the other part of a partial class
        ("Next", exact("Make ByField")),  # in the initializer of an object
    ],
)
def test_a_member_is_found_by_the_type_of_its_receiver(engine: Engine, name: str, found: dict[str, str]) -> None:
    assert callers(engine, name) == found
