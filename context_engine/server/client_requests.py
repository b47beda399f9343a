"""Requests to the client: a question of a tool to the user, and the folders that the client works in.

A tool asks the user if the client can show forms. Before protocol version 2026-07-28 the tool waits in its thread for
the answer. Since then a server sends no requests: the call ends with the question, the client repeats it with the
answer, and the tool runs again from its start. Earlier answers travel along, sealed, so that a tool may ask twice.

Folders are requested in the same two ways, by `roots/list` or by `input_required`. A client that named a folder at the
start is never asked. Without an answer the project around the server's own folder is used, or a later error names the
setting.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from context_engine.errors import Cancelled, InvalidArgument
from context_engine.repo import uri_to_path
from context_engine.server.projects import Projects
from context_engine.tools import UserAnswer, UserQuestion, no_answer

FIRST_MODERN_VERSION = "2026-07-28"
FORM_TIMEOUT_S = 120.0
"""Time to read and decide; clients give up on a call that takes much longer."""
KEY_CHARS = 16
ROOTS_TIMEOUT_S = 3.0
"""A client that declares roots and does not answer within this time has none."""
TURN_KEY = "x-codex-turn-metadata"
"""One client sends its folders with every call, under this key of `_meta`."""
ROOTS_KEY = "roots"
"""The key of the folders in the answers of a client since protocol version 2026-07-28."""

Ask = Callable[[UserQuestion], UserAnswer | None]
Redact = Callable[[str], str]


class ClientInputRequired(BaseException):
    """A question that only the next call can answer. It is not an `Exception`, so that no code handles it as one."""

    def __init__(self, question: UserQuestion, required: types.InputRequiredResult) -> None:
        super().__init__(question.text)
        self.required = required


def create_asker(context: ServerRequestContext[Any], params: types.CallToolRequestParams, redact: Redact) -> Ask:
    """Return how the tools of one call ask the user. `redact` is applied to every question."""
    if not _shows_forms(context.session.client_capabilities):
        return no_answer
    if context.protocol_version < FIRST_MODERN_VERSION:
        return partial(_ask_now, context, redact)
    return partial(_ask_by_reply, _collect_answers(params.input_responses, params.request_state), redact)


def _shows_forms(capabilities: types.ClientCapabilities | None) -> bool:
    """Return whether the client shows forms; one that declares no mode does, because older clients had no other."""
    can = capabilities.elicitation if capabilities else None
    return can is not None and (can.form is not None or can.url is None)


# -- before 2026-07-28 -----------------------------------------------------------------------------------------------


def _ask_now(context: ServerRequestContext[Any], redact: Redact, question: UserQuestion) -> UserAnswer | None:
    """Wait in a worker thread for the answer. Raises: Cancelled."""
    try:
        return anyio.from_thread.run(_elicit, context, redact, question)
    except (asyncio.CancelledError, concurrent.futures.CancelledError):  # it depends on who canceled
        raise Cancelled("cancelled while a question was open") from None


async def _elicit(context: ServerRequestContext[Any], redact: Redact, question: UserQuestion) -> UserAnswer | None:
    params = _form_params(question, redact)
    with anyio.move_on_after(FORM_TIMEOUT_S):
        try:
            result = await context.session.elicit_form(params.message, params.requested_schema, context.request_id)
        except (MCPError, ValidationError):
            return None  # it declared a capability that it does not have
        return question.read_answer(result.action, result.content)
    return None


# -- since 2026-07-28 ------------------------------------------------------------------------------------------------


def _ask_by_reply(
    answers: Mapping[str, Mapping[str, Any]], redact: Redact, question: UserQuestion
) -> UserAnswer | None:
    """Return the answer that came with the call. Raises: ClientInputRequired without one."""
    key = _question_key(question)
    if key in answers:
        return question.read_answer(answers[key]["action"], answers[key]["content"])
    request = types.ElicitRequest(params=_form_params(question, redact))
    state = json.dumps(answers) if answers else None
    raise ClientInputRequired(question, types.InputRequiredResult(input_requests={key: request}, request_state=state))


def _collect_answers(responses: Mapping[str, Any] | None, state: str | None) -> dict[str, dict[str, Any]]:
    """Return the answers by question: those of this round, and the sealed ones of earlier rounds."""
    answers = json.loads(state) if state else {}
    for key, result in (responses or {}).items():
        if isinstance(result, types.ElicitResult):
            answers[key] = {"action": result.action, "content": result.content}
    return answers


def _question_key(question: UserQuestion) -> str:
    """Return a key for the text of a question, so that an answer to another question does not count."""
    words = json.dumps(asdict(question), sort_keys=True)
    return f"ask_{sha256(words.encode()).hexdigest()[:KEY_CHARS]}"


def _form_params(question: UserQuestion, redact: Redact) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message=redact(question.text), requested_schema=question.form)


# -- the folders of the client ----------------------------------------------------------------------------------------


async def settle_projects(
    context: ServerRequestContext[Any], answers: Mapping[str, Any] | None, projects: Projects | None
) -> types.InputRequiredResult | None:
    """Settle the projects, or return the request that the client must answer first.

    `answers` are the input responses of the call.
    """
    if projects is None or projects.is_settled:
        return None
    capabilities = context.session.client_capabilities
    roots: list[str] = []
    if capabilities is not None and capabilities.roots is not None:
        if context.protocol_version < FIRST_MODERN_VERSION:
            roots = await _request_roots(context)
        elif answers is None or ROOTS_KEY not in answers:
            return types.InputRequiredResult(input_requests={ROOTS_KEY: types.ListRootsRequest()})
        else:
            roots = root_paths(_dump(answers[ROOTS_KEY]))
    await anyio.to_thread.run_sync(lambda: projects.settle(roots=roots, workspaces=workspaces_in_meta(context.meta)))
    return None


async def forget_roots(projects: Projects, context: ServerRequestContext[Any], params: Any) -> None:  # noqa: ARG001 - a handler
    """Request the folders of the client again with its next call, because they have changed."""
    projects.unsettle()


async def _request_roots(context: ServerRequestContext[Any]) -> list[str]:
    """Request the roots of a client before protocol version 2026-07-28; empty if it does not answer."""
    metadata = ServerMessageMetadata(related_request_id=context.request_id)  # on the stream of the call, which is open
    with anyio.move_on_after(ROOTS_TIMEOUT_S):
        try:
            request = types.ListRootsRequest()
            answer = await context.session.send_request(request, types.ListRootsResult, metadata=metadata)
            return root_paths(_dump(answer))
        except MCPError:
            pass  # it declared a capability that it does not have
    return []


def _dump(answer: Any) -> Any:
    """Return an answer as it was on the wire; None for one of another kind."""
    if isinstance(answer, types.ListRootsResult):
        return answer.model_dump(mode="json")
    return None


def root_paths(result: Any) -> list[str]:
    """Return the roots of a reply to `roots/list` as paths, without those that are not folders of this machine."""
    listed = result.get("roots") if isinstance(result, Mapping) else None
    paths = []
    for root in listed if isinstance(listed, list) else ():
        uri = root.get("uri") if isinstance(root, Mapping) else None
        with suppress(InvalidArgument, ValueError):
            paths.append(uri_to_path(str(uri), windows=os.name == "nt"))
    return paths


def workspaces_in_meta(meta: Mapping[str, Any] | None) -> list[str]:
    """Return the folders in the `_meta` of a call, in either form: a mapping by path, or a list.

    >>> workspaces_in_meta({"x-codex-turn-metadata": {"workspaces": {"/work/web": {"latest_git_commit_hash": "1a"}}}})
    ['/work/web']
    >>> workspaces_in_meta({"x-codex-turn-metadata": '{"workspaces": ["/a"]}'}), workspaces_in_meta(None)
    (['/a'], [])
    """
    turn = (meta or {}).get(TURN_KEY)
    if isinstance(turn, str):  # one client sends a text
        with suppress(ValueError):
            turn = json.loads(turn)
    found = turn.get("workspaces") if isinstance(turn, Mapping) else None
    if not isinstance(found, Mapping | list):
        return []
    return [path for path in found if isinstance(path, str)]
