"""A language model at an address that the user configured: a brief in, a draft out, or the reason why there is none.

Any endpoint with OpenAI's `/v1/chat/completions` works: Ollama, LM Studio, llama.cpp, vLLM, OpenAI. It is asked once
with the schema of the draft, and once more with what was wrong. Nothing connects before the first question.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from context_engine.context.assist import Schema, find_problem, parse_draft
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
NAMED = ("properties", "$defs")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLE = ("items", "not")
"""Keywords with schemas inside: by name, in a list, or one. Ours contain objects there, never `true` or `false`."""
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

    def fill(
        self,
        brief: str,
        schema: Schema,
        check: Check,
        cancel: threading.Event | None = None,
        *,
        is_loose: bool = False,
    ) -> ModelDraft:
        """Return a draft that passes the check, or why there is none; unless `is_loose`, it matches the schema, too.

        Raises: Cancelled.
        """
        deadline = time.monotonic() + self._wait_s
        form = wrap_schema(schema)
        with_schema = self._supports_schemas
        messages = build_messages(brief, form, in_words=not with_schema)
        spent: list[ModelTokens | None] = []
        problem = ""
        while len(spent) < ASKS_MAX:
            # only what all endpoints know, so neither a temperature nor a token limit
            body: dict[str, Any] = {"model": self._model, "messages": messages, "stream": False}
            if with_schema:
                json_schema = {"name": "draft", "strict": is_strict(form), "schema": drop_unsupported(form)}
                body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
            left_s = max(0.0, deadline - time.monotonic())
            try:
                answer = self._endpoint.post(body, RetryPolicy(answer_s=left_s, tries=1, wait_max_s=0), cancel)
            except HostError as error:
                if with_schema and error.details.get("status") in (400, 422):
                    # the endpoint refuses schemas: state it in words instead
                    messages, with_schema = build_messages(brief, form, in_words=True), False
                    continue
                failure = f"{error.message}. {error.suggestion}".strip()
                return ModelDraft(failure=failure, tokens=sum_tokens(spent))
            self._supports_schemas = with_schema
            spent.append(read_tokens(answer))
            text, problem = read_content(answer)
            draft = None
            if not problem:
                draft, problem = _read_draft(text, schema, check, is_loose=is_loose)
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


def _read_draft(text: str, schema: Schema, check: Check, *, is_loose: bool) -> tuple[Any, str]:
    try:
        draft = parse_draft(text)
    except ValueError as error:
        return None, f"it is not valid JSON: {error}"
    if schema.get("type") != "object" and isinstance(draft, dict) and [*draft] == ["draft"]:
        draft = draft["draft"]
    return draft, (not is_loose and find_problem(draft, schema)) or check(draft)


# -- requests ---------------------------------------------------------------------------------------------------------


def build_messages(brief: str, form: Schema, *, in_words: bool = False) -> list[dict[str, str]]:
    """Return the messages to a model, without secrets; with the schema in words if the endpoint does not enforce it."""
    words = f"\n\nJSON Schema of the answer:\n{json.dumps(form)}" if in_words else ""
    return [{"role": "system", "content": ROLE}, {"role": "user", "content": redact(brief + words, "broad").text}]


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


def is_strict(schema: Schema) -> bool:
    """Return whether every object in a schema lists and requires all its fields; some endpoints enforce such schemas.

    >>> is_strict({"type": "object", "properties": {}, "required": [], "additionalProperties": False})
    True
    >>> is_strict({"type": "object"})
    False
    """
    if schema.get("type") == "object" or "properties" in schema:
        is_closed = schema.get("additionalProperties") is False
        if not is_closed or {*schema.get("properties", {})} != {*schema.get("required", ())}:
            return False
    return all(is_strict(inner) for name in schema for inner in _inner_schemas(schema, name))


def _inner_schemas(schema: Schema, name: str) -> Iterable[Schema]:
    if name in NAMED:
        return schema[name].values()
    return schema[name] if name in LISTED else [schema[name]] if name in SINGLE else ()


def drop_unsupported(schema: Schema) -> Schema:
    """Return the schema without keywords that only a check afterwards can enforce; fields may have their names.

    >>> drop_unsupported({"type": "string", "maxLength": 9})
    {'type': 'string'}
    >>> drop_unsupported({"properties": {"maxLength": {"minLength": 1}}})
    {'properties': {'maxLength': {}}}
    """
    kept: dict[str, Any] = {}
    for name, value in schema.items():
        if name in NAMED:
            kept[name] = {key: drop_unsupported(inner) for key, inner in value.items()}
        elif name in LISTED:
            kept[name] = [drop_unsupported(inner) for inner in value]
        elif name not in UNSUPPORTED:
            kept[name] = drop_unsupported(value) if name in SINGLE else value
    return kept


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
        return text, ""
    return "", "the answer is empty"


def read_tokens(answer: Any) -> ModelTokens | None:
    """Return the tokens that the endpoint counted; None if it does not state them.

    >>> read_tokens({"usage": {"prompt_tokens": 812, "completion_tokens": 40}}), read_tokens({"usage": {}})
    (ModelTokens(prompt_tokens=812, completion_tokens=40), None)
    """
    usage = answer.get("usage") if isinstance(answer, dict) else None
    counts = [usage.get(name) for name in ModelTokens._fields] if isinstance(usage, dict) else [None]
    are_counts = all(type(count) is int and count >= 0 for count in counts)
    return ModelTokens(*counts) if are_counts else None


def sum_tokens(spent: Sequence[ModelTokens | None]) -> ModelTokens | None:
    """Return the sum; None if any of them is unknown."""
    known = [tokens for tokens in spent if tokens is not None]
    if not known or len(known) < len(spent):
        return None
    return ModelTokens(*map(sum, zip(*known, strict=True)))
