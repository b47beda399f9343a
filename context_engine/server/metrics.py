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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
QUANTILES = {"p50_ms": "0.5", "p95_ms": "0.95", "p99_ms": "0.99"}

Rows = Mapping[str, Mapping[str, Any]]
"""The result of `Metrics.rows`: tool -> its counts and times."""
Row = tuple[Mapping[str, str], Mapping[str, Any]]
"""Labels and their row."""
Value = tuple[str, Mapping[str, str], float]


@dataclass(slots=True)
class _ToolCounts:
    """The counts of one tool."""

    calls: int = 0
    ok: int = 0
    slow: int = 0
    masked: int = 0
    total_ms: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    longest_ms: float = 0.0


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
            row.ok += not error
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
            return {tool: _format_row(row) for tool, row in ordered}


def _format_row(row: _ToolCounts) -> dict[str, Any]:
    """Return the row as it is shown; counts of problems only where there were some."""
    shown: dict[str, Any] = {"calls": row.calls, "ok": row.ok}
    if row.errors:
        shown["errors"] = dict(sorted(row.errors.items()))
    unusual = {"rate_limited": row.errors[RateLimited.code], "slow": row.slow, "masked": row.masked}
    shown |= {name: count for name, count in unusual.items() if count}
    shown["total_ms"] = round(row.total_ms, 2)
    return shown | {f"p{percent}_ms": _quantile(row, percent / 100) for percent in SHARES}


def _quantile(row: _ToolCounts, share: float) -> float:
    """Return the middle of the bucket in which that share of the calls is reached, at most the longest call."""
    wanted, seen = share * row.calls, 0
    for number, count in enumerate(row.buckets):
        seen += count
        if seen >= wanted and seen:
            return round(min(LEAST_MS * STEP ** (number + 0.5), row.longest_ms), 2)
    return 0.0


# -- the text format of Prometheus -------------------------------------------------------------------------------------


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
    rows: list[Row] = [
        ({"tool": tool} | ({"role": role} if role else {}), row)
        for role, by_tool in roles.items()
        for tool, row in by_tool.items()
    ]
    lines = [*_metric("ctx_build_info", "The running version.", "gauge", [("", {"version": version}, 1)])]
    for key, (name, meaning) in COUNTERS.items():
        values: list[Value] = [("", labels, row.get(key, 0)) for labels, row in rows]
        lines += _metric(name, meaning, "counter", values)
    lines += _metric(*ERRORS, "counter", _errors(rows))
    lines += _metric(*DURATIONS, "summary", _durations(rows))
    return "\n".join(lines) + "\n"


def _errors(rows: Sequence[Row]) -> Iterator[Value]:
    for labels, row in rows:
        for code, count in row.get("errors", {}).items():
            yield "", {**labels, "code": code}, count


def _durations(rows: Sequence[Row]) -> Iterator[Value]:
    for labels, row in rows:
        for key, quantile in QUANTILES.items():
            yield "", {**labels, "quantile": quantile}, row.get(key, 0) / 1000
        yield "_sum", labels, row.get("total_ms", 0) / 1000
        yield "_count", labels, row.get("calls", 0)


def _metric(name: str, meaning: str, kind: str, values: Iterable[Value]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for suffix, labels, value in values:
        pairs = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
        yield f"{name}{suffix}{{{pairs}}} {value:.10g}"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
