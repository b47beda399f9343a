"""Uses of Ruby definitions are found through constants, reopened classes, mixins, `self`, `new` and symbols."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.engine import Engine
from tests.support.engines import indexed
from tests.support.trees import tree

PROJECT = {
    "lib/zoo/animal.rb": (
        "module Zoo\n"
        "  class Animal\n"
        "    attr_reader :name\n"
        "    def initialize(name)\n      @name = name\n    end\n"
        "    def feed\n      chew\n      name\n    end\n"
        "    def chew; end\n"
        "    def self.make\n      new('x')\n    end\n"
        "  end\n"
        "  module Walks\n    def walk; end\n  end\n"
        "end\n"
    ),
    "lib/zoo/cat.rb": (
        "require_relative 'animal'\n"
        "class Zoo::Cat < Zoo::Animal\n"
        "  include Zoo::Walks\n"
        "  LIVES = 9\n"
        "  def run\n    walk\n    feed\n    @lamp = Lamp.new\n    @lamp.shine\n  end\n"
        "  private :run\n"
        "end\n"
        "class Lamp\n  def shine; end\n  def feed; end\nend\n"
    ),
    "lib/zoo/more.rb": (
        "class Zoo::Animal\n  def stroke\n    feed\n  end\nend\n"
        "def by_class\n  cat = Zoo::Cat.new\n  cat.feed\n  Zoo::Animal.make.feed\n  Zoo::Cat::LIVES\nend\n"
        "def by_name(cats)\n  cats.each { |cat| cat.stroke }\n  cats.map(&:stroke)\n  'feed'.feed\nend\n"
    ),
    "test/cat_test.rb": (
        "describe 'cat' do\n  def helper\n    Zoo::Cat.new\n  end\n  it 'eats' do\n    helper.feed\n  end\nend\n"
        "describe 'dog' do\n  def helper; end\n  it 'barks' do\n    helper\n  end\nend\n"
    ),
}


def uses(engine: Engine, path: str, name: str, line: int, certainty: str = "exact") -> set[tuple[str, int]]:
    found = engine.symbols.find_definition_uses(path, name, line, sorted(PROJECT))
    assert found is not None
    return {(place[0].rpartition("/")[2], place[1]) for place, kind in found.items() if kind == certainty}


def test_a_method_is_called_in_its_class_in_what_inherits_and_in_what_reopens_it(engine: Engine) -> None:
    assert uses(engine, "lib/zoo/animal.rb", "feed", 7) == {
        ("cat.rb", 7), ("more.rb", 3), ("more.rb", 8), ("more.rb", 9), ("cat_test.rb", 6),
    }  # fmt: skip
    assert uses(engine, "lib/zoo/animal.rb", "chew", 11) == {("animal.rb", 8)}


def test_a_method_of_another_class_keeps_its_own_uses(engine: Engine) -> None:
    assert uses(engine, "lib/zoo/cat.rb", "feed", 15) == set()
    assert uses(engine, "lib/zoo/cat.rb", "shine", 14) == {("cat.rb", 9)}


def test_methods_of_mixins_of_the_class_itself_and_attributes_are_found(engine: Engine) -> None:
    assert uses(engine, "lib/zoo/animal.rb", "walk", 17) == {("cat.rb", 6)}
    assert uses(engine, "lib/zoo/animal.rb", "make", 12) == {("more.rb", 9)}
    assert uses(engine, "lib/zoo/animal.rb", "name", 3) == {("animal.rb", 9)}


def test_constants_are_found_by_their_nesting(engine: Engine) -> None:
    assert uses(engine, "lib/zoo/cat.rb", "LIVES", 4) == {("more.rb", 10)}


def test_an_unknown_receiver_and_a_symbol_are_likely_uses_of_the_only_method_of_a_name(engine: Engine) -> None:
    assert uses(engine, "lib/zoo/more.rb", "stroke", 2) == set()
    assert uses(engine, "lib/zoo/more.rb", "stroke", 2, "likely") == {("more.rb", 13), ("more.rb", 14)}
    assert uses(engine, "lib/zoo/cat.rb", "run", 5) == {("cat.rb", 11)}


def test_a_method_of_a_block_belongs_to_that_block(engine: Engine) -> None:
    assert uses(engine, "test/cat_test.rb", "helper", 2) == {("cat_test.rb", 6)}
    assert uses(engine, "test/cat_test.rb", "helper", 10) == {("cat_test.rb", 12)}


FUNCTIONS = {
    "tools.rb": (
        "module Tools\n  def before; end\n  module_function\n  def cut; end\n  if defined?(X)\n    def saw; end\n  end\n"
        "  private\n  def hidden; end\n  def glue; end\n  module_function :glue\nend\n"
        "module Games\n  extend self\n  def play; end\nend\n"
    ),
    "use.rb": (
        "Tools.cut\nTools.saw\nTools.glue\nTools.before\nTools.hidden\nGames.play\n"
        "class Shop\n  include Tools\n  def work\n    cut\n    before\n  end\nend\n"
    ),
}


@pytest.mark.parametrize(
    ("name", "line", "found"),
    [
        ("cut", 4, {1, 10}), ("saw", 6, {2}), ("glue", 10, {3}), ("before", 2, {11}), ("hidden", 9, set()), ("play", 15, {6}),
    ],
)  # fmt: skip
def test_functions_of_a_module_are_called_on_the_module_as_well(
    tmp_path: Path, name: str, line: int, found: set[int]
) -> None:
    with indexed(tree(tmp_path / "project", FUNCTIONS)) as engine:
        uses = engine.symbols.find_definition_uses("tools.rb", name, line, sorted(FUNCTIONS))
    assert uses is not None
    assert {place[1] for place, kind in uses.items() if kind == "exact" and place[0] == "use.rb"} == found


def test_a_block_that_an_object_evaluates_calls_the_methods_of_that_object(tmp_path: Path) -> None:
    text = (
        "class Cart\n  def fill; end\nend\n"
        "def use\n  cart = Cart.new\n  cart.instance_eval do\n    [1].each { fill }\n  end\n  [1].each { fill }\nend\n"
    )
    with indexed(tree(tmp_path / "project", {"cart.rb": text})) as engine:
        uses = engine.symbols.find_definition_uses("cart.rb", "fill", 2, ["cart.rb"])
    assert uses is not None and [place[1] for place, kind in uses.items() if kind == "exact"] == [7]
