"""The open Engines of a daemon: one for each work tree, shared by all its clients, the least recently used closed.

    pool = EnginePool(engines_max=8, prepare=follow_edits)
    with pool.lease(root) as lease:
        lease.engine().search.find(query)

A lease of a command is busy until it is closed; a client that stays says itself when it is busy. Only Engines without a
busy lease are closed; a lease opens its Engine again at its next use.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from context_engine.repo import check_workspace_root
from context_engine.settings import Settings
from context_engine.storage import STATE_FOLDER, ConfinedFolder, user_config_folder

if TYPE_CHECKING:
    from context_engine.engine import Engine

RECENT_S = 10.0
"""An Engine that was used so recently is not closed: a reply that was just built may still refer to it."""


@dataclass(eq=False, slots=True)
class _Slot:
    """One opened workspace; `state` is what its Engine was opened with. A replaced one gets no further leases."""

    root: Path
    state: Any
    lock: threading.Lock = field(default_factory=threading.Lock)
    engine: Engine | None = None
    leases: set[EngineLease] = field(default_factory=set)
    used_s: float = 0.0
    is_replaced: bool = False

    def is_busy(self) -> bool:
        return any(lease.is_busy() for lease in self.leases)

    def close(self) -> None:
        with self.lock:
            engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()


class EnginePool:
    """The Engines of one process. Thread-safe. At most `engines_max` stay open besides those that are busy."""

    def __init__(
        self,
        engines_max: int,
        *,
        prepare: Callable[[Engine], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`prepare` is called once with each Engine before its first use."""
        self._engines_max = engines_max
        self._prepare = prepare
        self._clock = clock
        self._lock = threading.Lock()
        self._slots: list[_Slot] = []
        self._is_closed = False

    def lease(self, root: str | Path, *, is_busy: Callable[[], bool] = lambda: True) -> EngineLease:
        """Return the use of the workspace at `root`, whose Engine is opened when it is first asked for.

        Raises: UnsuitableRoot, FileNotFound, InvalidPath, InvalidArgument (settings).
        """
        return EngineLease(self, check_workspace_root(root), is_busy)

    def roots(self) -> list[str]:
        """Return the folders of the open Engines, the least recently used first."""
        with self._lock:
            slots = [slot for slot in self._slots if slot.engine is not None and not slot.is_replaced]
            return [str(slot.root) for slot in sorted(slots, key=lambda slot: slot.used_s)]

    def close(self) -> None:
        """Close every Engine; later uses raise."""
        with self._lock:
            self._is_closed = True
            slots, self._slots = self._slots, []
        for slot in slots:
            slot.close()

    def use(self, lease: EngineLease) -> Engine:
        """Return the Engine of a lease: a new one where the workspace or its settings have changed meanwhile.

        Raises: what opening it raises.
        """
        from context_engine.engine import Engine

        state = _workspace_state(lease.root)
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the daemon is ending")
            current = None
            for slot in self._slots:
                slot.is_replaced |= slot.root == lease.root and slot.state != state
                if slot.is_replaced:
                    slot.leases.discard(lease)
                elif slot.root == lease.root:
                    current = slot
            if current is None:
                current = _Slot(lease.root, state)
                self._slots.append(current)
            current.leases.add(lease)
            current.used_s = self._clock()
        with current.lock:
            engine = current.engine
            if engine is None:
                engine = Engine.open(lease.root)
                self._prepare(engine)
                current.engine = engine
        self._close_unused(keep=current)
        return engine

    def give_back(self, lease: EngineLease) -> None:
        """End a lease."""
        with self._lock:
            for slot in self._slots:
                slot.leases.discard(lease)
        self._close_unused()

    def _close_unused(self, keep: _Slot | None = None) -> None:
        """Close what was replaced, and the least recently used Engines beyond the bound, unless they are busy."""
        now_s = self._clock()
        with self._lock:
            free = [slot for slot in self._slots if slot is not keep and not slot.is_busy()]
            unused = [slot for slot in free if slot.is_replaced]
            idle = [slot for slot in free if not slot.is_replaced and now_s - slot.used_s >= RECENT_S]
            idle.sort(key=lambda slot: slot.used_s)
            count = sum(not slot.is_replaced for slot in self._slots)
            unused += idle[: max(0, count - self._engines_max)]
            self._slots = [slot for slot in self._slots if slot not in unused]
        for slot in unused:
            slot.close()


class EngineLease:
    """The use of one workspace by one client, until it is closed."""

    def __init__(self, pool: EnginePool, root: Path, is_busy: Callable[[], bool]) -> None:
        """Use `EnginePool.lease`."""
        self.root = root
        self.is_busy = is_busy
        self._pool = pool

    def engine(self) -> Engine:
        """Return the open Engine; it stays open while this lease is busy. Raises: what opening it raises."""
        return self._pool.use(self)

    def close(self) -> None:
        """End the use. May be called twice."""
        self._pool.give_back(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _workspace_state(root: Path) -> tuple[Any, ...]:
    """Return what an Engine reads when it is opened: the folder itself, the settings, the language files."""
    status = root.stat()
    files = []
    for top, folder in ((root, f"{STATE_FOLDER}/languages"), (user_config_folder(), "languages")):
        with suppress(OSError), ConfinedFolder(top).scan(folder) as entries:
            found = [(entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in entries]
            files.append(tuple(sorted(found)))
    return status.st_dev, status.st_ino, Settings.load(root), *files


M_ARENA_MAX = -8
"""From malloc.h of glibc."""


def keep_one_arena() -> None:
    """Let all threads that start later share one arena. MALLOC_ARENA_MAX of the environment is left as it is.

    glibc gives each thread an arena of its own, and the others do not use what it has freed there: a server on two
    cores took 390 MB instead of 230. Threads of Python allocate in turns, so one arena is enough.
    """
    if sys.platform != "linux" or "MALLOC_ARENA_MAX" in os.environ:
        return
    import ctypes  # some milliseconds

    with suppress(OSError, AttributeError):  # another C library, which has no arenas
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
