"""Two memories are compared by what they say: the same, or nearly the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.memory.memory_checks import collect_terms, compare_terms, hash_content

SENTENCES = st.lists(
    st.sampled_from("use never tabs spaces port 3000 4000 is the not in Makefiles always retry after 5 s".split()),
    max_size=10,
).map(" ".join)


@given(SENTENCES, SENTENCES)
def test_who_is_compared_with_whom_does_not_matter(one: str, other: str) -> None:
    terms = collect_terms(one), collect_terms(other)
    assert 0.0 <= compare_terms(*terms) == compare_terms(*reversed(terms)) <= 1.0
    assert compare_terms(terms[0], terms[0]) == (1.0 if one else 0.0)


@given(SENTENCES, SENTENCES)
def test_equal_digests_mean_equal_words(one: str, other: str) -> None:
    assert (hash_content(one) == hash_content(other)) == (one.casefold().split() == other.casefold().split())
    assert hash_content(one) == hash_content(f"  **{one.upper()}!**\n")
