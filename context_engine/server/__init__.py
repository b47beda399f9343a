"""The server: MCP over stdio and HTTP. Only this package is async and speaks the protocol.

`serve.main` runs a server until its client leaves; every call passes `dispatcher.ToolDispatcher`, also that of `ctx call`.

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
