"""Work off the event loop: in a few threads, with progress reports, canceled with its request."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.context import ServerRequestContext

from context_engine.model import Progress
from context_engine.server.client_requests import Ask, ClientInputRequired
from context_engine.server.shutdown import RunningCalls
from context_engine.tools import Call, Reader, no_answer

AT_ONCE = 8
"""Calls that run at once; further ones wait. Replies are quick; only indexing takes long, and it has its own lock."""
SESSION_CHARS = 12
CLIENT_CHARS_MAX = 60
SESSION_HEADER = "mcp-session-id"
EVERY_S = 0.25
"""The shortest time between two progress reports."""
ALIVE_EVERY_S = 1.0
"""A call without progress of its own reports the seconds it took so far, this often."""

QUEUED, RUNNING = "queued", "running"
"""The states of a call that reports nothing."""

Result = TypeVar("Result")


class WorkerThreads:
    """The threads of one server. At the end of the process their work is awaited, then canceled."""

    def __init__(self, running: RunningCalls) -> None:
        self._running = running
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._pipe = os.urandom(SESSION_CHARS // 2).hex()  # the name of the session of a client over a pipe

    async def run(
        self,
        context: ServerRequestContext[Any],
        work: Callable[[Call], Result],
        *,
        ask: Ask = no_answer,
        reader: Reader = "",
        show: Callable[[Call, str], None] = lambda *_: None,
    ) -> Result:
        """Return the result of `work`. Its call is canceled with the request, and its progress goes to the client.

        `show` gets the state of a call that takes long again and again, and none at its end.

        Raises: the errors of `work`, and ClientInputRequired.
        """
        newest: list[Progress] = []  # the newest step of the worker; one slot, written there and read here
        session, is_own = self._session_of(context)
        client = context.session.client_params
        call = Call(
            progress=lambda step: newest.__setitem__(slice(None), [step]),
            cancel=threading.Event(),
            session=session,
            connection=session if is_own else "",
            client=client.client_info.name[:CLIENT_CHARS_MAX] if client else "",
            ask=ask,
            reader=reader,
        )

        has_begun = threading.Event()

        def run_tracked() -> Result:
            has_begun.set()
            with self._running.track(call.cancel):
                return work(call)

        failure: Exception | ClientInputRequired | None = None
        try:
            async with anyio.create_task_group() as side:
                side.start_soon(_send_progress, context, newest, lambda state: show(call, state), has_begun)
                try:
                    run = partial(anyio.to_thread.run_sync, abandon_on_cancel=True, limiter=self._limiter)
                    result = await run(run_tracked)
                except (Exception, ClientInputRequired) as error:  # noqa: BLE001 - raised below; the group would wrap it
                    failure = error
                side.cancel_scope.cancel()
        finally:
            call.cancel.set()
        if failure is not None:
            raise failure
        return result

    def _session_of(self, context: ServerRequestContext[Any]) -> tuple[str, bool]:
        """Return a name for the session of the caller, and whether only one client can have it.

        A pipe has one client; over HTTP only older protocol versions send a session id. With a token of a shared server
        calls of newer versions belong together, too. The name is a hash, because the journal of edits contains it.
        """
        if context.request is None:
            return self._pipe, True
        own = context.request.headers.get(SESSION_HEADER, "")
        identity = f"{token_of(context.request.scope)}{own}"
        name = sha256(identity.encode()).hexdigest()[:SESSION_CHARS] if identity else ""
        return name, bool(own)


def token_of(scope: Any) -> str:
    """Return the id of the token of an HTTP request; empty on a server with a single token or none."""
    user = scope.get("user")
    return authorization_context(user)["client_id"] if isinstance(user, AuthenticatedUser) else ""


class ProgressNotification(NamedTuple):
    """One notification."""

    progress: float
    total: float | None
    message: str


@dataclass(slots=True)
class ProgressTicker:
    """The progress reports of one call, which never go backwards: a stage starts where the one before ended."""

    started_s: float
    _stage: str = ""
    _before: float = 0.0
    _progress: float = 0.0
    _last_s: float = float("-inf")

    def tick(self, now_s: float, step: Progress | None) -> ProgressNotification | None:
        """Return the notification to send now, or None. It may be called at any rate with the newest step."""
        if now_s - self._last_s < EVERY_S:
            return None
        if step is not None:
            notification = self._report_step(step)
        elif now_s - max(self._last_s, self.started_s) < ALIVE_EVERY_S:
            return None
        else:
            elapsed_s = now_s - self.started_s
            notification = ProgressNotification(round(elapsed_s, 2), None, f"working for {elapsed_s:.0f} s")
        if notification.progress <= self._progress:
            return None
        self._progress, self._last_s = notification.progress, now_s
        return notification

    def _report_step(self, step: Progress) -> ProgressNotification:
        if step.stage != self._stage:
            self._stage, self._before = step.stage, self._progress
        if not step.total:
            return ProgressNotification(self._before + step.done, None, step.stage)
        message = f"{step.stage}: {step.done:,} of {step.total:,} files"
        return ProgressNotification(self._before + step.done, self._before + step.total, message)


async def _send_progress(
    context: ServerRequestContext[Any], newest: list[Progress], show: Callable[[str], None], has_begun: threading.Event
) -> None:
    """Send progress notifications until canceled."""
    ticker, said = ProgressTicker(time.monotonic()), RUNNING
    await anyio.sleep(EVERY_S)
    try:
        while True:
            if notification := ticker.tick(time.monotonic(), newest[0] if newest else None):
                said = notification.message
                await context.session.report_progress(*notification)
            await anyio.to_thread.run_sync(show, said if has_begun.is_set() else QUEUED)
            await anyio.sleep(EVERY_S)
    finally:
        show("")
