"""The outside door: MCP over stdio. The only room that is async and the only one that speaks the protocol.

`serve.stdio(root)` runs a server until its client leaves; `gate.Gate` is what every call passes, `ctx call` included.
"""
