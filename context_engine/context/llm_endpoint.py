"""A language model at an address that the user configured: a brief in, a draft out, or the reason why there is none.

Any endpoint with OpenAI's `/v1/chat/completions` works: Ollama, LM Studio, llama.cpp, vLLM, OpenAI. It is asked once
with the schema of the draft, and once more with what was wrong. Nothing connects before the first question.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from context_engine.context.proposals import LISTED, NAMED, SINGLE, Schema, find_problem, is_strict, parse_draft
from context_engine.embedding import Endpoint, EndpointSpec, RetryPolicy, build_url, extract_json_message
from context_engine.errors import HostError
from context_engine.secrets import redact

PROVIDER = "assist"
PATH = "/v1/chat/completions"
ASKS_MAX = 2
"""The question and one repair: a model that does not correct its draft then does not see what is wrong."""
REPEATED_CHARS_MAX = 4_000
"""Characters of a wrong draft that are sent to the model again."""
ROLE = (
    "You fill in a form about a code base. Answer with one JSON value that keeps to the schema, and nothing else. "
    "Name only files, lines and names that the message shows. Where you do not know, leave lists empty and texts short."
)
UNSUPPORTED = frozenset(("minLength", "maxLength", "uniqueItems"))
"""Keywords that no endpoint enforces and some refuse. The draft is checked against them afterwards."""
HOST_GOES_ON = "The next step is offered to the agent instead."

Check = Callable[[Any], str]
"""Returns what is wrong with a draft beyond its schema; empty if nothing is."""


class ModelTokens(NamedTuple):
    """Tokens as the endpoint counted them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class ModelDraft:
    """The draft of a model, or `failure`: why there is none. `tokens` is None unless every answer stated them."""

    draft: Any = None
    failure: str = ""
    tokens: ModelTokens | None = None


class ChatModel:
    """One model at one address. Thread-safe."""

    def __init__(self, address: str, model: str, key: str = "", *, wait_s: float, **world: Any) -> None:
        """Limit one draft with its repair to `wait_s` seconds; `world` is passed to `Endpoint`.

        Raises: EmbedderUnusable if the address or the key is not valid.
        """
        spec = EndpointSpec(
            PROVIDER,
            build_url(address, PATH, PROVIDER),
            model,
            start=f"Start the server there, or correct CTX_ASSIST_ADDRESS. {HOST_GOES_ON}",
            get_model="CTX_ASSIST_MODEL names a model that this endpoint has; `GET /v1/models` there lists them.",
            later=HOST_GOES_ON,
        )
        self._endpoint = Endpoint(spec, key, **world)
        self._model = model
        self._wait_s = wait_s
        self._supports_schemas = True

    def fill(self, brief: str, schema: Schema, check: Check, cancel: threading.Event | None = None) -> ModelDraft:
        """Return a draft that matches the schema and passes the check, or why there is none. Raises: Cancelled."""
        deadline = time.monotonic() + self._wait_s
        with_schema = self._supports_schemas
        messages = build_messages(brief, schema, in_words=not with_schema)
        spent: list[ModelTokens | None] = []
        problem = ""
        while len(spent) < ASKS_MAX:
            body = build_body(self._model, messages, schema if with_schema else None)
            try:
                answer = self._post(body, deadline, cancel)
            except HostError as error:
                if with_schema and error.details.get("status") in (400, 422):
                    # the endpoint refuses schemas: state it in words instead
                    messages, with_schema = build_messages(brief, schema, in_words=True), False
                    continue
                failure = f"{error.message}. {error.suggestion}".strip()
                return ModelDraft(failure=failure, tokens=sum_tokens(spent))
            self._supports_schemas = with_schema
            spent.append(read_tokens(answer))
            text, problem = read_content(answer)
            draft = None
            if not problem:
                draft, problem = _read_draft(text, schema, check)
            if not problem:
                return ModelDraft(draft, tokens=sum_tokens(spent))
            if time.monotonic() >= deadline:
                break
            messages = [*messages, *build_repair(text, problem)]
        failure = f"{PROVIDER}: the draft of {self._model} is not accepted: {problem}"
        return ModelDraft(failure=failure, tokens=sum_tokens(spent))

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def _post(self, body: Mapping[str, Any], deadline: float, cancel: threading.Event | None) -> Any:
        """Return one answer, within the time that is left. Raises: HostError, Cancelled."""
        left_s = max(0.0, deadline - time.monotonic())
        return self._endpoint.post(body, RetryPolicy(answer_s=left_s, tries=1, wait_max_s=0), cancel)


def _read_draft(text: str, schema: Schema, check: Check) -> tuple[Any, str]:
    """Return the draft in the words of a model, and what is wrong with it."""
    try:
        draft = unwrap_draft(parse_draft(text), schema)
    except ValueError as error:
        return None, f"it is not valid JSON: {error}"
    return draft, find_problem(draft, schema) or check(draft)


