"""Uses of Kotlin definitions are found through packages, companions, extensions, lambdas and tests of types."""

from __future__ import annotations

from context_engine.engine import Engine

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


def test_a_method_is_found_by_field_chain_loop_lambda_receiver_and_test_of_a_type(engine: Engine) -> None:
    edges = engine.symbols.trace("Door.shut").edges
    found = {edge.source.rpartition(".")[2]: edge.certainty for edge in edges}
    names = ("byField", "byChain", "byLoop", "byLambda", "byReceiver", "byTest", "slam")
    assert found == dict.fromkeys(names, "exact")


def test_an_extension_is_found_by_the_type_of_its_receiver(engine: Engine) -> None:
    edges = engine.symbols.trace("slam").edges
    assert [(edge.source, edge.certainty) for edge in edges] == [("Keeper.byExtension", "exact")]


def test_a_function_of_a_companion_is_found_by_the_name_of_its_class(engine: Engine) -> None:
    edges = engine.symbols.trace("Door.make").edges
    assert {(edge.source, edge.certainty) for edge in edges} == {("build", "exact"), ("Keeper.byChain", "exact")}
