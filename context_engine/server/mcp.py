"""The Model Context Protocol over whatever pair of streams it is given: tools, resources, prompts, completions.

Both eras of the protocol work on one process (`server/discover` and `initialize`); the library decides by the first
request. Whatever touches an Engine runs in a worker thread; what goes wrong in it becomes an error here.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
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

from context_engine import tools
from context_engine.errors import CallError, ContextEngineError, FileNotFound, UnknownTool
from context_engine.server import completions, profiles, prompts, resources
from context_engine.server.about import INSTRUCTIONS, NAME, TITLE, VERSION
from context_engine.server.asking import asked, forgotten
from context_engine.server.eliciting import Unanswered, asker
from context_engine.server.gate import Gate, Outcome
from context_engine.server.life import Life
from context_engine.server.profiles import Shown
from context_engine.server.projects import Projects
from context_engine.server.threads import Threads
from context_engine.tools import Tool

LIST_TTL_MS = 3_600_000
"""The lists of tools, prompts and resources do not change while a server runs."""
LISTS: tuple[CacheableMethod, ...] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "server/discover",
)
RESOURCE_NOT_FOUND = -32002
"""The code of the older era; the newer one retired it and says invalid params."""
Context = ServerRequestContext[Any]


def build(
    gate: Gate, *, shown: Shown | None = None, projects: Projects | None = None, life: Life | None = None
) -> Server[Any]:
    """A protocol server over the gate, with no stream yet. `shown` says which tools are listed; the gate's own by default."""
    answers = _Answers(gate, shown or gate.shown, projects, Threads(life or Life(lambda: None)))
    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        title=TITLE,
        instructions=INSTRUCTIONS,
        cache_hints=dict.fromkeys(LISTS, CacheHint(LIST_TTL_MS, "public")),
        get_tool_input_schema=_schema_of,
        on_list_tools=answers.list_tools,
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_list_resource_templates=answers.list_templates,
        on_read_resource=answers.read_resource,
        on_list_prompts=answers.list_prompts,
        on_get_prompt=answers.get_prompt,
        on_completion=answers.complete,
        on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()),
    )
    server.add_request_handler("server/discover", types.RequestParams, partial(_discover, server))
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    server.middleware.append(partial(_crashes_told, gate))
    if projects is not None:
        server.add_notification_handler(
            "notifications/roots/list_changed", types.NotificationParams, partial(forgotten, projects)
        )
    return server


async def _discover(server: Server[Any], _: Context, __: types.RequestParams) -> types.DiscoverResult:
    """Who we are, and that no list of ours ever changes.

    The library would say that they may because somebody may listen; a client then listens before it asks anything else.
    """
    return types.DiscoverResult(
        supported_versions=list(MODERN_PROTOCOL_VERSIONS),
        capabilities=server.get_capabilities(),
        instructions=INSTRUCTIONS,
    )


# -- tools as the protocol shows them -----------------------------------------------------------------------------


def rows() -> list[dict[str, Any]]:
    """Every tool in the order of the catalogue, as `profiles.listed` takes them."""
    return [row(tool) for tool in tools.ALL]


def row(tool: Tool) -> dict[str, Any]:
    """One tool: as on the wire, what it may change, and its other names."""
    wire = listed(tool).model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"tool": wire, "touches": tool.touches, "aliases": list(tool.aliases)}


