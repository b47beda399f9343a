"""The daemon: one local process that keeps the Engines of its user warm for commands, hooks and stdio servers.

A client asks it through a Unix socket that only the user can open, and does the work itself where there is no daemon:
nothing needs it. `CTX_DAEMON=0` turns it off.

| topic | files |
| --- | --- |
| the place | runtime_folder |
| clients | daemon_client (imports a small part of the standard library) |
| the process | daemon_server, engine_pool |

The kinds of requests are a table of handlers, which `cli.daemon_commands` fills.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.daemon.daemon_client import (
        DaemonClient,
        ask_daemon,
        is_switched_off,
        leave_client,
        start_daemon,
    )
    from context_engine.daemon.daemon_server import DaemonConnection, DaemonLog, DaemonServer, DaemonServices
    from context_engine.daemon.engine_pool import EngineLease, EnginePool, keep_one_arena
    from context_engine.daemon.runtime_folder import RuntimeFolder, RuntimeFolderError, process_key

__getattr__ = lazy_exports(__name__)
