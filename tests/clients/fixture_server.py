"""The server that the conformance suite is run against: ours over a real repository, and the suite's own fixtures beside it.

    python -m tests.clients.fixture_server FOLDER

prints its address and serves until it is told to end. What the suite asks for by name is answered by the fixtures, all
else by our server; and all of it goes through our middleware, our guard and our way over HTTP.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from context_engine.server import connections, http_server, mcp_server
from context_engine.server.authentication import AllowedHosts, RequestGuard
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.projects import Projects
from context_engine.server.server_log import create_log
from tests.clients import fixtures
from tests.clients.fixtures import Context

Ours = Callable[[Context, Any], Awaitable[Any]]
LISTED = {
    "tools/list": ("tools", fixtures.listed_tools()),
    "resources/list": ("resources", fixtures.listed_resources()),
    "resources/templates/list": ("resource_templates", [fixtures.TEMPLATE]),
    "prompts/list": ("prompts", fixtures.listed_prompts()),
}


def main(root: Path) -> None:
    """Serve on a free port of loopback, as `ctx serve --http` does."""
    projects = Projects((str(root),), log=create_log("info"), follow=False)
    gate = ToolDispatcher(projects.engine, log=create_log("info"))
    projects.start()
    server = furnished(mcp_server.build_server(gate, projects=projects))
    app = http_server.create_application(server, gate, projects, RequestGuard(AllowedHosts("127.0.0.1"), token=""))
    listening = connections.bind_socket("127.0.0.1", 0)
    print(http_server.endpoint_url(listening), flush=True)
    http_server.HttpServer(app, server).run(sockets=[listening])
    projects.close()


def furnished(server: Server[Any]) -> Server[Any]:
    """The server with the fixtures beside its own tools, resources and prompts."""
    for method, (field, fixed) in LISTED.items():
        beside(server, method, types.PaginatedRequestParams, partial(list_both, field, fixed))
    beside(server, "tools/call", types.CallToolRequestParams, call_tool)
    beside(server, "resources/read", types.ReadResourceRequestParams, read_resource)
    beside(server, "prompts/get", types.GetPromptRequestParams, get_prompt)
    beside(server, "completion/complete", types.CompleteRequestParams, complete)
    for method, params in (
        ("resources/subscribe", types.SubscribeRequestParams),
        ("resources/unsubscribe", types.UnsubscribeRequestParams),
        ("logging/setLevel", types.SetLevelRequestParams),
    ):
        server.add_request_handler(method, params, accepted)
    ours = server.get_tool_input_schema
    server.get_tool_input_schema = lambda name: fixtures.SCHEMAS.get(name) or (ours(name) if ours else None)
    return server


def beside(
    server: Server[Any], method: str, params_type: type[Any], fixture: Callable[[Ours, Context, Any], Awaitable[Any]]
) -> None:
    """Put a fixture before our handler of that method, and hand ours to it."""
    entry = server.get_request_handler(method)

    async def handler(context: Context, params: Any) -> Any:
        assert entry, f"our server does not answer {method}"
        return await fixture(entry.handler, context, params)

    server.add_request_handler(method, entry.params_type if entry else params_type, handler)


async def accepted(context: Context, params: Any) -> types.EmptyResult:
    """A request of the older era that ours leaves out, because the newer one did away with it."""
    return types.EmptyResult()


async def list_both(field: str, fixed: Sequence[Any], ours: Ours, context: Context, params: Any) -> Any:
    """Our list, and the fixtures behind it."""
    listed = await ours(context, params)
    return listed.model_copy(update={field: [*getattr(listed, field), *fixed]})


async def call_tool(ours: Ours, context: Context, params: types.CallToolRequestParams) -> Any:
    fixture = fixtures.TOOLS.get(params.name)
    return await (fixture(context, params) if fixture else ours(context, params))


async def read_resource(ours: Ours, context: Context, params: types.ReadResourceRequestParams) -> Any:
    uri = str(params.uri)
    fixture = fixtures.RESOURCES.get(uri) or fixtures.templated(uri)
    return types.ReadResourceResult(contents=[fixture]) if fixture else await ours(context, params)


async def get_prompt(ours: Ours, context: Context, params: types.GetPromptRequestParams) -> Any:
    return fixtures.prompted(params) if params.name in fixtures.PROMPTS else await ours(context, params)


async def complete(ours: Ours, context: Context, params: types.CompleteRequestParams) -> Any:
    if getattr(params.ref, "name", "") in fixtures.PROMPTS:
        return types.CompleteResult(
            completion=types.Completion(values=["paris", "park", "party"], total=3, has_more=False)
        )
    return await ours(context, params)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
