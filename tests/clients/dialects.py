"""The four wire formats in which agents speak to a model: what a request shows the model, and how a model answers.

PURE values in and out: a request body as parsed JSON, an answer as the server-sent events to stream. The server that
moves them is scripted_model.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Body = Mapping[str, Any]
Event = tuple[str, Mapping[str, Any]]
"""The name of a server-sent event (empty: a data line alone) and what it carries."""
FOUND_MAX = 3
"""A model that looks for a tool reads the schemas of the first few."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one request shows the model: all words that are no result, the tools by full name, the results in order."""

    words: str
    tools: Mapping[str, Mapping[str, Any]]
    results: tuple[str, ...]
    found: tuple[tuple[str, ...], ...] = ()
    """What each search for tools that the client holds back has found, by full name."""


@dataclass(frozen=True, slots=True)
class Use:
    """The model wants a tool: its own name, without what a client puts before it."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seek:
    """The model looks for a tool, among those that the client holds back, by what it is to do."""

    words: str


@dataclass(frozen=True, slots=True)
class Say:
    """The model speaks, and its turn ends."""

    text: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire format: `shown` reads a request; `use`, `find` and `say` write the answer to it."""

    shown: Callable[[Body], Shown]
    use: Callable[[str, Mapping[str, Any], str], Iterator[Event]]
    say: Callable[[str], Iterator[Event]]
    find: Callable[[str, str], Iterator[Event]] | None = None
    """Look for tools that the client holds back; none: clients of this dialect show everything at once."""
    by_name: str = "{tool}"
    """What to look for to find one tool of ours for certain."""


# -- Anthropic messages: Claude Code ----------------------------------------------------------------------------------


