"""Words of a text, the terms of an index, and case that folds letter by letter."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.text.patterns import fold_case
from context_engine.text.words import (
    STOP_WORDS,
    WORD_CHARS_MAX,
    compound_term,
    expand_words,
    query_terms,
    split_identifier,
    split_words,
)

identifiers = st.text("aZbYx_19éß", min_size=1, max_size=8)


def by_eye(word: str) -> list[str]:
    """The parts of an ASCII identifier, character by character: a new one where the kind changes, or a hump begins."""
    parts: list[str] = []
    before = ""
    for at, char in enumerate(word):
        kind = "0" if char.isdigit() else "A" if char.isupper() else "a" if char.isalpha() else ""
        hump = kind == "A" and before == "A" and word[at + 1 : at + 2].islower()
        if kind and (kind != before or hump) and not (kind == "a" and before == "A"):
            parts.append("")
        if kind:
            parts[-1] += char.lower()
        before = kind
    return parts


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("getHTTPResponse", ["get", "http", "response"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("__init__", ["init"]),
        ("utf8Decoder", ["utf", "8", "decoder"]),
        ("ABC", ["abc"]),
        ("x", ["x"]),
        ("___", []),
        ("größe", ["gr", "öß", "e"]),
        ("日本語", ["日本語"]),
    ],
)
def test_an_identifier_is_split_where_a_reader_would(word: str, parts: list[str]) -> None:
    assert split_identifier(word) == parts


@given(st.text("abXY_12", min_size=1, max_size=9))
def test_ascii_identifiers_split_as_by_eye(word: str) -> None:
    assert split_identifier(word) == by_eye(word)


@given(st.lists(identifiers | st.text(max_size=6), max_size=8))
@example(["two\nlines", "plain"])
@example(["a" * (WORD_CHARS_MAX + 1), "plain"])
def test_many_words_at_once_are_the_same_as_one_by_one(many: list[str]) -> None:
    assert expand_words(many) == [expand_words([word])[0] for word in many]


@given(identifiers)
def test_the_whole_is_a_term_as_soon_as_there_are_parts(word: str) -> None:
    parts = split_identifier(word)
    assert expand_words([word])[0][len(parts) :] == ([compound_term(word)] if len(parts) > 1 else [])


@given(st.text("abcdeXY", min_size=1, max_size=4), st.text("abcde", min_size=1, max_size=4))
def test_camel_case_and_snake_case_of_a_name_are_one_term(first: str, second: str) -> None:
    assert compound_term(f"{first}_{second}") == compound_term(f"{first}{second.capitalize()}")


@given(st.text(st.characters(codec="ascii")) | st.text())
@example("".join(map(chr, range(128))))
def test_the_words_of_a_text_are_its_runs_of_letters_digits_and_underscores(text: str) -> None:
    assert split_words(text) == re.findall(r"\w+", text)


@given(st.lists(st.sampled_from(["pool", "Pool", "the", "getUser", "user"]), max_size=6))
def test_a_query_holds_each_term_once(asked: list[str]) -> None:
    found = query_terms(" ".join(asked))
    assert len(found) == len(set(found))
    telling = [word for word in asked if word not in STOP_WORDS] or asked
    assert set(found) == {term for word in telling for term in expand_words([word])[0]}


@given(st.text(max_size=20))
def test_folding_keeps_every_character_in_its_place(text: str) -> None:
    assert len(fold_case(text)) == len(text)
    assert fold_case(fold_case(text)) == fold_case(text)
    assert [fold_case(char) for char in text] == list(fold_case(text))
