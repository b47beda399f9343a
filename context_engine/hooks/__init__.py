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
        SESSION,
        HookEvent,
        HookInputError,
        format_reply,
        parse_event,
    )
    from context_engine.hooks.hook_responder import HookResponder


__getattr__ = lazy_exports(__name__)
