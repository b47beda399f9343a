"""Each line of a file is code, or it is what every file has: imports, a license, comments, headers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.languages import (
    Languages,
    classify_lines,
    find_boilerplate,
    measure_code,
    outline_file,
)
from tests.support.changes import PARSERS

LANGUAGES = Languages.builtin()
MARKS = {"k": "code", ".": "blank", "c": "comment", "l": "license", "i": "import", "f": "frame"}

EXAMPLES = {
    "python": """
l # Copyright 2020 Zoo
.
c \"\"\"Cats and their food.
c
c Nothing else.
c \"\"\"
i from food import (
i     Fish,
i     Milk,
i )
i import os
.
k QUERY = \"\"\"
k select name from cats
k \"\"\"
.
f class Cat:
c     \"\"\"A cat.\"\"\"
.
k     def feed(self):
c         # hungry
k         import later
k         return Fish()
""",
    "typescript": """
l /* Licensed under the MIT license
l  */
f 'use strict';
i import {
i   Fish,
i } from './food';
i import * as zoo from "zoo";
f export class Cat {
c   /** Feeds the cat. */
k   feed(): void {
k     eat(new Fish());
f   }
f }
""",
    "go": """
l // Copyright The Zoo Authors. All rights reserved.
.
c // Package zoo feeds cats.
f package zoo
.
f import (
i 	"fmt"
i 	"os"
f )
.
k func Feed(cat *Cat) {
k 	fmt.Println(cat)
f }
""",
    "rust": """
l // SPDX-License-Identifier: MIT
.
c //! Cats.
i use std::{
i     fmt,
i     io,
i };
k #[derive(Debug)]
k pub struct Cat;
f impl Cat {
k     pub fn feed(&self) {
k         eat()
f     }
f }
""",
    "java": """
l /*
l  * Licensed to the Zoo under the Apache License
l  */
f package zoo.cats;
.
i import zoo.food.*;
.
c /** A cat. */
f public class Cat {
k     void feed() {
k         eat();
f     }
f }
""",
    "csharp": """
i using System;
f namespace Zoo
f {
f     public class Cat
f     {
k         void Feed() { Eat(); }
f     }
f }
""",
    "cpp": """
l // Copyright (c) 2020
f #pragma once
i #include <vector>
f namespace zoo {
f class Cat {
f public:
k   void feed() { eat(); }
f };
f }
""",
    "c": """
f #ifndef ZOO_H
f #define ZOO_H
i #include "food.h"
c /* Feeds. */
k int feed(void); /* it */
k #define FOOD_MAX 3
f #endif
""",
    "ruby": """
c # frozen_string_literal: true
i require "food"
f module Zoo
f   class Cat
k     def feed
k       eat
f     end
f   end
f end
""",
    "php": """
f <?php
f declare(strict_types=1);
f namespace Zoo\\Cats;
i use Zoo\\Food;
f class Cat
f {
k     function feed() { eat(); }
f }
""",
    "kotlin": """
f package zoo
i import zoo.food.Fish
f class Cat {
k     fun feed() = eat(Fish())
f }
""",
    "swift": """
i import Foundation
c // feeds
f extension Cat {
k     func feed() { eat() }
f }
""",
    "elixir": """
f defmodule Zoo.Cat do
c   @moduledoc \"\"\"
c   A cat.
c   \"\"\"
i   alias Zoo.Food
k   def feed(cat), do: Food.eat(cat)
f end
""",
    "haskell": """
c {-# LANGUAGE Safe #-}
f module Zoo
f   ( feed
f   ) where
i import Food
k feed :: Cat -> Food
k feed = eat
""",
    "lua": """
i local food = require("food")
c --[[ feeds
c it ]]
k function feed(cat)
k   food.eat(cat)
f end
""",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_line_is_code_or_what_every_file_of_its_language_has(name: str) -> None:
    marked = EXAMPLES[name].strip("\n").split("\n")
    lines = [line[2:] for line in marked]
    language = LANGUAGES[name]
    found = outline_file(language, "\n".join(lines).encode(), PARSERS.grammars)
    kinds = classify_lines(language, lines, found.symbols, [item.line for item in found.imports])
    assert [f"{kind} {line}" for kind, line in zip(kinds, lines, strict=True)] == [
        f"{MARKS[line[0]]} {line[2:]}" for line in marked
    ]


def test_documents_and_data_have_no_boilerplate() -> None:
    for name in ("markdown", "json", "yaml"):
        assert classify_lines(LANGUAGES[name], ["# Copyright", "", "import x"]) == ["code", "blank", "code"]


def test_a_file_without_an_outline_still_shows_its_comments() -> None:
    assert classify_lines(LANGUAGES["go"], ["// a", "x", "/* b", "c */", "}"]) == [
        "comment", "code", "comment", "comment", "frame",
    ]  # fmt: skip


KINDS = st.lists(st.sampled_from(list(MARKS.values())))


@given(KINDS)
def test_boilerplate_and_code_together_are_the_whole_file(kinds: list) -> None:
    spanned = {number for span in find_boilerplate(kinds) for number in range(span.first, span.last + 1)}
    assert all(kinds[number - 1] != "code" for number in spanned)
    assert all(number in spanned for number, kind in enumerate(kinds, 1) if kind not in ("code", "blank"))
    assert (measure_code(kinds) == 0) == ("code" not in kinds)


LINES = st.lists(st.sampled_from(["", "/*", "*/", "//", '"""', "import (", ")", "class A {", "module a", "x = 1", "}"]))


@given(st.sampled_from(LANGUAGES.listed), LINES, st.lists(st.integers(-3, 40)))
def test_any_text_gets_one_kind_a_line(language, lines: list[str], imports: list[int]) -> None:
    assert len(classify_lines(language, lines, (), imports)) == len(lines)


@pytest.mark.parametrize("part", ["(", ")", "=>", " ", "end ", "import (\n", "}\n", "/*", '"""', "copyright\n", "a "])
@pytest.mark.parametrize("name", ["python", "typescript", "php", "haskell"])
def test_no_text_is_slow_to_classify(name: str, part: str) -> None:
    began = time.perf_counter()
    for begin in ("package a", "extension "):
        lines = (begin + part * (65_536 // len(part)) + "x").split("\n")
        classify_lines(LANGUAGES[name], lines, (), range(1, len(lines)))
    assert time.perf_counter() - began < 3.0
