"""The hooks of clients: context that an agent is given without asking for it.

    event = parse_event("claude", "UserPromptSubmit", sys.stdin.read())
    reply = format_reply(event, HookResponder().answer(engine, event))

The formats of the clients are in `hook_events`, which imports the standard library alone; the others ask the Engine.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.hooks.hook_events import (
        CLIENTS,
        OTHER,
        PROMPT,
        HookEvent,
        HookInputError,
        format_reply,
        parse_event,
    )
    from context_engine.hooks.hook_responder import HookResponder

__all__ = [
    "CLIENTS",
    "OTHER",
    "PROMPT",
    "HookEvent",
    "HookInputError",
    "HookResponder",
    "format_reply",
    "parse_event",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "CLIENTS": "hook_events",
        "HookEvent": "hook_events",
        "HookInputError": "hook_events",
        "HookResponder": "hook_responder",
        "OTHER": "hook_events",
        "PROMPT": "hook_events",
        "format_reply": "hook_events",
        "parse_event": "hook_events",
    },
)
