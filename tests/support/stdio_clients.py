"""The stdio client of the protocol library, with patience: on a busy machine it gives a server up after two seconds.

It abandons the process then, and Python warns of it in whatever test runs when the garbage is collected.
"""

from __future__ import annotations

from mcp.client import stdio
from mcp.client.stdio import StdioServerParameters, stdio_client

PATIENCE_S = 60.0

__all__ = ["StdioServerParameters", "stdio_client"]

for _limit in ("PROCESS_TERMINATION_TIMEOUT", "_KILL_REAP_TIMEOUT"):
    assert hasattr(stdio, _limit), "the library names its time limits differently now"
    setattr(stdio, _limit, PATIENCE_S)
