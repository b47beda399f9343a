"""Texts on their way to a model: none is lost, none is sent twice, no batch is too large."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.embedder import ITEMS_MAX, cut, embed_in_batches, stack_vectors
from context_engine.text.words import estimate_tokens


@given(st.lists(st.integers(0, 99).map(str) | st.sampled_from(["", " \n"]), max_size=120))
def test_each_text_is_embedded_once_in_batches_and_has_its_row(texts: list[str]) -> None:
    asked: list[list[str]] = []

    def embed(batch: list[str]) -> np.ndarray:
        asked.append(batch)
        return np.array([[float(text) + 1] for text in batch])

    rows = stack_vectors(texts, embed_in_batches(texts, embed, None), 1)
    assert rows.ravel().tolist() == [float(text) + 1 if text.strip() else 0.0 for text in texts]
    assert all(0 < len(batch) <= ITEMS_MAX for batch in asked)
    sent = [text for batch in asked for text in batch]
    assert len(sent) == len(set(sent))


@given(st.text(st.sampled_from("ab 文é🎉"), max_size=60), st.integers(1, 12))
def test_a_cut_text_is_a_beginning_that_fits(text: str, tokens_max: int) -> None:
    short = cut(text, tokens_max)
    assert text.startswith(short)
    assert estimate_tokens(short) <= tokens_max
    assert short == text or estimate_tokens(short) >= tokens_max // 2
