"""Uses of Go definitions are found through packages, receivers, embedding, results and struct literals."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.uses import callers, exact

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


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Door.Shut", exact("byResult byChain byRange byCase")),
        ("Window.Shut", exact("ofWindow")),
        ("New", exact("byResult")),
    ],
)
def test_a_function_is_found_through_its_package_and_its_receiver(
    engine: Engine, name: str, found: dict[str, str]
) -> None:
    assert callers(engine, name, with_possible=True) == found
