"""How the server ends: at the end of input, on SIGINT and on SIGTERM, within two seconds, whatever is still running."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

DRAIN_S = 0.6
"""Running calls get this long to notice that they are cancelled."""
CLOSE_S = 1.2
"""And the Engine this long to close: a second is what it gives its own processes. Together under two seconds."""


class Life:
    """The calls that are running, and one way out. Thread-safe."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._running: set[threading.Event] = set()
        self._changed = threading.Condition()
        self._leaving = False

    @contextmanager
    def running(self, cancel: threading.Event) -> Generator[None]:
        """Around a call: it is waited for at the end, and cancelled."""
        with self._changed:
            self._running.add(cancel)
        if self._leaving:
            cancel.set()
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(cancel)
                self._changed.notify_all()

    def leave_on_signals(self) -> None:
        """SIGINT and SIGTERM end the process cleanly, also while nothing happens."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._leave_in_thread())

    def leave(self) -> None:
        """Cancel, wait a bounded time, close, exit. Does not return: threads that read a pipe cannot be joined."""
        with self._changed:
            if self._leaving:
                return
            self._leaving = True
            for cancel in self._running:
                cancel.set()
            self._changed.wait_for(lambda: not self._running, DRAIN_S)
        closing = threading.Thread(target=self._close, name="closing", daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        sys.stderr.flush()
        os._exit(0)

    def _leave_in_thread(self) -> None:
        """Not in the signal handler itself: it may have interrupted whoever holds a lock."""
        threading.Thread(target=self.leave, name="leaving", daemon=True).start()


def wait_forever() -> None:
    """Until another thread ends the process."""
    while True:
        time.sleep(60)
