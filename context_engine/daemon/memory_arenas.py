"""Memory of a process with many threads: one arena of the C library for all of them.

glibc gives each thread that allocates an arena of its own, up to eight for each core, and what a thread has freed there
is not used by the others. A server on two cores took 390 MB instead of 230, and grew for half an hour
(docs/benchmarks.md, "A shared server for half an hour"). Threads of Python allocate in turns, so one arena is enough.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

M_ARENA_MAX = -8
"""From malloc.h of glibc."""


def keep_one_arena() -> None:
    """Let all threads that start later share one arena. MALLOC_ARENA_MAX of the environment is left as it is."""
    if sys.platform != "linux" or "MALLOC_ARENA_MAX" in os.environ:
        return
    import ctypes  # some milliseconds

    with suppress(OSError, AttributeError):  # another C library, which has no arenas
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
