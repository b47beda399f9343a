"""How the server ends: at the end of input, on a signal, without its parent, and within two seconds whatever still runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

FINISH_S = 1.0
"""Calls that are under way get this long to be answered: `printf '...' | ctx serve` closes its end at once."""
CANCEL_S = 0.2
"""Then this long to notice that they are cancelled."""
CLOSE_S = 0.5
"""And the Engine this long to close; its files survive any end, and its processes end with us. All under two seconds."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Those that ask a process to end; no system has all of them."""


class ShutdownCoordinator:
    """The calls that are running, and one way out. Thread-safe.

    `finish(seconds)` waits until what was asked is answered; `close` gives back what is open.
    """

    def __init__(self, close: Callable[[], None], *, finish: Callable[[float], None] = lambda _: None) -> None:
        self._close = close
        self._finish = finish
        self._running: set[threading.Event] = set()
        self._changed = threading.Condition()
        self._leaving = self._cancelled = False
        self.is_ending = False
        """Whether the end has been announced: the server still answers, but load balancers should not send requests."""

    @contextmanager
    def track(self, cancel: threading.Event) -> Generator[None]:
        """Around a call: it is waited for at the end, and cancelled."""
        with self._changed:
            self._running.add(cancel)
        if self._cancelled:
            cancel.set()
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(cancel)
                self._changed.notify_all()

    def wait_until_idle(self, seconds: float) -> bool:
        """Until no call is under way, or the time is over; whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def announce(self) -> None:
        """Let /ready report that the server will end."""
        self.is_ending = True

    def shut_down_on_signals(self) -> None:
        """SIGINT, SIGTERM and their like end the process cleanly, also while nothing happens."""
        for name in SIGNALS:
            if number := getattr(signal, name, None):
                signal.signal(number, lambda *_: self.shut_down_in_thread())

    def shut_down_in_thread(self, status: int = 0) -> None:
        """Shut down in a thread: a signal handler must not wait, since it may have interrupted the holder of a lock."""
        threading.Thread(target=self.shut_down, args=(status,), name="leaving", daemon=True).start()

    def shut_down(self, status: int = 0) -> None:
        """Finish, cancel, close, exit, each for a bounded time. Returns at once when the shutdown has begun already."""
        with self._changed:
            if self._leaving:
                return
            self._leaving = True
        self._finish(FINISH_S)
        with self._changed:
            self._cancelled = True
            for cancel in self._running:
                cancel.set()
            self._changed.wait_for(lambda: not self._running, CANCEL_S)
        closing = threading.Thread(target=self._close, name="closing", daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        sys.stderr.flush()
        os._exit(status)  # not sys.exit: threads that read a pipe cannot be joined


def wait_forever() -> None:
    """Until another thread ends the process.

    A signal may reach any thread, but only the main thread acts on it: it waits where every signal wakes it.
    """
    reading, writing = os.pipe()
    if os.name == "posix":  # elsewhere a pipe cannot, and need not
        os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    while True:
        os.read(reading, 1)
