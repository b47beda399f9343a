r"""PURE. The hooks of clients in their settings: our entries are added and removed, those of others stay as they are.

Formats, read in November 2026. Claude Code: https://code.claude.com/docs/en/hooks (settings.json, seconds). Codex:
https://developers.openai.com/codex/hooks (hooks.json next to config.toml, seconds; the user trusts new hooks first).
Gemini CLI: docs/hooks/reference.md of google-gemini/gemini-cli (settings.json, milliseconds). Cursor:
https://cursor.com/docs/hooks (hooks.json, seconds).

>>> text = add_hooks(FORMATS["cursor"], "", lambda event: f"ctx hook {event}")
>>> remove_hooks(FORMATS["cursor"], text)
'{\n  "version": 1\n}\n'
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from context_engine.cli.clients import jsonc_editor
from context_engine.cli.clients.launch_command import starts_ctx

SECTION = "hooks"
PATIENCE_S = 10
"""The client then goes on without the reply. A warm answer takes 0.1 s, a first one starts the Engine."""


@dataclass(frozen=True, slots=True)
class HookFormat:
    """The hooks of a client: patterns of the user's file, the file in a project, and the events with their matchers.

    `is_flat`: a handler is an item of the event's list, without a group around it. `head` are members that the file
    needs. `after` says what remains to be done.
    """

    user: tuple[str, ...]
    project: str
    events: tuple[tuple[str, str], ...]
    timeout: int = PATIENCE_S
    is_flat: bool = False
    head: tuple[tuple[str, Any], ...] = ()
    after: str = ""


FORMATS: Mapping[str, HookFormat] = {
    "claude": HookFormat(
        user=("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"),
        project=".claude/settings.json",
        events=(
            ("UserPromptSubmit", ""),
            ("SessionStart", ""),
            ("SubagentStart", ""),
            ("PostToolUse", "Grep|Read|Edit|MultiEdit|Write|Bash"),
        ),
    ),
    "codex": HookFormat(
        user=("$CODEX_HOME/hooks.json", "~/.codex/hooks.json"),
        project=".codex/hooks.json",
        events=(
            ("UserPromptSubmit", ""),
            ("SessionStart", ""),
            ("SubagentStart", ""),
            ("PostToolUse", "Bash|apply_patch"),
        ),
        after="Codex runs new hooks only after you trust them: type /hooks in it.",
    ),
    "gemini": HookFormat(
        user=("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
        project=".gemini/settings.json",
        events=(
            ("BeforeAgent", ""),
            ("SessionStart", ""),
            ("AfterTool", "grep_search|search_file_content|read_file|replace|write_file|run_shell_command"),
        ),
        timeout=PATIENCE_S * 1_000,
    ),
    "cursor": HookFormat(
        user=("~/.cursor/hooks.json",),
        project=".cursor/hooks.json",
        events=(("beforeSubmitPrompt", ""), ("sessionStart", ""), ("postToolUse", "Grep|Read|Write|Shell")),
        is_flat=True,
        head=(("version", 1),),
    ),
}
"""The clients with hooks in a settings file."""


def add_hooks(form: HookFormat, text: str, command: Callable[[str], str]) -> str:
    """Return the settings with our hooks, each once. `command` returns the command line of an event.

    Raises: InvalidArgument if the text cannot be read.
    """
    for event, matcher in form.events:
        item = _build_item(form, command(event), matcher)
        path = (SECTION, event)
        present = jsonc_editor.get_value(text, path)
        if isinstance(present, list) and [own for own in present if _is_ours(own)] == [item]:
            continue
        text = jsonc_editor.append_item(jsonc_editor.remove_items(text, path, _is_ours), path, item)
    for key, value in form.head:
        if jsonc_editor.get_value(text, (key,)) is None:
            text = jsonc_editor.set_entry(text, (), {key: value})
    return text


def remove_hooks(form: HookFormat, text: str) -> str:
    """Return the settings without our hooks. Raises: as `add_hooks`."""
    present = jsonc_editor.get_value(text, (SECTION,))
    if not isinstance(present, dict):
        return text
    for event, _ in form.events:
        text = jsonc_editor.remove_items(text, (SECTION, event), _is_ours)
    if jsonc_editor.get_value(text, (SECTION,)) == {}:
        return jsonc_editor.remove_entry(text, (SECTION,))
    return text


def _build_item(form: HookFormat, command: str, matcher: str) -> dict[str, Any]:
    handler = {"command": command, "timeout": form.timeout}
    chosen = {"matcher": matcher} if matcher else {}
    if form.is_flat:
        return {**chosen, **handler}
    return {**chosen, "hooks": [{"type": "command", **handler}]}


def _is_ours(item: Any) -> bool:
    """Whether an item of an event has nothing but hooks of ctx."""
    if not isinstance(item, dict):
        return False
    handlers = item.get("hooks", [item])
    return isinstance(handlers, list) and bool(handlers) and all(map(_starts_our_hook, handlers))


def _starts_our_hook(handler: Any) -> bool:
    command = None
    if isinstance(handler, dict):
        command = handler.get("command")
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return "hook" in words and starts_ctx(words[: words.index("hook")])
