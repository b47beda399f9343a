"""The server: MCP over stdio and HTTP. Only this package is async and speaks the protocol.

`serve.main` runs a server until its client leaves. Every call passes a `dispatcher.ToolDispatcher`, also with `ctx
call`.

| topic | files |
| --- | --- |
| fast start | serve, serve_options, bootstrap, framing, stdio_session, daemon_relay |
| shutdown | shutdown |
| sessions in the daemon | daemon_sessions |
| projects | projects, remote_projects, chunk_server |
| calls without the library | direct_calls, plain_call, call_progress |
| calls | dispatcher, profiles, rate_limits, metrics, server_log, worker_threads |
| record of calls | gain_store, gain_estimate, activity_log |
| protocol | mcp_server, client_requests, resources, prompt_templates, tool_mounting |
| HTTP | http_server, page_server, connections, message_checks, authentication, otel_spans |
| shared servers | shared_server, grants, token_file |

The modules of the fast start import only a small part of the standard library; a test checks that.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.server.daemon_sessions import SessionServer
    from context_engine.server.dispatcher import ToolDispatcher, parse_call, single_engine
    from context_engine.server.gain_estimate import GAIN_RULE
    from context_engine.server.gain_store import (
        GainCounts,
        GainSession,
        GainStore,
        add_counts,
        delete_counts,
        gain_file,
        open_activity,
        read_sessions,
    )
    from context_engine.server.page_server import PageRequest, PageResponse, PageServer
    from context_engine.server.profiles import PROFILES, ToolSelection
    from context_engine.server.projects import (
        CLIENT_VARIABLE,
        Projects,
        find_project_path,
        name_folders,
        workspace_folders,
    )
    from context_engine.server.serve import main, read_catalogue
    from context_engine.server.serve_options import OPTIONS
    from context_engine.server.token_file import TokenFile, TokenRecord, TokenRequest

__all__ = [
    "CLIENT_VARIABLE",
    "GAIN_RULE",
    "OPTIONS",
    "PROFILES",
    "GainCounts",
    "GainSession",
    "GainStore",
    "PageRequest",
    "PageResponse",
    "PageServer",
    "Projects",
    "SessionServer",
    "TokenFile",
    "TokenRecord",
    "TokenRequest",
    "ToolDispatcher",
    "ToolSelection",
    "add_counts",
    "delete_counts",
    "find_project_path",
    "gain_file",
    "main",
    "name_folders",
    "open_activity",
    "parse_call",
    "read_catalogue",
    "read_sessions",
    "single_engine",
    "workspace_folders",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "CLIENT_VARIABLE": "projects",
        "GAIN_RULE": "gain_estimate",
        "GainCounts": "gain_store",
        "GainSession": "gain_store",
        "GainStore": "gain_store",
        "OPTIONS": "serve_options",
        "PROFILES": "profiles",
        "PageRequest": "page_server",
        "PageResponse": "page_server",
        "PageServer": "page_server",
        "Projects": "projects",
        "SessionServer": "daemon_sessions",
        "TokenFile": "token_file",
        "TokenRecord": "token_file",
        "TokenRequest": "token_file",
        "ToolDispatcher": "dispatcher",
        "ToolSelection": "profiles",
        "add_counts": "gain_store",
        "delete_counts": "gain_store",
        "find_project_path": "projects",
        "gain_file": "gain_store",
        "main": "serve",
        "name_folders": "projects",
        "open_activity": "gain_store",
        "parse_call": "dispatcher",
        "read_catalogue": "serve",
        "read_sessions": "gain_store",
        "single_engine": "dispatcher",
        "workspace_folders": "projects",
    },
)
