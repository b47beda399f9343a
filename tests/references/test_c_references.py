"""Uses of C and C++ definitions are found through includes, static names, receivers, classes, namespaces and macros."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.uses import uses

PROJECT = {
    "zoo/cage.h": (
        "#ifndef CAGE_H\n#define CAGE_H\n#include <stdio.h>\n#define LIMIT 9\n#define FEED(c) cage_feed((c), LIMIT)\n"
        "struct cage { int size; struct lamp *lamp; };\n"
        "typedef struct { int size; } door;\n"
        'extern "C" {\nvoid cage_feed(struct cage *cage, int count);\n}\n'
        "#endif\n"
    ),
    "zoo/cage.c": (
        '#include "cage.h"\n'
        "struct lamp { int size; };\n"
        "static int check(struct cage *cage) { return cage->size + cage->lamp->size; }\n"
        "void cage_feed(struct cage *cage, int count) { door open = {.size = count}; check(cage); open.size++; }\n"
    ),
    "zoo/main.c": (
        '#include "cage.h"\n'
        "static int check(int given) { return given; }\n"
        "int main(void) { struct cage c; int size = 1; FEED(&c); cage_feed(&c, size); return check(LIMIT); }\n"
    ),
    "zoo/alone.c": "static void cage_feed(void) {}\nvoid other(void) { cage_feed(); }\n",
    "farm/animal.hpp": (
        "#pragma once\n#include <memory>\n#include <vector>\nnamespace farm {\n"
        "class Animal {\n public:\n  virtual ~Animal();\n  virtual void feed(int count = 1);\n  Animal *next();\n"
        " protected:\n  int hunger_ = 0;\n};\n"
        "class Cat : public Animal {\n public:\n  Cat(int age) : age_(age) {}\n  void feed(int count) override;\n"
        "  static std::unique_ptr<Cat> make();\n  template <class T> T purr() { return T(age_); }\n"
        " private:\n  int age_;\n};\n"
        "enum class Color { Red, Green };\nvoid shear(Animal &animal);\n"
        "}\n"
    ),
    "farm/animal.cpp": (
        '#include "animal.hpp"\n'
        "namespace farm {\n"
        "Animal::~Animal() {}\n"
        "void Animal::feed(int count) { hunger_ -= count; next()->feed(); }\n"
        "Animal *Animal::next() { return this; }\n"
        "}\n"
        "using namespace farm;\n"
        "void Cat::feed(int count) { Animal::feed(count); this->age_++; }\n"
        "std::unique_ptr<Cat> Cat::make() { return std::make_unique<Cat>(1); }\n"
        "void farm::shear(Animal &animal) { animal.feed(); }\n"
    ),
    "farm/main.cpp": (
        '#include "animal.hpp"\n'
        "struct Robot { void feed(int); };\n"
        "void byMaker() { auto cat = farm::Cat::make(); cat->feed(2); cat->purr<int>(); }\n"
        "void byLoop(std::vector<farm::Cat> &cats) { for (auto &cat : cats) { cat.feed(3); } }\n"
        "void byVariable() { farm::Cat cat(1); farm::shear(cat); Robot robot; robot.feed(1); }\n"
        "void byLambda() { auto run = [](const farm::Cat &cat) { cat.feed(1); }; run(farm::Cat(2)); }\n"
        "farm::Color color() { return farm::Color::Red; }\n"
    ),
}


FEEDS = {"animal.cpp:4", "animal.cpp:8", "animal.cpp:10", "main.cpp:3", "main.cpp:4", "main.cpp:6"}
"""The uses of a method and of the one that it overrides."""


@pytest.mark.parametrize(
    ("name", "at", "found"),
    [
        # from the header and from the source
        ("cage_feed", "zoo/cage.c:4", {"main.c:3", "cage.h:9"}),
        ("cage_feed", "zoo/cage.h:9", {"main.c:3", "cage.c:4"}),
        # static ones in their files only
        ("check", "zoo/cage.c:3", {"cage.c:4"}),
        ("check", "zoo/main.c:2", {"main.c:3"}),
        ("cage_feed", "zoo/alone.c:1", {"alone.c:2"}),
        # fields by the type of their receiver
        ("size", "zoo/cage.h:6", {"cage.c:3"}),
        ("size", "zoo/cage.h:7", {"cage.c:4"}),
        ("size", "zoo/cage.c:2", {"cage.c:3"}),
        # macros
        ("FEED", "zoo/cage.h:5", {"main.c:3"}),
        ("LIMIT", "zoo/cage.h:4", {"main.c:3"}),
        # methods, and those that they override
        ("feed", "farm/animal.hpp:16", FEEDS),
        ("feed", "farm/animal.hpp:8", FEEDS),
        ("feed", "farm/main.cpp:2", {"main.cpp:5"}),
        # inherited fields, templates and enumerators
        ("hunger_", "farm/animal.hpp:11", {"animal.cpp:4"}),
        ("purr", "farm/animal.hpp:18", {"main.cpp:3"}),
        ("age_", "farm/animal.hpp:20", {"animal.hpp:15", "animal.cpp:8"}),
        ("Red", "farm/animal.hpp:22", {"main.cpp:7"}),
        # names of namespaces, with their scope and with `using`
        ("shear", "farm/animal.hpp:23", {"animal.cpp:10", "main.cpp:5"}),
        ("make", "farm/animal.hpp:17", {"animal.cpp:9", "main.cpp:3"}),
    ],
)
def test_a_name_is_found_where_it_certainly_means_the_definition(
    engine: Engine, name: str, at: str, found: set[str]
) -> None:
    assert uses(engine, PROJECT, at, name) == found


@pytest.mark.parametrize(
    ("name", "at", "found"),
    [
        ("LIMIT", "zoo/cage.h:4", {"cage.h:5"}),
        ("cage_feed", "zoo/cage.c:4", {"cage.h:5"}),
        ("age_", "farm/animal.hpp:20", {"animal.hpp:18"}),
    ],
)
def test_names_in_the_body_of_a_macro_or_a_template_are_likely_uses(
    engine: Engine, name: str, at: str, found: set[str]
) -> None:
    assert uses(engine, PROJECT, at, name, "likely") == found
