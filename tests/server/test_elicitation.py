"""A tool asks the person behind a client, through the library's own client, in both eras of the protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.shared.exceptions import MCPError

from context_engine import tools
from context_engine.errors import Cancelled
from context_engine.server import client_requests, mcp_server
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.tools import Call, Reply
from context_engine.tools.tool import UserQuestion, no_answer, tool
from tests.support.tools_stand_in import StandIn

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
APPROVAL = UserQuestion("Approve version 3?", ("approve", "reject"), with_comment=True)
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"


class Asking:
    """A tool that asks some questions one after the other and tells what it heard; it counts how often it was run."""

    def __init__(self, *questions: UserQuestion) -> None:
        self.questions = questions
        self.runs = 0
        self.cancelled = threading.Event()

    def tool(self) -> tools.Tool:
        @tool(touches="records")
        def approve(engine: Any, call: Call) -> Reply:
            """Ask somebody."""
            self.runs += 1
            try:
                heard = [call.ask(question) for question in self.questions]
            except Cancelled:
                self.cancelled.set()
                raise
            return Reply(json.dumps([[each.action, each.choice, each.comment] if each else None for each in heard]))

        return approve


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asking]:
    """A server whose one tool asks."""

    def made(*questions: UserQuestion) -> Asking:
        asks = Asking(*questions)
        monkeypatch.setattr(tools, "ALL", (*tools.ALL, asks.tool()))
        return asks

    return made


@asynccontextmanager
async def connected(era: str, person: ElicitationFnT | None) -> AsyncGenerator[Client]:
    engine: Any = StandIn()
    gate = ToolDispatcher(lambda _: engine)
    async with Client(mcp_server.build_server(gate), mode=era, elicitation_callback=person) as client:
        yield client


def heard(era: str, person: ElicitationFnT | None) -> Any:
    """What the tool heard, after one call of a client."""

    async def body() -> Any:
        async with connected(era, person) as client:
            result = await client.call_tool("approve", {})
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        return json.loads(block.text)

    return anyio.run(body)


class Somebody:
    """A person who answers each question with the next of some results, and remembers what was asked."""

    def __init__(self, *results: types.ElicitResult | types.ErrorData) -> None:
        self.results = list(results)
        self.asked: list[types.ElicitRequestFormParams] = []

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.asked.append(params)
        return self.results.pop(0)


def accepted(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


@ERAS
def test_what_a_person_decides_reaches_the_tool_in_the_same_call(asking: Callable[..., Asking], era: str) -> None:
    tool_ = asking(APPROVAL)
    person = Somebody(accepted(choice="approve", comment="go on"))
    assert heard(era, person) == [["accept", "approve", "go on"]]
    (form,) = person.asked
    assert form.message == "Approve version 3?"
    assert form.requested_schema["properties"]["choice"]["enum"] == ["approve", "reject"]
    assert tool_.runs == (1 if era == "legacy" else 2)  # in the newer era the call is repeated with the answer


@ERAS
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_person_may_refuse_to_decide(asking: Callable[..., Asking], era: str, action: Any) -> None:
    asking(APPROVAL)
    assert heard(era, Somebody(types.ElicitResult(action=action))) == [[action, "", ""]]


@ERAS
def test_a_client_that_cannot_ask_is_not_asked(asking: Callable[..., Asking], era: str) -> None:
    tool_ = asking(APPROVAL)
    assert heard(era, None) == [None]
    assert tool_.runs == 1


@ERAS
def test_a_choice_that_was_not_offered_is_no_answer(asking: Callable[..., Asking], era: str) -> None:
    asking(APPROVAL, UserQuestion("Why?"))
    person = Somebody(accepted(choice="perhaps"), accepted(choice="because"))
    assert heard(era, person) == [None, ["accept", "because", ""]]


@ERAS
def test_a_tool_may_ask_several_questions_and_each_is_asked_once(asking: Callable[..., Asking], era: str) -> None:
    asking(APPROVAL, UserQuestion("Which one?", ("left", "right")), UserQuestion("Anything else?"))
    person = Somebody(accepted(choice="reject"), accepted(choice="left"), accepted(choice="no"))
    assert [each[1] for each in heard(era, person)] == ["reject", "left", "no"]
    assert [form.message for form in person.asked] == ["Approve version 3?", "Which one?", "Anything else?"]


@ERAS
def test_a_secret_in_a_question_is_masked_before_it_leaves(asking: Callable[..., Asking], era: str) -> None:
    asking(UserQuestion(f"Use {TOKEN}?"))
    person = Somebody(accepted(choice="no"))
    heard(era, person)
    assert TOKEN not in person.asked[0].message and person.asked[0].message.startswith("Use [")


def test_a_client_that_fails_to_ask_leaves_the_question_open(asking: Callable[..., Asking]) -> None:
    asking(APPROVAL)
    assert heard("legacy", Somebody(types.ErrorData(code=types.INTERNAL_ERROR, message="no screen"))) == [None]


def test_a_question_that_nobody_answers_in_time_stays_open(
    asking: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(APPROVAL)
    monkeypatch.setattr(client_requests, "FORM_TIMEOUT_S", 0.05)

    async def silent(context: Any, params: Any) -> types.ElicitResult:
        await anyio.sleep_forever()
        raise AssertionError

    assert heard("legacy", silent) == [None]


async def test_a_cancelled_call_leaves_its_open_question(asking: Callable[..., Asking]) -> None:
    asks = asking(APPROVAL)
    shown = anyio.Event()

    async def silent(context: Any, params: Any) -> types.ElicitResult:
        shown.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with connected("legacy", silent) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "approve", {})
        await shown.wait()
        group.cancel_scope.cancel()
    assert asks.cancelled.wait(60) and asks.runs == 1


async def test_an_answer_to_another_question_is_none(asking: Callable[..., Asking]) -> None:
    """The newer era: an approval of version 3 that arrives when version 4 is up for approval counts for nothing."""
    asks = asking(APPROVAL)
    async with connected("2026-07-28", Somebody()) as client:
        first = await client.session.call_tool("approve", {}, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult) and first.input_requests
        (key,) = first.input_requests
        asks.questions = (UserQuestion("Approve version 4?", ("approve", "reject"), with_comment=True),)
        again = await client.session.call_tool(
            "approve", {}, input_responses={key: accepted(choice="approve")}, allow_input_required=True
        )
        assert isinstance(again, types.InputRequiredResult) and again.input_requests
        (request,) = again.input_requests.values()
        assert isinstance(request, types.ElicitRequest) and "version 4" in request.params.message


async def test_earlier_answers_travel_sealed(asking: Callable[..., Asking]) -> None:
    asking(APPROVAL, UserQuestion("Which one?"))
    async with connected("2026-07-28", Somebody()) as client:
        call = client.session.call_tool
        first: Any = await call("approve", {}, allow_input_required=True)
        (key,) = first.input_requests
        second: Any = await call(
            "approve", {}, input_responses={key: accepted(choice="reject")}, allow_input_required=True
        )
        assert second.request_state and "reject" not in second.request_state
        (key,) = second.input_requests
        with pytest.raises(MCPError):
            await call(
                "approve",
                {},
                input_responses={key: accepted(choice="x")},
                request_state=json.dumps({"ask_1": {"action": "accept", "content": {"choice": "approve"}}}),
            )


def test_a_client_that_only_opens_addresses_shows_no_forms() -> None:
    url_only = types.ClientCapabilities(elicitation=types.ElicitationCapability(url=types.UrlElicitationCapability()))
    older = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    for capabilities, asks in ((url_only, False), (older, True)):
        context: Any = SimpleNamespace(
            session=SimpleNamespace(client_capabilities=capabilities), protocol_version="2025-06-18"
        )
        asker = client_requests.create_asker(context, types.CallToolRequestParams(name="x"), str)
        assert (asker is not no_answer) == asks
