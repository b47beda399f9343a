"""Our tools in another MCP server: listed after its own, called by the same names, through their own dispatcher.

    engine = Engine.open(".")
    server = MCPServer("house-tools")           # or the low-level Server
    register_tools(server, engine, profile="core,code", prefix="code_")

Register after the server has its own tools. The engine stays its owner's: index it, let it watch, close it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server import MCPServer, Server
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from context_engine import tools
from context_engine.errors import InvalidArgument
from context_engine.server import profiles
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.mcp_server import call_tool, wire_tool
from context_engine.server.profiles import ToolSelection
from context_engine.server.shutdown import RunningCalls
from context_engine.server.worker_threads import WorkerThreads

if TYPE_CHECKING:
    from context_engine.engine import Engine

Context = ServerRequestContext[Any]


def register_tools(
    server: Server[Any] | MCPServer[Any], engine: Engine, *, profile: str = "core", prefix: str = ""
) -> tuple[str, ...]:
    """Add the tools of a profile (or of several, comma-separated) to a server, and return their names with the prefix.

    Tools that the profile does not list are reached through its `call_tool`.

    A listing fails when the server has tools of these names too. Raises: InvalidArgument for an unknown profile.
    """
    selection = ToolSelection(profiles=tuple(part.strip() for part in profile.split(",")))
    if trouble := selection.find_unknown_name():
        raise InvalidArgument(trouble)
    host = server._lowlevel_server if isinstance(server, MCPServer) else server  # no public name yet (mcp 2.3)
    dispatcher, threads = ToolDispatcher(single_engine(engine), selection=selection), WorkerThreads(RunningCalls())
    listed = {tool.alias or tool.name: tool for tool in profiles.list_tools(tools.ALL, selection)}
    names = {prefix + name: name for name in listed}
    ours = [wire_tool(tool, selection, name=prefix + name) for name, tool in listed.items()]
    their_list, their_call = (host.get_request_handler(method) for method in ("tools/list", "tools/call"))

    async def list_both(context: Context, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        """Return the pages of the server, with our tools on the last one."""
        listed = await their_list.handler(context, params) if their_list else types.ListToolsResult(tools=[])
        theirs = types.ListToolsResult.model_validate(listed)
        if clashing := sorted(names.keys() & {tool.name for tool in theirs.tools}):
            raise MCPError(types.INTERNAL_ERROR, f"two tools each are called {', '.join(clashing)}: use a prefix")
        if theirs.next_cursor:
            return theirs
        return theirs.model_copy(update={"tools": [*theirs.tools, *ours]})

    async def call_either(context: Context, params: types.CallToolRequestParams) -> HandlerResult:
        """Call our tools through the dispatcher, and the others as before."""
        if name := names.get(params.name):
            return await call_tool(dispatcher, threads, context, params, name)
        if their_call is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool is called {params.name!r}")
        return await their_call.handler(context, params)

    host.add_request_handler("tools/list", types.PaginatedRequestParams, list_both)
    host.add_request_handler("tools/call", types.CallToolRequestParams, call_either)
    return tuple(names)
