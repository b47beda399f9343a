"""PURE. When to tell a client how far a call is: at most four times a second, and never backwards.

A long call without progress of its own still shows a sign of life each second: the seconds it took so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

EVERY_S = 0.25
ALIVE_EVERY_S = 1.0


class Step(Protocol):
    """What the Engine tells: `done` of `total` in a stage."""

    @property
    def stage(self) -> str:
        """What is going on."""
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
class Told:
    """One notification."""

    progress: float
    total: float | None
    message: str


@dataclass(slots=True)
class Ticker:
    """The telling of one call. Stages follow each other, so each starts where the one before ended."""

    started_s: float
    _stage: str = ""
    _before: float = 0.0
    _last: Told = field(default_factory=lambda: Told(0.0, None, ""))
    _last_s: float = float("-inf")

    def tick(self, now_s: float, step: Step | None) -> Told | None:
        """What to send now, or None. Call it as often as you like with the newest step."""
        if now_s - self._last_s < EVERY_S:
            return None
        told = self._sign_of_life(now_s) if step is None else self._of(step)
        if told is None or told.progress <= self._last.progress:
            return None
        self._last, self._last_s = told, now_s
        return told

    def _of(self, step: Step) -> Told:
        if step.stage != self._stage:
            self._stage, self._before = step.stage, self._last.progress
        message = f"{step.stage}: {step.done:,} of {step.total:,} files" if step.total else step.stage
        return Told(self._before + step.done, self._before + step.total if step.total else None, message)

    def _sign_of_life(self, now_s: float) -> Told | None:
        elapsed = now_s - self.started_s
        if now_s - max(self._last_s, self.started_s) < ALIVE_EVERY_S:
            return None
        return Told(round(elapsed, 2), None, f"working for {elapsed:.0f} s")
