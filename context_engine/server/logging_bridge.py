"""Python's logging as lines of the server log: one line per record, without the traceback.

A client can make some of these lines appear as often as it sends something. Of each kind a minute takes a few; the rest
is counted, and the count is told with the next line of that kind.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

CHARS_MAX = 500
"""The longest text of a record."""
WINDOW_S = 60.0
LINES_MAX = 10
"""Of one kind in one window: enough to see what happens and from where."""
KINDS_MAX = 1_000
"""Kinds that are counted apart; further ones are counted as one, so that no client can make the table grow."""


class RepeatFilter:
    """Which lines of a log are kept: the first few of each kind in a minute. Thread-safe.

    >>> repeats = RepeatFilter(lines_max=1)
    >>> [repeats.admit("refused", now_s) for now_s in (0.0, 1.0, 2.0, 61.0)]
    [0, None, None, 2]
    """

    def __init__(self, *, lines_max: int = LINES_MAX) -> None:
        self._lines_max = lines_max
        self._lock = threading.Lock()
        self._kinds: dict[Hashable, tuple[float, int, int]] = {}  # when its window began, lines in it, lines left out

    def admit(self, kind: Hashable, now_s: float) -> int | None:
        """Return how many lines of this kind were left out before this one; None when it is to be left out itself."""
        with self._lock:
            if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
                self._forget_old(now_s)
                kind = kind if len(self._kinds) < KINDS_MAX else None
            began_s, lines, left_out = self._kinds.pop(kind, (now_s, 0, 0))
            if now_s - began_s >= WINDOW_S:
                began_s, lines = now_s, 0
            if lines >= self._lines_max:
                self._kinds[kind] = (began_s, lines, left_out + 1)
                return None
            self._kinds[kind] = (began_s, lines + 1, 0)
            return left_out

    def _forget_old(self, now_s: float) -> None:
        """Forget the kinds whose window is over and of which nothing was left out."""
        for kind, (began_s, _, left_out) in list(self._kinds.items()):
            if now_s - began_s >= WINDOW_S and not left_out:
                del self._kinds[kind]


class LoggingBridge(logging.Handler):
    """A handler that hands warnings and worse on."""

    def __init__(self, log: Callable[[dict[str, Any]], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._clock = clock
        self._repeats = RepeatFilter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; a crash is reported by its name.

        Repeated lines of one place in the code are counted instead.
        """
        left_out = self._repeats.admit((record.pathname, record.lineno), self._clock())
        if left_out is None:
            return
        crash = record.exc_info[1] if record.exc_info else None
        text = f"{record.getMessage()}: {crash!r}" if crash is not None else record.getMessage()
        line = {"event": "library", "ok": False, "from": record.name, "says": " ".join(text.split())[:CHARS_MAX]}
        self._log(line | ({"left_out": left_out} if left_out else {}))


def install_bridge(log: Callable[[dict[str, Any]], None]) -> None:
    """From here on nothing of a library reaches stderr but through the log. Call once, at the start of a server."""
    logging.basicConfig(handlers=[LoggingBridge(log)], level=logging.WARNING, force=True)
