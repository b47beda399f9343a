"""Two memories are compared by what they say: the same, nearly the same, the opposite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.memory import memory_checks
from context_engine.memory.memory_checks import hash_content, parse_statement


def sameness(one: str, other: str) -> float:
    return memory_checks.compare_words(parse_statement(one), parse_statement(other))


def conflict(one: str, other: str) -> str:
    return memory_checks.find_conflict(parse_statement(one), parse_statement(other))


SENTENCES = st.lists(
    st.sampled_from("use never tabs spaces port 3000 4000 is the not in Makefiles always retry after 5 s".split()),
    max_size=10,
).map(" ".join)


@given(SENTENCES, SENTENCES)
def test_who_is_compared_with_whom_does_not_matter(one: str, other: str) -> None:
    assert sameness(one, other) == sameness(other, one)
    assert bool(conflict(one, other)) == bool(conflict(other, one))
    assert 0.0 <= sameness(one, other) <= 1.0


@given(SENTENCES)
def test_nothing_contradicts_itself_and_everything_is_the_same_as_itself(text: str) -> None:
    assert conflict(text, text) == ""
    assert sameness(text, text) == (1.0 if text else 0.0)
    assert hash_content(text) == hash_content(f"  **{text.upper()}!**\n")


@given(SENTENCES, SENTENCES)
def test_equal_digests_mean_equal_words(one: str, other: str) -> None:
    assert (hash_content(one) == hash_content(other)) == (one.casefold().split() == other.casefold().split())


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("The API listens on port 3000", "The API listens on port: 4000", "port is 3000 in one and 4000 in the other"),
        ("Retry after timeout = 5", "Retry after timeout of 10", "timeout is 5"),
        ("Use Redis for the session cache", "Never use Redis for the session cache", "one says to"),
        ("No, do not, never use Redis for the session cache", "Use Redis for the session cache", "one says to"),
        ("Always squash commits before merging", "Don't squash commits before merging", "one says to"),
    ],
)
def test_a_contradiction_is_named(one: str, other: str, why: str) -> None:
    assert why in conflict(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The API listens on port 3000", "The database has 3 replicas"),
        ("Use Redis for sessions", "Never commit to main"),
        ("The API listens on port 3000", "The API listens on port 3000 on every host"),
        ("Do not use tabs", "Never use tabs"),
        ("The API listens on port 3000", "The API listens on port 3000, its proxy on port 4000"),
    ],
)
def test_what_only_looks_like_one_is_not(one: str, other: str) -> None:
    assert conflict(one, other) == conflict(other, one) == ""
