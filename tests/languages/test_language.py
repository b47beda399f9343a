"""A file's language is found by its name, its suffix, its text and its first line; a user may add languages."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from context_engine.errors import InvalidArgument
from context_engine.languages import Grammars, Languages, outline_file
from context_engine.languages.language import ORDER, read_language
from context_engine.storage.confined_folder import ConfinedFolder

LANGUAGES = Languages.builtin()


@pytest.mark.parametrize(
    ("path", "data", "name"),
    [
        ("src/app.py", b"", "python"),
        ("SRC/APP.PY", b"", "python"),
        ("types/index.d.ts", b"", "typescript"),
        ("App.tsx", b"", "tsx"),
        ("Makefile", b"", "makefile"),
        ("deploy/Dockerfile", b"", "dockerfile"),
        ("Dockerfile.dev", b"", "dockerfile"),
        ("CMakeLists.txt", b"", "cmake"),
        ("notes.txt", b"", "text"),
        ("README", b"", "text"),
        ("zoo.h", b"struct cat;", "c"),
        ("zoo.h", b"#pragma once\nclass Cat {\n", "cpp"),
        ("Zoo.h", b"#import <x.h>\n@interface Zoo\n", "objc"),
        ("run", b"#!/bin/sh\n", "bash"),
        ("run", b"#!/usr/bin/env -S python3.12 -u\n", "python"),
        ("run", b"#! /usr/bin/env node", "javascript"),
        ("bin/tool.local", b"#!/usr/local/bin/ruby -w\n", "ruby"),
    ],
)
def test_a_file_is_known_by_name_then_suffix_then_first_line(path: str, data: bytes, name: str) -> None:
    found = LANGUAGES.detect(path, data)
    assert found is not None
    assert found.name == name


LICENSE_TEXT = b"/*\n * Copyright 2020. class A; std::string; namespace b { template <class T>\n */\n// class B {\n" * 5


@pytest.mark.parametrize(
    ("path", "code", "name"),
    [
        ("zoo.h", b"struct cat *feed(struct cat *cat, int class);\n", "c"),
        ("zoo.h", b'#ifdef __cplusplus\nextern "C" {\n#endif\nint feed(void);\n', "c"),
        ("zoo.h", b'static inline void pause(void) { __asm__ volatile("rep" :: "r"(0)); }\n', "c"),
        ("zoo.h", b"struct Cat {\n  void feed(const std::string& food);\n};\n", "cpp"),
        ("zoo.h", b"namespace zoo {\nclass Cat;\n}\n", "cpp"),
        ("zoo.h", b"#include <cstdint>\nint feed(int);\n", "cpp"),
        ("zoo.h", b"#pragma once\nenum class Food { Fish };\n", "cpp"),
        ("zoo.h", b"class ZOO_API Cat {\n", "cpp"),
        ("Zoo.h", b"#import <Foundation/Foundation.h>\nextern NSString *const name;\n", "objc"),
        ("zoo.inc", b"<?php\nclass Zoo {}\n", "php"),
        ("zoo.inc", b"#define CAT(name) name\nCAT(tom)\n", "c"),
        ("zoo.inc", b"#include <vector>\nstd::vector<Cat> cats;\n", "cpp"),
        ("zoo.m", b'#import "Zoo.h"\n@implementation Zoo\n@end\n', "objc"),
        ("zoo.m", b"% feeds the cat\nfunction feed(cat)\nend\n", "matlab"),
        ("zoo_de.ts", b"<?xml version='1.0'?>\n<!DOCTYPE TS>\n<TS/>\n", "xml"),
        ("zoo.ts", b"<T>(cat: T) => cat\n", "typescript"),
    ],
)
def test_the_code_decides_between_the_languages_of_a_suffix_and_its_license_does_not(
    path: str, code: bytes, name: str
) -> None:
    for data in (code, LICENSE_TEXT + code) if name in ("c", "cpp", "objc") else (code,):
        found = LANGUAGES.detect(path, data)
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize("path", ["a.h", "a.inc", "a.m", "a.ts", "a.tsx"])
@pytest.mark.parametrize(
    "part",
    [b" ", b"\n", b"\t\n", b"/*", b"*/", b"/", b"end ", b"enum a", b"class", b"template ", b"<", b":", b"#include <a"],
)
def test_no_text_makes_the_language_of_a_file_slow_to_find(path: str, part: bytes) -> None:
    begins = (b"", b"end", b"template", b"operator", b"\n#include", b"enum ", b"class")
    began = time.perf_counter()
    for begin in begins:
        LANGUAGES.detect(path, begin + part * (65_536 // len(part)) + b"x")
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize(
    ("path", "data"),
    [
        *((path, b"#!\n") for path in ("", "/", "noext", "photo.xyz", ".", "..", "a.b.c.d", "x/y.")),
        *(("zoo.inc", code) for code in (b"LDR r0, =cats\n", b"unit Zoo;\n", b"")),
    ],
)
def test_an_unknown_file_has_no_language(path: str, data: bytes) -> None:
    assert LANGUAGES.detect(path, data) is None


def test_every_language_we_ship_is_listed_and_every_file_is_in_the_list() -> None:
    folder = Path(__file__).parents[2] / "context_engine" / "languages"
    assert sorted(file.stem for file in folder.glob("*.toml")) == sorted(ORDER)
    assert [language.name for language in LANGUAGES.listed] == ORDER


def test_every_query_fits_its_grammar(tmp_path: Path) -> None:
    grammars = Grammars(tmp_path)
    grammars.prepare({language.grammar for language in LANGUAGES.listed if language.grammar})
    for language in LANGUAGES.listed:
        if language.grammar and not language.scanner:
            assert grammars.problem(language.grammar, language.definitions) == "", language.name
            assert grammars.problem(language.grammar, language.references) == "", language.name


def test_a_user_adds_a_language_by_dropping_a_file(tmp_path: Path) -> None:
    (tmp_path / "tally.toml").write_text('name = "tally"\nbased_on = "python"\nsuffixes = [".tly"]\n')
    languages = LANGUAGES.with_folder(ConfinedFolder(tmp_path))
    tally = languages.detect("a.tly")
    assert tally is not None
    assert outline_file(tally, b"def f(): pass\n", Grammars(tmp_path / "cache")).symbols[0].name == "f"
    assert LANGUAGES.detect("a.tly") is None


def test_a_users_language_replaces_ours_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "python.toml").write_text('name = "python"\nsuffixes = [".snake"]\n')
    languages = LANGUAGES.with_folder(ConfinedFolder(tmp_path))
    assert languages.detect("a.snake") is languages["python"]
    assert languages.detect("a.py") is None


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("suffixes = ['.x']", "name"),
        ("name = 'x'\nsufixes = ['.x']", "sufixes"),
        ("name = 'x'\nsuffixes = '.x'", "suffixes"),
        ("name = 'x'\ncontent = 'poetry'", "content"),
        ("name = 'x'\nbased_on = 'klingon'", "based_on"),
        ("name = 'x'\n[comments]\nblock = [['/*']]", "comments.block"),
        ("name = 'x'\n[comments]\ndocstring = '('", "comments.docstring"),
        ("name = 'x'\n[outline]\ndepth_max = true", "outline.depth_max"),
        ("name = 'x'\n[outline]\nblanks = ['x']", "outline.blanks"),
        ("name = 'x'\n[outline]\nsemicolons = '(?:x)'", "outline.semicolons"),
        ("name = 'x'\n[outline]\nopening = 'x'", "outline.opening"),
        ("name = 'x'\n[outline]\ndeclarator = '(?P<name>x)'", "outline.declarator"),
        ("name = 'x'\n[keywords]\ndef = 'spell'", "keywords.def"),
        ("name = 'x'\n[claims]\n'.h' = '['", "claims..h"),
        ("name = ", None),
        ("name = 'x'\nparser = '\ud800'", None),
    ],
)
def test_a_wrong_language_file_is_refused_with_its_file_and_field(text: str, field: str | None) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read_language(text, "mine.toml")
    assert refused.value.details == {"file": "mine.toml"} | ({"field": field} if field else {})
    assert "mine.toml" in refused.value.message


@pytest.mark.parametrize(
    "field",
    [
        "blanks = ['x|(y)', '']",
        "semicolons = 'x|(y)'",
        "opening = '(y)?'",
        "declarator = '(?P<path>y)?(?P<name>y)?(?P<call>y)?'",
    ],
)
def test_a_group_that_takes_no_part_in_a_match_changes_nothing(field: str, tmp_path: Path) -> None:
    text = 'name = "odd"\nbased_on = "cpp"\nsuffixes = [".odd"]\n'
    known = {language.name: language for language in LANGUAGES.listed}
    plain, odd = (read_language(f"{text}{more}", "odd.toml", known) for more in ("", f"[outline]\n{field}\n"))
    source = b"int x = 1;\nclass A {\nvoid f();\n};\n)\nvoid g( {\nvoid h();\n"
    found = [outline_file(language, source, Grammars(tmp_path)).symbols for language in (plain, odd)]
    assert [symbol.line for symbol in found[0]] == [symbol.line for symbol in found[1]]


def test_an_unknown_language_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument) as refused:
        LANGUAGES["klingon"]
    assert "python" in refused.value.suggestion
