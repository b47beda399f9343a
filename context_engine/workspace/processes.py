"""How a program that was started in a session of its own ends with everything that it has started."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all it started, unless it has ended and was waited for; its end is still to be waited for."""
    if process.returncode is not None:  # its number may already be somebody else's
        return
    try:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:  # it ended by itself a moment ago
        return
