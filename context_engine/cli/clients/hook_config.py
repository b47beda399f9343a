r"""PURE. The hooks of clients in their settings: our entries are added and removed, those of others stay as they are.

>>> form = HookFormat((), "", {"stop": ""}, is_flat=True, head={"version": 1})
>>> remove_hooks(form, add_hooks(form, "", lambda event: f"ctx hook {event}"))
'{\n  "version": 1\n}\n'
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from context_engine.cli.clients import jsonc_editor
from context_engine.cli.clients.client_table import HookFormat
from context_engine.cli.clients.launch_command import starts_ctx

SECTION = "hooks"


def add_hooks(form: HookFormat, text: str, command: Callable[[str], str]) -> str:
    """Return the settings with our hooks, each once. `command` returns the command line of an event.

    Raises: InvalidArgument if the text cannot be read.
    """
    for event, matcher in form.events.items():
        item: dict[str, Any] = {"command": command(event), "timeout": form.timeout}
        if not form.is_flat:
            item = {"hooks": [{"type": "command", **item}]}
        if matcher:
            item = {"matcher": matcher, **item}
        path = (SECTION, event)
        present = jsonc_editor.get_value(text, path)
        if not isinstance(present, list) or [own for own in present if _is_ours(own)] != [item]:
            text = jsonc_editor.append_item(jsonc_editor.remove_items(text, path, _is_ours), path, item)
    for key, value in form.head.items():
        if jsonc_editor.get_value(text, (key,)) is None:
            text = jsonc_editor.set_entry(text, (), {key: value})
    return text


def remove_hooks(form: HookFormat, text: str) -> str:
    """Return the settings without our hooks. Raises: as `add_hooks`."""
    if not isinstance(jsonc_editor.get_value(text, (SECTION,)), dict):
        return text
    for event in form.events:
        text = jsonc_editor.remove_items(text, (SECTION, event), _is_ours)
    if jsonc_editor.get_value(text, (SECTION,)) == {}:
        return jsonc_editor.remove_entry(text, (SECTION,))
    return text


def _is_ours(item: Any) -> bool:
    """Whether an item of an event has nothing but hooks of ctx."""
    handlers = item.get("hooks", [item]) if isinstance(item, dict) else None
    return isinstance(handlers, list) and bool(handlers) and all(map(_starts_our_hook, handlers))


def _starts_our_hook(handler: Any) -> bool:
    command = handler.get("command") if isinstance(handler, dict) else None
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return "hook" in words and starts_ctx(words[: words.index("hook")])
