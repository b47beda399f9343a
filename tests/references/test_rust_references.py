"""Uses of Rust definitions are found through modules, impl blocks, traits, patterns and what the library passes on."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.engines import indexed
from tests.support.trees import tree
from tests.support.uses import callers, exact

PROJECT = {
    "Cargo.toml": '[package]\nname = "big-zoo"\nversion = "0.1.0"\n',
    "src/lib.rs": "mod cage;\npub mod food;\npub use cage::Cage;\n",
    "src/cage/mod.rs": (
        "mod door;\npub use self::door::{Door, Window as Pane};\n\n"
        "pub struct Cage { pub door: Door, open: bool }\n\n"
        "impl Cage {\n"
        "    pub fn new() -> Self { Self { door: Door::new(1), open: false } }\n"
        "    pub fn door(&self) -> Option<&Door> { Some(&self.door) }\n"
        "    pub fn open(&self) -> bool { self.open }\n"
        "}\n"
    ),
    "src/cage/door.rs": (
        "pub struct Door(u8);\npub struct Window;\n\n"
        "impl Door {\n    pub fn new(width: u8) -> Door { Door(width) }\n    pub fn shut(&self) {}\n}\n\n"
        "impl Window {\n    pub fn shut(&self) {}\n}\n"
    ),
    "src/food.rs": (
        "pub trait Eats {\n    fn eat(&self);\n    fn chew(&self) { self.eat() }\n}\n\n"
        "pub struct Cat;\nimpl Eats for Cat {\n    fn eat(&self) {}\n}\n\n"
        "pub enum Meal { Fish(Cat), Grass }\n"
    ),
    "tests/walk.rs": "mod common;\n#[test]\nfn walks() { common::help(); }\n",
    "tests/common/mod.rs": "pub fn help() {}\n",
    "src/main.rs": (
        "use big_zoo::food::{self, Eats, Meal};\nuse big_zoo::Cage;\n\n"
        "fn by_field(cage: &Cage) { cage.door.shut() }\n"
        "fn by_chain() { let cage = Cage::new(); cage.door().unwrap().shut(); }\n"
        "fn by_pattern(cage: Cage) { if let Some(door) = cage.door() { door.shut() } }\n"
        "fn by_loop(all: Vec<Cage>) { for cage in all.iter() { cage.door.shut() } }\n"
        "fn by_bound<E: Eats>(eater: E) { eater.eat() }\n"
        "fn by_type(cat: food::Cat) { cat.eat(); cat.chew() }\n"
        "fn by_variant(meal: Meal) { match meal { Meal::Fish(cat) => cat.eat(), Meal::Grass => {} } }\n"
        "fn shadowed(door: u8) { let door = door + 1; door.shut() }\n"
        "fn reads(cage: Cage) -> bool { cage.open() }\n"
        "fn in_macro(cage: &Cage) { assert!(cage.open()); }\n"
        "mod tests { use super::*; fn through_super() { by_chain() } }\n"
    ),
}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Door.shut", exact("by_field by_chain by_pattern by_loop")),
        ("Window.shut", {}),
        ("Eats.eat", exact("chew by_bound by_type by_variant")),
        ("Eats.chew", exact("by_type")),
        ("Cat.eat", exact("by_type by_variant")),
        ("Cage.new", exact("by_chain")),
        ("Door.new", exact("new")),
        ("by_chain", exact("through_super")),  # through a glob
        ("help", exact("walks")),  # a module of a test, which is the root of a crate
    ],
)
def test_a_function_is_found_by_its_path_and_by_the_type_of_its_receiver(
    engine: Engine, name: str, found: dict[str, str]
) -> None:
    assert callers(engine, name) == found


def test_a_field_and_a_method_of_one_name_are_two_things(engine: Engine) -> None:
    with engine.symbols.renames() as renames:
        uses = renames.find_definition_uses("src/cage/mod.rs", "open", 9, ["src/cage/mod.rs", "src/main.rs"])
    assert uses is not None
    places = sorted((path, line) for (path, line, _), certainty in uses.items() if certainty != "other")
    assert places == [("src/cage/mod.rs", 9), ("src/main.rs", 12), ("src/main.rs", 13)]


def test_a_reexport_leads_to_the_type(engine: Engine) -> None:
    paths = {edge.path for edge in engine.symbols.trace("Cage", "references").edges}
    assert {"src/lib.rs", "src/main.rs"} <= paths


def test_modules_that_import_each_other_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    circle = {
        "src/lib.rs": "mod a;\nmod b;\n",
        "src/a.rs": "pub use crate::b::*;\npub use crate::b::lost;\n",
        "src/b.rs": "pub use crate::a::*;\npub use crate::a::lost;\npub fn known() { lost(); missing() }\n",
    }
    with indexed(tree(tmp_path_factory.mktemp("rust") / "circle", circle)) as engine:
        assert callers(engine, "known") == {}
