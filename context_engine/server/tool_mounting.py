"""Our tools in another MCP server: listed after its own, called by the same names, through their own dispatcher.

    engine = Engine.open(".")
    server = MCPServer("house-tools")           # or the low-level Server
    register_tools(server, engine, profile="core,code", prefix="code_")

Register after the server has its own tools. The engine stays its owner's: index it, let it watch, close it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types as types
from mcp.server import MCPServer, Server
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import RequestHandler
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from context_engine import tools
from context_engine.errors import InvalidArgument
from context_engine.server import profiles
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.mcp_server import call_tool, wire_tool
from context_engine.server.profiles import ToolSelection
from context_engine.server.shutdown import ShutdownCoordinator
from context_engine.server.worker_threads import WorkerThreads

if TYPE_CHECKING:
    from context_engine.engine import Engine


def register_tools(
    server: Server[Any] | MCPServer[Any], engine: Engine, *, profile: str = "core", prefix: str = ""
) -> tuple[str, ...]:
    """Add the tools of a profile (or of several, comma-separated) to a server, and return their names with the prefix.

    Tools that the profile does not list are reached through its `call_tool`.

    Raises: InvalidArgument for an unknown profile, and when the server has tools of these names already.
    """
    shown = ToolSelection(profiles=tuple(part.strip() for part in profile.split(",")))
    if trouble := shown.find_unknown_name():
        raise InvalidArgument(trouble)
    host = server._lowlevel_server if isinstance(server, MCPServer) else server  # no public name yet (mcp 2.3)
    combined = _CombinedTools(host, ToolDispatcher(single_engine(engine), selection=shown), prefix)
    host.add_request_handler("tools/list", types.PaginatedRequestParams, combined.list_tools)
    host.add_request_handler("tools/call", types.CallToolRequestParams, combined.call_tool)
    return tuple(combined.names)


class _CombinedTools:
    """The tools of a server and ours, as one list."""

    def __init__(self, host: Server[Any], dispatcher: ToolDispatcher, prefix: str) -> None:
        self._their_list = _find_handler(host, "tools/list")
        self._their_call = _find_handler(host, "tools/call")
        self._dispatcher = dispatcher
        self._threads = WorkerThreads(ShutdownCoordinator(lambda: None))
        listed = {tool.alias or tool.name: tool for tool in profiles.list_tools(tools.ALL, dispatcher.selection)}
        self.names = {prefix + name: name for name in listed}
        self._tools = [wire_tool(tool, dispatcher.selection, prefix + name) for name, tool in listed.items()]
        if clashing := self._clashing(_list_names(self._their_list)):
            raise InvalidArgument(
                f"the server has tools of these names already: {', '.join(clashing)}",
                suggestion='Give ours a prefix: register_tools(server, engine, prefix="ctx_").',
                details={"names": clashing},
            )

    async def list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams
    ) -> types.ListToolsResult:
        """Return the pages of the server, with our tools on the last one."""
        theirs = await _list_page(self._their_list, context, params)
        if clashing := self._clashing(tool.name for tool in theirs.tools):
            raise MCPError(types.INTERNAL_ERROR, f"two tools each are called {', '.join(clashing)}: use a prefix")
        if theirs.next_cursor:
            return theirs
        return theirs.model_copy(update={"tools": [*theirs.tools, *self._tools]})

    async def call_tool(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> HandlerResult:
        """Call our tools through the dispatcher, and the others as before."""
        if name := self.names.get(params.name):
            return await call_tool(self._dispatcher, self._threads, context, params, name)
        if self._their_call is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool is called {params.name!r}")
        return await self._their_call(context, params)

    def _clashing(self, theirs: Iterable[str]) -> list[str]:
        return sorted(self.names.keys() & set(theirs))


def _find_handler(host: Server[Any], method: str) -> RequestHandler[Any, Any] | None:
    entry = host.get_request_handler(method)
    if entry:
        return entry.handler
    return None


async def _list_page(
    handler: RequestHandler[Any, Any] | None,
    context: ServerRequestContext[Any],
    params: types.PaginatedRequestParams,
) -> types.ListToolsResult:
    """Return one page of a server's own tools; an empty one for a server without tools."""
    result = await handler(context, params) if handler else types.ListToolsResult(tools=[])
    if isinstance(result, Mapping):
        return types.ListToolsResult.model_validate(result)
    return cast("types.ListToolsResult", result)


def _list_names(handler: RequestHandler[Any, Any] | None) -> list[str]:
    """Return the tools that a server lists without a client; empty if it cannot, and the first listing checks them."""
    context = ServerRequestContext(
        session=cast("Any", None), lifespan_context={}, protocol_version=LATEST_MODERN_VERSION, method="tools/list"
    )

    async def every_page() -> list[str]:
        names, params = [], types.PaginatedRequestParams()
        while True:
            page = await _list_page(handler, context, params)
            names += [tool.name for tool in page.tools]
            if not page.next_cursor:
                return names
            params = types.PaginatedRequestParams(cursor=page.next_cursor)

    with ThreadPoolExecutor(1) as pool:  # the caller may be inside an event loop, where no second one can run
        try:
            return pool.submit(lambda: anyio.run(every_page)).result()
        except Exception:  # noqa: BLE001 - it is the code of the host, and this check is optional
            return []
