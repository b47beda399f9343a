"""Requests to the client: a question of a tool to the user, and the folders that the client works in.

Before protocol version 2026-07-28 the server sends the request, and the tool waits in its thread for the answer. Since
then a call ends with the question, the client repeats it with the answer, and the tool runs again from its start.
Earlier answers travel along, sealed, so that a tool may ask twice.

A client that named a folder at the start is never asked for its folders. Without an answer the project around the
server's own folder is used, or a later error names the setting.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
from collections.abc import Callable, Iterable, Mapping
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
from context_engine.text import read_json
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
    """Return how the tools of one call ask the user. `redact` is applied to every question.

    A client that declares no mode of elicitation shows forms, because older clients had no other.
    """
    capabilities = context.session.client_capabilities
    can = capabilities.elicitation if capabilities else None
    if can is None or (can.form is None and can.url is not None):
        return no_answer
    if context.protocol_version < FIRST_MODERN_VERSION:
        return partial(_ask_now, context, redact)
    answers = json.loads(params.request_state) if params.request_state else {}
    for key, result in (params.input_responses or {}).items():
        if isinstance(result, types.ElicitResult):
            answers[key] = {"action": result.action, "content": result.content}
    return partial(_ask_by_reply, answers, redact)


def _ask_now(context: ServerRequestContext[Any], redact: Redact, question: UserQuestion) -> UserAnswer | None:
    """Wait in a worker thread for the answer. Raises: Cancelled."""

    async def elicit() -> UserAnswer | None:
        with anyio.move_on_after(FORM_TIMEOUT_S), suppress(MCPError, ValidationError):  # it declared what it has not
            text, form = redact(question.text), question.form
            result = await context.session.elicit_form(text, form, context.request_id)
            return question.read_answer(result.action, result.content)
        return None

    try:
        return anyio.from_thread.run(elicit)
    except (asyncio.CancelledError, concurrent.futures.CancelledError):  # it depends on who canceled
        raise Cancelled("cancelled while a question was open") from None


def _ask_by_reply(
    answers: Mapping[str, Mapping[str, Any]], redact: Redact, question: UserQuestion
) -> UserAnswer | None:
    """Return the answer that came with the call, to exactly this question. Raises: ClientInputRequired without one."""
    words = json.dumps(asdict(question), sort_keys=True)
    key = f"ask_{sha256(words.encode()).hexdigest()[:KEY_CHARS]}"
    if key in answers:
        return question.read_answer(answers[key]["action"], answers[key]["content"])
    form = types.ElicitRequestFormParams(message=redact(question.text), requested_schema=question.form)
    request, state = types.ElicitRequest(params=form), json.dumps(answers) if answers else None
    raise ClientInputRequired(question, types.InputRequiredResult(input_requests={key: request}, request_state=state))


async def settle_projects(
    context: ServerRequestContext[Any], answers: Mapping[str, Any] | None, projects: Projects | None
) -> types.InputRequiredResult | None:
    """Settle the projects, or return the request that the client must answer first.

    `answers` are the input responses of the call.
    """
    if projects is None or projects.is_settled:
        return None
    capabilities = context.session.client_capabilities
    answer = None
    if capabilities is not None and capabilities.roots is not None:
        if context.protocol_version < FIRST_MODERN_VERSION:
            answer = await _request_roots(context)
        elif answers is None or ROOTS_KEY not in answers:
            return types.InputRequiredResult(input_requests={ROOTS_KEY: types.ListRootsRequest()})
        else:
            answer = answers[ROOTS_KEY]
    listed = answer.roots if isinstance(answer, types.ListRootsResult) else ()
    roots, workspaces = _local_paths(str(root.uri) for root in listed), workspaces_in_meta(context.meta)
    await anyio.to_thread.run_sync(lambda: projects.settle(roots=roots, workspaces=workspaces))
    return None


async def _request_roots(context: ServerRequestContext[Any]) -> types.ListRootsResult | None:
    """Request the roots of a client before protocol version 2026-07-28; None if it does not answer."""
    metadata = ServerMessageMetadata(related_request_id=context.request_id)  # on the stream of the call, which is open
    with anyio.move_on_after(ROOTS_TIMEOUT_S), suppress(MCPError):  # it declared a capability that it does not have
        request = types.ListRootsRequest()
        return await context.session.send_request(request, types.ListRootsResult, metadata=metadata)
    return None


def _local_paths(uris: Iterable[str]) -> list[str]:
    """Return the paths of those addresses that are folders of this machine."""
    paths = []
    for uri in uris:
        with suppress(InvalidArgument, ValueError):
            paths.append(uri_to_path(uri, windows=os.name == "nt"))
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
            turn = read_json(turn)
    found = turn.get("workspaces") if isinstance(turn, Mapping) else None
    if not isinstance(found, Mapping | list):
        return []
    return [path for path in found if isinstance(path, str)]
