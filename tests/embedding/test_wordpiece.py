"""Word pieces: identifiers split as the recipe says, the longest pieces first, nothing slow, nothing unsafe."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.wordpiece import (
    TOKENS_MAX,
    WORD_CHARS_MAX,
    WordPieces,
    normalize_character,
)

PIECES = [
    *string.ascii_lowercase,
    *(f"##{letter}" for letter in string.ascii_lowercase if letter not in "qz"),  # so that some words are unknown
    *string.digits,
    *("##" + digit for digit in string.digits),
    *"get file config parse http read ##er ##ing ##s cls sep 中 文 か ##な α σ ##σ ä".split(),
]
VOCABULARY = list(dict.fromkeys(["[UNK]", *PIECES]))

cutter = WordPieces(VOCABULARY)


def shown(text: str) -> str:
    return " ".join(VOCABULARY[number] for number in cutter.of(text).tolist())


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("getHTTPFile", "get http file"),
        ("parse_config_file2", "parse config file 2"),
        ("__get__", "get"),
        ("_", ""),
        ("READ_FILE", "read file"),
        ("get(File.configs)", "get file config ##s"),
        ("http2Reading", "http 2 read ##ing"),
        ("getÄFile", "get a file"),
        ("readFilé", "read file"),
        ("中get文", "中 get 文"),
        ("quiz get", "get"),
        ("[CLS] file [SEP]", "cls file sep"),
        ("get\ud800File", "get file"),
    ],
)
def test_an_identifier_is_cut_where_a_reader_would(text: str, pieces: str) -> None:
    assert shown(text) == pieces


@given(st.text(string.ascii_letters + string.digits + "_", max_size=40))
def test_the_parts_of_an_identifier_are_those_the_recipe_names(name: str) -> None:
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    assert shown(name) == shown(" ".join(parts))


@pytest.mark.parametrize(
    ("unit", "count"),
    [
        ("a", 0),
        ("aA", WORD_CHARS_MAX),
        ("_", 0),
        (" ", 0),
        ("🎉", 0),
        ("\u0316\u0300", 0),
        ("\0", 0),
        ("a ", TOKENS_MAX),
    ],
    ids=ascii,
)
def test_a_megabyte_is_cut_like_any_text(unit: str, count: int) -> None:
    assert len(cutter.of(unit * (1_000_000 // len(unit)))) == count


def test_a_word_of_a_hundred_letters_is_cut_and_a_longer_one_unknown() -> None:
    assert len(cutter["a" * WORD_CHARS_MAX]) == WORD_CHARS_MAX
    assert cutter["a" * (WORD_CHARS_MAX + 1)] == ()


@given(st.characters())
def test_the_normal_form_of_a_character_is_its_own_normal_form(char: str) -> None:
    form = normalize_character(char)
    assert "".join(map(normalize_character, form.strip())).strip() == form.strip()
