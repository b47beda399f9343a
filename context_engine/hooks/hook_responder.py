"""Answers events of hooks by asking the Engine, and remembers what each session was given."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from context_engine.context import ShownLinesBySession
from context_engine.hooks import hook_events
from context_engine.hooks.hook_events import HookEvent
from context_engine.hooks.prompt_context import build_prompt_context
from context_engine.hooks.tool_notes import (
    describe_edit,
    describe_matches,
    describe_read,
    describe_repository,
    join_folder,
)
from context_engine.secrets import collect_redactions, redact_reply
from context_engine.text import escape_controls

if TYPE_CHECKING:
    from context_engine.engine import Engine

PROMPTS_KEPT = 64
"""Sessions whose last prompt is kept, for the notes about files that they read."""
FRESH_SOURCES = frozenset(("startup", "clear", "compact"))
"""A session that starts like this has nothing of what it was given before in its window."""


class HookResponder:
    """Answers the hooks of many sessions. Thread-safe."""

    def __init__(self) -> None:
        self._shown = ShownLinesBySession()
        self._prompts: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, engine: Engine, event: HookEvent) -> str:
        """Return the context for an event, with secrets redacted; empty if there is nothing to say.

        Raises: ContextEngineError, such as NotIndexed.
        """
        with collect_redactions():
            text = self._answer(engine, event).encode("utf-8", "replace").decode("utf-8")
            return escape_controls(redact_reply(text).text)

    def _answer(self, engine: Engine, event: HookEvent) -> str:
        shown = self._shown.get(event.session, str(engine.root))
        match event.kind:
            case hook_events.PROMPT if event.prompt.strip():
                with self._lock:
                    self._prompts[event.session] = event.prompt
                    self._prompts.move_to_end(event.session)
                    if len(self._prompts) > PROMPTS_KEPT:
                        self._prompts.popitem(last=False)
                return build_prompt_context(event.prompt, engine, shown)
            case hook_events.SESSION | hook_events.SUBAGENT:
                if event.source in FRESH_SOURCES:
                    self._shown.forget(event.session, str(engine.root))
                return describe_repository(event.client, engine)
            case hook_events.SEARCH:
                return describe_matches(event, engine, shown)
            case hook_events.READ:
                if event.path:  # what the client has read need not be given again
                    lines = (event.first, event.last) if event.last else (None, None)
                    file = engine.files.read(join_folder(event.path, event), first=lines[0], last=lines[1])
                    shown.add(file.path, file.span.first, file.text)
                with self._lock:
                    prompt = self._prompts.get(event.session, "")
                return describe_read(event, engine, prompt, shown)
            case hook_events.EDIT:
                return describe_edit(event, engine, shown)
        return ""
