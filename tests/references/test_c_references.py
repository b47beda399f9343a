"""Uses of C and C++ definitions are found through includes, static names, receivers, classes, namespaces and macros."""

from __future__ import annotations

from context_engine.engine import Engine

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
        "void byLoop(std::vector<farm::Cat> &cats) { for (auto &cat : cats) { cat.feed(3); } cats.back().feed(4); }\n"
        "void byVariable() { farm::Cat cat(1); farm::shear(cat); Robot robot; robot.feed(1); }\n"
        "void byLambda() { auto run = [](const farm::Cat &cat) { cat.feed(1); }; run(farm::Cat(2)); }\n"
        "farm::Color color() { return farm::Color::Red; }\n"
    ),
}


def uses(engine: Engine, path: str, name: str, line: int, certainty: str = "exact") -> set[tuple[str, int]]:
    found = engine.symbols.find_definition_uses(path, name, line, sorted(PROJECT))
    assert found is not None
    return {(place[0], place[1]) for place, kind in found.items() if kind == certainty}


def test_a_function_is_found_from_its_header_and_from_its_source(engine: Engine) -> None:
    calls = {("zoo/main.c", 3)}
    assert uses(engine, "zoo/cage.c", "cage_feed", 4) == calls | {("zoo/cage.h", 9)}
    assert uses(engine, "zoo/cage.h", "cage_feed", 9) == calls | {("zoo/cage.c", 4)}


def test_a_static_function_is_used_in_its_file_only(engine: Engine) -> None:
    assert uses(engine, "zoo/cage.c", "check", 3) == {("zoo/cage.c", 4)}
    assert uses(engine, "zoo/main.c", "check", 2) == {("zoo/main.c", 3)}
    assert uses(engine, "zoo/alone.c", "cage_feed", 1) == {("zoo/alone.c", 2)}


def test_fields_of_one_name_are_told_apart_by_the_type_of_the_receiver(engine: Engine) -> None:
    assert uses(engine, "zoo/cage.h", "size", 6) == {("zoo/cage.c", 3)}
    assert uses(engine, "zoo/cage.h", "size", 7) == {("zoo/cage.c", 4)}
    assert uses(engine, "zoo/cage.c", "size", 2) == {("zoo/cage.c", 3)}


def test_a_macro_is_a_definition_and_the_names_in_its_body_are_likely_uses(engine: Engine) -> None:
    assert uses(engine, "zoo/cage.h", "FEED", 5) == {("zoo/main.c", 3)}
    assert uses(engine, "zoo/cage.h", "LIMIT", 4) == {("zoo/main.c", 3)}
    assert uses(engine, "zoo/cage.h", "LIMIT", 4, "likely") == {("zoo/cage.h", 5)}
    assert uses(engine, "zoo/cage.c", "cage_feed", 4, "likely") == {("zoo/cage.h", 5)}


def test_a_method_and_the_one_it_overrides_are_found_by_their_receivers(engine: Engine) -> None:
    found = {
        ("farm/animal.cpp", 4), ("farm/animal.cpp", 8), ("farm/animal.cpp", 10), ("farm/main.cpp", 3),
        ("farm/main.cpp", 4), ("farm/main.cpp", 6),
    }  # fmt: skip
    assert uses(engine, "farm/animal.hpp", "feed", 16) == found
    assert uses(engine, "farm/animal.hpp", "feed", 8) == found
    assert uses(engine, "farm/main.cpp", "feed", 2) == {("farm/main.cpp", 5)}


def test_inherited_fields_templates_and_enumerators_are_found(engine: Engine) -> None:
    assert uses(engine, "farm/animal.hpp", "hunger_", 11) == {("farm/animal.cpp", 4)}
    assert uses(engine, "farm/animal.hpp", "purr", 18) == {("farm/main.cpp", 3)}
    assert uses(engine, "farm/animal.hpp", "age_", 20) == {("farm/animal.hpp", 15), ("farm/animal.cpp", 8)}
    assert uses(engine, "farm/animal.hpp", "age_", 20, "likely") == {("farm/animal.hpp", 18)}  # in a template
    assert uses(engine, "farm/animal.hpp", "Red", 22) == {("farm/main.cpp", 7)}


def test_names_of_namespaces_are_found_with_their_scope_and_with_using(engine: Engine) -> None:
    assert uses(engine, "farm/animal.hpp", "shear", 23) == {("farm/animal.cpp", 10), ("farm/main.cpp", 5)}
    assert uses(engine, "farm/animal.hpp", "make", 17) == {("farm/animal.cpp", 9), ("farm/main.cpp", 3)}
