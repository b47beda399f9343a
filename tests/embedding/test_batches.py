"""Texts on their way to a model: nothing lost, nothing doubled, no batch too large."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.embedder import BATCH_TOKENS_MAX, ITEMS_MAX, batches, cut, encodable
from context_engine.text.words import estimate_tokens

SIZES = st.lists(
    st.sampled_from([0, 1, 50, 3_000, BATCH_TOKENS_MAX // 2, BATCH_TOKENS_MAX, 2 * BATCH_TOKENS_MAX]), max_size=80
)


@given(SIZES)
def test_batches_hold_every_text_in_order_and_none_is_empty(sizes: list[int]) -> None:
    texts = ["文" * size for size in sizes]
    found = list(batches(texts))
    assert [text for batch in found for text in batch] == texts
    assert all(found)


@given(SIZES)
def test_a_batch_is_within_its_bounds_unless_one_text_alone_is_larger(sizes: list[int]) -> None:
    for batch in batches(["文" * size for size in sizes]):
        assert len(batch) <= ITEMS_MAX
        assert len(batch) == 1 or sum(map(len, batch)) <= BATCH_TOKENS_MAX


@given(st.text(st.sampled_from("ab 文é🎉"), max_size=60), st.integers(1, 12))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, tokens_max: int) -> None:
    short = cut(text, tokens_max)
    assert text.startswith(short)
    assert estimate_tokens(short) <= tokens_max
    assert short == text or estimate_tokens(text[: len(short) + 1]) > tokens_max


@given(st.text(st.characters(), max_size=20))
def test_what_is_sent_can_be_written_as_utf_8(text: str) -> None:
    assert encodable(text + "\udfff\ud800").encode()
    assert encodable(text) == "".join("?" if "\ud800" <= char <= "\udfff" else char for char in text)
