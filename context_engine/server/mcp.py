"""The only file that speaks the Model Context Protocol: tools listed and called over whatever pair of streams it is given.

Both eras of the protocol work on one process (`server/discover` and `initialize`); the library decides by the first
request. Calls run in worker threads; everything they touch is synchronous.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from context_engine import __version__, tools
from context_engine.server.gate import Gate, Outcome
from context_engine.server.life import Life
from context_engine.server.progress import EVERY_S, Ticker
from context_engine.tools import Call, Tool

NAME = "ctx"
INSTRUCTIONS = """\
Finds code in this repository. Before grepping or opening files, ask codebase_retrieval a question in plain words; use \
find_symbol for definitions, trace for callers and impact, read_file for lines. Local, fast, always current.

Answers name path and lines, say whether the index is fresh, and explain an empty result with the next step. \
index_status tells what is indexed; tool_manifest lists every tool."""
WORKERS = 8
"""Calls that run at once; further ones wait. Answers are short; only indexing is long, and it has its own lock."""
LIST_TTL_MS = 3_600_000
"""The list of tools does not change while a server runs."""


def build(gate: Gate, *, life: Life | None = None, after_first_reply: Callable[[], None] | None = None) -> Server[Any]:
    """A protocol server over the gate. `after_first_reply` starts what would have held that reply up."""
    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title="Context Engine",
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": CacheHint(LIST_TTL_MS, "public"),
            "server/discover": CacheHint(LIST_TTL_MS, "public"),
        },
        on_list_tools=_list_tools,
        on_call_tool=partial(_call_tool, gate, life or Life(lambda: None), anyio.CapacityLimiter(WORKERS)),
        on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()),
    )
    if after_first_reply:
        server.middleware.append(_AfterFirst(after_first_reply))
    return server


def listed(tool: Tool) -> types.Tool:
    """A tool as `tools/list` shows it."""
    hints = tool.hints
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
    )


async def _list_tools(
    _: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """All of them on one page, in the order of the catalogue."""
    if params is not None and params.cursor:
        raise MCPError(types.INVALID_PARAMS, "unknown cursor: tools/list has one page")
    return types.ListToolsResult(tools=[listed(tool) for tool in tools.ALL])


async def _call_tool(
    gate: Gate,
    life: Life,
    limiter: anyio.CapacityLimiter,
    context: ServerRequestContext[Any],
    params: types.CallToolRequestParams,
) -> types.CallToolResult:
    """One call in a worker thread, with progress beside it; a cancelled request sets the call's event."""
    newest: list[Any] = []  # the step last told by the worker; one slot, written there and read here
    call = Call(progress=lambda step: newest.__setitem__(slice(None), [step]), cancel=threading.Event())
    try:
        async with anyio.create_task_group() as side:
            side.start_soon(_tell_progress, context, newest)
            work = partial(_run, gate, life, params.name, params.arguments, call)
            outcome = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
            side.cancel_scope.cancel()
    finally:
        call.cancel.set()
    return _result(outcome)


def _run(gate: Gate, life: Life, name: str, arguments: Any, call: Call) -> Outcome:
    with life.running(call.cancel):
        return gate.call(name, arguments, call)


async def _tell_progress(context: ServerRequestContext[Any], newest: list[Any]) -> None:
    """Until cancelled: send what the ticker lets pass."""
    ticker = Ticker(time.monotonic())
    while True:
        await anyio.sleep(EVERY_S)
        if told := ticker.tick(time.monotonic(), newest[0] if newest else None):
            await context.session.report_progress(told.progress, told.total, told.message)


def _result(outcome: Outcome) -> types.CallToolResult:
    """One text block. Unknown tools and what a seed calls malformed are errors of the protocol, all others are replies."""
    error = outcome.error
    if error and tools.is_malformed(error):
        raise MCPError(types.INVALID_PARAMS, f"{error.message}. {error.suggestion}".strip(), error.as_dict())
    reply = outcome.reply
    return types.CallToolResult(content=[types.TextContent(type="text", text=reply.text)], is_error=reply.is_error)


class _AfterFirst:
    """Middleware that runs something once, when the first request has its answer."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then: Callable[[], None] | None = then

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        then, self._then = self._then, None
        if then:
            then()
        return result