def messages_shown(body: Body) -> Shown:
    """System blocks and user texts are what is said; a tool result may be a text or blocks."""
    turns = body["messages"]
    blocks = [block for turn in turns for block in blocks_of(turn["content"])]
    said = [*blocks_of(body.get("system", "")), *(block for block in blocks if block["type"] == "text")]
    tools = {
        tool["name"]: {"description": "", "schema": tool.get("input_schema", {})} | tool
        for tool in body.get("tools", ())
    }
    answers = [blocks_of(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]
    sought = [answer for answer in answers if any(block["type"] == "tool_reference" for block in answer)]
    found = tuple(tuple(block["tool_name"] for block in answer if "tool_name" in block) for answer in sought)
    results = tuple(plain(answer) for answer in answers if answer not in sought)
    return Shown("\n".join(block["text"] for block in said), tools, results, found)


def messages_use(tool: str, arguments: Mapping[str, Any], call_id: str) -> Iterator[Event]:
    """A `tool_use` block whose arguments arrive in one piece."""
    block = {"type": "tool_use", "id": f"toolu_{call_id}", "name": tool, "input": {}}
    piece = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    yield from messages_turn(block, piece, "tool_use")


def messages_find(words: str, call_id: str) -> Iterator[Event]:
    """Claude Code's own tool for it."""
    return messages_use("ToolSearch", {"query": words, "max_results": FOUND_MAX}, call_id)


def messages_say(text: str) -> Iterator[Event]:
    """A text block."""
    yield from messages_turn({"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn")


def messages_turn(block: Body, piece: Body, stop: str) -> Iterator[Event]:
    """One message of one block of one piece."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    yield "message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": piece}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Content as blocks, whether it came as a text or as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def plain(content: Any) -> str:
    """The text of a result, whether it came as a text or as blocks."""
    return "\n".join(block.get("text", "") for block in blocks_of(content))


# -- OpenAI responses: Codex ------------------------------------------------------------------------------------------


def responses_shown(body: Body) -> Shown:
    """Instructions and messages are what is said; tools may stand in namespaces, one for each server."""
    items = body["input"]
    said = [body.get("instructions", "")]
    said += [part.get("text", "") for item in items if item["type"] == "message" for part in item["content"]]
    found = [item["tools"] for item in items if item["type"] == "tool_search_output"]
    tools = dict(responses_tools([*body.get("tools", ()), *(tool for tools in found for tool in tools)]))
    results = tuple(plain(item["output"]) for item in items if item["type"] == "function_call_output")
    return Shown("\n".join(said), tools, results, tuple(tuple(dict(responses_tools(each))) for each in found))


def responses_tools(tools: Any, before: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every function by its full name."""
    for tool in tools:
        if tool["type"] == "namespace":
            yield tool["name"], tool
            yield from responses_tools(tool["tools"], tool["name"] + "/")
        else:
            yield before + tool.get("name", tool["type"]), {"schema": tool.get("parameters", {})} | tool


def responses_use(tool: str, arguments: Mapping[str, Any], call_id: str) -> Iterator[Event]:
    """A finished `function_call` item."""
    space, _, name = tool.rpartition("/")
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name}
    where = {"namespace": space} if space else {}
    yield from responses_turn({**item, **where, "arguments": json.dumps(arguments)})


def responses_find(words: str, call_id: str) -> Iterator[Event]:
    """Codex' own search over what it holds back."""
    item = {"type": "tool_search_call", "id": f"ts_{call_id}", "call_id": call_id, "execution": "client"}
    yield from responses_turn({**item, "status": "completed", "arguments": {"query": words, "limit": FOUND_MAX}})


def responses_say(text: str) -> Iterator[Event]:
    """A finished message item."""
    content = [{"type": "output_text", "text": text}]
    yield from responses_turn({"type": "message", "role": "assistant", "id": "m_1", "content": content})


def responses_turn(item: Body) -> Iterator[Event]:
    """One response of one item."""
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield "response.created", {"response": {"id": "resp_1"}}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": {"id": "resp_1", "usage": usage}}


# -- OpenAI chat completions: opencode --------------------------------------------------------------------------------


def chat_shown(body: Body) -> Shown:
    """All messages but the model's own and the tools' are what is said."""
    turns = body["messages"]
    said = [plain(turn["content"]) for turn in turns if turn["role"] in ("system", "developer", "user")]
    tools = {
        tool["function"]["name"]: {"schema": tool["function"]["parameters"]} | tool["function"]
        for tool in body.get("tools", ())
    }
    return Shown("\n".join(said), tools, tuple(plain(turn["content"]) for turn in turns if turn["role"] == "tool"))


def chat_use(tool: str, arguments: Mapping[str, Any], call_id: str) -> Iterator[Event]:
    """One chunk with the whole call."""
    call = {
        "index": 0,
        "id": call_id,
        "type": "function",
        "function": {"name": tool, "arguments": json.dumps(arguments)},
    }
    yield from chat_turn({"tool_calls": [call]}, "tool_calls")


def chat_say(text: str) -> Iterator[Event]:
    """One chunk with the whole text."""
    yield from chat_turn({"content": text}, "stop")


def chat_turn(delta: Body, reason: str) -> Iterator[Event]:
    """A chunk with what is said, and one that ends the turn."""
    chunk = {"id": "chat_1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    yield "", {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    yield "", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}


# -- Gemini generateContent -------------------------------------------------------------------------------------------


def gemini_shown(body: Body) -> Shown:
    """The system instruction and all text parts are what is said."""
    parts = [part for turn in body["contents"] for part in turn["parts"]]
    said = [*body.get("systemInstruction", {}).get("parts", ()), *parts]
    functions = [one for tool in body.get("tools", ()) for one in tool.get("functionDeclarations", ())]
    tools = {
        one["name"]: {"schema": one.get("parametersJsonSchema") or one.get("parameters") or {}} | one
        for one in functions
    }
    results = tuple(gemini_result(part["functionResponse"]) for part in parts if "functionResponse" in part)
    return Shown("\n".join(part["text"] for part in said if "text" in part), tools, results)


def gemini_result(answer: Body) -> str:
    """The text of a function's response, whether it is called output or error."""
    response = answer["response"]
    return str(response.get("output", response.get("error", response)))


def gemini_use(tool: str, arguments: Mapping[str, Any], call_id: str) -> Iterator[Event]:
    """A function call part."""
    yield from gemini_turn({"functionCall": {"name": tool, "args": arguments}})


def gemini_say(text: str) -> Iterator[Event]:
    """A text part."""
    yield from gemini_turn({"text": text})


def gemini_turn(part: Body) -> Iterator[Event]:
    """One candidate of one part."""
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    yield "", {"candidates": [candidate], "usageMetadata": usage}


MESSAGES = Dialect(messages_shown, messages_use, messages_say, messages_find, by_name="select:mcp__ctx__{tool}")
RESPONSES = Dialect(responses_shown, responses_use, responses_say, responses_find)
CHAT = Dialect(chat_shown, chat_use, chat_say)
GEMINI = Dialect(gemini_shown, gemini_use, gemini_say)
