"""Uses of Kotlin definitions are found through packages, companions, extensions, lambdas and tests of types."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.uses import callers, exact

PROJECT = {
    "zoo/Door.kt": (
        "package zoo\n"
        "open class Thing\n"
        'class Door(val next: Door?, var label: String = "x") : Thing() {\n'
        "    fun shut(times: Int = 1) {\n    }\n"
        "    fun self(): Door = this\n"
        "    companion object {\n"
        "        fun make(): Door {\n            return Door(next = null)\n        }\n"
        "    }\n"
        "}\n"
        "fun Door.slam() {\n    shut(2)\n}\n"
        "fun build(block: Door.() -> Unit): Door {\n    return Door.make().apply(block)\n}\n"
    ),
    "park/Keeper.kt": (
        "package park\n"
        "import zoo.Door as Gate\n"
        "import zoo.*\n"
        "class Keeper(private val gate: Gate) {\n"
        "    fun byField() {\n        gate.next?.shut()\n    }\n"
        "    fun byChain() {\n        Door.make().self().shut()\n    }\n"
        "    fun byLoop(all: List<Door>) {\n        for (door in all) {\n            door.shut()\n        }\n    }\n"
        '    fun byLambda(all: List<Door>) {\n        all.filter { it.label == "a" }.forEach { it.shut() }\n    }\n'
        "    fun byReceiver() {\n        build { shut() }\n    }\n"
        "    fun byTest(thing: Thing) {\n        if (thing is Door) {\n            thing.shut()\n        }\n    }\n"
        "    fun byExtension() {\n        gate.slam()\n    }\n"
        "    fun ofOther(window: Window) {\n        window.shut()\n    }\n"
        "}\n"
        "class Window {\n    fun shut() {\n    }\n}\n"
    ),
}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Door.shut", exact("byField byChain byLoop byLambda byReceiver byTest slam")),
        ("slam", exact("byExtension")),
        ("Door.make", exact("build byChain")),  # of the companion
    ],
)
def test_a_function_is_found_by_the_type_of_its_receiver(engine: Engine, name: str, found: dict[str, str]) -> None:
    assert callers(engine, name) == found
