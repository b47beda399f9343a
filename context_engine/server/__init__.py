"""The outside door: MCP over stdio and HTTP. The only room that is async and the only one that speaks the protocol.

`serve.main` runs a server until its client leaves; `gate.Gate` is what every call passes, `ctx call` included.
"""
