"""Texts on their way to a model: none is lost, none is sent twice, no batch is too large."""

from __future__ import annotations

import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.embedder import ITEMS_MAX, BatchEmbedder, EmbedderConfig, Mode, cut
from context_engine.text.words import estimate_tokens


class Counting(BatchEmbedder):
    """Writes down what it is asked; the vector of a number is the next one."""

    def __init__(self) -> None:
        super().__init__("counting", "", EmbedderConfig("counting"))
        self.asked: list[list[str]] = []

    def _embed_batch(self, batch: list[str], mode: Mode, cancel: threading.Event | None) -> np.ndarray:
        self.asked.append(batch)
        return np.array([[float(text) + 1 if text.isdigit() else 0.0] for text in batch])


@given(st.lists(st.integers(0, 99).map(str) | st.sampled_from(["", " \n"]), max_size=120))
def test_each_text_is_embedded_once_in_batches_and_has_its_row(texts: list[str]) -> None:
    embedder = Counting()
    rows = embedder.embed(texts, "passage")
    assert rows.ravel().tolist() == [float(text) + 1 if text.strip() else 0.0 for text in texts]
    assert all(0 < len(batch) <= ITEMS_MAX for batch in embedder.asked)
    sent = [text for batch in embedder.asked for text in batch]
    assert len(sent) == len(set(sent))


@given(st.text(st.sampled_from("ab 文é🎉"), max_size=60), st.integers(1, 12))
def test_a_cut_text_is_a_beginning_that_fits(text: str, tokens_max: int) -> None:
    short = cut(text, tokens_max)
    assert text.startswith(short)
    assert estimate_tokens(short) <= tokens_max
    assert short == text or estimate_tokens(short) >= tokens_max // 2
