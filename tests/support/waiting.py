"""Wait for what another thread or process does."""

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
