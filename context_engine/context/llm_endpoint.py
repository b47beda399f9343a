"""A language model behind an address that the user named in the environment: a brief there, a draft back, or the reason why not.

Any endpoint that speaks OpenAI's `/v1/chat/completions` will do: Ollama, LM Studio, llama.cpp, vLLM, OpenAI. It is
asked once, held to the schema of the draft, and once more with what was wrong. Nothing is opened before the first
question.
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
from context_engine.errors import ContextEngineError, HostError
from context_engine.secrets import redact

PROVIDER = "assist"
PATH = "/v1/chat/completions"
ASKS_MAX = 2
"""The question, and one repair: what a model has not mended then, it does not see."""
REPEATED_CHARS_MAX = 4_000
"""Of a wrong draft that is shown to the model again."""
ROLE = (
    "You fill in a form about a code base. Answer with one JSON value that keeps to the schema, and nothing else. "
    "Name only files, lines and names that the message shows. Where you do not know, leave lists empty and texts short."
)
UNHELD = frozenset(("minLength", "maxLength", "uniqueItems"))
"""What no endpoint holds a model to while it writes, and some refuse a schema for; the draft is held to all of it."""
HOST_GOES_ON = "The next step is offered to the agent instead."

Check = Callable[[Any], str]
"""What is wrong with a draft beyond its schema; empty when nothing is."""


class ModelTokens(NamedTuple):
    """What a model counted for us."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class ModelDraft:
    """The draft of a model, or `failure`: why there is none. `tokens` is None unless every answer said what it cost."""

    draft: Any = None
    failure: str = ""
    tokens: ModelTokens | None = None


class ChatModel:
    """One model at one address. Thread-safe."""

    def __init__(self, address: str, model: str, key: str = "", *, wait_s: float, **world: Any) -> None:
        """`wait_s` is the longest time one draft may take, repair included; `world` is handed to `Endpoint`.

        Raises: EmbedderUnusable when the address or the key cannot be one.
        """
        place = EndpointSpec(
            PROVIDER,
            build_url(address, PATH, PROVIDER),
            model,
            start=f"Start the server there, or correct CTX_ASSIST_ADDRESS. {HOST_GOES_ON}",
            get_model="CTX_ASSIST_MODEL names a model that this endpoint has; `GET /v1/models` there lists them.",
            later=HOST_GOES_ON,
        )
        self._endpoint = Endpoint(place, key, **world)
        self._model = model
        self._wait_s = wait_s
        self._knows_schemas = True

    def fill(self, brief: str, schema: Schema, check: Check, cancel: threading.Event | None = None) -> ModelDraft:
        """A draft that keeps to the schema and passes the check, or why there is none. Raises: Cancelled."""
        deadline = time.monotonic() + self._wait_s
        constrained = self._knows_schemas
        asked = build_messages(brief, schema, in_words=not constrained)
        spent: list[ModelTokens | None] = []
        wrong = ""
        while len(spent) < ASKS_MAX:
            try:
                answer = self._asked(build_body(self._model, asked, schema if constrained else None), deadline, cancel)
            except HostError as error:
                if constrained and error.details.get("status") in (400, 422):
                    asked, constrained = build_messages(brief, schema, in_words=True), False
                    continue
                return ModelDraft(failure=_sentence(error), tokens=sum_tokens(spent))
            self._knows_schemas = constrained
            spent.append(read_tokens(answer))
            said, wrong = read_content(answer)
            draft, wrong = _draft(said, schema, check) if not wrong else (None, wrong)
            if not wrong:
                return ModelDraft(draft, tokens=sum_tokens(spent))
            if time.monotonic() >= deadline:
                break
            asked = [*asked, *build_repair(said, wrong)]
        return ModelDraft(
            failure=f"{PROVIDER}: what {self._model} drafted does not hold: {wrong}", tokens=sum_tokens(spent)
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._endpoint.close()

    def _asked(self, body: Mapping[str, Any], deadline: float, cancel: threading.Event | None) -> Any:
        """One answer, in the time that is left. Raises: HostError, Cancelled."""
        rest = max(0.0, deadline - time.monotonic())
        return self._endpoint.post(body, RetryPolicy(answer_s=rest, tries=1, wait_max_s=0), cancel)


def _sentence(error: ContextEngineError) -> str:
    return f"{error.message}. {error.suggestion}".strip()


def _draft(said: str, schema: Schema, check: Check) -> tuple[Any, str]:
    """The draft in what a model said, and what is wrong with it."""
    try:
        draft = unwrap_draft(parse_draft(said), schema)
    except ValueError as error:
        return None, f"it is no JSON: {error}"
    return draft, find_problem(draft, schema) or check(draft)


# -- what goes out ----------------------------------------------------------------------------------------------------


def build_body(model: str, asked: Sequence[Mapping[str, str]], schema: Schema | None) -> dict[str, Any]:
    """The body of a request: only what all such endpoints know, so neither temperature nor a limit of tokens."""
    body: dict[str, Any] = {"model": model, "messages": list(asked), "stream": False}
    if schema is None:
        return body
    form = wrap_schema(schema)
    held = {"name": "draft", "strict": is_strict(form), "schema": drop_unsupported(form)}
    return body | {"response_format": {"type": "json_schema", "json_schema": held}}


def build_messages(brief: str, schema: Schema, *, in_words: bool = False) -> list[dict[str, str]]:
    """What is said to a model, without secrets; the schema in words where the endpoint cannot hold it to one."""
    form = f"\n\nJSON Schema of the answer:\n{json.dumps(wrap_schema(schema))}" if in_words else ""
    return [{"role": "system", "content": ROLE}, {"role": "user", "content": redact(brief + form, "broad").text}]


def build_repair(said: str, wrong: str) -> list[dict[str, str]]:
    """The model's own words, and what is wrong with them."""
    told = f"That does not hold: {wrong}. Send the whole corrected JSON value, and nothing else."
    return [
        {"role": "assistant", "content": redact(said[:REPEATED_CHARS_MAX], "broad").text or "(nothing)"},
        {"role": "user", "content": redact(told, "broad").text},
    ]


def wrap_schema(schema: Schema) -> Schema:
    """The schema of an object, which is what endpoints want: another value becomes its field `draft`."""
    if schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {"draft": schema}, "required": ["draft"], "additionalProperties": False}


