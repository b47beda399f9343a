"""Patterns: plain text stays plain, case folds letter by letter, and what Python would read otherwise is rewritten or refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import InvalidArgument
from context_engine.text.patterns import closes_too_early, escape_literal, fold_case, to_python_pattern


@given(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), min_size=1, max_size=9),
    st.text(max_size=3),
)
def test_a_text_is_found_where_it_stands_and_nowhere_else(text: str, before: str) -> None:
    pattern = re.compile(to_python_pattern(escape_literal(text)))
    assert pattern.search(f"{before}{text}")
    for other in ("", before):
        assert bool(pattern.search(other)) == (text in other)


@given(st.text(max_size=20))
def test_folding_keeps_every_character_in_its_place(text: str) -> None:
    assert len(fold_case(text)) == len(text)
    assert fold_case(fold_case(text)) == fold_case(text)
    assert [fold_case(char) for char in text] == list(fold_case(text))


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("a.c", ["abc", "aéc"], ["a\rc", "a\udce9c", "ac"]),
        (r"[^b]", ["a"], ["b", "\udce9", "\r"]),
        (r"\D|\W", ["-"], ["1", "\udce9"]),
        (r"^b", ["b", "a\rb"], ["ab"]),
        (r"a$", ["a", "a\rb"], ["ab"]),
        (r"\s", [" ", "\t", "\u2003"], ["\x1c", "\r"]),
        ("(?i)straße", ["STRAẞE", "straße"], ["strasse"]),
        ("(?i)i", ["I"], ["İ", "ı"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(?i:x)Y", ["XY", "xY"], ["Xy"]),
        ("(a(?i)b)C", ["aBC"], ["aBc"]),
        ("a**", [""], []),
        ("x{2}{2}", ["xxxx"], ["xxx"]),
        (r"\x41\u{e9}\u00e9", ["Aéé"], ["aéé"]),
        ("[]a]b", ["]b", "ab"], ["b"]),
        ("[[:digit:]a-]", ["5", "a", "-"], ["b"]),
        (r"\<a\>", ["a", "b a c"], ["ab"]),
        ("", ["", "x"], []),
    ],
)
def test_a_pattern_means_in_python_what_it_means_in_rust(pattern: str, found: list[str], not_found: list[str]) -> None:
    written = re.compile(to_python_pattern(pattern))
    assert [text for text in found if not written.search(text)] == []
    assert [text for text in not_found if written.search(text)] == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "unclosed group"), ("a)", "unopened"), ("[a", "unclosed character class"), ("*", "missing expression"),
        ("a{x}", "valid decimal"), ("(?=a)", "look-ahead"), (r"\1", "backreferences"), (r"\n", "line by line"),
        ("[\t-\r]", "line by line"), (r"\q", "unrecognized"), ("\\", "incomplete"), (r"\p{L}", "without ripgrep"),
        ("[a&&b]", "without ripgrep"), ("(?x)a", "without ripgrep"), (r"\z", "without ripgrep"), (r"[\W]", "without ripgrep"),
        ("(" * 200 + ")" * 200, "too deeply"), (r"\u{d800}", "hexadecimal"),
    ],
)  # fmt: skip
def test_what_cannot_be_promised_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        to_python_pattern(pattern)


@given(st.text("ab()[]\\^$*+?{}|.-:!<=Pi1,&", max_size=12), st.booleans())
def test_whatever_is_sent_is_rewritten_or_refused(pattern: str, ignore_case: bool) -> None:
    try:
        written = to_python_pattern(pattern, ignore_case=ignore_case)
    except InvalidArgument:
        return
    re.compile(written)
    assert not closes_too_early(pattern)
