"""Uses of Ruby definitions are found through constants, reopened classes, mixins, `self`, `new` and symbols."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.engine import Engine
from tests.support.engines import indexed
from tests.support.trees import tree
from tests.support.uses import uses

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


@pytest.mark.parametrize(
    ("name", "at", "found"),
    [
        # in its class, in what inherits and in what reopens it
        ("feed", "lib/zoo/animal.rb:7", {"cat.rb:7", "more.rb:3", "more.rb:8", "more.rb:9", "cat_test.rb:6"}),
        ("chew", "lib/zoo/animal.rb:11", {"animal.rb:8"}),
        ("feed", "lib/zoo/cat.rb:15", set()),
        ("shine", "lib/zoo/cat.rb:14", {"cat.rb:9"}),
        # mixins, methods of the class itself, attributes, constants by their nesting, symbols
        ("walk", "lib/zoo/animal.rb:17", {"cat.rb:6"}),
        ("make", "lib/zoo/animal.rb:12", {"more.rb:9"}),
        ("name", "lib/zoo/animal.rb:3", {"animal.rb:9"}),
        ("LIVES", "lib/zoo/cat.rb:4", {"more.rb:10"}),
        ("run", "lib/zoo/cat.rb:5", {"cat.rb:11"}),
        ("stroke", "lib/zoo/more.rb:2", set()),
        # of a block
        ("helper", "test/cat_test.rb:2", {"cat_test.rb:6"}),
        ("helper", "test/cat_test.rb:10", {"cat_test.rb:12"}),
    ],
)
def test_a_name_is_found_where_it_certainly_means_the_definition(
    engine: Engine, name: str, at: str, found: set[str]
) -> None:
    assert uses(engine, PROJECT, at, name) == found


def test_an_unknown_receiver_and_a_symbol_are_likely_uses_of_the_only_method_of_a_name(engine: Engine) -> None:
    assert uses(engine, PROJECT, "lib/zoo/more.rb:2", "stroke", "likely") == {"more.rb:13", "more.rb:14"}


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


def test_functions_of_a_module_are_called_on_the_module_as_well(tmp_path: Path) -> None:
    expected = {
        "cut:4": {1, 10}, "saw:6": {2}, "glue:10": {3}, "before:2": {11}, "hidden:9": set(), "play:15": {6},
    }  # fmt: skip
    with indexed(tree(tmp_path / "project", FUNCTIONS)) as engine:
        for definition, lines in expected.items():
            name, _, line = definition.partition(":")
            found = uses(engine, ["use.rb"], f"tools.rb:{line}", name)
            assert found == {f"use.rb:{number}" for number in lines}, name


def test_a_block_that_an_object_evaluates_calls_the_methods_of_that_object(tmp_path: Path) -> None:
    text = (
        "class Cart\n  def fill; end\nend\n"
        "def use\n  cart = Cart.new\n  cart.instance_eval do\n    [1].each { fill }\n  end\n  [1].each { fill }\nend\n"
    )
    with indexed(tree(tmp_path / "project", {"cart.rb": text})) as engine:
        assert uses(engine, ["cart.rb"], "cart.rb:2", "fill") == {"cart.rb:7"}
