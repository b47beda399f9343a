"""Uses of PHP definitions are found through namespaces, `$this`, typed properties, traits, comments and `instanceof`."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.uses import uses

PROJECT = {
    "src/Door.php": "<?php\nnamespace Zoo;\nclass Door {\n    public function shut(): static { return $this; }\n}\n",
    "src/Other/Door.php": "<?php\nnamespace Zoo\\Other;\nclass Door {\n    public function shut() {}\n}\n",
    "src/Locks.php": "<?php\nnamespace Zoo;\ntrait Locks {\n    public function lock() {}\n}\n",
    "src/Cage.php": (
        "<?php\nnamespace Zoo;\nuse Zoo\\Other\\Door as Gate;\n"
        "class Cage {\n    use Locks;\n    private $lamp;\n    protected ?Door $back = null;\n"
        "    /** @var Door[] */\n    private $all = [];\n"
        "    public function __construct(private Door $door, Gate $gate) { $this->gate = $gate; }\n"
        "    public function byProperty() { $this->door->shut(); }\n"
        "    public function byChain() { $this->back->shut()->shut(); }\n"
        "    public function byAssignment() { $this->gate->shut(); }\n"
        "    public function byTrait() { $this->lock(); }\n"
        "    public static function make(): self { return new self(new Door(), new Gate()); }\n"
        "    public function door(): Door { return $this->door; }\n"
        "}\n"
    ),
    "src/main.php": (
        "<?php\nuse Zoo\\Cage;\nuse Zoo\\Door;\n"
        "function byStatic() { Cage::make()->door()->shut(); }\n"
        "function byTest($thing) { if ($thing instanceof Door) { $thing->shut(); } }\n"
        "function byNew() { $door = new Door(); $door->shut(); }\n"
        "/** @param Door $given */\nfunction byComment($given) { $given->shut(); }\n"
        "function ofLibrary(\\Other\\Thing $thing) { $thing->shut(); }\n"
        "function calls() { byNew(); $byNew = 1; return $byNew; }\n"
    ),
}


@pytest.mark.parametrize(
    ("name", "at", "found"),
    [
        ("shut", "src/Door.php:4", {"Cage.php:11", "Cage.php:12", *(f"main.php:{line}" for line in (4, 5, 6, 8))}),
        ("shut", "src/Other/Door.php:4", {"Cage.php:13"}),
        ("lock", "src/Locks.php:4", {"Cage.php:14"}),
    ],
)
def test_a_method_is_found_by_properties_results_tests_comments_and_traits(
    engine: Engine, name: str, at: str, found: set[str]
) -> None:
    assert uses(engine, PROJECT, at, name) == found


def test_a_function_and_a_variable_of_one_name_are_two_things(engine: Engine) -> None:
    edges = engine.symbols.trace("byNew").edges
    assert [(edge.source, edge.certainty, edge.evidence.count("byNew")) for edge in edges] == [("calls", "exact", 3)]
