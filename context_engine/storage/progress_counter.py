"""Count the bytes of a long piece of work, report its progress, and end it when it is canceled."""

from __future__ import annotations

import threading
from collections.abc import Callable

from context_engine.errors import Cancelled
from context_engine.model import Progress

OnProgress = Callable[[Progress], None]


class ProgressCounter:
    """Counts the bytes of one stage of the work, reports the progress, and ends it on cancellation."""

    def __init__(self, stage: str, report: OnProgress, cancel: threading.Event | None) -> None:
        self._stage = stage
        self._report = report
        self._cancel = cancel
        self._done = 0
        self._total = 0

    def start(self, total: int) -> ProgressCounter:
        """Set how much there is to do; return self. Raises: Cancelled."""
        self._total = total
        self(0)
        return self

    def __call__(self, size: int) -> None:
        """Count so many bytes more. Raises: Cancelled."""
        self._done += size
        self._report(Progress(self._stage, self._done, self._total))
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled(
                "cancelled; what serves is as it was", suggestion="run it again: it goes on with what has not arrived"
            )
