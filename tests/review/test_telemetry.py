"""Telemetry: what was measured and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from context_engine.review.review_job import ReviewMetrics, busy_s, percentiles, summarize_metrics
from context_engine.review.review_store import ReviewUnit


def unit(times: Sequence[float], tries: int = 1) -> ReviewUnit:
    queued_at, began_at, ended_at = times
    return ReviewUnit(("a.py",), 1, "done", tries, 1, 0, queued_at, began_at, ended_at)


moments = st.integers(1, 50).map(float)
spans = st.lists(st.tuples(moments, moments, moments).map(lambda three: unit(sorted(three))), max_size=8)


@given(st.lists(st.integers(0, 10**6).map(lambda number: number / 100), min_size=1))
def test_percentiles_are_samples_in_order(samples: list[float]) -> None:
    taken = percentiles(samples)
    assert taken
    assert {taken["p50"], taken["p95"], taken["p99"], taken["max"]} <= set(samples)
    assert taken["p50"] <= taken["p95"] <= taken["p99"] <= taken["max"] == max(samples)
    assert taken["count"] == len(samples)
    assert 2 * sum(sample <= taken["p50"] for sample in samples) >= len(samples)


@given(spans)
def test_units_take_at_least_as_long_together_as_the_time_in_which_any_was_under_way(found: list[ReviewUnit]) -> None:
    seconds = {second for span in found for second in range(int(span.began_at), int(span.ended_at))}
    assert busy_s((span.began_at, span.ended_at) for span in found) == len(seconds)
    told = summarize_metrics([], found, [], 2)
    assert told["units"]["total_ms"] >= told["units"]["wall_ms"] == len(seconds) * 1_000
    assert told["worker_utilisation"] is None or told["worker_utilisation"] > 0


def test_what_was_not_measured_is_not_told() -> None:
    told = summarize_metrics([ReviewMetrics({"lint": []})], [], [], 1)
    assert (told["stages"], told["model"], told["queue_wait"], told["worker_utilisation"]) == ({}, None, None, None)
    assert told["cache"] == {"hits": 0, "misses": 0, "rate": None}


def test_everything_is_counted() -> None:
    figures = [
        ReviewMetrics({"lint": [1.0, 3.0]}, 3, 1, 10, ["ruff: timed out"]),
        ReviewMetrics({"lint": [2.0], "merge": [5.0]}, 0, 0, 5),
    ]
    pairs = [("ruff", "style"), ("builtin", "style"), ("ruff", "security")]
    found = [{"source": source, "category": category} for source, category in pairs]
    told = summarize_metrics(figures, [unit((0.0, 1.0, 3.0)), unit((0.0, 2.0, 4.0), tries=2)], found, 2)
    assert told["stages"]["lint"] == {"p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0, "count": 3}
    assert told["cache"] == {"hits": 3, "misses": 1, "rate": 0.75}
    assert told["findings"] == {"by_source": {"builtin": 1, "ruff": 2}, "by_category": {"security": 1, "style": 2}}
    assert (told["units"], told["worker_utilisation"]) == ({"count": 2, "total_ms": 4_000.0, "wall_ms": 3_000.0}, 0.667)
    assert (told["queue_wait"]["max"], told["bytes_read"], told["retries"]) == (2_000.0, 15, 1)
    assert told["analyzer_failures"] == ["ruff: timed out"]
