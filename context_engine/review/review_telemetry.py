"""PURE. What a review session cost: times by stage, waiting, the use of its workers, the cache, findings by source.

Nothing is estimated: what was not measured is left out or None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from context_engine.review.review_store import ReviewUnit


class ReviewMetrics(msgspec.Struct, frozen=True):
    """The measurements of one unit, or of the end of a session. `stages` are milliseconds."""

    stages: dict[str, list[float]] = {}
    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    failures: list[str] = []


def summarize_metrics(
    metrics: Sequence[ReviewMetrics], units: Sequence[ReviewUnit], findings: Sequence[Mapping[str, Any]], workers: int
) -> dict[str, Any]:
    """Return the figures of a session as replies contain them."""
    samples: dict[str, list[float]] = {}
    for part in metrics:
        for stage, ms in part.stages.items():
            samples.setdefault(stage, []).extend(ms)
    ended = [unit for unit in units if unit.ended_at]
    busy = busy_s((unit.began_at, unit.ended_at) for unit in ended)
    worked = sum(unit.ended_at - unit.began_at for unit in ended)
    hits, misses = sum(part.hits for part in metrics), sum(part.misses for part in metrics)
    return {
        "stages": {stage: percentiles(ms) for stage, ms in sorted(samples.items()) if ms},
        "units": {"count": len(ended), "total_ms": _to_ms(worked), "wall_ms": _to_ms(busy)},
        "queue_wait": percentiles([_to_ms(unit.began_at - unit.queued_at) for unit in ended]),
        "workers": workers,
        "worker_utilisation": round(worked / (busy * workers), 3) if busy else None,
        "cache": {"hits": hits, "misses": misses, "rate": round(hits / (hits + misses), 4) if hits + misses else None},
        "bytes_read": sum(part.bytes_read for part in metrics),
        "findings": {
            "by_source": dict(sorted(Counter(finding["source"] for finding in findings).items())),
            "by_category": dict(sorted(Counter(finding["category"] for finding in findings).items())),
        },
        "analyzer_failures": sorted({failure for part in metrics for failure in part.failures}),
        "retries": sum(max(0, unit.tries - 1) for unit in units),
        "model": None,  # no model is asked during a session
    }


def percentiles(samples: Sequence[float]) -> dict[str, float] | None:
    """Return the nearest-rank percentiles; None without a sample.

    >>> percentiles([1.0, 2.0, 3.0, 4.0])
    {'p50': 2.0, 'p95': 4.0, 'p99': 4.0, 'max': 4.0, 'count': 4}
    """
    if not samples:
        return None
    ordered = sorted(samples)
    ranks = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    indexes = {name: max(0, math.ceil(share * len(ordered)) - 1) for name, share in ranks.items()}
    return {name: round(ordered[index], 2) for name, index in indexes.items()} | {"count": len(ordered)}


def busy_s(times: Iterable[tuple[float, float]]) -> float:
    """Return the seconds in which at least one unit was running; a pause or a crash does not count.

    >>> busy_s([(0, 2), (1, 3), (10, 11)])
    4.0
    """
    total, reached = 0.0, -math.inf
    for began_at, ended_at in sorted(times):
        total += max(0.0, ended_at - max(began_at, reached))
        reached = max(reached, ended_at)
    return total


def _to_ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
