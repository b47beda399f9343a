"""The outside door: MCP over stdio and HTTP. The only room that is async and the only one that speaks the protocol.

`serve.main` runs a server until its client leaves; `dispatcher.Gate` is what every call passes, `ctx call` included.

| corner | files |
| --- | --- |
| starting at once | options, about, catalogue, front, lines, streams, conversation, serve |
| ending well | shutdown, parent |
| which workspace | projects, opening, asking |
| what a call passes | dispatcher, profiles, limits, metrics, progress, threads |
| the protocol | mcp, resources, prompts, completions, register |
| over HTTP | http, guard, token, prometheus, records |
| for a team | team, grants, token_file, authenticator, sessions, seen, audit, spans |

Those that start at once import the standard library alone, and of that little; a test holds them to it.
"""
