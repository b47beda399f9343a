"""Answers events of hooks by asking the Engine, and remembers what each session was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from context_engine.context import ShownLines, ShownLinesBySession
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

RESUMED = "resume"
"""A session that starts otherwise, or a subagent, has nothing of what was given before in its window."""


class HookResponder:
    """Answers the hooks of many sessions. Thread-safe."""

    def __init__(self, shown: ShownLinesBySession | None = None) -> None:
        """`shown` has what the tools showed to the same clients, and gets what they are given and read."""
        self._shown = shown or ShownLinesBySession()

    def answer(self, engine: Engine, event: HookEvent, *, client: int = 0) -> str:
        """Return the context for an event, with secrets redacted; empty if there is nothing to say.

        `client` is the process that runs the hook, 0 if unknown.

        Raises: ContextEngineError, such as NotIndexed.
        """
        with collect_redactions():
            shown = self._shown.get(event.session, str(engine.root), client=client)
            text = self._answer(engine, event, shown).encode("utf-8", "replace").decode("utf-8")
            return escape_controls(redact_reply(text).text)

    def _answer(self, engine: Engine, event: HookEvent, shown: ShownLines) -> str:
        match event.kind:
            case hook_events.PROMPT if event.prompt.strip():
                shown.prompt = event.prompt
                return build_prompt_context(event.prompt, engine, shown)
            case hook_events.SESSION | hook_events.SUBAGENT:
                if event.source != RESUMED:
                    shown.clear()
                return describe_repository(event.client, engine)
            case hook_events.SEARCH:
                return describe_matches(event, engine, shown)
            case hook_events.READ:
                if event.last:  # what the client has read need not be given again
                    file = engine.files.read(join_folder(event.path, event), first=event.first, last=event.last)
                    shown.add(file.path, file.span.first, file.text)
                return describe_read(event, engine, shown.prompt, shown)
            case hook_events.EDIT:
                return describe_edit(event, engine, shown)
        return ""
