"""PURE. The states of a review session, and the events that lead from one to the next, as one table.

    queued     no process runs it; the last one ended in good order
    running    its owner works on its units, as long as the owner lives
    pausing    no unit is begun any more; those that run end
    paused     nothing happens until a caller resumes it
    completed  every unit was reviewed
    partial    some units could not be reviewed; resuming tries those again
    failed     no unit could, or the conclusion went wrong; resuming tries again

>>> next_status("running", "pause"), next_status("pausing", "settle"), next_status("paused", "run")
('pausing', 'paused', 'running')
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from context_engine.errors import PreconditionFailed

Status = Literal["queued", "running", "pausing", "paused", "completed", "partial", "failed"]
SessionEvent = Literal["run", "pause", "settle", "release", "complete", "part", "fail"]

TRANSITIONS: Mapping[tuple[str, str], Status] = {
    ("queued", "run"): "running",
    ("paused", "run"): "running",
    ("partial", "run"): "running",
    ("failed", "run"): "running",
    ("pausing", "run"): "running",
    ("running", "run"): "running",
    ("queued", "pause"): "paused",
    ("running", "pause"): "pausing",
    ("pausing", "pause"): "pausing",
    ("paused", "pause"): "paused",
    ("pausing", "settle"): "paused",
    ("running", "release"): "queued",
    ("pausing", "release"): "paused",
    ("running", "complete"): "completed",
    ("running", "part"): "partial",
    ("running", "fail"): "failed",
    ("pausing", "complete"): "completed",  # everything was reviewed before the pause took effect
    ("pausing", "part"): "partial",
    ("pausing", "fail"): "failed",
}
UNFINISHED: frozenset[str] = frozenset({"queued", "running", "pausing", "paused"})
"""To start the same review again continues one of these."""
PAUSES: frozenset[str] = frozenset({"pausing", "paused"})
"""In these the text of a session is the reason of its pause; in all others it is an error."""
AT_REST: frozenset[str] = frozenset({"paused", "completed", "partial", "failed"})
"""These change only when a caller acts, so nothing waits for them."""
OWNED: frozenset[str] = frozenset({"running", "pausing"})
TERMINAL_UNITS: frozenset[str] = frozenset({"done", "failed"})
_NEXT_STEP = {
    ("completed", "pause"): "Nothing is left to pause: get_review_status shows what was found.",
    ("completed", "run"): "Every unit was reviewed: get_review_status shows what was found. To review the change again,"
    " call reactive_review_pr.",
    ("partial", "pause"): "Nothing is running: resume_review tries the failed units again.",
    ("failed", "pause"): "Nothing is running: resume_review tries again.",
}


def next_status(status: str, event: SessionEvent) -> Status:
    """Return the status after an event. Raises: PreconditionFailed when the event is impossible in this status."""
    after = TRANSITIONS.get((status, event))
    if after is None:
        raise PreconditionFailed(
            f"the review is {status}",
            suggestion=_NEXT_STEP.get((status, event), "Call get_review_status to see what it waits for."),
            details={"status": status},
        )
    return after


def final_event(unit_states: Collection[str]) -> SessionEvent:
    """Return the event at the end of all units.

    >>> final_event(["done", "done"]), final_event(["done", "failed"]), final_event(["failed"])
    ('complete', 'part', 'fail')
    """
    if "failed" not in unit_states:
        return "complete"
    if "done" in unit_states:
        return "part"
    return "fail"


def visible_status(status: str, *, is_alive: bool) -> tuple[str, str]:
    """Return the status as callers see it, and its reason: what a dead process ran is not running.

    >>> visible_status("running", is_alive=False)[0], visible_status("pausing", is_alive=False)[0]
    ('failed', 'paused')
    """
    if status not in OWNED or is_alive:
        return status, ""
    if status == "pausing":
        return "paused", ""
    return "failed", "the process that ran it has ended; resume_review continues where it stopped"


class SessionProgress(NamedTuple):
    """The progress of a session. `percentage` is 100 exactly when every unit has ended."""

    units_done: int
    units_failed: int
    units_running: int
    units_total: int
    files_done: int
    files_total: int
    percentage: int


def count_progress(units: Collection[tuple[str, int]]) -> SessionProgress:
    """Return the progress from the state and the number of files of each unit.

    >>> count_progress([("done", 10), ("failed", 5), ("queued", 3)]).percentage
    66
    """
    states = [state for state, _ in units]
    terminal = sum(state in TERMINAL_UNITS for state in states)
    return SessionProgress(
        units_done=states.count("done"),
        units_failed=states.count("failed"),
        units_running=states.count("running"),
        units_total=len(states),
        files_done=sum(files for state, files in units if state == "done"),
        files_total=sum(files for _, files in units),
        percentage=100 * terminal // len(states) if states else 100,
    )


# -- telemetry ---------------------------------------------------------------------------------------------------------

# The cost of a review session: times by stage, waiting, the use of its workers, the cache, findings by source.
#
# Nothing is estimated: what was not measured is left out or None.


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
