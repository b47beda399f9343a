"""What libraries write into Python's logging becomes lines of our own log: one each, without their tracebacks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

CHARS_MAX = 500
"""Whatever a library has to say in one line."""


class Records(logging.Handler):
    """A handler that hands warnings and worse on."""

    def __init__(self, log: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line; a crash is told by its name."""
        crash = record.exc_info[1] if record.exc_info else None
        text = f"{record.getMessage()}: {crash!r}" if crash is not None else record.getMessage()
        self._log({"event": "library", "ok": False, "from": record.name, "says": " ".join(text.split())[:CHARS_MAX]})


def take(log: Callable[[dict[str, Any]], None]) -> None:
    """From here on nothing of a library reaches stderr but through the log. Call once, at the start of a server."""
    logging.basicConfig(handlers=[Records(log)], level=logging.WARNING, force=True)
