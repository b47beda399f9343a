"""PURE. Estimates how long a model takes for a text from its last batches, and how many texts fit into a time."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from context_engine.text import CHARS_PER_TOKEN

TEXT_S = 0.05
"""Assumed time of a full text before any was measured, that of the slowest machine tried."""
TEXT_CHARS = 40
"""Characters added to each text for its fixed cost."""
MEASURED_MAX = 5
"""Batches in the median: one slow batch has no effect."""


class ThroughputEstimator:
    """Seconds for each character that a model of `tokens_max` reads. Threads may share it."""

    def __init__(self, tokens_max: int) -> None:
        self._chars_max = tokens_max * CHARS_PER_TOKEN
        self._measured: tuple[float, ...] = ()

    def record(self, texts: Sequence[str], seconds: float) -> None:
        """Record the time of a batch."""
        if texts:
            self._measured = (*self._measured[1 - MEASURED_MAX :], seconds / sum(map(self._chars, texts)))

    def count_fitting(self, texts: Sequence[str], seconds: float, step_s: float) -> int:
        """Return how many of the first texts make a batch of `step_s`: at least one, if that takes at most `seconds`.

        >>> ThroughputEstimator(128).count_fitting(["x" * 500] * 9, seconds=1.0, step_s=0.15), ThroughputEstimator(128).count_fitting(["x" * 500], 0.01, 0.15)
        (3, 0)
        """
        pace = median(self._measured or [TEXT_S / (TEXT_CHARS + self._chars_max)])
        spent, count = 0.0, 0
        for text in texts:
            spent += pace * self._chars(text)
            if spent > (min(step_s, seconds) if count else seconds):
                break
            count += 1
        return count

    def _chars(self, text: str) -> int:
        return TEXT_CHARS + min(len(text), self._chars_max)
