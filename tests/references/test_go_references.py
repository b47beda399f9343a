"""Uses of Go definitions are found through packages, receivers, embedding, results and struct literals."""

from __future__ import annotations

from context_engine.engine import Engine

PROJECT = {
    "go.mod": "module example.org/zoo\n",
    "cage/cage.go": (
        "package cage\n\n"
        "type Door struct{ Width int }\n\n"
        "func (d *Door) Shut() {}\n\n"
        "type Cage struct {\n\tDoor\n\tother *Door\n}\n\n"
        "func New() (*Cage, error) { return &Cage{}, nil }\n\n"
        "func (c *Cage) Other() *Door { return c.other }\n"
    ),
    "cage/window.go": "package cage\n\ntype Window struct{}\n\nfunc (w Window) Shut() {}\n",
    "main.go": (
        "package main\n\n"
        'import (\n\t"os"\n\n\t"example.org/zoo/cage"\n)\n\n'
        "func byResult() {\n\tfound, err := cage.New()\n\t_ = err\n\tfound.Shut()\n}\n\n"
        "func byChain(c *cage.Cage) {\n\tc.Other().Shut()\n}\n\n"
        "func byRange(all []cage.Door) {\n\tfor _, door := range all {\n\t\tdoor.Shut()\n\t}\n}\n\n"
        "func byCase(thing any) {\n\tswitch v := thing.(type) {\n\tcase *cage.Door:\n\t\tv.Shut()\n\t}\n}\n\n"
        "func ofWindow() {\n\tcage.Window{}.Shut()\n}\n\n"
        "func ofLibrary(f *os.File) {\n\tf.Shut()\n}\n"
    ),
}


def test_a_method_is_found_by_result_embedding_range_and_type_switch(engine: Engine) -> None:
    edges = engine.symbols.trace("Door.Shut", with_possible=True).edges
    assert {edge.source: edge.certainty for edge in edges} == dict.fromkeys(
        ("byResult", "byChain", "byRange", "byCase"), "exact"
    )


def test_a_method_of_another_type_keeps_its_own_callers(engine: Engine) -> None:
    assert [edge.source for edge in engine.symbols.trace("Window.Shut").edges] == ["ofWindow"]


def test_a_function_is_found_through_its_package(engine: Engine) -> None:
    assert [(edge.source, edge.certainty) for edge in engine.symbols.trace("New").edges] == [("byResult", "exact")]
