"""How far a long piece of work with bytes is: counted, told, and ended when somebody no longer wants it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from context_engine.errors import Cancelled
from context_engine.model import Progress

OnProgress = Callable[[Progress], None]


class ProgressCounter:
    """Counts the bytes of one stage of the work, tells how far it is, and ends it when it is cancelled."""

    def __init__(self, stage: str, tell: OnProgress, cancel: threading.Event | None) -> None:
        self._stage = stage
        self._tell = tell
        self._cancel = cancel
        self._done = 0
        self._total = 0

    def start(self, total: int) -> ProgressCounter:
        """The same, now that it is known how much there is to do. Raises: Cancelled."""
        self._total = total
        self(0)
        return self

    def __call__(self, size: int) -> None:
        """So many bytes more. Raises: Cancelled."""
        self._done += size
        self._tell(Progress(self._stage, self._done, self._total))
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled(
                "cancelled; what serves is as it was", suggestion="run it again: it goes on with what has not arrived"
            )
