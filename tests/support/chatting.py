"""A language model on this machine that speaks OpenAI's chat completions, says what a test tells it, and refuses as real ones do."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from context_engine.context.llm_endpoint import is_strict
from tests.support.endpoints import Asked, EmbeddingServer, Reply, embedding_server, told

MODEL = "writer-7b"
KEY = "sk-local-5f3e9a"
FIELDS = {"model", "messages", "stream", "response_format"}


def said(content: Any, *, finish: str = "stop", usage: Any = None, **message: Any) -> Reply:
    """A chat completion; what is no text is written as JSON."""
    text = content if isinstance(content, str | None) else json.dumps(content)
    choice = {"index": 0, "message": {"role": "assistant", "content": text} | message, "finish_reason": finish}
    counted = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120} if usage is None else usage
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    return told(body | ({"usage": counted} if counted else {}))


def refused(message: str, status: int, code: str | None = None, **headers: str) -> Reply:
    """An error as OpenAI words it."""
    return told({"error": {"message": message, "type": "invalid_request_error", "code": code}}, status, **headers)


def _trouble(body: Mapping[str, Any], *, schemas: bool) -> str:
    """What a strict endpoint finds wrong with a request."""
    if unknown := body.keys() - FIELDS:
        return f"Unrecognized request argument supplied: {', '.join(unknown)}"
    if not all(each.keys() == {"role", "content"} and each["content"] for each in body["messages"]):
        return "Invalid type for 'messages'"
    form = body.get("response_format")
    if form is None:
        return ""
    held = form["json_schema"]
    if not schemas or form["type"] != "json_schema" or "maxLength" in json.dumps(form):
        return "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model"
    if held["schema"].get("type") != "object" or (held["strict"] and not is_strict(held["schema"])):
        return f"Invalid schema for response_format '{held['name']}'"
    return ""


@contextmanager
def model_that_says(*replies: Reply | Any, schemas: bool = True) -> Generator[EmbeddingServer]:
    """A model whose answers come in this order, the last one again and again; without `schemas` it knows no `response_format`."""
    left = [each if isinstance(each, Reply) else said(each) for each in replies]

    def answer(asked: Asked, key: str) -> Reply:
        if key and asked.headers.get("authorization") != f"Bearer {key}":
            return refused("Incorrect API key provided", 401, "invalid_api_key")
        if asked.path != "/v1/chat/completions":
            return Reply(404, b"<!DOCTYPE html><p>Not Found", {"content-type": "text/html"})
        if asked.body["model"] != MODEL:
            return refused(f"The model `{asked.body['model']}` does not exist", 404, "model_not_found")
        if trouble := _trouble(asked.body, schemas=schemas):
            return refused(trouble, 400)
        return left.pop(0) if len(left) > 1 else left[0]

    with embedding_server(answer) as server:
        yield server
