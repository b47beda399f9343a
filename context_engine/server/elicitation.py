"""Puts a tool's question to the person behind a client, if the client can show forms; both eras of the protocol.

In the older era the tool waits in its thread while the client is asked. In the newer one a server asks nobody: the call
ends with the question, the client repeats it with the answer, and the tool is run again from its start. What was
answered before travels along, sealed, so that a tool may ask twice.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
import anyio.from_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from context_engine.errors import Cancelled
from context_engine.server.client_roots import FIRST_MODERN_VERSION
from context_engine.tools.tool import UserAnswer, UserQuestion, no_answer

PATIENCE_S = 120.0
"""Time to read and decide; clients give up on a call that takes much longer."""
KEY_CHARS = 16

Ask = Callable[[UserQuestion], UserAnswer | None]
Redact = Callable[[str], str]


class ClientInputRequired(BaseException):
    """A question that only the next call can answer. No `Exception`: nothing on its way may take it for a failure."""

    def __init__(self, question: UserQuestion, required: types.InputRequiredResult) -> None:
        super().__init__(question.text)
        self.required = required


def create_asker(context: ServerRequestContext[Any], params: types.CallToolRequestParams, redact: Redact) -> Ask:
    """How the tools of one call ask. `mask` sees what is asked before it leaves."""
    if not _shows_forms(context.session.client_capabilities):
        return no_answer
    if context.protocol_version < FIRST_MODERN_VERSION:
        return partial(_ask_now, context, redact)
    return partial(_ask_by_reply, _collect_answers(params.input_responses, params.request_state), redact)


def _shows_forms(capabilities: types.ClientCapabilities | None) -> bool:
    """A client that declares no mode means forms: there was nothing else when it was written."""
    can = capabilities.elicitation if capabilities else None
    return can is not None and (can.form is not None or can.url is None)


# -- before 2026-07-28 -----------------------------------------------------------------------------------------------


def _ask_now(context: ServerRequestContext[Any], redact: Redact, question: UserQuestion) -> UserAnswer | None:
    """In a worker thread: the answer, once it is there. Raises: Cancelled."""
    try:
        return anyio.from_thread.run(_elicit, context, redact, question)
    except (asyncio.CancelledError, concurrent.futures.CancelledError):  # it depends on who cancelled
        raise Cancelled("cancelled while a question was open") from None


async def _elicit(context: ServerRequestContext[Any], redact: Redact, question: UserQuestion) -> UserAnswer | None:
    params = _form_params(question, redact)
    with anyio.move_on_after(PATIENCE_S):
        try:
            told = await context.session.elicit_form(params.message, params.requested_schema, context.request_id)
        except (MCPError, ValidationError):
            return None  # it declared what it cannot do
        return question.read_answer(told.action, told.content)
    return None


# -- since 2026-07-28 ------------------------------------------------------------------------------------------------


def _ask_by_reply(
    answers: Mapping[str, Mapping[str, Any]], redact: Redact, question: UserQuestion
) -> UserAnswer | None:
    """The answer that came with the call. Raises: Unanswered when none did."""
    key = _question_key(question)
    if key in answers:
        return question.read_answer(answers[key]["action"], answers[key]["content"])
    request = types.ElicitRequest(params=_form_params(question, redact))
    state = json.dumps(answers) if answers else None
    raise ClientInputRequired(question, types.InputRequiredResult(input_requests={key: request}, request_state=state))


def _collect_answers(told: Mapping[str, Any] | None, before: str | None) -> dict[str, dict[str, Any]]:
    """Every answer so far, by its question: those of this round, and those that were sealed in rounds before."""
    new = {key: each for key, each in (told or {}).items() if isinstance(each, types.ElicitResult)}
    known = json.loads(before) if before else {}
    return known | {key: {"action": each.action, "content": each.content} for key, each in new.items()}


def _question_key(question: UserQuestion) -> str:
    """Names a question by its words: an answer to another one is none."""
    words = json.dumps(asdict(question), sort_keys=True)
    return f"ask_{sha256(words.encode()).hexdigest()[:KEY_CHARS]}"


def _form_params(question: UserQuestion, redact: Redact) -> types.ElicitRequestFormParams:
    return types.ElicitRequestFormParams(message=redact(question.text), requested_schema=question.form)
