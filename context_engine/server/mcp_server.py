"""The Model Context Protocol over any pair of streams: tools, resources, prompts, completions.

Both kinds of the protocol work (`server/discover` and `initialize`); the library decides by the first request. All work
with an Engine runs in a worker thread, and its errors become errors of the protocol here.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from context_engine import __version__, tools
from context_engine.errors import BugError, CallError, ContextEngineError, FileNotFound, UnknownTool
from context_engine.server import profiles, prompt_templates, resources
from context_engine.server.client_requests import ClientInputRequired, create_asker, settle_projects
from context_engine.server.dispatcher import CallResult, ToolDispatcher
from context_engine.server.instructions import format_instructions
from context_engine.server.profiles import ToolSelection
from context_engine.server.projects import Projects
from context_engine.server.shutdown import RunningCalls
from context_engine.server.worker_threads import WorkerThreads
from context_engine.tools import Call, Tool

if TYPE_CHECKING:
    from context_engine.server.metrics import Rows

NAME = "ctx"
TITLE = "Context Engine"
VERSION = __version__
LIST_TTL_MS = 3_600_000
"""The lists of tools, prompts and resources do not change while a server runs."""
LISTS: tuple[CacheableMethod, ...] = (
    *("tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"),
)
SCOPE_KEY = "ctx.grant"
"""The key, in the scope of a request to a shared server, of the grant of its token."""
READS = ("resources/read", "prompts/get", "completion/complete")
"""The methods other than tools that read a project."""
SEE_STRUCTURED = "The result is in structuredContent."
STRUCTURED_SINCE = "2025-06-18"
"""The first version of the protocol with structured content; older clients get the same JSON as text."""
APPS = "io.modelcontextprotocol/ui"
"""The extension for views (SEP-1865)."""
RESOURCE_NOT_FOUND = -32002
"""The code before protocol version 2026-07-28, which replaced it by "invalid params"."""
Context = ServerRequestContext[Any]
Page = types.PaginatedRequestParams | None
"""Which page of a list is asked for."""
Result = TypeVar("Result")


class SharedAccess(Protocol):
    """What a team adds to a server: who asks, and a dispatcher for each token. A grant has the `id` of its token."""

    sealing_key: bytes
    """Seals what a client carries from one request to the next."""
    token_location: str

    @property
    def authenticate(self) -> Callable[[str, Mapping[str, str], str], Any]:
        """Returns the grant of a request by path, headers and address, or an `HttpRefusal`; None for an open path."""

    def dispatcher(self, grant: Any) -> ToolDispatcher:
        """Return the dispatcher of a grant, which knows the projects that it sees."""

    def metrics_of(self, grant: Any) -> Mapping[str, Rows]:
        """Return role -> metrics by tool, as far as the caller may read them."""

    def log_read(self, grant: Any, method: str, params: Mapping[str, Any] | None, error: str, ms: float) -> None:
        """Write an audit line for a read that is not a tool call."""


def build_server(
    dispatcher: ToolDispatcher,
    *,
    projects: Projects | None = None,
    running: RunningCalls | None = None,
    shared: SharedAccess | None = None,
) -> Server[Any]:
    """Return a protocol server over the dispatcher, with no stream yet.

    With `shared` each request is answered as its token sees the server; a request without a token is an error.
    """
    threads = WorkerThreads(running or RunningCalls())
    handlers = _RequestHandlers(dispatcher, projects, threads, shared)
    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        title=TITLE,
        instructions=format_instructions([tool.alias or tool.name for tool in _list_tools(dispatcher.selection)]),
        cache_hints=dict.fromkeys(LISTS, CacheHint(LIST_TTL_MS, "private" if shared else "public")),
        get_tool_input_schema=_schema_of,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
        on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()),
    )
    server.add_request_handler("server/discover", types.RequestParams, partial(_discover, server))
    security = RequestStateSecurity.ephemeral()
    if shared:
        security = RequestStateSecurity(keys=[shared.sealing_key], bind_principal=lambda context: _grant_of(context).id)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    server.middleware.append(partial(_log_crashes, dispatcher))
    if shared:
        server.middleware.append(partial(_log_reads, shared))
    if projects is not None:

        async def forget_roots(_: Context, __: types.NotificationParams | None) -> None:
            """Request the folders of the client again with its next call, because they have changed."""
            projects.unsettle()

        server.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, forget_roots)
    return server


async def _discover(server: Server[Any], _: Context, __: types.RequestParams) -> types.DiscoverResult:
    """Return the identity of the server, and that its lists never change.

    The library would report that they may change, and a client would then subscribe before its first request.
    """
    return types.DiscoverResult(
        supported_versions=list(MODERN_PROTOCOL_VERSIONS),
        capabilities=server.get_capabilities(),
        instructions=server.instructions,
    )


# -- tools as the protocol lists them ----------------------------------------------------------------------------


def _list_tools(selection: ToolSelection) -> list[Tool]:
    """Return the tools that a selection lists; the modules of the others are not imported."""
    older = {own: alias for alias, own in profiles.ALIASES.items()}
    names = [name for name in tools.list_names() if selection.lists(name) or selection.lists(older.get(name, name))]
    return profiles.list_tools(map(tools.find, names), selection)


def wire_tool(tool: Tool, selection: ToolSelection, projects: Sequence[str] = (), name: str = "") -> types.Tool:
    """Return a tool as `tools/list` has it, under the name it is used by or another one."""
    hints, own_name = tool.hints, tool.alias or tool.name
    is_seed = "seeds" in selection.profiles and own_name in profiles.SEEDS
    more = profiles.SEEDS_ARGUMENTS if is_seed else ()
    schema = tool.list_schema(more, camel=is_seed and own_name in profiles.CAMEL_CASE)
    title = own_name.replace("_", " ").capitalize()
    return types.Tool(
        name=name or own_name,
        title=title,
        description=tool.description,
        input_schema=dict(profiles.add_project_parameter(tool.name, schema, projects)),
        output_schema=dict(tool.output_schema) if selection.structured else None,
        annotations=types.ToolAnnotations(
            title=title,
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
        _meta=tool.meta,
    )


def tool_result(outcome: CallResult, *, structured: bool = False) -> types.CallToolResult:
    """Return the result of a call as one text block, or as structured content with a block that points to it.

    Unknown tools and malformed calls are errors of the protocol; all other errors are replies.
    """
    error = outcome.error
    if error and tools.is_malformed(error):
        raise MCPError(types.INVALID_PARAMS, _format_problem(error), error.as_dict())
    text, is_error = outcome.reply.text, outcome.reply.is_error
    content = tools.read_object(text) if structured else None
    block = types.TextContent(type="text", text=text if content is None else SEE_STRUCTURED)
    return types.CallToolResult(content=[block], structured_content=content, is_error=is_error)


def _format_problem(error: ContextEngineError) -> str:
    """Return the message of an error of the protocol: the problem and the next step."""
    return f"{error.message}. {error.suggestion}".strip()


async def call_tool(
    dispatcher: ToolDispatcher,
    threads: WorkerThreads,
    context: Context,
    params: types.CallToolRequestParams,
    name: str = "",
) -> types.CallToolResult | types.InputRequiredResult:
    """Return the reply to a call, or the question that the client must ask first.

    `name` is the real name of the tool.
    """
    name = name or params.name
    work = partial(dispatcher.call, name, params.arguments)
    has_view = _shows_apps(context) and name in tools.list_names() and tools.find(name).view  # which reads JSON
    structured = dispatcher.selection.structured and context.protocol_version >= STRUCTURED_SINCE
    try:
        ask = create_asker(context, params, dispatcher.redact)
        show = partial(dispatcher.show_running, name, params.arguments)
        outcome = await threads.run(context, work, ask=ask, reader="documents" if has_view else "", show=show)
        return tool_result(outcome, structured=structured)
    except ClientInputRequired as question:
        return question.required


def _schema_of(name: str) -> Mapping[str, Any] | None:
    """Return the schema of a tool, which checks the arguments that HTTP clients repeat in headers."""
    try:
        return tools.find(name).schema
    except UnknownTool:
        return None


# -- requests -----------------------------------------------------------------------------------------------------


class ServerView(NamedTuple):
    """The server as one client sees it: a dispatcher, the names of its projects, the listed tools."""

    dispatcher: ToolDispatcher
    projects: tuple[str, ...]
    tools: list[types.Tool]


class _RequestHandlers:
    """The handlers of the protocol methods."""

    def __init__(
        self,
        dispatcher: ToolDispatcher,
        projects: Projects | None,
        threads: WorkerThreads,
        shared: SharedAccess | None,
    ) -> None:
        self._projects = projects
        self._threads = threads
        self._shared = shared
        self._view = _create_view(dispatcher)
        self._shared_views: dict[tuple[ToolDispatcher, tuple[str, ...]], ServerView] = {}

    def _view_of(self, context: Context) -> ServerView:
        """Return the view of a request: one for all clients, or one for each token. Raises: BugError without one."""
        if self._shared is None:
            return self._view
        dispatcher = self._shared.dispatcher(_grant_of(context))
        key = dispatcher, tuple(dispatcher.project_names())
        if key not in self._shared_views:
            self._shared_views[key] = _create_view(dispatcher)
        return self._shared_views[key]

    async def list_tools(self, context: Context, params: Page) -> types.ListToolsResult:
        _check_cursor(params)
        listed = self._view_of(context).tools
        return types.ListToolsResult(tools=resources.link_views(listed) if _shows_apps(context) else listed)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if (more := await settle_projects(context, params.input_responses, self._projects)) is not None:
            return more
        return await call_tool(self._view_of(context).dispatcher, self._threads, context, params)

    async def list_resources(self, context: Context, params: Page) -> types.ListResourcesResult:
        _check_cursor(params)
        views = resources.list_views() if _shows_apps(context) else []
        return types.ListResourcesResult(resources=resources.list_resources(self._view_of(context).projects) + views)

    async def list_templates(self, context: Context, params: Page) -> types.ListResourceTemplatesResult:
        _check_cursor(params)
        template = resources.file_template(self._view_of(context).projects)
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        if (more := await settle_projects(context, params.input_responses, self._projects)) is not None:
            return more
        dispatcher, uri = self._view_of(context).dispatcher, str(params.uri)
        if uri in resources.APP_VIEWS and _shows_apps(context):
            content = resources.render_view(uri)
        else:
            read = partial(resources.read_resource, dispatcher, uri)
            content = await self._run(context, dispatcher, read, uri=uri)
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, context: Context, params: Page) -> types.ListPromptsResult:
        _check_cursor(params)
        return types.ListPromptsResult(prompts=prompt_templates.list_prompts(self._view_of(context).projects))

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if (more := await settle_projects(context, params.input_responses, self._projects)) is not None:
            return more
        dispatcher, projects, listed = self._view_of(context)
        names = frozenset(tool.name for tool in listed)

        def render(_: Call) -> str:
            given = params.arguments or {}
            return prompt_templates.render_prompt(dispatcher, params.name, given, listed=names, projects=projects)

        text = await self._run(context, dispatcher, render)
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        description = prompt_templates.find_prompt(params.name).description
        return types.GetPromptResult(description=description, messages=[message])

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        dispatcher, projects, _ = self._view_of(context)

        def complete(_: Call) -> types.Completion:
            return prompt_templates.complete_argument(dispatcher, params, projects)

        return types.CompleteResult(completion=await self._run(context, dispatcher, complete))

    async def _run(
        self, context: Context, dispatcher: ToolDispatcher, work: Callable[[Call], Result], **details: str
    ) -> Result:
        """Return the result of work in a thread. Raises: MCPError, with a code for the caller or for the server."""
        try:
            return await self._threads.run(context, work)
        except ContextEngineError as error:
            code = types.INVALID_PARAMS if isinstance(error, CallError) else types.INTERNAL_ERROR
            if isinstance(error, FileNotFound) and context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
                code = RESOURCE_NOT_FOUND
            text = dispatcher.redact(_format_problem(error))
            raise MCPError(code, text, details | {"code": error.code}) from None


def _create_view(dispatcher: ToolDispatcher) -> ServerView:
    selection, names = dispatcher.selection, tuple(dispatcher.project_names())
    allowed = [tool for tool in _list_tools(selection) if tool.name not in dispatcher.forbidden]
    return ServerView(dispatcher, names, [wire_tool(tool, selection, names) for tool in allowed])


def _shows_apps(context: Context) -> bool:
    """Return whether the client of a request shows views of tools (MCP Apps)."""
    capabilities = context.session.client_capabilities
    extensions = capabilities.extensions if capabilities else None
    kinds = ((extensions or {}).get(APPS) or {}).get("mimeTypes")
    return isinstance(kinds, list) and resources.APP_TYPE in kinds


def _check_cursor(params: Page) -> None:
    """Refuse a cursor, because every list has one page."""
    if params is not None and params.cursor:
        raise MCPError(types.INVALID_PARAMS, "unknown cursor: the list has one page")


def _grant_of(context: Context) -> Any:
    """Return the grant of a request to a shared server. Raises: BugError."""
    grant = context.request.scope.get(SCOPE_KEY) if context.request is not None else None
    if grant is None:
        raise BugError("a request reached a shared server without a grant")
    return grant


async def _log_reads(shared: SharedAccess, ctx: Context, call_next: CallNext) -> HandlerResult:
    """Log a read that is not a tool call for a team. This is a middleware."""
    if ctx.method not in READS:
        return await call_next(ctx)
    started, failure = time.perf_counter(), ""
    try:
        return await call_next(ctx)
    except MCPError as error:
        failure = str((error.error.data or {}).get("code", error.error.code))
        raise
    finally:
        ms = (time.perf_counter() - started) * 1_000
        shared.log_read(_grant_of(ctx), ctx.method, ctx.params, failure, ms)


async def _log_crashes(dispatcher: ToolDispatcher, ctx: Context, call_next: CallNext) -> HandlerResult:
    """Log an unexpected exception in one line, and send the client an error without internals. This is a middleware."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as crash:  # noqa: BLE001 - the server must outlive a defect in any handler, and report it
        last = traceback.extract_tb(crash.__traceback__)[-1]
        location = f"{last.filename}:{last.lineno} in {last.name}"
        dispatcher.log({"event": "crash", "method": ctx.method, "ok": False, "error": repr(crash), "at": location})
        text = f"{ctx.method} failed; this is a defect of the server, and the log on stderr has the details"
        raise MCPError(types.INTERNAL_ERROR, text) from None
