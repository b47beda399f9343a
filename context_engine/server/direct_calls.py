"""Calls of tools without the protocol library: most sessions consist of them, and never import it.

    caller = DirectCaller(dispatcher, projects, running, session, name=new_session_name())
    session.begin_calls(caller)      # every plain call goes to `caller.start`, and its reply to `session.send_result`

A call runs in one of a few threads, with progress reports, and is canceled with its request, as `worker_threads` does
it for the library. A call that must ask the user of its client goes to the library, where it runs again from its start.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from context_engine import tools
from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.model import Progress
from context_engine.repo import uri_to_path
from context_engine.server.call_progress import EVERY_S, ProgressTicker
from context_engine.server.framing import error_reply
from context_engine.server.plain_call import workspaces_in_meta
from context_engine.tools import Call, UserAnswer, UserQuestion, no_answer

if TYPE_CHECKING:
    from context_engine.server.dispatcher import CallResult, ToolDispatcher
    from context_engine.server.plain_call import PlainCall
    from context_engine.server.projects import Projects
    from context_engine.server.shutdown import RunningCalls
    from context_engine.server.stdio_session import StdioSession

AT_ONCE = 8
"""Calls that run at once; further ones wait. Replies are quick; only indexing takes long, and it has its own lock."""
SESSION_CHARS = 12
SEE_STRUCTURED = "The result is in structuredContent."
STRUCTURED_SINCE = "2025-06-18"
"""The first version of the protocol with structured content; older clients get the same JSON as text."""
ROOTS_TIMEOUT_S = 3.0
"""A client that declares roots and does not answer within this time has none."""
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603


class LibraryCall(BaseException):
    """A call that only the library can answer. It is not an `Exception`, so that no code handles it as one."""


class DirectCaller:
    """The calls of one client over a pipe. Thread-safe."""

    def __init__(
        self,
        dispatcher: ToolDispatcher,
        projects: Projects,
        running: RunningCalls,
        session: StdioSession,
        *,
        name: str,
    ) -> None:
        """`name` is that of this client in journals and logs."""
        self._dispatcher = dispatcher
        self._projects = projects
        self._running = running
        self._session = session
        self._name = name
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="calling")
        self._cancels: dict[Any, threading.Event] = {}
        self._questions: dict[str, _Question] = {}

    def start(self, call: PlainCall) -> None:
        """Run a call in a thread; its reply goes to the session. Never waits."""
        cancel = self._cancels[call.id] = threading.Event()
        self._threads.submit(self._answer, call, cancel)

    def take_notice(self, message: Mapping[str, Any]) -> bool:
        """Handle a message that is not a request; return whether it was the answer to a question from here."""
        if "method" not in message:
            question = self._questions.get(str(message.get("id")))
            if question is not None:
                question.settle(message)
            return question is not None
        if message["method"] == "notifications/cancelled":
            self._cancel(str((message.get("params") or {}).get("requestId")))
        elif message["method"] == "notifications/roots/list_changed":
            self._projects.unsettle()
        return False

    def close(self) -> None:
        """Start no further call."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _cancel(self, request_id: str) -> None:
        """Cancel the newest call with this id; some clients turn 7 into "7" here."""
        for known in reversed([*self._cancels]):
            if str(known) == request_id:
                self._cancels[known].set()
                return

    def _answer(self, call: PlainCall, cancel: threading.Event) -> None:
        try:
            with self._running.track(cancel):
                reply = self._run(call, cancel)
        except LibraryCall:
            self._session.keep_for_library(call.message)
        except Exception as crash:  # noqa: BLE001 - the server must outlive a defect, and the client gets a reply
            self._dispatcher.log({"event": "crash", "method": "tools/call", "ok": False, "error": repr(crash)})
            text = "tools/call failed; this is a defect of the server, and the log on stderr has the details"
            self._session.send_result(error_reply(INTERNAL_ERROR, text, call.message))
        else:
            self._session.send_result(reply)
        finally:
            self._cancels.pop(call.id, None)

    def _run(self, call: PlainCall, cancel: threading.Event) -> dict[str, Any]:
        """Return the reply to a call. Raises: LibraryCall."""
        self._settle_projects(call)
        newest: list[Progress] = []  # the newest step of the call; one slot, written there and read here
        context = Call(
            progress=lambda step: newest.__setitem__(slice(None), [step]),
            cancel=cancel,
            session=self._name,
            connection=self._name,
            client=call.client,
            ask=_ask_by_library if call.shows_forms else no_answer,
        )
        ended = threading.Event()
        if call.progress_token is not None:
            report = partial(self._report_progress, call, newest, ended)
            threading.Thread(target=report, name="reporting", daemon=True).start()
        try:
            outcome = self._dispatcher.call(call.name, call.arguments, context)
        finally:
            ended.set()
        return self._format_reply(call, outcome)

    def _format_reply(self, call: PlainCall, outcome: CallResult) -> dict[str, Any]:
        error = outcome.error
        if error and tools.is_malformed(error):
            reply = error_reply(INVALID_PARAMS, format_problem(error), call.message)
            reply["error"]["data"] = error.as_dict()
            return reply
        structured = self._dispatcher.selection.structured and call.version >= STRUCTURED_SINCE
        result = _order_fields(result_fields(outcome, structured=structured) | call.envelope)
        return {"jsonrpc": "2.0", "id": call.id, "result": result}

    def _report_progress(self, call: PlainCall, newest: list[Progress], ended: threading.Event) -> None:
        """Send progress notifications until the call has ended."""
        ticker, token = ProgressTicker(time.monotonic()), call.progress_token
        while not ended.wait(EVERY_S):
            if due := ticker.tick(time.monotonic(), newest[0] if newest else None):
                params = {"progressToken": token, "progress": due.progress, "total": due.total, "message": due.message}
                self._session.send_progress(call.id, {key: value for key, value in params.items() if value is not None})

    # -- the folders of the client --

    def _settle_projects(self, call: PlainCall) -> None:
        """Settle the projects, with the folders of a client that has some. Raises: LibraryCall."""
        if self._projects.is_settled:
            return
        roots: list[str] = []
        if call.has_roots:
            if call.is_modern:  # this client gets its question as the result of its call
                raise LibraryCall
            roots = self._request_roots()
        self._projects.settle(roots=roots, workspaces=workspaces_in_meta(call.meta))

    def _request_roots(self) -> list[str]:
        """Request the roots of a client; empty if it does not answer."""
        question = _Question()
        ident = f"{self._name}-{len(self._questions) + 1}"
        self._questions[ident] = question
        self._session.send_request(ident, "roots/list")
        answer = question.wait(ROOTS_TIMEOUT_S)
        return root_paths(answer.get("result"))


