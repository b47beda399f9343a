"""Rate limits: a bucket for each tool, which holds minutes of calls and fills at the tool's rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.server.rate_limits import RateLimiter


def admitted(limits: RateLimiter, tool: str, calls: int, *, now_s: float = 0.0) -> int:
    return sum(limits.wait_s(tool, now_s) == 0 for _ in range(calls))


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.lists(st.floats(0, 30), min_size=1, max_size=60).map(sorted),
)
def test_no_stretch_of_time_sees_more_calls_than_the_bucket_and_its_rate(
    per_minute: int, burst_minutes: int, moments: list[float]
) -> None:
    limits = RateLimiter({"trace": per_minute}, burst_minutes=burst_minutes)
    passed = [now_s for now_s in moments if limits.wait_s("trace", now_s) == 0]
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            most = per_minute * burst_minutes + (passed[last] - passed[first]) * per_minute / 60
            assert last - first + 1 <= most + 1e-6


@given(st.integers(1, 500), st.integers(1, 9), st.floats(0, 1e6))
def test_whoever_waits_as_long_as_told_is_admitted(per_minute: int, burst_minutes: int, now_s: float) -> None:
    limits = RateLimiter({"trace": per_minute}, burst_minutes=burst_minutes)
    assert admitted(limits, "trace", 5_000, now_s=now_s) == per_minute * burst_minutes
    wait_s = limits.wait_s("trace", now_s)
    assert 0 < wait_s <= 60 / per_minute
    assert limits.wait_s("trace", now_s + wait_s + 1e-3) == 0
