"""A model behind an address: what it is asked, what is taken from it, and every way in which it may fail a caller."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from context_engine.context.assist import SecondPass, SecondPassRunner
from context_engine.context.llm_endpoint import ChatModel, ModelDraft, ModelTokens
from context_engine.errors import Cancelled, EmbedderUnusable
from tests.support.chatting import KEY, MODEL, model_that_says, refused, said
from tests.support.endpoints import EmbeddingServer, Reply, only_connecting_to, told

SCHEMA = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"type": "string"}}},
    "required": ["steps"],
    "additionalProperties": False,
}
GOOD = {"steps": ["first", "second"]}
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"


def nothing_wrong(_: Any) -> str:
    return ""


def model_at(server: EmbeddingServer, **chosen: Any) -> ChatModel:
    values: dict[str, Any] = {"model": MODEL, "key": "", "wait_s": 20} | chosen
    return ChatModel(server.address, values["model"], values["key"], wait_s=values["wait_s"])


def filled(server: EmbeddingServer, schema: Any = SCHEMA, check: Any = nothing_wrong, **chosen: Any) -> ModelDraft:
    """What the model at a server makes of a brief, with no connection to anywhere else."""
    with only_connecting_to(server.server_address[1]):
        model = model_at(server, **chosen)
        try:
            return model.fill("Order the steps.", schema, check)
        finally:
            model.close()


# -- it goes well --


def test_a_draft_that_keeps_to_its_schema_is_taken_with_what_it_cost() -> None:
    with model_that_says(GOOD) as server:
        server.key = KEY
        assert filled(server, key=KEY) == ModelDraft(GOOD, tokens=ModelTokens(100, 20))
        (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body["response_format"]["json_schema"] == {"name": "draft", "strict": True, "schema": SCHEMA}
    assert [each["role"] for each in asked.body["messages"]] == ["system", "user"]
    assert asked.body["messages"][1]["content"] == "Order the steps."


def test_a_draft_that_is_no_object_travels_in_one() -> None:
    with model_that_says({"draft": "a better prompt"}) as server:
        assert filled(server, {"type": "string"}).draft == "a better prompt"


# -- it is repaired once --


def test_a_wrong_draft_is_sent_back_once_with_what_is_wrong() -> None:
    with model_that_says({"steps": "first"}, GOOD) as server:
        assert filled(server) == ModelDraft(GOOD, tokens=ModelTokens(200, 40))
        first, second = (asked.body["messages"] for asked in server.asked)
    assert second[:2] == first
    assert second[2] == {"role": "assistant", "content": '{"steps": "first"}'}
    assert "steps: 'first' is not of type 'array'" in second[3]["content"]


def test_a_draft_that_stays_wrong_is_given_up_after_one_repair() -> None:
    with model_that_says({"steps": 1}) as server:
        found = filled(server)
        assert len(server.asked) == 2
    assert found.draft is None and "steps: 1 is not of type 'array'" in found.failure
    assert found.tokens == ModelTokens(200, 40)  # spent all the same


def test_an_endpoint_that_knows_no_schemas_is_told_in_words() -> None:
    with model_that_says(GOOD, schemas=False) as server:
        assert filled(server).draft == GOOD
        refusal, accepted = (asked.body for asked in server.asked)
    assert "response_format" in refusal and "response_format" not in accepted
    assert json.dumps(SCHEMA) in accepted["messages"][1]["content"]


def test_lengths_are_checked_here_and_not_asked_of_the_endpoint() -> None:
    title = {"anyOf": [{"type": "string", "maxLength": 5}]}
    schema = {"type": "object", "properties": {"title": title}, "required": ["title"], "additionalProperties": False}
    with model_that_says({"title": "much too long"}, {"title": "short"}) as server:
        assert filled(server, schema).draft == {"title": "short"}
        assert "maxLength" not in json.dumps(server.asked[0].body) and "is not valid" in json.dumps(
            server.asked[1].body
        )


def test_tokens_are_told_only_when_every_answer_told_them() -> None:
    with model_that_says(said({"steps": 1}, usage={}), GOOD) as server:
        assert filled(server).tokens is None
    with model_that_says(said(GOOD, usage={"prompt_tokens": "many", "completion_tokens": 1})) as server:
        assert filled(server).tokens is None


# -- it goes wrong --

ELSEWHERE = Reply(302, b"", {"location": "http://127.0.0.1:9/v1/chat/completions"})
TROUBLE = [
    (refused("Rate limit reached", 429, retry_after="30"), "too many requests"),
    (refused("You exceeded your quota", 429, "insufficient_quota"), "spent"),
    (told({"error": "overloaded"}, 500), "failed with status 500"),
    (told({"error": "loading"}, 503), "failed with status 503"),
    (Reply(200, b"<html>Welcome</html>", {"content-type": "text/html"}), "web page"),
    (Reply(200, b"\xff\xfe not json"), "not JSON"),
    (Reply(200, b'{"choices": [{"message": {"cont'), "not JSON"),
    (told([]), "has no message"),
    (told({"choices": []}), "has no message"),
    (told({"choices": [{"message": None}]}), "has no message"),
    (told({"error": {"message": "out of memory"}}), "out of memory"),
    (said(None), "the answer is empty"),
    (said("  \n"), "the answer is empty"),
    (said("Sure! Here are the steps."), "it is not valid JSON"),
    (said("[" * 100_000), "nested deeper"),
    (said('{"steps": ["a"'), "it is not valid JSON"),
    (said('{"steps": [NaN]}'), "it is not valid JSON"),
    (said(GOOD, finish="length"), "cut off"),
    (said(None, refusal="I cannot help with that"), "refuses: I cannot help"),
    (said(GOOD, finish="content_filter"), "refuses"),
    (ELSEWHERE, "sends us elsewhere"),
]


@pytest.mark.parametrize(("reply", "why"), TROUBLE, ids=[why for _, why in TROUBLE])
def test_whatever_an_endpoint_does_the_agent_goes_on_with_a_warning(reply: Reply, why: str) -> None:
    second = SecondPass("create_plan", "Order the steps.", SCHEMA, {"plan_id": "plan_1"})
    with model_that_says(reply) as server, only_connecting_to(server.server_address[1]):
        ladder = SecondPassRunner(model_at(server, wait_s=20))
        climbed = ladder.run(second, "auto")
        ladder.close()
        assert len(server.asked) <= 2
    (warning,) = climbed.warnings
    assert why in warning
    assert climbed.draft is None and climbed.used == "none" and climbed.next == second.next()


def test_a_key_that_is_refused_is_named_by_its_variable_and_never_shown() -> None:
    with model_that_says(GOOD) as server:
        server.key = "sk-another-4c1d"
        found = filled(server, key=KEY)
    assert "refuses the key" in found.failure and KEY not in found.failure


@pytest.mark.parametrize("reply", [Reply(hang=True), Reply(body=b"x" * 4_000, drip_s=0.05)])
def test_an_endpoint_that_takes_too_long_is_left(reply: Reply) -> None:
    with model_that_says(reply) as server:
        assert "no answer" in filled(server, wait_s=0.3).failure


def test_a_cancelled_call_leaves_at_once() -> None:
    cancel = threading.Event()
    cancel.set()
    with model_that_says(Reply(hang=True)) as server, pytest.raises(Cancelled):
        model_at(server).fill("x", SCHEMA, nothing_wrong, cancel)


@pytest.mark.parametrize("address", ["127.0.0.1:1234", "ftp://a/b", "http://u:p@a", "file:///etc/passwd"])
def test_what_is_no_address_is_refused_before_anything_is_opened(address: str) -> None:
    with only_connecting_to(), pytest.raises(EmbedderUnusable):
        ChatModel(address, MODEL, wait_s=1)


# -- what leaves --


def test_no_secret_leaves_neither_in_the_brief_nor_in_a_repair() -> None:
    def check(draft: Any) -> str:
        return f"{draft['steps'][0]} is no step"

    with model_that_says({"steps": [f"use {TOKEN}"]}) as server:
        model = model_at(server)
        model.fill(f"Use {TOKEN}.", SCHEMA, check)
        model.close()
        assert len(server.asked) == 2
        assert all(TOKEN not in json.dumps(asked.body) for asked in server.asked)
