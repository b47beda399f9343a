"""PURE. What a review session took: times by stage, waiting, the use of its workers, the cache, what each source found.

Nothing is estimated: what was not measured is not there, and `model` is None where no model was asked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class UnitMetrics:
    """What was measured in one unit, or at the end of the session.

    `stages` are milliseconds, one number for each time.
    """

    stages: Mapping[str, Sequence[float]] = field(default_factory=dict)
    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    failures: Sequence[str] = ()


class UnitTimes(NamedTuple):
    """When a unit waited and was under way, in seconds since 1970."""

    queued_at: float
    began_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds of one stage."""

    p50: float
    p95: float
    p99: float
    max: float
    count: int


def percentiles(samples: Sequence[float]) -> Percentiles:
    """The nearest-rank percentiles of some milliseconds, at least one.

    >>> percentiles([1.0, 2.0, 3.0, 4.0])
    Percentiles(p50=2.0, p95=4.0, p99=4.0, max=4.0, count=4)
    """
    ordered = sorted(samples)

    def rank(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return Percentiles(rank(0.5), rank(0.95), rank(0.99), ordered[-1], len(ordered))


def busy_s(spans: Iterable[UnitTimes]) -> float:
    """Seconds in which at least one unit was under way: what a pause or a crash takes is not in it.

    >>> busy_s([UnitTimes(0, 0, 2), UnitTimes(0, 1, 3), UnitTimes(0, 10, 11)])
    4.0
    """
    total, reached = 0.0, -math.inf
    for span in sorted(spans, key=lambda each: each.began_at):
        total += max(0.0, span.ended_at - max(span.began_at, reached))
        reached = max(reached, span.ended_at)
    return total


def summarize_metrics(
    figures: Sequence[UnitMetrics],
    spans: Sequence[UnitTimes],
    found: Iterable[tuple[str, str]],
    *,
    workers: int,
    retries: int,
    tokens: tuple[int, int, int] | None = None,
) -> dict[str, Any]:
    """The figures of a session as they are told.

    `found` is source and category of each finding, `tokens` are calls, prompt and completion of a model.
    """
    stages = _stages(figures)
    busy = busy_s(spans)
    worked = sum(span.ended_at - span.began_at for span in spans)
    hits, misses = sum(each.hits for each in figures), sum(each.misses for each in figures)
    told = list(found)
    return {
        "stages": {name: _rounded(percentiles(samples)) for name, samples in stages.items()},
        "units": {"count": len(spans), "total_ms": _ms(worked), "wall_ms": _ms(busy)},
        "queue_wait": _rounded(percentiles([_ms(span.began_at - span.queued_at) for span in spans])) if spans else None,
        "workers": workers,
        "worker_utilisation": round(worked / (busy * workers), 3) if busy else None,
        "cache": {"hits": hits, "misses": misses, "rate": round(hits / (hits + misses), 4) if hits + misses else None},
        "bytes_read": sum(each.bytes_read for each in figures),
        "findings": {
            "by_source": dict(sorted(Counter(source for source, _ in told).items())),
            "by_category": dict(sorted(Counter(category for _, category in told).items())),
        },
        "analyzer_failures": sorted({failure for each in figures for failure in each.failures}),
        "retries": retries,
        "model": tokens and dict(zip(("calls", "prompt_tokens", "completion_tokens"), tokens, strict=True)),
    }


def _stages(figures: Iterable[UnitMetrics]) -> dict[str, list[float]]:
    """All samples by stage; stages that never ran are not told of."""
    samples: dict[str, list[float]] = {}
    for each in figures:
        for name, taken in each.stages.items():
            samples.setdefault(name, []).extend(taken)
    return {name: taken for name, taken in sorted(samples.items()) if taken}


def _rounded(taken: Percentiles) -> dict[str, float]:
    row = {"p50": taken.p50, "p95": taken.p95, "p99": taken.p99, "max": taken.max}
    return {name: round(value, 2) for name, value in row.items()} | {"count": taken.count}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
