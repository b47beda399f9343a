"""PURE. The events of hooks: what each client sends, and what it expects as the reply. The standard library alone.

Only what a reply needs is taken from an event: not the transcript, not the model, not the text of a file that was
read.

Sources, read in November 2026. Claude Code: https://code.claude.com/docs/en/hooks (prompt, tool_name, tool_input,
tool_response; hookSpecificOutput.additionalContext). Codex: https://developers.openai.com/codex/hooks, and the schemas
in codex-rs/hooks/schema/generated of openai/codex (the same fields; tools are `Bash` and `apply_patch`, both with
tool_input.command). Gemini CLI: docs/hooks/reference.md of google-gemini/gemini-cli (BeforeAgent, AfterTool;
tool_response has llmContent). Cursor: https://cursor.com/docs/hooks (conversation_id, workspace_roots, tool_output;
additional_context, which beforeSubmitPrompt accepts although the page does not list it). opencode: Hooks in
packages/plugin/src/index.ts of anomalyco/opencode; they are functions, so our plugin sends the fields of Claude Code.

>>> event = parse_event("claude", "UserPromptSubmit", '{"session_id": "1", "cwd": "/src", "prompt": "where is drain?"}')
>>> event.kind, event.session, event.prompt
('prompt', '1', 'where is drain?')
>>> format_reply(event, "pool.py:7 defines it")["hookSpecificOutput"]["hookEventName"]
'UserPromptSubmit'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from context_engine.text import ParseError, read_json

PROMPT_CHARS_MAX = 65_536
"""As `QUESTION_CHARS_MAX` of the model, which this module must not import."""
OUTPUT_CHARS_MAX = 65_536
"""Of the output of a search: its first thousand matches."""
TEXT_CHARS_MAX = 20_000
"""Of a text that an edit replaced or wrote."""

PROMPT, SESSION, SUBAGENT = "prompt", "session", "subagent"
SEARCH, READ, EDIT, OTHER = "search", "read", "edit", "other"
"""The kinds of events. Tools that are none of these are `other`, and get no reply."""
_TOOL, _SHELL = "tool", "shell"

CLIENTS: Mapping[str, Mapping[str, str]] = {
    "claude": {"UserPromptSubmit": PROMPT, "SessionStart": SESSION, "SubagentStart": SUBAGENT, "PostToolUse": _TOOL},
    "codex": {"UserPromptSubmit": PROMPT, "SessionStart": SESSION, "SubagentStart": SUBAGENT, "PostToolUse": _TOOL},
    "gemini": {"BeforeAgent": PROMPT, "SessionStart": SESSION, "AfterTool": _TOOL},
    "cursor": {"beforeSubmitPrompt": PROMPT, "sessionStart": SESSION, "postToolUse": _TOOL},
    "opencode": {"chat.message": PROMPT, "session.created": SESSION, "tool.execute.after": _TOOL},
}
"""The events of each client that are answered, and their kinds."""

_TOOLS: Mapping[str, str] = {
    **dict.fromkeys(("grep", "glob", "grep_search", "search_file_content"), SEARCH),
    **dict.fromkeys(("read", "read_file"), READ),
    **dict.fromkeys(("edit", "multiedit", "write", "write_file", "replace", "apply_patch", "patch"), EDIT),
    **dict.fromkeys(("bash", "shell", "run_shell_command"), _SHELL),
}
"""The kinds of the clients' own tools, by their names in lower case."""
_SEARCH_PROGRAMS = frozenset(("rg", "grep", "egrep", "fgrep", "ag", "ack"))
_READ_PROGRAMS = frozenset(("cat", "bat", "less", "nl", "head", "tail"))
_PATCHED_FILE = re.compile(r"^\*\*\* (?:Update|Add) File: (.+)$", re.MULTILINE)
_RANGE = re.compile(r"(\d{1,9}),(\d{1,9})p")


class HookInputError(ValueError):
    """The input of a hook is not what the client's documentation says."""


class HookEvent(NamedTuple):
    """One event. `folder` is where the agent works.

    `path` and the lines `first`-`last` (0: unknown) are those that a tool read or searched; `pattern` is what it looked
    for, `output` what it found; `replaced` and `written` are the texts of an edit. `source` says why a session starts.
    """

    client: str
    name: str
    kind: str
    session: str = ""
    folder: str = ""
    prompt: str = ""
    path: str = ""
    first: int = 0
    last: int = 0
    pattern: str = ""
    output: str = ""
    replaced: str = ""
    written: str = ""
    source: str = ""


# -- reading an event -------------------------------------------------------------------------------------------------