# -- requests ---------------------------------------------------------------------------------------------------------


def build_body(model: str, messages: Sequence[Mapping[str, str]], schema: Schema | None) -> dict[str, Any]:
    """Return the body of a request: only what all endpoints know, so neither a temperature nor a token limit."""
    body: dict[str, Any] = {"model": model, "messages": list(messages), "stream": False}
    if schema is None:
        return body
    form = wrap_schema(schema)
    json_schema = {"name": "draft", "strict": is_strict(form), "schema": drop_unsupported(form)}
    return body | {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def build_messages(brief: str, schema: Schema, *, in_words: bool = False) -> list[dict[str, str]]:
    """Return the messages to a model, without secrets; with the schema in words if the endpoint does not enforce it."""
    form = ""
    if in_words:
        form = f"\n\nJSON Schema of the answer:\n{json.dumps(wrap_schema(schema))}"
    return [{"role": "system", "content": ROLE}, {"role": "user", "content": redact(brief + form, "broad").text}]


def build_repair(text: str, problem: str) -> list[dict[str, str]]:
    """Return the model's own words, and what is wrong with them."""
    request = f"That is not accepted: {problem}. Send the whole corrected JSON value, and nothing else."
    return [
        {"role": "assistant", "content": redact(text[:REPEATED_CHARS_MAX], "broad").text or "(nothing)"},
        {"role": "user", "content": redact(request, "broad").text},
    ]


def wrap_schema(schema: Schema) -> Schema:
    """Return the schema of an object, which endpoints require: any other value becomes its field `draft`."""
    if schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {"draft": schema}, "required": ["draft"], "additionalProperties": False}


def drop_unsupported(schema: Schema) -> Schema:
    """Return the schema without keywords that only a check afterwards can enforce; fields may have their names.

    >>> drop_unsupported({"type": "string", "maxLength": 9})
    {'type': 'string'}
    >>> drop_unsupported({"properties": {"maxLength": {"minLength": 1}}})
    {'properties': {'maxLength': {}}}
    """
    kept = {name: value for name, value in schema.items() if name not in UNSUPPORTED}
    for name in (*NAMED, *LISTED, *SINGLE):
        if name in kept:
            kept[name] = _drop_unsupported_inside(kept[name], name)
    return kept


def _drop_unsupported_inside(value: Any, name: str) -> Any:
    if name in NAMED:
        return {key: drop_unsupported(inner) for key, inner in value.items()}
    if name in LISTED:
        return [drop_unsupported(inner) for inner in value]
    return drop_unsupported(value)


def unwrap_draft(value: Any, schema: Schema) -> Any:
    """Return the draft inside the object of `wrap_schema`."""
    is_wrapped = schema.get("type") != "object" and isinstance(value, dict) and [*value] == ["draft"]
    if is_wrapped:
        return value["draft"]
    return value


# -- answers ----------------------------------------------------------------------------------------------------------


def read_content(answer: Any) -> tuple[str, str]:
    """Return the text of an answer, and what is wrong with the answer itself; one of the two is empty.

    >>> read_content({"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]})
    ('{}', '')
    """
    try:
        choice = answer["choices"][0]
        text, refusal = choice["message"].get("content"), choice["message"].get("refusal")
        reason = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        return "", f"the endpoint's answer has no message; it says {extract_json_message(answer)}"
    if refusal or reason == "content_filter":
        return "", f"the model refuses: {extract_json_message(refusal or reason)}"
    if reason == "length":
        return "", "the answer was cut off; it must be shorter"
    if isinstance(text, str) and text.strip():
        return (text, "")
    return ("", "the answer is empty")


def read_tokens(answer: Any) -> ModelTokens | None:
    """Return the tokens that the endpoint counted; None if it does not state them.

    >>> read_tokens({"usage": {"prompt_tokens": 812, "completion_tokens": 40}}), read_tokens({"usage": {}})
    (ModelTokens(prompt_tokens=812, completion_tokens=40), None)
    """
    usage = None
    if isinstance(answer, dict):
        usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt_tokens, completion_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if _is_count(prompt_tokens) and _is_count(completion_tokens):
        return ModelTokens(prompt_tokens, completion_tokens)
    return None


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def sum_tokens(spent: Sequence[ModelTokens | None]) -> ModelTokens | None:
    """Return the sum; None if any of them is unknown."""
    known = [tokens for tokens in spent if tokens is not None]
    if not known or len(known) < len(spent):
        return None
    return ModelTokens(sum(tokens.prompt_tokens for tokens in known), sum(tokens.completion_tokens for tokens in known))
