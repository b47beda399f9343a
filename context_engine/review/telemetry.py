"""PURE. The cost of a review session: times by stage, waiting, the use of its workers, the cache, findings by source.

Nothing is estimated: what was not measured is left out or None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class UnitMetrics:
    """The measurements of one unit, or at the end of the session. `stages` are milliseconds."""

    stages: Mapping[str, Sequence[float]] = field(default_factory=dict)
    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    failures: Sequence[str] = ()


class UnitTimes(NamedTuple):
    """When a unit was queued, began and ended, in seconds since 1970."""

    queued_at: float
    began_at: float
    ended_at: float


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """Return the nearest-rank percentiles of at least one sample.

    >>> percentiles([1.0, 2.0, 3.0, 4.0])
    {'p50': 2.0, 'p95': 4.0, 'p99': 4.0, 'max': 4.0, 'count': 4}
    """
    ordered = sorted(samples)
    ranks = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    indexes = {name: max(0, math.ceil(share * len(ordered)) - 1) for name, share in ranks.items()}
    return {name: round(ordered[index], 2) for name, index in indexes.items()} | {"count": len(ordered)}


def busy_s(times: Iterable[UnitTimes]) -> float:
    """Return the seconds in which at least one unit was running; a pause or a crash does not count.

    >>> busy_s([UnitTimes(0, 0, 2), UnitTimes(0, 1, 3), UnitTimes(0, 10, 11)])
    4.0
    """
    total, reached = 0.0, -math.inf
    for unit in sorted(times, key=lambda unit: unit.began_at):
        total += max(0.0, unit.ended_at - max(unit.began_at, reached))
        reached = max(reached, unit.ended_at)
    return total


def summarize_metrics(
    metrics: Sequence[UnitMetrics],
    times: Sequence[UnitTimes],
    findings: Sequence[tuple[str, str]],
    *,
    workers: int,
    retries: int,
) -> dict[str, Any]:
    """Return the figures of a session as replies contain them. `findings` are pairs of source and category."""
    samples: dict[str, list[float]] = {}
    for unit in metrics:
        for stage, ms in unit.stages.items():
            samples.setdefault(stage, []).extend(ms)
    busy = busy_s(times)
    worked = sum(unit.ended_at - unit.began_at for unit in times)
    waits = [_to_ms(unit.began_at - unit.queued_at) for unit in times]
    hits, misses = sum(unit.hits for unit in metrics), sum(unit.misses for unit in metrics)
    return {
        "stages": {stage: percentiles(ms) for stage, ms in sorted(samples.items()) if ms},
        "units": {"count": len(times), "total_ms": _to_ms(worked), "wall_ms": _to_ms(busy)},
        "queue_wait": percentiles(waits) if waits else None,
        "workers": workers,
        "worker_utilisation": round(worked / (busy * workers), 3) if busy else None,
        "cache": {"hits": hits, "misses": misses, "rate": round(hits / (hits + misses), 4) if hits + misses else None},
        "bytes_read": sum(unit.bytes_read for unit in metrics),
        "findings": {
            "by_source": dict(sorted(Counter(source for source, _ in findings).items())),
            "by_category": dict(sorted(Counter(category for _, category in findings).items())),
        },
        "analyzer_failures": sorted({failure for unit in metrics for failure in unit.failures}),
        "retries": retries,
        "model": None,  # no model is asked during a session
    }


def _to_ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
