"""PURE. How often a tool may be called, and how long a call may take before it is reported as slow.

Each limited tool has a bucket with the calls of some minutes, which fills at the rate of the tool. So an agent may read
150 files in a minute of honest work, and an endless loop is stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CALLS_PER_MINUTE: Mapping[str, int] = {"search_memory": 30, "read_file": 100, "grep_codebase": 60}
"""The limits of seed 003, which calls the first one `context_search`. Other tools have none by default."""
LONGEST_S: Mapping[str, float] = {
    # seed 003's maximum times, and the same for what does the same work
    **dict.fromkeys(("search_memory", "search_code", "semantic_search", "cortex_search"), 5.0),
    **dict.fromkeys(("grep_codebase", "search_text", "scout"), 3.0),
    **dict.fromkeys(("read", "read_file", "read_fragment", "read_regions"), 0.5),
}
"""Longer calls are reported; other tools have no limit."""
LONGEST_WITH_DEPENDENCIES_S = 2.0
"""For `read_file` when it also reads what the file imports (seed 003)."""


@dataclass(slots=True)
class CallBucket:
    """The calls left for one tool at `since_s`."""

    left: float
    since_s: float


class RateLimiter:
    """The buckets of all limited tools; a rate of 0 and a burst of 0 minutes mean no limit. Not thread-safe.

    >>> limits = RateLimiter({"read_file": 60}, burst_minutes=1)
    >>> [limits.wait_s("read_file", now_s=0.0) for _ in range(61)][-2:]
    [0.0, 1.0]
    >>> limits.wait_s("read_file", now_s=1.0), limits.wait_s("trace", now_s=1.0)
    (0.0, 0.0)
    """

    def __init__(self, per_minute: Mapping[str, int], *, burst_minutes: float) -> None:
        self.per_minute = {tool: rate for tool, rate in per_minute.items() if rate and burst_minutes}
        self._burst_minutes = burst_minutes
        self._buckets: dict[str, CallBucket] = {}

    def wait_s(self, tool: str, now_s: float) -> float:
        """Count a call and return 0 if it is admitted, else return the seconds to wait."""
        rate = self.per_minute.get(tool)
        if rate is None:
            return 0.0
        size = max(1.0, rate * self._burst_minutes)
        bucket = self._buckets.setdefault(tool, CallBucket(size, now_s))
        bucket.left = min(size, bucket.left + max(0.0, now_s - bucket.since_s) * rate / 60)
        bucket.since_s = now_s
        if bucket.left < 1:
            return (1 - bucket.left) * 60 / rate
        bucket.left -= 1
        return 0.0


def parse_rates(stated: str) -> dict[str, int]:
    """Return the limits of `CALLS_PER_MINUTE` with the changes in the settings.

    >>> parse_rates("read_file=0, trace=20")
    {'search_memory': 30, 'read_file': 0, 'grep_codebase': 60, 'trace': 20}
    """
    pairs = (pair.partition("=") for pair in stated.replace(" ", "").split(",") if pair)
    return {**CALLS_PER_MINUTE, **{tool: int(rate) for tool, _, rate in pairs}}


def slow_after_s(tool: str, *, with_dependencies: bool) -> float:
    """Return the seconds after which a call is reported as slow."""
    if tool == "read_file" and with_dependencies:
        return LONGEST_WITH_DEPENDENCIES_S
    return LONGEST_S.get(tool, float("inf"))
