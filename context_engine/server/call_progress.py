"""PURE. The progress reports of one call: which notification is due, and when.

ticker = ProgressTicker(started_s)
ticker.tick(now_s, Progress("parsing", 3, 10))    # a notification, or None while none is due
"""

from __future__ import annotations

from dataclasses import dataclass, field

from context_engine.model import Progress

EVERY_S = 0.25
"""The shortest time between two progress reports."""
ALIVE_EVERY_S = 1.0
"""A call without progress of its own reports the seconds it took so far, this often."""


@dataclass(frozen=True, slots=True)
class ProgressNotification:
    """One notification."""

    progress: float
    total: float | None
    message: str


@dataclass(slots=True)
class ProgressTicker:
    """The progress reports of one call, which never go backwards: a stage starts where the one before ended."""

    started_s: float
    _stage: str = ""
    _before: float = 0.0
    _last: ProgressNotification = field(default_factory=lambda: ProgressNotification(0.0, None, ""))
    _last_s: float = float("-inf")

    def tick(self, now_s: float, step: Progress | None) -> ProgressNotification | None:
        """Return the notification to send now, or None. It may be called at any rate with the newest step."""
        if now_s - self._last_s < EVERY_S:
            return None
        notification = self._report_elapsed(now_s) if step is None else self._report_step(step)
        if notification is None or notification.progress <= self._last.progress:
            return None
        self._last, self._last_s = notification, now_s
        return notification

    def _report_step(self, step: Progress) -> ProgressNotification:
        if step.stage != self._stage:
            self._stage, self._before = step.stage, self._last.progress
        if not step.total:
            return ProgressNotification(self._before + step.done, None, step.stage)
        message = f"{step.stage}: {step.done:,} of {step.total:,} files"
        return ProgressNotification(self._before + step.done, self._before + step.total, message)

    def _report_elapsed(self, now_s: float) -> ProgressNotification | None:
        if now_s - max(self._last_s, self.started_s) < ALIVE_EVERY_S:
            return None
        elapsed_s = now_s - self.started_s
        return ProgressNotification(round(elapsed_s, 2), None, f"working for {elapsed_s:.0f} s")
