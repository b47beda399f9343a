"""Rate limits: a bucket for each tool, which holds minutes of calls and fills at the tool's rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.server.rate_limits import CALLS_PER_MINUTE, RateLimiter, slow_after_s


def admitted(limits: RateLimiter, tool: str, calls: int, *, now_s: float = 0.0) -> int:
    return sum(limits.wait_s(tool, now_s) == 0 for _ in range(calls))


@pytest.mark.parametrize(("tool", "per_minute"), [("search_memory", 30), ("read_file", 100), ("grep_codebase", 60)])
def test_a_tool_may_be_called_as_often_as_its_document_says_times_the_burst(tool: str, per_minute: int) -> None:
    limits = RateLimiter(CALLS_PER_MINUTE, burst_minutes=5)
    assert admitted(limits, tool, 10_000) == 5 * per_minute
    assert admitted(limits, tool, 10_000, now_s=60.0) == per_minute


def test_an_agent_that_reads_150_files_a_minute_is_not_stopped_for_eight_minutes() -> None:
    limits = RateLimiter(CALLS_PER_MINUTE, burst_minutes=5)
    assert [admitted(limits, "read_file", 150, now_s=60.0 * minute) for minute in range(8)] == [150] * 8


def test_tools_do_not_share_a_bucket() -> None:
    limits = RateLimiter({"read_file": 1, "trace": 1}, burst_minutes=1)
    assert admitted(limits, "read_file", 5) == 1
    assert admitted(limits, "trace", 5) == 1


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


@pytest.mark.parametrize(
    ("tool", "with_dependencies", "most_s"),
    [
        ("search_memory", False, 5.0), ("grep_codebase", False, 3.0), ("read_file", False, 0.5), ("read_file", True, 2.0),
        ("index_workspace", False, float("inf")),
    ],
)  # fmt: skip
def test_each_tool_has_the_maximum_time_of_its_document(tool: str, with_dependencies: bool, most_s: float) -> None:
    assert slow_after_s(tool, with_dependencies=with_dependencies) == most_s
