"""A server that is used for a long time stays as it was: no error of its own, no growing memory, threads or descriptors.

A few seconds in the ordinary run; `CTX_TEST_SOAK_S` asks for more (`make soak`: 20 minutes) and prints a line a minute.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.wire import Wire
from tests.security.every_tool import FILES, EveryTool
from tests.support.trees import commit, repository, tree

SOAK_S = float(os.environ.get("CTX_TEST_SOAK_S", "3"))
WARM = 2
"""Rounds until caches, threads and parsers are there."""
GROWTH_MB_MAX = 60
"""The review of version 0.1 saw 15 MB in 18 minutes; the allocator keeps what a round freed."""
NOISE = 8
"""Threads and descriptors that come and go with work in the background."""


@dataclass(frozen=True)
class Use:
    """What a process takes at one moment."""

    memory_mb: float
    threads: int
    descriptors: int


def use_of(pid: int) -> Use:
    """Read it from the system."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Use(
        int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(list(Path(f"/proc/{pid}/fd").iterdir()))
    )


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    root = repository(tmp_path / "shop", {**FILES, ".gitignore": ".context-engine/\n"})
    tree(root, {"shop/later.py": "LATER = True\n"})
    commit(root, "second")
    without_limits = {"CTX_RATE_BURST_MINUTES": "0", "CTX_CACHE_FOLDER": str(tmp_path / "cache")}
    with Wire(root, without_limits) as wire:
        wire.shake_hands()
        yield wire
        assert wire.end() == 0


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_server_in_long_use_neither_fails_nor_grows(wire: Wire, tried: Callable[..., None]) -> None:
    def call(tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        result = wire.call(tool, **arguments)
        return result["content"][0]["text"], bool(result.get("isError"))

    seen: list[Use] = []
    codes: Counter[str] = Counter()
    until, minute = time.monotonic() + SOAK_S, time.monotonic()
    while time.monotonic() < until or len(seen) < WARM + 2:
        session = EveryTool(call).run()
        assert not session.uncalled()
        tried(len(session.replies))
        codes.update(reply.error for reply in session.replies)
        seen.append(use_of(wire.process.pid))
        if time.monotonic() > minute:
            minute += 60
            print(f"{sum(codes.values())} calls, {seen[-1]}")
    print(f"{sum(codes.values())} calls, {seen[-1]}, errors {dict(codes)}")
    assert "INTERNAL" not in codes
    assert not [line for line in wire.log if "Traceback" in line]
    warm, last = seen[WARM], seen[-1]
    assert last.memory_mb < warm.memory_mb + GROWTH_MB_MAX, seen
    assert last.threads <= warm.threads + NOISE, seen
    assert last.descriptors <= warm.descriptors + NOISE, seen
