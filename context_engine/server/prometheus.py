"""PURE. The metrics as Prometheus reads them: one text, a line a value, durations in seconds.

>>> rows = {"trace": {"calls": 2, "ok": 1, "errors": {"SYMBOL_NOT_FOUND": 1}, "p50_ms": 3.5, "total_ms": 7.0}}
>>> print(format_metrics(rows, "1.0"))  # doctest: +ELLIPSIS
# HELP ctx_build_info The running version.
# TYPE ctx_build_info gauge
ctx_build_info{version="1.0"} 1
# HELP ctx_tool_calls_total Calls of a tool.
# TYPE ctx_tool_calls_total counter
ctx_tool_calls_total{tool="trace"} 2
...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

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
"""What `Metrics.rows` says: tool -> its counts and times."""
Row = tuple[Mapping[str, str], Mapping[str, Any]]
"""Labels, and what was counted under them."""
Value = tuple[str, Mapping[str, str], float]


def format_metrics(rows: Rows, version: str) -> str:
    """The rows of `Metrics` in the text format, ending in a newline."""
    return _page([({"tool": tool}, row) for tool, row in rows.items()], version)


def format_metrics_by_role(roles: Mapping[str, Rows], version: str) -> str:
    """The same for a shared server: each value says the role of the tokens that it is about."""
    return _page(
        [({"tool": tool, "role": role}, row) for role, rows in roles.items() for tool, row in rows.items()], version
    )


def _page(rows: Sequence[Row], version: str) -> str:
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
        told = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
        yield f"{name}{suffix}{{{told}}} {value:.10g}"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