def parse_event(client: str, name: str, text: str) -> HookEvent:
    """Return an event of a client from the JSON that it sends. Raises: HookInputError."""
    kind = CLIENTS.get(client, {}).get(name)
    if kind is None:
        raise HookInputError(f"{client} has no hook {name!r} that ctx answers")
    try:
        given = read_json(text, bytes_max=len(text))
    except ParseError as error:
        raise HookInputError(f"the input cannot be read: {error.reason}") from None
    if not isinstance(given, dict):
        raise HookInputError("the input is not a JSON object")
    roots = given.get("workspace_roots")
    folder = _text(given, "cwd") or (str(roots[0]) if isinstance(roots, list) and roots else "")
    event = HookEvent(
        *(client, name, kind, _text(given, "session_id", "conversation_id")),
        folder="" if "\0" in folder else folder,
        source=_text(given, "source"),
    )
    if kind == PROMPT:
        prompt = _text(given, "prompt")
        context, end, rest = prompt.partition("</hook_context>")
        if end and context.lstrip().startswith("<hook_context>"):  # Gemini CLI hands that of the session start on
            prompt = rest.lstrip()
        return event._replace(prompt=prompt[:PROMPT_CHARS_MAX])
    return _add_tool(event, given) if kind == _TOOL else event


def _add_tool(event: HookEvent, given: Mapping[str, Any]) -> HookEvent:
    """Return the event with what is needed of the call of a tool."""
    kind = _TOOLS.get(_text(given, "tool_name").lower(), OTHER)
    arguments = _object(given.get("tool_input"))
    response = given.get("tool_response", given.get("tool_output"))
    if kind == _SHELL:
        event = _add_shell(event, _text(arguments, "command"))
    else:
        path = _text(arguments, "file_path", "filePath", "absolute_path", "path", "dir_path")
        event = event._replace(kind=kind, path=path, pattern=_text(arguments, "pattern", "query"))
    if event.kind == SEARCH:
        return event._replace(output="\n".join(_list_texts(response))[:OUTPUT_CHARS_MAX])
    if event.kind == READ and not event.first:
        part = _object(_object(response).get("file"))
        first = _number(part.get("startLine")) or _number(arguments.get("offset"))
        count = _number(part.get("numLines")) or _number(arguments.get("limit"))
        return event._replace(first=first, last=first + count - 1 if first and count else 0)
    return _add_edit(event, arguments) if event.kind == EDIT else event


def _add_shell(event: HookEvent, command: str) -> HookEvent:
    """Return the event of a shell command that searches or reads; every other command is none of our business."""
    words = _split_command(command)
    words = words[1:] if words[:2] == ["git", "grep"] else words
    program = words[0].rpartition("/")[2] if words else ""
    operands = [word for word in words[1:] if not word.startswith("-")]
    if program in _SEARCH_PROGRAMS and operands:
        return event._replace(kind=SEARCH, pattern=operands[0], path=operands[1] if len(operands) == 2 else "")
    if program in _READ_PROGRAMS and operands:
        return event._replace(kind=READ, path=operands[-1])
    if program == "sed" and operands and "|" not in command and (lines := _RANGE.fullmatch(operands[0])):
        return event._replace(kind=READ, path=operands[-1], first=int(lines[1]), last=int(lines[2]))
    return event._replace(kind=OTHER)


def _split_command(command: str) -> list[str]:
    """Return the words of the first program of a command line; none if it cannot be split."""
    import shlex  # no other event needs it

    lexer = shlex.shlex(command[:2_000], posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if word[0] in "|&;<>()":
                break
            words.append(word)
    except ValueError:  # a quotation has no end
        return []
    return words


def _add_edit(event: HookEvent, arguments: Mapping[str, Any]) -> HookEvent:
    """Return the event of an edit with the texts that it replaced and wrote."""
    if patch := _text(arguments, "command", "patch", "patchText", "input"):
        lines = patch[:OUTPUT_CHARS_MAX].split("\n")
        named = _PATCHED_FILE.search(patch)
        event = event._replace(path=named[1].strip() if named else "")
        replaced = [line[1:] for line in lines if line.startswith("-")]
        written = [line[1:] for line in lines if line.startswith("+")]
    else:
        given = arguments.get("edits")
        edits = [edit for edit in (given if isinstance(given, list) else [arguments]) if isinstance(edit, dict)]
        replaced = [_text(edit, "old_string", "oldString") for edit in edits]
        written = [_text(edit, "new_string", "newString", "content") for edit in edits]
    texts = ["\n".join(texts)[:TEXT_CHARS_MAX] for texts in (replaced, written)]
    return event._replace(replaced=texts[0], written=texts[1])


def _list_texts(response: Any) -> list[str]:
    """Return the texts of a tool's response, whatever its format."""
    if isinstance(response, str):
        return [response[:OUTPUT_CHARS_MAX]]
    if isinstance(response, list):
        return [item for item in response[:1_000] if isinstance(item, str)]
    texts: list[str] = []
    for key in ("content", "stdout", "output", "llmContent", "filenames"):
        value = _object(response).get(key)
        texts += _list_texts(value) if isinstance(value, str | list) else []
    return texts


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(given: Mapping[str, Any], *keys: str) -> str:
    """Return the first of the members that is a text."""
    return next((given[key] for key in keys if isinstance(given.get(key), str) and given[key]), "")


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1_000_000_000 else 0


# -- writing a reply --------------------------------------------------------------------------------------------------


def format_reply(event: HookEvent, context: str) -> dict[str, Any]:
    """Return what the client of an event expects, with the context for its agent; {} without any."""
    if not context:
        return {}
    if event.client != "cursor":
        return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": context}}
    allowed = {"continue": True} if event.kind == PROMPT else {}
    return {**allowed, "additional_context": context}
