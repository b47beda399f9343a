"""Progress never goes back, comes at most four times a second, and a silent call still shows a sign of life."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from context_engine.model import Progress
from context_engine.server.worker_threads import ProgressTicker


def test_stages_follow_each_other() -> None:
    ticker = ProgressTicker(0.0)
    first = ticker.tick(0.3, Progress("scanning", 50, 100))
    assert first
    assert (first.progress, first.total, first.message) == (50, 100, "scanning: 50 of 100 files")
    second = ticker.tick(0.6, Progress("indexing", 10, 40))
    assert second
    assert (second.progress, second.total) == (60, 90)


def test_nothing_is_told_twice_within_a_quarter_second() -> None:
    ticker = ProgressTicker(0.0)
    assert ticker.tick(1.0, Progress("indexing", 1, 9))
    assert ticker.tick(1.2, Progress("indexing", 2, 9)) is None
    assert ticker.tick(1.25, Progress("indexing", 2, 9))


def test_a_call_without_progress_shows_a_sign_of_life_each_second() -> None:
    ticker = ProgressTicker(10.0)
    told = [ticker.tick(10.0 + quarter / 4, None) for quarter in range(1, 13)]
    assert [each.progress for each in told if each] == [1.0, 2.0, 3.0]
    assert all(each.total is None for each in told if each)


STEPS = st.none() | st.builds(
    Progress, st.sampled_from(["scanning", "indexing", "finishing"]), st.integers(0, 9), st.integers(0, 9)
)


@given(st.lists(st.tuples(st.floats(0, 2), STEPS), max_size=30))
def test_progress_only_grows_and_keeps_its_distance(ticks: list[tuple[float, Progress | None]]) -> None:
    ticker, now, sent = ProgressTicker(0.0), 0.0, []
    for later, step in ticks:
        now += later
        if told := ticker.tick(now, step):
            sent.append((now, told.progress))
    for (before_s, before), (after_s, after) in itertools.pairwise(sent):
        assert after > before
        assert after_s - before_s >= 0.25
