"""Subjects of commits as a small search of its own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from context_engine.history.file_history import CommitSearch

WORDS = st.sampled_from(["parser", "date", "logo", "cache", "getHeader", "fix", "the"])
SUBJECTS = st.lists(st.lists(WORDS, max_size=5).map(" ".join), max_size=6)


@given(SUBJECTS, st.lists(WORDS, min_size=1, max_size=5).map(" ".join))
def test_a_subject_matches_if_and_only_if_it_shares_a_word(subjects: list[str], text: str) -> None:
    asked = set(text.split())
    telling = asked - {"the"} or asked
    matches = CommitSearch(subjects).matches(text)
    assert (matches > 0).tolist() == [bool(telling & set(subject.split())) for subject in subjects]


@given(SUBJECTS, st.lists(WORDS, min_size=1, max_size=5).map(" ".join))
def test_what_a_subject_is_worth_does_not_depend_on_where_it_stands(subjects: list[str], text: str) -> None:
    there = CommitSearch(subjects).matches(text)
    back = CommitSearch(subjects[::-1]).matches(text)
    assert np.allclose(there, back[::-1])


def test_the_rare_word_counts_more() -> None:
    first, second, *_ = CommitSearch(["fix header", "fix cookie", "fix date", "fix logo"]).matches("fix cookie")
    assert second > 2 * first


def test_a_word_that_nobody_wrote_lowers_every_match() -> None:
    subjects = CommitSearch(["cookie jar", "logo"])
    assert subjects.matches("cookie zeppelin")[0] < subjects.matches("cookie")[0]
