"""The first words of a file are its introduction, without license talk and comment marks."""

from __future__ import annotations

import pytest

from context_engine.languages import Languages, read_file_header

LANGUAGES = Languages.builtin()


@pytest.mark.parametrize(
    ("name", "source", "head"),
    [
        ("python", '#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"""Feeds cats.\n\nOften."""\nimport os\n', "Feeds cats.\n\nOften."),
        ("python", "import os\n\n# Not the first words? They are.\nx = 1\n", "Not the first words? They are."),
        ("python", "x = 1\n# too late\n", ""),
        ("java", "/*\n * Licensed under the Apache License\n * and so on.\n */\npackage zoo;\n\nimport a.B;\n\n/**\n * Keeps cats.\n */\nclass A {}\n", "Keeps cats."),
        ("rust", "// Copyright 2020 Zoo\n//! Cats, mostly.\n\nuse a::b;\n", "Cats, mostly."),
        ("typescript", "/* eslint-disable */\n'use strict'\n// Routes.\nexport const a = 1\n", "Routes."),
        ("bash", "#!/bin/sh\n# Installs the zoo.\nset -e\n", "Installs the zoo."),
        ("haskell", "{-# LANGUAGE X #-}\n-- | A zoo.\nmodule Zoo where\n", "A zoo."),
        ("php", "<?php\n\n/** Keeps. */\nnamespace App;\n", "Keeps."),
        ("html", "<!DOCTYPE html>\n<!-- The front page. -->\n<html>", "The front page."),
        ("markdown", "---\ntitle: x\n---\n# Zoo\n\n[![ci](a)](b)\n\nCats live here.\n", "# Zoo\nCats live here."),
        ("json", '{"a": 1}', ""),
        ("c", "", ""),
    ],
)  # fmt: skip
def test_the_head_of_a_file_is_what_introduces_it(name: str, source: str, head: str) -> None:
    assert read_file_header(LANGUAGES[name], source.encode()) == head


def test_the_head_is_at_most_600_characters() -> None:
    source = b"# words and words\n" * 1_000
    assert len(read_file_header(LANGUAGES["python"], source)) <= 600


def test_nothing_behind_line_60_is_a_head() -> None:
    assert read_file_header(LANGUAGES["python"], b"\n" * 80 + b"# late\n") == ""


def test_an_unclosed_comment_is_read_to_its_limit() -> None:
    assert read_file_header(LANGUAGES["c"], b"/* never closed\n" + b"x" * 10_000).startswith("never closed")
