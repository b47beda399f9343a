"""The MCP clients that `ctx setup` knows, and the editors of their settings files."""