def drop_unsupported(schema: Schema) -> Schema:
    """The schema without what only a check afterwards can hold; a field may be called like a keyword.

    >>> drop_unsupported({"type": "string", "maxLength": 9}), drop_unsupported({"properties": {"maxLength": {"minLength": 1}}})
    ({'type': 'string'}, {'properties': {'maxLength': {}}})
    """
    kept = {name: value for name, value in schema.items() if name not in UNHELD}
    return kept | {name: _each(kept[name], name) for name in (*NAMED, *LISTED, *SINGLE) if name in kept}


def _each(value: Any, name: str) -> Any:
    """The same for the schemas inside one."""
    if name in NAMED:
        return {key: drop_unsupported(inner) for key, inner in value.items()}
    return [drop_unsupported(inner) for inner in value] if name in LISTED else drop_unsupported(value)


def unwrap_draft(value: Any, schema: Schema) -> Any:
    """The draft itself again."""
    is_wrapped = schema.get("type") != "object" and isinstance(value, dict) and [*value] == ["draft"]
    return value["draft"] if is_wrapped else value


# -- what comes back --------------------------------------------------------------------------------------------------


def read_content(answer: Any) -> tuple[str, str]:
    """What a model said, and what is wrong with its answer as such; one of both is empty.

    >>> read_content({"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]})
    ('{}', '')
    """
    try:
        choice = answer["choices"][0]
        said, ended, refused = (
            choice["message"].get("content"),
            choice.get("finish_reason"),
            choice["message"].get("refusal"),
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        return "", f"the endpoint's answer holds no message; it says {extract_json_message(answer)}"
    if refused or ended == "content_filter":
        return "", f"the model refuses: {extract_json_message(refused or ended)}"
    if ended == "length":
        return "", "the answer was cut off; it must be shorter"
    return (said, "") if isinstance(said, str) and said.strip() else ("", "the answer is empty")


def read_tokens(answer: Any) -> ModelTokens | None:
    """What the endpoint counted; None when it does not say.

    >>> read_tokens({"usage": {"prompt_tokens": 812, "completion_tokens": 40}}), read_tokens({"usage": {}})
    (ModelTokens(prompt_tokens=812, completion_tokens=40), None)
    """
    usage = answer.get("usage") if isinstance(answer, dict) else None
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
    said = [each for each in counts if type(each) is int and each >= 0]
    return ModelTokens(*said) if len(said) == 2 else None


def sum_tokens(spent: Sequence[ModelTokens | None]) -> ModelTokens | None:
    """All of them together; None when any of them is not known: half a count is none."""
    known = [each for each in spent if each is not None]
    if not known or len(known) < len(spent):
        return None
    return ModelTokens(sum(each.prompt_tokens for each in known), sum(each.completion_tokens for each in known))
