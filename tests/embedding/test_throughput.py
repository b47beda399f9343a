"""How many texts fit into a moment is judged by what the last ones took, and one hiccup changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.deadline_embedder import MEASURED_MAX, TEXT_CHARS, ThroughputEstimator

TEXTS = st.lists(st.integers(0, 2_000).map("x".__mul__), max_size=12)
SECONDS = st.floats(0.0, 2.0)


def steady(seconds_per_char: float, tokens_max: int = 128) -> ThroughputEstimator:
    """A pace that has measured the same again and again."""
    pace = ThroughputEstimator(tokens_max)
    for _ in range(MEASURED_MAX):
        pace.record(["x" * 60], (TEXT_CHARS + 60) * seconds_per_char)
    return pace


@given(TEXTS, SECONDS, SECONDS)
def test_a_batch_takes_no_longer_than_its_step_unless_it_is_a_single_text_and_never_longer_than_there_is_time(
    texts: list[str], left_s: float, step_s: float
) -> None:
    count = steady(0.001).count_fitting(texts, left_s, step_s)
    takes_s = sum(TEXT_CHARS + min(len(text), 512) for text in texts[:count]) * 0.001
    assert takes_s <= left_s + 1e-9
    assert count <= 1 or takes_s <= step_s + 1e-9


@given(TEXTS, SECONDS)
def test_another_text_would_not_have_fitted(texts: list[str], left_s: float) -> None:
    count = steady(0.001).count_fitting(texts, left_s, left_s)
    takes_s = sum(TEXT_CHARS + min(len(text), 512) for text in texts[: count + 1]) * 0.001
    assert count == len(texts) or takes_s > left_s - 1e-9


def test_a_text_counts_by_what_the_model_reads_of_it() -> None:
    assert steady(0.001).count_fitting(["x" * 100_000] * 3, 1.2, 1.2) == 2


def test_one_hiccup_changes_nothing() -> None:
    pace = steady(0.001)
    before = pace.count_fitting(["x" * 60] * 50, 1.0, 1.0)
    pace.record(["x" * 60], 60.0)
    assert pace.count_fitting(["x" * 60] * 50, 1.0, 1.0) == before
    for _ in range(MEASURED_MAX):
        pace.record(["x" * 60], 60.0)
    assert pace.count_fitting(["x" * 60] * 50, 1.0, 1.0) == 0


def test_what_embeds_nothing_teaches_nothing() -> None:
    pace = steady(0.001)
    pace.record([], 60.0)
    assert pace.count_fitting(["x" * 60] * 50, 1.0, 1.0) == 10
