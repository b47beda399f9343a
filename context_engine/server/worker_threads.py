"""Work off the event loop: in a few threads, with progress reports, cancelled with its request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar
from uuid import uuid4

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext

from context_engine.server.call_progress import EVERY_S, ProgressTicker
from context_engine.server.client_sessions import SCOPE_KEY
from context_engine.server.elicitation import Ask, ClientInputRequired
from context_engine.server.grants import OWNER
from context_engine.server.shutdown import ShutdownCoordinator
from context_engine.tools import Call
from context_engine.tools.tool import no_answer

AT_ONCE = 8
"""Calls that run at once; further ones wait. Answers are short; only indexing is long, and it has its own lock."""

SESSION_HEADER = "mcp-session-id"
SESSION_CHARS = 12

Result = TypeVar("Result")


class WorkerThreads:
    """The threads of one server. At the end of the process their work is awaited, then cancelled."""

    def __init__(self, shutdown: ShutdownCoordinator) -> None:
        self._shutdown = shutdown
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._pipe = uuid4().hex[:SESSION_CHARS]

    async def run(
        self, context: ServerRequestContext[Any], work: Callable[[Call], Result], *, ask: Ask = no_answer
    ) -> Result:
        """The result of `work`. Its call is cancelled with the request, and its progress goes to the client.

        Raises: what `work` raises, and Unanswered.
        """
        newest: list[Any] = []  # the step last told by the worker; one slot, written there and read here
        call = Call(
            progress=lambda step: newest.__setitem__(slice(None), [step]),
            cancel=threading.Event(),
            session=self._session(context),
            ask=ask,
        )
        failure: Exception | ClientInputRequired | None = None
        try:
            async with anyio.create_task_group() as side:
                side.start_soon(_send_progress, context, newest)
                try:
                    result = await anyio.to_thread.run_sync(
                        partial(self._run_tracked, work, call), abandon_on_cancel=True, limiter=self._limiter
                    )
                except (Exception, ClientInputRequired) as error:  # noqa: BLE001 - handed on below; the group would wrap it
                    failure = error
                side.cancel_scope.cancel()
        finally:
            call.cancel.set()
        if failure is not None:
            raise failure
        return result

    def _session(self, context: ServerRequestContext[Any]) -> str:
        """Return the session of the caller.

        A pipe has one client; over HTTP only older protocol versions send a session id.

        A token of a shared server is somebody as well: with one, calls of the newer era belong together, too. What a
        client shows to be let in is not kept as it is: the name of a session is written into the journal of edits.
        """
        if context.request is None:
            return self._pipe
        grant = context.request.scope.get(SCOPE_KEY, OWNER)
        shown = f"{grant.id}{context.request.headers.get(SESSION_HEADER, '')}"
        return sha256(shown.encode()).hexdigest()[:SESSION_CHARS] if shown else ""

    def _run_tracked(self, work: Callable[[Call], Result], call: Call) -> Result:
        with self._shutdown.track(call.cancel):
            return work(call)


async def _send_progress(context: ServerRequestContext[Any], newest: list[Any]) -> None:
    """Until cancelled: send what the ticker lets pass."""
    ticker = ProgressTicker(time.monotonic())
    while True:
        await anyio.sleep(EVERY_S)
        if told := ticker.tick(time.monotonic(), newest[0] if newest else None):
            await context.session.report_progress(told.progress, told.total, told.message)
