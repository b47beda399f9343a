"""Work off the event loop: in a few threads, with progress reports, canceled with its request."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext

from context_engine.model import Progress
from context_engine.server.call_progress import EVERY_S, ProgressTicker
from context_engine.server.client_requests import Ask, ClientInputRequired
from context_engine.server.grants import OWNER, SCOPE_KEY
from context_engine.server.shutdown import RunningCalls
from context_engine.tools import Call, no_answer

AT_ONCE = 8
"""Calls that run at once; further ones wait. Replies are quick; only indexing takes long, and it has its own lock."""
SESSION_CHARS = 12
CLIENT_CHARS_MAX = 60
SESSION_HEADER = "mcp-session-id"

Result = TypeVar("Result")


class WorkerThreads:
    """The threads of one server. At the end of the process their work is awaited, then canceled."""

    def __init__(self, running: RunningCalls) -> None:
        self._running = running
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._pipe = os.urandom(SESSION_CHARS // 2).hex()  # the name of the session of a client over a pipe

    async def run(
        self, context: ServerRequestContext[Any], work: Callable[[Call], Result], *, ask: Ask = no_answer
    ) -> Result:
        """Return the result of `work`. Its call is canceled with the request, and its progress goes to the client.

        Raises: the errors of `work`, and ClientInputRequired.
        """
        newest: list[Progress] = []  # the newest step of the worker; one slot, written there and read here
        call = Call(
            progress=lambda step: newest.__setitem__(slice(None), [step]),
            cancel=threading.Event(),
            session=self._session(context),
            connection=self._connection(context),
            client=_client_name(context),
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
                except (Exception, ClientInputRequired) as error:  # noqa: BLE001 - raised below; the group would wrap it
                    failure = error
                side.cancel_scope.cancel()
        finally:
            call.cancel.set()
        if failure is not None:
            raise failure
        return result

    def _session(self, context: ServerRequestContext[Any]) -> str:
        """Return a name for the session of the caller: the client of a pipe, else a session id or a token.

        A pipe has one client; over HTTP only older protocol versions send a session id. With a token of a shared server
        calls of newer versions belong together, too. The name is a hash, because the journal of edits contains it.
        """
        if context.request is None:
            return self._pipe
        grant = context.request.scope.get(SCOPE_KEY, OWNER)
        identity = f"{grant.id}{context.request.headers.get(SESSION_HEADER, '')}"
        if identity:
            return sha256(identity.encode()).hexdigest()[:SESSION_CHARS]
        return ""

    def _connection(self, context: ServerRequestContext[Any]) -> str:
        """Return the name of the session if only one client can have it: empty over HTTP without a session id."""
        is_own = context.request is None or context.request.headers.get(SESSION_HEADER)
        if is_own:
            return self._session(context)
        return ""

    def _run_tracked(self, work: Callable[[Call], Result], call: Call) -> Result:
        with self._running.track(call.cancel):
            return work(call)


def _client_name(context: ServerRequestContext[Any]) -> str:
    """Return the name that a client gives itself; empty if it gives none."""
    parameters = context.session.client_params
    if parameters is None:
        return ""
    return parameters.client_info.name[:CLIENT_CHARS_MAX]


async def _send_progress(context: ServerRequestContext[Any], newest: list[Progress]) -> None:
    """Send progress notifications until canceled."""
    ticker = ProgressTicker(time.monotonic())
    while True:
        await anyio.sleep(EVERY_S)
        if notification := ticker.tick(time.monotonic(), newest[0] if newest else None):
            await context.session.report_progress(notification.progress, notification.total, notification.message)
