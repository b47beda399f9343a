"""Types of Go implement the interfaces whose methods they have; traces and renames follow that."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import InvalidArgument
from tests.support.engines import indexed
from tests.support.trees import tree

PROJECT = {
    "go.mod": "module example.org/zoo\n",
    "api/api.go": (
        "package api\n\n"
        "type Sized interface{ Weigh() int }\n\n"
        "type Animal interface {\n\tSized\n\tFeed(food string, grams int) error\n}\n"
    ),
    "cats/cat.go": (
        "package cats\n\n"
        "type Cat struct{ weight int }\n\n"
        "func (c *Cat) Feed(food string, grams int) error { return nil }\n"
    ),
    "cats/weigh.go": "package cats\n\nfunc (c *Cat) Weigh() int { return c.weight }\n\nfunc (c *Cat) Purr() {}\n",
    "cats/tiger.go": (
        'package cats\n\nimport "example.org/zoo/api"\n\n'
        "type Tiger struct {\n\tapi.Animal\n}\n\n"
        "func (t *Tiger) Feed(food string, grams int) error { return t.Animal.Feed(food, grams) }\n"
    ),
    "stones/stone.go": (
        "package stones\n\n"
        "type Stone struct{}\n\nfunc (s Stone) Feed(food string) error { return nil }\n\n"
        "type Rock struct{}\n\nfunc (r Rock) Feed(food int, grams int) error { return nil }\n\n"
        "func (r Rock) Weigh() int { return 1 }\n\n"
        "type Plant struct{}\n\nfunc (p Plant) Feed(food string, grams int) error { return nil }\n"
    ),
    "parts/parts.go": (
        "package parts\n\n"
        "type Mouth struct{}\n\nfunc (m Mouth) Feed(food string, grams int) error { return nil }\n\n"
        "type Dog struct{ Mouth }\n\nfunc (d Dog) Weigh() int { return 2 }\n"
    ),
    "main.go": ('package main\n\nimport "example.org/zoo/api"\n\nfunc care(a api.Animal) {\n\ta.Feed("hay", 2)\n}\n'),
    "print.go": (
        "package main\n\ntype Name struct{ text string }\n\n"
        "func (n Name) String() string { return n.text }\n\n"
        "func (n Name) Write(to string) {}\n"
    ),
}


def test_a_type_implements_an_interface_whose_methods_it_has_itself_or_by_embedding(engine: Engine) -> None:
    found = {edge.source for edge in engine.symbols.trace("Animal", direction="implementations").edges}
    assert found == {"Cat", "Tiger", "Dog"}


def test_methods_that_implement_one_of_an_interface_have_its_signature(engine: Engine) -> None:
    found = {edge.source for edge in engine.symbols.trace("Animal.Feed", direction="implementations").edges}
    assert found == {"Cat.Feed", "Tiger.Feed", "Mouth.Feed"}


def test_calls_through_an_interface_are_calls_of_a_method_that_implements_it(engine: Engine) -> None:
    edges = engine.symbols.trace("Cat.Feed").edges
    assert {(edge.source, edge.via) for edge in edges} == {("care", "Animal.Feed"), ("Tiger.Feed", "Animal.Feed")}


def test_a_call_of_what_an_embedded_interface_has_is_found(engine: Engine) -> None:
    assert {edge.source for edge in engine.symbols.trace("Animal.Feed").edges} == {"care", "Tiger.Feed"}


def test_a_method_with_other_parameters_has_no_calls_through_the_interface(engine: Engine) -> None:
    for name in ("Stone.Feed", "Rock.Feed", "Plant.Feed"):
        assert engine.symbols.trace(name).edges == ()


@pytest.mark.parametrize("name", ["Cat.Feed", "Animal.Feed", "Tiger.Feed", "Mouth.Feed"])
def test_a_rename_takes_the_interface_and_all_that_implement_it_along(engine: Engine, name: str) -> None:
    found = engine.edits.rename_symbol(name, "Nourish")
    assert {place.path for place in found.certain} == {
        *("api/api.go", "cats/cat.go", "cats/tiger.go", "parts/parts.go", "main.go")
    }
    assert not [place for place in found.uncertain if place.is_open]


def test_a_name_that_the_type_has_in_another_file_of_the_package_is_refused(engine: Engine) -> None:
    for name, new_name in (("Cat.Feed", "Purr"), ("Cat.Purr", "weight"), ("Cat.Purr", "Feed")):
        with pytest.raises(InvalidArgument, match="has a meaning already"):
            engine.edits.rename_symbol(name, new_name)


def test_a_method_that_a_well_known_interface_requires_waits(engine: Engine) -> None:
    waiting = engine.edits.rename_symbol("Name.String", "Text")
    assert [place.why for place in waiting.uncertain if place.is_open] == [
        "an interface that is not in the workspace may require it"
    ]
    free = engine.edits.rename_symbol("Name.Write", "Put")
    assert not [place for place in free.uncertain if place.is_open]


def test_a_method_waits_where_a_type_of_a_library_may_have_the_rest_of_an_interface(tmp_path: Path) -> None:
    files = {
        "go.mod": "module example.org/zoo\n",
        "zoo.go": (
            'package zoo\n\nimport "example.com/library"\n\n'
            "type Animal interface {\n\tFeed()\n\tGrow()\n}\n\n"
            "type Cat struct{ library.Base }\n\nfunc (c Cat) Feed() {}\n"
        ),
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        found = engine.edits.rename_symbol("Animal.Feed", "Nourish")
        assert [(place.line, place.is_open) for place in found.uncertain] == [(12, True)]


def test_an_unexported_method_is_required_in_its_own_package_only(tmp_path: Path) -> None:
    files = {
        "go.mod": "module example.org/zoo\n",
        "a/a.go": "package a\n\ntype Animal interface{ feed() }\n\ntype Cat struct{}\n\nfunc (c Cat) feed() {}\n",
        "b/b.go": "package b\n\ntype Stone struct{}\n\nfunc (s Stone) feed() {}\n",
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        found = engine.symbols.trace("Animal.feed", direction="implementations").edges
        assert [edge.source for edge in found] == ["Cat.feed"]
