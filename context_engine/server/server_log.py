"""The log of a server: JSON lines on stderr, with the warnings of Python's logging among them."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

from context_engine.text import escape_controls
from context_engine.timestamps import format_timestamp

Log = Callable[[dict[str, Any]], None]
"""Writes one line, given as its fields."""

TEXT_CHARS_MAX = 500
"""The longest text of a record of Python's logging."""
WINDOW_S = 60.0
LINES_MAX = 10
"""Lines of one kind in one window: enough to see what happens and from where."""
KINDS_MAX = 1_000
"""Kinds that are counted separately. Further ones are counted as one, so that no client can make the table grow."""
FAILURE_LEVELS = ("warning", "error")
"""The levels of `log_level` that write only the lines of calls that failed or took too long."""


def discard_line(line: object) -> None:
    """Discard a log line: at the terminal the reply contains everything."""


def write_to_stderr(line: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(line)
    sys.stderr.flush()


def create_log(
    level: str, write: Callable[[str], object] = write_to_stderr, *, keep: Callable[[str], object] = discard_line
) -> Log:
    """Return the log of a `log_level`; `write` gets each line of JSON, in one piece; `keep` all but those of calls."""
    if level == "off":
        return discard_line
    fails_only = level in FAILURE_LEVELS

    def log(line: dict[str, Any]) -> None:
        if not fails_only or not line.get("ok") or line.get("slow"):
            stamped = {"at": format_timestamp(time.time()), **line}
            text = escape_controls(json.dumps(stamped, ensure_ascii=False))
            write(text + "\n")
            if line.get("event") != "call":
                keep(text)

    return log


class RepeatFilter:
    """A filter that passes the first few lines of each kind in a minute, and counts the rest. Thread-safe.

    A client can make some lines appear as often as it sends something. The count is reported with the next line.

    >>> repeats = RepeatFilter(lines_max=1)
    >>> [repeats.admit("refused", now_s) for now_s in (0.0, 1.0, 2.0, 61.0)]
    [0, None, None, 2]
    """

    def __init__(self, *, lines_max: int = LINES_MAX) -> None:
        self._lines_max = lines_max
        self._lock = threading.Lock()
        self._kinds: dict[Hashable, tuple[float, int, int]] = {}  # start of its window, lines in it, lines left out

    def admit(self, kind: Hashable, now_s: float) -> int | None:
        """Return how many lines of this kind were left out before this one; None to leave out this one, too."""
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
    """A handler that passes warnings and errors to the log of the server."""

    def __init__(self, log: Log, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._clock = clock
        self._repeats = RepeatFilter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line without a traceback; repeated lines of one place in the code are counted instead."""
        left_out = self._repeats.admit((record.pathname, record.lineno), self._clock())
        if left_out is None:
            return
        crash = record.exc_info[1] if record.exc_info else None
        text = f"{record.getMessage()}: {crash!r}" if crash is not None else record.getMessage()
        line = {"event": "library", "ok": False, "from": record.name, "says": " ".join(text.split())[:TEXT_CHARS_MAX]}
        self._log(line | ({"left_out": left_out} if left_out else {}))


def install_bridge(log: Log) -> None:
    """Send what libraries log through the log of the server. Call once, at the start of a server."""
    logging.basicConfig(handlers=[LoggingBridge(log)], level=logging.WARNING, force=True)
