"""Case folds letter by letter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.text.patterns import fold_case


@given(st.text(max_size=20))
def test_folding_keeps_every_character_in_its_place(text: str) -> None:
    assert len(fold_case(text)) == len(text)
    assert fold_case(fold_case(text)) == fold_case(text)
    assert [fold_case(char) for char in text] == list(fold_case(text))
