"""The server: MCP over stdio and HTTP. Only this package is async and speaks the protocol.

`serve.main` runs a server until its client leaves. Every call passes a `dispatcher.ToolDispatcher`, also with `ctx
call`.

| topic | files |
| --- | --- |
| fast start | serve, serve_options, bootstrap, framing, stdio_session |
| shutdown | shutdown |
| projects | projects, chunk_server |
| calls | dispatcher, profiles, rate_limits, metrics, server_log, worker_threads |
| protocol | mcp_server, client_requests, resources, prompt_templates, tool_mounting |
| HTTP | http_server, connections, message_checks, authentication, otel_spans |
| shared servers | shared_server, grants, token_file |

The modules of the fast start import only a small part of the standard library; a test checks that.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.server.dispatcher import ToolDispatcher, single_engine
    from context_engine.server.profiles import PROFILES, ToolSelection
    from context_engine.server.projects import CLIENT_VARIABLE, find_project_path
    from context_engine.server.serve import main, read_catalogue
    from context_engine.server.serve_options import OPTIONS
    from context_engine.server.token_file import TokenFile, TokenRecord, TokenRequest

__all__ = [
    "CLIENT_VARIABLE",
    "OPTIONS",
    "PROFILES",
    "TokenFile",
    "TokenRecord",
    "TokenRequest",
    "ToolDispatcher",
    "ToolSelection",
    "find_project_path",
    "main",
    "read_catalogue",
    "single_engine",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "CLIENT_VARIABLE": "projects",
        "OPTIONS": "serve_options",
        "PROFILES": "profiles",
        "TokenFile": "token_file",
        "TokenRecord": "token_file",
        "TokenRequest": "token_file",
        "ToolDispatcher": "dispatcher",
        "ToolSelection": "profiles",
        "find_project_path": "projects",
        "main": "serve",
        "read_catalogue": "serve",
        "single_engine": "dispatcher",
    },
)
