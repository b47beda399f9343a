"""How calls went, per tool, in constant memory: counts, kinds of errors, and latencies in buckets 10 % wide.

>>> metrics = Metrics()
>>> for ms in range(1, 101): metrics.add("trace", ms)
>>> metrics.rows()["trace"]["calls"], 45 < metrics.rows()["trace"]["p50_ms"] < 55
(100, True)
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from context_engine.errors import RateLimited

STEP = 1.1
"""A quantile is right to within 5 % on either side."""
LEAST_MS = 0.01
BUCKETS = 200
"""From 10 microseconds to half an hour."""
SHARES = (50, 95, 99)
"""The percentiles in the reply."""


@dataclass(slots=True)
class _ToolCounts:
    """One tool."""

    calls: int = 0
    ok: int = 0
    slow: int = 0
    masked: int = 0
    total_ms: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    longest_ms: float = 0.0


class Metrics:
    """Thread-safe.

    One per server, per token of a shared one, or per `ctx call`. What is counted is counted in `within`, too.
    """

    def __init__(self, within: Metrics | None = None) -> None:
        self._lock = threading.Lock()
        self._within = within
        self._rows: dict[str, _ToolCounts] = {}

    def add(self, tool: str, ms: float, error: str = "", *, slow: bool = False) -> None:
        """Count one call of a tool; `error` is its code, empty when all went well."""
        if self._within is not None:
            self._within.add(tool, ms, error, slow=slow)
        bucket = int(math.log(max(ms, LEAST_MS) / LEAST_MS, STEP))
        with self._lock:
            row = self._rows.setdefault(tool, _ToolCounts())
            row.calls += 1
            row.ok += not error
            row.slow += slow
            row.total_ms += ms
            row.errors.update([error] if error else [])
            row.buckets[min(bucket, BUCKETS - 1)] += 1
            row.longest_ms = max(row.longest_ms, ms)

    def add_redacted(self, tool: str, count: int) -> None:
        """Count secrets that were masked in what a tool, or something else that speaks, sent out."""
        if self._within is not None:
            self._within.add_redacted(tool, count)
        with self._lock:
            self._rows.setdefault(tool, _ToolCounts()).masked += count

    def rows(self) -> dict[str, dict[str, Any]]:
        """Tool -> its counts, errors by code, and p50, p95 and p99 in milliseconds; most called first."""
        with self._lock:
            ordered = sorted(self._rows.items(), key=lambda pair: (-pair[1].calls, pair[0]))
            return {tool: _format_row(row) for tool, row in ordered}


def _format_row(row: _ToolCounts) -> dict[str, Any]:
    """The row as it is shown; counts of what should not happen only when it did."""
    told: dict[str, Any] = {"calls": row.calls, "ok": row.ok}
    if row.errors:
        told["errors"] = dict(sorted(row.errors.items()))
    unusual = {"rate_limited": row.errors[RateLimited.code], "slow": row.slow, "masked": row.masked}
    told |= {name: count for name, count in unusual.items() if count}
    return told | {"total_ms": round(row.total_ms, 2)} | {f"p{each}_ms": _quantile(row, each / 100) for each in SHARES}


def _quantile(row: _ToolCounts, share: float) -> float:
    """The middle of the bucket in which that share of the calls is reached, never above the longest call."""
    wanted, seen = share * row.calls, 0
    for number, count in enumerate(row.buckets):
        seen += count
        if seen >= wanted and seen:
            return round(min(LEAST_MS * STEP ** (number + 0.5), row.longest_ms), 2)
    return 0.0
