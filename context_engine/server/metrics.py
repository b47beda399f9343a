"""The metrics of calls per tool, in constant memory: counts, kinds of errors, and latencies in buckets 10 % wide.

They are shown as JSON rows, and as the text that Prometheus reads.

>>> metrics = Metrics()
>>> for ms in range(1, 101): metrics.add("trace", ms)
>>> metrics.rows()["trace"]["calls"], 45 < metrics.rows()["trace"]["p50_ms"] < 55
(100, True)
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from context_engine.errors import RateLimited

STEP = 1.1
"""A quantile is right to within 5 % on either side."""
LEAST_MS = 0.01
BUCKETS = 200
"""From 10 microseconds to half an hour."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTERS = {
    "calls": ("ctx_tool_calls_total", "Calls of a tool."),
    "rate_limited": ("ctx_tool_rate_limited_total", "Calls refused because there were too many."),
    "slow": ("ctx_tool_slow_total", "Calls that took longer than they should."),
    "masked": ("ctx_tool_masked_total", "Secrets masked in the replies of a tool."),
}
"""Key of a row -> the name and meaning of its metric."""
ERRORS = ("ctx_tool_errors_total", "Failed calls of a tool by the code of their error.")
DURATIONS = ("ctx_tool_duration_seconds", "How long calls of a tool took.")
PERCENTILES = (50, 95, 99)

Rows = Mapping[str, Mapping[str, Any]]
"""The result of `Metrics.rows`: tool -> its counts and times."""
Sample = tuple[str, Mapping[str, str], float]
"""The end of the name of a metric, its labels, its value."""


@dataclass(slots=True)
class _ToolCounts:
    """The counts of one tool."""

    calls: int = 0
    slow: int = 0
    masked: int = 0
    total_ms: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    longest_ms: float = 0.0

    def to_row(self) -> dict[str, Any]:
        """Return the row as it is shown; counts of problems only where there were some."""
        shown: dict[str, Any] = {"calls": self.calls, "ok": self.calls - self.errors.total()}
        unusual = {
            "errors": dict(sorted(self.errors.items())),
            "rate_limited": self.errors[RateLimited.code],
            "slow": self.slow,
            "masked": self.masked,
        }
        shown |= {name: count for name, count in unusual.items() if count}
        shown["total_ms"] = round(self.total_ms, 2)
        return shown | {f"p{percent}_ms": self.quantile(percent / 100) for percent in PERCENTILES}

    def quantile(self, share: float) -> float:
        """Return the middle of the bucket in which that share of the calls is reached, at most the longest call."""
        wanted, seen = share * self.calls, 0
        for number, count in enumerate(self.buckets):
            seen += count
            if seen >= wanted and seen:
                return round(min(LEAST_MS * STEP ** (number + 0.5), self.longest_ms), 2)
        return 0.0


class Metrics:
    """The metrics of one server, of one token of a shared server, or of one `ctx call`. Thread-safe.

    Everything is counted in `within`, too.
    """

    def __init__(self, within: Metrics | None = None) -> None:
        self._lock = threading.Lock()
        self._within = within
        self._rows: dict[str, _ToolCounts] = {}

    def add(self, tool: str, ms: float, error: str = "", *, slow: bool = False) -> None:
        """Count one call of a tool; `error` is its code, empty for success."""
        if self._within is not None:
            self._within.add(tool, ms, error, slow=slow)
        bucket = int(math.log(max(ms, LEAST_MS) / LEAST_MS, STEP))
        with self._lock:
            row = self._rows.setdefault(tool, _ToolCounts())
            row.calls += 1
            row.slow += slow
            row.total_ms += ms
            row.errors.update([error] if error else [])
            row.buckets[min(bucket, BUCKETS - 1)] += 1
            row.longest_ms = max(row.longest_ms, ms)

    def add_redacted(self, tool: str, count: int) -> None:
        """Count secrets that were masked in the reply of a tool, or of another sender."""
        if self._within is not None:
            self._within.add_redacted(tool, count)
        with self._lock:
            self._rows.setdefault(tool, _ToolCounts()).masked += count

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return tool -> its counts, errors by code, and p50, p95 and p99 in milliseconds; most called first."""
        with self._lock:
            ordered = sorted(self._rows.items(), key=lambda pair: (-pair[1].calls, pair[0]))
            return {tool: row.to_row() for tool, row in ordered}


def format_metrics(roles: Mapping[str, Rows], version: str) -> str:
    """Return the rows of `Metrics` in the text format of Prometheus, with durations in seconds.

    On a shared server each value has the role of its tokens; the role of any other server is empty, and left out.

    >>> rows = {"trace": {"calls": 2, "ok": 1, "errors": {"SYMBOL_NOT_FOUND": 1}, "p50_ms": 3.5, "total_ms": 7.0}}
    >>> print(format_metrics({"": rows}, "1.0"))  # doctest: +ELLIPSIS
    # HELP ctx_build_info The running version.
    # TYPE ctx_build_info gauge
    ctx_build_info{version="1.0"} 1
    # HELP ctx_tool_calls_total Calls of a tool.
    # TYPE ctx_tool_calls_total counter
    ctx_tool_calls_total{tool="trace"} 2
    ...
    """
    lines = [*_metric("ctx_build_info", "The running version.", "gauge", [("", {"version": version}, 1)])]
    samples: dict[str, list[Sample]] = {name: [] for name in (*COUNTERS, "errors", "durations")}
    for role, by_tool in roles.items():
        for tool, row in by_tool.items():
            labels = {"tool": tool, "role": role} if role else {"tool": tool}
            for key in COUNTERS:
                samples[key].append(("", labels, row.get(key, 0)))
            samples["errors"] += [("", {**labels, "code": code}, n) for code, n in row.get("errors", {}).items()]
            samples["durations"] += [
                *(("", {**labels, "quantile": f"{p / 100}"}, row.get(f"p{p}_ms", 0) / 1_000) for p in PERCENTILES),
                ("_sum", labels, row.get("total_ms", 0) / 1_000),
                ("_count", labels, row.get("calls", 0)),
            ]
    for key, (name, meaning) in COUNTERS.items():
        lines += _metric(name, meaning, "counter", samples[key])
    lines += _metric(*ERRORS, "counter", samples["errors"])
    lines += _metric(*DURATIONS, "summary", samples["durations"])
    return "\n".join(lines) + "\n"


def _metric(name: str, meaning: str, kind: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for suffix, labels, value in samples:
        pairs = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
        yield f"{name}{suffix}{{{pairs}}} {value:.10g}"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