def listed(tool: Tool) -> types.Tool:
    """A tool as `tools/list` shows it."""
    hints = tool.hints
    title = tool.name.replace("_", " ").capitalize()
    return types.Tool(
        name=tool.name,
        title=title,
        description=tool.description,
        input_schema=tool.listed_schema,
        annotations=types.ToolAnnotations(
            title=title,
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
        _meta=tool.meta,
    )


def told(outcome: Outcome) -> types.CallToolResult:
    """One text block. Unknown tools and what a seed calls malformed are errors of the protocol, all others are replies."""
    error = outcome.error
    if error and tools.is_malformed(error):
        raise MCPError(types.INVALID_PARAMS, _sentence(error), error.as_dict())
    reply = outcome.reply
    return types.CallToolResult(content=[types.TextContent(type="text", text=reply.text)], is_error=reply.is_error)


async def called(
    gate: Gate, threads: Threads, context: Context, params: types.CallToolRequestParams, name: str = ""
) -> types.CallToolResult | types.InputRequiredResult:
    """What a call comes to: its reply, or what the client must ask somebody first. `name` is ours for the tool."""
    work = partial(gate.call, name or params.name, params.arguments)
    try:
        return told(await threads.run(context, work, ask=asker(context, params, gate.mask)))
    except Unanswered as unanswered:
        return unanswered.required


def _schema_of(name: str) -> Mapping[str, Any] | None:
    """The schema of any tool: HTTP clients may repeat arguments in headers, which are checked against it."""
    try:
        return tools.find(name).schema
    except UnknownTool:
        return None


# -- answers ------------------------------------------------------------------------------------------------------


class _Answers:
    """What the server answers to each method."""

    def __init__(self, gate: Gate, shown: Shown, projects: Projects | None, threads: Threads) -> None:
        self._gate = gate
        self._projects = projects
        self._threads = threads
        self._named = shown.projects
        self._tools = [types.Tool.model_validate(wire) for wire in profiles.listed(rows(), shown)]
        self._shown = frozenset(tool.name for tool in self._tools)

    async def list_tools(self, _: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        _one_page(params)
        return types.ListToolsResult(tools=self._tools)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if (more := await asked(context, params.input_responses, self._projects)) is not None:
            return more
        return await called(self._gate, self._threads, context, params)

    async def list_resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        _one_page(params)
        return types.ListResourcesResult(resources=resources.listed(self._named))

    async def list_templates(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        _one_page(params)
        return types.ListResourceTemplatesResult(resource_templates=[resources.template(self._named)])

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        if (more := await asked(context, params.input_responses, self._projects)) is not None:
            return more
        uri = str(params.uri)
        try:
            content = await self._threads.run(context, partial(resources.read, self._gate, uri))
        except FileNotFound as error:
            raise self._refusal(error, _not_found_code(context), uri=uri) from None
        except ContextEngineError as error:
            raise self._refusal(error, uri=uri) from None
        text = types.TextResourceContents(uri=uri, mime_type=content.mime_type, text=content.text)
        return types.ReadResourceResult(contents=[text])

    async def list_prompts(self, _: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        _one_page(params)
        return types.ListPromptsResult(prompts=prompts.listed(self._named))

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if (more := await asked(context, params.input_responses, self._projects)) is not None:
            return more
        write = partial(
            prompts.written, self._gate, params.name, params.arguments or {}, shown=self._shown, projects=self._named
        )
        try:
            text = await self._threads.run(context, lambda _: write())
        except ContextEngineError as error:
            raise self._refusal(error) from None
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=prompts.named(params.name).says, messages=[message])

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        find = partial(completions.completed, self._gate, params, self._named)
        try:
            return types.CompleteResult(completion=await self._threads.run(context, lambda _: find()))
        except ContextEngineError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: ContextEngineError, code: int | None = None, **details: str) -> MCPError:
        """An error of ours where the protocol has no reply for it: whose fault it is decides the code."""
        whose = types.INVALID_PARAMS if isinstance(error, CallError) else types.INTERNAL_ERROR
        return MCPError(code or whose, self._gate.mask(_sentence(error)), details | {"code": error.code})


def _one_page(params: types.PaginatedRequestParams | None) -> None:
    """Every list of ours has one page, so a cursor is none of ours."""
    if params is not None and params.cursor:
        raise MCPError(types.INVALID_PARAMS, "unknown cursor: the list has one page")


def _not_found_code(context: Context) -> int:
    return RESOURCE_NOT_FOUND if context.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else types.INVALID_PARAMS


def _sentence(error: ContextEngineError) -> str:
    return f"{error.message}. {error.suggestion}".strip()


async def _crashes_told(gate: Gate, ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware: what no handler foresaw is one line of the log, and to the client an error without our insides."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as crash:  # noqa: BLE001 - the server must outlive a defect in any handler, and say so
        last = traceback.extract_tb(crash.__traceback__)[-1]
        at = f"{last.filename}:{last.lineno} in {last.name}"
        gate.log({"event": "crash", "method": ctx.method, "ok": False, "error": repr(crash), "at": at})
        raise MCPError(
            types.INTERNAL_ERROR, f"{ctx.method} failed; this is a defect of ours, told in the log on stderr"
        ) from None
