"""The Model Context Protocol over any pair of streams: tools, resources, prompts, completions.

Both kinds of the protocol work (`server/discover` and `initialize`); the library decides by the first request. All work
with an Engine runs in a worker thread, and its errors become errors of the protocol here.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

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
from context_engine.server.client_requests import ClientInputRequired, create_asker, forget_roots, settle_projects
from context_engine.server.dispatcher import CallResult, ToolDispatcher
from context_engine.server.grants import SCOPE_KEY, Grant, GrantSessions, SharedAccess
from context_engine.server.instructions import format_instructions
from context_engine.server.profiles import ToolSelection
from context_engine.server.projects import Projects
from context_engine.server.shutdown import RunningCalls
from context_engine.server.worker_threads import WorkerThreads
from context_engine.tools import Tool

NAME = "ctx"
TITLE = "Context Engine"
VERSION = __version__
LIST_TTL_MS = 3_600_000
"""The lists of tools, prompts and resources do not change while a server runs."""
LISTS: tuple[CacheableMethod, ...] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "server/discover",
)
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


def build_server(
    dispatcher: ToolDispatcher,
    *,
    selection: ToolSelection | None = None,
    projects: Projects | None = None,
    running: RunningCalls | None = None,
    shared: SharedAccess | None = None,
) -> Server[Any]:
    """Return a protocol server over the dispatcher, with no stream yet.

    `selection` decides which tools are listed; by default that of the dispatcher. With `shared` each request is
    answered as its token sees the server; a request without a grant is an error.
    """
    selection = selection or dispatcher.selection
    views = ServerViews(dispatcher, selection, shared.sessions if shared else None)
    handlers = _RequestHandlers(views, projects, WorkerThreads(running or RunningCalls()))
    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        title=TITLE,
        instructions=format_instructions([tool.alias or tool.name for tool in _list_tools(selection)]),
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
    server.middleware.append(RequestStateBoundary(_state_security(shared), default_audience=NAME))
    server.middleware.append(partial(_log_crashes, dispatcher))
    if shared:
        server.middleware.append(partial(_log_reads, views))
    if projects is not None:
        server.add_notification_handler(
            "notifications/roots/list_changed", types.NotificationParams, partial(forget_roots, projects)
        )
    return server


def _state_security(shared: SharedAccess | None) -> RequestStateSecurity:
    """Return how the state between the rounds of a call is sealed: for this process, or for all processes of a team."""
    if shared is None:
        return RequestStateSecurity.ephemeral()
    return RequestStateSecurity(keys=[shared.sealing_key], bind_principal=lambda context: grant_of(context).id)


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


def wire_tool(tool: Tool, selection: ToolSelection, name: str = "") -> types.Tool:
    """Return a tool as `tools/list` has it, under the name it is used by or another one."""
    hints, own_name = tool.hints, tool.alias or tool.name
    title = own_name.replace("_", " ").capitalize()
    return types.Tool(
        name=name or own_name,
        title=title,
        description=tool.description,
        input_schema=dict(profiles.add_project_parameter(tool.name, tool.listed_schema, selection.projects)),
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
    text = outcome.reply.text
    content = tools.read_object(text) if structured else None
    block = types.TextContent(type="text", text=text if content is None else SEE_STRUCTURED)
    if content is None:
        return types.CallToolResult(content=[block], is_error=outcome.reply.is_error)
    return types.CallToolResult(content=[block], structured_content=content, is_error=outcome.reply.is_error)


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
    work = partial(dispatcher.call, name or params.name, params.arguments)
    structured = dispatcher.selection.structured and context.protocol_version >= STRUCTURED_SINCE
    try:
        outcome = await threads.run(context, work, ask=create_asker(context, params, dispatcher.redact))
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


@dataclass(frozen=True, slots=True)
class ServerView:
    """The server as one client sees it: a dispatcher, the names of several projects, the listed tools."""

    dispatcher: ToolDispatcher
    projects: tuple[str, ...]
    tools: list[types.Tool]

    @property
    def listed_names(self) -> frozenset[str]:
        """The names of the listed tools."""
        return frozenset(tool.name for tool in self.tools)


class ServerViews:
    """The views of one server: one for all clients, or one for each grant of a shared server. Thread-safe."""

    def __init__(
        self, dispatcher: ToolDispatcher, selection: ToolSelection, sessions: GrantSessions | None = None
    ) -> None:
        self._selection = selection
        self._sessions = sessions
        self._default = _create_view(dispatcher, selection)
        self._known: dict[tuple[Grant, tuple[str, ...]], ServerView] = {}

    def for_request(self, context: Context) -> ServerView:
        """Return the view of a request. Raises: BugError for a request to a shared server without a grant."""
        if self._sessions is None:
            return self._default
        grant = grant_of(context)
        names = self._sessions.projects_of(grant).names
        if (grant, names) not in self._known:
            selection = self._selection._replace(projects=names if len(names) > 1 else ())
            self._known[grant, names] = _create_view(self._sessions.dispatcher(grant), selection)
        return self._known[grant, names]


def _create_view(dispatcher: ToolDispatcher, selection: ToolSelection) -> ServerView:
    listed = [wire_tool(tool, selection) for tool in _list_tools(selection) if tool.name not in dispatcher.forbidden]
    return ServerView(dispatcher, tuple(selection.projects), listed)


def grant_of(context: Context) -> Grant:
    """Return the grant of a request. Raises: BugError."""
    grant = context.request.scope.get(SCOPE_KEY) if context.request is not None else None
    if not isinstance(grant, Grant):
        raise BugError("a request reached a shared server without a grant")
    return grant


class _RequestHandlers:
    """The handlers of the protocol methods."""

    def __init__(self, views: ServerViews, projects: Projects | None, threads: WorkerThreads) -> None:
        self._views = views
        self._projects = projects
        self._threads = threads

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        _check_cursor(params)
        listed = self._views.for_request(context).tools
        return types.ListToolsResult(tools=resources.link_views(listed) if _shows_apps(context) else listed)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if (more := await settle_projects(context, params.input_responses, self._projects)) is not None:
            return more
        return await call_tool(self._views.for_request(context).dispatcher, self._threads, context, params)

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        _check_cursor(params)
        listed = resources.list_resources(self._views.for_request(context).projects)
        views = resources.list_views() if _shows_apps(context) else []
        return types.ListResourcesResult(resources=listed + views)

    async def list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        _check_cursor(params)
        return types.ListResourceTemplatesResult(
            resource_templates=[resources.file_template(self._views.for_request(context).projects)]
        )

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        if (more := await settle_projects(context, params.input_responses, self._projects)) is not None:
            return more
        dispatcher, uri = self._views.for_request(context).dispatcher, str(params.uri)
        if _shows_apps(context) and (view := resources.find_view(uri)):
            page = types.TextResourceContents(uri=uri, mime_type=resources.APP_TYPE, text=resources.render_view(view))
            return types.ReadResourceResult(contents=[page])
        try:
            content = await self._threads.run(context, partial(resources.read_resource, dispatcher, uri))
        except FileNotFound as error:
            raise _protocol_error(dispatcher, error, _not_found_code(context), uri=uri) from None
        except ContextEngineError as error:
            raise _protocol_error(dispatcher, error, uri=uri) from None
        text = types.TextResourceContents(uri=uri, mime_type=content.mime_type, text=content.text)
        return types.ReadResourceResult(contents=[text])

    async def list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        _check_cursor(params)
        return types.ListPromptsResult(prompts=prompt_templates.list_prompts(self._views.for_request(context).projects))

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if (more := await settle_projects(context, params.input_responses, self._projects)) is not None:
            return more
        view = self._views.for_request(context)
        write = partial(
            prompt_templates.render_prompt,
            view.dispatcher,
            params.name,
            params.arguments or {},
            listed=view.listed_names,
            projects=view.projects,
        )
        try:
            text = await self._threads.run(context, lambda _: write())
        except ContextEngineError as error:
            raise _protocol_error(view.dispatcher, error) from None
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(
            description=prompt_templates.find_prompt(params.name).description, messages=[message]
        )

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        view = self._views.for_request(context)
        find = partial(prompt_templates.complete_argument, view.dispatcher, params, view.projects)
        try:
            return types.CompleteResult(completion=await self._threads.run(context, lambda _: find()))
        except ContextEngineError as error:
            raise _protocol_error(view.dispatcher, error) from None


def _shows_apps(context: Context) -> bool:
    """Return whether the client of a request shows views of tools (MCP Apps)."""
    capabilities = context.session.client_capabilities
    extensions = capabilities.extensions if capabilities else None
    kinds = ((extensions or {}).get(APPS) or {}).get("mimeTypes")
    return isinstance(kinds, list) and resources.APP_TYPE in kinds


def _protocol_error(
    dispatcher: ToolDispatcher, error: ContextEngineError, code: int | None = None, **details: str
) -> MCPError:
    """Return an error of the protocol, with a code for an error of the caller or of the server."""
    default = types.INVALID_PARAMS if isinstance(error, CallError) else types.INTERNAL_ERROR
    return MCPError(code or default, dispatcher.redact(_format_problem(error)), details | {"code": error.code})


def _check_cursor(params: types.PaginatedRequestParams | None) -> None:
    """Refuse a cursor, because every list has one page."""
    if params is not None and params.cursor:
        raise MCPError(types.INVALID_PARAMS, "unknown cursor: the list has one page")


def _not_found_code(context: Context) -> int:
    if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return RESOURCE_NOT_FOUND
    return types.INVALID_PARAMS


async def _log_reads(views: ServerViews, ctx: Context, call_next: CallNext) -> HandlerResult:
    """Write an audit line for a read that is not a tool call. This is a middleware."""
    if ctx.method not in READS:
        return await call_next(ctx)
    started, failure = time.perf_counter(), ""
    try:
        return await call_next(ctx)
    except MCPError as error:
        failure = str((error.error.data or {}).get("code", error.error.code))
        raise
    finally:
        project = requested_project(ctx.method, ctx.params)
        line: dict[str, Any] = {"event": "read", "method": ctx.method, "project": project, "ok": not failure}
        if failure:
            line["error"] = failure
        line["ms"] = round((time.perf_counter() - started) * 1000, 2)
        views.for_request(ctx).dispatcher.log(line)


def requested_project(method: str, params: Mapping[str, Any] | None) -> str:
    """Return the project that a request other than a tool call names; empty when it names none.

    >>> requested_project("resources/read", {"uri": "ctx://status?project=web"})
    'web'
    """
    given = params or {}
    if method == "resources/read":
        return resources.project_in_uri(str(given.get("uri", "")))
    holder = given.get("context") if method == "completion/complete" else given
    named = holder.get("arguments") if isinstance(holder, Mapping) else None
    if isinstance(named, Mapping):
        return str(named.get("project", ""))
    return ""


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
        raise MCPError(
            types.INTERNAL_ERROR,
            f"{ctx.method} failed; this is a defect of the server, and the log on stderr has the details",
        ) from None