class _Question:
    """A request to the client, until its answer is here."""

    def __init__(self) -> None:
        self._answer: Mapping[str, Any] = {}
        self._is_answered = threading.Event()

    def settle(self, answer: Mapping[str, Any]) -> None:
        self._answer = answer
        self._is_answered.set()

    def wait(self, seconds: float) -> Mapping[str, Any]:
        self._is_answered.wait(seconds)
        return self._answer


def new_session_name() -> str:
    """Return a name that no other session has."""
    return os.urandom(SESSION_CHARS // 2).hex()


def result_fields(outcome: CallResult, *, structured: bool) -> dict[str, Any]:
    """Return the result of a call as one text block, or as structured content with a block that points to it."""
    text = outcome.reply.text
    if structured:
        content = tools.read_object(text)
    else:
        content = None
    fields: dict[str, Any] = {"content": [{"text": text if content is None else SEE_STRUCTURED, "type": "text"}]}
    if content is not None:
        fields["structuredContent"] = content
    return fields | {"isError": outcome.reply.is_error}


def _order_fields(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result in the order of the library: by name, and `_meta` last."""
    return dict(sorted(result.items(), key=lambda field: (field[0] == "_meta", field[0])))


def format_problem(error: ContextEngineError) -> str:
    """Return the message of an error of the protocol: the problem and the next step."""
    return f"{error.message}. {error.suggestion}".strip()


def root_paths(result: Any) -> list[str]:
    """Return the roots of a reply to `roots/list` as paths, without those that are not folders of this machine."""
    listed = result.get("roots") if isinstance(result, Mapping) else None
    paths = []
    for root in listed if isinstance(listed, list) else ():
        uri = root.get("uri") if isinstance(root, Mapping) else None
        with suppress(InvalidArgument, ValueError):
            paths.append(uri_to_path(str(uri), windows=os.name == "nt"))
    return paths


def _ask_by_library(question: UserQuestion) -> UserAnswer | None:  # noqa: ARG001 - the tool passes it
    """Let the library ask: it knows how each version of the protocol does. Raises: LibraryCall."""
    raise LibraryCall
