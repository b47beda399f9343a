"""What the conformance suite asks of a server under test: its tools, resources and prompts, word for word as it wants them.

Ours have other names and other answers; fixture_server.py puts these beside them. The functions speak to the client
only through what our server hands to a handler, so what is tested is our way to the wire.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

Context = ServerRequestContext[Any]
ToolFunction = Callable[[Context, types.CallToolRequestParams], Awaitable[Any]]

FORMS: Mapping[str, Any] = json.loads(Path(__file__).with_name("fixtures.json").read_text())
"""The forms that tools put to a person, by name."""
SCHEMAS: Mapping[str, Mapping[str, Any]] = FORMS["tools"]
"""The schemas of the arguments of tools that take some."""
PAUSE_S = 0.05
"""Between the notifications of one tool, as the suite asks."""


def png() -> str:
    """One red pixel, in base64."""
    rows = zlib.compress(b"\0\xff\0\0")
    parts = ((b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def wav() -> str:
    """Two samples of silence, in base64."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    data = struct.pack("<4sI", b"data", 4) + bytes(4)
    return base64.b64encode(struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(data), b"WAVE") + form + data).decode()


def text(words: str) -> types.TextContent:
    """A text block."""
    return types.TextContent(type="text", text=words)


def image() -> types.ImageContent:
    """The red pixel as a block."""
    return types.ImageContent(type="image", data=png(), mime_type="image/png")


def resource(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    """A text resource inside of a reply."""
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    )


def reply(*blocks: types.ContentBlock, is_error: bool = False) -> types.CallToolResult:
    """A tool's result."""
    return types.CallToolResult(content=list(blocks), is_error=is_error)


# -- tools that answer at once ----------------------------------------------------------------------------------------

