"""PURE. When to report the progress of a call to a client: at most four times a second, and never backwards.

A long call without progress of its own still shows a sign of shutdown each second: the seconds it took so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

EVERY_S = 0.25
ALIVE_EVERY_S = 1.0


class ProgressStep(Protocol):
    """The progress that the Engine reports: `done` of `total` in a stage."""

    @property
    def stage(self) -> str:
        """The name of the stage."""
        ...

    @property
    def done(self) -> int:
        """How many are finished."""
        ...

    @property
    def total(self) -> int:
        """How many there are."""
        ...


@dataclass(frozen=True, slots=True)
class ProgressNotification:
    """One notification."""

    progress: float
    total: float | None
    message: str


@dataclass(slots=True)
class ProgressTicker:
    """The telling of one call. Stages follow each other, so each starts where the one before ended."""

    started_s: float
    _stage: str = ""
    _before: float = 0.0
    _last: ProgressNotification = field(default_factory=lambda: ProgressNotification(0.0, None, ""))
    _last_s: float = float("-inf")

    def tick(self, now_s: float, step: ProgressStep | None) -> ProgressNotification | None:
        """Return the notification to send now, or None. It may be called at any rate with the newest step."""
        if now_s - self._last_s < EVERY_S:
            return None
        notification = self._report_elapsed(now_s) if step is None else self._report_step(step)
        if notification is None or notification.progress <= self._last.progress:
            return None
        self._last, self._last_s = notification, now_s
        return notification

    def _report_step(self, step: ProgressStep) -> ProgressNotification:
        if step.stage != self._stage:
            self._stage, self._before = step.stage, self._last.progress
        message = f"{step.stage}: {step.done:,} of {step.total:,} files" if step.total else step.stage
        return ProgressNotification(
            self._before + step.done, self._before + step.total if step.total else None, message
        )

    def _report_elapsed(self, now_s: float) -> ProgressNotification | None:
        elapsed = now_s - self.started_s
        if now_s - max(self._last_s, self.started_s) < ALIVE_EVERY_S:
            return None
        return ProgressNotification(round(elapsed, 2), None, f"working for {elapsed:.0f} s")
