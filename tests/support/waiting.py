"""Wait for what another thread or process does, and a clock that waits for the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120.0
Found = TypeVar("Found")


def until(look: Callable[[], Found | None]) -> Found:
    """What `look` returns as soon as that is true."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
    return found


class Clock:
    """Seconds that go on only when a test moves them."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
