"""Each client's JSON in, and what it expects out; whatever else comes in is refused without a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.hooks import CLIENTS, HookEvent, HookInputError, format_reply, parse_event
from context_engine.hooks.hook_events import OUTPUT_CHARS_MAX, PROMPT_CHARS_MAX

BASE = {"session_id": "s1", "transcript_path": "/home/me/t.jsonl", "cwd": "/work/shop", "permission_mode": "default"}
CURSOR = {
    "conversation_id": "s1",
    "generation_id": "g",
    "workspace_roots": ["/work/shop"],
    "model": "m",
    "user_email": "a@b",
}
PATCH = """*** Begin Patch
*** Update File: src/pool.py
@@
-    old = 1
+    new = 1
*** End Patch"""


def parse(client: str, name: str, given: dict[str, Any]) -> HookEvent:
    return parse_event(client, name, json.dumps(given))


@pytest.mark.parametrize(
    ("client", "name", "given"),
    [
        ("claude", "UserPromptSubmit", {**BASE, "hook_event_name": "UserPromptSubmit", "prompt": "why?"}),
        ("codex", "UserPromptSubmit", {**BASE, "turn_id": "1", "model": "m", "prompt": "why?"}),
        ("gemini", "BeforeAgent", {**BASE, "timestamp": "2026-11-23T00:00:00Z", "prompt": "why?"}),
        ("gemini", "BeforeAgent", {**BASE, "prompt": "<hook_context>Code is in src/.</hook_context>\n\nwhy?"}),
        ("cursor", "beforeSubmitPrompt", {**CURSOR, "prompt": "why?", "attachments": []}),
        ("opencode", "chat.message", {"session_id": "s1", "cwd": "/work/shop", "prompt": "why?"}),
    ],
)
def test_a_prompt_of_each_client_is_read(client: str, name: str, given: dict[str, Any]) -> None:
    assert parse(client, name, given) == HookEvent(client, name, "prompt", "s1", "/work/shop", "why?")


@pytest.mark.parametrize(
    ("client", "name", "given"),
    [
        ("claude", "SessionStart", {**BASE, "source": "compact"}),
        ("codex", "SessionStart", {**BASE, "source": "compact", "model": "m"}),
        ("gemini", "SessionStart", {**BASE, "source": "compact"}),
        ("cursor", "sessionStart", {**CURSOR, "source": "compact"}),
        ("opencode", "session.created", {**BASE, "source": "compact"}),
    ],
)
def test_the_start_of_a_session_says_why_it_starts(client: str, name: str, given: dict[str, Any]) -> None:
    assert parse(client, name, given) == HookEvent(client, name, "session", "s1", "/work/shop", source="compact")


SEARCHES = [
    (
        "claude",
        "PostToolUse",
        "Grep",
        {"pattern": "drain"},
        {"tool_response": {"content": "a.py:3:x", "mode": "content"}},
    ),
    ("claude", "PostToolUse", "Bash", {"command": "rg -n drain | head"}, {"tool_response": {"stdout": "a.py:3:x"}}),
    ("codex", "PostToolUse", "Bash", {"command": "git grep -n drain"}, {"tool_response": "a.py:3:x"}),
    ("gemini", "AfterTool", "grep_search", {"pattern": "drain"}, {"tool_response": {"llmContent": "a.py:3:x"}}),
    ("cursor", "postToolUse", "Grep", {"pattern": "drain"}, {"tool_output": "a.py:3:x"}),
    ("opencode", "tool.execute.after", "grep", {"pattern": "drain"}, {"tool_response": "a.py:3:x"}),
]


@pytest.mark.parametrize(("client", "name", "tool", "arguments", "response"), SEARCHES)
def test_a_search_of_each_client_is_read(
    client: str, name: str, tool: str, arguments: dict[str, Any], response: dict[str, Any]
) -> None:
    base = CURSOR if client == "cursor" else BASE
    event = parse(client, name, {**base, "tool_name": tool, "tool_input": arguments, **response})
    assert (event.kind, event.pattern, event.output) == ("search", "drain", "a.py:3:x")


@pytest.mark.parametrize(
    ("client", "name", "tool", "arguments", "lines"),
    [
        ("claude", "PostToolUse", "Read", {"file_path": "/work/shop/a.py", "offset": 10, "limit": 5}, (10, 14)),
        ("claude", "PostToolUse", "Read", {"file_path": "/work/shop/a.py"}, (0, 0)),
        ("codex", "PostToolUse", "Bash", {"command": "sed -n '10,14p' /work/shop/a.py"}, (10, 14)),
        ("codex", "PostToolUse", "Bash", {"command": "cat /work/shop/a.py"}, (0, 0)),
        ("gemini", "AfterTool", "read_file", {"absolute_path": "/work/shop/a.py"}, (0, 0)),
        ("opencode", "tool.execute.after", "read", {"filePath": "/work/shop/a.py", "offset": 10, "limit": 5}, (10, 14)),
    ],
)
def test_a_read_names_its_file_and_lines_and_never_its_text(
    client: str, name: str, tool: str, arguments: dict[str, Any], lines: tuple[int, int]
) -> None:
    response = {"type": "text", "file": {"content": "password"}}
    event = parse(client, name, {**BASE, "tool_name": tool, "tool_input": arguments, "tool_response": response})
    assert (event.kind, event.path, (event.first, event.last)) == ("read", "/work/shop/a.py", lines)
    assert "password" not in repr(event)


@pytest.mark.parametrize(
    ("client", "name", "tool", "arguments"),
    [
        ("claude", "PostToolUse", "Edit", {"file_path": "src/pool.py", "old_string": "    old = 1", "new_string": "    new = 1"}),
        ("claude", "PostToolUse", "MultiEdit", {"file_path": "src/pool.py", "edits": [{"old_string": "    old = 1", "new_string": "    new = 1"}]}),
        ("codex", "PostToolUse", "apply_patch", {"command": PATCH}),
        ("gemini", "AfterTool", "replace", {"file_path": "src/pool.py", "old_string": "    old = 1", "new_string": "    new = 1"}),
        ("opencode", "tool.execute.after", "edit", {"filePath": "src/pool.py", "oldString": "    old = 1", "newString": "    new = 1"}),
    ],
)  # fmt: skip
def test_an_edit_names_its_file_and_both_texts(client: str, name: str, tool: str, arguments: dict[str, Any]) -> None:
    event = parse(client, name, {**BASE, "tool_name": tool, "tool_input": arguments, "tool_response": {}})
    assert (event.kind, event.path) == ("edit", "src/pool.py")
    assert (event.replaced, event.written) == ("    old = 1", "    new = 1")


@pytest.mark.parametrize(
    "command",
    ["rm -rf /", "make test", "sed -i s/a/b/ x", "echo 'open", "", "rg", "cat", "sed -n $p x", "(cat x)", "| cat x"],
)
def test_other_shell_commands_are_none_of_our_business(command: str) -> None:
    given = {**BASE, "tool_name": "Bash", "tool_input": {"command": command}, "tool_response": "x"}
    event = parse("claude", "PostToolUse", given)
    assert event == HookEvent("claude", "PostToolUse", "other", "s1", "/work/shop")


@pytest.mark.parametrize("client", [*CLIENTS])
def test_the_reply_is_what_the_client_documents(client: str) -> None:
    for name, kind in CLIENTS[client].items():
        reply = format_reply(HookEvent(client, name, kind), "text")
        if client == "cursor":
            assert reply.pop("continue", True) is True
            assert reply == {"additional_context": "text"}
        else:
            assert reply == {"hookSpecificOutput": {"hookEventName": name, "additionalContext": "text"}}
        assert format_reply(HookEvent(client, name, kind), "") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "[" * 100_000, '{"a": ' * 100_000])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(HookInputError):
        parse_event("claude", "UserPromptSubmit", text)


@pytest.mark.parametrize(("client", "name"), [("emacs", "UserPromptSubmit"), ("claude", "BeforeAgent"), ("", "")])
def test_unknown_clients_and_events_are_refused(client: str, name: str) -> None:
    with pytest.raises(HookInputError, match="no hook"):
        parse_event(client, name, "{}")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
KEYS = (
    *("session_id", "cwd", "prompt", "tool_name", "tool_input", "tool_response", "tool_output", "source"),
    *("workspace_roots", "conversation_id"),
)
TOOL_KEYS = ("command", "file_path", "pattern", "edits", "offset", "limit", "old_string", "path")


@given(
    st.sampled_from([(client, name) for client, names in CLIENTS.items() for name in names]),
    st.dictionaries(st.sampled_from(KEYS), anything),
    st.sampled_from(["Grep", "Read", "Edit", "Bash", "apply_patch", ""]),
    st.dictionaries(st.sampled_from(TOOL_KEYS), anything),
)
def test_any_json_object_becomes_an_event(
    which: tuple[str, str], given_members: dict[str, Any], tool: str, arguments: dict[str, Any]
) -> None:
    for members in (given_members, {**given_members, "tool_name": tool, "tool_input": arguments}):
        event = parse(*which, members)
        texts = [value for value in event if not isinstance(value, int)]
        assert all(isinstance(text, str) for text in texts)


def test_huge_texts_are_cut() -> None:
    event = parse("claude", "UserPromptSubmit", {**BASE, "prompt": "x" * 5_000_000})
    assert len(event.prompt) == PROMPT_CHARS_MAX
    found = {**BASE, "tool_name": "Grep", "tool_input": {"pattern": "x"}, "tool_response": "a.py:1:x\n" * 500_000}
    assert len(parse("claude", "PostToolUse", found).output) == OUTPUT_CHARS_MAX
