"""The server: MCP over stdio and HTTP. Only this package is async and speaks the protocol.

`serve.main` runs a server until its client leaves. Every call passes a `dispatcher.ToolDispatcher`, also with `ctx
call`.

| topic | files |
| --- | --- |
| start and end | serve, serve_options, shutdown |
| stdio | stdio_streams, framing, stdio_session, daemon_relay; in the daemon: daemon_sessions |
| projects | projects, chunk_server |
| calls | dispatcher, profiles, rate_limits, metrics, server_log, worker_threads |
| record of calls | gain_store |
| protocol | mcp_server, client_requests, resources, prompt_templates, tool_mounting |
| HTTP | http_server, page_server, connections, authentication |

The modules of start, end and stdio import only a small part of the standard library; a test checks that.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.server.daemon_sessions import SessionServer
    from context_engine.server.dispatcher import ToolDispatcher, parse_call, single_engine
    from context_engine.server.gain_store import (
        GainStore,
        cancel_call,
        delete_counts,
        gain_file,
        read_call_texts,
        read_events,
        read_sessions,
    )
    from context_engine.server.page_server import PageResponse, PageServer
    from context_engine.server.profiles import PROFILES, ToolSelection
    from context_engine.server.projects import (
        Projects,
        find_project_path,
        follow_edits,
        name_folders,
        workspace_folders,
    )
    from context_engine.server.serve import TURN_S, main
    from context_engine.server.serve_options import OPTIONS

__getattr__ = lazy_exports(__name__)