SIMPLE: Mapping[str, Callable[[], types.CallToolResult]] = {
    "test_simple_text": lambda: reply(text("This is a simple text response for testing.")),
    "test_image_content": lambda: reply(image()),
    "test_audio_content": lambda: reply(types.AudioContent(type="audio", data=wav(), mime_type="audio/wav")),
    "test_embedded_resource": lambda: reply(
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": lambda: reply(
        text("Multiple content types test:"),
        image(),
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
    "test_error_handling": lambda: reply(text("This tool intentionally returns an error for testing"), is_error=True),
    "json_schema_2020_12_tool": lambda: reply(text("Only the schema matters.")),
    "test_logging_tool": lambda: reply(text("Nothing was logged.")),
    "test_custom_header": lambda: reply(text("The header said what the argument says.")),
}


def at_once(make: Callable[[], types.CallToolResult]) -> ToolFunction:
    """A tool that needs neither its arguments nor its client."""

    async def answered(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return make()

    return answered


# -- tools that speak to the client while they run ---------------------------------------------------------------------


async def with_logging(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Three log messages, in the stream of the call."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        said = types.LoggingMessageNotificationParams(level="info", data=words)
        told = types.LoggingMessageNotification(params=said)
        await context.session.send_notification(told, related_request_id=context.request_id)
        await anyio.sleep(PAUSE_S)
    return reply(text("Logged three messages."))


async def with_progress(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """0, 50 and 100 of 100."""
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await anyio.sleep(PAUSE_S)
    return reply(text("Went to a hundred."))


async def sampling(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Ask the client's model."""
    asked = sample(str((params.arguments or {})["prompt"]), 100)
    answer = await to_client(context, asked, types.CreateMessageResult)
    return reply(text(f"LLM response: {getattr(answer.content, 'text', '')}"))


def eliciting(schema: Mapping[str, Any], told: str) -> ToolFunction:
    """A tool that asks the person with that form."""

    async def elicit(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        asked = form(str((params.arguments or {}).get("message", "Please fill in.")), schema)
        answer = await to_client(context, asked, types.ElicitResult)
        return reply(text(f"{told}: action={answer.action}, content={json.dumps(answer.content)}"))

    return elicit


async def to_client(context: Context, request: Any, result: type[Any]) -> Any:
    """A request from server to client, in the stream of the call it belongs to."""
    belongs = ServerMessageMetadata(related_request_id=context.request_id)
    return await context.session.send_request(request, result, metadata=belongs)


def form(message: str, schema: Mapping[str, Any]) -> types.ElicitRequest:
    """Ask a person."""
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=dict(schema)))


def sample(prompt: str, max_tokens: int) -> types.CreateMessageRequest:
    """Ask a model."""
    messages = [types.SamplingMessage(role="user", content=text(prompt))]
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=messages, max_tokens=max_tokens))


# -- tools that ask for more input (2026-07-28) ------------------------------------------------------------------------


def asking(requests: Mapping[str, types.InputRequest], told: str, state: str | None = None) -> ToolFunction:
    """A tool that is complete when every one of its requests has an answer."""

    async def ask(context: Context, params: types.CallToolRequestParams) -> Any:
        answers = params.input_responses or {}
        if not requests.keys() <= answers.keys() or (state and params.request_state != state):
            return types.InputRequiredResult(input_requests=dict(requests), request_state=state)
        answered = {key: answers[key].model_dump(mode="json", exclude_none=True) for key in requests}
        return reply(text(f"{told} {json.dumps(answered)}"))

    return ask


async def multi_round(context: Context, params: types.CallToolRequestParams) -> Any:
    """Two questions, one after the other, with a state that changes."""
    answers, state = params.input_responses or {}, params.request_state
    if state == "round 2" and "step2" in answers:
        return reply(text("Thank you, that was all."))
    if state == "round 1" and "step1" in answers:
        asked = {"step2": form("Step 2: What is your favorite color?", FORMS["color"])}
        return types.InputRequiredResult(input_requests=asked, request_state="round 2")
    asked = {"step1": form("Step 1: What is your name?", FORMS["name"])}
    return types.InputRequiredResult(input_requests=asked, request_state="round 1")


async def what_it_can(context: Context, params: types.CallToolRequestParams) -> Any:
    """Only what the client has declared is asked of it."""
    can = context.session.client_capabilities or types.ClientCapabilities()
    asked: dict[str, types.InputRequest] = {}
    if can.sampling is not None:
        asked["sampled"] = sample("Say hello.", 50)
    if can.elicitation is not None:
        asked["elicited"] = form("What is your name?", FORMS["name"])
    return (
        types.InputRequiredResult(input_requests=asked) if asked else reply(text("This client can do nothing for us."))
    )


async def missing_capability(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """A tool that cannot work without the client's model."""
    can = context.session.client_capabilities
    if can is None or can.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", needed)
    return reply(text("It has all it needs."))


ROOTS = types.ListRootsRequest()

TOOLS: Mapping[str, ToolFunction] = {
    **{name: at_once(make) for name, make in SIMPLE.items()},
    "test_tool_with_logging": with_logging,
    "test_tool_with_progress": with_progress,
    "test_sampling": sampling,
    "test_elicitation": eliciting(FORMS["person"], "User response"),
    "test_elicitation_sep1034_defaults": eliciting(FORMS["defaults"], "Elicitation completed"),
    "test_elicitation_sep1330_enums": eliciting(FORMS["enums"], "Elicitation completed"),
    "test_missing_capability": missing_capability,
    "test_streaming_elicitation": asking({"user_name": form("What is your name?", FORMS["name"])}, "Hello"),
    "test_input_required_result_elicitation": asking({"user_name": form("What is your name?", FORMS["name"])}, "Hello"),
    "test_input_required_result_sampling": asking({"capital_question": sample("What is the capital of France?", 100)}, "Said"),
    "test_input_required_result_list_roots": asking({"client_roots": ROOTS}, "Roots"),
    "test_input_required_result_request_state": asking({"confirm": form("Please confirm", FORMS["ok"])}, "state-ok", "asked once"),
    "test_input_required_result_tampered_state": asking({"confirm": form("Please confirm", FORMS["ok"])}, "state-ok", "asked once"),
    "test_input_required_result_multiple_inputs": asking(
        {"user_name": form("What is your name?", FORMS["name"]), "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS},
        "All there:",
        "asked three",
    ),
    "test_input_required_result_multi_round": multi_round,
    "test_input_required_result_capabilities": what_it_can,
}  # fmt: skip

NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}}


def listed_tools() -> list[types.Tool]:
    """The tools as `tools/list` shows them."""
    return [
        types.Tool(
            name=name,
            description=f"A tool of the conformance suite: {name}.",
            input_schema=dict(SCHEMAS.get(name, NOTHING)),
        )
        for name in TOOLS
    ]


# -- resources --------------------------------------------------------------------------------------------------------

RESOURCES: Mapping[str, types.TextResourceContents | types.BlobResourceContents] = {
    "test://static-text": types.TextResourceContents(
        uri="test://static-text", mime_type="text/plain", text="This is the content of the static text resource."
    ),
    "test://static-binary": types.BlobResourceContents(uri="test://static-binary", mime_type="image/png", blob=png()),
    "test://watched-resource": types.TextResourceContents(
        uri="test://watched-resource", mime_type="text/plain", text="Watched."
    ),
}


def listed_resources() -> list[types.Resource]:
    """The resources as `resources/list` shows them."""
    return [
        types.Resource(
            uri=uri, name=uri.removeprefix("test://"), description="Of the conformance suite.", mime_type=one.mime_type
        )
        for uri, one in RESOURCES.items()
    ]


TEMPLATE = types.ResourceTemplate(
    uri_template="test://template/{id}/data",
    name="template",
    description="Of the conformance suite.",
    mime_type="application/json",
)


def templated(uri: str) -> types.TextResourceContents | None:
    """The resource of the template that `uri` fills in."""
    key = uri.removeprefix("test://template/").removesuffix("/data")
    if uri != f"test://template/{key}/data":
        return None
    told = {"id": key, "templateTest": True, "data": f"Data for ID: {key}"}
    return types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(told))


# -- prompts ----------------------------------------------------------------------------------------------------------


def message(block: types.ContentBlock) -> types.PromptMessage:
    """What the user says."""
    return types.PromptMessage(role="user", content=block)


def embedded(uri: str) -> list[types.PromptMessage]:
    """A resource, and what to do with it."""
    shown = resource(uri, "text/plain", "Embedded resource content for testing.")
    return [message(shown), message(text("Please process the embedded resource above."))]


PROMPTS: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, str]], list[types.PromptMessage]]]] = {
    "test_simple_prompt": ((), lambda _: [message(text("This is a simple prompt for testing."))]),
    "test_prompt_with_arguments": (
        ("arg1", "arg2"),
        lambda given: [message(text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))],
    ),
    "test_prompt_with_embedded_resource": (("resourceUri",), lambda given: embedded(given["resourceUri"])),
    "test_prompt_with_image": ((), lambda _: [message(image()), message(text("Please analyze the image above."))]),
    "test_input_required_result_prompt": ((), lambda _: [message(text("With the context you gave."))]),
}
"""Each prompt's arguments, all required, and what it says."""


def listed_prompts() -> list[types.Prompt]:
    """The prompts as `prompts/list` shows them."""
    return [
        types.Prompt(
            name=name,
            description="Of the conformance suite.",
            arguments=[
                types.PromptArgument(name=each, description="Of the suite.", required=True) for each in arguments
            ],
        )
        for name, (arguments, _) in PROMPTS.items()
    ]


def prompted(params: types.GetPromptRequestParams) -> Any:
    """A prompt of ours to give, or what it still needs."""
    if params.name == "test_input_required_result_prompt" and "user_context" not in (params.input_responses or {}):
        return types.InputRequiredResult(
            input_requests={"user_context": form("What context should the prompt use?", FORMS["asked_context"])}
        )
    _, said = PROMPTS[params.name]
    return types.GetPromptResult(messages=said(params.arguments or {}))
