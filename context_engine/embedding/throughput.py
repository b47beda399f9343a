"""PURE. How long a model takes for a text, judged by what it took lately, and so how many fit into a moment."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from context_engine.text import CHARS_PER_TOKEN

TEXT_S = 0.05
"""What a full text is thought to take before any was measured: as on the slowest machine this was tried on."""
TEXT_CHARS = 40
"""What a text costs however short it is, as if it were so much longer."""
MEASURED_MAX = 5
"""The median of so many batches: one hiccup says nothing."""


class ThroughputEstimator:
    """Seconds for each character that a model of `tokens_max` reads. May be shared by threads."""

    def __init__(self, tokens_max: int) -> None:
        self._chars_max = tokens_max * CHARS_PER_TOKEN
        self._measured: tuple[float, ...] = ()

    def record(self, texts: Sequence[str], seconds: float) -> None:
        """A batch of these texts took so long."""
        if texts:
            self._measured = (*self._measured[1 - MEASURED_MAX :], seconds / sum(map(self._chars, texts)))

    def count_fitting(self, texts: Sequence[str], seconds: float, step_s: float) -> int:
        """How many of the first texts make a batch of `step_s`: at least one, if it takes no more than `seconds`.

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
